// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * How long threads of virtual machines wait for a CPU, and who has it meanwhile.
 *
 * Each thread that is looked at has a slot. A bit for each thread number says whether it has one, so that all
 * others cost no more than that bit. A slot's thread is in one of few states, and each of the kernel's events
 * leads from one to the next:
 *
 *	sched_switch in		WOKEN, PREEMPTED -> RUNNING: a wait has ended
 *	sched_switch out	RUNNING -> BLOCKED, or PREEMPTED if it could go on
 *	sched_wakeup		BLOCKED -> WOKEN. If it is RUNNING still it was about to sleep and does not: no wait;
 *				if PREEMPTED, it waits already
 *	sched_process_exit	-> ENDED
 *
 * No lock is needed: the kernel holds the lock of the thread's run queue in all of these, but for
 * sched_process_exit, in which the thread runs. sched_waking comes before that lock is taken, and does no more than note the time: what
 * comes between, such as an interrupt to the other CPU, is part of the wait.
 *
 * Who has it meanwhile: each CPU has a short list of those that wait for it. At each switch, the time since the last
 * is noted for each of them under who ran. sched_migrate_task moves them from list to list; it holds the lock
 * of the old queue only, so places in a list are taken by compare-and-swap.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "hist.h"
#include "sched.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Sizes. The loader may set other ones for those with a star. */
#define THREADS 4096	/* * threads looked at */
#define CPUS 1024	/* * */
#define PAIRS 16384	/* * of a thread that waited and a process that ran, in one interval */
#define TIDS (1u << 22)	/* thread numbers: PID_MAX_LIMIT of include/linux/threads.h */
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

/* crates/live/src/observe/slot.rs reads this. */
struct slot {
	__u32 tid;
	__u32 tgid;
	__u32 state;
	__u32 cpu;		/* for which it waits */
	__u64 since_ns;		/* in this state */
	__u64 waking_ns;	/* when its last wake-up began */
	__u64 noted_ns;		/* until when it is known who ran */
	__u64 task;		/* while it waits: it cannot end without running */
	__u64 cpu_ns;		/* run time */
	__u64 woken;		/* waits in its histograms */
	__u64 preempted;
	__u64 others_ns;	/* waits with nobody named */
	char comm[16];		/* when it ended */
	__u32 held_up;		/* by a quota, at noted_ns */
	__u32 pad[7];
};

/* A list of waiting threads: numbers of slots, plus one. */
struct queue {
	union {
		__u32 waiters[WAITERS];
		__u64 pairs[WAITERS / 2];
	};
	__u64 runs;	/* the task that does, since the first switch that was seen */
	__u64 pad[3];
};

struct pair {
	__u32 victim;	/* twice the number of its slot, plus the epoch */
	__u32 runner;	/* process, or IDLE or QUOTA; for kernel threads their own number */
};

struct ran {
	__u64 ns;
	__u32 kernel;
	__u32 pad;
	char comm[16];
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

/* Slots that are nobody's. */
struct {
	__uint(type, BPF_MAP_TYPE_STACK);
	__uint(max_entries, THREADS);
	__type(value, __u32);
} free_slots SEC(".maps");

/* Which thread has which slot. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, THREADS);
	__type(key, __u32);
	__type(value, __u32);
} slot_of_tid SEC(".maps");

/* A bit for each thread number. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, TIDS / 64);
	__type(key, __u32);
	__type(value, __u64);
} known SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, CPUS);
	__type(key, __u32);
	__type(value, struct queue);
} queues SEC(".maps");

/*
 * Time that threads waited while others ran. There are two epochs: in one is written, what the other has can be
 * fetched and removed, with nobody writing to it.
 */
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

#define LOSE(what)                                                           \
	do {                                                                 \
		__u32 only = 0;                                              \
		struct lost *lost = bpf_map_lookup_elem(&losses, &only);     \
                                                                             \
		if (lost)                                                    \
			__sync_fetch_and_add(&lost->what, 1);                \
	} while (0)

static __always_inline _Bool is_known(__u32 tid)
{
	__u32 word = (tid & (TIDS - 1)) >> 6;
	__u64 *bits = bpf_map_lookup_elem(&known, &word);

	return bits && *bits >> (tid & 63) & 1;
}

static __always_inline void know(__u32 tid)
{
	__u32 word = (tid & (TIDS - 1)) >> 6;
	__u64 *bits = bpf_map_lookup_elem(&known, &word);

	if (bits)
		__sync_fetch_and_or(bits, 1ull << (tid & 63));
}

/* The slot of a thread, and its number. */
static __always_inline struct slot *slot_of(__u32 tid, __u32 *number)
{
	__u32 *found = bpf_map_lookup_elem(&slot_of_tid, &tid);

	if (!found)
		return 0;
	*number = *found;
	return bpf_map_lookup_elem(&slots, number);
}

static __always_inline _Bool waits(const struct slot *slot)
{
	return slot->state == WOKEN || slot->state == PREEMPTED;
}

/* The thread in @number has waited for @ns, while @runner ran. */
static __always_inline void note(struct slot *slot, __u32 number, __u32 runner,
				 struct task_struct *p, __u64 ns)
{
	struct pair pair = { .victim = number * 2, .runner = runner };
	struct ran new = {}, *ran;
	__u32 only = 0, *now = bpf_map_lookup_elem(&epoch, &only);

