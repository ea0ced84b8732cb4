// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Flows: a pair and a VM, who is small and who pays for it.
 *
 * Replaced: lt_flow_cost
 */
#include "flows.h"

/* A band is a band, and no entry is ahead of its debt, whatever the arguments are. */
void prove_flows_stay_valid(void)
{
	struct lt_flow_rule r = any_rule();
	lt_u64 state = nondet_u64(), now = any_clock(), new, ahead;
	lt_u32 bytes = nondet_u32(), band;

	ahead = lt_flow_ahead(state, &r, now);
	new = lt_flow_charge(state, &r, bytes, now);
	band = lt_flow_class(new, &r);
	CHECK(band < LT_FLOW_BANDS && lt_flow_small(band) == !lt_flow_large(new));
	CHECK(ahead <= r.ahead_ns);
	CHECK(clock_ahead(new, now) <= lt_max(ahead, r.debt_ns));
	CHECK(clock_ahead(new, now) == lt_flow_ahead(new, &r, now));
	CHECK(!lt_flow_ahead(lt_flow_new(now), &r, now));
	CASE(band == LT_FLOW_BRIEF && bytes == 0);
	CASE(band == LT_FLOW_SMALL && bytes == 30000);
	CASE(band == LT_FLOW_LARGE);
	CASE(band == LT_FLOW_LONG);
	CASE(band == LT_FLOW_BULK && lt_flow_attained(new) == LT_FLOW_ATTAINED_MAX);
}

/*
 * A packet that goes as small moves the moment at which its pair's bucket is full
 * by its cost, from now on or from where it was, and not beyond now and the debt.
 * No packet moves it back. So in any window of time what goes as small of a pair
 * costs no more than the debt and the window's length: the burst, and what the
 * rate adds in the window and 1 ns (flow_cost.c). This lasts from entry to entry:
 * what is forgotten is full.
 */
void prove_a_small_packet_of_a_pair_is_paid_in_full(void)
{
	struct lt_flow_rule r = any_rule();
	lt_u64 state = nondet_u64(), now = any_clock(), new;
	lt_u32 bytes = nondet_u32();

	new = lt_flow_charge(state, &r, bytes, now);
	CHECK(clock_ahead(new, now) >= lt_flow_ahead(state, &r, now));
	ASSUME(!lt_flow_large(new));
	CHECK(clock_ahead(new, now) ==
	      lt_flow_ahead(state, &r, now) + lt_flow_cost_model(bytes, r.cost));
	CHECK(clock_ahead(new, now) <= r.debt_ns);
	CASE(clock_ahead(new, now) == r.debt_ns);
	CASE(lt_flow_ahead(state, &r, now) > 0);
	CASE(new < state);
}

/* A large one takes what there is. */
void prove_a_large_packet_takes_what_there_is(void)
{
	struct lt_flow_rule r = any_rule();
	lt_u64 state = nondet_u64(), now = any_clock(), new, ahead;
	lt_u32 bytes = nondet_u32();

	ahead = lt_flow_ahead(state, &r, now);
	new = lt_flow_charge(state, &r, bytes, now);
	ASSUME(lt_flow_large(new));
	CHECK(clock_ahead(new, now) ==
	      lt_max(ahead, lt_min(ahead + lt_flow_cost_model(bytes, r.cost), r.debt_ns)));
	CASE(clock_ahead(new, now) < r.debt_ns);
	CASE(clock_ahead(new, now) == r.debt_ns && ahead > 0 && ahead < r.debt_ns);
	CASE(clock_ahead(new, now) > r.debt_ns);
}

/*
 * A pair is large from the packet on for which its bucket lacked tokens up to a
 * packet that finds its bucket full.
 */
void prove_a_large_pair_is_so_until_it_is_full(void)
{
	struct lt_flow_rule r = any_rule();
	lt_u64 state = nondet_u64(), now = any_clock(), new, ahead, cost;
	lt_u32 bytes = nondet_u32();

	ahead = lt_flow_ahead(state, &r, now);
	new = lt_flow_charge(state, &r, bytes, now);
	cost = lt_flow_cost_model(bytes, r.cost);
	if (ahead + cost > r.debt_ns)
		CHECK(lt_flow_large(new));
	else if (ahead == 0)
		CHECK(!lt_flow_large(new));
	else
		CHECK(lt_flow_large(new) == lt_flow_large(state));
	CHECK(lt_flow_attained(new) ==
	      lt_min((ahead ? lt_flow_attained(state) : 0) + lt_line_bytes(bytes),
		     LT_FLOW_ATTAINED_MAX));
	CASE(lt_flow_large(state) && !lt_flow_large(new));
	CASE(lt_flow_large(state) && lt_flow_large(new) && ahead + cost <= r.debt_ns);
	CASE(ahead == 0 && lt_flow_large(new));
}

/*
 * Unless its bucket has been full, a packet goes to the band of the one before it
 * or to a later one: whoever serves each band in order keeps a pair's in order.
 */
