/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Small first, for flows: in which band a packet waits, at a host's network
 * queue and, as a tag, at switches.
 *
 * A flow is what a VM sends from one source address and port to one destination
 * address and port by one protocol; where a packet has no ports, what it sends from
 * one address to the other by that protocol. Below it is called a pair, of two ends.
 * What it sends is line time (line.h). A packet is SMALL if the pair's bucket holds
 * its line time and its VM's bucket does, too; the VM's is charged only with what
 * goes as small, so that a VM's bulk traffic does not make its short flows large,
 * and one that slices its traffic into many pairs gains nothing by it.
 *
 * A pair whose packet was not small is LARGE, and stays so until its bucket has
 * been full again: after burst / rate of quiet at most, 24 ms with the defaults. No
 * timer looks after it. Else a bulk flow would have as many packets small as its rate allows,
 * each of which overtakes the large ones before it. For the same reason a pair is
 * large if it was its VM's bucket that lacked the tokens; with little taken out of
 * its own bucket this is over soon, 0.16 ms after a packet of 200 bytes with them. Large
 * packets take what tokens there are; what lacks is not owed.
 *
 * A pair is BRIEF while it is small, has just begun, and its VM has used no more
 * than half of what the VM's bucket can hold. So a VM that sprays, which is at the end
 * of its bucket all the time, is behind those that send little, if small at all.
 *
 * From one moment at which a pair's bucket is full to the next the bytes it has
 * sent count (attained), and give bands finer than small and large. In between,
 * its packets go to later bands only, never to earlier ones: who puts each band
 * in order keeps a pair's packets in order.
 *
 * A bucket is one number: the moment at which it will be full. What lacks in it
 * is that moment less now, at its rate; a packet moves the moment by its cost, and
 * not beyond now and what the whole burst takes. Costs are made once of the rate
 * (lt_flow_rule_init): no packet divides. They are rounded up, to 2^-16 ns a byte
 * and 1 ns a packet: nobody gets more than rate and burst and what the rate adds in
 * 1 ns; 64 bytes at 10 Mbit/s cost 1/50,000 too much at most, at 10 Gbit/s 1/50.
 *
 * State is bounded. Pairs are in sets of LT_FLOW_WAYS, each of which is one line
 * of the cache, with the caller's lock; which set, a keyed hash says. An entry
 * whose bucket would be full by now is the same as none and is used again: nobody
 * has to clean up. A pair that finds no entry is served last, never small for
 * free. A VM has at most LT_FLOW_WAYS_VM entries of a set, so one VM alone never
 * is the reason that another one's pair finds none. They are counted in the set
 * when it matters: no counter can go wrong.
 *
 * An entry knows its VM exactly, and 16 bits of its pair's hash besides those that
 * choose the set. Pairs of two VMs never share an entry; two pairs of one VM do if
 * these agree, by chance one in 65,536 times the sets. They share a bucket then,
 * which gains nobody anything.
 *
 * An entry has 40 bits of the clock, 18 minutes. One that is further ahead of now
 * than a whole burst and LT_FLOW_STEP_NS is full: so a clock that steps back by
 * more than that keeps nothing, and by less adds nothing. An entry that nobody
 * has looked at for 18 minutes, or a multiple, seems dry again for as long as that,
 * 91 ms with the defaults: its pair may be large then that should be small, never the
 * reverse.
 *
 * The caller owns the memory, zeroed is empty; it picks the set (lt_flow_hash,
 * lt_flow_index) and calls lt_flow_classify under the set's lock. A VM's bucket
 * needs none: it is changed by compare and swap, so that there are never two locks
 * at once, nor one after another.
 *
 * Clocks are ns of any origin, below 2^63.
 */
#ifndef LOWTAIL_FLOW_H
#define LOWTAIL_FLOW_H

#include "line.h"

/* Entries of a set: with their lock they are 64 bytes, a line of the cache. */
#define LT_FLOW_WAYS 5u
/* Those among them that one VM may have: two VMs can fill a set, one cannot. */
#ifndef LT_FLOW_WAYS_VM /* so that a test can differ */
#define LT_FLOW_WAYS_VM 3u
#endif
/* Highest number of a VM: 16 bits, less the one that is nobody. */
#define LT_FLOW_VM_MAX 65534u

