/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What observe.bpf.c keeps, and how much of it: all maps are as large as they ever get when they are made.
 * crates/observe/src/kernel.rs and slot.rs read them.
 */
#ifndef LOWTAIL_OBSERVE_H
#define LOWTAIL_OBSERVE_H

#include "hist.h"

/* Sizes. The loader may set other ones for those with a star. */
#define THREADS 4096	/* * threads looked at */
#define CPUS 1024	/* * */
#define PAIRS 16384	/* * of a thread that waited and a process that ran, in one interval */
#define TIDS (1u << 22)	/* * thread numbers: PID_MAX_LIMIT of include/linux/threads.h */
#define WAITERS 8	/* that are followed on one CPU at a time */

enum state {
	FREE,		/* nobody's slot */
	UNKNOWN,	/* no event yet */
	RUNNING,
	BLOCKED,
	WOKEN,
	PREEMPTED,
	ENDED,		/* its figures are to be fetched */
};

/* Who ran, if not a process. */
#define IDLE 0u
#define QUOTA 0xffffffffu

/*
 * crates/observe/src/slot.rs reads this. A slot is copied while it is written: the sums stand before the state,
 * so that what ends meanwhile is missing in the copy, and comes with the next, rather than being in it twice.
 */
struct slot {
	__u64 woken_ns;		/* all waits that have ended, by how they began */
	__u64 preempted_ns;
	__u64 run_time_ns;		/* run time when it was last switched out */
	__u64 woken;		/* waits in its histograms */
	__u64 preempted;
	__u64 others_ns;	/* waits with nobody named */
	__u32 tid;
	__u32 tgid;
	__u32 state;
	__u32 cpu;		/* for which it waits */
	__u64 since_ns;		/* in this state */
	__u64 waking_ns;	/* when its last wake-up began */
	__u64 noted_ns;		/* until when it is known who ran */
	__u64 task;		/* while it waits: it cannot end without running */
	__u64 first_ns;		/* the kernel's count of its run time when it began to be looked at */
	char comm[16];		/* when it ended */
	__u32 held_up;		/* by a quota, at noted_ns */
	__u32 machine;		/* whose threads may have how many slots, in `machines` */
};

/* A list of waiting threads: numbers of slots, plus one. */
struct queue {
	union {
		__u32 waiters[WAITERS];
		__u64 pairs[WAITERS / 2];
	};
	__u64 runs;	/* the task that does, since the first switch that was seen */
	volatile __u64 ran;	/* the task that did before */
	__u64 pad[2];
};

struct pair {
	__u32 victim;	/* twice the number of its slot, plus the epoch */
	__u32 runner;	/* process, or IDLE or QUOTA; for kernel threads their own number */
};

/* Who ran, and for how long the other waited. */
struct ran {
	__u64 ns;
	__u32 runner;
	__u32 kind;
	char comm[16];
};

enum kind {
	NOBODY,
	PROCESS,
	KERNEL_THREAD,
};

/* Most have waited for few in one interval. */
#define FEW 4

struct few {
	struct ran ran[FEW];
};

/* What was not kept. */
struct lost {
	__u64 waits;
	__u64 blame;
	__u64 threads;
};

struct request {
	__u32 tid;
	__u32 slot;
	__u32 machine;
	__u32 pad;
};

/*
 * Slots that new threads of one VM take without being asked for: no VM takes those of all others. The first
 * one is nobody's.
 */
struct machine {
	__u32 allowed;		/* as many as it may have taken by now */
	__u32 taken;
	__u32 refused;
	__u32 pad;
};

struct allowance {
	__u32 machine;
	__u32 more;		/* slots, from now on */
	__u32 taken;		/* out: as above */
	__u32 refused;
};

/* What a thread that waits has waited for since that was last noted. */
struct pending {
	__u32 slot;
	__u32 listed;		/* out: whether it is known who runs */
	__u64 now_ns;
	__u64 quota_ns;		/* out: of that, while its quota held it up */
	struct ran ran;		/* out: and while this one ran */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);	/* so that slots begin with a cache line */
	__uint(max_entries, THREADS);
	__type(key, __u32);
	__type(value, struct slot);
} slots SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, THREADS);
	__type(key, __u32);
	__type(value, struct lt_hist);
} woken_delays SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, THREADS);
	__type(key, __u32);
	__type(value, struct lt_hist);
} preempted_delays SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, THREADS);
	__type(key, __u32);
	__type(value, struct machine);
} machines SEC(".maps");

/* Slots that are nobody's, and that new threads may have. */
struct {
	__uint(type, BPF_MAP_TYPE_STACK);
	__uint(max_entries, THREADS);
	__type(value, __u32);
} free_slots SEC(".maps");

/*
 * Which thread has which slot: the slot's number plus one, by the thread's number; 0 for all others, which so
 * cost no more than this look. Four to a value, as values have eight bytes at least.
 */
struct slot_quad {
	__u16 of[4];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, TIDS / 4);
	__type(key, __u32);
	__type(value, struct slot_quad);
} slot_of_tid SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, CPUS);
	__type(key, __u32);
	__type(value, struct queue);
} queues SEC(".maps");

/*
 * Time that threads waited while others ran. There are two epochs: in one is written, what the other has can be
 * fetched and removed, with nobody writing to it. The first few that a thread has waited for are with its slot (two
 * entries, one for each epoch), all others in a hash map.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 2 * THREADS);
	__type(key, __u32);
	__type(value, struct few);
} first_blame SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PAIRS);
	__type(key, struct pair);
	__type(value, struct ran);
} blame SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} epoch SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct lost);
} losses SEC(".maps");

#endif
