// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Records the schedule of a host: who makes place for whom on which CPU, and who is woken.
 *
 * Each CPU has a ring of its own, written by that CPU alone, over and over. Nothing is locked, nobody is woken: a
 * reader comes when it likes, copies what it needs, and sees by the counts of the rings what was overwritten before
 * or while it did so. All three tracepoints are told with interrupts off, so that writes to a ring do not nest.
 *
 * An event is 16 bytes. Whole numbers up to 2^22 hold a thread's number (PID_MAX_LIMIT, include/linux/threads.h):
 *
 *   u64  time in ns, CLOCK_MONOTONIC
 *   u32  bits 0-21 thread; 22-23 kind; 24-27 why it has left its CPU; 28-31 how often the ring has gone round
 *   u32  bits 0-21 the other thread; 22-31 the CPU in whose queue it was woken (1023: above that)
 */
#include <stdbool.h>
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define TID_MASK	((1u << 22) - 1)
#define KIND_SHIFT	22
#define LEFT_SHIFT	24
#define LAP_SHIFT	28
#define QUEUE_SHIFT	22
#define QUEUE_MAX	1023u

/* Events of a page, the unit in which a reader copies. */
#define PAGE_EVENTS	256u

enum kind {
	SWITCH = 0,
	WAKE = 1,
	WAKE_NEW = 2,
};

enum left {
	RUNNABLE = 0,
	SLEEPING = 1,
	UNINTERRUPTIBLE = 2,
	STOPPED = 3,
	DEAD = 4,
	OTHERWISE = 5,
	PREEMPTED = 6,
};

/* include/linux/sched.h */
#define TASK_INTERRUPTIBLE	0x001
#define TASK_UNINTERRUPTIBLE	0x002
#define TASK_STOPPED_OR_TRACED	0x00c
#define TASK_DEAD_OR_EXIT	0x0b0
#define TASK_NOLOAD		0x400

struct thread_info {
	__u32 cpu;
} __attribute__((preserve_access_index));

/* Which of the two has the CPU depends on version and architecture. */
struct task_struct {
	struct thread_info thread_info;
	unsigned int cpu;
	int pid;
	int tgid;
	char comm[16];
} __attribute__((preserve_access_index));

/* Set before loading. */
const volatile struct settings {
	__u32 page_shift;	/* logarithm of the pages of each ring */
	__u32 pad;
	__u64 threshold_ns;	/* 0: no wait is too long */
} settings = {};

struct event {
	__u64 at_ns;
	__u32 first;
	__u32 second;
};

struct page {
	struct event events[PAGE_EVENTS];
};

struct ring {
	__u64 written;	/* events since the beginning */
};

/* A wait that was too long. */
struct late {
	__u64 at_ns;
	__u64 delay_ns;
	__u32 tid;
	__u32 cpu;
};

/* What a thread is called from now on. */
struct name {
	__u32 tid;
	__u32 tgid;
	char comm[16];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct page);
} ring_pages SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct ring);
} rings SEC(".maps");

/* Threads whose waits count, and since when each waits; 0 if it does not. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, __u32);
	__type(value, __u64);
} waiting SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} lates SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} names SEC(".maps");

/* What found no room. */
struct {
	__u64 names;
	__u64 lates;
} lost = {};

static __always_inline void note(__u64 now, __u32 first, __u32 second)
{
	__u32 zero = 0, at, key, shift = settings.page_shift;
	struct ring *ring = bpf_map_lookup_elem(&rings, &zero);
	struct page *page;
	struct event *event;
	__u64 index;

	if (!ring)
		return;
	index = ring->written;
	at = index & (PAGE_EVENTS - 1);
	key = (bpf_get_smp_processor_id() << shift) | ((index / PAGE_EVENTS) & ((1u << shift) - 1));
	page = bpf_map_lookup_elem(&ring_pages, &key);
	if (!page)
		return;
	event = &page->events[at];
	event->at_ns = now;
	event->second = second;
	event->first = first | (__u32)((index / PAGE_EVENTS) >> shift) << LAP_SHIFT;
	/* The event stands before it counts. */
	barrier();
	ring->written = index + 1;
}

