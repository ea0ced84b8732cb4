/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Small first, for vCPUs: who runs, for how long, and who may interrupt whom.
 *
 * A vCPU that wakes is SMALL if its own bucket and its VM's hold tokens. Small
 * ones go before large ones; among them the one that is due first, a few times its
 * expected run after it woke. Tokens are run time and come at the rate
 * to which the VM is entitled, up to a burst; a small vCPU runs on grants taken
 * out of both buckets, and is LARGE at the moment when there is nothing more to
 * take, or when it has run for so long that it computes. It becomes small again
 * by waking, never by waiting. Large ones share what is left by weight, in
 * virtual time.
 *
 * A small vCPU interrupts a large one, or a small one with clearly more left, if
 * the pCPU's preemption bucket allows it: 1 per ms, 300 saved up. While the
 * bucket is well filled, nobody waits. As it runs dry, the time between two
 * preemptions rises from nothing to more than their price, so that the bucket
 * settles at the level at which as many come as are paid for: a rate limit that
 * is no longer than the load makes it. The bucket has three levels, so that a
 * storm of wake-ups cannot take from a quiet VM what that VM needs:
 *   - the last tokens are for VMs that preempt less than their share;
 *   - above a first reserve, they are for everybody;
 *   - above a second one, for large vCPUs and, at sixteen times the price, for
 *     follow-ups: wake-ups as long after blocking as those usually come that
 *     tell that the reply just sent has left. A second notification while it
 *     waits makes a wake-up urgent (lt_vcpu_kick): there is more to do than to
 *     follow up. So does a wait of 4 ms.
 * Who is refused learns the moment at which to ask again.
 *
 * What a caller (a scheduler of the simulator, a BPF program) has to do: keep
 * the queues and the clock, hold the locks, call lt_vcpu_wake, _kick, _grant,
 * _charge, _block as things happen, order by lt_before, ask lt_beats and
 * lt_preempt_when before it interrupts somebody and lt_preempt_take when it
 * does. All times and amounts are ns unless they say otherwise; clocks stay
 * below 2^63.
 */
#ifndef LOWTAIL_VCPU_H
#define LOWTAIL_VCPU_H

#include "cap.h"

/* Parameters; LT_PARAMS_DEFAULT has the defaults and the reason for each. */
struct lt_params {
	lt_u32 burst_ns;		/* run time saved up: 0 to LT_BURST_MAX_NS */
	lt_u32 grant_ns;		/* longest grant to a small vCPU */
	lt_u32 min_grant_ns;		/* fewer tokens than this are none: 1 or more */
	lt_u32 slice_ns;		/* turn of a large vCPU: 1 to LT_SLICE_MAX_NS */
	lt_u32 wait_turns;		/* longest wait of a large one, in turns: 1 to 64 */
	lt_u32 starvation_boost_ns;	/* run of one that has waited too long */
	lt_u32 margin_ns;		/* by how much a small one must be shorter */
	lt_u32 completion_window_ns;	/* a shorter sleep makes a wake-up a follow-up */
	lt_u32 completion_wait_ns;	/* one that has waited so long is urgent too */
	lt_u32 preempt_ns;		/* price of a preemption: 1 per this time */
	lt_u32 preempt_burst_ns;	/* of the pCPU's bucket, in that price */
	lt_u32 preempt_reserve_ns;	/* each of its two reserves */
	lt_u32 preempt_own_ns;		/* burst of a VM's own share */
};

/*
 * burst 8 ms: requests of some milliseconds stay small, and a server that is
 *	busy for most of its share is small through its busier moments (with
 *	4 ms one of a pCPU's share of 37 %, busy for 30, is large for one request
 *	in 300). In a window of 100 ms it is 8 % of a pCPU above the entitlement.
 * grant 500 us: a VM whose vCPUs run at the same time draws on one bucket; what
 *	one of them holds, the others lack. Renewing costs a scheduler pass.
 * minimum grant 16 us: about what two context switches cost; a shorter run as small
 *	is not worth having.
 * slice 10 ms: what Xen's credit2 arrives at for two loops; switches cost
 *	below half a percent then.
 * wait 4 turns: twice what fair turns alone amount to, so that it only cuts
 *	off what bursts of others add.
 * starvation boost 1 ms: the rate limit of Xen, for the same reason.
 * margin 40 us: a preemption costs two switches and two cold caches, about
 *	34 us in all (costs/xen-2017.toml); to interrupt for less gains nothing.
 * completion window 250 us: a completion comes within a round trip of a local network.
 * completion wait 4 ms: of 1,000 random wake-ups a second, the next one comes sooner
 *	but for 2 % of them, and these the bucket can spare.
 * preempt 1 ms: the default rate limit of Xen, found to be right for throughput
 *	by its commit 64908a0466 (+11 % SPECvirt; 10 ms is no better).
 * preempt burst 300, reserves 100: a level pays for 50 tokens that random wake-ups
 *	at nine tenths of the rate are short of (33 once in a thousand times, by the
 *	formula in docs/explanation/small-first.md), and for the 48 over which the time
 *	between two preemptions rises. All of it spent at once costs a neighbour 10 ms, as
 *	much as a slice.
 * own share 20: a VM that preempts for seven tenths of its share is short of 10 of them
 *	once in a thousand times, and counts as one within its share as long as it has the
 *	half. Ten VMs that have saved up all and spend it at once leave the reserve empty.
 */
