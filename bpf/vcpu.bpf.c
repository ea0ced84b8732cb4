// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Small first for the threads of machines, as a scheduler of the kernel's class sched_ext (partial mode: other threads
 * stay where they are, and go before these). policy/vcpu.h decides; here are the queues, timers and locks around
 * it. docs/vcpu.md says what it does.
 *
 * A thread that wakes goes to an idle CPU if there is one; else it interrupts somebody, if the rule lets it, on the
 * CPU where it ran last or on another; else it waits, and a timer is set for the moment when the rule does. What
 * decides at the end of a turn is the order of those who wait.
 */
#include "scx.h"
#include "vcpu_queue.h"
#include "vcpu_share.h"

/* The functions of the kernel that a scheduler calls are for GPL-compatible programs. */
char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* CLOCK_MONOTONIC of include/uapi/linux/time.h */
#define MONOTONIC 1
/* A thread without a number runs for so long, once in a turn of the others. */
#define FOREIGN_RUN_NS 1000000ull
/* So many who wait are tried before the CPU enters the kernel's scheduler anew. */
#define TRIES 16

/* ---- wake-ups -------------------------------------------------------- */

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
	soonest = may_interrupt(slot, cpu, 0, now);
	other = cpu;
	for (int i = 0; i < LOOK && soonest; i++) {
		if (i + 1 >= n)
			break;
		if (++other >= n)
			other = 0;
		if (!bpf_cpumask_test_cpu(other, p->cpus_ptr))
			continue;
		when = may_interrupt(slot, other, 0, now);
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

/* ---- who waits where ------------------------------------------------- */

static __always_inline void park(struct task_struct *p, struct vcpu *v, __u64 flags, __u64 now)
{
	scx_bpf_dsq_insert_vtime(p, PARKED, PARAMS->slice_ns, v->parked_ns, flags);
	arm_unpark(v->parked_ns, now);
}

/* Gives @p, which is to run now, a stretch. One that is refused as a small one is asked again as a large one. */
static __always_inline int prepared(__u32 slot, struct vcpu *v, __u64 now)
{
	return prepare(slot, now) || (!v->parked_ns && prepare(slot, now));
}

SEC("struct_ops/lowtail_enqueue")
void BPF_PROG(lowtail_enqueue, struct task_struct *p, __u64 enq_flags)
{
	__u64 now = bpf_ktime_get_ns(), when = LT_NEVER;
	__u32 slot = slot_of(p), cpu = scx_bpf_task_cpu(p), waiting;
	struct vcpu *v = vcpu_of(slot);
	struct cpu *c = cpu_of(cpu);
	struct vm *vm;
	int idle;

	vm = v ? vm_of(v->vm) : 0;
	if (!vm || !c) {
		scx_bpf_dsq_insert(p, FOREIGN, FOREIGN_RUN_NS, enq_flags);
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
		announce(p, cpu, now);
		return;
	}
	own_limit(p, v, now);
	if (v->stretch_ns)
		give_back(slot, now);
	idle = v->idle || scx_bpf_test_and_clear_cpu_idle(cpu);
	v->idle = 0;
	if (v->parked_ns > now) {
		park(p, v, enq_flags, now);
		if (idle)
			scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
		return;
	}
	if (idle) {
		if (prepared(slot, v, now)) {
			scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, PARAMS->slice_ns, enq_flags);
			return;
		}
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
	} else if (c->current != NONE && !c->chosen && c->paid == NONE) {
		/* Who waits and goes before it is asked first. */
		waiting = SLOT_OF_NEXT(next_small(cpu, now));
		if (waiting == NONE || before(slot, waiting, now)) {
			when = may_interrupt(slot, cpu, 1, now);
			if (!when && prepared(slot, v, now)) {
				c->chosen = 1;
				scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, PARAMS->slice_ns,
						   enq_flags | SCX_ENQ_PREEMPT);
				return;
			}
		}
	} else if (enq_flags & SCX_ENQ_WAKEUP) {
		/* Who comes next has not been compared with it. */
		c->chosen = 0;
	}
	if (v->parked_ns > now) {
		park(p, v, enq_flags, now);
		return;
	}
	scx_bpf_dsq_insert_vtime(p, place(p, v->rule.class), PARAMS->slice_ns, key_of(v, vm),
				 enq_flags);
	if (when && when != LT_NEVER)
		arm(c, when, now);
	announce(p, cpu, now);
	if (enq_flags & SCX_ENQ_LAST)
		scx_bpf_kick_cpu(cpu, 0);
}

