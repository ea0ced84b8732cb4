/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the proofs share. A proof is a function `void prove_NAME(void)`; CBMC
 * follows it for all values that its nondet_ calls can have. `run` runs them.
 *
 * They come in three layers. gain.c looks at the one product and the one
 * quotient on rates. In bucket.c the two are replaced by their laws. Above that,
 * lt_bucket_fill is replaced by the contract that bucket.c proves. A file says
 * in a line `Replaced:` which functions CBMC sees as their _model.
 *
 * Besides what a proof says itself: no unsigned arithmetic wraps, no signed one
 * overflows, no conversion loses bits, no shift is too wide, no divisor is 0, no
 * pointer goes astray. A file that says `Overflows: in states.c` leaves that to
 * states.c, which calls the same functions with all values that they may get.
 */
#ifndef LOWTAIL_PROOF_H
#define LOWTAIL_PROOF_H

#include "vcpu.h"

#define ASSUME(what) __CPROVER_assume(what)
#define CHECK(what) __CPROVER_assert(what, #what)
/*
 * A case that has to be among those that a proof covers: else it might hold
 * because its assumptions contradict one another.
 */
#ifdef COVERAGE
#define CASE(what) __CPROVER_cover(what)
#else
#define CASE(what)
#endif

lt_u64 nondet_u64(void);
lt_u32 nondet_u32(void);
lt_u8 nondet_u8(void);
struct lt_bucket nondet_bucket(void);
struct lt_pcpu nondet_pcpu(void);
struct lt_vm nondet_vm(void);
struct lt_vcpu nondet_vcpu(void);
struct lt_params nondet_params(void);

/* ---- products -------------------------------------------------------- */

/*
 * A SAT solver does not find out by itself that (a + b) r = a r + b r. So the
 * models of lt_gain and lt_div_up have products of which one knows only the laws
 * of arithmetic that are named. These hold for all integers; laws.c tries them
 * for all small ones, since a false law would prove anything. Products are
 * wide, so that they wrap for no clock.
 */
typedef unsigned __int128 lt_wide;

lt_wide __CPROVER_uninterpreted_times(lt_wide a, lt_wide b);

#ifdef TRY_LAWS
#define TIMES(a, b) ((lt_wide)(a) * (lt_wide)(b))
#define LAW(what) CHECK(what)
#else
#define TIMES(a, b) __CPROVER_uninterpreted_times(a, b)
#define LAW(what) ASSUME(what)
#endif

/* No more than the product of the bounds, which are powers of 2; nothing times nothing. */
static inline void law_bound(lt_u64 a, lt_u64 b, lt_wide most_a, lt_wide most_b)
{
	LAW(a > most_a || b > most_b || TIMES(a, b) <= most_a * most_b);
	LAW(a != 0 || TIMES(a, b) == 0);
	LAW(b != 0 || TIMES(a, b) == 0);
}

/* The factor 2^16 that a rate of one is. */
static inline void law_one(lt_u64 a, lt_u64 b)
{
	LAW(b != LT_RATE_ONE || TIMES(a, b) == (lt_wide)a << 16);
}

static inline void law_monotone(lt_u64 a, lt_u64 b, lt_u64 c)
{
	LAW(a > b || TIMES(a, c) <= TIMES(b, c));
}

static inline void law_sum(lt_u64 a, lt_u64 b, lt_u64 c)
{
	LAW(TIMES((lt_wide)a + b, c) == TIMES(a, c) + TIMES(b, c));
}

/* Two parts of @whole together are no more than it. */
static inline void law_parts(lt_u64 a, lt_u64 b, lt_u64 whole, lt_u64 c)
{
	law_bound(whole, c, 1ull << 54, LT_RATE_MAX);
	LAW(a > whole || b > whole - a ||
	    (TIMES(a, c) <= TIMES(whole, c) &&
	     TIMES(b, c) <= TIMES(whole, c) - TIMES(a, c)));
}

/* What defines a quotient that is rounded up. */
static inline void law_div_up(lt_u64 a, lt_u32 b, lt_u64 quotient)
{
	LAW(TIMES(quotient, b) >= a);
	LAW(quotient == 0 || TIMES(quotient - 1, b) < a);
	LAW(quotient <= a && (quotient != 0 || a == 0));
}

/* The units that lt_gain has last been asked for; what lt_div_up has last said. */
static lt_u64 gain_units, last_quotient;

lt_u64 lt_gain_model(lt_u64 units, lt_u32 rate)
{
	CHECK(units <= LT_GAP_UNITS_MAX && rate <= LT_RATE_MAX);
	gain_units = units;
	law_bound(units, rate, LT_GAP_UNITS_MAX, LT_RATE_MAX);
	law_one(units, rate);
	if (rate == LT_RATE_ONE)
		return units << LT_UNIT_SHIFT;
	return TIMES(units, rate) >> LT_GAIN_SHIFT;
}

