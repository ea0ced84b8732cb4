/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Where threads wait, who of them is next, and who may interrupt.
 *
 * Each CPU has a queue of small ones and one of large ones, for threads that may run nowhere else; each set of CPUs that
 * threads may run on has two as well (vcpu_mask.h). They are in the order of the rule as it was when a thread came; who comes
 * first by an order that is out of date gets a new place before it is compared with the first of the other queues. A third
 * kind is for those that a limit has stopped, by the time at which they may go on.
 */
#ifndef LOWTAIL_VCPU_QUEUE_H
#define LOWTAIL_VCPU_QUEUE_H

#include "scx.h"
#include "vcpu_mask.h"
#include "vcpu_ordinary.h"
#include "vcpu_run.h"

/*
 * So many of a queue that may run on a CPU are looked at, at most, and so many in all: a queue of others' threads must not
 * cost everybody, and threads that may run on some CPUs only must not hide those behind them from the others. Variables,
 * so that the kernel, when it checks a loop, does not go through it once for each number.
 */
#define LOOK 16
__u32 look_most = LOOK;
__u32 pass_most = 16 * LOOK;


/* Up to when @cpu's timer may sleep: @at, or before. */
static __always_inline void arm(struct cpu *c, __u64 at, __u64 now)
{
	if (c->armed_ns > now && c->armed_ns <= at)
		return;
	at = lt_max(at, now + 1);
	c->armed_ns = at;
	bpf_timer_start(&c->timer, at - now, 0);
}

static __always_inline void arm_unpark(__u64 at, __u64 now)
{
	struct alarm *alarm = alarm_of(UNPARK);

	if (!alarm || (alarm->armed_ns > now && alarm->armed_ns <= at))
		return;
	at = lt_max(at, now + 1);
	alarm->armed_ns = at;
	bpf_timer_start(&alarm->timer, at - now, 0);
}

/* The end of the stretch or the turn of who runs. */
static __always_inline __u64 deadline(const struct cpu *c)
{
	return lt_min(c->until_ns, c->stretch_ns);
}

/*
 * Whether @p, which waits, may run only where it is: it has one CPU, or the kernel has it in the middle of something
 * that must stay there.
 */
static __always_inline int bound(const struct task_struct *p)
{
	/* No branch, so that the kernel's check of a loop has one way less to follow. */
	return (p->nr_cpus_allowed == 1) | (p->migration_disabled != 0);
}

/* The same for one that has just begun to wait: to whom a CPU is about to leave that happens by our own programs, too. */
static __always_inline int bound_now(struct task_struct *p, const struct cpu *c)
{
	__u32 ours = p == bpf_get_current_task_btf() ? 1 + c->releases : 0;

	return p->nr_cpus_allowed == 1 || p->migration_disabled > ours;
}

/*
 * Whether threads of other classes are runnable on @cpu: the kernel asks us who is next there even so if the CPU slept,
 * and then runs one of those. Whom we gave to the CPU would wait in its own queue until they sleep, where no other CPU finds it:
 * the kernel says that a CPU was taken (cpu_release) only where one of our threads has run.
 */
__attribute__((noinline)) int others_on(__u32 cpu)
{
	const struct rq *rq = &runqueues ? bpf_per_cpu_ptr(&runqueues, cpu) : 0;

	return rq && rq->nr_running > rq->scx.nr_running;
}

/* The queue in which a thread of @mask waits that ran on @cpu last, and @stays there or does not. */
__attribute__((noinline)) __u64 place(__u32 cpu, int stays, __u32 mask, __u32 class)
{
	return QUEUE_OF(stays ? cpu : ALL + mask, class);
}

/* By what a thread is ordered in its queue. */
static __always_inline __u64 key_of(const struct vcpu *v, const struct vm *vm)
{
	return v->rule.class == LT_SMALL ? lt_due(&v->rule) : vm->rule.vtime_ns;
}