#define LT_PARAMS_DEFAULT { \
	.burst_ns = 8000000, \
	.grant_ns = 500000, \
	.min_grant_ns = 16384, \
	.slice_ns = 10000000, \
	.wait_turns = 4, \
	.starvation_boost_ns = 1000000, \
	.margin_ns = 40000, \
	.completion_window_ns = 250000, \
	.completion_wait_ns = 4000000, \
	.preempt_ns = 1000000, \
	.preempt_burst_ns = 300000000, \
	.preempt_reserve_ns = 100000000, \
	.preempt_own_ns = 20000000, \
}

/*
 * One that has run for as many bursts since it woke computes, however little of
 * its entitlement that is. It shares with its VM's other vCPUs, none of which would
 * get anything of it else, and interrupts nobody. Its bucket alone would not tell:
 * it fills at the rate of the whole VM, for a VM whose work is on one vCPU. No
 * server of the experiment `many`, busy for up to 30 %, comes to 8 between two
 * sleeps; with 1, one of its requests in a thousand waits for turns of others.
 */
#define LT_RUN_BURSTS 8u
/*
 * How long a small vCPU may be kept waiting by later ones with less to do: four times its
 * expected run. With one time, a request of 20 us waits behind six others of 1 ms that woke
 * before it, the work of one VM; the experiment `hostile-neighbours` has them.
 */
#define LT_DUE_SHIFT 2

/*
 * By how much the time between two preemptions rises as the bucket runs dry: 1 ns for 32
 * ns of tokens that are missing. Steeper, and it jumps from one preemption to the
 * next; flatter, and it takes a deeper bucket.
 */
#define LT_PREEMPT_RISE_SHIFT 5
/*
 * While nobody has to wait, a preemption costs 3/16 less. So a bucket with which 1,000 random
 * wake-ups a second begin stays well filled: at the full price its level would be a random walk,
 * and some follow-ups that nobody can tell from news come on top.
 */
#define LT_PREEMPT_DISCOUNT_16THS 3
/*
 * A follow-up pays for sixteen: it is served out of what is left over at low loads, and
 * costs a neighbour little at medium ones, where served and refused ones would be even.
 */
#define LT_COMPLETION_PRICE 16u
/*
 * When follow-ups come is learned: the median of the times from blocking to a wake-up within
 * the window, and the median of how far they are from it. Each moves by 1/128 of the first,
 * towards what comes. A wake-up further away than 1/32 and twice the second is news; and all
 * are, if they vary by more than a quarter: there would be a request among them too often.
 */
#define LT_COMPLETION_STEP_SHIFT 7
#define LT_COMPLETION_SLACK_SHIFT 5
#define LT_COMPLETION_VARY_SHIFT 2
/* Two that differ by an eighth at most begin it. */
#define LT_COMPLETION_AGREE_SHIFT 3
/* A vCPU has follow-ups if half of its wake-ups are followed by one; in 1/1024. */
#define LT_COMPLETION_OFTEN 512u
#define LT_UNKNOWN (~0u)

#define LT_SLICE_MAX_NS (1u << 30)
/*
 * Longest that a large vCPU may be left waiting, whatever its weight, its turns and
 * their number are: a quarter of the 30 s after which Linux ends a scheduler that leaves a
 * thread waiting (SCX_WATCHDOG_MAX_TIMEOUT). The rest is for others that have waited as
 * long, and for limits.
 */
