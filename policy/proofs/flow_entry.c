// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Flows: who has an entry in a set. What packets cost has nothing to do with it:
 * here a packet makes any state of its pair's (flow.c says which), and its VM pays
 * or does not. flow_set.c proves of the same functions that no sum overflows.
 *
 * Replaced: lt_flow_zero
 * Replaced: lt_flow_full
 * Replaced: lt_flow_charge
 * Replaced: lt_flow_vm_take
 */
#include "flows.h"

lt_u64 lt_flow_charge_model(lt_u64 state, const struct lt_flow_rule *r, lt_u32 bytes,
			    lt_u64 now)
{
	return nondet_u64();
}

int lt_flow_vm_take_model(struct lt_flow_vm *vm, const struct lt_flow_rule *r,
			  lt_u32 bytes, lt_u64 now)
{
	return nondet_u8() & 1;
}

/*
 * Whatever is in a set, a pair has one entry of it; nobody's are all zero keys. Who
 * has none is served last: prove_small_is_paid_by_both.
 */
void prove_a_pair_has_one_entry(void)
{
	struct lt_flow_rule r = any_rule();
	struct lt_flow_set set = any_set();
	struct lt_flow_vm owner = any_flow_vm();
	lt_u32 vm = any_vm_number(), band;
	lt_u64 hash = nondet_u64();

	band = lt_flow_classify(&set, &owner, &r, vm, hash, nondet_u32(), any_clock());
	CHECK(band < LT_FLOW_BANDS && valid_set(&set));
	CASE(band == LT_FLOW_BRIEF);
	CASE(lt_flow_find(&set, lt_flow_key(vm, hash)) >= LT_FLOW_WAYS);
}

/* An entry is found if there is one, and it is the pair's; VMs are told apart exactly. */
void prove_a_known_pair_is_found(void)
{
	struct lt_flow_set set = any_set();
	lt_u32 vm = any_vm_number(), found, i = nondet_u32();
	lt_u64 hash = nondet_u64();

	ASSUME(i < LT_FLOW_WAYS);
	found = lt_flow_find(&set, lt_flow_key(vm, hash));
	CHECK((found == i) == (lt_flow_owner(set.key[i]) == vm + 1 &&
			       (set.key[i] & 0xffff) == (hash & 0xffff)));
	CASE(found >= LT_FLOW_WAYS);
	CASE(found == LT_FLOW_WAYS - 1);
}

/* Nobody loses an entry that is live; nobody's but the sender's is changed. */
void prove_live_entries_are_left_alone(void)
{
	struct lt_flow_rule r = any_rule();
	struct lt_flow_set set = any_set(), old = set;
	struct lt_flow_vm owner = any_flow_vm();
	lt_u32 vm = any_vm_number(), i = nondet_u32();
	lt_u64 hash = nondet_u64(), now = any_clock();

	ASSUME(i < LT_FLOW_WAYS);
	lt_flow_classify(&set, &owner, &r, vm, hash, nondet_u32(), now);
	if (live(&old, i, &r, now))
		CHECK(set.key[i] == old.key[i]);
	if (set.key[i] != lt_flow_key(vm, hash))
		CHECK(set.key[i] == old.key[i] && set.state[i] == old.state[i]);
	CHECK(set.lock == old.lock);
	CASE(set.key[i] != old.key[i] && old.key[i]);
	CASE(set.key[i] == old.key[i] && set.state[i] != old.state[i]);
}
