/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How long threads wait behind ordinary ones. In partial mode those go first: one that computes without end has its CPU for itself,
 * and who may run only there waits for as long. Whoever loads this scheduler reads that of each VM, and gives the VM back to the
 * kernel's fair class where it is too much.
 */
#ifndef LOWTAIL_VCPU_ORDINARY_H
#define LOWTAIL_VCPU_ORDINARY_H

#include "vcpu_state.h"

/* Another class has @c, from @now on or already. */
static __always_inline void taken(struct cpu *c, __u64 now)
{
	if (!c->taken_ns)
		c->taken_ns = now;
}

/* We are asked who is next on @c, and nobody else is there. */
static __always_inline void ours_again(struct cpu *c, __u64 now)
{
	if (!c->taken_ns)
		return;
	c->others_ns += lt_since(now, c->taken_ns);
	c->taken_ns = 0;
}

/* For how long other classes have had @c while we wanted it, up to @now. */
static __always_inline __u64 others_had(const struct cpu *c, __u64 now)
{
	__u64 since = c->taken_ns;

	return c->others_ns + (since ? lt_since(now, since) : 0);
}

/* @v waits from @now on, and was on @cpu last. */
static __always_inline void waits_from(struct vcpu *v, __u32 cpu, __u64 now)
{
	struct cpu *c = cpu_of(cpu);

	v->waits_on = cpu;
	v->others_ns = c ? others_had(c, now) : 0;
}

/* Thread @slot has waited up to @now, or still does: what others have had of its CPU meanwhile is its VM's. */
__attribute__((noinline)) int waited_behind(__u32 slot, __u64 now)
{
	struct vcpu *v = vcpu_of(slot);
	struct vm *vm = v ? vm_of(v->vm) : 0;
	struct cpu *c = v ? cpu_of(v->waits_on) : 0;
	__u64 had;

	if (!vm || !c)
		return 0;
	had = others_had(c, now);
	__sync_fetch_and_add(&vm->figures.ordinary_wait_ns, lt_since(had, v->others_ns));
	v->others_ns = had;
	return 0;
}

#endif