#define LT_WAIT_MAX_NS 7500000000ull
/* Longest stretch of run time that one settlement counts. */
#define LT_RAN_MAX_NS (1ull << 32)
/* Weight at which virtual time passes like run time: the default of Xen. */
#ifndef LT_WEIGHT_USUAL /* so that a test can differ */
#define LT_WEIGHT_USUAL 256
#endif
#define LT_WEIGHT_MAX 65535
enum lt_class { LT_LARGE = 0, LT_SMALL = 1 };

struct lt_pcpu {
	struct lt_bucket preempt;	/* prices of preemptions */
	lt_u64 disturbed_ns;		/* when a small one last interrupted or left */
};

struct lt_vm {
	struct lt_bucket small;		/* run time of its small vCPUs */
	struct lt_bucket preempt;	/* its own share of preemptions */
	struct lt_cap cap;		/* run time of all its vCPUs */
	lt_u64 vtime_ns;		/* run time at the usual weight */
	lt_u64 wait_max_ns;		/* longest wait of a large vCPU */
	lt_u32 inv_weight;		/* LT_WEIGHT_USUAL / weight, 16.16 */
	lt_u32 runnable;		/* its vCPUs that wait or run */
};

struct lt_vcpu {
	struct lt_bucket small;		/* its own run time */
	struct lt_cap cap;		/* all of it, if it has a limit of its own */
	lt_u64 blocked_ns;		/* when it blocked last */
	lt_u64 queued_ns;		/* since when it waits */
	lt_u64 boosted_until_ns;	/* until when nobody interrupts it */
	lt_u32 ran_ns;			/* run time since it woke */
	lt_u32 avg_burst_ns;		/* moving average of that, at blocking */
	lt_u32 grant_ns;		/* what it holds out of the small buckets */
	lt_u32 cap_grant_ns;		/* what it holds out of its limits */
	lt_u8 class;			/* enum lt_class */
	lt_u8 is_completion_wakeup;	/* its wake-up is a follow-up */
	lt_u8 known;			/* avg_burst_ns has been measured */
	lt_u8 pad[3];
	lt_u16 often;			/* of its wake-ups, 1024ths within the window */
	lt_u32 completion_ns;		/* from blocking to a follow-up, the median */
	lt_u32 completion_dev_ns;	/* how far from it, the median; LT_UNKNOWN at first */
};

/* ---- entitlements ---------------------------------------------------- */

/*
 * What a VM gets of the @demand that it has (rate) if every weight is worth
 * @level (rate per weight, 16.16): the fluid limit of weighted sharing. The
 * caller looks for the level at which all VMs together get what there is.
 * @weight 1 to LT_WEIGHT_MAX.
 */
LT_FN lt_u32 lt_share_at(lt_u32 demand, lt_u32 weight, lt_u32 level)
{
	return lt_min(demand, ((lt_u64)weight * level) >> 16);
}

/*
 * The rate to which a VM is entitled: what it would get if it wanted all it
 * can have, the others wanting what they want. @level as above, @spare (rate)
 * what nobody wants, @most (rate) what it can use: its vCPUs or its cap.
 */
LT_FN lt_u32 lt_entitled(lt_u32 demand, lt_u32 weight, lt_u32 level,
			 lt_u32 spare, lt_u32 most)
{
	lt_u64 rate = ((lt_u64)weight * level) >> 16;

	if (spare)
		rate = lt_max(rate, (lt_u64)demand + spare);
	return lt_min(lt_min(rate, most), LT_RATE_MAX);
}

/* ---- setting up ------------------------------------------------------ */

LT_FN void lt_pcpu_init(struct lt_pcpu *cpu, const struct lt_params *p, lt_u64 now)
{
	lt_bucket_init(&cpu->preempt, LT_RATE_ONE, p->preempt_burst_ns,
		       p->preempt_burst_ns, now);
	cpu->disturbed_ns = 0;
}

/*
 * A VM of @weight (1 to LT_WEIGHT_MAX; 0 counts as 1) with @vcpus (1 or more),
 * without limit, that is entitled to @share (rate) when all want all; a limit is
 * for lt_cap_init. Divides; not for hot paths.
 */
