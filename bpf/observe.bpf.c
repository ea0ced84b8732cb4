// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * How long threads of virtual machines wait for a CPU, and who has it meanwhile.
 *
 * Each thread that is looked at has a slot, which is found by the thread's number; all others have none, and cost no
 * more than to see that. A slot's thread is in one of few states, and each of the kernel's events
 * leads from one to the next:
 *
 *	sched_switch in		WOKEN, PREEMPTED -> RUNNING: a wait has ended
 *	sched_switch out	RUNNING -> BLOCKED, or PREEMPTED if it could go on
 *	sched_waking		BLOCKED -> WOKEN. If it is RUNNING still it was about to sleep and does not: no wait;
 *				if PREEMPTED, it waits already
 *	sched_migrate_task	it waits for another CPU: for a thread that is being woken, the one that it is given
 *	sched_process_exit	-> ENDED
 *
 * sched_wakeup is not needed, and each event costs something. It comes when the thread is on a queue; sched_waking
 * is earlier, so that an interrupt to the other CPU and that one's way out of idle are part of the wait.
 *
 * No lock is needed: the kernel holds the lock of the thread's run queue when it switches or moves it, the thread's
 * pi_lock while it wakes it, and at sched_process_exit the thread runs. Only a wake-up and the thread's way to sleep
 * can be at the same time; switched_out() says what becomes of that.
 *
 * Who has it meanwhile: each CPU has a short list of those that wait for it. At each switch, the time since the last
 * is noted for each of them under who ran. sched_migrate_task moves them from list to list; it holds the lock
 * of the old queue only, so places in a list are taken by compare-and-swap.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "observe.h"
#include "sched.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define LOSE(what)                                                           \
	do {                                                                 \
		__u32 only = 0;                                              \
		struct lost *lost = bpf_map_lookup_elem(&losses, &only);     \
                                                                             \
		if (lost)                                                    \
			__sync_fetch_and_add(&lost->what, 1);                \
	} while (0)

/* Number of a thread's slot, plus one; 0 if it has none. */
static __always_inline __u32 find_slot(__u32 tid)
{
	__u32 at = tid >> 2;
	struct slot_quad *quad = bpf_map_lookup_elem(&slot_of_tid, &at);

	return quad ? quad->of[tid & 3] : 0;
}

/* No slot for thread numbers that were not possible when this was loaded. */
static __always_inline int assign(__u32 tid, __u32 found)
{
	__u32 at = tid >> 2;
	struct slot_quad *quad = bpf_map_lookup_elem(&slot_of_tid, &at);

	if (!quad)
		return 1;
	quad->of[tid & 3] = found;
	return 0;
}

static __always_inline struct slot *slot_at(__u32 found)
{
	__u32 number = found - 1;

	return bpf_map_lookup_elem(&slots, &number);
}

static __always_inline _Bool waits(const struct slot *slot)
{
	return slot->state == WOKEN || slot->state == PREEMPTED;
}

static __always_inline void fill(struct ran *ran, __u32 runner, __u64 task, __u64 ns)
{
	struct task_struct *p = (void *)task;

	ran->ns = ns;
	ran->runner = runner;
	ran->kind = PROCESS;
	if (runner == QUOTA)
		return;
	if (BPF_CORE_READ(p, flags) & PF_KTHREAD)
		ran->kind = KERNEL_THREAD;
	BPF_CORE_READ_INTO(&ran->comm, p, comm);
}

/* The same for those that do not fit elsewhere. */
static __noinline void note_more(struct slot *slot, struct pair *pair, __u64 task, __u64 ns)
{
	struct ran new = {}, *ran = bpf_map_lookup_elem(&blame, pair);

	if (ran) {
		ran->ns += ns;
		return;
	}
	fill(&new, pair->runner, task, ns);
	if (bpf_map_update_elem(&blame, pair, &new, BPF_NOEXIST))
		slot->others_ns += ns;
}

/*
 * The thread has waited for @ns while @task of process @runner ran. It waits for one CPU at a time, under the lock
 * of that one's queue: nobody else writes here.
 */
