// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Who goes first, and who interrupts whom.
 *
 * Replaced: lt_bucket_fill lt_div_up
 * Overflows: in states.c
 */
#include "proof.h"

struct waiting {
	struct lt_vcpu v;
	struct lt_vm vm;
};

static struct waiting any_waiting(const struct lt_params *p)
{
	return (struct waiting){ any_vcpu(p), any_vm(p) };
}

static int before(const struct waiting *a, const struct waiting *b, lt_u64 now)
{
	return lt_before(&a->v, &a->vm, &b->v, &b->vm, now);
}

/* Who has waited too long goes before who has not; then small before large. */
void prove_the_overdue_then_the_small_go_first(void)
{
	struct lt_params p = any_params();
	struct waiting a = any_waiting(&p), b = any_waiting(&p);
	lt_u64 now = any_clock();
	int late_a = lt_overdue(&a.v, &a.vm, now), late_b = lt_overdue(&b.v, &b.vm, now);

	CHECK(!(late_a && !late_b) || before(&a, &b, now));
	CHECK(!(late_a == late_b && !late_a && a.v.class == LT_SMALL &&
		b.v.class == LT_LARGE) || before(&a, &b, now));
	CHECK(!(late_a && late_b && a.v.queued_ns < b.v.queued_ns) || before(&a, &b, now));
	CASE(late_a && !late_b);
	CASE(late_a && late_b);
}

/* A small one is passed only by those that come before it would be done. */
void prove_a_small_one_is_not_passed_for_ever(void)
{
	struct lt_params p = any_params();
	struct waiting a = any_waiting(&p), b = any_waiting(&p);
	lt_u64 now = any_clock();

	ASSUME(a.v.class == LT_SMALL && !lt_overdue(&b.v, &b.vm, now));
	ASSUME(b.v.queued_ns > lt_due(&a.v));
	CHECK(before(&a, &b, now));
	CASE(b.v.class == LT_SMALL);
}

/* Nobody interrupts one that is boosted, and no large one a small one. */
void prove_who_is_not_interrupted(void)
{
	struct lt_params p = any_params();
	struct waiting a = any_waiting(&p), cur = any_waiting(&p);
	lt_u64 ran = nondet_u64(), now = any_clock();
	int beats = lt_beats(&a.v, &a.vm, &cur.v, &cur.vm, &p, ran, now);

	CHECK(!beats || !lt_boosted(&cur.v, &p, now));
	CHECK(!beats || a.v.class == LT_SMALL || cur.v.class == LT_LARGE);
	CASE(beats && a.v.class == LT_SMALL && cur.v.class == LT_SMALL);
	CASE(beats && a.v.class == LT_LARGE);
}

/* Two do not interrupt one another in turn without running. */
void prove_no_two_interrupt_each_other(void)
{
	struct lt_params p = any_params();
	struct waiting a = any_waiting(&p), b = any_waiting(&p);
	lt_u64 now = any_clock();

	CHECK(!(lt_beats(&a.v, &a.vm, &b.v, &b.vm, &p, 0, now) &&
		lt_beats(&b.v, &b.vm, &a.v, &a.vm, &p, 0, now)));
	CASE(lt_beats(&a.v, &a.vm, &b.v, &b.vm, &p, 0, now));
}

/* One that does not interrupt a small one yet does after a few times what it has to do itself at most. */
void prove_the_moment_to_interrupt_is_near(void)
{
	struct lt_params p = any_params();
	struct waiting a = any_waiting(&p), cur = any_waiting(&p);
	lt_u64 now = 1ull << 40, when, left;

	a.v.class = cur.v.class = LT_SMALL;
	cur.v.boosted_until_ns = 0;
	/* Up to 4 ms each: with all lengths it holds as well, but takes a minute. */
	ASSUME((a.v.ran_ns | a.v.avg_burst_ns | cur.v.ran_ns | cur.v.avg_burst_ns | p.margin_ns) < 1u << 22);
	left = lt_left(&a.v, 0) + p.margin_ns;
	when = lt_beats_when(&a.v, &a.vm, &cur.v, &cur.vm, &p, 0, now);
	/* In two steps, which are easier to prove than one. */
	CHECK(when == 0 || cur.v.avg_burst_ns <= cur.v.ran_ns + left);
	ASSUME(when == 0 || cur.v.avg_burst_ns <= cur.v.ran_ns + left);
	CHECK(when <= now + (left << 2) + 4 + left);
	CASE(when > now + left);
}

/* And then it does, if the other one runs on until then. */
void prove_the_moment_to_interrupt_comes(void)
{
	struct lt_params p = any_params();
	struct waiting a = any_waiting(&p), cur = any_waiting(&p);
	lt_u64 now = any_clock(), more;

	a.v.class = cur.v.class = LT_SMALL;
	cur.v.boosted_until_ns = 0;
	more = lt_beats_when(&a.v, &a.vm, &cur.v, &cur.vm, &p, 0, now);
	ASSUME(more > now && more - now < LT_RAN_MAX_NS);
	CHECK(lt_beats(&a.v, &a.vm, &cur.v, &cur.vm, &p, more - now, more));
	CASE(more > now + 1);
}

/* A boost is over in time, whatever the clock does. */
void prove_a_boost_ends(void)
{
	struct lt_params p = any_params();
	struct lt_vm vm = any_vm(&p);
	struct lt_vcpu v = any_vcpu(&p);
	lt_u64 now = any_clock(), later = any_clock(), old = v.boosted_until_ns;

	lt_vcpu_grant(&v, &vm, &p, now);
	CHECK(v.boosted_until_ns == old || v.boosted_until_ns == now + p.starvation_boost_ns);
	ASSUME(later < now - lt_min(now, p.starvation_boost_ns) || later >= now + p.starvation_boost_ns);
	ASSUME(v.boosted_until_ns != old);
	CHECK(!lt_boosted(&v, &p, later) || later < now);
	CASE(later > now);
}
