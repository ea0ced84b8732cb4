// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The laws of products that the other proofs assume, checked with real ones for
 * all factors of 4 bits; one of them for all there are. They are laws of the
 * integers; what could be wrong is how they are written down.
 */
#define TRY_LAWS
#include "proof.h"

void prove_laws_of_small_products(void)
{
	lt_u64 a = nondet_u8() & 15, b = nondet_u8() & 15, c = nondet_u8() & 15;

	law_monotone(a, b, c);
	law_sum(a, b, c);
	law_parts(a, b, nondet_u8() & 31, c);
	law_bound(a, c, 8, 4);
	law_bound(a, c, 4, 8);
	law_bound(a, c, 16, 16);
	CASE(a < b && TIMES(a, c) < TIMES(b, c));
}

void prove_laws_of_small_quotients(void)
{
	lt_u64 a = nondet_u8() & 63;
	lt_u32 b = nondet_u8() & 15;

	ASSUME(b >= 1);
	law_div_up(a, b, (a + b - 1) / b);
	CASE(a == 63 && b == 7);
}

void prove_laws_of_a_rate_of_one(void)
{
	lt_u64 units = nondet_u64();

	law_one(units, LT_RATE_ONE);
	law_one(nondet_u8(), nondet_u8());
	CASE(units == ~0ull);
}
