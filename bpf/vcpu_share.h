/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Weights, limits, and to what each VM is entitled: what crates/host/src/sched/small_first/share.rs does in the
 * simulator, each 10 ms. Weights and limits come from user space (struct vm_order) and from control groups; of two limits
 * the stricter one holds.
 */
#ifndef LOWTAIL_VCPU_SHARE_H
#define LOWTAIL_VCPU_SHARE_H

#include "vcpu_group.h"
#include "vcpu_alarm.h"

/* How often entitlements are worked out: as often as Xen's credit has its tick. */
#define PERIOD_NS 10000000ull
/* A demand follows each measurement by a quarter of the difference: a time constant of 40 ms. */
#define SMOOTHING_SHIFT 2
/* Steps to the level, at most: two or three do for VMs of a few kinds. */
#define LEVEL_STEPS 16

/* What one pass adds up. */
struct pass {
	__u64 now;
	__u64 period_ns;
	__u64 weights;
	__u64 demand;
	__u32 spare;
	__u32 level;
	__u32 runnable;
};

/*
 * Of a step of the search: the weights of those whose demand is not met, and what the others want. Not on the stack, as
 * the kernel's check of a loop would follow each sum that there can be.
 */
__u64 unmet_weights;
__u64 met_demand;
/* In a number, who takes part with which weight: of this pass, and when weights were worked out. */
__u64 sharers;
__u64 shared = ~0ull;
__u32 shared_changes;
/* The weights of those who take part. */
__u64 joined;
/* When the last pass was. */
__u64 passed_ns;
/* When those who have waited too long were looked for last. */
__u64 rescued_ns;

/*
 * Whether @vm takes part in the sharing out between groups: it has wanted something in the last half second, by
 * which its demand has come down to what the average cannot halve any more.
 */
static __always_inline int takes_part(const struct vm *vm)
{
	return vm->demand >> SMOOTHING_SHIFT != 0;
}

/* VM @i is as user space and its group want it, from @now on. Returns its weight, 0 if it is not there. */
__attribute__((noinline)) __u32 refresh(__u32 i, __u64 now)
{
	struct vm_order *order = bpf_map_lookup_elem(&orders, &i);
	__u32 weight, vcpus, turns, wanting, weights = all_weights;
	struct vm *vm = vm_of(i);
	struct rate limit = {}, most;
	struct lt_vm fresh;
	__u64 share;

	if (!order || !vm || (!order->used && !vm->threads))
		return 0;
	if (vm->ordered != order->group) {
		vm->ordered = vm->group = order->group;
		vm->changes = 0;
		vm->effective_weight = 0;
	}
	if (vm->changes != group_changes)
		look_up(i);
	weight = order->weight ? order->weight : vm->group_weight;
	vm->sibling_weight = lt_min(lt_max(weight, 1), LT_WEIGHT_MAX);
	weight = vm->effective_weight ? vm->effective_weight : vm->sibling_weight;
	vcpus = lt_max(order->vcpus, 1);
	limit.rate = order->cap_rate;
	limit.burst_ns = order->cap_burst_ns;
	limit = strictest(limit, vm->within);
	most = strictest(limit, vm->above);
	vm->most = lt_min(lt_min(vcpus, online) * LT_RATE_ONE, most.rate ? most.rate : ~0u);
	/*
	 * Who is one of many waits for many turns, be they more than vCPUs: those of a VM with a crowd of threads would all
	 * have waited too long else, and go before everybody.
	 */
	turns = vm->vcpus == vcpus ? vm->turns : vcpus;
	wanting = vm->rule.runnable;
	if (wanting > turns || 2 * wanting < turns)
		turns = lt_max(wanting, vcpus);
	if (vm->ready && vm->weight == weight && vm->vcpus == vcpus && vm->turns == turns &&
	    vm->weights == weights && same(vm->limit, limit))
		return weight;
	share = ((__u64)online * LT_RATE_ONE * weight) / lt_max(weights, weight);
	/*
	 * Read anew: of a number that is none or a single bit, Linux 6.18 says "verifier bug" in its log where a comparison
	 * leaves neither.
	 */
	share = lt_min(share, *(volatile __u32 *)&vm->most);
	lt_vm_init(&fresh, PARAMS, weight, turns, share, now);
	fresh.wait_max_ns = lt_min(fresh.wait_max_ns, WAIT_MAX_NS);
	fresh.cap = cap_of(limit, vcpus, now);
	bpf_spin_lock(&vm->lock);
	if (!vm->ready) {
		vm->rule = fresh;
		vm->measured_ns = now;
	} else {
		vm->rule.inv_weight = fresh.inv_weight;
		vm->rule.wait_max_ns = fresh.wait_max_ns;
		/* Its part of all preemptions is that of its weight beside those who are there now. */
		lt_bucket_fill(&vm->rule.preempt, now);
		vm->rule.preempt.rate = fresh.preempt.rate;
		if (!same(vm->limit, limit))
			vm->rule.cap = fresh.cap;
	}
	vm->limit = limit;
	vm->ready = 1;
	bpf_spin_unlock(&vm->lock);
	vm->weight = weight;
	vm->vcpus = vcpus;
	vm->turns = turns;
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
	limit = strictest(limit, limit_of(group_of(member->group)));
	if (same(v->limit, limit))
		return;
	fresh = cap_of(limit, 1, now);
	bpf_spin_lock(&vm->lock);
	v->rule.cap = fresh;
	v->limit = limit;
	bpf_spin_unlock(&vm->lock);
}