static __always_inline void add_blame(struct slot *slot, __u32 found, __u32 runner, __u64 task, __u64 ns)
{
	__u32 only = 0, *now = bpf_map_lookup_elem(&epoch, &only);
	struct pair pair = { .victim = (found - 1) * 2, .runner = runner };
	struct few *few;
	int i;

	if (now)
		pair.victim += *now & 1;
	few = bpf_map_lookup_elem(&first_blame, &pair.victim);
	if (!few)
		return;
	for (i = 0; i < FEW; i++) {
		struct ran *ran = &few->ran[i];

		if (!ran->kind) {
			fill(ran, runner, task, ns);
			return;
		}
		if (ran->runner == runner) {
			ran->ns += ns;
			return;
		}
	}
	note_more(slot, &pair, task, ns);
}

/* Until @now, @task has run on the CPU for which the thread waits; @is whether a quota holds it up now. */
static __always_inline void ran_meanwhile(struct slot *slot, __u32 found, __u64 task, __u32 runner,
					  _Bool is, __u64 now)
{
	__u64 from = slot->noted_ns;

	if (from >= now)
		return;
	slot->noted_ns = now;
	if (slot->held_up) {
		__u64 until = is ? now : let_again(slot->task, from, now);

		add_blame(slot, found, QUOTA, task, until - from);
		from = until;
	}
	slot->held_up = is;
	if (from < now)
		add_blame(slot, found, runner, task, now - from);
}

static __always_inline void remove_waiter(struct slot *slot, __u32 found)
{
	struct queue *queue = bpf_map_lookup_elem(&queues, &slot->cpu);
	int i;

	if (!queue)
		return;
	for (i = 0; i < WAITERS; i++)
		if (queue->waiters[i] == found)
			queue->waiters[i] = 0;
}

static __always_inline void add_waiter(struct slot *slot, __u32 found, __u32 cpu)
{
	struct queue *queue = bpf_map_lookup_elem(&queues, &cpu);
	int i;

	slot->cpu = cpu;
	if (!queue)
		return;
	/* Of a thread that was forgotten while it waited, and is back. */
	for (i = 0; i < WAITERS; i++)
		if (queue->waiters[i] == found)
			return;
	for (i = 0; i < WAITERS; i++)
		if (!queue->waiters[i] &&
		    !__sync_val_compare_and_swap(&queue->waiters[i], 0, found))
			return;
	LOSE(blame);
}

/* @state: WOKEN or PREEMPTED */
static __always_inline void begin_wait(struct slot *slot, __u32 found, struct task_struct *p,
				       __u32 state, __u32 cpu, __u64 from)
{
	slot->tgid = p->tgid;
	slot->since_ns = from;
	slot->noted_ns = from;
	slot->task = (__u64)p;
	slot->held_up = begins_held_up(p);
	slot->state = state;
	add_waiter(slot, found, cpu);
}

static __always_inline void record(void *delays, __u32 found, __u64 ns)
{
	__u32 number = found - 1, index = lt_hist_index(ns);
	struct lt_hist *hist = bpf_map_lookup_elem(delays, &number);

	if (!hist || index >= LT_HIST_BUCKETS)
		return;
	hist->count++;
	hist->sum_ns += ns;
	if (ns > hist->max_ns)
		hist->max_ns = ns;
	hist->buckets[index]++;
}

/*
 * Whether the thread, which waits, has run since it was last switched out, and nobody has told: there are kernels that do not
 * tell of some switches, such as those away from an agent of the hypervisor's. How long it has waited is not known then.
 */
static __always_inline _Bool ran_untold(const struct slot *slot, const struct task_struct *p)
{
	return p->se.sum_exec_runtime != slot->first_ns + slot->run_time_ns;
}

/*
 * @task of process @runner has run until @now; with @listed, @p was in the list of this CPU, @cpu.
 */
