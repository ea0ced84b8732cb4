// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Flows: what a VM may have of a set, and all of it together. Who has an entry in
 * it: flow_entry.c.
 *
 * Replaced: lt_flow_cost
 * Replaced: lt_flow_zero
 * Replaced: lt_flow_full
 */
#include "flows.h"

/*
 * No VM ever has more entries of a set than its share. Those of others than the
 * sender become fewer at most (prove_live_entries_are_left_alone), and a pair that
 * is known (prove_a_known_pair_is_found) needs no new one.
 */
void prove_no_vm_has_more_than_its_share(void)
{
	struct lt_flow_rule r = any_rule();
	struct lt_flow_set set = any_set();
	lt_u32 vm = any_vm_number(), old = entries(&set, vm);

	ASSUME(old <= LT_FLOW_WAYS_VM);
	lt_flow_enter(&set, &r, lt_flow_key(vm, nondet_u64()), any_clock());
	CHECK(entries(&set, vm) <= LT_FLOW_WAYS_VM);
	CASE(entries(&set, vm) == LT_FLOW_WAYS_VM && old < LT_FLOW_WAYS_VM);
	CASE(entries(&set, vm) == LT_FLOW_WAYS_VM && old == LT_FLOW_WAYS_VM);
}

/* So one VM alone, whatever it has sent, leaves an entry to each other one. */
void prove_one_vm_leaves_room_for_another(void)
{
	struct lt_flow_rule r = any_rule();
	struct lt_flow_set set = any_set();
	lt_u32 greedy = any_vm_number(), vm = any_vm_number(), i;
	lt_u64 now = any_clock(), hash = nondet_u64();

	ASSUME(vm != greedy && entries(&set, greedy) <= LT_FLOW_WAYS_VM);
	ASSUME(entries(&set, vm) <= LT_FLOW_WAYS_VM);
	for (i = 0; i < LT_FLOW_WAYS; i++)
		ASSUME(!live(&set, i, &r, now) || lt_flow_owner(set.key[i]) == greedy + 1);
	CASE(entries(&set, greedy) == LT_FLOW_WAYS_VM && entries(&set, vm) == 2);
	CHECK(lt_flow_enter(&set, &r, lt_flow_key(vm, hash), now) < LT_FLOW_WAYS);
}

/*
 * A packet goes as small only if the VM's bucket pays for it in full, besides its
 * pair's (flow.c), and the VM's pays for nothing else. One whose VM lacks the
 * tokens is large like one that lacks its own.
 */
void prove_small_is_paid_by_both(void)
{
	struct lt_flow_rule r = any_rule();
	struct lt_flow_set set = any_set();
	struct lt_flow_vm owner = any_flow_vm();
	lt_u32 vm = any_vm_number(), bytes = nondet_u32(), band, i;
	lt_u64 hash = nondet_u64(), now = any_clock();

	band = lt_flow_classify(&set, &owner, &r, vm, hash, bytes, now);
	CHECK(lt_flow_small(band) == (int)swaps && swaps + counts <= 1);
	i = lt_flow_find(&set, lt_flow_key(vm, hash));
	if (i < LT_FLOW_WAYS)
		CHECK(lt_flow_class(set.state[i], &r) == band &&
		      clock_ahead(set.state[i], now) >= 1 - !r.debt_ns);
	else
		CHECK(counts == 1 && band == LT_FLOW_BULK);
	if (counts)
		CHECK(!lt_flow_small(band));
	/* Who is brief leaves its VM half of what it can save up. */
	if (band == LT_FLOW_BRIEF)
		CHECK(lt_since(owner.full_ns, now) <= r.vm_debt_ns / 2);
	CASE(lt_flow_small(band));
	CASE(i < LT_FLOW_WAYS && counts);
	CASE(i >= LT_FLOW_WAYS);
}

/* In a set full of others' live entries there is none, and nothing is changed. */
void prove_a_full_set_has_no_entry(void)
{
	struct lt_flow_rule r = any_rule();
	struct lt_flow_set set = any_set(), old = set;
	lt_u64 now = any_clock();
	lt_u32 i;

	for (i = 0; i < LT_FLOW_WAYS; i++)
		ASSUME(live(&set, i, &r, now));
	CHECK(lt_flow_enter(&set, &r, lt_flow_key(any_vm_number(), nondet_u64()), now) ==
	      LT_FLOW_WAYS);
	for (i = 0; i < LT_FLOW_WAYS; i++)
		CHECK(set.key[i] == old.key[i] && set.state[i] == old.state[i]);
	CASE(lt_flow_large(set.state[0]));
}

/* A VM of no number has no entries. */
void prove_a_vm_of_no_number_is_bulk(void)
{
	struct lt_flow_rule r = any_rule();
	struct lt_flow_set set = any_set();
	struct lt_flow_vm owner = any_flow_vm();
	lt_u32 vm = nondet_u32();

	ASSUME(vm > LT_FLOW_VM_MAX);
	CHECK(lt_flow_classify(&set, &owner, &r, vm, nondet_u64(), nondet_u32(),
			       any_clock()) == LT_FLOW_BULK);
	CHECK(counts == 1 && !swaps);
	CASE(vm == ~0u);
}
