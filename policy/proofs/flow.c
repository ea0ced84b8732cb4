// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Flows: a pair and a VM, who is small and who pays for it.
 *
 * Replaced: lt_bucket_fill
 */
#include "flows.h"

/* A fill of the pair's bucket, by the pair's rate, is what came last. */
static int filled(const struct lt_flow *old, const struct lt_flow_params *p)
{
	return last_unfilled.tokens_ns == old->tokens_ns &&
	       last_unfilled.filled_ns == old->filled_ns &&
	       last_unfilled.rate == p->rate && last_unfilled.burst_ns == p->burst_ns;
}

/* Tokens are 0 to burst, a band is a band, whatever the arguments are. */
void prove_flows_stay_valid(void)
{
	struct lt_flow_params p = any_flow_params();
	struct lt_flow flow = any_flow(&p), old = flow;
	struct lt_flow_vm vm;
	lt_u32 bytes = nondet_u32(), band;
	lt_u64 now = any_clock();

	band = lt_flow_charge(&flow, &p, bytes, now);
	CHECK(valid_flow(&flow, &p) && flow.vm == old.vm);
	CHECK(band < LT_FLOW_BANDS && lt_flow_small(band) == !flow.large);
	CHECK(band == lt_flow_class(&flow, &p));
	CASE(band == LT_FLOW_BRIEF && bytes == 0);
	CASE(band == LT_FLOW_SMALL && bytes == 30000);
	CASE(band == LT_FLOW_LARGE);
	CASE(band == LT_FLOW_LONG);
	CASE(band == LT_FLOW_BULK && bytes == ~0u && flow.attained == ~0u);

	lt_flow_init(&flow, &p, nondet_u32(), now);
	CHECK(valid_flow(&flow, &p) && flow.tokens_ns == p.burst_ns && !flow.large);
	lt_flow_vm_init(&vm, &p, now);
	CHECK(valid_bucket(&vm.small) && vm.small.tokens_ns == p.vm_burst_ns);
	vm = any_flow_vm();
	lt_flow_vm_take(&vm, bytes, now);
	CHECK(valid_bucket(&vm.small));
}

/*
 * Line time of packets that go as small is tokens of the pair's: what the bucket
 * holds and what went as small together grow by fills alone. So in any window
 * of time a pair sends, as small, no more than its burst and what its rate adds in
 * the window and one unit (no_faster in proof.h). This lasts from entry to entry:
 * what is forgotten is full.
 */
void prove_a_small_packet_of_a_pair_is_paid_in_full(void)
{
	struct lt_flow_params p = any_flow_params();
	struct lt_flow flow = any_flow(&p), old = flow;
	lt_u32 bytes = nondet_u32(), band;

	band = lt_flow_charge(&flow, &p, bytes, any_clock());
	CHECK(filled(&old, &p) && flow.filled_ns == last_filled.filled_ns);
	ASSUME(lt_flow_small(band));
	CHECK(flow.tokens_ns + lt_line_ns(bytes) == last_filled.tokens_ns);
	CASE(flow.tokens_ns == 0);
	CASE(old.tokens_ns < lt_line_ns(bytes));
}

/* A large one takes what there is, and nothing makes tokens. */
void prove_a_large_packet_takes_what_there_is(void)
{
	struct lt_flow_params p = any_flow_params();
	struct lt_flow flow = any_flow(&p);
	lt_u32 bytes = nondet_u32(), band;
	lt_u64 span = lt_line_ns(bytes);

	band = lt_flow_charge(&flow, &p, bytes, any_clock());
	ASSUME(!lt_flow_small(band));
	CHECK(flow.tokens_ns == lt_since(last_filled.tokens_ns, span));
	CASE(flow.tokens_ns > 0);
	CASE(flow.tokens_ns == 0 && last_filled.tokens_ns > 0);
}

/*
 * A pair is large from the packet on for which its bucket lacked tokens up to a
 * packet that finds its bucket full.
 */
