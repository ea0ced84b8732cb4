/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Callbacks for a CPU: who runs next, who begins and who leaves, who yields, and another class that takes it.
 */
#ifndef LOWTAIL_VCPU_TURN_H
#define LOWTAIL_VCPU_TURN_H

#include "vcpu_queue.h"
#include "vcpu_share.h"

/* So many who wait are tried before the CPU enters the kernel's scheduler anew. */
#define TRIES 16

/* The virtual time of those who run on @c goes on with @slot. */
static __always_inline void advance(struct cpu *c, struct vcpu *v, __u64 now)
{
	struct vm *vm = vm_of(v->vm);

	if (vm)
		c->vtime_ns = lt_vtime(&v->rule, &vm->rule, PARAMS, c->vtime_ns, now);
}

/* @v, which was given a stretch, begins it on @c; @anew: a turn, too; @others wait. */
static __always_inline void begin(struct cpu *c, struct vcpu *v, int anew, int others, __u64 now)
{
	c->asked_ns = 0;
	c->stretch_ns = now + v->stretch_ns;
	if (anew)
		c->until_ns = now + lt_vcpu_turn(&v->rule, PARAMS, v->stretch_ns);
	v->stretch_ns = 0;
	advance(c, v, now);
	if (others)
		arm(c, deadline(c), now);
}

/* @next, who waits, runs now on this CPU, if it can be given a stretch. */
__attribute__((noinline)) int take(__u64 next, __u64 now)
{
	__u64 queue = QUEUE_OF_NEXT(next);
	__u32 slot = SLOT_OF_NEXT(next);
	struct vcpu *v = vcpu_of(slot);
	struct vm *vm = v ? vm_of(v->vm) : 0;

	if (!vm)
		return 0;
	if (prepare(slot, now)) {
		if (move(queue, slot, SCX_DSQ_LOCAL, 0))
			return 1;
		/* It has gone elsewhere, or out of sight. */
		give_back(slot, now);
	} else if (v->parked_ns) {
		if (move(queue, slot, PARKED, v->parked_ns))
			arm_unpark(v->parked_ns, now);
	} else {
		/* The queue of large ones is beside that of small ones. */
		move(queue, slot, queue | 1, vm->rule.vtime_ns);
	}
	return 0;
}

SEC("struct_ops/lowtail_dispatch")
void BPF_PROG(lowtail_dispatch, __s32 cpu, struct task_struct *prev)
{
	__u64 now = bpf_ktime_get_ns();
	struct cpu *c = cpu_of(cpu);
	__u32 slot = NONE, paid;
	struct vcpu *v = 0;
	int over, yielded, stays = 0;
	__u64 next = NOBODY;

	if (!c)
		return;
	if (prev && (prev->scx.flags & SCX_TASK_QUEUED))
		slot = slot_of(prev);
	yielded = c->yielded;
	over = yielded || c->chosen || now >= c->until_ns;
	paid = c->paid;
	c->yielded = 0;
	c->chosen = 0;
	c->paid = NONE;
	if (slot != NONE) {
		v = vcpu_of(slot);
		if (!v)
			return;
		own_limit(prev, v, now);
		settle(slot, 1, now);
		c->asked_ns = now;
		if (!over && paid == NONE) {
			/* Its turn goes on. */
			if (prepare(slot, now)) {
				prev->scx.slice = PARAMS->slice_ns;
				begin(c, v, 0, anybody(cpu), now);
				return;
			}
			if (v->parked_ns)
				slot = NONE;
		}
	}
	if (paid != NONE) {
		next = NEXT(QUEUE_OF(cpu, LT_SMALL), paid);
		if (first(QUEUE_OF(cpu, LT_SMALL), cpu, now) != paid &&
		    scx_bpf_dsq_nr_queued(QUEUE_OF(ALL, LT_SMALL)))
			next = NEXT(QUEUE_OF(ALL, LT_SMALL), paid);
		if (take(next, now)) {
			c->chosen = 1;
			return;
		}
	}
	if (!c->gone && lt_since(now, c->foreign_ns) > PARAMS->slice_ns &&
	    scx_bpf_dsq_move_to_local(FOREIGN)) {
		c->foreign_ns = now;
		return;
	}
	for (int i = 0; i < TRIES; i++) {
		next = next_of_all(cpu, now);
		stays = slot != NONE &&
			(next == NOBODY || (!yielded && !before(SLOT_OF_NEXT(next), slot, now)));
		if (stays) {
			if (prepare(slot, now))
				break;
			stays = 0;
			if (v && v->parked_ns)
				slot = NONE;
		} else if (next == NOBODY) {
			break;
		} else if (take(next, now)) {
			c->chosen = 1;
			return;
		}
	}
	if (stays && v) {
		prev->scx.slice = PARAMS->slice_ns;
		begin(c, v, 1, next != NOBODY, now);
	} else if (next == NOBODY) {
		/* What comes before the next thread is nobody's: the CPU sleeps. */
		c->empty = 1;
		c->left_ns = 0;
		if (!c->gone)
			scx_bpf_dsq_move_to_local(FOREIGN);
	} else {
		scx_bpf_kick_cpu(cpu, 0);
	}
}