	if (now)
		pair.victim += *now & 1;
	ran = bpf_map_lookup_elem(&blame, &pair);
	if (ran) {
		__sync_fetch_and_add(&ran->ns, ns);
		return;
	}
	new.ns = ns;
	if (runner != QUOTA) {
		new.kernel = !!(BPF_CORE_READ(p, flags) & PF_KTHREAD);
		BPF_CORE_READ_INTO(&new.comm, p, comm);
	}
	if (bpf_map_update_elem(&blame, &pair, &new, BPF_NOEXIST))
		slot->others_ns += ns;
}

/* Until @now, @task has run on the CPU for which the thread in @number waits. */
static __noinline void ran_meanwhile(struct slot *slot, __u32 number, __u64 task, __u64 now)
{
	struct task_struct *p = (void *)task;
	__u64 from = slot->noted_ns;
	_Bool was = slot->held_up, is;

	if (from >= now)
		return;
	is = held_up(slot->task);
	slot->held_up = is;
	slot->noted_ns = now;
	if (was) {
		__u64 until = is ? now : let_again(slot->task, from, now);

		note(slot, number, QUOTA, p, until - from);
		from = until;
	}
	if (from < now)
		note(slot, number, BPF_CORE_READ(p, tgid), p, now - from);
}

static __always_inline void unlist(struct slot *slot, __u32 number)
{
	struct queue *queue = bpf_map_lookup_elem(&queues, &slot->cpu);
	int i;

	if (!queue)
		return;
	for (i = 0; i < WAITERS; i++)
		if (queue->waiters[i] == number + 1)
			queue->waiters[i] = 0;
}

static __always_inline void list(struct slot *slot, __u32 number, __u32 cpu)
{
	struct queue *queue = bpf_map_lookup_elem(&queues, &cpu);
	int i;

	slot->cpu = cpu;
	if (!queue)
		return;
	/* Of a thread that was forgotten while it waited, and is back. */
	for (i = 0; i < WAITERS; i++)
		if (queue->waiters[i] == number + 1)
			return;
	for (i = 0; i < WAITERS; i++)
		if (!queue->waiters[i] &&
		    !__sync_val_compare_and_swap(&queue->waiters[i], 0, number + 1))
			return;
	LOSE(blame);
}

/* Its state is set. */
static __noinline void begin_wait(struct slot *slot, __u32 number, struct task_struct *p, __u32 cpu,
				  __u64 from)
{
	slot->tgid = p->tgid;
	slot->since_ns = from;
	slot->noted_ns = from;
	slot->task = (__u64)p;
	slot->held_up = held_up((__u64)p);
	list(slot, number, cpu);
}

static __noinline void switched_in(struct task_struct *p, __u64 now)
{
	struct lt_hist *hist;
	struct slot *slot;
	__u32 number, index;
	__u64 ns;

	slot = slot_of(p->pid, &number);
	if (!slot || slot->state == ENDED)
		return;
	if (slot->state == BLOCKED)
		LOSE(waits);
	if (waits(slot)) {
		ns = now > slot->since_ns ? now - slot->since_ns : 0;
		unlist(slot, number);
		/* It had no place in the list. */
		if (slot->noted_ns < now)
			slot->others_ns += now - slot->noted_ns;
		if (slot->state == WOKEN) {
			slot->woken++;
			hist = bpf_map_lookup_elem(&woken_delays, &number);
		} else {
			slot->preempted++;
			hist = bpf_map_lookup_elem(&preempted_delays, &number);
		}
		index = lt_hist_index(ns);
		if (hist && index < LT_HIST_BUCKETS) {
			hist->count++;
			hist->sum_ns += ns;
			if (ns > hist->max_ns)
				hist->max_ns = ns;
			hist->buckets[index]++;
		}
	}
	slot->tgid = p->tgid;
	slot->since_ns = now;
	slot->state = RUNNING;
}

static __noinline void switched_out(struct task_struct *p, _Bool preempted, __u32 cpu, __u64 now)
{
	struct slot *slot;
	__u32 number;

	slot = slot_of(p->pid, &number);
	if (!slot || slot->state == ENDED)
		return;
	/* Of which nothing is known yet, it has run since it was looked at: nothing has happened. */
	if ((slot->state == RUNNING || slot->state == UNKNOWN) && now > slot->since_ns)
		slot->cpu_ns += now - slot->since_ns;
	/* Nobody has told that it ran; for how long it waited and ran, nobody knows. */
	if (slot->state != RUNNING && slot->state != UNKNOWN) {
		LOSE(waits);
		unlist(slot, number);
	}
	if (preempted) {
		slot->state = PREEMPTED;
		begin_wait(slot, number, p, cpu, now);
	} else {
		slot->tgid = p->tgid;
		slot->since_ns = now;
		slot->state = BLOCKED;
	}
}

/* bool preempt, struct task_struct *prev, struct task_struct *next, and more of late */
SEC("tp_btf/sched_switch")
int switched(__u64 *ctx)
{
	struct task_struct *prev = (void *)ctx[1], *next = (void *)ctx[2];
	_Bool out = is_known(prev->pid), in = is_known(next->pid);
	__u32 cpu = bpf_get_smp_processor_id();
	struct queue *queue = bpf_map_lookup_elem(&queues, &cpu);
	__u64 now;
	int i;

	if (!queue)
		return 0;
	queue->runs = (__u64)next;
	if (!out && !in && !(queue->pairs[0] | queue->pairs[1] | queue->pairs[2] | queue->pairs[3]))
		return 0;
	now = bpf_ktime_get_ns();
	for (i = 0; i < WAITERS; i++) {
		__u32 number = queue->waiters[i];
		struct slot *slot;

		if (!number)
			continue;
		number--;
		slot = bpf_map_lookup_elem(&slots, &number);
		if (!slot || !waits(slot) || slot->cpu != cpu) {
			queue->waiters[i] = 0;
			continue;
		}
		ran_meanwhile(slot, number, (__u64)prev, now);
	}
	if (in)
		switched_in(next, now);
	/* With `preempt` it has not come to schedule() itself, whatever its state says. */
	if (out)
		switched_out(prev, ctx[0] & 1 || !sleeps(prev), cpu, now);
	return 0;
}

/* struct task_struct *p */
SEC("tp_btf/sched_waking")
int waking(__u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	struct slot *slot;
	__u32 number;

	if (!is_known(p->pid))
		return 0;
	slot = slot_of(p->pid, &number);
	if (slot)
		slot->waking_ns = bpf_ktime_get_ns();
	return 0;
}

/* struct task_struct *p */
SEC("tp_btf/sched_wakeup")
int woken(__u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	struct slot *slot;
	__u32 number;
	__u64 from;

	if (!is_known(p->pid))
		return 0;
	slot = slot_of(p->pid, &number);
	if (!slot)
		return 0;
	from = slot->waking_ns;
	if (slot->state == BLOCKED) {
		/* Before it was off its CPU it did not wait for one. */
		if (from < slot->since_ns)
			from = slot->since_ns;
	} else if (slot->state != UNKNOWN || p->on_cpu || !from) {
		return 0;
	}
	slot->state = WOKEN;
	begin_wait(slot, number, p, cpu_of(p), from);
	return 0;
}

static __always_inline struct slot *take_slot(__u32 tid, __u32 *number)
{
	struct slot *slot;

	if (bpf_map_pop_elem(&free_slots, number)) {
		LOSE(threads);
		return 0;
	}
	slot = bpf_map_lookup_elem(&slots, number);
	if (!slot)
		return 0;
	slot->tid = tid;
	slot->since_ns = bpf_ktime_get_ns();
	slot->state = UNKNOWN;
	if (bpf_map_update_elem(&slot_of_tid, &tid, number, BPF_ANY)) {
		slot->state = FREE;
		bpf_map_push_elem(&free_slots, number, 0);
		LOSE(threads);
		return 0;
	}
	know(tid);
	return slot;
}

/*
 * struct task_struct *p. A new thread of a process that is looked at is looked at, too, from its first wait on.
 * Who makes it runs here, also if it is one of the kernel's vhost threads for this process.
 */
SEC("tp_btf/sched_wakeup_new")
int woken_new(__u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	__u64 maker = bpf_get_current_pid_tgid();
	struct slot *slot;
	__u32 number;

	if (!is_known((__u32)maker) || maker >> 32 != p->tgid)
		return 0;
	slot = slot_of((__u32)maker, &number);
	if (!slot || slot->state == ENDED)
		return 0;
	slot = slot_of(p->pid, &number);
	if (!slot || slot->state != UNKNOWN)
		slot = take_slot(p->pid, &number);
	if (!slot)
		return 0;
	slot->state = WOKEN;
	begin_wait(slot, number, p, cpu_of(p), bpf_ktime_get_ns());
	return 0;
}

/* struct task_struct *p, int dest_cpu */
SEC("tp_btf/sched_migrate_task")
int migrated(__u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	struct queue *queue;
	struct slot *slot;
	__u32 number;

	if (!is_known(p->pid))
		return 0;
	slot = slot_of(p->pid, &number);
	if (!slot || !waits(slot))
		return 0;
	unlist(slot, number);
	queue = bpf_map_lookup_elem(&queues, &slot->cpu);
	if (queue && queue->runs)
		ran_meanwhile(slot, number, queue->runs, bpf_ktime_get_ns());
	list(slot, number, (__u32)ctx[1]);
	return 0;
}

/* struct task_struct *p, and more of late */
SEC("tp_btf/sched_process_exit")
int ended(__u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	__u64 now = bpf_ktime_get_ns();
	__u32 number, tid = p->pid;
	struct slot *slot;

	if (!is_known(tid))
		return 0;
	slot = slot_of(tid, &number);
	if (!slot || slot->state == ENDED)
		return 0;
	if ((slot->state == RUNNING || slot->state == UNKNOWN) && now > slot->since_ns)
		slot->cpu_ns += now - slot->since_ns;
	slot->tgid = p->tgid;
	bpf_probe_read_kernel(slot->comm, sizeof(slot->comm), p->comm);
	slot->state = ENDED;
	bpf_map_delete_elem(&slot_of_tid, &tid);
	return 0;
}

/* Looks at a thread from now on: 0, and its slot; it may have one already. */
SEC("syscall")
int look_at(struct request *request)
{
	__u32 number, tid = request->tid;

	if (slot_of(tid, &number))
		know(tid);
	else if (!take_slot(tid, &number))
		return 1;
	request->slot = number;
	return 0;
}

/* Looks at a thread no longer, unless its number is another's by now. */
SEC("syscall")
int forget(struct request *request)
{
	__u32 tid = request->tid, word = (tid & (TIDS - 1)) >> 6;
	__u32 *number = bpf_map_lookup_elem(&slot_of_tid, &tid);
	__u64 *bits = bpf_map_lookup_elem(&known, &word);

	if (number && *number != request->slot)
		return 0;
	if (number)
		bpf_map_delete_elem(&slot_of_tid, &tid);
	if (bits)
		__sync_fetch_and_and(bits, ~(1ull << (tid & 63)));
	return 0;
}
