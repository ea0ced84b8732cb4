// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The order of those who wait is one that a queue can be kept in: whatever
 * lt_due and lt_overdue say of each at that moment.
 *
 * Replaced: lt_due lt_overdue
 * Overflows: in states.c
 */
#include "proof.h"

struct waiting {
	struct lt_vcpu v;	/* first, so that it leads to the rest */
	struct lt_vm vm;
	lt_u64 due;
	int late;
};

lt_u64 lt_due_model(const struct lt_vcpu *v)
{
	return ((const struct waiting *)v)->due;
}

int lt_overdue_model(const struct lt_vcpu *v, const struct lt_vm *vm, lt_u64 now)
{
	return ((const struct waiting *)v)->late;
}

static struct waiting any_waiting(const struct lt_params *p)
{
	return (struct waiting){ any_vcpu(p), any_vm(p), nondet_u64(), nondet_u8() & 1 };
}

static int before(const struct waiting *a, const struct waiting *b)
{
	return lt_before(&a->v, &a->vm, &b->v, &b->vm, 0);
}

/* Never both ways round, and transitive. */
void prove_before_is_an_order(void)
{
	struct lt_params p = any_params();
	struct waiting a = any_waiting(&p), b = any_waiting(&p), c = any_waiting(&p);

	CHECK(!before(&a, &a));
	CHECK(!(before(&a, &b) && before(&b, &a)));
	CHECK(!(before(&a, &b) && before(&b, &c)) || before(&a, &c));
	CASE(before(&a, &b) && before(&b, &c));
	CASE(!before(&a, &b) && !before(&b, &a));
}

/* Neither before the other is transitive too: equals are equal to all. */
void prove_equals_are_equal_to_all(void)
{
	struct lt_params p = any_params();
	struct waiting a = any_waiting(&p), b = any_waiting(&p), c = any_waiting(&p);

	ASSUME(!before(&a, &b) && !before(&b, &a));
	CHECK(before(&a, &c) == before(&b, &c));
	CHECK(before(&c, &a) == before(&c, &b));
	CASE(before(&a, &c));
	CASE(before(&c, &a));
}
