// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Interfaces of a back end: line time, who is small, whose packet is next.
 *
 * Replaced: lt_bucket_fill
 */
#include "proof.h"
#include "vif.h"

/* Line time of the longest packet. */
#define LINE_MAX_NS (1ull << 29)

struct lt_vif nondet_vif(void);

/* One with a packet that waits, and what the caller knows of it. */
struct waiting {
	struct lt_vif vif;
	int small;
	lt_u64 bytes;
};

/* Whatever virtual time: joining may have set it to any. */
static struct lt_vif any_vif(void)
{
	struct lt_vif vif = nondet_vif();

	ASSUME(valid_bucket(&vif.small));
	return vif;
}

static struct waiting any_waiting(void)
{
	return (struct waiting){ any_vif(), (int)(nondet_u8() & 3), nondet_u64() };
}

static int before(const struct waiting *a, const struct waiting *b)
{
	return lt_vif_before(&a->vif, a->small, a->bytes, &b->vif, b->small, b->bytes);
}

/* In range for any length, exact for each that a packet has, none free. */
void prove_line_time_in_range(void)
{
	lt_u32 bytes = nondet_u32(), more = nondet_u32();
	lt_u64 span = lt_line_ns(bytes);

	CHECK(span >= 512 && span <= LINE_MAX_NS);
	CHECK(bytes < LT_BYTES_MIN || bytes > LT_BYTES_MAX || span == 8ull * bytes);
	CHECK(bytes > more || span <= lt_line_ns(more));
	CASE(bytes == 0);
	CASE(bytes == ~0u);
	CASE(span == LINE_MAX_NS && bytes == LT_BYTES_MAX);
}

/* Tokens are 0 to burst, whatever is called with whatever arguments. */
void prove_vifs_stay_valid(void)
{
	struct lt_vif vif;
	lt_u64 now = any_clock(), old;
	lt_u32 bytes = nondet_u32();
	int small;

	lt_vif_init(&vif, nondet_u32(), nondet_u32(), now);
	CHECK(valid_bucket(&vif.small) && vif.vtime_ns == 0);
	CHECK(vif.small.tokens_ns == vif.small.burst_ns && vif.small.filled_ns == now);
	CASE(vif.small.burst_ns == LT_BURST_MAX_NS && vif.small.rate == LT_RATE_MAX);

	vif = any_vif();
	old = vif.vtime_ns;
	lt_vif_join(&vif, nondet_u64());
	CHECK(valid_bucket(&vif.small) && vif.vtime_ns >= old);

	small = lt_vif_small(&vif, bytes, any_clock());
	CHECK(valid_bucket(&vif.small) && (small == 0 || small == 1));
	CASE(small == 0 && bytes == 0);
	CASE(small == 1 && bytes == ~0u);

	/* Virtual time goes on by the line time, and at its end it stays there. */
	old = vif.vtime_ns;
	lt_vif_charge(&vif, bytes);
	CHECK(valid_bucket(&vif.small) && vif.vtime_ns >= old);
	CHECK(vif.vtime_ns - old == lt_line_ns(bytes) || vif.vtime_ns == ~0ull);
	CASE(vif.vtime_ns - old < lt_line_ns(bytes) && vif.vtime_ns > old);
	CASE(vif.vtime_ns == old);
	CASE(vif.vtime_ns - old == LINE_MAX_NS && vif.small.tokens_ns > 0);
}

/*
 * The line time of packets that are served as small is tokens: what the bucket
 * holds and what has been served as small together grow by fills alone. So in
 * any window of time an interface is served, as small, no more than its burst
 * and what its rate adds in the window and one unit (no_faster in proof.h).
 *
 * First: a packet for which it is small is paid in full, out of the bucket.
 */
void prove_a_small_packet_is_paid_in_full(void)
{
	struct lt_vif vif = any_vif();
	lt_u64 tokens = vif.small.tokens_ns;
	lt_u32 bytes = nondet_u32();
	int small;

	watch(&vif.small);
	small = lt_vif_small(&vif, bytes, any_clock());
	CHECK(vif.small.tokens_ns == had_tokens);
	CHECK(small == (had_tokens >= lt_line_ns(bytes)));
	ASSUME(small);
	lt_vif_charge(&vif, bytes);
	CHECK(vif.small.tokens_ns + lt_line_ns(bytes) == had_tokens);
	CASE(vif.small.tokens_ns == 0);
	CASE(tokens < lt_line_ns(bytes));
}

/* Then: nothing else makes tokens; who is served as large pays what is there. */
void prove_serving_makes_no_tokens(void)
{
	struct lt_vif vif = any_vif();
	lt_u32 bytes = nondet_u32();

	watch(&vif.small);
	if (nondet_u8()) {
		lt_vif_join(&vif, nondet_u64());
		CHECK(vif.small.tokens_ns == had_tokens);
	} else {
		lt_vif_charge(&vif, bytes);
		CHECK(vif.small.tokens_ns + lt_line_ns(bytes) == had_tokens ||
		      (vif.small.tokens_ns == 0 && lt_line_ns(bytes) > had_tokens));
		CASE(vif.small.tokens_ns > 0);
		CASE(vif.small.tokens_ns == 0 && had_tokens > 0);
	}
}

