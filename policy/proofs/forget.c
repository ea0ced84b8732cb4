// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Flows: that an entry is forgotten. The fill here is the real one.
 */
#include "flows.h"

/* A pair that is silent is forgotten, at the latest after 2^30 ns. */
void prove_a_silent_pair_is_forgotten(void)
{
	struct lt_flow_params p = any_flow_params();
	struct lt_flow_set set = any_set(&p);
	lt_u64 now = any_clock();

	ASSUME(now >= set.flow[0].filled_ns &&
	       (now - set.flow[0].filled_ns) >> LT_UNIT_SHIFT >= LT_GAP_UNITS_MAX);
	CASE(set.tag[0] && set.flow[0].tokens_ns == 0 && p.burst_ns == p.rate << 14);
	CHECK(!lt_flow_live(&set, 0, &p, now));
}

/* One of a clock that has stepped back is on the new clock after a look at it. */
void prove_a_new_clock_keeps_no_entry(void)
{
	struct lt_flow_params p = any_flow_params();
	struct lt_flow_set set = any_set(&p), old = set;
	lt_u64 now = any_clock();

	lt_flow_live(&set, 0, &p, now);
	CHECK(!set.tag[0] || lt_since(set.flow[0].filled_ns, now) <= LT_STEP_BACK_MAX_NS);
	CHECK(set.flow[0].filled_ns == old.flow[0].filled_ns ||
	      set.flow[0].filled_ns == now);
	CASE(set.flow[0].filled_ns != old.flow[0].filled_ns);
}
