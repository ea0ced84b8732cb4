// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Flows: a set of pairs, who has an entry in it, and all of it together.
 *
 * Replaced: lt_bucket_fill
 * Replaced: lt_flow_live
 */
#include "flows.h"

/* Which entries say more than a new one would; forget.c says what that is. */
static lt_u8 live[LT_FLOW_WAYS];

int lt_flow_live_model(struct lt_flow_set *set, lt_u32 i, const struct lt_flow_params *p,
		       lt_u64 now)
{
	lt_u64 clock = any_clock();

	CHECK(i < LT_FLOW_WAYS && now < CLOCK_END && p);
	if (!set->tag[i])
		return 0;
	ASSUME(clock <= set->flow[i].filled_ns);
	set->flow[i].filled_ns = clock;
	return live[i];
}

static void any_live(void)
{
	lt_u32 i;

	for (i = 0; i < LT_FLOW_WAYS; i++) {
		live[i] = nondet_u8();
		ASSUME(live[i] <= 1);
	}
}

static int same(const struct lt_flow *a, const struct lt_flow *b)
{
	return a->tokens_ns == b->tokens_ns && a->attained == b->attained &&
	       a->vm == b->vm && a->large == b->large;
}

/* Whatever is in a set, and whatever the arguments are; @i is any entry. */
void prove_sets_stay_valid(void)
{
	struct lt_flow_params p = any_flow_params();
	struct lt_flow_set set = any_set(&p);
	lt_u32 i = nondet_u32(), band;

	any_live();
	ASSUME(i < LT_FLOW_WAYS);
	band = lt_flow_packet(&set, &p, nondet_u32(), any_tag(), nondet_u32(), any_clock());
	CHECK(band < LT_FLOW_BANDS || band == LT_FLOW_UNKNOWN);
	CHECK(!set.tag[i] || valid_flow(&set.flow[i], &p));
	CASE(band == LT_FLOW_BRIEF);
	CASE(band == LT_FLOW_UNKNOWN);
}

void prove_refusing_keeps_valid(void)
{
	struct lt_flow_params p = any_flow_params();
	struct lt_flow_set set = any_set(&p);
	lt_u32 i = nondet_u32(), band;

	ASSUME(i < LT_FLOW_WAYS);
	band = lt_flow_refuse(&set, &p, nondet_u32(), any_tag());
	CHECK(band < LT_FLOW_BANDS && !lt_flow_small(band));
	CHECK(!set.tag[i] || valid_flow(&set.flow[i], &p));
	CASE(band == LT_FLOW_LARGE);
	CASE(band == LT_FLOW_BULK);
}

/*
 * No VM ever has more entries of a set than its share. Those of others than the
 * sender become fewer at most (prove_live_entries_are_left_alone), and a pair that
 * is known (prove_a_known_pair_is_found) needs no new one.
 */
void prove_no_vm_has_more_than_its_share(void)
{
	struct lt_flow_params p = any_flow_params();
	struct lt_flow_set set = nondet_flow_set();
	lt_u32 vm = nondet_u32(), old = entries(&set, vm);

	any_live();
	ASSUME(old <= LT_FLOW_WAYS_VM);
	lt_flow_enter(&set, &p, vm, any_tag(), any_clock());
	CHECK(entries(&set, vm) <= LT_FLOW_WAYS_VM);
	CASE(entries(&set, vm) == LT_FLOW_WAYS_VM && old < LT_FLOW_WAYS_VM);
	CASE(entries(&set, vm) == LT_FLOW_WAYS_VM && old == LT_FLOW_WAYS_VM);
}

/* An entry is found if there is one, and it is the pair's. */
void prove_a_known_pair_is_found(void)
{
	struct lt_flow_set set = nondet_flow_set();
	lt_u32 vm = nondet_u32(), found, i;
	lt_u64 tag = any_tag();

	found = lt_flow_find(&set, vm, tag);
	CHECK(found <= LT_FLOW_WAYS);
	for (i = 0; i < LT_FLOW_WAYS; i++) {
		int is = set.tag[i] == tag && set.flow[i].vm == vm;

		CHECK(found == i ? is : !is || found < i);
	}
	CASE(found == LT_FLOW_WAYS);
	CASE(found == LT_FLOW_WAYS - 1);
}

/* So one VM alone, whatever it has sent, leaves an entry to each other one. */
void prove_one_vm_leaves_room_for_another(void)
{
	struct lt_flow_params p = any_flow_params();
	struct lt_flow_set set = any_set(&p);
	lt_u32 greedy = nondet_u32(), vm = nondet_u32(), i;

	any_live();
	ASSUME(vm != greedy && entries(&set, greedy) <= LT_FLOW_WAYS_VM);
	ASSUME(entries(&set, vm) <= LT_FLOW_WAYS_VM);
	for (i = 0; i < LT_FLOW_WAYS; i++)
		ASSUME(!set.tag[i] || !live[i] || set.flow[i].vm == greedy);
	CASE(entries(&set, greedy) == LT_FLOW_WAYS_VM &&
	     entries(&set, vm) == LT_FLOW_WAYS_VM);
	CHECK(lt_flow_packet(&set, &p, vm, any_tag(), nondet_u32(), any_clock()) !=
	      LT_FLOW_UNKNOWN);
}