/*
 * What VM @i wants, from now on measured anew. Returns its weight, 0 if it is not there. A function of its own, which
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
	sharers = sharers * 31 + 2 * vm->sibling_weight + takes_part(vm);
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
	pass->runnable += vm->rule.runnable;
	return 0;
}

/* Adds what VM @i weighs to the groups above it, if it takes part. */
static long join_one(__u32 i, void *ctx)
{
	struct vm *vm = vm_of(i);

	if (vm && takes_part(vm)) {
		join(parent_of(vm), vm->sibling_weight);
		joined += vm->sibling_weight;
	}
	return 0;
}

/*
 * Its weight beside all VMs: its part of the host times all weights, so that it is its own one where all are in one
 * group. One that does not take part has what it would have if it did.
 */
static long weigh_one(__u32 i, void *ctx)
{
	struct vm *vm = vm_of(i);
	__u64 all = joined;
	__u32 more;

	if (!vm || !vm->sibling_weight)
		return 0;
	more = takes_part(vm) ? 0 : vm->sibling_weight;
	all = lt_min(all + more, WEIGHTS_MAX);
	all = (part_of(parent_of(vm), vm->sibling_weight, more) * all + PART_ONE / 2) / PART_ONE;
	vm->effective_weight = lt_min(lt_max(all, 1), LT_WEIGHT_MAX);
	return 0;
}

/* Works out what each VM weighs beside all others, if that may have changed. It holds from the next pass on. */
__attribute__((noinline)) int weigh(void)
{
	__u32 changes = group_changes;

	if (sharers == shared && changes == shared_changes)
		return 0;
	shared = sharers;
	shared_changes = changes;
	sharing++;
	joined = 0;
	bpf_loop(known_vms(), join_one, 0, 0);
	bpf_loop(known_vms(), weigh_one, 0, 0);
	return 0;
}

static long level_one(__u32 i, struct pass *pass)
{
	struct vm *vm = vm_of(i);

	if (!vm)
		return 0;
	if (lt_share_at(~0u, vm->weight, pass->level) < vm->demand)
		unmet_weights += vm->weight;
	else
		met_demand += vm->demand;
	return 0;
}

/* The level at which those whose demand @level does not meet share what the others leave; @level if there are none. */
__attribute__((noinline)) __u32 next_level(__u32 level, __u32 capacity)
{
	struct pass pass = { .level = level };

	unmet_weights = 0;
	met_demand = 0;
	bpf_loop(known_vms(), level_one, &pass, 0);
	if (!unmet_weights)
		return level;
	return lt_min((lt_since(capacity, met_demand) << 16) / unmet_weights, ~0u);
}

/*
 * The level at which all together get what there is. It starts from where nobody's demand is met, and each step meets
 * more of them; one that meets nobody more is the last. Steps go up and never past the level: what is left
 * when LEVEL_STEPS are over is kept back, and not given twice. The simulator searches for the same by halves,
 * which takes 32 steps.
 */
__attribute__((noinline)) __u32 level_of(__u32 capacity)
{
	__u32 level = 0, next;

	for (int step = 0; step < LEVEL_STEPS; step++) {
		next = next_level(level, capacity);
		if (next == level)
			break;
		level = next;
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

	bpf_loop(known_vms(), entitle_one, &pass, 0);
	return 0;
}

/* Works out what everybody is entitled to. */
__attribute__((noinline)) int account(__u64 now)
{
	struct pass pass = { .now = now };
	__u32 capacity = online * LT_RATE_ONE, spare = 0, level;

	pass.period_ns = lt_max(lt_since(now, passed_ns), 1);
	passed_ns = now;
	sharers = 0;
	bpf_loop(known_vms(), measure_one, &pass, 0);
	crowd = pass.runnable + scx_bpf_dsq_nr_queued(UNREGISTERED);
	if (lt_since(now, rescued_ns) > RESCUE_NS) {
		rescued_ns = now;
		rescue(now);
	}
	give_up_masks();
	weigh();
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
