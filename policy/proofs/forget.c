// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Flows: that an entry is forgotten, and what a clock does that steps back.
 */
#include "flows.h"

/* The two ways in which the header says whether a bucket is full agree. */
void prove_full_is_not_ahead(void)
{
	struct lt_flow_rule r = any_rule();
	lt_u64 state = nondet_u64(), now = any_clock(), ahead = clock_ahead(state, now);

	CHECK(lt_flow_full(state, &r, now) == (ahead == 0 || ahead > r.ahead_ns));
	CHECK(lt_flow_ahead(state, &r, now) == (ahead <= r.ahead_ns ? ahead : 0));
	CASE(ahead == r.ahead_ns);
	CASE(ahead == LT_FLOW_CLOCK_END - 1);
}

void prove_zero_is_zero(void)
{
	lt_u64 number = nondet_u32();

	CHECK(lt_flow_zero(number) == !number);
	CASE(number == ~0u);
}

/*
 * A pair that is silent is forgotten, after debt_ns at the latest (or after ahead_ns,
 * if its clock had stepped back), until its clock comes round.
 */
void prove_a_silent_pair_is_forgotten(void)
{
	struct lt_flow_rule r = any_rule();
	lt_u64 state = nondet_u64(), now = any_clock(), then = any_clock(), most = nondet_u64();

	ASSUME(most <= r.ahead_ns && clock_ahead(state, then) <= most);
	ASSUME(now >= then + most && now - then < LT_FLOW_CLOCK_END - r.ahead_ns);
	CHECK(lt_flow_full(state, &r, now));
	CASE(most == r.debt_ns && clock_ahead(state, then) == most && now == then + most);
}

/* And what seems live when it has come round has no more tokens than it was left with. */
void prove_a_clock_that_comes_round_makes_no_tokens(void)
{
	struct lt_flow_rule r = any_rule();
	lt_u64 state = nondet_u64(), now = any_clock(), then = any_clock();
	lt_u64 left = clock_ahead(state, then), gone;

	ASSUME(left <= r.ahead_ns && now >= then);
	gone = now - then;
	ASSUME(gone < 1ull << 62);
	CHECK(lt_flow_ahead(state, &r, now) >= lt_since(left, gone));
	CASE(lt_flow_ahead(state, &r, now) > left);
}

/*
 * A clock that steps back by no more than LT_FLOW_STEP_NS adds nothing: a bucket
 * is full at the same moment as before. If by more than an entry may be ahead, it
 * is full, like one of a pair that is new.
 */
void prove_a_step_back_of_the_clock_adds_nothing(void)
{
	struct lt_flow_rule r = any_rule();
	lt_u64 state = nondet_u64(), now = any_clock(), then = any_clock();
	lt_u64 left = clock_ahead(state, then), back;

	ASSUME(left >= 1 && left <= r.debt_ns && then >= now);
	back = then - now;
	if (back <= LT_FLOW_STEP_NS)
		CHECK(lt_flow_ahead(state, &r, now) == left + back);
	else if (left + back > r.ahead_ns && back < LT_FLOW_CLOCK_END - left)
		CHECK(lt_flow_full(state, &r, now));
	CASE(back == LT_FLOW_STEP_NS && left == r.debt_ns);
	CASE(back > 1ull << 39 && back < LT_FLOW_CLOCK_END - left);
}