LT_FN void lt_vm_init(struct lt_vm *vm, const struct lt_params *p, lt_u32 weight,
		      lt_u32 vcpus, lt_u32 share, lt_u64 now)
{
	lt_u64 turn, rate;

	weight = lt_min(lt_max(weight, 1), LT_WEIGHT_MAX);
	vcpus = lt_max(vcpus, 1);
	share = lt_min(lt_max(share, 1), LT_RATE_MAX);
	vm->inv_weight = (LT_WEIGHT_USUAL << 16) / weight;
	vm->vtime_ns = 0;
	vm->runnable = 0;
	lt_bucket_init(&vm->small, share, p->burst_ns, p->burst_ns, now);
	lt_bucket_init(&vm->preempt, lt_min(share, LT_RATE_ONE), p->preempt_own_ns,
		       p->preempt_own_ns, now);
	lt_cap_init(&vm->cap, 0, 0, vcpus, now);
	/* Turns of one vCPU come once in slice / its part of the share. */
	rate = lt_max(lt_min(share / vcpus, LT_RATE_ONE), 1);
	turn = ((lt_u64)p->slice_ns << 16) / rate;
	vm->wait_max_ns = lt_min(turn * p->wait_turns, LT_WAIT_MAX_NS);
}

LT_FN void lt_vcpu_init(struct lt_vcpu *v, const struct lt_params *p, lt_u64 now)
{
	lt_bucket_init(&v->small, LT_RATE_ONE, p->burst_ns, p->burst_ns, now);
	lt_cap_init(&v->cap, 0, 0, 1, now);
	v->blocked_ns = 0;
	v->queued_ns = now;
	v->boosted_until_ns = 0;
	v->ran_ns = 0;
	v->avg_burst_ns = p->grant_ns;
	v->grant_ns = 0;
	v->cap_grant_ns = 0;
	v->class = LT_LARGE;
	v->is_completion_wakeup = 0;
	v->known = 0;
	v->pad[0] = v->pad[1] = v->pad[2] = 0;
	v->often = 1024;
	v->completion_ns = 0;
	v->completion_dev_ns = LT_UNKNOWN;
}

/* The VM is entitled to @rate from @now on; its vCPUs follow when they wake. */
LT_FN void lt_vm_entitle(struct lt_vm *vm, lt_u32 rate, lt_u64 now)
{
	lt_bucket_fill(&vm->small, now);
	vm->small.rate = lt_min(rate, LT_RATE_MAX);
}

/* ---- life of a vCPU -------------------------------------------------- */

/* Whether @v of @vm has waited for longer than a vCPU should. */
LT_FN int lt_overdue(const struct lt_vcpu *v, const struct lt_vm *vm, lt_u64 now)
{
	return lt_since(now, v->queued_ns) > vm->wait_max_ns;
}

/*
 * Whether @v runs because it had waited too long, and is not to be interrupted
 * yet. A clock that has stepped back ends it.
 */
LT_FN int lt_boosted(const struct lt_vcpu *v, const struct lt_params *p, lt_u64 now)
{
	return now < v->boosted_until_ns && v->boosted_until_ns - now <= p->starvation_boost_ns;
}

/*
 * Whether @v, which wakes after it has slept for @slept_ns and is no follow-up's follow-up,
 * follows up; learns from it.
 */
LT_FN int lt_follows_up(struct lt_vcpu *v, const struct lt_params *p, lt_u64 slept_ns)
{
	lt_u32 usual = v->completion_ns, dev = v->completion_dev_ns, slept, away, step;
	int follows;

	v->often -= v->often >> 5;
	if (slept_ns >= p->completion_window_ns || !v->known)
		return 0;
	v->often += 32;
	slept = slept_ns;
	away = lt_since(lt_max(slept, usual), lt_min(slept, usual));
	if (dev == LT_UNKNOWN) {
		v->completion_ns = slept;
		if (away <= usual >> LT_COMPLETION_AGREE_SHIFT)
			v->completion_dev_ns = 0;
		return 0;
	}
	follows = away <= (usual >> LT_COMPLETION_SLACK_SHIFT) + 2 * dev &&
		  dev <= usual >> LT_COMPLETION_VARY_SHIFT &&
		  v->often >= LT_COMPLETION_OFTEN;
	step = (usual >> LT_COMPLETION_STEP_SHIFT) + 1;
	v->completion_ns = slept > usual ? usual + step : lt_since(usual, step);
	v->completion_dev_ns = away > dev ? dev + step : lt_since(dev, step);
	return follows;
}

/*
 * @v of @vm wakes; @vtime_ns is the virtual time of those who run (see
 * lt_vtime). A VM that has slept does not start behind it, one with other
 * vCPUs that run or wait not further behind than the longest wait.
 */