/* Bits of an entry: large, attained bytes, the clock. */
#define LT_FLOW_ATTAINED_SHIFT 1
#define LT_FLOW_ATTAINED_MAX ((1u << 23) - 1)
#define LT_FLOW_CLOCK_SHIFT 24
#define LT_FLOW_CLOCK_END (1ull << 40)
/*
 * A clock that steps back by more than this, in ns, is a new clock: more than who has
 * read it waits for the set's lock. Less than elsewhere: an entry's clock comes round.
 */
#define LT_FLOW_STEP_NS (1ull << 26)

/* What is changed without a lock; who has one lock for all of it can say so. */
#ifndef LT_FLOW_SWAP
#define LT_FLOW_SWAP(at, old, new) __sync_bool_compare_and_swap(at, old, new)
#define LT_FLOW_COUNT(at) ((void)__sync_fetch_and_add(at, 1))
#endif
#ifndef LT_FLOW_TRIES /* how often to try; each time one fails another has succeeded */
#define LT_FLOW_TRIES 16u
#endif

/*
 * BPF has no conditional moves: of sums a compiler makes branches. And it keeps what
 * it has read for a new pair on the stack, for each packet.
 */
#ifdef __bpf__
#define LT_OPAQUE(x) asm("" : "+r"(x))
#define LT_FORGET() asm volatile("" : : : "memory")
#else
#define LT_OPAQUE(x)
#define LT_FORGET()
#endif

/* The caller's lock, of 4 bytes. The rule does not look at it. */
#ifndef LT_FLOW_LOCK
#define LT_FLOW_LOCK lt_u32
#endif

/*
 * Bands, first to last. The first two are small. What a queue does with them is
 * its own; one that has two of them asks lt_flow_small.
 */
enum lt_flow_band {
	LT_FLOW_BRIEF,		/* small, has just begun, of a VM that sends little */
	LT_FLOW_SMALL,
	LT_FLOW_LARGE,		/* large since a short while */
	LT_FLOW_LONG,
	LT_FLOW_BULK,		/* the rest, and who has no entry */
	LT_FLOW_BANDS
};

/* Parameters; LT_FLOW_PARAMS_DEFAULT has the defaults and the reason for each. */
struct lt_flow_params {
	lt_u32 rate;		/* of a pair, line time per time, 16.16: 64 to LT_RATE_MAX */
	lt_u32 burst_ns;	/* of a pair: 0 to what the rate adds in 2^30 ns */
	lt_u32 vm_rate;		/* of a VM: 64 to LT_RATE_MAX */
	lt_u32 vm_burst_ns;	/* of a VM: 0 to LT_BURST_MAX_NS */
	lt_u32 brief_bytes;	/* up to here a small pair is LT_FLOW_BRIEF */
	lt_u32 large_bytes;	/* up to here a large one is LT_FLOW_LARGE */
	lt_u32 long_bytes;	/* and up to here LT_FLOW_LONG; these below 2^23 - 1 */
	lt_u32 pad;
};

/*
 * rate, burst 10 Mbit/s and 30 KB: what "Small is Better" (SoCC'13) gives a pair;
 *	655 / 65536 of 1 Gbit/s is 10 Mbit/s.
 * vm_rate, vm_burst ten pairs' worth: 100 Mbit/s is what a VM may have before
 *	others' bulk traffic, whatever it does. A choice, not measured.
 * brief_bytes a quarter of the burst: one request or answer of some frames.
 * large_bytes, long_bytes 100 KB and 1 MB: the bounds between short, medium and long
 *	flows that measurements of data centres have in use.
 */
#define LT_FLOW_PARAMS_DEFAULT {			\
	.rate = 655,					\
	.burst_ns = 30000u << LT_BYTE_SHIFT,		\
	.vm_rate = 6554,				\
	.vm_burst_ns = 300000u << LT_BYTE_SHIFT,	\
	.brief_bytes = 7500,				\
	.large_bytes = 100000,				\
	.long_bytes = 1000000,				\
}