SEC("struct_ops/lowtail_running")
void BPF_PROG(lowtail_running, struct task_struct *p)
{
	__u32 slot = slot_of(p), cpu = scx_bpf_task_cpu(p);
	__u64 now = bpf_ktime_get_ns();
	struct vcpu *v = vcpu_of(slot);
	struct cpu *c = cpu_of(cpu);
	int chosen, others;

	if (!c)
		return;
	chosen = c->chosen;
	c->chosen = 0;
	c->paid = NONE;
	c->current = NONE;
	c->asked_ns = 0;
	if (!v)
		return;
	/* The kernel itself lets some run: who exits, who cannot be moved. A limit stops them later. */
	if (!v->stretch_ns && !prepared(slot, v, now))
		v->stretch_ns = PARAMS->grain_ns;
	/* The switch is charged to who comes, or those that switch often would have that for nothing. */
	runs(slot, c->left_ns ? c->left_ns : now, now);
	c->left_ns = 0;
	c->empty = 0;
	c->current = slot;
	others = anybody(cpu);
	begin(c, v, 1, others, now);
	if (!chosen && others)
		look(cpu, now);
}

SEC("struct_ops/lowtail_stopping")
void BPF_PROG(lowtail_stopping, struct task_struct *p, _Bool runnable)
{
	struct cpu *c = cpu_of(scx_bpf_task_cpu(p));
	__u64 now = bpf_ktime_get_ns();
	__u32 slot = slot_of(p);

	if (c) {
		/* The kernel, too, charges the choice of who comes next to who comes. */
		if (c->asked_ns)
			now = c->asked_ns;
		c->asked_ns = 0;
		c->current = NONE;
		c->left_ns = c->empty ? 0 : now;
	}
	if (slot != NONE)
		settle(slot, 0, now);
}

SEC("struct_ops/lowtail_yield")
_Bool BPF_PROG(lowtail_yield, struct task_struct *from, struct task_struct *to)
{
	struct cpu *c = cpu_of(scx_bpf_task_cpu(from));
	__u32 slot = slot_of(from);

	if (slot != NONE)
		yields(slot);
	if (c)
		c->yielded = 1;
	from->scx.slice = 0;
	return 0;
}

/* A thread of another class takes the CPU: who is next here may run elsewhere, and is compared anew. */
SEC("struct_ops/lowtail_cpu_release")
void BPF_PROG(lowtail_cpu_release, __s32 cpu, struct scx_cpu_release_args *args)
{
	struct cpu *c = cpu_of(cpu);

	if (!c)
		return;
	c->chosen = 0;
	c->left_ns = 0;
	c->releases = 1;
	scx_bpf_reenqueue_local();
	c->releases = 0;
}

#endif
