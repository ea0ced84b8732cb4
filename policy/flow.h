/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Small first, for flows: in which band a packet waits, at a host's network
 * queue and, as a tag, at switches.
 *
 * A flow is a pair: all packets of a VM from one source address to one
 * destination address. What it sends is line time (line.h). A packet is SMALL if
 * the pair's bucket holds its line time and its VM's bucket does, too; the VM's
 * is charged only with what goes as small, so that a VM's bulk traffic does not
 * make its short flows large, and one that slices its traffic into many pairs
 * gains nothing by it.
 *
 * A pair whose packet was not small is LARGE, and stays so until its bucket has
 * been full again: after burst / rate of quiet at most, 24 ms. No timer looks
 * after it. Else a bulk flow would have as many packets small as its rate allows,
 * each of which overtakes the large ones before it. For the same reason a pair is
 * large if it was its VM's bucket that lacked the tokens; with little taken out of
 * its own bucket this is over soon, 0.16 ms after a packet of 200 bytes. Large
 * packets take what tokens there are; what lacks is not owed.
 *
 * From one moment at which a pair's bucket is full to the next the bytes it has
 * sent count (attained), and give bands finer than small and large. In between,
 * its packets go to later bands only, never to earlier ones: who puts each band
 * in order keeps a pair's packets in order.
 *
 * State is bounded. Pairs are in sets of LT_FLOW_WAYS; which set, a keyed hash
 * says. An entry whose bucket would be full by now is the same as none and is
 * used again: nobody has to clean up. A pair that finds no entry is served last,
 * never small for free. A VM has at most LT_FLOW_WAYS_VM entries of a set, so one
 * VM alone never is the reason that another one's pair finds none. They are
 * counted in the set when it matters: no counter can go wrong.
 *
 * To keep an entry live costs its rate: a pair that is not full has to send
 * 10 Mbit/s to stay so. docs/small-first.md says what that makes of a table.
 *
 * The caller owns the memory, zeroed is empty; it picks the set (lt_flow_hash,
 * lt_flow_index) and does the locking. With one lock for all of it, it calls
 * lt_flow_classify. With one lock for each set and one for each VM it calls
 * lt_flow_packet under the set's; under the VM's lt_flow_vm_take if that said small,
 * lt_flow_vm_unknown if it found no entry; and lt_flow_refuse under the set's if
 * the VM said no: never two at once.
 *
 * Clocks are ns of any origin, below 2^63.
 */
#ifndef LOWTAIL_FLOW_H
#define LOWTAIL_FLOW_H

#include "line.h"

/* Entries of a set: their tags are 64 bytes, a line of the cache. */
#define LT_FLOW_WAYS 8u
/* Those among them that one VM may have. */
#ifndef LT_FLOW_WAYS_VM /* so that a test can differ */
#define LT_FLOW_WAYS_VM (LT_FLOW_WAYS / 2)
#endif

/*
 * Bands, first to last. The first two are small. What a queue does with them is
 * its own; one that has two of them asks lt_flow_small.
 */
enum lt_flow_band {
	LT_FLOW_BRIEF,		/* small, has just begun */
	LT_FLOW_SMALL,
	LT_FLOW_LARGE,		/* large since a short while */
	LT_FLOW_LONG,
	LT_FLOW_BULK,		/* the rest, and who has no entry */
	LT_FLOW_BANDS
};

/* What lt_flow_packet says of a pair that has no entry: it goes with LT_FLOW_BULK. */
#define LT_FLOW_UNKNOWN LT_FLOW_BANDS