lt_u64 lt_div_up_model(lt_u64 a, lt_u32 b)
{
	lt_u64 quotient = nondet_u64();

	CHECK(b != 0 && a <= ~0ull - b);
	law_div_up(a, b, quotient);
	last_quotient = quotient;
	return quotient;
}

/* ---- clocks and buckets ---------------------------------------------- */

#define CLOCK_END (1ull << 63)

static inline lt_u64 any_clock(void)
{
	lt_u64 now = nondet_u64();

	ASSUME(now < CLOCK_END);
	return now;
}

static inline int valid_bucket(const struct lt_bucket *b)
{
	return b->rate <= LT_RATE_MAX && b->burst_ns <= LT_BURST_MAX_NS &&
	       b->tokens_ns <= b->burst_ns && b->filled_ns < CLOCK_END + LT_STEP_BACK_MAX_NS;
}

static inline struct lt_bucket any_bucket(void)
{
	struct lt_bucket b = nondet_bucket();

	ASSUME(valid_bucket(&b));
	return b;
}

/* ---- rates ----------------------------------------------------------- */

/* What time adds at @rate up to the moment @clock, from the clock's origin on. */
static inline lt_wide added_until(lt_u64 clock, lt_u32 rate)
{
	law_bound(clock >> LT_UNIT_SHIFT, rate, 1ull << 54, LT_RATE_MAX);
	law_one(clock >> LT_UNIT_SHIFT, rate);
	return TIMES(clock >> LT_UNIT_SHIFT, rate) >> LT_GAIN_SHIFT;
}

/*
 * A fill that makes @new of @old has added no more than what the time adds by
 * which filled_ns has gone forward; nothing, if it has gone back (a new clock).
 *
 * This adds up over any number of fills. In a window of time they add no more
 * than what the rate adds in the length of the window and one unit: filled_ns
 * is less than a unit behind the latest that the clock has been, and ahead of it
 * only by what is owed, for which nothing is added. If the clock steps back within the window, its length is that of all
 * stretches between the steps.
 */
static inline int no_faster(const struct lt_bucket *old, const struct lt_bucket *new)
{
	if (new->filled_ns < old->filled_ns)
		return new->tokens_ns <= old->tokens_ns;
	return new->tokens_ns + added_until(old->filled_ns, old->rate) <=
	       old->tokens_ns + added_until(new->filled_ns, old->rate);
}

/* What a fill at @now does besides, as far as the layers above have to know. */
static inline int fill_contract(const struct lt_bucket *old,
				const struct lt_bucket *new, lt_u64 now)
{
	return new->rate == old->rate && new->burst_ns == old->burst_ns &&
	       new->tokens_ns >= old->tokens_ns && new->tokens_ns <= new->burst_ns &&
	       (new->filled_ns == old->filled_ns ||
		(new->filled_ns > old->filled_ns ? new->filled_ns <= now :
						   new->filled_ns == now)) &&
	       (new->filled_ns > old->filled_ns || new->tokens_ns == old->tokens_ns) &&
	       (now >= old->filled_ns ?
			now - new->filled_ns < 1u << LT_UNIT_SHIFT :
			new->filled_ns - now <= LT_STEP_BACK_MAX_NS);
}

/*
 * The layers above prove that tokens come from fills alone: what a bucket holds
 * at the end, and what has been done with tokens out of it, is no more than what
 * it held at the beginning and what fills have added. For one bucket, any one of
 * those that a proof is about, that is had_tokens. Fills come first in each
 * function, before tokens are taken or given.
 */
static const struct lt_bucket *watched;
static lt_u64 had_tokens;
/* Up to when its last fill has filled it. */
static lt_u64 had_filled;
/* What the last fill of a bucket that is not watched has made of what. */
static struct lt_bucket last_unfilled, last_filled;

static inline const struct lt_bucket *watch(const struct lt_bucket *b)
{
	watched = b;
	had_tokens = b->tokens_ns;
	return b;
}

void lt_bucket_fill_model(struct lt_bucket *b, lt_u64 now)
{
	struct lt_bucket new = nondet_bucket();

	CHECK(valid_bucket(b) && now < CLOCK_END);
	ASSUME(fill_contract(b, &new, now));
	if (b == watched) {
		CHECK(b->tokens_ns == had_tokens);
		had_tokens = new.tokens_ns;
		had_filled = new.filled_ns;
	} else {
		last_unfilled = *b;
		last_filled = new;
	}
	*b = new;
}

/* ---- valid states ---------------------------------------------------- */

