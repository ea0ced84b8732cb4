/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The life of a thread by the rule: it wakes, is given a stretch, is settled, blocks. Each takes the lock of the thread's
 * VM. The functions are global ones, so that the kernel checks each once for a program, by itself.
 */
#ifndef LOWTAIL_VCPU_RUN_H
#define LOWTAIL_VCPU_RUN_H

#include "vcpu_pool.h"

/*
 * No turn is longer than so much, so that all who want to run have had one before the watchdog comes, even if all of them
 * want the same CPU. Whom a limit stops that has not run for STOPPED_MAX_NS runs for a grain, or a tiny limit on many threads
 * would stop one for longer than that, too; a grain in 5 s is 3 millionths.
 */
static __always_inline __u64 turn_max(void)
{
	return lt_max(ROUND_NS / lt_max(crowd, 1), PARAMS->min_grant_ns);
}

/* A thread without a number runs for so long, once in a turn of the others: a tenth of the time, whatever their number. */
#define FOREIGN_RUN_NS 1000000ull

static __always_inline __u64 unregistered_run(void)
{
	return lt_min(turn_max() / 8, FOREIGN_RUN_NS);
}

/* The VM of @v, if there are both. */
static __always_inline struct vm *vm_of_vcpu(struct vcpu *v)
{
	return v ? vm_of(v->vm) : 0;
}

/* The VM wants so much up to @now. */
static __always_inline void measure(struct vm *vm, __u64 now)
{
	vm->wanted_ns += lt_since(now, vm->measured_ns) * vm->rule.runnable;
	vm->measured_ns = now;
}

/* A thread becomes runnable; @woken if it has slept. */
__attribute__((noinline)) int begins(__u32 slot, __u32 cpu, int woken, __u64 now)
{
	struct vcpu *v = vcpu_of(slot);
	struct cpu *c = cpu_of(cpu);
	struct vm *vm = v && c ? vm_of(v->vm) : 0;

	if (!vm)
		return 0;
	bpf_spin_lock(&vm->lock);
	measure(vm, now);
	if (woken) {
		lt_vcpu_wake(&v->rule, &vm->rule, PARAMS, c->vtime_ns, now);
	} else {
		/* It has only been moved: who could run stays what it is. */
		vm->rule.runnable++;
		v->rule.queued_ns = now;
	}
	v->waits_ns = now;
	bpf_spin_unlock(&vm->lock);
	return 0;
}

/* A thread is no longer runnable; @sleeps if it was it that wanted so. */
__attribute__((noinline)) int ends(__u32 slot, int sleeps, __u64 now)
{
	struct vcpu *v = vcpu_of(slot);
	struct vm *vm = vm_of_vcpu(v);

	if (!vm)
		return 0;
	bpf_spin_lock(&vm->lock);
	measure(vm, now);
	if (sleeps)
		lt_vcpu_block(&v->rule, &vm->rule, now);
	else if (vm->rule.runnable)
		vm->rule.runnable--;
	bpf_spin_unlock(&vm->lock);
	return 0;
}

/*
 * Gives a thread its next stretch, which is then in its stretch_ns. Returns 0 if there is none: a limit stops it until
 * its parked_ns, or it has just become large.
 */
__attribute__((noinline)) int prepare(__u32 slot, __u64 now)
{
	struct vcpu *v = vcpu_of(slot);
	__u64 stretch, when, ready = 0, pool, most = turn_max();
	struct vm *vm;
	int small;

	if (!v)
		return 0;
	vm = vm_of(v->vm);
	if (!vm)
		return 0;
	bpf_spin_lock(&vm->lock);
	v->parked_ns = 0;
	stretch = lt_vcpu_grant(&v->rule, &vm->rule, PARAMS, now);
	if (!stretch) {
		vm->figures.demotions++;
		bpf_spin_unlock(&vm->lock);
		return 0;
	}
	stretch = lt_min(stretch, most);
	when = lt_cap_grant(&v->rule, &vm->rule, PARAMS, stretch, now);
	pool = vm->pool;
	if (when && pool) {
		small = v->rule.class == LT_SMALL;
		bpf_spin_unlock(&vm->lock);
		when = pool_draw(pool, small, lt_min(stretch, when), now);
		if (!when)
			ready = pool_ready(pool, small);
		bpf_spin_lock(&vm->lock);
		v->pool_grant_ns = when;
		if (!when)
			lt_cap_refuse(&v->rule);
	}
	v->pool = pool;
	if (!when && lt_since(now, v->waits_ns) > STOPPED_MAX_NS)
		when = PARAMS->min_grant_ns;
	if (when) {
		v->stretch_ns = lt_min(stretch, when);
		bpf_spin_unlock(&vm->lock);
		return 1;
	}
	/* What it was granted goes back unused. */
	lt_vcpu_charge(&v->rule, &vm->rule, 0, now);
	when = lt_max(lt_cap_when(&v->rule, &vm->rule, PARAMS), ready);
	if (when == LT_NEVER)
		when = now + PARAMS->starvation_boost_ns;
	/* What is owed may be more than it waits for: by then it runs for a grain. */
	when = lt_min(when, v->waits_ns + STOPPED_MAX_NS + 1);
	v->parked_ns = lt_max(when, now + 1);
	vm->figures.parked++;
	bpf_spin_unlock(&vm->lock);
	return 0;
}