/* Nobody loses an entry that is live; nobody's but the sender's is changed. */
void prove_live_entries_are_left_alone(void)
{
	struct lt_flow_params p = any_flow_params();
	struct lt_flow_set set = any_set(&p), old = set;
	lt_u32 vm = nondet_u32(), i = nondet_u32();
	lt_u64 tag = any_tag();

	any_live();
	ASSUME(i < LT_FLOW_WAYS && set.tag[i]);
	lt_flow_packet(&set, &p, vm, tag, nondet_u32(), any_clock());
	if (live[i])
		CHECK(set.tag[i] == old.tag[i] && set.flow[i].vm == old.flow[i].vm);
	if (set.tag[i] != tag || set.flow[i].vm != vm)
		CHECK(set.tag[i] == old.tag[i] && same(&set.flow[i], &old.flow[i]));
	CASE(set.tag[i] != old.tag[i]);
	CASE(set.flow[i].vm != old.flow[i].vm);
}

/* A pair has one entry, and is known by it while nobody else has taken that. */
void prove_a_pair_has_one_entry(void)
{
	struct lt_flow_params p = any_flow_params();
	struct lt_flow_set set = any_set(&p);
	lt_u32 vm = nondet_u32(), i = nondet_u32(), j = nondet_u32(), band;
	lt_u64 tag = any_tag();

	any_live();
	ASSUME(i < LT_FLOW_WAYS && j < LT_FLOW_WAYS && i != j);
	ASSUME(!set.tag[i] || set.tag[i] != set.tag[j] || set.flow[i].vm != set.flow[j].vm);
	band = lt_flow_packet(&set, &p, vm, tag, nondet_u32(), any_clock());
	CHECK(!set.tag[i] || set.tag[i] != set.tag[j] || set.flow[i].vm != set.flow[j].vm);
	CHECK((band == LT_FLOW_UNKNOWN) == (lt_flow_find(&set, vm, tag) == LT_FLOW_WAYS));
	CASE(set.tag[i] == tag && set.tag[j] == tag);
	CASE(band == LT_FLOW_UNKNOWN);
}

/*
 * A packet goes as small only if the VM's bucket pays for it in full, besides its
 * pair's (flow.c), and the VM's pays for nothing else.
 */
void prove_small_is_paid_by_both(void)
{
	struct lt_flow_params p = any_flow_params();
	struct lt_flow_set set = any_set(&p);
	struct lt_flow_vm owner = any_flow_vm();
	lt_u32 bytes = nondet_u32(), band;
	lt_u64 span = lt_line_ns(bytes), unknown = owner.unknown;

	any_live();
	watch(&owner.small);
	band = lt_flow_classify(&set, &owner, &p, nondet_u32(), any_tag(), bytes,
				any_clock());
	CHECK(band < LT_FLOW_BANDS && valid_bucket(&owner.small));
	CHECK(owner.small.tokens_ns + (lt_flow_small(band) ? span : 0) == had_tokens);
	CHECK(owner.unknown == unknown || (owner.unknown == unknown + 1 &&
					   band == LT_FLOW_BULK));
	CASE(lt_flow_small(band));
	CASE(!lt_flow_small(band) && had_tokens >= span);
	CASE(owner.unknown != unknown);
}

/* In a set full of others' live entries there is none, and nothing is changed. */
void prove_a_full_set_has_no_entry(void)
{
	struct lt_flow_params p = any_flow_params();
	struct lt_flow_set set = any_set(&p);
	lt_u32 i;

	any_live();
	for (i = 0; i < LT_FLOW_WAYS; i++)
		ASSUME(set.tag[i] && live[i]);
	CHECK(lt_flow_enter(&set, &p, nondet_u32(), any_tag(), any_clock()) == LT_FLOW_WAYS);
	CHECK(!lt_flow_small(LT_FLOW_UNKNOWN));
	CASE(set.flow[0].large);
}

/* One whose VM lacks the tokens is large like one that lacks its own, and goes later. */
void prove_a_refused_pair_is_large(void)
{
	struct lt_flow_params p = any_flow_params();
	struct lt_flow_set set = any_set(&p);
	struct lt_flow_vm owner = any_flow_vm();
	lt_u32 vm = nondet_u32(), band, i;
	lt_u64 tag = any_tag(), refused = owner.refused;

	any_live();
	band = lt_flow_classify(&set, &owner, &p, vm, tag, nondet_u32(), any_clock());
	ASSUME(owner.refused != refused);
	i = lt_flow_find(&set, vm, tag);
	CHECK(i < LT_FLOW_WAYS && set.flow[i].large);
	CHECK(!lt_flow_small(band) && band == lt_flow_class(&set.flow[i], &p));
	CASE(band == LT_FLOW_LARGE && set.flow[i].tokens_ns > 0);
}