/* Whether @a goes before @b, both waiting. */
__attribute__((noinline)) int before(__u32 a, __u32 b, __u64 now)
{
	struct vcpu *va = vcpu_of(a), *vb = vcpu_of(b);
	struct vm *vm_a, *vm_b;

	if (!va || !vb)
		return 0;
	vm_a = vm_of(va->vm);
	vm_b = vm_of(vb->vm);
	if (!vm_a || !vm_b)
		return 0;
	return lt_before(&va->rule, &vm_a->rule, &vb->rule, &vm_b->rule, now);
}

/* Whether thread @slot is still there for a CPU to take. Others look at the same queues at the same time. */
static __always_inline int is_waiting(__u32 slot)
{
	struct vcpu *v = vcpu_of(slot);

	return v && v->waiting;
}

/*
 * A CPU that goes must run those that may run only there, for the kernel to find them another one. To all others it
 * is no CPU any more: what is moved to it from the queues of all comes back by a way that passes the order.
 */
static __always_inline int gone(__u32 cpu)
{
	struct cpu *c = cpu_of(cpu);

	return !c || c->gone;
}

/* So many get a new place in a look at a queue; a VM of hundreds of threads must not cost everybody. */
#define ANEW 4

/* Of a thread that waits, in one number with it: its VM's virtual time has gone on since it was given its place. */
#define OUT_OF_DATE (1ull << 32)

__attribute__((noinline)) __u64 out_of_date(__u32 slot, __u64 key, __u64 now)
{
	struct vcpu *v = vcpu_of(slot);
	struct vm *vm = v ? vm_of(v->vm) : 0;

	return vm && v->rule.class == LT_LARGE && key < vm->rule.vtime_ns &&
	       !lt_overdue(&v->rule, &vm->rule, now) ? OUT_OF_DATE : 0;
}

/* When thread @slot, which waits, will have waited too long. */
__attribute__((noinline)) __u64 late_at(__u32 slot)
{
	struct vcpu *v = vcpu_of(slot);
	struct vm *vm = v ? vm_of(v->vm) : 0;

	return vm ? v->rule.queued_ns + vm->rule.wait_max_ns : LT_NEVER;
}

__attribute__((noinline)) int overdue(__u32 slot, __u64 now)
{
	return late_at(slot) < now;
}

static __always_inline __u64 *late_from_of(__u64 queue)
{
	__u32 key = queue;

	return bpf_map_lookup_elem(&late_from, &key);
}

/* Thread @slot comes to @queue. Who comes meanwhile from elsewhere and is forgotten is found with those behind the first few. */
static __always_inline void late_in(__u64 queue, __u32 slot)
{
	__u64 *from = late_from_of(queue), at = late_at(slot);

	if (from && at < *from)
		*from = at;
}

/*
 * Whether @p may run on @cpu. A function of its own: for each place that reads such a pointer the kernel looks through all of its
 * types by name, thrice, and again for each way on which its check comes there. That was a third of the time that loading takes.
 */
__attribute__((noinline)) int may_run_on(struct task_struct *p __arg_trusted, __s32 cpu)
{
	return bpf_cpumask_test_cpu(cpu, p->cpus_ptr);
}

/*
 * The first of @queue that may run on @cpu, or the first behind it that has waited too long; NONE if there is none. With
 * OUT_OF_DATE, if others may go before it by now. Those behind the first are looked at only when one of them may have waited too
 * long.
 */