LT_FN void lt_vcpu_wake(struct lt_vcpu *v, struct lt_vm *vm,
			const struct lt_params *p, lt_u64 vtime_ns, lt_u64 now)
{
	lt_bucket_fill(&v->small, now);
	v->small.rate = lt_min(vm->small.rate, LT_RATE_ONE);
	lt_bucket_fill(&vm->small, now);
	v->class = v->small.tokens_ns >= p->min_grant_ns &&
		   vm->small.tokens_ns >= p->min_grant_ns ? LT_SMALL : LT_LARGE;
	/* What follows a follow-up is news again. */
	v->is_completion_wakeup = !v->is_completion_wakeup &&
				  lt_follows_up(v, p, lt_since(now, v->blocked_ns));
	v->ran_ns = 0;
	v->boosted_until_ns = 0;
	v->queued_ns = now;
	if (vm->runnable)
		vtime_ns = lt_since(vtime_ns, (lt_u64)p->slice_ns * p->wait_turns);
	vm->vtime_ns = lt_max(vm->vtime_ns, vtime_ns);
	vm->runnable++;
}

/* @v, which waits to run, is notified once more. */
LT_FN void lt_vcpu_kick(struct lt_vcpu *v)
{
	v->is_completion_wakeup = 0;
}

/*
 * @v lets others go first. It is as urgent as a follow-up then: it could not
 * use its pCPU.
 */
LT_FN void lt_vcpu_yield(struct lt_vcpu *v)
{
	v->is_completion_wakeup = 1;
}

/*
 * Gives @v, which is to run from @now on, its next stretch: returns its length,
 * 1 or more, or 0 if the small @v has no tokens left or computes. Then it is large from now
 * on, and the caller looks at its queue again.
 */
LT_FN lt_u64 lt_vcpu_grant(struct lt_vcpu *v, struct lt_vm *vm,
			   const struct lt_params *p, lt_u64 now)
{
	lt_u64 grant;

	if (lt_overdue(v, vm, now))
		v->boosted_until_ns = now + p->starvation_boost_ns;
	if (v->class != LT_SMALL)
		return lt_boosted(v, p, now) ? v->boosted_until_ns - now : p->slice_ns;
	lt_bucket_fill(&v->small, now);
	lt_bucket_fill(&vm->small, now);
	grant = lt_min(v->small.tokens_ns, vm->small.tokens_ns);
	if (grant < p->min_grant_ns || v->ran_ns >= (lt_u64)p->burst_ns * LT_RUN_BURSTS) {
		v->class = LT_LARGE;
		return 0;
	}
	grant = lt_min(grant, p->grant_ns);
	lt_bucket_take(&v->small, grant);
	lt_bucket_take(&vm->small, grant);
	v->grant_ns = grant;
	return lt_max(grant, 1);
}

/*
 * How long @v, which has just been picked and given @granted_ns, runs before
 * others are looked at as if it were to begin: a large one for what it was given,
 * a small one for as long as a preemption pays for.
 */
LT_FN lt_u64 lt_vcpu_turn(const struct lt_vcpu *v, const struct lt_params *p,
			  lt_u64 granted_ns)
{
	return v->class == LT_SMALL ? lt_max(granted_ns, p->preempt_ns) : granted_ns;
}

/*
 * @v has run for @ran_ns since its grant, up to @now. What it did not use goes
 * back; its VM's virtual time goes on.
 */
LT_FN void lt_vcpu_charge(struct lt_vcpu *v, struct lt_vm *vm, lt_u64 ran_ns,
			  lt_u64 now)
{
	lt_u64 ran = lt_min(ran_ns, LT_RAN_MAX_NS);
	lt_u64 used = lt_min(ran, v->grant_ns);

	lt_bucket_fill(&v->small, now);
	lt_bucket_give(&v->small, v->grant_ns - used);
	lt_bucket_take(&v->small, ran - used);
	if (v->class == LT_SMALL || v->grant_ns) {
		lt_bucket_fill(&vm->small, now);
		lt_bucket_give(&vm->small, v->grant_ns - used);
	}
	if (v->class == LT_SMALL)
		lt_bucket_take(&vm->small, ran - used);
	v->grant_ns = 0;
	lt_cap_charge(&v->cap, v->cap_grant_ns, ran, now);
	lt_cap_charge(&vm->cap, v->cap_grant_ns, ran, now);
	v->cap_grant_ns = 0;
	vm->vtime_ns += (ran * vm->inv_weight) >> 16;
	v->ran_ns = lt_min(v->ran_ns + ran, ~0u);
	v->queued_ns = now;
}

/* @v of @vm, settled, blocks at @now. */
LT_FN void lt_vcpu_block(struct lt_vcpu *v, struct lt_vm *vm, lt_u64 now)
{
	if (v->known)
		v->avg_burst_ns = v->avg_burst_ns - (v->avg_burst_ns >> 3) + (v->ran_ns >> 3);
	else
		v->avg_burst_ns = v->ran_ns;
	v->known = 1;
	v->blocked_ns = now;
	if (vm->runnable)
		vm->runnable--;
}