/* The ranges that Params::check of crates/policy asks for. */
static inline int valid_params(const struct lt_params *p)
{
	const lt_u32 most = 1u << 30;

	return p->min_grant_ns >= 1 && p->min_grant_ns <= 1000000 &&
	       p->burst_ns >= 2 * p->min_grant_ns && p->burst_ns <= most &&
	       p->grant_ns >= p->min_grant_ns && p->grant_ns <= most &&
	       p->slice_ns >= 100000 && p->slice_ns <= most &&
	       p->wait_turns >= 1 && p->wait_turns <= 64 &&
	       p->starvation_boost_ns >= 1 && p->starvation_boost_ns <= p->slice_ns &&
	       p->margin_ns <= most && p->completion_window_ns <= most &&
	       p->completion_wait_ns <= most &&
	       p->preempt_ns >= 1000 && p->preempt_ns <= most / 4 &&
	       p->preempt_reserve_ns <= most / 4 &&
	       p->preempt_own_ns >= p->preempt_ns && p->preempt_own_ns <= most &&
	       p->preempt_burst_ns >= p->preempt_ns + 2 * p->preempt_reserve_ns &&
	       p->preempt_burst_ns <= most;
}

static inline struct lt_params any_params(void)
{
	struct lt_params p = nondet_params();

	ASSUME(valid_params(&p));
	return p;
}

static inline int valid_pcpu(const struct lt_pcpu *cpu, const struct lt_params *p)
{
	return valid_bucket(&cpu->preempt) && cpu->preempt.rate == LT_RATE_ONE &&
	       cpu->preempt.burst_ns == p->preempt_burst_ns &&
	       cpu->disturbed_ns < CLOCK_END + LT_STEP_BACK_MAX_NS;
}

static inline struct lt_pcpu any_pcpu(const struct lt_params *p)
{
	struct lt_pcpu cpu = nondet_pcpu();

	ASSUME(valid_pcpu(&cpu, p));
	return cpu;
}

static inline int valid_cap(const struct lt_cap *cap)
{
	return valid_bucket(&cap->run) && cap->turn_ns >= 1 &&
	       (lt_capped(cap) ?
		(lt_u64)cap->small_reserve_ns + cap->turn_ns <= cap->run.burst_ns :
		cap->run.burst_ns == 0 && cap->small_reserve_ns == 0);
}

/*
 * Virtual time goes on by at most 256 times the run time of all vCPUs of a VM:
 * at 2^63 it is after 1.1 years of a VM with the weight 1 on one pCPU, after
 * 292 years with the usual weight.
 */
#define VTIME_END (1ull << 63)

static inline int valid_vm(const struct lt_vm *vm, const struct lt_params *p)
{
	return valid_bucket(&vm->small) && vm->small.burst_ns == p->burst_ns &&
	       valid_bucket(&vm->preempt) && vm->preempt.rate <= LT_RATE_ONE &&
	       vm->preempt.rate >= 1 && vm->preempt.burst_ns == p->preempt_own_ns &&
	       valid_cap(&vm->cap) &&
	       vm->inv_weight >= LT_WEIGHT_USUAL * 65536ull / LT_WEIGHT_MAX &&
	       vm->inv_weight <= LT_WEIGHT_USUAL << 16 &&
	       vm->wait_max_ns <= LT_WAIT_MAX_NS && vm->vtime_ns < VTIME_END;
}

static inline struct lt_vm any_vm(const struct lt_params *p)
{
	struct lt_vm vm = nondet_vm();

	ASSUME(valid_vm(&vm, p));
	return vm;
}

static inline int valid_vcpu(const struct lt_vcpu *v, const struct lt_params *p)
{
	return valid_bucket(&v->small) && v->small.rate <= LT_RATE_ONE &&
	       v->small.burst_ns == p->burst_ns && v->class <= LT_SMALL &&
	       v->is_completion_wakeup <= 1 && v->known <= 1 && v->grant_ns <= p->grant_ns &&
	       v->often <= 1024 && v->completion_ns <= 3u << 29 &&
	       (v->completion_dev_ns <= 7u << 28 || v->completion_dev_ns == LT_UNKNOWN) &&
	       valid_cap(&v->cap) && v->cap_grant_ns <= LT_BURST_MAX_NS &&
	       v->blocked_ns < CLOCK_END &&
	       v->queued_ns < CLOCK_END &&
	       v->boosted_until_ns <= CLOCK_END + LT_SLICE_MAX_NS;
}

static inline struct lt_vcpu any_vcpu(const struct lt_params *p)
{
	struct lt_vcpu v = nondet_vcpu();

	ASSUME(valid_vcpu(&v, p));
	return v;
}

#endif
