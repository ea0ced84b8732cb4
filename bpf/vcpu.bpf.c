// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Small first for the threads of VMs, as a scheduler of the kernel's class sched_ext (partial mode: other threads
 * stay where they are, and go before these). policy/vcpu.h decides; here are the queues, timers and locks around
 * it. docs/explanation/vcpu.md says what it does.
 *
 * A thread that wakes goes to an idle CPU if there is one; else it interrupts somebody, if the rule lets it, on the
 * CPU where it ran last or on another; else it waits, and a timer is set for the moment when the rule does. What
 * decides at the end of a turn is the order of those who wait.
 */
#include "vcpu_group.h"
#include "vcpu_turn.h"
#include "vcpu_wake.h"

/* The functions of the kernel that a scheduler calls are for GPL-compatible programs. */
char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* CLOCK_MONOTONIC of include/uapi/linux/time.h */
#define MONOTONIC 1

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

/* Threads that a VM's thread starts are of the VM. */
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
		static char format[] = "thread %llu is of VM %llu, and there is none";
		unsigned long long data[] = { p->pid, member->vm };

		scx_bpf_error_bstr(format, data, sizeof(data));
		return;
	}
	/* No VM has more than half of what the others leave: one with many threads leaves numbers to all others. */
	if (vm->threads >= free_left || bpf_map_pop_elem(&free_slots, &slot))
		return;
	v = vcpu_of(slot);
	if (!v)
		return;
	__sync_fetch_and_add(&free_left, -1);
	__sync_fetch_and_add(&vm->threads, 1);
	if (!vm->lead)
		vm->lead = slot + 1;
	refresh(member->vm, now);
	__builtin_memset(v, 0, sizeof(*v));
	v->vm = member->vm;
	v->fresh = 1;
	lt_vcpu_init(&v->rule, PARAMS, now);
	v->mask = find_mask(p);
	member->slot = slot + 1;
}

/* A thread's affinity is another one: it is in no queue meanwhile. */
SEC("struct_ops/lowtail_set_cpumask")
void BPF_PROG(lowtail_set_cpumask, struct task_struct *p, const struct cpumask *cpumask)
{
	struct vcpu *v = vcpu_of(slot_of(p));
	__u32 old;

	if (!v)
		return;
	old = v->mask;
	v->mask = find_mask(p);
	release_mask(old);
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
	if (v)
		release_mask(v->mask);
	if (vm) {
		__sync_fetch_and_add(&vm->threads, -1);
		if (vm->lead == slot + 1)
			vm->lead = 0;
	}
	bpf_map_push_elem(&free_slots, &slot, 0);
	__sync_fetch_and_add(&free_left, 1);
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
	free_left = settings.threads;
	bpf_loop(settings.threads, begin_slot, 0, 0);
	bpf_loop(settings.cpus, begin_cpu, &failed, 0);
	if (!failed)
		bpf_loop(settings.masks, begin_mask, &failed, 0);
	begin_first_mask();
	if (!failed)
		failed = scx_bpf_create_dsq(PARKED, -1);
	if (!failed)
		failed = scx_bpf_create_dsq(UNREGISTERED, -1);
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
	.set_cpumask = (void *)lowtail_set_cpumask,
	.cpu_release = (void *)lowtail_cpu_release,
	.init_task = (void *)lowtail_init_task,
	.enable = (void *)lowtail_enable,
	.disable = (void *)lowtail_disable,
	.cgroup_init = (void *)lowtail_cgroup_init,
	.cgroup_exit = (void *)lowtail_cgroup_exit,
	.cgroup_move = (void *)lowtail_cgroup_move,
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