/* The same as a packet needs it, made by lt_flow_rule_init. Costs are time, ns. */
struct lt_flow_rule {
	lt_u64 debt_ns;		/* time in which a pair's bucket fills */
	lt_u64 ahead_ns;	/* an entry that is further ahead is not: full */
	lt_u64 vm_debt_ns;	/* time in which a VM's bucket fills */
	lt_u32 cost;		/* of a pair's byte, 16 bits behind the point */
	lt_u32 vm_cost;		/* of a VM's */
	lt_u32 brief_bytes;
	lt_u32 large_bytes;
	lt_u32 long_bytes;
	lt_u32 pad;
};

/* Pairs of one hash; on a line of the cache, if the caller puts it there. */
struct lt_flow_set {
	LT_FLOW_LOCK lock;
	/* Whose: number of the VM plus 1 and 16 bits of hash; 0 is no pair. */
	lt_u32 key[LT_FLOW_WAYS];
	/*
	 * Clock at which its bucket is full, bytes since it was full (ends at
	 * LT_FLOW_ATTAINED_MAX), and whether it is large.
	 */
	lt_u64 state[LT_FLOW_WAYS];
};

/*
 * A VM, or whatever the host knows a packet to be of, such as an interface; a
 * line of the cache, so that two do not share one.
 */
struct lt_flow_vm {
	lt_u64 full_ns;		/* clock at which its bucket is full */
	lt_u64 unknown;		/* packets that found no entry */
	lt_u64 refused;		/* packets that lacked this bucket's tokens only */
	lt_u64 pad[5];
};

/* ---- which pair, which set ------------------------------------------- */

/* Random numbers, drawn once and told nobody. */
struct lt_flow_seed {
	lt_u64 pair[8];		/* for lt_flow_hash */
	lt_u64 fold[5];		/* for lt_flow_fold */
	lt_u64 mix;
};

/*
 * Makes of a @sum of products a number each bit of which has to do with each of
 * the sum; no two sums become the same.
 */
LT_FN lt_u64 lt_flow_mix(lt_u64 sum, lt_u64 mix)
{
	sum = (sum ^ sum >> 32) * (mix | 1);
	sum = (sum ^ sum >> 32) * (mix | 1);
	return sum ^ sum >> 32;
}

/*
 * An address of 128 bits as one of 64. Two that become one share a bucket, if
 * they are of one VM: that gains nobody anything.
 */
LT_FN lt_u64 lt_flow_fold(const struct lt_flow_seed *seed, lt_u64 high, lt_u64 low)
{
	const lt_u64 *key = seed->fold;

	return lt_flow_mix(key[4] + key[0] * (lt_u32)high + key[1] * (high >> 32) +
			   key[2] * (lt_u32)low + key[3] * (low >> 32), seed->mix);
}

/*
 * What tells pairs of the same addresses apart: @protocol (8 bits) and ports (16 bits
 * each; any order of bytes, 0 where there are none).
 */
LT_FN lt_u64 lt_flow_ports(lt_u32 protocol, lt_u32 src, lt_u32 dst)
{
	return (lt_u64)protocol << 32 | src << 16 | dst;
}

/*
 * The hash of the pair @src, @dst, @ports (any values) of @vm. A sum of products of 32
 * bits with random 64: that two pairs agree in the upper half of the sum has a
 * chance of 2^-32 at most, whichever two they are, for who does not know the seed.
 * The mix hides the sum, so that one collision found does not tell others. The
 * upper half of the hash chooses the set, the lower 16 bits know the pair in it.
 */
LT_FN lt_u64 lt_flow_hash(const struct lt_flow_seed *seed, lt_u32 vm, lt_u64 src,
			  lt_u64 dst, lt_u64 ports)
{
	const lt_u64 *key = seed->pair;

	return lt_flow_mix(key[5] + key[0] * (lt_u32)src + key[1] * (src >> 32) +
			   key[2] * (lt_u32)dst + key[3] * (dst >> 32) + key[4] * vm +
			   key[6] * (lt_u32)ports + key[7] * (ports >> 32),
			   seed->mix);
}

/* The set of a @hash, of 2^n: @mask is 2^n - 1, 0 to 2^32 - 1. */
LT_FN lt_u32 lt_flow_index(lt_u64 hash, lt_u32 mask)
{
	return (lt_u32)(hash >> 32) & mask;
}

