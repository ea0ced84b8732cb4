/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Valid rules, pairs, sets and VMs of flow.h: what the proofs about it share.
 *
 * A VM's bucket is changed by compare and swap. Here another one may have changed
 * it before each try, to any value. All tries are the same; two are enough.
 */
#ifndef LOWTAIL_FLOWS_H
#define LOWTAIL_FLOWS_H

#include "proof.h"

static int lt_flow_swap(lt_u64 *at, lt_u64 old, lt_u64 new);
static void lt_flow_count(lt_u64 *at);
#define LT_FLOW_SWAP(at, old, new) lt_flow_swap(at, old, new)
#define LT_FLOW_COUNT(at) lt_flow_count(at)
#define LT_FLOW_TRIES 2u
#include "flow.h"

struct lt_flow_params nondet_flow_params(void);
struct lt_flow_rule nondet_flow_rule(void);
struct lt_flow_set nondet_flow_set(void);
struct lt_flow_vm nondet_flow_vm(void);

/* What a swap that has succeeded has made of what; how many have, and have not. */
static lt_u64 swapped_old, swapped_new;
static lt_u32 swaps, counts, others;

static int lt_flow_swap(lt_u64 *at, lt_u64 old, lt_u64 new)
{
	if (nondet_u8()) {
		others++;
		*at = nondet_u64();
		ASSUME(*at != old && *at < CLOCK_END + (1ull << 41));
		return 0;
	}
	CHECK(*at == old);
	swapped_old = old;
	swapped_new = *at = new;
	swaps++;
	return 1;
}

static void lt_flow_count(lt_u64 *at)
{
	*at = nondet_u64();
	counts++;
}

/* The ranges that FlowParams::check of crates/policy asks for. */
static inline struct lt_flow_params any_flow_params(void)
{
	struct lt_flow_params p = nondet_flow_params();

	ASSUME(p.rate >= 64 && p.rate <= LT_RATE_MAX);
	ASSUME(p.burst_ns <= LT_BURST_MAX_NS && p.burst_ns <= (lt_u64)p.rate << 14);
	ASSUME(p.vm_rate >= 64 && p.vm_rate <= LT_RATE_MAX);
	ASSUME(p.vm_burst_ns <= LT_BURST_MAX_NS);
	ASSUME(p.brief_bytes < LT_FLOW_ATTAINED_MAX && p.large_bytes < LT_FLOW_ATTAINED_MAX &&
	       p.long_bytes < LT_FLOW_ATTAINED_MAX);
	return p;
}

/* What lt_flow_rule_init makes of them, see prove_rules_are_valid. */
static inline int valid_rule(const struct lt_flow_rule *r)
{
	return r->cost >= 1u << 12 && r->cost <= 1u << 29 &&
	       r->vm_cost >= 1u << 12 && r->vm_cost <= 1u << 29 &&
	       r->debt_ns <= 1ull << 31 && r->ahead_ns == r->debt_ns + LT_FLOW_STEP_NS &&
	       r->vm_debt_ns <= 1ull << 40 && r->brief_bytes < LT_FLOW_ATTAINED_MAX &&
	       r->large_bytes < LT_FLOW_ATTAINED_MAX && r->long_bytes < LT_FLOW_ATTAINED_MAX;
}

static inline struct lt_flow_rule any_rule(void)
{
	struct lt_flow_rule r = nondet_flow_rule();

	ASSUME(valid_rule(&r));
	return r;
}

/* What a packet costs: the same for the same one. Its bounds are in flow_cost.c. */
lt_u64 __CPROVER_uninterpreted_cost(lt_u32 bytes, lt_u32 cost);

lt_u64 lt_flow_cost_model(lt_u32 bytes, lt_u32 cost)
{
	lt_u64 span = __CPROVER_uninterpreted_cost(bytes, cost);

	CHECK(cost >= 1u << 12 && cost <= 1u << 29);
	ASSUME(span >= 4 && span <= 1ull << 39);
	return span;
}

/* How far the entry's clock is ahead of @now: 0 to 2^40 - 1. */
static inline lt_u64 clock_ahead(lt_u64 state, lt_u64 now)
{
	return ((state >> LT_FLOW_CLOCK_SHIFT) + LT_FLOW_CLOCK_END -
		now % LT_FLOW_CLOCK_END) % LT_FLOW_CLOCK_END;
}

/* What forget.c proves of these two; they are sums, which a SAT solver finds hard. */
lt_u32 lt_flow_zero_model(lt_u64 number)
{
	CHECK(number < 1ull << 32);
	return number == 0;
}

lt_u64 lt_flow_full_model(lt_u64 state, const struct lt_flow_rule *r, lt_u64 now)
{
	lt_u64 ahead = clock_ahead(state, now);

	return ahead == 0 || ahead > r->ahead_ns;
}

/* Whether entry @i says more than a new one would; forget.c says what that is. */
static inline int live(const struct lt_flow_set *set, lt_u32 i, const struct lt_flow_rule *r,
		       lt_u64 now)
{
	return set->key[i] && !lt_flow_full(set->state[i], r, now);
}

/* How many entries of a set are @vm's. */
static inline lt_u32 entries(const struct lt_flow_set *set, lt_u32 vm)
{
	lt_u32 i, count = 0;

	for (i = 0; i < LT_FLOW_WAYS; i++)
		count += lt_flow_owner(set->key[i]) == vm + 1;
	return count;
}

/* No pair has two entries (prove_a_pair_has_one_entry). */
static inline int valid_set(const struct lt_flow_set *set)
{
	lt_u32 i, j;

	for (i = 0; i < LT_FLOW_WAYS; i++) {
		/* An owner of nobody is a key of 0. */
		if (set->key[i] && !lt_flow_owner(set->key[i]))
			return 0;
		for (j = 0; j < i; j++)
			if (set->key[i] && set->key[i] == set->key[j])
				return 0;
	}
	return 1;
}

static inline struct lt_flow_set any_set(void)
{
	struct lt_flow_set set = nondet_flow_set();

	ASSUME(valid_set(&set));
	return set;
}

static inline lt_u32 any_vm_number(void)
{
	lt_u32 vm = nondet_u32();

	ASSUME(vm <= LT_FLOW_VM_MAX);
	return vm;
}

static inline struct lt_flow_vm any_flow_vm(void)
{
	struct lt_flow_vm vm = nondet_flow_vm();

	ASSUME(vm.full_ns < CLOCK_END + (1ull << 41));
	return vm;
}

#endif
