/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Valid parameters, pairs, sets and VMs of flow.h: what the proofs about it share.
 */
#ifndef LOWTAIL_FLOWS_H
#define LOWTAIL_FLOWS_H

#include "proof.h"
#include "flow.h"

struct lt_flow_params nondet_flow_params(void);
struct lt_flow nondet_flow(void);
struct lt_flow_set nondet_flow_set(void);
struct lt_flow_vm nondet_flow_vm(void);

/* The ranges that FlowParams::check of crates/policy asks for. */
static inline struct lt_flow_params any_flow_params(void)
{
	struct lt_flow_params p = nondet_flow_params();

	ASSUME(p.rate >= 64 && p.rate <= LT_RATE_MAX);
	ASSUME(p.burst_ns <= LT_BURST_MAX_NS && p.burst_ns <= (lt_u64)p.rate << 14);
	ASSUME(p.vm_rate >= 64 && p.vm_rate <= LT_RATE_MAX);
	ASSUME(p.vm_burst_ns <= LT_BURST_MAX_NS);
	return p;
}

static inline int valid_flow(const struct lt_flow *flow, const struct lt_flow_params *p)
{
	return flow->tokens_ns <= p->burst_ns && flow->filled_ns < CLOCK_END &&
	       flow->large <= 1;
}

static inline struct lt_flow any_flow(const struct lt_flow_params *p)
{
	struct lt_flow flow = nondet_flow();

	ASSUME(valid_flow(&flow, p));
	return flow;
}

/* How many entries of a set are @vm's. */
static inline lt_u32 entries(const struct lt_flow_set *set, lt_u32 vm)
{
	lt_u32 i, count = 0;

	for (i = 0; i < LT_FLOW_WAYS; i++)
		count += set->tag[i] && set->flow[i].vm == vm;
	return count;
}

static inline int valid_set(const struct lt_flow_set *set, const struct lt_flow_params *p)
{
	lt_u32 i;

	for (i = 0; i < LT_FLOW_WAYS; i++)
		if (set->tag[i] && !valid_flow(&set->flow[i], p))
			return 0;
	return 1;
}

static inline struct lt_flow_set any_set(const struct lt_flow_params *p)
{
	struct lt_flow_set set = nondet_flow_set();

	ASSUME(valid_set(&set, p));
	return set;
}

static inline struct lt_flow_vm any_flow_vm(void)
{
	struct lt_flow_vm vm = nondet_flow_vm();

	ASSUME(valid_bucket(&vm.small));
	return vm;
}

static inline lt_u64 any_tag(void)
{
	lt_u64 tag = nondet_u64();

	ASSUME(tag != 0);
	return tag;
}

#endif
