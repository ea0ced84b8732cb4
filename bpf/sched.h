/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What is read of the kernel's own structures, by name: the loader finds where it stands in the kernel that runs.
 */
#ifndef LOWTAIL_SCHED_H
#define LOWTAIL_SCHED_H

#include <bpf/bpf_core_read.h>

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct timerqueue_node {
	__s64 expires;
};

struct hrtimer {
	struct timerqueue_node node;
};

struct cfs_bandwidth {
	__s64 period;
	__u64 quota;
	struct hrtimer period_timer;
};

struct cfs_rq;

struct task_group {
	struct cfs_rq **cfs_rq;	/* one for each CPU */
	struct task_group *parent;
	struct cfs_bandwidth cfs_bandwidth;
};

struct cfs_rq {
	int throttle_count;
	struct task_group *tg;
};

struct sched_entity {
	__u64 sum_exec_runtime;
	struct cfs_rq *cfs_rq;
};

/* atomic_t */
struct counter {
	int counter;
};

/* arch_spinlock_t of x86 and arm64 */
struct qspinlock {
	struct counter val;
};

struct raw_spinlock {
	struct qspinlock raw_lock;
};

struct thread_info {
	__u32 cpu;
};

struct task_struct {
	struct thread_info thread_info;
	unsigned int __state;
	unsigned int flags;
	/* These two are int in the kernel, and bytes in 7.3: the loader cuts what has no sign to what is there. */
	unsigned int on_cpu;
	unsigned int on_rq;
	int prio;
	int pid;
	int tgid;
	char comm[16];
	struct sched_entity se;
	struct raw_spinlock pi_lock;
	_Bool throttled;
};

/* Before 5.14. */
struct task_struct___state {
	volatile long state;
};

/* Before 5.16, on x86. */
struct task_struct___cpu {
	unsigned int cpu;
};

#pragma clang attribute pop

/* include/linux/sched.h */
#define PF_KTHREAD 0x00200000
/* include/linux/sched/prio.h: what is below is real-time, and under no quota of this kind */
#define MAX_RT_PRIO 100
/* kernel/sched/sched.h: a group without a quota */
#define RUNTIME_INF (~0ull)

/*
 * Whether a thread that leaves its CPU is about to sleep. A wake-up that comes at that very moment does not
 * change the answer: try_to_wake_up() writes TASK_WAKING, which is no more 0 than the state before.
 */
static __always_inline _Bool sleeps(struct task_struct *p)
{
	if (bpf_core_field_exists(p->__state))
		return p->__state != 0;
	return ((struct task_struct___state *)p)->state != 0;
}

static __always_inline __u32 cpu_of(struct task_struct *p)
{
	if (bpf_core_field_exists(p->thread_info.cpu))
		return p->thread_info.cpu;
	return ((struct task_struct___cpu *)p)->cpu;
}

/*
 * Whether a thread that could run is not let, because its group or one above has used its quota on this CPU.
 * Since 6.18 (commit e1fad12dcb66) it is the thread that is taken off its queue, on its way back to user space,
 * and it knows; before, it is the group, and all in it wait.
 */
static __always_inline _Bool held_up(__u64 task)
{
	struct task_struct *p = (void *)task;

	if (bpf_core_field_exists(p->throttled))
		return BPF_CORE_READ(p, throttled);
	if (bpf_core_field_exists(((struct cfs_rq *)0)->throttle_count))
		return BPF_CORE_READ(p, prio) >= MAX_RT_PRIO &&
		       BPF_CORE_READ(p, se.cfs_rq, throttle_count) > 0;
	return 0;
}

/* Whether somebody is waking a thread: who does has its lock, and few others ever have. */
static __always_inline _Bool is_woken(struct task_struct *p)
{
	return bpf_core_field_exists(p->pi_lock.raw_lock.val.counter) &&
	       p->pi_lock.raw_lock.val.counter;
}

/* The same as held_up(), of a thread that the kernel tells of. */
static __always_inline _Bool begins_held_up(struct task_struct *p)
{
	if (bpf_core_field_exists(p->throttled))
		return p->throttled;
	return held_up((__u64)p);
}

/* The same, on the CPU that the thread is about to be given. */
static __always_inline _Bool begins_held_up_on(struct task_struct *p, __u32 cpu)
{
	struct cfs_rq **each, *cfs_rq = 0;

	if (bpf_core_field_exists(p->throttled))
		return p->throttled;
	if (!bpf_core_field_exists(((struct cfs_rq *)0)->throttle_count) || p->prio < MAX_RT_PRIO)
		return 0;
	each = BPF_CORE_READ(p, se.cfs_rq, tg, cfs_rq);
	if (bpf_probe_read_kernel(&cfs_rq, sizeof(cfs_rq), each + cpu))
		return 0;
	return BPF_CORE_READ(cfs_rq, throttle_count) > 0;
}

/*
 * When a thread was let run again that was held up at @from and is not at @to: the last beginning of a period
 * of its group's, or of one above, in between; @to if there is none. (Four groups deep are libvirt's.)
 */
static __always_inline __u64 let_again(__u64 task, __u64 from, __u64 to)
{
	struct task_struct *p = (void *)task;
	struct task_group *tg;
	__u64 begin, last = 0;
	int depth;

	if (!bpf_core_field_exists(((struct task_group *)0)->cfs_bandwidth))
		return to;
	tg = BPF_CORE_READ(p, se.cfs_rq, tg);
	for (depth = 0; depth < 6 && tg; depth++) {
		if (BPF_CORE_READ(tg, cfs_bandwidth.quota) != RUNTIME_INF) {
			begin = BPF_CORE_READ(tg, cfs_bandwidth.period_timer.node.expires) -
				BPF_CORE_READ(tg, cfs_bandwidth.period);
			if (begin > from && begin < to && begin > last)
				last = begin;
		}
		tg = BPF_CORE_READ(tg, parent);
	}
	return last ? last : to;
}

#endif
