/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What vcpu.bpf.c keeps: VMs, their threads, CPUs, groups. crates/control/src/vcpu/ writes the orders and the
 * members and reads the VMs.
 *
 * Who may write what: a VM and its threads belong to the VM's lock; a CPU's own fields to that CPU's run queue
 * lock, which the kernel holds wherever they are written. Order and preemption look at other VMs without their
 * lock, and a CPU's bucket of preemptions is taken from under the lock of the one who takes: what a race changes there
 * is one comparison, or one token.
 */
#ifndef LOWTAIL_VCPU_STATE_H
#define LOWTAIL_VCPU_STATE_H

#include "hist.h"
#include "vcpu.h"

/* Sizes; the loader sets others. */
#define VMS 256		/* VMs; number 0 is that of threads which nobody has told of */
#define THREADS 4096	/* threads in this scheduler */
#define CPUS 1024
#define GROUPS 16384	/* control groups of the host */
#define MASKS 1024	/* distinct affinity masks */
#define MASK_WORDS (MASKS / 64)

/*
 * So many groups above a VM are looked at. machine.slice, a VM's scope and what libvirt makes below are 3,
 * a container in a pod 5.
 */
#define LEVELS 8

/* Nobody. */
#define NONE (~0u)

/* What user space wants of a VM. */
struct vm_order {
	__u64 group;		/* the VM's control group, 0: none */
	__u32 used;
	__u32 weight;		/* 0: that of the group */
	__u32 cap_rate;		/* 0: none, beside that of the group */
	__u32 cap_burst_ns;
	__u32 vcpus;
	__u32 pad;
};

/* To which VM a thread belongs; kept with the thread. */
struct member {
	__u64 group;		/* the thread's own control group, 0: none */
	__u32 vm;
	__u32 cap_rate;		/* its own limit, beside that of its group */
	__u32 cap_burst_ns;
	__u32 slot;		/* the kernel's side: number plus one, 0: none */
};

/* What a control group says; the kernel's callbacks write it. */
struct group {
	struct bpf_spin_lock lock;	/* of its limit */
	__u32 weight;		/* cpu.weight */
	__u32 sharing;		/* the sharing out in which it took part last */
	__u32 pad;
	struct lt_cap cap;	/* its limit, for VMs in groups below it */
	__u64 parent;		/* the group above it, 0: none */
	__u64 weights;		/* of those right below it that take part */
	__u64 period_us;
	__u64 quota_us;		/* above RUN_TIME_MAX_US: none */
	__u64 burst_us;
};

/* A quota of more than a day is none; the kernel says "none" by its largest number. */
#define RUN_TIME_MAX_US (1ull << 37)

/* A limit as the rule has it. */
struct rate {
	__u32 rate;
	__u32 burst_ns;
};

/* What came of it, for user space. */
struct vm_figures {
	__u64 small_ns;		/* run time as small ones */
	__u64 large_ns;
	__u64 preemptions;	/* that it paid for, each when the thread began to run */
	__u64 demotions;	/* small ones that became large */
	__u64 parked;		/* times that one had to wait for a limit */
	__u64 ordinary_wait_ns;	/* that its threads waited while another class had their CPU */
};

struct vm {
	struct bpf_spin_lock lock;
	__u32 ready;
	struct lt_vm rule;
	/* The demand, as in the simulator's share.rs. */
	__u64 measured_ns;	/* up to when */
	__u64 wanted_ns;	/* in this period */
	__u32 demand;		/* moving average, a rate */
	__u32 most;		/* rate that it can use */
	/* Where it is, and what its groups say. */
	__u64 ordered;		/* its group as user space has it */
	__u64 group;		/* its group now */
	__u32 changes;		/* the state of all groups at which these were looked at: */
	__u32 group_weight;	/* a weight of the rule */
	struct rate above;	/* the strictest limit of its group and those above */
	struct rate within;	/* that of its group */
	__u64 pool;		/* the first group above its own that has a limit, 0: none */
	__u32 lead;		/* its first thread, with which it moves: number plus one, 0: none */
	__u32 threads;		/* in this scheduler */
	__u32 sibling_weight;	/* weight beside its siblings */
	__u32 effective_weight;	/* weight beside all VMs */
	/* What it was made of. */
	__u32 weight;
	__u32 vcpus;
	struct rate limit;
	__u32 weights;		/* of all VMs */
	__u32 turns;		/* threads that share what is its, for how long one may wait */
	struct vm_figures figures;
};