/* ---- who runs -------------------------------------------------------- */

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
	int over, yielded;
	__u64 next;

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
		if (slot != NONE && v &&
		    (next == NOBODY || (!yielded && !before(SLOT_OF_NEXT(next), slot, now)))) {
			if (prepare(slot, now)) {
				prev->scx.slice = PARAMS->slice_ns;
				begin(c, v, 1, next != NOBODY, now);
				return;
			}
			if (v->parked_ns)
				slot = NONE;
			continue;
		}
		if (next == NOBODY) {
			/* What comes before the next thread is nobody's: the CPU sleeps. */
			c->empty = 1;
			c->left_ns = 0;
			if (!c->gone)
				scx_bpf_dsq_move_to_local(FOREIGN);
			return;
		}
		if (take(next, now)) {
			c->chosen = 1;
			return;
		}
	}
	scx_bpf_kick_cpu(cpu, 0);
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

/* ---- who is there ---------------------------------------------------- */

/* Whether the timers have. */
__u32 begun;

static long begin_timer(__u32 cpu, void *ctx)
{
	struct cpu *c = cpu_of(cpu);

	if (!c)
		return 1;
	bpf_timer_init(&c->timer, &cpus, MONOTONIC);
	bpf_timer_set_callback(&c->timer, cpu_timer);
	return 0;
}

/*
 * The timers begin with the first thread that the kernel tells of, as it does of all when the scheduler is loaded:
 * what they do is not for a program that may sleep, as the one for the beginning may.
 */
static __always_inline void begin_timers(void)
{
	struct alarm *accounts = alarm_of(ACCOUNT), *unparks = alarm_of(UNPARK);

	if (begun || __sync_fetch_and_add(&begun, 1) || !accounts || !unparks)
		return;
	bpf_loop(settings.cpus, begin_timer, 0, 0);
	bpf_timer_init(&unparks->timer, &alarms, MONOTONIC);
	bpf_timer_set_callback(&unparks->timer, unpark_timer);
	bpf_timer_init(&accounts->timer, &alarms, MONOTONIC);
	bpf_timer_set_callback(&accounts->timer, account_timer);
	bpf_timer_start(&accounts->timer, PERIOD_NS, 0);
}