/* Gives one that is to run now a stretch. If it is refused as a small one, it is asked again as a large one. */
static __always_inline int prepared(__u32 slot, struct vcpu *v, __u64 now)
{
	return prepare(slot, now) || (!v->parked_ns && prepare(slot, now));
}

/* A thread that was given a stretch does not run after all. */
__attribute__((noinline)) int give_back(__u32 slot, __u64 now)
{
	struct vcpu *v = vcpu_of(slot);
	struct vm *vm;
	__u64 drawn;

	if (!v)
		return 0;
	vm = vm_of(v->vm);
	if (!vm)
		return 0;
	bpf_spin_lock(&vm->lock);
	lt_vcpu_charge(&v->rule, &vm->rule, 0, now);
	v->stretch_ns = 0;
	drawn = v->pool_grant_ns;
	v->pool_grant_ns = 0;
	bpf_spin_unlock(&vm->lock);
	if (drawn)
		pool_charge(v->pool, drawn, 0, now);
	return 0;
}

/* A thread runs from now on; what it is charged for began at @since_ns. */
__attribute__((noinline)) int runs(__u32 slot, __u64 since_ns, __u64 now)
{
	struct vcpu *v = vcpu_of(slot);
	struct lt_hist *hist;
	__u64 waited;
	struct vm *vm;
	__u32 i;

	if (!v)
		return 0;
	vm = vm_of(v->vm);
	hist = bpf_map_lookup_elem(&waits, &v->vm);
	if (!vm || !hist)
		return 0;
	waited = lt_since(now, v->waits_ns);
	i = lt_hist_index(waited);
	bpf_spin_lock(&vm->lock);
	v->since_ns = since_ns;
	hist->count++;
	hist->sum_ns += waited;
	if (waited > hist->max_ns)
		hist->max_ns = waited;
	if (i < LT_HIST_BUCKETS)
		hist->buckets[i]++;
	bpf_spin_unlock(&vm->lock);
	return 0;
}

/* A thread has run up to @now; @stays if it runs on. */
__attribute__((noinline)) int charge(__u32 slot, int stays, __u64 now)
{
	struct vcpu *v = vcpu_of(slot);
	struct vm *vm;
	__u64 ran, drawn;

	if (!v)
		return 0;
	vm = vm_of(v->vm);
	if (!vm)
		return 0;
	bpf_spin_lock(&vm->lock);
	ran = v->since_ns ? lt_since(now, v->since_ns) : 0;
	if (v->rule.class == LT_SMALL)
		vm->figures.small_ns += ran;
	else
		vm->figures.large_ns += ran;
	lt_vcpu_charge(&v->rule, &vm->rule, ran, now);
	v->since_ns = stays ? now : 0;
	v->waits_ns = now;
	drawn = v->pool_grant_ns;
	v->pool_grant_ns = 0;
	bpf_spin_unlock(&vm->lock);
	if (v->pool)
		pool_charge(v->pool, drawn, ran, now);
	return 0;
}

/* A thread that has interrupted somebody on @cpu begins to run there, and pays for that. */
__attribute__((noinline)) int pay(__u32 slot, __u32 cpu)
{
	struct vcpu *v = vcpu_of(slot);
	struct cpu *c = cpu_of(cpu);
	struct vm *vm = v && c ? vm_of(v->vm) : 0;

	if (!vm)
		return 0;
	bpf_spin_lock(&vm->lock);
	v->pays = 0;
	if (lt_preempt_take(&v->rule, &vm->rule, &c->rule, PARAMS))
		vm->figures.preemptions++;
	bpf_spin_unlock(&vm->lock);
	return 0;
}

/* A thread lets others go first. */
__attribute__((noinline)) int yields(__u32 slot)
{
	struct vcpu *v = vcpu_of(slot);
	struct vm *vm = vm_of_vcpu(v);

	if (!vm)
		return 0;
	bpf_spin_lock(&vm->lock);
	lt_vcpu_yield(&v->rule);
	bpf_spin_unlock(&vm->lock);
	return 0;
}

#endif
