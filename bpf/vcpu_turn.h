/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Callbacks for a CPU: who runs next, who begins and who leaves, who yields, and another class that takes it.
 */
#ifndef LOWTAIL_VCPU_TURN_H
#define LOWTAIL_VCPU_TURN_H

#include "vcpu_queue.h"
#include "vcpu_share.h"

/* A thread exits (include/linux/sched.h); the kernel itself chooses it. */
#define PF_EXITING 0x00000004

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
	struct vm *vm = vm_of(v->vm);
	__u64 turn = lt_vcpu_turn(&v->rule, PARAMS, v->stretch_ns);

	c->dispatch_ns = 0;
	c->stretch_ns = now + v->stretch_ns;
	if (anew)
		c->until_ns = now + lt_min(turn, turn_max());
	v->stretch_ns = 0;
	advance(c, v, now);
	/* A limit holds though nobody else wants the CPU. */
	c->limited = v->pool || lt_capped(&v->rule.cap) || (vm && lt_capped(&vm->rule.cap));
	if (others || c->limited)
		arm(c, deadline(c), now);
}

/*
 * @next, who waits, runs now on this CPU, if it can be given a stretch. Another CPU may have chosen the same one: only one of
 * them gives it a stretch, or what the other takes back would be what it runs on.
 */
__attribute__((noinline)) int take(__u64 next, __u64 now)
{
	__u64 queue = QUEUE_OF_NEXT(next);
	__u32 slot = SLOT_OF_NEXT(next);
	struct vcpu *v = vcpu_of(slot);
	struct vm *vm = v ? vm_of(v->vm) : 0;

	if (!vm || __sync_val_compare_and_swap(&v->waiting, 1, 0) != 1)
		return 0;
	if (prepare(slot, now)) {
		if (move(queue, slot, SCX_DSQ_LOCAL, 0))
			return 1;
		/* It has gone elsewhere, or out of sight. */
		give_back(slot, now);
	} else if (v->parked_ns) {
		if (move(queue, slot, PARKED, v->parked_ns)) {
			arm_unpark(v->parked_ns, now);
			return 0;
		}
	} else {
		/* The queue of large ones is beside that of small ones. */
		move(queue, slot, queue | 1, vm->rule.vtime_ns);
	}
	v->waiting = 1;
	return 0;
}

/* Thread @slot was chosen to interrupt who runs. */
static __always_inline void pays_later(__u32 slot)
{
	struct vcpu *v = vcpu_of(slot);

	if (v)
		v->pays = 1;
}

SEC("struct_ops/lowtail_dispatch")
void BPF_PROG(lowtail_dispatch, __s32 cpu, struct task_struct *prev)
{
	__u64 now = bpf_ktime_get_ns();
	struct cpu *c = cpu_of(cpu);
	struct vcpu *v = 0;
	__u32 slot = NONE;
	int over, yielded, claimed, stays = 0;
	__u64 next, woken_for;

	if (!c)
		return;
	if (prev && (prev->scx.flags & SCX_TASK_QUEUED))
		slot = slot_of(prev);
	yielded = c->yielded;
	over = yielded || c->order_checked || now >= c->until_ns;
	claimed = c->claimed;
	woken_for = c->woken_for;
	c->woken_for = 0;
	c->yielded = 0;
	c->order_checked = 0;
	c->claimed = 0;
	if (slot != NONE) {
		v = vcpu_of(slot);
		if (!v)
			return;
		own_limit(prev, v, now);
		charge(slot, 1, now);
		/* The kernel would choose it again at once, for as short a time, and nobody would come to an end. */
		if (prev->flags & PF_EXITING) {
			prev->scx.slice = PARAMS->slice_ns;
			return;
		}
		c->dispatch_ns = now;
		/* At the end of a turn nobody interrupts: who would is one of all. */
		for (int i = 0; i < TRIES && claimed && !over; i++) {
			next = claimant(cpu, now);
			if (next == NOBODY)
				break;
			if (take(next, now)) {
				pays_later(SLOT_OF_NEXT(next));
				c->order_checked = 1;
				return;
			}
		}
		if (!over) {
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
	if (slot == NONE && !c->gone && others_on(cpu)) {
		c->empty = 1;
		c->left_ns = 0;
		taken(c, now);
		if (anybody(cpu) || scx_bpf_dsq_nr_queued(UNREGISTERED)) {
			/* Those may have been on their way to sleep: then the CPU would, too. */
			scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
			pass_on(cpu);
		}
		return;
	}
	ours_again(c, now);
	/* It goes without a look at all others, as one that wakes a CPU does. Whoever goes before it interrupts it. */
	if (slot == NONE && woken_for && take(woken_for, now)) {
		if (!c->left_ns)
			c->left_ns = now;
		return;
	}
	if (!c->gone && lt_since(now, c->foreign_ns) > lt_min(PARAMS->slice_ns, turn_max()) &&
	    scx_bpf_dsq_move_to_local(UNREGISTERED))
		return;
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
			/* Who yields has gone behind others, and not been compared with them. */
			c->order_checked = !yielded;
			/* On a CPU that has slept, the choice is charged to who was chosen, too. */
			if (!c->left_ns)
				c->left_ns = now;
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
			scx_bpf_dsq_move_to_local(UNREGISTERED);
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
	int order_checked, others;

	if (!c)
		return;
	if (v && v->pays)
		pay(slot, cpu);
	order_checked = c->order_checked;
	c->order_checked = 0;
	c->claimed = 0;
	c->current = NONE;
	c->dispatch_ns = 0;
	c->foreign = !v;
	if (!v) {
		c->until_ns = now + unregistered_run();
		arm(c, c->until_ns, now);
		return;
	}
	v->waiting = 0;
	ours_again(c, now);
	waited_behind(slot, now);
	/* The kernel itself lets some run: who exits, who cannot be moved. A limit stops them later. */
	if (!v->stretch_ns && !prepared(slot, v, now))
		v->stretch_ns = PARAMS->min_grant_ns;
	/* The switch is charged to who comes, or those that switch often would have that for nothing. */
	runs(slot, c->left_ns ? c->left_ns : now, now);
	c->left_ns = 0;
	c->empty = 0;
	if (p->flags & PF_EXITING) {
		/* No limit and nobody who waits ends that: who exits may hold what others wait for. */
		v->stretch_ns = 0;
		return;
	}
	c->current = slot;
	others = anybody(cpu);
	begin(c, v, 1, others, now);
	if (!order_checked && others)
		try_preempt(cpu, now);
}

SEC("struct_ops/lowtail_stopping")
void BPF_PROG(lowtail_stopping, struct task_struct *p, _Bool runnable)
{
	struct cpu *c = cpu_of(scx_bpf_task_cpu(p));
	__u64 now = bpf_ktime_get_ns();
	__u32 slot = slot_of(p);
	struct vcpu *v = vcpu_of(slot);

	if (c) {
		/* The kernel, too, charges the choice of who comes next to who comes. */
		if (c->dispatch_ns)
			now = c->dispatch_ns;
		c->dispatch_ns = 0;
		c->current = NONE;
		if (c->foreign)
			c->foreign_ns = now;
		c->foreign = 0;
		c->left_ns = c->empty ? 0 : now;
	}
	if (c && v)
		lt_preempt_over(&c->rule, &v->rule, now);
	if (slot != NONE)
		charge(slot, 0, now);
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
	taken(c, bpf_ktime_get_ns());
	c->order_checked = 0;
	c->left_ns = 0;
	c->releases = 1;
	scx_bpf_reenqueue_local();
	c->releases = 0;
}

#endif