__attribute__((noinline)) __u64 peek_eligible(__u64 queue, __u32 cpu, __u64 now)
{
	__u64 best = NONE, late = LT_NEVER, at, *from = late_from_of(queue);
	__u32 left = look_most, pass = pass_most, slot;
	struct bpf_iter_scx_dsq it;
	struct task_struct *p;
	int all;

	if (!from || !scx_bpf_dsq_nr_queued(queue))
		return NONE;
	all = now > *from;
	bpf_iter_scx_dsq_new(&it, queue, 0);
	while ((p = bpf_iter_scx_dsq_next(&it))) {
		if (!pass--)
			break;
		slot = slot_of(p);
		if (all) {
			at = late_at(slot);
			late = lt_min(late, at);
		}
		if (!may_run_on(p, cpu))
			continue;
		if (!left--)
			break;
		if (!is_waiting(slot))
			continue;
		/* The first of these, or one that others come behind would never be it. */
		if (all && at < now) {
			best = slot;
			break;
		}
		if (best == NONE)
			best = slot | out_of_date(slot, p->scx.dsq_vtime, now);
		if (!all)
			break;
	}
	bpf_iter_scx_dsq_destroy(&it);
	if (all)
		*from = late;
	return best;
}

/* Moves thread @slot from @queue to @to, by @key if that is an ordered one. Returns whether it was there. */
__attribute__((noinline)) int move(__u64 queue, __u32 slot, __u64 to, __u64 key)
{
	struct bpf_iter_scx_dsq it;
	struct task_struct *p;
	__u32 left = 2 * pass_most;
	int moved = 0;

	bpf_iter_scx_dsq_new(&it, queue, 0);
	while ((p = bpf_iter_scx_dsq_next(&it))) {
		if (!left--)
			break;
		if (slot_of(p) != slot)
			continue;
		/*
		 * Its CPUs may have changed since it was chosen, and their new set may have got the number of the old one,
		 * and so its queue. The kernel ends a scheduler that gives a CPU who may not run there.
		 */
		if (to == SCX_DSQ_LOCAL &&
		    !may_run_on(p, bpf_get_smp_processor_id()))
			break;
		scx_bpf_dsq_move_set_slice(&it, PARAMS->slice_ns);
		if (to == SCX_DSQ_LOCAL) {
			moved = scx_bpf_dsq_move(&it, p, to, 0);
		} else {
			late_in(to, slot);
			scx_bpf_dsq_move_set_vtime(&it, key);
			moved = scx_bpf_dsq_move_vtime(&it, p, to, 0);
		}
		break;
	}
	bpf_iter_scx_dsq_destroy(&it);
	return moved;
}

/*
 * The first of @queue that may run on @cpu, as the rule has it now. While a thread of a VM runs, the others that wait fall
 * behind in the order, since it is their VM's virtual time that goes on: whoever comes first by an older one gets a new place.
 * A virtual time only grows, so that who is first by one that is up to date is the first of all.
 */
static __always_inline __u32 first_eligible(__u64 queue, __u32 cpu, __u64 now)
{
	__u64 first = NONE;
	struct vcpu *v;
	struct vm *vm;

	for (int i = 0; i <= ANEW; i++) {
		first = peek_eligible(queue, cpu, now);
		if (!(first & OUT_OF_DATE) || i == ANEW)
			break;
		v = vcpu_of(first);
		vm = v ? vm_of(v->vm) : 0;
		if (!vm || !move(queue, first, queue, vm->rule.vtime_ns))
			break;
	}
	return first;
}

/* Who of those that wait goes first, and its queue, in one number; NOBODY if there is none. */
#define NOBODY (~0ull)
#define NEXT(queue, slot) ((__u64)(queue) << 32 | (slot))
#define QUEUE_OF_NEXT(next) ((next) >> 32)
#define SLOT_OF_NEXT(next) ((__u32)(next))

/* The one of two that goes before the other, or the only one. */
static __always_inline __u64 first_of(__u64 own, __u64 all, __u64 now)
{
	if (own == NOBODY)
		return all;
	return all != NOBODY && before(SLOT_OF_NEXT(all), SLOT_OF_NEXT(own), now) ? all : own;
}