/* What an entry of @vm (0 to LT_FLOW_VM_MAX) has of a @hash: never 0. */
LT_FN lt_u32 lt_flow_key(lt_u32 vm, lt_u64 hash)
{
	return (vm + 1) << 16 | (hash & 0xffff);
}

/* Whose entry a @key is: the number of the VM plus 1, 0 for nobody's. */
LT_FN lt_u32 lt_flow_owner(lt_u32 key)
{
	return key >> 16;
}

/* ---- what bytes cost ------------------------------------------------- */

/* Time that a byte costs at @rate (64 to LT_RATE_MAX), 16 bits behind the point. */
LT_FN lt_u32 lt_flow_byte_cost(lt_u32 rate)
{
	return lt_div_up((lt_u64)LT_RATE_ONE << (LT_BYTE_SHIFT + 16), rate);
}

/* Time in which @burst_ns of line time (to LT_BURST_MAX_NS) come, at @cost a byte. */
LT_FN lt_u64 lt_flow_debt(lt_u32 burst_ns, lt_u32 cost)
{
	return ((lt_u64)burst_ns * cost + (1u << (LT_BYTE_SHIFT + 16)) - 1) >>
	       (LT_BYTE_SHIFT + 16);
}

/* Time, ns, that a packet of @bytes (any value) costs, at @cost a byte: 1 to 2^39. */
LT_FN lt_u64 lt_flow_cost(lt_u32 bytes, lt_u32 cost)
{
	return (lt_line_bytes(bytes) * cost + 0xffff) >> 16;
}

/* Once, not for each packet: it divides. @p as FlowParams::check asks for. */
LT_FN void lt_flow_rule_init(struct lt_flow_rule *r, const struct lt_flow_params *p)
{
	r->cost = lt_flow_byte_cost(p->rate);
	r->vm_cost = lt_flow_byte_cost(p->vm_rate);
	r->debt_ns = lt_flow_debt(p->burst_ns, r->cost);
	r->ahead_ns = r->debt_ns + LT_FLOW_STEP_NS;
	r->vm_debt_ns = lt_flow_debt(p->vm_burst_ns, r->vm_cost);
	r->brief_bytes = p->brief_bytes;
	r->large_bytes = p->large_bytes;
	r->long_bytes = p->long_bytes;
	r->pad = 0;
}

/* ---- a pair ---------------------------------------------------------- */

LT_FN int lt_flow_small(lt_u32 band)
{
	return band <= LT_FLOW_SMALL;
}

LT_FN lt_u32 lt_flow_large(lt_u64 state)
{
	return state & 1;
}

LT_FN lt_u32 lt_flow_attained(lt_u64 state)
{
	return (state >> LT_FLOW_ATTAINED_SHIFT) & LT_FLOW_ATTAINED_MAX;
}

/* The band of a packet after which its pair has @state. */
LT_FN lt_u32 lt_flow_class(lt_u64 state, const struct lt_flow_rule *r)
{
	lt_u32 attained = lt_flow_attained(state);

	if (!lt_flow_large(state))
		return attained <= r->brief_bytes ? LT_FLOW_BRIEF : LT_FLOW_SMALL;
	if (attained <= r->large_bytes)
		return LT_FLOW_LARGE;
	return attained <= r->long_bytes ? LT_FLOW_LONG : LT_FLOW_BULK;
}

/* The state of a pair that has @state, which is not brief any more. */
LT_FN lt_u64 lt_flow_begun(lt_u64 state, const struct lt_flow_rule *r)
{
	const lt_u64 mask = (lt_u64)LT_FLOW_ATTAINED_MAX << LT_FLOW_ATTAINED_SHIFT;

	if (lt_flow_attained(state) > r->brief_bytes)
		return state;
	return (state & ~mask) | (r->brief_bytes + 1ull) << LT_FLOW_ATTAINED_SHIFT;
}

/* The state of a pair as if it had never sent. */
LT_FN lt_u64 lt_flow_new(lt_u64 now)
{
	return (now & (LT_FLOW_CLOCK_END - 1)) << LT_FLOW_CLOCK_SHIFT;
}