struct vcpu {
	struct lt_vcpu rule;
	__u32 vm;
	__u32 limits;		/* the state of all groups at which its own limit was looked at */
	__u32 waiting;		/* it is in a queue, and no CPU has taken it: who makes that 0 has */
	__u32 mask;		/* number of the set of CPUs that it may run on; 0: it has none */
	struct rate limit;	/* its own */
	__u64 since_ns;		/* runs, settled up to here; 0: does not run */
	__u64 waits_ns;		/* since when it waits, limits or not: since it ran last, or wanted to run */
	__u64 stretch_ns;	/* what it was given; 0: nothing */
	__u64 parked_ns;	/* until when a limit stops it; 0: none does */
	__u64 pool;		/* the group that has given it, and those above, 0: none */
	__u64 pool_grant_ns;	/* what it holds of their limits */
	__u64 others_ns;	/* what others had had of its CPU when it began to wait, or was looked at */
	__u32 waits_on;		/* the CPU on which it was when it began to wait */
	__u32 pad32;
	__u8 woken;		/* the rule knows of this wake-up */
	__u8 idle;		/* it was promised an idle CPU */
	__u8 fresh;		/* it has never been runnable here */
	__u8 pays;		/* it is to interrupt somebody, and pays when it begins to run */
	__u8 pad[4];
};

struct cpu {
	struct bpf_timer timer;
	struct lt_pcpu rule;
	__u64 vtime_ns;		/* of those who run here */
	__u64 until_ns;		/* end of the turn */
	__u64 stretch_ns;	/* end of what the running one was given */
	__u64 armed_ns;		/* when the timer comes */
	__u64 left_ns;		/* when who ran before left, if somebody follows */
	__u64 dispatch_ns;	/* when the kernel asked who comes after who runs, 0: it has not */
	__u64 foreign_ns;	/* when a thread without a number ran last */
	__u64 taken_ns;		/* since when another class has it while we want it; 0: none has */
	__u64 others_ns;	/* for how long that was, in all */
	__u32 current;		/* who runs: its number, or NONE */
	__u8 yielded;
	__u8 claimed;		/* somebody who waits may interrupt who runs */
	__u8 order_checked;	/* whoever begins to run was compared with those who wait */
	__u8 gone;		/* it is offline, or about to be */
	__u8 empty;		/* nobody follows who leaves */
	__u8 releases;		/* another class takes it */
	__u8 limited;		/* who runs has a limit: its stretch ends though nobody waits */
	__u8 foreign;		/* who runs has no number */
	__u8 pad[4];
	__u64 woken_for;	/* who waits in a queue for this CPU, which slept: as NEXT() has it, 0: nobody */
	__u64 masks[MASK_WORDS];	/* that this CPU is in, a bit for each */
};

/* A set of CPUs. */
struct cpu_bits {
	__u64 bits[CPUS / 64];
};

/* An affinity mask that threads have. */
struct mask {
	struct cpu_bits cpus;
	__u32 threads;
	__u32 pad;
};

/* A timer of which there is one. */
struct alarm {
	struct bpf_timer timer;
	__u64 armed_ns;		/* when it comes */
};

enum { ACCOUNT, UNPARK, ALARMS };

/* How it ended; enum scx_exit_kind, 0: it has not. */
struct ended {
	__u32 kind;
	__u32 pad;
	__s64 code;
	char reason[128];
	char message[1024];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, VMS);
	__type(key, __u32);
	__type(value, struct vm_order);
} orders SEC(".maps");

