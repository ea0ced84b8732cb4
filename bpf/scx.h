/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a scheduler in BPF has of the kernel: structures by the names of their fields (the loader finds where these
 * stand), functions by name, and values of enum scx_*. All are those of Linux 6.18, as its own type information
 * (/sys/kernel/btf/vmlinux) tells them; Documentation/scheduler/sched-ext.rst says what they are for.
 */
#ifndef LOWTAIL_SCX_H
#define LOWTAIL_SCX_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#ifndef ENOENT
#define ENOENT 2
#endif


#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct cpumask {
	unsigned long bits[1];
};

struct sched_ext_entity {
	__u32 flags;
	__u64 slice;
	__u64 dsq_vtime;
};

struct task_struct {
	unsigned int flags;
	int nr_cpus_allowed;
	const struct cpumask *cpus_ptr;
	struct cpumask cpus_mask;
	unsigned short migration_disabled;
	struct sched_ext_entity scx;
	int pid;
};

struct scx_rq {
	unsigned int nr_running;
};

struct rq {
	unsigned int nr_running;
	struct scx_rq scx;
};

struct kernfs_node {
	__u64 id;
};

struct cgroup;

struct cgroup_subsys_state {
	struct cgroup *cgroup;
	struct cgroup_subsys_state *parent;
};

struct cgroup {
	struct cgroup_subsys_state self;
	struct kernfs_node *kn;
};

struct scx_init_task_args {
	_Bool fork;
};

struct scx_cgroup_init_args {
	__u32 weight;
	__u64 bw_period_us;
	__u64 bw_quota_us;
	__u64 bw_burst_us;
};

enum scx_exit_kind {
	SCX_EXIT_NONE,
};

struct scx_cpu_release_args;

struct scx_exit_info {
	enum scx_exit_kind kind;
	__s64 exit_code;
	const char *reason;
	char *msg;
};

#pragma clang attribute pop

/* Callbacks, found by name: those that are not here are the kernel's own. */
struct sched_ext_ops {
	__s32 (*select_cpu)(struct task_struct *p, __s32 prev_cpu, __u64 wake_flags);
	void (*enqueue)(struct task_struct *p, __u64 enq_flags);
	void (*dispatch)(__s32 cpu, struct task_struct *prev);
	void (*runnable)(struct task_struct *p, __u64 enq_flags);
	void (*running)(struct task_struct *p);
	void (*stopping)(struct task_struct *p, _Bool runnable);
	void (*quiescent)(struct task_struct *p, __u64 deq_flags);
	_Bool (*yield)(struct task_struct *from, struct task_struct *to);
	void (*set_cpumask)(struct task_struct *p, const struct cpumask *cpumask);
	void (*cpu_release)(__s32 cpu, struct scx_cpu_release_args *args);
	__s32 (*init_task)(struct task_struct *p, struct scx_init_task_args *args);
	void (*enable)(struct task_struct *p);
	void (*disable)(struct task_struct *p);
	__s32 (*cgroup_init)(struct cgroup *cgrp, struct scx_cgroup_init_args *args);
	void (*cgroup_exit)(struct cgroup *cgrp);
	void (*cgroup_move)(struct task_struct *p, struct cgroup *from, struct cgroup *to);
	void (*cgroup_set_weight)(struct cgroup *cgrp, __u32 weight);
	void (*cgroup_set_bandwidth)(struct cgroup *cgrp, __u64 period_us, __u64 quota_us,
				     __u64 burst_us);
	void (*cpu_online)(__s32 cpu);
	void (*cpu_offline)(__s32 cpu);
	__s32 (*init)(void);
	void (*exit)(struct scx_exit_info *info);
	__u64 flags;
	__u32 timeout_ms;
	__u32 exit_dump_len;
	char name[128];
};

/* enum scx_ops_flags */
#define SCX_OPS_ENQ_LAST (1ull << 1)
#define SCX_OPS_SWITCH_PARTIAL (1ull << 3)
#define SCX_OPS_ENQ_MIGRATION_DISABLED (1ull << 4)
/* enum scx_dsq_id_flags */
#define SCX_DSQ_LOCAL ((1ull << 63) | 2)
#define SCX_DSQ_LOCAL_ON ((3ull << 62))
/* enum scx_enq_flags, scx_deq_flags, scx_wake_flags, scx_kick_flags, scx_ent_flags */
#define SCX_ENQ_WAKEUP 1ull
#define SCX_ENQ_PREEMPT (1ull << 32)
#define SCX_ENQ_LAST (1ull << 41)
#define SCX_DEQ_SLEEP 1ull
#define SCX_WAKE_TTWU 8ull
#define SCX_KICK_IDLE 1ull
#define SCX_KICK_PREEMPT 2ull
#define SCX_TASK_QUEUED 1u

/* Each CPU's run queue. */
extern const struct rq runqueues __ksym __weak;

/* A pointer that the kernel vouches for. */
#ifndef __arg_trusted
#define __arg_trusted __attribute__((btf_decl_tag("arg:trusted")))
#endif

/* The loop over a queue; its size is that of struct bpf_iter_scx_dsq. */
struct bpf_iter_scx_dsq {
	__u64 opaque[6];
} __attribute__((aligned(8)));

extern int bpf_iter_scx_dsq_new(struct bpf_iter_scx_dsq *it, __u64 dsq, __u64 flags) __ksym;
extern struct task_struct *bpf_iter_scx_dsq_next(struct bpf_iter_scx_dsq *it) __ksym;
extern void bpf_iter_scx_dsq_destroy(struct bpf_iter_scx_dsq *it) __ksym;

extern __s32 scx_bpf_create_dsq(__u64 dsq, __s32 node) __ksym;
extern void scx_bpf_dsq_insert(struct task_struct *p, __u64 dsq, __u64 slice, __u64 flags) __ksym;
extern void scx_bpf_dsq_insert_vtime(struct task_struct *p, __u64 dsq, __u64 slice, __u64 vtime,
				     __u64 flags) __ksym;
extern _Bool scx_bpf_dsq_move(struct bpf_iter_scx_dsq *it, struct task_struct *p, __u64 dsq,
			      __u64 flags) __ksym;
extern _Bool scx_bpf_dsq_move_vtime(struct bpf_iter_scx_dsq *it, struct task_struct *p, __u64 dsq,
				    __u64 flags) __ksym;
extern void scx_bpf_dsq_move_set_vtime(struct bpf_iter_scx_dsq *it, __u64 vtime) __ksym;
extern void scx_bpf_dsq_move_set_slice(struct bpf_iter_scx_dsq *it, __u64 slice) __ksym;
extern __s32 scx_bpf_dsq_nr_queued(__u64 dsq) __ksym;
extern void scx_bpf_kick_cpu(__s32 cpu, __u64 flags) __ksym;
extern __s32 scx_bpf_task_cpu(const struct task_struct *p) __ksym;
extern _Bool scx_bpf_test_and_clear_cpu_idle(__s32 cpu) __ksym;
extern __s32 scx_bpf_pick_idle_cpu(const struct cpumask *allowed, __u64 flags) __ksym;
extern __s32 scx_bpf_select_cpu_dfl(struct task_struct *p, __s32 prev_cpu, __u64 wake_flags,
				    _Bool *is_idle) __ksym;
extern _Bool scx_bpf_dsq_move_to_local(__u64 dsq) __ksym;
extern __u32 scx_bpf_reenqueue_local(void) __ksym;
extern void scx_bpf_error_bstr(char *format, unsigned long long *data, __u32 size) __ksym;
extern _Bool bpf_cpumask_test_cpu(__u32 cpu, const struct cpumask *mask) __ksym;

#endif