/* A thread that is told not to sleep while it runs is not kept waiting: leaving its CPU settles that. */
static __always_inline void is_woken(__u32 tid, __u64 now)
{
	__u64 *since = bpf_map_lookup_elem(&waiting, &tid);

	if (since && !*since)
		*since = now;
}

static __always_inline void leaves(__u32 tid, bool waits, __u64 now)
{
	__u64 *since = bpf_map_lookup_elem(&waiting, &tid);

	if (since)
		*since = waits ? now : 0;
}

static __always_inline void begins_to_run(__u32 tid, __u64 now)
{
	__u64 *since = bpf_map_lookup_elem(&waiting, &tid);
	struct late late = {};

	if (!since || !*since)
		return;
	late.delay_ns = now - *since;
	*since = 0;
	if (late.delay_ns <= settings.threshold_ns)
		return;
	late.at_ns = now;
	late.tid = tid;
	late.cpu = bpf_get_smp_processor_id();
	if (bpf_ringbuf_output(&lates, &late, sizeof(late), BPF_RB_FORCE_WAKEUP))
		__sync_fetch_and_add(&lost.lates, 1);
}

static __always_inline __u32 left(bool preempt, unsigned int state)
{
	if (preempt)
		return PREEMPTED;
	if (!state)
		return RUNNABLE;
	if (state & TASK_DEAD_OR_EXIT)
		return DEAD;
	if (state & TASK_STOPPED_OR_TRACED)
		return STOPPED;
	if (state & TASK_INTERRUPTIBLE)
		return SLEEPING;
	if ((state & TASK_UNINTERRUPTIBLE) && !(state & TASK_NOLOAD))
		return UNINTERRUPTIBLE;
	return OTHERWISE;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempt, struct task_struct *prev, struct task_struct *next,
	     unsigned int prev_state)
{
	__u64 now = bpf_ktime_get_ns();
	__u32 out = prev->pid, in = next->pid, why = left(preempt, prev_state);

	note(now, (out & TID_MASK) | SWITCH << KIND_SHIFT | why << LEFT_SHIFT, in & TID_MASK);
	if (settings.threshold_ns) {
		leaves(out, why == RUNNABLE || why == PREEMPTED, now);
		begins_to_run(in, now);
	}
	return 0;
}

static __always_inline void woken(struct task_struct *task, enum kind kind)
{
	__u64 now = bpf_ktime_get_ns();
	__u32 tid = task->pid, by = bpf_get_current_pid_tgid(), queue;

	queue = bpf_core_field_exists(task->cpu) ? task->cpu : task->thread_info.cpu;
	if (queue > QUEUE_MAX)
		queue = QUEUE_MAX;
	note(now, (tid & TID_MASK) | kind << KIND_SHIFT, (by & TID_MASK) | queue << QUEUE_SHIFT);
	if (settings.threshold_ns)
		is_woken(tid, now);
}

SEC("tp_btf/sched_wakeup")
int BPF_PROG(on_wake, struct task_struct *task)
{
	woken(task, WAKE);
	return 0;
}

SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(on_wake_new, struct task_struct *task)
{
	woken(task, WAKE_NEW);
	return 0;
}

static __always_inline void name(struct task_struct *task, const char *comm)
{
	struct name *name = bpf_ringbuf_reserve(&names, sizeof(*name), 0);

	if (!name) {
		__sync_fetch_and_add(&lost.names, 1);
		return;
	}
	name->tid = task->pid;
	name->tgid = task->tgid;
	bpf_probe_read_kernel_str(name->comm, sizeof(name->comm), comm);
	/* Nobody is in a hurry to know. */
	bpf_ringbuf_submit(name, BPF_RB_NO_WAKEUP);
}

SEC("tp_btf/task_newtask")
int BPF_PROG(on_new, struct task_struct *task)
{
	name(task, task->comm);
	return 0;
}

SEC("tp_btf/task_rename")
int BPF_PROG(on_rename, struct task_struct *task, const char *comm)
{
	name(task, comm);
	return 0;
}