/* ---- limits ---------------------------------------------------------- */

/* @v has run up to a limit. Who has is no small one, or it would trickle. */
LT_FN void lt_cap_refuse(struct lt_vcpu *v)
{
	if (v->ran_ns)
		v->class = LT_LARGE;
}

/*
 * Takes what @v of @vm may run for, up to @want_ns, out of its own limit and its
 * VM's. Returns its length, or 0 if it has to wait until lt_cap_when.
 */
LT_FN lt_u64 lt_cap_grant(struct lt_vcpu *v, struct lt_vm *vm,
			  const struct lt_params *p, lt_u64 want_ns, lt_u64 now)
{
	int small = v->class == LT_SMALL;
	lt_u64 own = lt_cap_there(&v->cap, small, p->min_grant_ns, now);
	lt_u64 all = lt_cap_there(&vm->cap, small, p->min_grant_ns, now);
	lt_u64 there = lt_min(own, all);

	if (there == LT_NEVER)
		return want_ns;
	if (!there) {
		lt_cap_refuse(v);
		return 0;
	}
	there = lt_min(there, want_ns);
	if (lt_capped(&vm->cap))
		there = lt_min(there, lt_max(vm->cap.turn_ns, p->min_grant_ns));
	lt_bucket_take(&v->cap.run, there);
	lt_bucket_take(&vm->cap.run, there);
	v->cap_grant_ns = there;
	return there;
}

/* When @v, refused by a limit, may run again; 0 is now. */
LT_FN lt_u64 lt_cap_when(const struct lt_vcpu *v, const struct lt_vm *vm,
			 const struct lt_params *p)
{
	int small = v->class == LT_SMALL;

	return lt_max(lt_cap_ready(&v->cap, small, p->min_grant_ns),
		      lt_cap_ready(&vm->cap, small, p->min_grant_ns));
}

/* ---- order ----------------------------------------------------------- */

/* Run time of @v since it woke, with @ran_ns since its last settlement. */
LT_FN lt_u64 lt_ran(const struct lt_vcpu *v, lt_u64 ran_ns)
{
	return v->ran_ns + lt_min(ran_ns, LT_RAN_MAX_NS);
}

/*
 * Expected run of @v until it blocks: what is left of its usual run; if that is
 * little or nothing, a quarter of the usual run or of what it is over.
 */
LT_FN lt_u64 lt_left(const struct lt_vcpu *v, lt_u64 ran_ns)
{
	lt_u64 ran = lt_ran(v, ran_ns), usual = v->avg_burst_ns;
	lt_u64 over = lt_since(ran, usual);

	return lt_max(lt_since(usual, ran), lt_max(usual, over) >> 2);
}

/*
 * When @v, which waits, is due: a few times its expected run after it woke, so that those who
 * have less to do go first. And who waits overtakes in the end whoever comes later with less.
 */
LT_FN lt_u64 lt_due(const struct lt_vcpu *v)
{
	return v->queued_ns + (lt_left(v, 0) << LT_DUE_SHIFT);
}

/*
 * Whether @a goes before @b, both waiting: who has waited too long first, then
 * small before large; small ones by when they are due, large ones by virtual time;
 * and who waits longer. So the least work goes first among those that woke
 * together, but two that wake each other for ever with a little work do not keep
 * out a third with a little more.
 */
LT_FN int lt_before(const struct lt_vcpu *a, const struct lt_vm *vm_a,
		    const struct lt_vcpu *b, const struct lt_vm *vm_b, lt_u64 now)
{
	int late_a = lt_overdue(a, vm_a, now), late_b = lt_overdue(b, vm_b, now);
	lt_u64 key_a, key_b;

	if (late_a != late_b)
		return late_a;
	if (a->class != b->class && !late_a)
		return a->class == LT_SMALL;
	if (late_a) {
		key_a = key_b = 0;
	} else if (a->class == LT_SMALL) {
		key_a = lt_due(a);
		key_b = lt_due(b);
	} else {
		key_a = vm_a->vtime_ns;
		key_b = vm_b->vtime_ns;
	}
	if (key_a != key_b)
		return key_a < key_b;
	return a->queued_ns < b->queued_ns;
}

/*
 * The virtual time of those who run after @v of @vm was picked and granted; it
 * was @vtime_ns before. One that runs ahead of its turn pulls it along at a
 * distance.
 */
