// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Flows: what a byte and a packet cost. The products are the real ones.
 */
#include "flows.h"

static void costs(lt_u32 bytes, lt_u32 cost)
{
	lt_u64 exact = lt_line_bytes(bytes) * cost, span = lt_flow_cost(bytes, cost);

	CHECK(span >= 4 && span <= 1ull << 39);
	CHECK(span << 16 >= exact && (span << 16) - exact < 1u << 16);
	CHECK(lt_flow_debt(lt_line_ns(bytes), cost) == span);
}

/*
 * A packet costs something, and no less than its bytes do; less than 1 ns more. A
 * burst that is a packet's line time takes as long as this packet costs: one packet
 * of the whole burst is small. For any one factor and each power of 2 as the other.
 */
void prove_a_packet_costs_its_bytes(void)
{
	lt_u32 bytes = nondet_u32() & (LT_BYTES_MAX - 1), cost = nondet_u32(), i;

	ASSUME(cost >= 1u << 12 && cost <= 1u << 29);
	for (i = 12; i <= 29; i++)
		costs(bytes, 1u << i);
	for (i = 6; i <= 26; i++)
		costs(1u << i, cost);
	CASE(lt_flow_cost(bytes, 1u << 12) == 4);
	CASE(lt_flow_cost(1u << 26, cost) == 1ull << 39);
}

/* The cost of a byte is that of the rate, rounded up; for rates that are powers of 2. */
void prove_a_byte_costs_what_the_rate_says(void)
{
	lt_u32 i;

	for (i = 6; i <= 23; i++)
		CHECK(lt_flow_byte_cost(1u << i) == 1u << (35 - i));
	CHECK(lt_flow_byte_cost(655) == 52457616u);
	CASE(i == 24);
}

/*
 * Rules are as valid_rule says, but for the bound of debt_ns: that a pair's burst
 * is no more than its rate adds in 2^30 ns makes it 2^30 and 2^11 at most, since
 * 2^14 rate times 2^35 / rate + 1 is 2^49 + 2^14 rate, of which 2^-19 is taken. A
 * test in crates/policy goes over the rates.
 */
void prove_rules_are_valid(void)
{
	struct lt_flow_params p = any_flow_params();
	struct lt_flow_rule r;

	p.rate = 1u << (6 + nondet_u8() % 18);
	p.vm_rate = 1u << (6 + nondet_u8() % 18);
	ASSUME(p.burst_ns <= (lt_u64)p.rate << 14);
	lt_flow_rule_init(&r, &p);
	CHECK(valid_rule(&r));
	CHECK(r.brief_bytes == p.brief_bytes && r.large_bytes == p.large_bytes &&
	      r.long_bytes == p.long_bytes);
	CASE(r.debt_ns == 1u << 30);
	CASE(r.vm_debt_ns == 1ull << 40);
	CASE(r.debt_ns == 0);
}