/* @next, or thread @slot of @queue if that goes before it. */
static __always_inline __u64 better(__u64 next, __u64 queue, __u32 slot, __u64 now)
{
	if (slot == NONE || (next != NOBODY && !before(slot, SLOT_OF_NEXT(next), now)))
		return next;
	return NEXT(queue, slot);
}

/* A look at the queues of all masks that have @cpu. */
struct look {
	__u64 now;
	__u64 next;		/* who goes first so far, as NEXT() has it */
	__u32 cpu;
	__u32 class;
	__u32 found;
	__u32 pad;
};

/* The bits of word @i of @cpu's bitmap of masks. A CPU that goes has none. */
static __always_inline __u64 masks_of(__u32 cpu, __u32 i)
{
	struct cpu *c = cpu_of(cpu);

	return c && !c->gone && i < MASK_WORDS ? c->masks[i] : 0;
}

/* Goes through the masks in @bits, those of word @i: @n is the bit. Low numbers are given first, and it ends early. */
#define for_each_mask(n, bits) \
	for (__u32 n = 0; n < 64 && (bits) >> n; n++) \
		if ((bits) >> n & 1)

/* What a look does with one queue is a function of its own, so that the kernel's check of the loop sees one way through it. */
__attribute__((noinline)) __u64 look_at_large(__u64 next, __u64 queue, __u32 cpu, __u64 now)
{
	return better(next, queue, first_eligible(queue, cpu, now), now);
}

/*
 * The order of small ones is by when they are due, which stays as it is: none of them gets a new place, and so this does for who wakes
 * as well, from where the kernel lets nobody be moved (since Linux 7.3 it refuses programs that might).
 */
__attribute__((noinline)) __u64 look_at_small(__u64 next, __u64 queue, __u32 cpu, __u64 now)
{
	return better(next, queue, peek_eligible(queue, cpu, now), now);
}

/* @class is known when this is compiled, so that the program of who wakes has no way to what is for large ones. */
static __always_inline long look_through(__u32 i, struct look *look, __u32 class)
{
	__u64 bits = masks_of(look->cpu, i), queue;

	for_each_mask(n, bits) {
		queue = QUEUE_OF(ALL + 64 * i + n, class);
		look->next = class == LT_SMALL ?
				     look_at_small(look->next, queue, look->cpu, look->now) :
				     look_at_large(look->next, queue, look->cpu, look->now);
	}
	return 0;
}

static long look_word_large(__u32 i, struct look *look)
{
	return look_through(i, look, LT_LARGE);
}

static long look_word_small(__u32 i, struct look *look)
{
	return look_through(i, look, LT_SMALL);
}

/* Who of the small ones that wait goes first on @cpu. */
__attribute__((noinline)) __u64 next_small(__u32 cpu, __u64 now)
{
	struct look look = { .now = now, .cpu = cpu };

	look.next = look_at_small(NOBODY, QUEUE_OF(cpu, LT_SMALL), cpu, now);
	bpf_loop(mask_words(), look_word_small, &look, 0);
	return look.next;
}

/* Who of all goes first on @cpu. */
__attribute__((noinline)) __u64 next_of_all(__u32 cpu, __u64 now)
{
	struct look look = { .now = now, .cpu = cpu };

	look.next = next_small(cpu, now);
	look.next = look_at_large(look.next, QUEUE_OF(cpu, LT_LARGE), cpu, now);
	bpf_loop(mask_words(), look_word_large, &look, 0);
	return look.next;
}

/* Whether anybody waits in the queues of @place. */
__attribute__((noinline)) int anybody_at(__u32 place)
{
	return scx_bpf_dsq_nr_queued(QUEUE_OF(place, LT_SMALL)) ||
	       scx_bpf_dsq_nr_queued(QUEUE_OF(place, LT_LARGE));
}

static long anybody_word(__u32 i, struct look *look)
{
	__u64 bits = masks_of(look->cpu, i);

	for_each_mask(n, bits)
		look->found |= anybody_at(ALL + 64 * i + n);
	return look->found != 0;
}