LT_FN lt_u64 lt_vtime(const struct lt_vcpu *v, const struct lt_vm *vm,
		      const struct lt_params *p, lt_u64 vtime_ns, lt_u64 now)
{
	int early = v->class == LT_SMALL || lt_boosted(v, p, now);
	lt_u64 distance = early ? p->slice_ns : 0;

	return lt_max(vtime_ns, lt_since(vm->vtime_ns, distance));
}

/* ---- preemption ------------------------------------------------------ */

/*
 * Whether @v of @vm, which waits, is to interrupt @cur of @vm_cur, which has run
 * for @ran_ns since its last settlement; preemptions allowing. A small one
 * interrupts a large one, or a small one that has clearly more left; a large one
 * interrupts a large one that is ahead of it by more than a turn.
 */
LT_FN int lt_beats(const struct lt_vcpu *v, const struct lt_vm *vm,
		   const struct lt_vcpu *cur, const struct lt_vm *vm_cur,
		   const struct lt_params *p, lt_u64 ran_ns, lt_u64 now)
{
	if (lt_boosted(cur, p, now) || v->class < cur->class)
		return 0;
	if (v->class > cur->class)
		return 1;
	if (v->class == LT_SMALL)
		return lt_left(cur, ran_ns) > lt_left(v, 0) + p->margin_ns;
	return vm_cur->vtime_ns > vm->vtime_ns + p->slice_ns;
}

/*
 * When @v beats @cur (as lt_beats) if that runs on: 0 is now, LT_NEVER not before its turn is
 * over. A small one that has run for longer than usual is taken to have a quarter of that
 * still to come. So one that has passed for short keeps nobody waiting for longer than a few
 * times what that one has to do.
 */
LT_FN lt_u64 lt_beats_when(const struct lt_vcpu *v, const struct lt_vm *vm,
			   const struct lt_vcpu *cur, const struct lt_vm *vm_cur,
			   const struct lt_params *p, lt_u64 ran_ns, lt_u64 now)
{
	lt_u64 over = (lt_left(v, 0) + p->margin_ns + 1) << 2;

	if (lt_beats(v, vm, cur, vm_cur, p, ran_ns, now))
		return 0;
	if (v->class != LT_SMALL)
		return LT_NEVER;
	if (lt_boosted(cur, p, now))
		return cur->boosted_until_ns;
	return now + lt_since(cur->avg_burst_ns + over, lt_ran(cur, ran_ns));
}

/*
 * What of the reserves @v of @vm has to leave, if it does not follow up: nothing, if its VM
 * preempts less than its share, which shows in that it has half of it saved up. A follow-up
 * never costs its VM's own share, nor has it a claim to that.
 */
LT_FN lt_u64 lt_preempt_leave(const struct lt_vcpu *v, const struct lt_vm *vm,
			      const struct lt_params *p)
{
	lt_u64 half = lt_max(p->preempt_own_ns >> 1, p->preempt_ns);

	return !v->is_completion_wakeup && vm->preempt.tokens_ns >= half ?
	       0 : p->preempt_reserve_ns;
}

/* The longest time for which a preemption waits, if for nothing else: 1.5 prices. */
LT_FN lt_u64 lt_preempt_gap_max(const struct lt_params *p)
{
	return (lt_u64)p->preempt_ns + (p->preempt_ns >> 1);
}

/*
 * For how long who runs on @cpu is left in peace, from the moment at which the last small one
 * left, by preemptions that leave @leave_ns in the bucket: from no time, if there is plenty, to
 * what no load makes it.
 */
LT_FN lt_u64 lt_preempt_gap(const struct lt_pcpu *cpu, const struct lt_params *p,
			    lt_u64 leave_ns)
{
	lt_u64 there = lt_since(cpu->preempt.tokens_ns, leave_ns);

	return lt_since(lt_preempt_gap_max(p), there >> LT_PREEMPT_RISE_SHIFT);
}

/*
 * Price of a preemption: less as long as the bucket is so full that nobody's has to wait.
 * Then the tokens come faster than wake-ups at the full price, and it stays as full.
 */
LT_FN lt_u64 lt_preempt_price(const struct lt_pcpu *cpu, const struct lt_params *p)
{
	lt_u64 price = p->preempt_ns;

	return lt_preempt_gap(cpu, p, p->preempt_reserve_ns) ?
	       price : price - ((price * LT_PREEMPT_DISCOUNT_16THS) >> 4);
}