void prove_packets_go_to_later_bands_only(void)
{
	struct lt_flow_rule r = any_rule();
	lt_u64 state = nondet_u64(), now = any_clock();
	lt_u32 before = lt_flow_class(state, &r), band;

	ASSUME(lt_flow_ahead(state, &r, now) > 0);
	band = lt_flow_class(lt_flow_charge(state, &r, nondet_u32(), now), &r);
	CHECK(band >= before);
	CASE(before == LT_FLOW_BRIEF && band == LT_FLOW_BULK);
	CASE(before == LT_FLOW_LARGE && band == LT_FLOW_LONG);
}

/*
 * A pair that is brief no more because of its VM is small: as large as it was, with what
 * its bucket holds, and not brief again with the next packet.
 */
void prove_a_pair_of_a_busy_vm_is_small(void)
{
	struct lt_flow_rule r = any_rule();
	lt_u64 state = nondet_u64(), now = any_clock(), new = lt_flow_begun(state, &r);

	CHECK(lt_flow_class(new, &r) >= lt_flow_class(state, &r));
	CHECK(lt_flow_large(new) || lt_flow_class(new, &r) == LT_FLOW_SMALL);
	CHECK(lt_flow_large(new) == lt_flow_large(state));
	CHECK(clock_ahead(new, now) == clock_ahead(state, now));
	ASSUME(lt_flow_ahead(new, &r, now) > 0);
	CHECK(lt_flow_class(lt_flow_charge(new, &r, nondet_u32(), now), &r) >= LT_FLOW_SMALL);
	CASE(lt_flow_class(state, &r) == LT_FLOW_BRIEF);
	CASE(r.brief_bytes == LT_FLOW_ATTAINED_MAX - 1);
}

void prove_no_packet_beyond_the_burst_is_small(void)
{
	struct lt_flow_rule r = any_rule();
	lt_u64 state = nondet_u64(), now = any_clock();
	lt_u32 bytes = nondet_u32();

	ASSUME(lt_flow_cost_model(bytes, r.cost) > r.debt_ns);
	CHECK(lt_flow_large(lt_flow_charge(state, &r, bytes, now)));
	CASE(!lt_flow_ahead(state, &r, now));
	CASE(r.debt_ns == 0);
}

/*
 * A VM's bucket pays in full for what goes as small and for nothing else, whoever
 * else takes of it at the same time: each swap that succeeds moves the moment at
 * which it is full by the packet's cost, from now on or from where it was, and not
 * beyond now and the debt. So in any window of time all pairs of a VM together,
 * however many there are and whatever addresses they have, send as small no more
 * than the VM's burst and what its rate adds in the window and 1 ns. A clock that
 * is another one (LT_STEP_BACK_MAX_NS) begins a window.
 */
void prove_a_vm_pays_for_what_goes_as_small(void)
{
	struct lt_flow_rule r = any_rule();
	struct lt_flow_vm vm = any_flow_vm();
	lt_u32 bytes = nondet_u32();
	lt_u64 now = any_clock(), cost;
	int taken;

	taken = lt_flow_vm_take(&vm, &r, bytes, now);
	cost = lt_flow_cost_model(bytes, r.vm_cost);
	CHECK(taken == (int)swaps && swaps + counts == 1);
	CHECK(vm.full_ns < CLOCK_END + (1ull << 41)); /* a valid VM stays one */
	if (taken) {
		CHECK(swapped_new <= now + r.vm_debt_ns && swapped_new >= now + cost);
		CHECK(swapped_new >= swapped_old + cost ||
		      swapped_old > now + r.vm_debt_ns + LT_STEP_BACK_MAX_NS);
		CHECK(swapped_new == lt_max(swapped_old, now) + cost ||
		      swapped_old > now + r.vm_debt_ns + LT_STEP_BACK_MAX_NS);
	}
	CASE(taken && swapped_new == now + r.vm_debt_ns && swapped_old > now);
	CASE(taken && swapped_old > swapped_new);
	CASE(!taken);
}

/* One that nobody else uses meanwhile is refused only if it lacks the tokens. */
void prove_a_vm_with_tokens_is_not_refused(void)
{
	struct lt_flow_rule r = any_rule();
	struct lt_flow_vm vm = any_flow_vm();
	lt_u32 bytes = nondet_u32();
	lt_u64 now = any_clock(), full = vm.full_ns;
	int taken;

	taken = lt_flow_vm_take(&vm, &r, bytes, now);
	ASSUME(!others);
	ASSUME(lt_max(full, now) + lt_flow_cost_model(bytes, r.vm_cost) <= now + r.vm_debt_ns);
	CHECK(taken);
	CASE(full > now);
}

/*
 * An entry that is not live is as good as none: a packet of its pair finds the
 * same band, and leaves the same behind, to the bit, as with a new entry.
 */
void prove_what_is_forgotten_says_nothing(void)
{
	struct lt_flow_rule r = any_rule();
	lt_u64 state = nondet_u64(), now = any_clock();
	lt_u32 bytes = nondet_u32();

	ASSUME(lt_flow_full(state, &r, now));
	CHECK(lt_flow_charge(state, &r, bytes, now) ==
	      lt_flow_charge(lt_flow_new(now), &r, bytes, now));
	CASE(lt_flow_large(state) && r.debt_ns > 0);
}