/* Whether anybody waits whom @cpu might run. */
__attribute__((noinline)) int anybody(__u32 cpu)
{
	struct look look = { .cpu = cpu };

	if (anybody_at(cpu))
		return 1;
	bpf_loop(mask_words(), anybody_word, &look, 0);
	return look.found;
}

/* When thread @slot may interrupt who runs on @cpu: 0 is now; LT_NEVER is not as things are. It pays when it begins. */
__attribute__((noinline)) __u64 may_interrupt(__u32 slot, __u32 cpu, __u64 now)
{
	struct cpu *c = cpu_of(cpu);
	struct vcpu *v = vcpu_of(slot), *cur;
	struct vm *vm, *vm_cur;
	__u64 when, ran;

	if (!c || !v)
		return LT_NEVER;
	cur = vcpu_of(c->current);
	if (!cur)
		return LT_NEVER;
	vm = vm_of(v->vm);
	vm_cur = vm_of(cur->vm);
	if (!vm || !vm_cur)
		return LT_NEVER;
	ran = cur->since_ns ? lt_since(now, cur->since_ns) : 0;
	when = lt_beats_when(&v->rule, &vm->rule, &cur->rule, &vm_cur->rule, PARAMS, ran, now);
	if (when)
		return when;
	bpf_spin_lock(&vm->lock);
	when = lt_preempt_when(&v->rule, &vm->rule, &c->rule, PARAMS, now);
	bpf_spin_unlock(&vm->lock);
	return when;
}

/*
 * Of those who wait in @queue, the first who may interrupt on @cpu now, and the queue, in one number; NOBODY if there is
 * none, and the timer is set for the first who may later.
 */
__attribute__((noinline)) __u64 interrupter(__u64 queue, __u32 cpu, __u64 now)
{
	__u64 when, soonest = LT_NEVER;
	struct cpu *c = cpu_of(cpu);
	struct bpf_iter_scx_dsq it;
	struct task_struct *p;
	__u32 slot, found = NONE;
	__u32 left = look_most, pass = pass_most;

	if (!c || !scx_bpf_dsq_nr_queued(queue))
		return NOBODY;
	bpf_iter_scx_dsq_new(&it, queue, 0);
	while ((p = bpf_iter_scx_dsq_next(&it))) {
		if (!pass--)
			break;
		slot = slot_of(p);
		if (!is_waiting(slot) || !may_run_on(p, cpu))
			continue;
		if (!left--)
			break;
		when = may_interrupt(slot, cpu, now);
		if (!when) {
			found = slot;
			break;
		}
		soonest = lt_min(soonest, when);
	}
	bpf_iter_scx_dsq_destroy(&it);
	if (found == NONE && soonest != LT_NEVER)
		arm(c, soonest, now);
	return found == NONE ? NOBODY : NEXT(queue, found);
}

__attribute__((noinline)) __u64 claim_at(__u64 next, __u64 queue, __u32 cpu, __u64 now)
{
	return first_of(next, interrupter(queue, cpu, now), now);
}

static long claim_word(__u32 i, struct look *look)
{
	__u64 bits = masks_of(look->cpu, i);

	for_each_mask(n, bits)
		look->next = claim_at(look->next, QUEUE_OF(ALL + 64 * i + n, look->class),
				      look->cpu, look->now);
	return 0;
}

/* Of those of @class who wait, the first who may interrupt who runs on @cpu now. */
__attribute__((noinline)) __u64 claimant_of(__u32 cpu, __u32 class, __u64 now)
{
	struct look look = { .now = now, .cpu = cpu, .class = class };

	look.next = interrupter(QUEUE_OF(cpu, class), cpu, now);
	bpf_loop(mask_words(), claim_word, &look, 0);
	return look.next;
}

/*
 * Of all who wait, the first who may interrupt who runs on @cpu now, and its queue, in one number; NOBODY if there is none.
 */