/* 1 if the bucket of a pair with @state is full at @now, else 0; without a branch. */
LT_FN lt_u64 lt_flow_full(lt_u64 state, const struct lt_flow_rule *r, lt_u64 now)
{
	const lt_u64 mask = LT_FLOW_CLOCK_END - 1;
	/* How far it is ahead, less 1: what is full right now is as far as can be. */
	lt_u64 ahead = ((state >> LT_FLOW_CLOCK_SHIFT) + mask - (now & mask)) & mask;

	return (ahead + LT_FLOW_CLOCK_END - r->ahead_ns) / LT_FLOW_CLOCK_END;
}

/*
 * How long from @now on until the bucket of a pair with @state is full; 0 if it is.
 * More than debt_ns if the clock has stepped back since the bucket was dry.
 */
LT_FN lt_u64 lt_flow_ahead(lt_u64 state, const struct lt_flow_rule *r, lt_u64 now)
{
	const lt_u64 mask = LT_FLOW_CLOCK_END - 1;

	if (lt_flow_full(state, r, now))
		return 0;
	return ((state >> LT_FLOW_CLOCK_SHIFT) + LT_FLOW_CLOCK_END - (now & mask)) & mask;
}

/*
 * A packet of @bytes (any value) of the pair that has @state: its state afterwards.
 * Takes its cost, or what there is.
 */
LT_FN lt_u64 lt_flow_charge(lt_u64 state, const struct lt_flow_rule *r, lt_u32 bytes,
			    lt_u64 now)
{
	lt_u64 ahead = lt_flow_ahead(state, r, now);
	lt_u64 after = ahead + lt_flow_cost(bytes, r->cost);
	lt_u64 attained = lt_line_bytes(bytes), large = 0;

	if (ahead) {
		attained += lt_flow_attained(state);
		large = lt_flow_large(state);
	}
	if (after > r->debt_ns) {
		after = lt_max(ahead, r->debt_ns);
		large = 1;
	}
	return ((now + after) & (LT_FLOW_CLOCK_END - 1)) << LT_FLOW_CLOCK_SHIFT |
	       lt_min(attained, LT_FLOW_ATTAINED_MAX) << LT_FLOW_ATTAINED_SHIFT | large;
}

/* ---- a set ----------------------------------------------------------- */

/* 1 if @number (below 2^32) is 0, else 0; without a branch. */
LT_FN lt_u32 lt_flow_zero(lt_u64 number)
{
	LT_OPAQUE(number);
	return ((1ull << 32) - number) >> 32;
}

/*
 * The one entry of the pair @key; LT_FLOW_WAYS or more if there is none. Without
 * branches: which one it is no processor foresees.
 */
LT_FN lt_u32 lt_flow_find(const struct lt_flow_set *set, lt_u32 key)
{
	lt_u32 found = 0, i;

	for (i = 0; i < LT_FLOW_WAYS; i++)
		found |= lt_flow_zero(set->key[i] ^ key) * (i ^ 7);
	return found ^ 7;
}

/* The number of the lowest bit of @entries, a bit each; LT_FLOW_WAYS if it has none. */
LT_FN lt_u32 lt_flow_lowest(lt_u32 entries)
{
	/* How many bits are below it, a row of them: n - n/2 - n/4 - ... counts. */
	lt_u32 bits = entries | 1u << LT_FLOW_WAYS, below = ~bits & (bits - 1);

	return below - (below >> 1) - (below >> 2) - (below >> 3) - (below >> 4);
}

/*
 * An entry for the new pair @key, or LT_FLOW_WAYS if there is none for it. A VM's
 * share is of entries, live or not, since one that is not live becomes so by a
 * packet: who has as many as it may have uses one of them again. Those that nobody
 * has had go first, so that pairs that take turns do not take each other's.
 */