static __always_inline void switched_in(__u32 found, struct task_struct *p, _Bool listed, __u32 cpu,
					__u64 task, __u32 runner, __u64 now)
{
	struct slot *slot = slot_at(found);
	__u64 ns;

	if (!slot || slot->state == ENDED)
		return;
	if (slot->state == BLOCKED && slot->waking_ns >= slot->since_ns) {
		/* Its wake-up came when it was about to sleep, see switched_out(). */
		slot->since_ns = slot->waking_ns;
		slot->noted_ns = slot->waking_ns;
		slot->state = WOKEN;
	}
	if (waits(slot)) {
		/* Who runs next is held up by nothing. */
		if (listed && slot->cpu == cpu)
			ran_meanwhile(slot, found, task, runner, 0, now);
		/* It had no place in the list of this CPU. */
		if (slot->noted_ns < now) {
			remove_waiter(slot, found);
			slot->others_ns += now - slot->noted_ns;
		}
		ns = now > slot->since_ns ? now - slot->since_ns : 0;
		if (ran_untold(slot, p)) {
			LOSE(waits);
		} else if (slot->state == WOKEN) {
			slot->woken++;
			slot->woken_ns += ns;
			record(&woken_delays, found, ns);
		} else {
			slot->preempted++;
			slot->preempted_ns += ns;
			record(&preempted_delays, found, ns);
		}
	} else if (slot->state == BLOCKED) {
		LOSE(waits);
	} else if (slot->state == UNKNOWN) {
		slot->first_ns = p->se.sum_exec_runtime;
	}
	slot->tgid = p->tgid;
	slot->since_ns = now;
	slot->state = RUNNING;
}

/*
 * A thread may be woken when it is about to sleep. Either it goes on running then, and nothing has happened; or the one
 * who wakes it, with its pi_lock, lets it get off its CPU first: from then on it waits. What is written at the very
 * moment at which sched_waking reads it is put right when it runs again; whom it waited for is not known then.
 */
static __always_inline void switched_out(__u32 found, struct task_struct *p, _Bool preempted,
					 __u32 cpu, __u64 now)
{
	struct slot *slot = slot_at(found);
	_Bool woken;

	if (!slot || slot->state == ENDED)
		return;
	woken = slot->waking_ns > slot->since_ns && is_woken(p);
	if (slot->state == UNKNOWN) {
		/* It has run since it was looked at: nothing has happened. */
		slot->first_ns = p->se.sum_exec_runtime - (now - slot->since_ns);
	} else if (slot->state != RUNNING) {
		/* Nobody has told that it ran, and so not how long it had waited. */
		LOSE(waits);
		remove_waiter(slot, found);
	}
	slot->run_time_ns = p->se.sum_exec_runtime - slot->first_ns;
	if (preempted || woken) {
		begin_wait(slot, found, p, preempted ? PREEMPTED : WOKEN, cpu, now);
	} else {
		slot->tgid = p->tgid;
		slot->since_ns = now;
		slot->state = BLOCKED;
	}
}

/*
 * @task of process @runner has run until @now, on @cpu, for which the thread in @found waits. Whether it waits for
 * that no longer. Not static, so that the verifier looks at it once and not for each of the ways on which it can be reached.
 */
__noinline int tell_waiter(__u32 found, __u32 cpu, __u64 task, __u32 runner, __u64 now)
{
	struct slot *slot = slot_at(found);

	if (!slot || !waits(slot) || slot->cpu != cpu)
		return 1;
	ran_meanwhile(slot, found, task, runner, held_up(slot->task), now);
	return 0;
}

/* bool preempt, struct task_struct *prev, struct task_struct *next, and more of late */
SEC("tp_btf/sched_switch")
int switched(__u64 *ctx)
{
	struct task_struct *prev = (void *)ctx[1], *next = (void *)ctx[2];
	__u32 out = find_slot(prev->pid), in = find_slot(next->pid);
	__u32 cpu = bpf_get_smp_processor_id();
	struct queue *queue = bpf_map_lookup_elem(&queues, &cpu);
	_Bool listed = 0;
	__u64 now;
	int i;

	if (!queue)
		return 0;
	queue->runs = (__u64)next;
	if (!out && !in && !(queue->pairs[0] | queue->pairs[1] | queue->pairs[2] | queue->pairs[3]))
		return 0;
	now = bpf_ktime_get_ns();
	/* A pointer from here is a number to the verifier, as those of waiting threads are. */
	queue->ran = (__u64)prev;
	for (i = 0; i < WAITERS; i++) {
		__u32 found = queue->waiters[i];

		if (!found)
			continue;
		if (found == in)
			listed = 1;
		/* If the one that ran is in the list, nobody has told that it did. */
		if (found == in || found == out ||
		    tell_waiter(found, cpu, queue->ran, prev->tgid, now))
			queue->waiters[i] = 0;
	}
	if (in)
		switched_in(in, next, listed, cpu, queue->ran, prev->tgid, now);
	/* With `preempt` it has not come to schedule() itself, whatever its state says. */
	if (out)
		switched_out(out, prev, ctx[0] & 1 || !sleeps(prev), cpu, now);
	return 0;
}

