// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The product and the quotient on rates, as they are. */
#define TRY_LAWS
#include "proof.h"

static lt_u64 any_units(void)
{
	lt_u64 units = nondet_u64();

	ASSUME(units <= LT_GAP_UNITS_MAX);
	return units;
}

static lt_u32 any_rate(void)
{
	lt_u32 rate = nondet_u32();

	ASSUME(rate <= LT_RATE_MAX);
	return rate;
}

/* No wrap in range, and no more than 2^37. */
void prove_gain_in_range(void)
{
	lt_u64 units = any_units(), gain;
	lt_u32 rate = any_rate();

	gain = lt_gain(units, rate);
	CHECK(gain <= 1ull << 37);
	CHECK(lt_gain(units, LT_RATE_ONE) == units << LT_UNIT_SHIFT);
	CHECK(lt_gain(units, 0) == 0 && lt_gain(0, rate) == 0);
	CASE(gain == 1ull << 37);
	CASE(gain == 1);
}

/*
 * lt_gain is what lt_gain_model is with a real product, and that obeys the laws
 * in it: for any one factor and each power of 2 as the other. Both are the same
 * expression; this is against slips of the pen.
 */
void prove_gain_is_its_model(void)
{
	lt_u64 units = any_units();
	lt_u32 rate = any_rate();
	int i;

	for (i = 0; i <= 23; i++)
		CHECK(lt_gain(units, 1u << i) == lt_gain_model(units, 1u << i));
	for (i = 0; i <= 20; i++)
		CHECK(lt_gain(1u << i, rate) == lt_gain_model(1u << i, rate));
	CASE(lt_gain(units, 1u << 23) == 1ull << 37);
}

/* lt_div_up obeys the law that defines it: real quotients, of 10 bits by 6. */
void prove_div_up_is_its_model(void)
{
	lt_u64 a = nondet_u64() & 1023, quotient;
	lt_u32 b = nondet_u32() & 63;

	ASSUME(b >= 1);
	quotient = lt_div_up(a, b);
	CHECK(quotient * b >= a && quotient <= a);
	CHECK(quotient == 0 || (quotient - 1) * b < a);
	CASE(quotient * b > a);
	CASE(quotient * b == a && a > b);
}
