/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Weights, limits, and to what each machine is entitled: what crates/host/src/sched/small_first/share.rs does in the
 * simulator, each 10 ms. Weights and limits come from user space (struct vm_order) and from control groups; of two limits
 * the stricter one holds.
 */
#ifndef LOWTAIL_VCPU_SHARE_H
#define LOWTAIL_VCPU_SHARE_H

#include "vcpu_run.h"

/* How often entitlements are worked out: as often as Xen's credit has its tick. */
#define PERIOD_NS 10000000ull
/* A demand follows each measurement by a quarter of the difference: a time constant of 40 ms. */
#define SMOOTHING_SHIFT 2
/* Steps of the search for the level; it starts from 32 bits. */
#define SEARCH_STEPS 32
/* cpu.weight of a group that nobody has changed (Documentation/admin-guide/cgroup-v2.rst). */
#define GROUP_WEIGHT_USUAL 100

/* What one pass adds up. */
struct pass {
	__u64 now;
	__u64 period_ns;
	__u64 weights;
	__u64 demand;
	__u64 served;
	__u32 spare;
	__u32 level;
};

/* When the last pass was. */
__u64 passed_ns;

static __always_inline struct group *group_of(__u64 id)
{
	return id ? bpf_map_lookup_elem(&groups, &id) : 0;
}

/* The stricter of @limit and what a group says. */
static __always_inline struct rate stricter(struct rate limit, const struct group *group)
{
	__u64 rate, burst;

	if (!group || group->quota_us >= RUN_TIME_MAX_US || !group->period_us)
		return limit;
	rate = lt_min(group->quota_us * LT_RATE_ONE / group->period_us, LT_RATE_MAX);
	rate = lt_max(rate, 1);
	if (limit.rate && limit.rate <= rate)
		return limit;
	burst = lt_min(group->quota_us, LT_BURST_MAX_NS / 1000);
	burst += lt_min(group->burst_us, LT_BURST_MAX_NS / 1000);
	limit.rate = rate;
	limit.burst_ns = lt_min(burst * 1000, LT_BURST_MAX_NS);
	return limit;
}

static __always_inline int same(struct rate a, struct rate b)
{
	return a.rate == b.rate && a.burst_ns == b.burst_ns;
}

/* Machine @i is as user space and its group want it, from @now on. Returns its weight, 0 if it is not there. */
__attribute__((noinline)) __u32 refresh(__u32 i, __u64 now)
{
	struct vm_order *order = bpf_map_lookup_elem(&orders, &i);
	__u32 weight, vcpus, weights = all_weights;
	struct vm *vm = vm_of(i);
	struct rate limit = {};
	struct lt_vm fresh;
	struct group *group;
	__u64 share;

	if (!order || !vm || (!order->used && !vm->threads))
		return 0;
	group = group_of(order->group);
	weight = order->weight;
	if (!weight)
		weight = group ? group->weight * LT_WEIGHT_USUAL / GROUP_WEIGHT_USUAL :
				 LT_WEIGHT_USUAL;
	weight = lt_min(lt_max(weight, 1), LT_WEIGHT_MAX);
	vcpus = lt_max(order->vcpus, 1);
	limit.rate = order->cap_rate;
	limit.burst_ns = order->cap_burst_ns;
	limit = stricter(limit, group);
	if (vm->ready && vm->weight == weight && vm->vcpus == vcpus && vm->weights == weights &&
	    same(vm->limit, limit))
		return weight;
	share = ((__u64)online * LT_RATE_ONE * weight) / lt_max(weights, weight);
	vm->most = lt_min(lt_min(vcpus, online) * LT_RATE_ONE, limit.rate ? limit.rate : ~0u);
	share = lt_min(share, vm->most);
	lt_vm_init(&fresh, PARAMS, weight, vcpus, share, now);
	lt_cap_init(&fresh.cap, limit.rate, limit.burst_ns, vcpus, now);
	bpf_spin_lock(&vm->lock);
	if (!vm->ready) {
		vm->rule = fresh;
		vm->measured_ns = now;
	} else {
		vm->rule.charge = fresh.charge;
		vm->rule.wait_max_ns = fresh.wait_max_ns;
		if (!same(vm->limit, limit))
			vm->rule.cap = fresh.cap;
	}
	vm->limit = limit;
	vm->ready = 1;
	bpf_spin_unlock(&vm->lock);
	vm->weight = weight;
	vm->vcpus = vcpus;
	vm->weights = weights;
	return weight;
}

