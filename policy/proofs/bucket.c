// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Buckets: ranges, never faster than the rate, and when there will be enough.
 *
 * Replaced: lt_gain lt_div_up
 */
#include "proof.h"

/* 0 to burst after each operation, whatever the arguments. */
void prove_tokens_stay_within_the_burst(void)
{
	struct lt_bucket b, old;
	lt_u64 now = any_clock(), want = nondet_u64(), result;

	lt_bucket_init(&b, nondet_u32(), nondet_u32(), nondet_u64(), now);
	CHECK(valid_bucket(&b) && b.filled_ns == now);
	CASE(b.tokens_ns == LT_BURST_MAX_NS && b.rate == LT_RATE_MAX);

	old = b = any_bucket();
	lt_bucket_fill(&b, now);
	CHECK(valid_bucket(&b) && b.tokens_ns >= old.tokens_ns);
	CHECK(b.rate == old.rate && b.burst_ns == old.burst_ns);
	CASE(b.tokens_ns == b.burst_ns && old.tokens_ns < b.burst_ns);
	CASE(b.tokens_ns > old.tokens_ns && b.tokens_ns < b.burst_ns);
	CASE(b.filled_ns < old.filled_ns);

	old = b;
	result = lt_bucket_take(&b, want);
	CHECK(valid_bucket(&b) && result <= want);
	CHECK(b.tokens_ns + result == old.tokens_ns);
	CHECK(result == want || b.tokens_ns == 0);
	CASE(result < want);

	old = b;
	lt_bucket_give(&b, want);
	CHECK(valid_bucket(&b) && b.tokens_ns >= old.tokens_ns);
	CHECK(b.tokens_ns - old.tokens_ns <= want);
	CHECK(b.tokens_ns - old.tokens_ns == want || b.tokens_ns == b.burst_ns);
	CASE(b.tokens_ns - old.tokens_ns == want && want > 0);
	CASE(b.tokens_ns - old.tokens_ns < want);
}

/*
 * The moment up to which it is filled is less than a unit behind a clock that
 * goes forward, and never ahead of the latest that the clock has been. If the
 * clock steps back it stays, or follows.
 */
void prove_filled_is_just_behind_the_clock(void)
{
	struct lt_bucket b = any_bucket();
	lt_u64 old = b.filled_ns, now = any_clock();

	lt_bucket_fill(&b, now);
	if (now >= old) {
		CHECK(b.filled_ns >= old && b.filled_ns <= now);
		CHECK(now - b.filled_ns < 1u << LT_UNIT_SHIFT);
	} else {
		CHECK(b.filled_ns == old || b.filled_ns == now);
		CHECK(b.filled_ns - now <= LT_STEP_BACK_MAX_NS);
	}
	CASE(b.filled_ns < now && b.filled_ns > old);
	CASE(now < old && b.filled_ns == now);
	CASE(now < old && b.filled_ns == old);
}

/* A clock that steps back, by however much, adds nothing. */
void prove_a_step_back_adds_nothing(void)
{
	struct lt_bucket b = any_bucket(), old = b;
	lt_u64 now = any_clock();

	ASSUME(now <= b.filled_ns);
	lt_bucket_fill(&b, now);
	CHECK(b.tokens_ns == old.tokens_ns);
	CASE(b.filled_ns < old.filled_ns);
	CASE(b.filled_ns == old.filled_ns && now < old.filled_ns);
}

/* An idle time, however long, adds what LT_GAP_UNITS_MAX units add, at most. */
void prove_a_long_idle_adds_one_gap(void)
{
	struct lt_bucket b = any_bucket(), old = b;

	lt_bucket_fill(&b, any_clock());
	law_monotone(gain_units, LT_GAP_UNITS_MAX, b.rate);
	CHECK(b.tokens_ns - old.tokens_ns <= lt_gain_model(LT_GAP_UNITS_MAX, b.rate));
	CASE(b.filled_ns - old.filled_ns == 1ull << 62);
}

/* A fill never adds more than the rate does; and the rest of its contract. */
void prove_fill_is_never_faster_than_the_rate(void)
{
	struct lt_bucket b = any_bucket(), old = b;
	lt_u64 now = any_clock();

	gain_units = 0;
	lt_bucket_fill(&b, now);
	law_parts(old.filled_ns >> LT_UNIT_SHIFT, gain_units,
		  b.filled_ns >> LT_UNIT_SHIFT, b.rate);
	CHECK(no_faster(&old, &b));
	CHECK(fill_contract(&old, &b, now));
	CASE(b.tokens_ns > old.tokens_ns);
	CASE(b.filled_ns < old.filled_ns);
	CASE(b.filled_ns > old.filled_ns + (1ull << 40));
}