/* Parameters; LT_FLOW_PARAMS_DEFAULT has the defaults and the reason for each. */
struct lt_flow_params {
	lt_u32 rate;		/* of a pair, line time per time, 16.16: 64 to LT_RATE_MAX */
	lt_u32 burst_ns;	/* of a pair: 0 to what the rate adds in 2^30 ns */
	lt_u32 vm_rate;		/* of a VM: 64 to LT_RATE_MAX */
	lt_u32 vm_burst_ns;	/* of a VM: 0 to LT_BURST_MAX_NS */
	lt_u32 brief_bytes;	/* up to here a small pair is LT_FLOW_BRIEF */
	lt_u32 large_bytes;	/* up to here a large one is LT_FLOW_LARGE */
	lt_u32 long_bytes;	/* and up to here LT_FLOW_LONG */
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

/* A pair; its tag is in its set. */
struct lt_flow {
	lt_u64 filled_ns;	/* clock up to which its bucket has been filled */
	lt_u32 tokens_ns;	/* what that holds, line time */
	lt_u32 attained;	/* bytes since it was full; ends at 2^32 - 1 */
	lt_u32 vm;		/* whose it is: the caller's number, any value */
	lt_u32 large;		/* 0 or 1 */
};

/* Pairs of one hash; a tag of 0 is no pair. */
struct lt_flow_set {
	lt_u64 tag[LT_FLOW_WAYS];
	struct lt_flow flow[LT_FLOW_WAYS];
};

/* A VM, or whatever the host knows a packet to be of, such as an interface. */
struct lt_flow_vm {
	struct lt_bucket small;	/* line time that may go as small */
	lt_u64 unknown;		/* packets that found no entry */
	lt_u64 refused;		/* packets that lacked this bucket's tokens only */
};

/* ---- which pair, which set ------------------------------------------- */

/* Random numbers, drawn once and told nobody. */
struct lt_flow_seed {
	lt_u64 pair[6];		/* for lt_flow_hash */
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
 * The tag of the pair @src, @dst (any values) of @vm: never 0. A sum of products
 * of 32 bits with random 64: that two pairs agree in the upper half of the sum has
 * a chance of 2^-32 at most, whichever two they are, for who does not know the
 * seed. The mix hides the sum, so that one collision found does not tell others.
 */
LT_FN lt_u64 lt_flow_hash(const struct lt_flow_seed *seed, lt_u32 vm, lt_u64 src,
			  lt_u64 dst)
{
	const lt_u64 *key = seed->pair;

	return lt_flow_mix(key[5] + key[0] * (lt_u32)src + key[1] * (src >> 32) +
			   key[2] * (lt_u32)dst + key[3] * (dst >> 32) + key[4] * vm,
			   seed->mix) | 1;
}

/* The set of a @tag, of 2^n: @mask is 2^n - 1, 0 to 2^32 - 1. */
LT_FN lt_u32 lt_flow_index(lt_u64 tag, lt_u32 mask)
{
	return (lt_u32)(tag >> 32) & mask;
}

/* ---- a pair ---------------------------------------------------------- */

LT_FN int lt_flow_small(lt_u32 band)
{
	return band <= LT_FLOW_SMALL;
}

/* The band of a packet after which @flow is as it is. */
LT_FN lt_u32 lt_flow_class(const struct lt_flow *flow, const struct lt_flow_params *p)
{
	if (!flow->large)
		return flow->attained <= p->brief_bytes ? LT_FLOW_BRIEF : LT_FLOW_SMALL;
	if (flow->attained <= p->large_bytes)
		return LT_FLOW_LARGE;
	return flow->attained <= p->long_bytes ? LT_FLOW_LONG : LT_FLOW_BULK;
}

/* Its bucket at @now. */
LT_FN struct lt_bucket lt_flow_bucket(const struct lt_flow *flow,
				      const struct lt_flow_params *p, lt_u64 now)
{
	struct lt_bucket b;

	b.tokens_ns = flow->tokens_ns;
	b.filled_ns = flow->filled_ns;
	b.rate = p->rate;
	b.burst_ns = p->burst_ns;
	lt_bucket_fill(&b, now);
	return b;
}

/* @flow of @vm as if it had never sent. */
LT_FN void lt_flow_init(struct lt_flow *flow, const struct lt_flow_params *p,
			lt_u32 vm, lt_u64 now)
{
	flow->filled_ns = now;
	flow->tokens_ns = p->burst_ns;
	flow->attained = 0;
	flow->vm = vm;
	flow->large = 0;
}

/*
 * A packet of @bytes (any value) of @flow: returns its band as far as the pair is
 * concerned, and takes its line time, or what there is.
 */
LT_FN lt_u32 lt_flow_charge(struct lt_flow *flow, const struct lt_flow_params *p,
			    lt_u32 bytes, lt_u64 now)
{
	struct lt_bucket b = lt_flow_bucket(flow, p, now);
	lt_u64 span = lt_line_ns(bytes);

	if (b.tokens_ns >= b.burst_ns) {
		flow->large = 0;
		flow->attained = 0;
	}
	if (b.tokens_ns < span)
		flow->large = 1;
	lt_bucket_take(&b, span);
	flow->tokens_ns = b.tokens_ns;
	flow->filled_ns = b.filled_ns;
	flow->attained = lt_min(flow->attained + lt_line_bytes(bytes), ~0u);
	return lt_flow_class(flow, p);
}

/* ---- a set ----------------------------------------------------------- */

/* The entry of @vm's pair @tag, or LT_FLOW_WAYS. */
LT_FN lt_u32 lt_flow_find(const struct lt_flow_set *set, lt_u32 vm, lt_u64 tag)
{
	lt_u32 i;

	for (i = 0; i < LT_FLOW_WAYS; i++)
		if (set->tag[i] == tag && set->flow[i].vm == vm)
			return i;
	return LT_FLOW_WAYS;
}

/*
 * Whether entry @i (below LT_FLOW_WAYS) says anything that a new one would not
 * say. A clock that has stepped back for good does not keep it for ever.
 */
LT_FN int lt_flow_live(struct lt_flow_set *set, lt_u32 i,
		       const struct lt_flow_params *p, lt_u64 now)
{
	struct lt_bucket b;

	if (!set->tag[i])
		return 0;
	b = lt_flow_bucket(&set->flow[i], p, now);
	if (b.filled_ns < set->flow[i].filled_ns)
		set->flow[i].filled_ns = b.filled_ns;
	return b.tokens_ns < b.burst_ns;
}

/*
 * An entry for @vm's new pair @tag, or LT_FLOW_WAYS if there is none for it. One
 * of its own that is not live goes first: a VM's share is of entries, live or
 * not, since one that is not live becomes so by a packet. The first ones are used
 * first: they are next to the tags' beginning, and found soonest.
 */
LT_FN lt_u32 lt_flow_enter(struct lt_flow_set *set, const struct lt_flow_params *p,
			   lt_u32 vm, lt_u64 tag, lt_u64 now)
{
	lt_u32 n, own = 0, again = LT_FLOW_WAYS, place = LT_FLOW_WAYS;

	for (n = LT_FLOW_WAYS; n; n--) {
		lt_u32 i = n - 1;
		int mine = set->tag[i] && set->flow[i].vm == vm;
		int live = lt_flow_live(set, i, p, now);

		own += mine;
		if (mine && !live)
			again = i;
		else if (!live)
			place = i;
	}
	if (again < LT_FLOW_WAYS)
		place = again;
	else if (own >= LT_FLOW_WAYS_VM)
		return LT_FLOW_WAYS;
	if (place >= LT_FLOW_WAYS)
		return LT_FLOW_WAYS;
	set->tag[place] = tag;
	lt_flow_init(&set->flow[place], p, vm, now);
	return place;
}

/*
 * A packet of @bytes (any value) of @vm's pair @tag (not 0), whose set is @set:
 * its band, small if the VM's bucket holds it, too (lt_flow_vm_take); or
 * LT_FLOW_UNKNOWN, if the set has no entry for it.
 */
LT_FN lt_u32 lt_flow_packet(struct lt_flow_set *set, const struct lt_flow_params *p,
			    lt_u32 vm, lt_u64 tag, lt_u32 bytes, lt_u64 now)
{
	lt_u32 i = lt_flow_find(set, vm, tag);

	if (i >= LT_FLOW_WAYS)
		i = lt_flow_enter(set, p, vm, tag, now);
	if (i >= LT_FLOW_WAYS)
		return LT_FLOW_UNKNOWN;
	return lt_flow_charge(&set->flow[i], p, bytes, now);
}

/*
 * The VM's bucket did not hold the packet that lt_flow_packet has just called
 * small: returns the band it goes to instead, with its pair large.
 */
LT_FN lt_u32 lt_flow_refuse(struct lt_flow_set *set, const struct lt_flow_params *p,
			    lt_u32 vm, lt_u64 tag)
{
	lt_u32 i = lt_flow_find(set, vm, tag);

	if (i >= LT_FLOW_WAYS)
		return LT_FLOW_BULK;
	set->flow[i].large = 1;
	return lt_flow_class(&set->flow[i], p);
}

/* ---- a VM ------------------------------------------------------------ */

LT_FN void lt_flow_vm_init(struct lt_flow_vm *vm, const struct lt_flow_params *p,
			   lt_u64 now)
{
	lt_bucket_init(&vm->small, p->vm_rate, p->vm_burst_ns, p->vm_burst_ns, now);
	vm->unknown = 0;
	vm->refused = 0;
}

/* A packet of it has found no entry. */
LT_FN void lt_flow_vm_unknown(struct lt_flow_vm *vm)
{
	vm->unknown += vm->unknown < LT_NEVER;
}

/* Whether a packet of @bytes (any value) may go as small, 0 or 1; if so it is paid. */
LT_FN int lt_flow_vm_take(struct lt_flow_vm *vm, lt_u32 bytes, lt_u64 now)
{
	lt_u64 span = lt_line_ns(bytes);

	lt_bucket_fill(&vm->small, now);
	if (vm->small.tokens_ns < span) {
		vm->refused += vm->refused < LT_NEVER;
		return 0;
	}
	lt_bucket_take(&vm->small, span);
	return 1;
}

/* ---- all of it ------------------------------------------------------- */

/*
 * The band, below LT_FLOW_BANDS, of a packet of @bytes (any value) that @owner,
 * number @vm, sends as its pair @tag (not 0), whose set is @set.
 */
LT_FN lt_u32 lt_flow_classify(struct lt_flow_set *set, struct lt_flow_vm *owner,
			      const struct lt_flow_params *p, lt_u32 vm, lt_u64 tag,
			      lt_u32 bytes, lt_u64 now)
{
	lt_u32 band = lt_flow_packet(set, p, vm, tag, bytes, now);

	if (band == LT_FLOW_UNKNOWN) {
		lt_flow_vm_unknown(owner);
		return LT_FLOW_BULK;
	}
	if (lt_flow_small(band) && !lt_flow_vm_take(owner, bytes, now))
		return lt_flow_refuse(set, p, vm, tag);
	return band;
}

#endif