/* The own limit of thread @p is as user space and its group want it. */
static __always_inline void own_limit(struct task_struct *p, struct vcpu *v, __u64 now)
{
	__u32 changes = group_changes;
	struct rate limit = {};
	struct member *member;
	struct lt_cap fresh;
	struct vm *vm;

	if (v->limits == changes)
		return;
	member = bpf_task_storage_get(&members, p, 0, 0);
	vm = vm_of(v->vm);
	if (!member || !vm)
		return;
	v->limits = changes;
	limit.rate = member->cap_rate;
	limit.burst_ns = member->cap_burst_ns;
	limit = stricter(limit, group_of(member->group));
	if (same(v->limit, limit))
		return;
	lt_cap_init(&fresh, limit.rate, limit.burst_ns, 1, now);
	bpf_spin_lock(&vm->lock);
	v->rule.cap = fresh;
	v->limit = limit;
	bpf_spin_unlock(&vm->lock);
}

/*
 * What machine @i wants, from now on measured anew. Returns its weight, 0 if it is not there. A function of its own, which
 * is checked once: as the body of a loop it has too many ways through it for Linux 7.3.
 */
__attribute__((noinline)) __u32 measure_anew(__u32 i, __u64 period_ns, __u64 now)
{
	__u32 weight = refresh(i, now);
	struct vm *vm = vm_of(i);
	__u64 rate;

	if (!weight || !vm)
		return 0;
	bpf_spin_lock(&vm->lock);
	measure(vm, now);
	rate = vm->wanted_ns;
	vm->wanted_ns = 0;
	bpf_spin_unlock(&vm->lock);
	rate = lt_min((rate << 16) / lt_max(period_ns, 1), vm->most);
	vm->demand = vm->demand - (vm->demand >> SMOOTHING_SHIFT) + (rate >> SMOOTHING_SHIFT);
	return weight;
}

static long measure_one(__u32 i, struct pass *pass)
{
	__u32 weight = measure_anew(i, pass->period_ns, pass->now);
	struct vm *vm = vm_of(i);

	if (!weight || !vm)
		return 0;
	pass->weights += weight;
	pass->demand += vm->demand;
	return 0;
}

static long serve_one(__u32 i, struct pass *pass)
{
	struct vm *vm = vm_of(i);

	if (vm && vm->demand)
		pass->served += lt_served(vm->demand, vm->weight, pass->level);
	return 0;
}

/* What all together would get at @level. */
__attribute__((noinline)) __u64 served_at(__u32 level)
{
	struct pass pass = { .level = level };

	bpf_loop(known_vms, serve_one, &pass, 0);
	return pass.served;
}

/* The highest level at which no more is served than there is. */
__attribute__((noinline)) __u32 level_of(__u32 capacity)
{
	__u32 level = 0, higher;

	for (int step = SEARCH_STEPS - 1; step >= 0; step--) {
		higher = level | 1u << step;
		if (served_at(higher) <= capacity)
			level = higher;
	}
	return level;
}

static long entitle_one(__u32 i, struct pass *pass)
{
	struct vm *vm = vm_of(i);
	__u32 rate;

	if (!vm || !vm->ready)
		return 0;
	rate = lt_entitled(vm->demand, vm->weight, pass->level, pass->spare, vm->most);
	bpf_spin_lock(&vm->lock);
	lt_vm_entitle(&vm->rule, rate, pass->now);
	bpf_spin_unlock(&vm->lock);
	return 0;
}

__attribute__((noinline)) int entitle_all(__u32 level, __u32 spare, __u64 now)
{
	struct pass pass = { .level = level, .spare = spare, .now = now };

	bpf_loop(known_vms, entitle_one, &pass, 0);
	return 0;
}

/* Works out what everybody is entitled to. */
__attribute__((noinline)) int account(__u64 now)
{
	struct pass pass = { .now = now };
	__u32 capacity = online * LT_RATE_ONE, spare = 0, level;

	pass.period_ns = lt_max(lt_since(now, passed_ns), 1);
	passed_ns = now;
	bpf_loop(known_vms, measure_one, &pass, 0);
	all_weights = lt_max(pass.weights, 1);
	if (pass.demand < capacity) {
		/* With room to spare, the level is that of everybody wanting everything. */
		spare = capacity - pass.demand;
		level = lt_min(((__u64)capacity << 16) / all_weights, ~0u);
	} else {
		level = level_of(capacity);
	}
	return entitle_all(level, spare, now);
}

static int account_timer(void *map, __u32 *key, struct alarm *alarm)
{
	account(bpf_ktime_get_ns());
	bpf_timer_start(&alarm->timer, PERIOD_NS, 0);
	return 0;
}

#endif