void prove_a_large_pair_is_so_until_it_is_full(void)
{
	struct lt_flow_params p = any_flow_params();
	struct lt_flow flow = any_flow(&p), old = flow;
	lt_u32 bytes = nondet_u32(), band;

	band = lt_flow_charge(&flow, &p, bytes, any_clock());
	CHECK(flow.large == !lt_flow_small(band));
	if (last_filled.tokens_ns < lt_line_ns(bytes))
		CHECK(flow.large);
	else if (last_filled.tokens_ns == p.burst_ns)
		CHECK(!flow.large && flow.attained == lt_line_bytes(bytes));
	else
		CHECK(flow.large == old.large);
	CASE(old.large && !flow.large);
	CASE(old.large && flow.large && last_filled.tokens_ns >= lt_line_ns(bytes));
	CASE(last_filled.tokens_ns == p.burst_ns && flow.large);
}

/*
 * Unless its bucket has been full, a packet goes to the band of the one before it
 * or to a later one: whoever serves each band in order keeps a pair's in order.
 */
void prove_packets_go_to_later_bands_only(void)
{
	struct lt_flow_params p = any_flow_params();
	struct lt_flow flow = any_flow(&p);
	lt_u32 before = lt_flow_class(&flow, &p), band;

	band = lt_flow_charge(&flow, &p, nondet_u32(), any_clock());
	ASSUME(last_filled.tokens_ns < p.burst_ns);
	CHECK(band >= before);
	CASE(before == LT_FLOW_BRIEF && band == LT_FLOW_BULK);
	CASE(before == LT_FLOW_LARGE && band == LT_FLOW_LONG);
}

void prove_no_packet_beyond_the_burst_is_small(void)
{
	struct lt_flow_params p = any_flow_params();
	struct lt_flow flow = any_flow(&p);
	lt_u32 bytes = nondet_u32();

	ASSUME(lt_line_ns(bytes) > p.burst_ns);
	CHECK(!lt_flow_small(lt_flow_charge(&flow, &p, bytes, any_clock())));
	CASE(last_filled.tokens_ns == p.burst_ns);
	CASE(p.burst_ns == 240000 && bytes == 30001);
}

/*
 * A VM's bucket pays in full for what goes as small and for nothing else. So in
 * any window of time all pairs of a VM together, however many there are and
 * whatever addresses they have, send as small no more than the VM's burst and
 * what its rate adds in the window and one unit.
 */
void prove_a_vm_pays_for_what_goes_as_small(void)
{
	struct lt_flow_vm vm = any_flow_vm();
	lt_u64 refused = vm.refused;
	lt_u32 bytes = nondet_u32();
	int taken;

	watch(&vm.small);
	taken = lt_flow_vm_take(&vm, bytes, any_clock());
	CHECK(taken == (had_tokens >= lt_line_ns(bytes)));
	CHECK(vm.small.tokens_ns + (taken ? lt_line_ns(bytes) : 0) == had_tokens);
	CHECK(taken ? vm.refused == refused : vm.refused > refused || refused == ~0ull);
	CASE(taken && vm.small.tokens_ns == 0);
	CASE(!taken && had_tokens > 0);
}

/*
 * An entry that is not live is as good as none: a packet of its pair finds the
 * same band, and leaves the same behind, as with a new entry; but for what is
 * not yet a unit of time.
 */
void prove_what_is_forgotten_says_nothing(void)
{
	struct lt_flow_params p = any_flow_params();
	struct lt_flow_set set = nondet_flow_set();
	struct lt_flow known, new;
	struct lt_bucket fill;
	lt_u32 bytes = nondet_u32(), band;
	lt_u64 now = any_clock();

	ASSUME(set.tag[0] && valid_flow(&set.flow[0], &p));
	ASSUME(!lt_flow_live(&set, 0, &p, now));
	fill = last_filled;
	known = set.flow[0];
	band = lt_flow_charge(&known, &p, bytes, now);
	/* The same fill once more is the same. */
	ASSUME(last_filled.tokens_ns == fill.tokens_ns);
	ASSUME(last_filled.filled_ns == fill.filled_ns);
	CASE(set.flow[0].large && set.flow[0].tokens_ns == 0 && p.burst_ns > 0);
	lt_flow_init(&new, &p, known.vm, now);
	CHECK(lt_flow_charge(&new, &p, bytes, now) == band);
	CHECK(known.tokens_ns == new.tokens_ns && known.attained == new.attained &&
	      known.large == new.large && new.filled_ns == now);
	CHECK(known.filled_ns > now || now - known.filled_ns < 1u << LT_UNIT_SHIFT);
}
