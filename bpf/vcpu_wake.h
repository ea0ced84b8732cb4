/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Callbacks for a thread that wakes, sleeps, or has to wait: it goes to an idle CPU if there is one, else interrupts
 * somebody if the rule lets it, else waits in a queue.
 */
#ifndef LOWTAIL_VCPU_WAKE_H
#define LOWTAIL_VCPU_WAKE_H

#include "vcpu_queue.h"
#include "vcpu_share.h"

SEC("struct_ops/lowtail_select_cpu")
__s32 BPF_PROG(lowtail_select_cpu, struct task_struct *p, __s32 prev_cpu, __u64 wake_flags)
{
	__u64 now = bpf_ktime_get_ns(), soonest = LT_NEVER, when;
	__u32 slot = slot_of(p), n = settings.cpus, other;
	struct vcpu *v = vcpu_of(slot);
	_Bool idle = 0;
	__s32 cpu;

	cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &idle);
	if (!v || !(wake_flags & SCX_WAKE_TTWU))
		return cpu;
	begins(slot, cpu, 1, now);
	v->woken = 1;
	v->idle = idle;
	if (idle)
		return cpu;
	/* Where it may interrupt at once, or soonest. */
	soonest = may_interrupt(slot, cpu, now);
	other = cpu;
	for (int i = 0; i < LOOK && soonest; i++) {
		if (i + 1 >= n)
			break;
		if (++other >= n)
			other = 0;
		if (!may_run_on(p, other))
			continue;
		when = may_interrupt(slot, other, now);
		if (when < soonest) {
			soonest = when;
			cpu = other;
		}
	}
	return cpu;
}

SEC("struct_ops/lowtail_runnable")
void BPF_PROG(lowtail_runnable, struct task_struct *p, __u64 enq_flags)
{
	__u32 slot = slot_of(p);
	struct vcpu *v = vcpu_of(slot);

	if (!v)
		return;
	if (!v->woken)
		begins(slot, scx_bpf_task_cpu(p), v->fresh || (enq_flags & SCX_ENQ_WAKEUP),
		       bpf_ktime_get_ns());
	v->woken = 0;
	v->fresh = 0;
}

SEC("struct_ops/lowtail_quiescent")
void BPF_PROG(lowtail_quiescent, struct task_struct *p, __u64 deq_flags)
{
	__u32 slot = slot_of(p);

	if (slot != NONE)
		ends(slot, deq_flags & SCX_DEQ_SLEEP ? 1 : 0, bpf_ktime_get_ns());
}

static __always_inline void park(struct task_struct *p, struct vcpu *v, __u64 flags, __u64 now)
{
	scx_bpf_dsq_insert_vtime(p, PARKED, PARAMS->slice_ns, v->parked_ns, flags);
	arm_unpark(v->parked_ns, now);
}

SEC("struct_ops/lowtail_enqueue")
void BPF_PROG(lowtail_enqueue, struct task_struct *p, __u64 enq_flags)
{
	__u64 now = bpf_ktime_get_ns(), when = LT_NEVER;
	__u32 slot = slot_of(p), cpu = scx_bpf_task_cpu(p), waiting;
	struct vcpu *v = vcpu_of(slot);
	struct cpu *c = cpu_of(cpu);
	struct vm *vm;
	__u64 queue;
	int idle, stays, claims = 0;

	vm = v ? vm_of(v->vm) : 0;
	if (!vm || !c) {
		scx_bpf_dsq_insert(p, UNREGISTERED, unregistered_run(), enq_flags);
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
		announce(p, cpu, p->nr_cpus_allowed == 1, now);
		return;
	}
	own_limit(p, v, now);
	if (v->stretch_ns)
		give_back(slot, now);
	v->pays = 0;
	idle = v->idle || scx_bpf_test_and_clear_cpu_idle(cpu);
	v->idle = 0;
	if (v->parked_ns > now) {
		park(p, v, enq_flags, now);
		if (idle)
			scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
		return;
	}
	stays = bound_now(p, c);
	if (idle && stays) {
		waits_from(v, cpu, now);
		if (prepared(slot, v, now)) {
			scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, PARAMS->slice_ns, enq_flags);
			return;
		}
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
	} else if (c->current != NONE && !c->order_checked && !c->claimed) {
		when = may_interrupt(slot, cpu, now);
		waiting = when ? NONE : SLOT_OF_NEXT(next_small(cpu, now));
		/* Who waits and goes before it may be refused: who of them interrupts turns out when the CPU asks. */
		claims = waiting != NONE && !before(slot, waiting, now);
		if (!when && !claims && prepared(slot, v, now)) {
			c->order_checked = 1;
			v->pays = 1;
			waits_from(v, cpu, now);
			scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, PARAMS->slice_ns,
					   enq_flags | SCX_ENQ_PREEMPT);
			return;
		}
	} else if (enq_flags & SCX_ENQ_WAKEUP) {
		/* Who comes next has not been compared with it. */
		c->order_checked = 0;
	}
	if (v->parked_ns > now) {
		park(p, v, enq_flags, now);
		return;
	}
	v->waiting = 1;
	if (c->current == NONE && !idle && others_on(cpu))
		taken(c, now);
	waits_from(v, cpu, now);
	/* It came when no mask had a number left, or at the moment at which its own was given up. */
	if (!v->mask && masks_left)
		v->mask = find_mask(p);
	queue = place(cpu, stays, v->mask, v->rule.class);
	/*
	 * The CPU that was idle comes, as it does for any thread that wakes there, and takes it from the queue: where a thread
	 * of another class gets the CPU before, the queue is where other CPUs find this one.
	 */
	if (idle)
		c->woken_for = NEXT(queue, slot);
	late_in(queue, slot);
	scx_bpf_dsq_insert_vtime(p, queue, PARAMS->slice_ns, key_of(v, vm), enq_flags);
	if (when && when != LT_NEVER)
		arm(c, when, now);
	if (claims) {
		c->claimed = 1;
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	}
	if (!idle || stays)
		announce(p, cpu, stays, now);
	else if (!(enq_flags & SCX_ENQ_WAKEUP))
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
	if (enq_flags & SCX_ENQ_LAST)
		scx_bpf_kick_cpu(cpu, 0);
}

#endif