/* That of a follow-up: sixteen, or all that a full bucket has above the reserves. */
LT_FN lt_u64 lt_completion_price(const struct lt_params *p)
{
	return lt_min((lt_u64)p->preempt_ns * LT_COMPLETION_PRICE,
		      p->preempt_burst_ns - 2ull * p->preempt_reserve_ns);
}

/* Whether @v, which waits, follows up and has not waited for so long yet that it is urgent. */
LT_FN int lt_can_wait(const struct lt_vcpu *v, const struct lt_params *p, lt_u64 now)
{
	return v->is_completion_wakeup && lt_since(now, v->queued_ns) < p->completion_wait_ns;
}

/* When who runs on @cpu has been left in peace for @gap_ns: 0 if it has been at @now. */
LT_FN lt_u64 lt_preempt_after(const struct lt_pcpu *cpu, lt_u64 gap_ns, lt_u64 now)
{
	lt_u64 since = lt_since(now, cpu->disturbed_ns);

	return since >= gap_ns ? 0 : now + (gap_ns - since);
}

/*
 * When a VM whose own share pays for one may preempt although there is no more than the
 * reserve: 0 if it may at @now. So each VM has its share, whatever others save up and spend.
 */
LT_FN lt_u64 lt_preempt_own_when(const struct lt_vm *vm, const struct lt_pcpu *cpu,
				 const struct lt_params *p, lt_u64 now)
{
	lt_u64 own = lt_bucket_when(&vm->preempt, p->preempt_ns);
	lt_u64 all = lt_bucket_when(&cpu->preempt, p->preempt_ns);

	return lt_max(lt_max(own, all), lt_preempt_after(cpu, lt_preempt_gap_max(p), now));
}

/*
 * When @v of @vm may interrupt what runs on @cpu: 0 if it may at @now, else
 * the moment at which to ask again.
 */
LT_FN lt_u64 lt_preempt_when(const struct lt_vcpu *v, struct lt_vm *vm,
			     struct lt_pcpu *cpu, const struct lt_params *p,
			     lt_u64 now)
{
	const struct lt_bucket *b = &cpu->preempt;
	lt_u64 price = p->preempt_ns, reserve = p->preempt_reserve_ns;
	lt_u64 leave, when;

	lt_bucket_fill(&cpu->preempt, now);
	lt_bucket_fill(&vm->preempt, now);
	if (v->class != LT_SMALL)
		return lt_bucket_when(b, price + reserve + reserve);
	if (lt_can_wait(v, p, now)) {
		when = lt_bucket_when(b, lt_completion_price(p) + reserve + reserve);
		return lt_min(when, v->queued_ns + p->completion_wait_ns);
	}
	leave = lt_preempt_leave(v, vm, p);
	if (b->tokens_ns < price + leave) {
		when = lt_bucket_when(b, price + leave);
		if (v->is_completion_wakeup || !leave)
			return when;
		return lt_min(when, lt_preempt_own_when(vm, cpu, p, now));
	}
	return lt_preempt_after(cpu, lt_preempt_gap(cpu, p, leave), now);
}

/*
 * @v of @vm interrupts what runs on @cpu: pays for it. Returns 0, and takes
 * nothing, if the bucket does not hold the price; it does when lt_preempt_when
 * has just said 0.
 */
LT_FN int lt_preempt_take(const struct lt_vcpu *v, struct lt_vm *vm,
			  struct lt_pcpu *cpu, const struct lt_params *p)
{
	/* The moment of the fill, up to the unit that it has not counted. */
	lt_u64 now = cpu->preempt.filled_ns + (1u << LT_UNIT_SHIFT);
	lt_u64 price = lt_preempt_price(cpu, p);

	if (v->class == LT_SMALL && lt_can_wait(v, p, now))
		price = lt_completion_price(p);
	if (cpu->preempt.tokens_ns < price)
		return 0;
	lt_bucket_take(&cpu->preempt, price);
	cpu->disturbed_ns = cpu->preempt.filled_ns;
	/* All up to the price: who takes more than its share has none. */
	if (v->class == LT_SMALL && !v->is_completion_wakeup)
		lt_bucket_take(&vm->preempt, p->preempt_ns);
	return 1;
}

/*
 * @v leaves @cpu. If it was small, who runs there from @now on has time in peace: a limit that
 * counted from preemption to preemption would be longer for those who come after a short run.
 */
LT_FN void lt_preempt_over(struct lt_pcpu *cpu, const struct lt_vcpu *v, lt_u64 now)
{
	if (v->class == LT_SMALL)
		cpu->disturbed_ns = now;
}

#endif