__attribute__((noinline)) __u64 claimant(__u32 cpu, __u64 now)
{
	__u64 small = claimant_of(cpu, LT_SMALL, now);

	return small != NOBODY ? small : claimant_of(cpu, LT_LARGE, now);
}

/*
 * Looks whether somebody who waits may interrupt who runs on @cpu, and sees to it. Who that is turns out when the CPU asks:
 * another one may have come meanwhile that goes before it, as all do whom a limit lets go at a time. It pays when it begins
 * to run: until then it may go elsewhere, or be stopped by a limit.
 */
__attribute__((noinline)) int try_preempt(__u32 cpu, __u64 now)
{
	struct cpu *c = cpu_of(cpu);

	if (!c || c->current == NONE || c->claimed || claimant(cpu, now) == NOBODY)
		return 0;
	c->claimed = 1;
	scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	return 0;
}

/* @cpu's timer: a turn is over, or somebody may interrupt by now. */
static int cpu_timer(void *map, __u32 *key, struct cpu *c)
{
	__u64 now = bpf_ktime_get_ns();
	__u32 cpu = *key;

	c->armed_ns = 0;
	if (c->foreign) {
		if (now < c->until_ns)
			arm(c, c->until_ns, now);
		else if (anybody(cpu) || scx_bpf_dsq_nr_queued(UNREGISTERED))
			scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
		return 0;
	}
	if (c->current == NONE || !(c->limited || anybody(cpu)))
		return 0;
	if (now >= deadline(c)) {
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
		return 0;
	}
	try_preempt(cpu, now);
	arm(c, deadline(c), now);
	return 0;
}

/* @cpu's timer comes at the end of the turn of who runs there, if somebody does. */
__attribute__((noinline)) int arm_turn(__u32 cpu, __u64 now)
{
	struct cpu *c = cpu_of(cpu);

	if (c && c->current != NONE)
		arm(c, deadline(c), now);
	return 0;
}

/*
 * Sees to it that a thread which has begun to wait in a queue is not waiting for a CPU that sleeps. Its own does not, or it
 * would have been given to it.
 */
static __always_inline void announce(struct task_struct *p, __u32 cpu, int stays, __u64 now)
{
	__s32 idle;

	if (!stays) {
		idle = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
		if (idle >= 0)
			scx_bpf_kick_cpu(idle, SCX_KICK_IDLE);
	}
	arm_turn(cpu, now);
}

/* Those who wait in @queue, up to as many as are looked at, are given an idle CPU each. */
__attribute__((noinline)) int pass_on_from(__u64 queue)
{
	struct bpf_iter_scx_dsq it;
	struct task_struct *p;
	__u32 left = look_most;
	__s32 idle;

	if (!scx_bpf_dsq_nr_queued(queue))
		return 0;
	bpf_iter_scx_dsq_new(&it, queue, 0);
	while ((p = bpf_iter_scx_dsq_next(&it))) {
		if (!left--)
			break;
		idle = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
		if (idle < 0)
			break;
		scx_bpf_kick_cpu(idle, SCX_KICK_IDLE);
	}
	bpf_iter_scx_dsq_destroy(&it);
	return 0;
}

static long pass_on_word(__u32 i, struct look *look)
{
	__u64 bits = masks_of(look->cpu, i);

	for_each_mask(n, bits) {
		pass_on_from(QUEUE_OF(ALL + 64 * i + n, LT_SMALL));
		pass_on_from(QUEUE_OF(ALL + 64 * i + n, LT_LARGE));
	}
	return 0;
}

/* Another class has @cpu: who waits and might have run there is to be found by CPUs that sleep. */
__attribute__((noinline)) int pass_on(__u32 cpu)
{
	struct look look = { .cpu = cpu };

	bpf_loop(mask_words(), pass_on_word, &look, 0);
	return 0;
}

#endif