/* The units of two fills are those of one, if the gap is none that is cut. */
void prove_a_split_fill_counts_each_unit_once(void)
{
	struct lt_bucket whole = any_bucket(), split = whole;
	lt_u64 first = any_clock(), last = any_clock(), units;

	ASSUME(whole.filled_ns <= first && first <= last);
	ASSUME((last - whole.filled_ns) >> LT_UNIT_SHIFT <= LT_GAP_UNITS_MAX);
	lt_bucket_fill(&split, first);
	units = gain_units;
	lt_bucket_fill(&split, last);
	units += gain_units;
	lt_bucket_fill(&whole, last);
	CHECK(split.filled_ns == whole.filled_ns);
	CHECK(gain_units == units);
	CASE(units == LT_GAP_UNITS_MAX);
	CASE(units == 1 && first > whole.filled_ns && last > first);
}

/* Two fills add what one adds, less 1 ns at most; never more. */
void prove_a_split_fill_adds_no_more(void)
{
	struct lt_bucket whole = any_bucket(), split = whole;
	lt_u64 first = any_clock(), last = any_clock(), u1, u2;

	ASSUME(whole.filled_ns <= first && first <= last);
	ASSUME((last - whole.filled_ns) >> LT_UNIT_SHIFT <= LT_GAP_UNITS_MAX);
	lt_bucket_fill(&split, first);
	u1 = gain_units;
	lt_bucket_fill(&split, last);
	u2 = gain_units;
	lt_bucket_fill(&whole, last);
	ASSUME(gain_units == u1 + u2);	/* proved above */
	law_sum(u1, u2, whole.rate);
	CHECK(split.tokens_ns <= whole.tokens_ns);
	CHECK(whole.tokens_ns <= split.tokens_ns + 1);
	CASE(split.tokens_ns == whole.tokens_ns && u1 && u2);
	CASE(split.tokens_ns < whole.tokens_ns);
}

/*
 * What is owed: time adds nothing until the moment at which it would have added all of it, and not a unit longer; the
 * longest stop is that of LT_STEP_BACK_MAX_NS, which a fill does not take for a new clock.
 */
void prove_what_is_owed_takes_its_time(void)
{
	struct lt_bucket b = any_bucket(), old;
	lt_u64 owed = nondet_u64(), now = any_clock(), units;

	lt_bucket_fill(&b, now);
	ASSUME(b.rate && b.tokens_ns == 0);
	old = b;
	lt_bucket_owe(&b, owed, now);
	CHECK(valid_bucket(&b) && b.tokens_ns == 0 && b.rate == old.rate);
	CHECK(b.filled_ns >= old.filled_ns && b.filled_ns <= now + LT_STEP_BACK_MAX_NS);
	units = (b.filled_ns - old.filled_ns) >> LT_UNIT_SHIFT;
	CHECK(units <= last_quotient);
	if (b.filled_ns != now + LT_STEP_BACK_MAX_NS)
		CHECK(TIMES(units, b.rate) >= lt_min(owed, LT_OWED_MAX_NS) << LT_GAIN_SHIFT);
	CASE(b.filled_ns == now + LT_STEP_BACK_MAX_NS && owed > 0);
	CASE(b.filled_ns > now && b.filled_ns < now + LT_STEP_BACK_MAX_NS);
	old = b;
	lt_bucket_fill(&b, now + 1);
	CHECK(now + 1 >= old.filled_ns || b.tokens_ns == 0);
}

/* lt_bucket_when: what 0 and LT_NEVER mean, and else a moment to come. */
void prove_when_is_to_come(void)
{
	struct lt_bucket b = any_bucket();
	lt_u64 want = nondet_u64(), when = lt_bucket_when(&b, want);

	CHECK((when == 0) == (b.tokens_ns >= want));
	CHECK((when == LT_NEVER) == (want > b.burst_ns || (!b.rate && b.tokens_ns < want)));
	if (when == 0 || when == LT_NEVER)
		return;
	CHECK(when >= b.filled_ns + (1u << LT_UNIT_SHIFT));
	CHECK(when <= b.filled_ns + (1ull << 30));
	CASE(when == b.filled_ns + (1ull << 30));
	CASE(when == b.filled_ns + (1u << LT_UNIT_SHIFT));
}

/* At that moment there is enough, and not a nanosecond before. */
void prove_when_is_exact(void)
{
	struct lt_bucket b = any_bucket(), early;
	lt_u64 want = nondet_u64(), when = lt_bucket_when(&b, want), now = any_clock();

	ASSUME(when != 0 && when != LT_NEVER && when < CLOCK_END);
	ASSUME(now >= b.filled_ns && now < when);
	early = b;
	lt_bucket_fill(&early, now);
	law_monotone(gain_units, last_quotient - 1, b.rate);
	CHECK(early.tokens_ns < want);
	if (when - b.filled_ns == 1ull << 30)
		return;	/* look again then */
	lt_bucket_fill(&b, when);
	CHECK(b.tokens_ns >= want);
	CASE(early.tokens_ns == want - 1);
	CASE(b.tokens_ns == want && want == b.burst_ns);
}