/* Never longer than the burst, however long it has been idle. */
void prove_what_exceeds_the_burst_is_never_small(void)
{
	struct lt_vif vif = any_vif();
	lt_u32 bytes = nondet_u32();

	ASSUME(lt_line_ns(bytes) > vif.small.burst_ns);
	CHECK(!lt_vif_small(&vif, bytes, any_clock()));
	CASE(vif.small.tokens_ns == vif.small.burst_ns);
	CASE(vif.small.burst_ns == LT_VIF_BURST_NS && bytes == 30001);
}

void prove_small_vifs_go_before_large_ones(void)
{
	struct waiting a = any_waiting(), b = any_waiting();

	ASSUME(a.small && !b.small);
	CHECK(before(&a, &b) && !before(&b, &a));
	CASE(a.small == 2 && a.vif.vtime_ns > b.vif.vtime_ns && a.bytes > b.bytes);
}

void prove_least_waiting_small_vif_goes_first(void)
{
	struct waiting a = any_waiting(), b = any_waiting();

	ASSUME(a.small && b.small && a.bytes < b.bytes);
	CHECK(before(&a, &b) && !before(&b, &a));
	CASE(a.small == 3 && b.small == 1 && a.vif.vtime_ns > b.vif.vtime_ns);
}

/* Of large ones the one that has been served least, whatever waits. */
void prove_least_served_large_vif_goes_first(void)
{
	struct waiting a = any_waiting(), b = any_waiting();

	ASSUME(!a.small && !b.small);
	CHECK(before(&a, &b) == (a.vif.vtime_ns < b.vif.vtime_ns));
	CASE(before(&a, &b) && a.bytes > b.bytes);
}

/* Never both ways round, and transitive. */
void prove_vif_before_is_an_order(void)
{
	struct waiting a = any_waiting(), b = any_waiting(), c = any_waiting();

	CHECK(before(&a, &b) == 0 || before(&a, &b) == 1);
	CHECK(!before(&a, &a));
	CHECK(!(before(&a, &b) && before(&b, &a)));
	CHECK(!(before(&a, &b) && before(&b, &c)) || before(&a, &c));
	CASE(before(&a, &b) && before(&b, &c));
	CASE(before(&a, &b) && a.small == 1 && b.small == 2);
}

/*
 * Equals are equal to all, and are so in all that counts: the order of a tie's
 * arguments decides nothing. It ends with the first packet of either.
 */
void prove_vif_ties_are_ties(void)
{
	struct waiting a = any_waiting(), b = any_waiting(), c = any_waiting();

	ASSUME(!before(&a, &b) && !before(&b, &a));
	CHECK(!a.small == !b.small && a.vif.vtime_ns == b.vif.vtime_ns);
	CHECK(!a.small || a.bytes == b.bytes);
	CHECK(before(&a, &c) == before(&b, &c));
	CHECK(before(&c, &a) == before(&c, &b));
	CASE(before(&a, &c));
	CASE(before(&c, &a));

	ASSUME(!a.small && a.vif.vtime_ns < ~0ull);
	lt_vif_charge(&a.vif, nondet_u32());
	CHECK(before(&b, &a));
}

/*
 * Large ones that wait get the same number of bytes: two are never further apart
 * than a portion, if they are not at the beginning. A portion here is any one
 * charge; several packets are charged like one of their length.
 */
void prove_large_vifs_stay_a_portion_apart(void)
{
	struct waiting a = any_waiting(), b = any_waiting();
	lt_u64 portion = nondet_u64();
	lt_u32 bytes = nondet_u32();

	ASSUME(!a.small && !b.small && portion <= LINE_MAX_NS);
	ASSUME(lt_since(a.vif.vtime_ns, b.vif.vtime_ns) <= portion);
	ASSUME(lt_since(b.vif.vtime_ns, a.vif.vtime_ns) <= portion);
	ASSUME(lt_line_ns(bytes) <= portion && !before(&b, &a));
	lt_vif_charge(&a.vif, bytes);
	CHECK(lt_since(a.vif.vtime_ns, b.vif.vtime_ns) <= portion);
	CHECK(lt_since(b.vif.vtime_ns, a.vif.vtime_ns) <= portion);
	CASE(lt_since(a.vif.vtime_ns, b.vif.vtime_ns) == portion);
	CASE(before(&a, &b));
}

/*
 * One that joins is not behind the one served last, and no further ahead than it
 * was already.
 */
void prove_a_joining_vif_does_not_start_behind(void)
{
	struct lt_vif vif = any_vif(), last = any_vif();
	lt_u64 old = vif.vtime_ns;

	lt_vif_join(&vif, last.vtime_ns);
	CHECK(!lt_vif_before(&vif, 0, nondet_u64(), &last, 0, nondet_u64()));
	CHECK(vif.vtime_ns == old || vif.vtime_ns == last.vtime_ns);
	CHECK(vif.vtime_ns >= old);
	CASE(vif.vtime_ns > old);
	CASE(vif.vtime_ns > last.vtime_ns);
}