/*
 * VMs below this number have been told of: the others need not be looked at. The loader alone writes it, before a
 * thread is of such a VM, so that no two writers meet; the kernel refuses a program that would.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_RDONLY_PROG);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} known SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct member);
} members SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, GROUPS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u64);
	__type(value, struct group);
} groups SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, VMS);
	__type(key, __u32);
	__type(value, struct vm);
} vms SEC(".maps");

/* From runnable to running, by VM. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, VMS);
	__type(key, __u32);
	__type(value, struct lt_hist);
} waits SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, THREADS);
	__type(key, __u32);
	__type(value, struct vcpu);
} vcpus SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, THREADS);
	__type(value, __u32);
} free_slots SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, CPUS);
	__type(key, __u32);
	__type(value, struct cpu);
} cpus SEC(".maps");

/* For each queue: until when nobody in it has waited too long. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2 * (CPUS + MASKS));
	__type(key, __u32);
	__type(value, __u64);
} late_from SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MASKS);
	__type(key, __u32);
	__type(value, struct mask);
} masks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MASKS);
	__type(key, struct cpu_bits);
	__type(value, __u32);
} mask_numbers SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_STACK);	/* the lowest first */
	__uint(max_entries, MASKS);
	__type(value, __u32);
} free_masks SEC(".maps");

/* The mask that is looked for: too large for the stack. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct cpu_bits);
} wanted_mask SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, ALARMS);
	__type(key, __u32);
	__type(value, struct alarm);
} alarms SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct ended);
} endings SEC(".maps");

/* The loader's; crates/control/src/vcpu/kernel.rs writes it. */
struct settings {
	struct lt_params params;
	__u32 vms;
	__u32 threads;
	__u32 cpus;	/* that there can be */
	__u32 online;	/* that there are at the beginning */
	__u32 masks;
	__u32 watchdog_ms;	/* after which the kernel ends a scheduler that leaves a thread waiting */
};

const volatile struct settings settings SEC(".rodata.settings") = {
	.params = LT_PARAMS_DEFAULT,
	.vms = VMS,
	.threads = THREADS,
	.cpus = 1,
	.online = 1,
	.masks = MASKS,
	.watchdog_ms = 30000,
};

/*
 * How the time up to the watchdog is spent, at worst: limits stop a thread again and again for a sixth, whatever it owes;
 * a quarter goes by until it has waited too long, a thirtieth until that is seen, a sixth until all others that have waited
 * as long have had a turn. That leaves a third.
 */
#define WATCHDOG_NS (1000000ull * settings.watchdog_ms)
#define STOPPED_MAX_NS (WATCHDOG_NS / 6)
#define WAIT_MAX_NS (WATCHDOG_NS / 4)
#define RESCUE_NS (WATCHDOG_NS / 30)
#define ROUND_NS (WATCHDOG_NS / 6)

/* Sum of the weights of all VMs that are there, as of the last pass. */
__u64 all_weights = LT_WEIGHT_USUAL;
/* Threads that wanted to run at the last pass. */
__u32 crowd;
/* Numbers that no thread has. */
__u32 free_left;
/* CPUs that are there. */
__u32 online;
/* Counts changes of what groups say. */
__u32 group_changes = 1;

#define PARAMS ((const struct lt_params *)&settings.params)

static __always_inline __u32 known_vms(void)
{
	__u32 zero = 0, *vms = bpf_map_lookup_elem(&known, &zero);

	return vms ? *vms : 0;
}

static __always_inline struct vm *vm_of(__u32 vm)
{
	return bpf_map_lookup_elem(&vms, &vm);
}

static __always_inline struct group *group_of(__u64 id)
{
	return id ? bpf_map_lookup_elem(&groups, &id) : 0;
}

static __always_inline struct vcpu *vcpu_of(__u32 slot)
{
	return bpf_map_lookup_elem(&vcpus, &slot);
}

static __always_inline struct cpu *cpu_of(__u32 cpu)
{
	return bpf_map_lookup_elem(&cpus, &cpu);
}

static __always_inline struct alarm *alarm_of(__u32 alarm)
{
	return bpf_map_lookup_elem(&alarms, &alarm);
}

/* The number of a thread's state, or NONE. */
static __always_inline __u32 slot_of(struct task_struct *p)
{
	struct member *member = bpf_task_storage_get(&members, p, 0, 0);

	return member ? member->slot - 1 : NONE;
}

#endif