/* struct task_struct *p */
SEC("tp_btf/sched_waking")
int waking(__u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	__u32 found = find_slot(p->pid);
	struct slot *slot;
	__u64 now;

	if (!found)
		return 0;
	slot = slot_at(found);
	if (!slot)
		return 0;
	now = bpf_ktime_get_ns();
	slot->waking_ns = now;
	switch (slot->state) {
	case BLOCKED:
		break;
	case WOKEN:
		/* It was not, then: somebody else had its lock when it went to sleep. */
		remove_waiter(slot, found);
		break;
	case UNKNOWN:
		if (p->on_cpu)
			return 0;
		slot->first_ns = p->se.sum_exec_runtime;
		break;
	default:
		return 0;
	}
	begin_wait(slot, found, p, WOKEN, cpu_of(p), now);
	return 0;
}

/* Gives a thread this slot, which is nobody's: its number plus one, or 0. */
static __always_inline __u32 fill_slot(__u32 number, __u32 tid, __u32 machine)
{
	struct slot *slot = bpf_map_lookup_elem(&slots, &number);

	if (!slot)
		return 0;
	slot->tid = tid;
	slot->machine = machine;
	slot->since_ns = bpf_ktime_get_ns();
	slot->state = UNKNOWN;
	if (!assign(tid, number + 1))
		return number + 1;
	slot->state = FREE;
	return 0;
}

/* A slot for a new thread of this VM: its number plus one, or 0. */
static __always_inline __u32 take_slot(__u32 tid, __u32 number_of_machine)
{
	struct machine *machine = bpf_map_lookup_elem(&machines, &number_of_machine);
	__u32 number, found;

	/* Those that come at the same moment may be a few too many, one for each CPU. */
	if (machine && (__s32)(machine->allowed - machine->taken) > 0 &&
	    !bpf_map_pop_elem(&free_slots, &number)) {
		found = fill_slot(number, tid, number_of_machine);
		if (found) {
			__sync_fetch_and_add(&machine->taken, 1);
			return found;
		}
		bpf_map_push_elem(&free_slots, &number, 0);
	}
	if (machine)
		__sync_fetch_and_add(&machine->refused, 1);
	LOSE(threads);
	return 0;
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
	__u32 found = find_slot((__u32)maker);
	struct slot *slot;
	__u32 machine;

	if (!found || maker >> 32 != p->tgid)
		return 0;
	slot = slot_at(found);
	if (!slot || slot->state == ENDED)
		return 0;
	machine = slot->machine;
	found = find_slot(p->pid);
	slot = found ? slot_at(found) : 0;
	if (!slot || slot->state != UNKNOWN) {
		found = take_slot(p->pid, machine);
		slot = found ? slot_at(found) : 0;
	}
	if (!slot)
		return 0;
	slot->first_ns = p->se.sum_exec_runtime;
	begin_wait(slot, found, p, WOKEN, cpu_of(p), bpf_ktime_get_ns());
	return 0;
}

