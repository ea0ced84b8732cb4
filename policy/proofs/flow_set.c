// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Flows: a set of pairs, who has an entry in it, and all of it together.
 *
 * Replaced: lt_flow_cost
 * Replaced: lt_flow_zero
 * Replaced: lt_flow_full
 */
#include "flows.h"

/* Whether entry @i says more than a new one would; forget.c says what that is. */
static int live(const struct lt_flow_set *set, lt_u32 i, const struct lt_flow_rule *r,
		lt_u64 now)
{
	return set->key[i] && !lt_flow_full(set->state[i], r, now);
}

/*
 * Whatever is in a set, a pair has one entry of it, and is known by it; nobody's are
 * all zero keys. @i is any entry.
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
	if (lt_flow_find(&set, lt_flow_key(vm, hash)) >= LT_FLOW_WAYS)
		CHECK(band == LT_FLOW_BULK && owner.full_ns < CLOCK_END + (1ull << 41));
	CASE(band == LT_FLOW_BRIEF);
	CASE(lt_flow_find(&set, lt_flow_key(vm, hash)) >= LT_FLOW_WAYS);
}

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