LT_FN lt_u32 lt_flow_enter(struct lt_flow_set *set, const struct lt_flow_rule *r,
			   lt_u32 key, lt_u64 now)
{
	lt_u32 own = 0, count = 0, nobodys = 0, entries = 0, place, i;

	LT_FORGET();
	for (i = 0; i < LT_FLOW_WAYS; i++) {
		lt_u32 other = set->key[i];
		lt_u32 mine = lt_flow_zero(lt_flow_owner(other ^ key));

		own |= mine << i;
		count += mine;
		nobodys |= lt_flow_zero(other) << i;
		entries |= (lt_u32)lt_flow_full(set->state[i], r, now) << i;
	}
	if (count >= LT_FLOW_WAYS_VM)
		entries &= own;
	else if (nobodys)
		entries = nobodys;
	place = lt_flow_lowest(entries);
	if (place >= LT_FLOW_WAYS)
		return LT_FLOW_WAYS;
	set->key[place] = key;
	set->state[place] = lt_flow_new(now);
	return place;
}

/* ---- a VM ------------------------------------------------------------ */

/*
 * How long from @now on until a VM's bucket is full that is so at @full. A clock that
 * has stepped back by more than LT_STEP_BACK_MAX_NS is a new one, on which it is full.
 */
LT_FN lt_u64 lt_flow_vm_ahead(lt_u64 full, const struct lt_flow_rule *r, lt_u64 now)
{
	lt_u64 ahead = lt_since(full, now);

	return ahead > r->vm_debt_ns + LT_STEP_BACK_MAX_NS ? 0 : ahead;
}

/*
 * Whether a packet of @bytes (any value) may go as small, 0 or 1; if so it is paid. Who has been overtaken by others LT_FLOW_TRIES times
 * running is refused.
 */
LT_FN int lt_flow_vm_take(struct lt_flow_vm *vm, const struct lt_flow_rule *r,
			  lt_u32 bytes, lt_u64 now)
{
	lt_u64 cost = lt_flow_cost(bytes, r->vm_cost);
	lt_u32 n;

	for (n = 0; n < LT_FLOW_TRIES; n++) {
		lt_u64 full = *(volatile lt_u64 *)&vm->full_ns;
		lt_u64 ahead = lt_flow_vm_ahead(full, r, now);

		if (ahead + cost > r->vm_debt_ns)
			break;
		if (LT_FLOW_SWAP(&vm->full_ns, full, now + ahead + cost))
			return 1;
	}
	LT_FLOW_COUNT(&vm->refused);
	return 0;
}

/* Whether @vm has used more than half of what its bucket holds at most, at @now. */
LT_FN int lt_flow_vm_busy(const struct lt_flow_vm *vm, const struct lt_flow_rule *r,
			  lt_u64 now)
{
	lt_u64 full = *(volatile const lt_u64 *)&vm->full_ns;

	return lt_flow_vm_ahead(full, r, now) > r->vm_debt_ns / 2;
}

/* ---- all of it ------------------------------------------------------- */

/*
 * The band, below LT_FLOW_BANDS, of a packet of @bytes (any value) that @owner,
 * number @vm, sends as its pair with @hash, whose set is @set. A @vm above
 * LT_FLOW_VM_MAX has no entries. If the VM's bucket does not hold what the pair's
 * does, the pair is large; if it holds less than half of what it can, not brief.
 */
LT_FN lt_u32 lt_flow_classify(struct lt_flow_set *set, struct lt_flow_vm *owner,
			      const struct lt_flow_rule *r, lt_u32 vm, lt_u64 hash,
			      lt_u32 bytes, lt_u64 now)
{
	lt_u32 i = LT_FLOW_WAYS;
	lt_u64 state;

	if (vm <= LT_FLOW_VM_MAX) {
		lt_u32 key = lt_flow_key(vm, hash);

		i = lt_flow_find(set, key);
		if (i >= LT_FLOW_WAYS)
			i = lt_flow_enter(set, r, key, now);
	}
	if (i >= LT_FLOW_WAYS) {
		LT_FLOW_COUNT(&owner->unknown);
		return LT_FLOW_BULK;
	}
	state = lt_flow_charge(set->state[i], r, bytes, now);
	if (!lt_flow_large(state)) {
		if (!lt_flow_vm_take(owner, r, bytes, now))
			state |= 1;
		else if (lt_flow_vm_busy(owner, r, now))
			state = lt_flow_begun(state, r);
	}
	set->state[i] = state;
	return lt_flow_class(state, r);
}

#endif