/* struct task_struct *p, int dest_cpu */
SEC("tp_btf/sched_migrate_task")
int migrated(__u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0], *runs;
	__u32 found = find_slot(p->pid);
	struct queue *queue;
	struct slot *slot;

	if (!found)
		return 0;
	slot = slot_at(found);
	if (!slot || !waits(slot))
		return 0;
	remove_waiter(slot, found);
	if (!p->on_rq) {
		/* It is being woken, and has waited for none but the CPU that it is given now. */
		slot->held_up = begins_held_up_on(p, (__u32)ctx[1]);
		add_waiter(slot, found, (__u32)ctx[1]);
		return 0;
	}
	queue = bpf_map_lookup_elem(&queues, &slot->cpu);
	if (queue && queue->runs) {
		runs = (void *)queue->runs;
		ran_meanwhile(slot, found, queue->runs, BPF_CORE_READ(runs, tgid),
			      begins_held_up(p), bpf_ktime_get_ns());
	}
	add_waiter(slot, found, (__u32)ctx[1]);
	return 0;
}

/* struct task_struct *p, and more of late */
SEC("tp_btf/sched_process_exit")
int ended(__u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	__u32 tid = p->pid, found = find_slot(tid);
	__u64 now;
	struct slot *slot;

	if (!found)
		return 0;
	slot = slot_at(found);
	if (!slot || slot->state == ENDED)
		return 0;
	now = bpf_ktime_get_ns();
	if (slot->state == RUNNING || slot->state == UNKNOWN) {
		slot->run_time_ns += now - slot->since_ns;
	} else {
		/* Nobody has told that it runs. */
		LOSE(waits);
		remove_waiter(slot, found);
		slot->run_time_ns = p->se.sum_exec_runtime - slot->first_ns;
	}
	slot->tgid = p->tgid;
	bpf_probe_read_kernel(slot->comm, sizeof(slot->comm), p->comm);
	slot->state = ENDED;
	assign(tid, 0);
	return 0;
}

/* Looks at a thread from now on: 0, and its slot; it may have one already. */
SEC("syscall")
int track(struct request *request)
{
	__u32 found = find_slot(request->tid);

	if (!found)
		found = fill_slot(request->slot, request->tid, request->machine);
	request->slot = found - 1;
	return !found;
}

/* Looks at a thread no longer, unless its number is another's by now. */
SEC("syscall")
int untrack(struct request *request)
{
	struct slot *slot = slot_at(request->slot + 1);

	/* So that it is in nobody's list, either. */
	if (slot)
		slot->state = ENDED;
	if (find_slot(request->tid) == request->slot + 1)
		assign(request->tid, 0);
	return 0;
}

/* From now on, new threads of a VM may take so many slots more. */
SEC("syscall")
int allow(struct allowance *allowance)
{
	__u32 number = allowance->machine;
	struct machine *machine = bpf_map_lookup_elem(&machines, &number);

	if (!machine)
		return 1;
	allowance->taken = machine->taken;
	allowance->refused = machine->refused;
	machine->allowed = machine->taken + allowance->more;
	return 0;
}

/*
 * For whom the thread in this slot waits just now: what ran_meanwhile() will note at the next switch, without noting
 * it. Nothing is locked; what changes meanwhile is told wrong for this once.
 */
SEC("syscall")
int look_ahead(struct pending *pending)
{
	__u32 found = pending->slot + 1, cpu;
	__u64 from, until, now = pending->now_ns, task;
	struct slot *slot = slot_at(found);
	struct task_struct *runs;
	struct queue *queue;
	struct ran ran = {};
	_Bool listed = 0;
	int i;

	if (!slot || !waits(slot))
		return 1;
	from = slot->noted_ns;
	cpu = slot->cpu;
	queue = bpf_map_lookup_elem(&queues, &cpu);
	if (!queue || from >= now)
		return 1;
	for (i = 0; i < WAITERS; i++)
		if (queue->waiters[i] == found)
			listed = 1;
	task = queue->runs;
	pending->listed = listed && task;
	if (!pending->listed)
		return 0;
	if (slot->held_up) {
		until = held_up(slot->task) ? now : let_again(slot->task, from, now);
		pending->quota_ns = until - from;
		from = until;
	}
	if (from >= now)
		return 0;
	runs = (void *)task;
	fill(&ran, BPF_CORE_READ(runs, tgid), task, now - from);
	pending->ran = ran;
	return 0;
}
