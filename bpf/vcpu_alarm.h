/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What alarms do for those who wait: limits let them go on, and who has waited too long comes to the front.
 */
#ifndef LOWTAIL_VCPU_ALARM_H
#define LOWTAIL_VCPU_ALARM_H

#include "vcpu_queue.h"

/* So many of those that a limit has stopped are let go at a time, and so many are looked at that may have waited too long. */
__u32 unpark_most = 64;
__u32 rescue_most = 1 << 16;

/*
 * A limit lets thread @slot go on, which waits like others from now on: how long the limit has stopped it gives it no claim
 * to go before those who have waited for a CPU. Returns its place in its queue.
 */
__attribute__((noinline)) __u64 let_go(__u32 slot, __u64 now)
{
	struct vcpu *v = vcpu_of(slot);
	struct vm *vm = v ? vm_of(v->vm) : 0;

	if (!vm)
		return 0;
	bpf_spin_lock(&vm->lock);
	v->parked_ns = 0;
	v->rule.queued_ns = now;
	v->waiting = 1;
	bpf_spin_unlock(&vm->lock);
	return key_of(v, vm);
}

/* The timer of those who are stopped by limits. */
static int unpark_timer(void *map, __u32 *key, struct alarm *alarm)
{
	__u64 now = bpf_ktime_get_ns(), next = LT_NEVER, queue, order;
	struct bpf_iter_scx_dsq it;
	struct task_struct *p;
	struct vcpu *v;
	__u32 cpu, slot, left = unpark_most;
	int stays;

	alarm->armed_ns = 0;
	bpf_iter_scx_dsq_new(&it, PARKED, 0);
	while ((p = bpf_iter_scx_dsq_next(&it))) {
		slot = slot_of(p);
		v = vcpu_of(slot);
		if (!left--) {
			next = now + 1;
			break;
		}
		if (!v)
			continue;
		if (v->parked_ns > now) {
			next = v->parked_ns;
			break;
		}
		cpu = scx_bpf_task_cpu(p);
		stays = bound(p);
		queue = place(cpu, stays, v->mask, v->rule.class);
		waits_from(v, cpu, now);
		order = let_go(slot, now);
		late_in(queue, slot);
		scx_bpf_dsq_move_set_vtime(&it, order);
		scx_bpf_dsq_move_vtime(&it, p, queue, 0);
		if (scx_bpf_test_and_clear_cpu_idle(cpu))
			scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
		announce(p, cpu, stays, now);
		try_preempt(cpu, now);
	}
	bpf_iter_scx_dsq_destroy(&it);
	if (next != LT_NEVER)
		arm_unpark(next, now);
	return 0;
}

/*
 * Where thread @slot, which waits in a queue of @class of a CPU or a mask and was on @own last, goes if it has waited too long:
 * to the front of its queue, where whoever looks at a few sees it. The order was that of when it came. One that is at the
 * front already, and may run on more than one CPU, goes to the queue of its CPU, or from that to the queue of its mask: others
 * whom nobody fetches do not hide it, nor is it left to a CPU that another class has. NOBODY: it stays.
 */
enum { BEHIND, FRONT_BOUND, FRONT };

__attribute__((noinline)) __u64 rescue_to(__u32 slot, __u32 place_class, __u32 own, __u32 where, __u64 now)
{
	__u32 place = place_class >> 1, class = place_class & 1;
	struct vcpu *v = vcpu_of(slot);

	if (!v || !overdue(slot, now) || where == FRONT_BOUND)
		return NOBODY;
	if (where == BEHIND)
		return QUEUE_OF(place, class);
	if (place < ALL)
		return QUEUE_OF(ALL + v->mask, class);
	return gone(own) ? NOBODY : QUEUE_OF(own, class);
}

/* Those in a queue who have waited too long. */
__attribute__((noinline)) int rescue_queue(__u32 place, __u32 class, __u64 now)
{
	__u64 queue = QUEUE_OF(place, class), to;
	struct bpf_iter_scx_dsq it;
	__u32 left = rescue_most, where, slot;
	struct task_struct *p;

	if (!scx_bpf_dsq_nr_queued(queue))
		return 0;
	bpf_iter_scx_dsq_new(&it, queue, 0);
	while ((p = bpf_iter_scx_dsq_next(&it))) {
		if (!left--)
			break;
		where = p->scx.dsq_vtime ? BEHIND : FRONT - bound(p);
		slot = slot_of(p);
		waited_behind(slot, now);
		to = rescue_to(slot, 2 * place + class, scx_bpf_task_cpu(p), where, now);
		if (to == NOBODY)
			continue;
		scx_bpf_dsq_move_set_vtime(&it, 0);
		scx_bpf_dsq_move_vtime(&it, p, to, 0);
	}
	bpf_iter_scx_dsq_destroy(&it);
	return 0;
}

static long rescue_place(__u32 place, __u64 *now)
{
	rescue_queue(place, LT_SMALL, *now);
	rescue_queue(place, LT_LARGE, *now);
	if (place < ALL && anybody(place))
		scx_bpf_kick_cpu(place, SCX_KICK_IDLE);
	return 0;
}

/* Sees to those who have waited too long, and that no alarm has been lost. */
__attribute__((noinline)) int rescue(__u64 now)
{
	struct alarm *alarm = alarm_of(UNPARK);

	bpf_loop(PLACES, rescue_place, &now, 0);
	if (alarm && alarm->armed_ns < now && scx_bpf_dsq_nr_queued(PARKED))
		arm_unpark(now + 1, now);
	return 0;
}

#endif