/* Threads that a machine's thread starts are of the machine. */
SEC("struct_ops/lowtail_init_task")
__s32 BPF_PROG(lowtail_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	struct member *parent, *child;

	begin_timers();
	if (!args->fork)
		return 0;
	parent = bpf_task_storage_get(&members, bpf_get_current_task_btf(), 0, 0);
	if (!parent)
		return 0;
	child = bpf_task_storage_get(&members, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (child)
		child->vm = parent->vm;
	return 0;
}

SEC("struct_ops/lowtail_enable")
void BPF_PROG(lowtail_enable, struct task_struct *p)
{
	__u64 now = bpf_ktime_get_ns();
	struct member *member;
	struct vcpu *v;
	struct vm *vm;
	__u32 slot;

	member = bpf_task_storage_get(&members, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!member)
		return;
	member->slot = 0;
	vm = vm_of(member->vm);
	if (!vm) {
		/* The function takes no string that cannot be written to. */
		static char format[] = "thread %llu is of machine %llu, and there is none";
		unsigned long long data[] = { p->pid, member->vm };

		scx_bpf_error_bstr(format, data, sizeof(data));
		return;
	}
	if (bpf_map_pop_elem(&free_slots, &slot))
		return;
	v = vcpu_of(slot);
	if (!v)
		return;
	__sync_fetch_and_add(&vm->threads, 1);
	if (known_vms <= member->vm)
		known_vms = member->vm + 1;
	refresh(member->vm, now);
	__builtin_memset(v, 0, sizeof(*v));
	v->vm = member->vm;
	v->fresh = 1;
	lt_vcpu_init(&v->rule, PARAMS, now);
	member->slot = slot + 1;
}

SEC("struct_ops/lowtail_disable")
void BPF_PROG(lowtail_disable, struct task_struct *p)
{
	struct member *member = bpf_task_storage_get(&members, p, 0, 0);
	struct vcpu *v;
	struct vm *vm;
	__u32 slot;

	if (!member || !member->slot)
		return;
	slot = member->slot - 1;
	member->slot = 0;
	v = vcpu_of(slot);
	vm = v ? vm_of(v->vm) : 0;
	if (vm)
		__sync_fetch_and_add(&vm->threads, -1);
	bpf_map_push_elem(&free_slots, &slot, 0);
}

/* ---- control groups -------------------------------------------------- */

SEC("struct_ops.s/lowtail_cgroup_init")
__s32 BPF_PROG(lowtail_cgroup_init, struct cgroup *cgrp, struct scx_cgroup_init_args *args)
{
	struct group group = {
		.weight = args->weight,
		.period_us = args->bw_period_us,
		.quota_us = args->bw_quota_us,
		.burst_us = args->bw_burst_us,
	};
	__u64 id = cgrp->kn->id;

	/* A group for which there is no room has no say here. */
	bpf_map_update_elem(&groups, &id, &group, BPF_ANY);
	__sync_fetch_and_add(&group_changes, 1);
	return 0;
}

SEC("struct_ops.s/lowtail_cgroup_exit")
void BPF_PROG(lowtail_cgroup_exit, struct cgroup *cgrp)
{
	__u64 id = cgrp->kn->id;

	bpf_map_delete_elem(&groups, &id);
	__sync_fetch_and_add(&group_changes, 1);
}

SEC("struct_ops/lowtail_cgroup_set_weight")
void BPF_PROG(lowtail_cgroup_set_weight, struct cgroup *cgrp, __u32 weight)
{
	struct group *group = group_of(cgrp->kn->id);

	if (group)
		group->weight = weight;
}

SEC("struct_ops/lowtail_cgroup_set_bandwidth")
void BPF_PROG(lowtail_cgroup_set_bandwidth, struct cgroup *cgrp, __u64 period_us, __u64 quota_us,
	      __u64 burst_us)
{
	struct group *group = group_of(cgrp->kn->id);

	if (!group)
		return;
	group->period_us = period_us;
	group->quota_us = quota_us;
	group->burst_us = burst_us;
	__sync_fetch_and_add(&group_changes, 1);
}

/* ---- beginning and end ----------------------------------------------- */

/* With these the scheduler stays when CPUs come and go; the kernel moves who was there. */
SEC("struct_ops/lowtail_cpu_online")
void BPF_PROG(lowtail_cpu_online, __s32 cpu)
{
	struct cpu *c = cpu_of(cpu);

	if (c)
		c->gone = 0;
	__sync_fetch_and_add(&online, 1);
}

/* Who waits in @queue for @cpu runs there at once, which is when the kernel finds it another one. */
__attribute__((noinline)) int drain(__u64 queue, __u32 cpu)
{
	struct bpf_iter_scx_dsq it;
	struct task_struct *p;

	bpf_iter_scx_dsq_new(&it, queue, 0);
	while ((p = bpf_iter_scx_dsq_next(&it)))
		scx_bpf_dsq_move(&it, p, SCX_DSQ_LOCAL_ON | cpu, 0);
	bpf_iter_scx_dsq_destroy(&it);
	return 0;
}

SEC("struct_ops/lowtail_cpu_offline")
void BPF_PROG(lowtail_cpu_offline, __s32 cpu)
{
	struct cpu *c = cpu_of(cpu);

	if (c)
		c->gone = 1;
	drain(QUEUE_OF(cpu, LT_SMALL), cpu);
	drain(QUEUE_OF(cpu, LT_LARGE), cpu);
	__sync_fetch_and_add(&online, -1);
}

static long begin_slot(__u32 slot, void *ctx)
{
	bpf_map_push_elem(&free_slots, &slot, 0);
	return 0;
}

static long begin_cpu(__u32 cpu, __s32 *failed)
{
	struct cpu *c = cpu_of(cpu);

	if (!c)
		return 1;
	c->current = NONE;
	c->paid = NONE;
	lt_pcpu_init(&c->rule, PARAMS, bpf_ktime_get_ns());
	*failed = scx_bpf_create_dsq(QUEUE_OF(cpu, LT_SMALL), -1);
	if (!*failed)
		*failed = scx_bpf_create_dsq(QUEUE_OF(cpu, LT_LARGE), -1);
	return *failed != 0;
}

SEC("struct_ops.s/lowtail_init")
__s32 BPF_PROG(lowtail_init)
{
	__s32 failed = 0;

	online = settings.online;
	bpf_loop(settings.threads, begin_slot, 0, 0);
	bpf_loop(settings.cpus, begin_cpu, &failed, 0);
	if (!failed)
		failed = scx_bpf_create_dsq(QUEUE_OF(ALL, LT_SMALL), -1);
	if (!failed)
		failed = scx_bpf_create_dsq(QUEUE_OF(ALL, LT_LARGE), -1);
	if (!failed)
		failed = scx_bpf_create_dsq(PARKED, -1);
	if (!failed)
		failed = scx_bpf_create_dsq(FOREIGN, -1);
	if (failed)
		return failed;
	passed_ns = bpf_ktime_get_ns();
	return 0;
}

SEC("struct_ops/lowtail_exit")
void BPF_PROG(lowtail_exit, struct scx_exit_info *info)
{
	__u32 zero = 0;
	struct ended *ended = bpf_map_lookup_elem(&endings, &zero);

	if (!ended)
		return;
	bpf_probe_read_kernel_str(ended->reason, sizeof(ended->reason), info->reason);
	bpf_probe_read_kernel_str(ended->message, sizeof(ended->message), info->msg);
	ended->code = info->exit_code;
	ended->kind = info->kind;
}

SEC(".struct_ops.link")
struct sched_ext_ops lowtail = {
	.select_cpu = (void *)lowtail_select_cpu,
	.enqueue = (void *)lowtail_enqueue,
	.dispatch = (void *)lowtail_dispatch,
	.runnable = (void *)lowtail_runnable,
	.running = (void *)lowtail_running,
	.stopping = (void *)lowtail_stopping,
	.quiescent = (void *)lowtail_quiescent,
	.yield = (void *)lowtail_yield,
	.cpu_release = (void *)lowtail_cpu_release,
	.init_task = (void *)lowtail_init_task,
	.enable = (void *)lowtail_enable,
	.disable = (void *)lowtail_disable,
	.cgroup_init = (void *)lowtail_cgroup_init,
	.cgroup_exit = (void *)lowtail_cgroup_exit,
	.cgroup_set_weight = (void *)lowtail_cgroup_set_weight,
	.cgroup_set_bandwidth = (void *)lowtail_cgroup_set_bandwidth,
	.cpu_online = (void *)lowtail_cpu_online,
	.cpu_offline = (void *)lowtail_cpu_offline,
	.init = (void *)lowtail_init,
	.exit = (void *)lowtail_exit,
	.flags = SCX_OPS_SWITCH_PARTIAL | SCX_OPS_ENQ_LAST | SCX_OPS_ENQ_MIGRATION_DISABLED,
	.timeout_ms = 30000,
	.name = "lowtail",
};
