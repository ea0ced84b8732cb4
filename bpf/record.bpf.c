// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Records the schedule of a host: who makes place for whom on which CPU, and who is woken.
 *
 * Each CPU has a ring of its own, written by that CPU alone, over and over. Nothing is locked, nobody is woken: a
 * reader comes when it likes, copies what it needs, and sees by the counts of the rings what was overwritten before
 * or while it did so. All tracepoints of events are told with interrupts off, so that writes to a ring do not nest.
 *
 * An event is 16 bytes. Whole numbers up to 2^22 hold a thread's number (PID_MAX_LIMIT, include/linux/threads.h):
 *
 *   u64  time in ns, CLOCK_MONOTONIC
 *   u32  bits 0-21 thread; 22-23 kind; 24-27 why it has left its CPU, or how it was woken; 28-31 how often the
 *        ring has gone round
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

/* How a thread was woken: in which context, and whether by a thread of another CPU. */
enum context {
	NOT_KNOWN = 0,
	IN_THREAD = 1,
	IN_HARD_INTERRUPT = 2,
	IN_SOFT_INTERRUPT = 3,
	ELSEWHERE = 4,
};
#define CONTEXT_SHIFT	24

/* include/linux/sched.h */
#define TASK_INTERRUPTIBLE	0x001
#define TASK_UNINTERRUPTIBLE	0x002
#define TASK_STOPPED_OR_TRACED	0x00c
#define TASK_DEAD_OR_EXIT	0x0b0
#define TASK_NOLOAD		0x400

struct thread_info {
	__u32 cpu;
} __attribute__((preserve_access_index));

struct rq;

struct cfs_rq {
	struct rq *rq;
} __attribute__((preserve_access_index));

/* With CONFIG_FAIR_GROUP_SCHED, and of the CPU that the thread is on whatever its policy is (set_task_rq()). */
struct sched_entity {
	struct cfs_rq *cfs_rq;
} __attribute__((preserve_access_index));

/* Which of the two has the CPU depends on version and architecture. */
struct task_struct {
	struct thread_info thread_info;
	unsigned int cpu;
	struct sched_entity se;
	int pid;
	int tgid;
	int softirq_disable_cnt;
	char comm[16];
} __attribute__((preserve_access_index));

/* Set before loading. */
const volatile struct settings {
	__u32 page_shift;	/* logarithm of the pages of each ring */
	__u32 pad;
	__u64 threshold_ns;	/* 0: no wait is too long */
	__u64 count_from_rq;	/* from a CPU's run queue to what has its preempt count, in bytes; 0: not known */
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

/*
 * Who has woken a thread is known at sched_waking; that it is in a queue, at sched_wakeup. Mostly the same CPU tells both, one
 * right after the other, but a wake-up may also be handed to the CPU whose queue it is (ttwu_queue_wakelist() of
 * kernel/sched/core.c), which then tells the second. What is known goes from here to there in a word of this
 * table, at a place that the thread's number gives: neither allocates, nor takes a lock. If two threads with the same
 * place are woken at the same time, the waker of the first is not known.
 *
 *   bits 0-21 the thread; 22-43 the waker; 44-45 the context; 48-63 the waker's CPU
 *
 * Neighbouring numbers have places far from each other, since CPUs write to one cache line by turns only.
 */
#define WAKERS_SHIFT	13
#define WAKER_SHIFT	22
#define HOW_SHIFT	44
#define CPU_SHIFT	48
static __u64 wakers[1 << WAKERS_SHIFT] SEC(".bss.wakers");

static __always_inline __u64 *place(__u32 tid)
{
	/* Knuth's multiplicative hash, The Art of Computer Programming 3, 6.4. */
	__u32 at = (tid * 2654435769u) >> (32 - WAKERS_SHIFT);

	return &wakers[at & ((1 << WAKERS_SHIFT) - 1)];
}

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

/*
 * The preempt count of x86 is a variable of each CPU: by itself up to Linux 6.1 and since 6.15, in a structure in between. A
 * kernel whose list of symbols has functions only (without CONFIG_KALLSYMS_ALL) gives a program no address of such
 * a variable. But a thread that runs has the address of another one, the run queue of its CPU, and how far apart the two are is
 * in the kernel's description of its types, which the loader reads.
 */
struct pcpu_hot {
	int preempt_count;
} __attribute__((preserve_access_index));

/* include/linux/preempt.h: NMI_MASK and HARDIRQ_MASK; the softirq that is served, not one that is put off. */
#define HARD_INTERRUPT	0x00ff0000
#define SOFT_INTERRUPT	0x00000100

static __always_inline enum context context(struct task_struct *current)
{
	__u64 at;
	int count;

	if (!settings.count_from_rq || !bpf_core_field_exists(current->se.cfs_rq) ||
	    !bpf_core_field_exists(current->se.cfs_rq->rq))
		return NOT_KNOWN;
	at = (__u64)current->se.cfs_rq->rq + settings.count_from_rq;
	if (bpf_core_type_exists(struct pcpu_hot))
		at += __builtin_preserve_field_info(((struct pcpu_hot *)0)->preempt_count,
						    BPF_FIELD_BYTE_OFFSET);
	if (bpf_probe_read_kernel(&count, sizeof(count), (const void *)at))
		return NOT_KNOWN;
	if (count & HARD_INTERRUPT)
		return IN_HARD_INTERRUPT;
	/* With CONFIG_PREEMPT_RT a thread serves them, and it is the thread that knows. */
	if (bpf_core_field_exists(current->softirq_disable_cnt))
		count = current->softirq_disable_cnt;
	return count & SOFT_INTERRUPT ? IN_SOFT_INTERRUPT : IN_THREAD;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(on_waking, struct task_struct *task)
{
	struct task_struct *current = bpf_get_current_task_btf();
	__u64 tid = task->pid & TID_MASK, by = current->pid & TID_MASK;
	__u64 cpu = bpf_get_smp_processor_id() & 0xffff;

	*place(tid) = tid | by << WAKER_SHIFT | (__u64)context(current) << HOW_SHIFT | cpu << CPU_SHIFT;
	return 0;
}

static __always_inline void woken(struct task_struct *task, enum kind kind)
{
	__u64 now = bpf_ktime_get_ns();
	__u32 tid = task->pid, by, queue, how;

	if (kind == WAKE) {
		__u64 *at = place(tid & TID_MASK), waker = *at;

		if ((waker & TID_MASK) == (tid & TID_MASK)) {
			/* So that it is not taken for that of the next time, if the kernel leaves out a run of on_waking. */
			*at = 0;
			by = (waker >> WAKER_SHIFT) & TID_MASK;
			how = (waker >> HOW_SHIFT) & 3;
			if (waker >> CPU_SHIFT != (bpf_get_smp_processor_id() & 0xffff))
				how |= ELSEWHERE;
		} else {
			by = bpf_get_current_pid_tgid();
			how = NOT_KNOWN;
		}
	} else {
		/* Nobody tells of the waking of a new thread, which is its parent's. */
		struct task_struct *current = bpf_get_current_task_btf();

		by = current->pid;
		how = context(current);
	}
	queue = bpf_core_field_exists(task->cpu) ? task->cpu : task->thread_info.cpu;
	if (queue > QUEUE_MAX)
		queue = QUEUE_MAX;
	note(now, (tid & TID_MASK) | kind << KIND_SHIFT | how << CONTEXT_SHIFT, (by & TID_MASK) | queue << QUEUE_SHIFT);
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
