/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Control groups: what each says, as the kernel's callbacks tell it, and what that comes to for a VM. A VM
 * shares with its siblings what their group has, as threads of the kernel's own scheduler do.
 */
#ifndef LOWTAIL_VCPU_GROUP_H
#define LOWTAIL_VCPU_GROUP_H

#include "scx.h"
#include "vcpu_pool.h"

/* cpu.weight of a group that nobody has changed (Documentation/admin-guide/cgroup-v2.rst). */
#define GROUP_WEIGHT_USUAL 100
/* The whole host, in parts. */
#define PART_ONE (1ull << 32)
/* Above what weights add up to, and times PART_ONE no more than fits. */
#define WEIGHTS_MAX ((1ull << 31) - 1)

/* The group above all others. */
__u64 root_group;
/* Counts how often it was worked out who shares with whom. */
__u32 sharing = 1;

/* The limit that a group says, none if it says none or is none. */
static __always_inline struct rate limit_of(const struct group *group)
{
	struct rate limit = {};
	__u64 rate, burst;

	if (!group || group->quota_us >= RUN_TIME_MAX_US || !group->period_us)
		return limit;
	rate = lt_min(group->quota_us * LT_RATE_ONE / group->period_us, LT_RATE_MAX);
	burst = lt_min(group->quota_us, LT_BURST_MAX_NS / 1000);
	burst += lt_min(group->burst_us, LT_BURST_MAX_NS / 1000);
	limit.rate = lt_max(rate, 1);
	limit.burst_ns = lt_min(burst * 1000, LT_BURST_MAX_NS);
	return limit;
}

/* The stricter of two limits. */
static __always_inline struct rate strictest(struct rate a, struct rate b)
{
	return b.rate && (!a.rate || b.rate < a.rate) ? b : a;
}

/*
 * A limit saves up so many grains at least, and lets one run for half of them: of a tiny one a turn would be so short else
 * that switches and timers, which come too late by some microseconds, were most of it. Not so for 1.4 % and more.
 */
#define LIMIT_GRAINS 16

static __always_inline struct lt_cap cap_of(struct rate limit, __u32 vcpus, __u64 now)
{
	__u64 least = (__u64)PARAMS->min_grant_ns * LIMIT_GRAINS;
	struct lt_cap cap;

	lt_cap_init(&cap, limit.rate, lt_max(limit.burst_ns, least), vcpus, now);
	return cap;
}

/* What those in groups below @group share. */
static __always_inline struct lt_cap pool_of(const struct group *group, __u64 now)
{
	return cap_of(limit_of(group), POOL_TURNS, now);
}

static __always_inline int same(struct rate a, struct rate b)
{
	return a.rate == b.rate && a.burst_ns == b.burst_ns;
}

/* The weight of a group in those of the rule. */
static __always_inline __u32 weight_of(const struct group *group)
{
	__u64 weight = (__u64)group->weight * LT_WEIGHT_USUAL / GROUP_WEIGHT_USUAL;

	return lt_min(lt_max(weight, 1), LT_WEIGHT_MAX);
}

/* On the way up from a group. */
struct climb {
	__u64 id;		/* where it is */
	struct rate above;	/* the strictest limit so far */
	__u64 pool;		/* the first with a limit, 0: none so far */
	__u64 part;		/* of the host, of PART_ONE */
	__u32 weight;		/* of who comes from below */
	__u32 more;		/* what it brings that does not take part yet */
	__u64 top;
	int found;
};

static long limit_one(__u32 level, struct climb *climb)
{
	struct group *group = group_of(climb->id);

	if (!group)
		return 1;
	climb->above = strictest(climb->above, limit_of(group));
	if (!climb->pool && climb->above.rate)
		climb->pool = climb->id;
	climb->id = group->parent;
	return 0;
}

/* What the groups of VM @i say, its own and those above it. */
__attribute__((noinline)) int look_up(__u32 i)
{
	struct vm *vm = vm_of(i);
	struct climb climb = {};
	struct group *group;

	if (!vm)
		return 0;
	vm->changes = group_changes;
	group = group_of(vm->group);
	vm->group_weight = group ? weight_of(group) : LT_WEIGHT_USUAL;
	vm->within = limit_of(group);
	climb.id = group ? group->parent : 0;
	bpf_loop(LEVELS, limit_one, &climb, 0);
	vm->above = strictest(vm->within, climb.above);
	vm->pool = climb.pool;
	return 0;
}

/* The group above that of @vm; one without a group is right below the first. */
static __always_inline __u64 parent_of(const struct vm *vm)
{
	struct group *group = group_of(vm->group);

	return group ? group->parent : root_group;
}

static long join_group(__u32 level, struct climb *climb)
{
	struct group *group = group_of(climb->id);

	if (!group)
		return 1;
	if (group->sharing == sharing) {
		group->weights += climb->weight;
		return 1;
	}
	group->sharing = sharing;
	group->weights = climb->weight;
	climb->weight = weight_of(group);
	climb->id = group->parent;
	return 0;
}

/* One of @weight takes part in group @parent, and that in those above. */
__attribute__((noinline)) int join(__u64 parent, __u32 weight)
{
	struct climb climb = { .id = parent, .weight = weight };

	bpf_loop(LEVELS, join_group, &climb, 0);
	return 0;
}

static long part_one(__u32 level, struct climb *climb)
{
	struct group *group = group_of(climb->id);
	__u64 all = climb->more;

	if (!group)
		return 1;
	if (group->sharing == sharing)
		all += group->weights;
	all = lt_min(lt_max(all, climb->weight), WEIGHTS_MAX);
	climb->part = climb->part * climb->weight / all;
	climb->weight = weight_of(group);
	/* A group that takes part brings those above it along. */
	climb->more = group->sharing == sharing ? 0 : climb->weight;
	climb->id = group->parent;
	return 0;
}

/* The part of the host, of PART_ONE, of one of @weight in group @parent, where @more are to take part than do. */
__attribute__((noinline)) __u64 part_of(__u64 parent, __u32 weight, __u32 more)
{
	struct climb climb = { .id = parent, .part = PART_ONE, .weight = weight, .more = more };

	bpf_loop(LEVELS, part_one, &climb, 0);
	return climb.part;
}

static long find_one(__u32 level, struct climb *climb)
{
	struct group *group;

	if (climb->id == climb->top) {
		climb->found = 1;
		return 1;
	}
	group = group_of(climb->id);
	if (!group)
		return 1;
	climb->id = group->parent;
	return 0;
}

/* Whether group @id is @top or below it. */
__attribute__((noinline)) int below(__u64 id, __u64 top)
{
	struct climb climb = { .id = id, .top = top };

	bpf_loop(LEVELS, find_one, &climb, 0);
	return climb.found;
}

SEC("struct_ops.s/lowtail_cgroup_init")
__s32 BPF_PROG(lowtail_cgroup_init, struct cgroup *cgrp, struct scx_cgroup_init_args *args)
{
	struct group group = {
		.weight = args->weight,
		.period_us = args->bw_period_us,
		.quota_us = args->bw_quota_us,
		.burst_us = args->bw_burst_us,
	};
	struct cgroup_subsys_state *above = cgrp->self.parent;
	__u64 id = cgrp->kn->id;

	group.cap = pool_of(&group, bpf_ktime_get_ns());
	if (above)
		group.parent = BPF_CORE_READ(above, cgroup, kn, id);
	else
		root_group = id;
	/* A group for which there is no room has no say here. */
	bpf_map_update_elem(&groups, &id, &group, BPF_ANY);
	__sync_fetch_and_add(&group_changes, 1);
	return 0;
}

SEC("struct_ops.s/lowtail_cgroup_exit")
void BPF_PROG(lowtail_cgroup_exit, struct cgroup *cgrp)
{
	__u64 id = cgrp->kn->id;

	bpf_map_delete_elem(&groups, &id);
	__sync_fetch_and_add(&group_changes, 1);
}

/*
 * A VM moves with its first thread, when that leaves the VM's group and those below. A thread that has a
 * group for itself has the limit of where it is now.
 */
SEC("struct_ops/lowtail_cgroup_move")
void BPF_PROG(lowtail_cgroup_move, struct task_struct *p, struct cgroup *from, struct cgroup *to)
{
	struct member *member = bpf_task_storage_get(&members, p, 0, 0);
	__u64 id = to->kn->id, left = from->kn->id;
	struct vm *vm;

	if (!member || !member->slot)
		return;
	vm = vm_of(member->vm);
	if (!vm)
		return;
	if (!vm->lead)
		vm->lead = member->slot;
	if (vm->lead == member->slot && vm->group && below(left, vm->group) &&
	    !below(id, vm->group))
		vm->group = id;
	if (member->group)
		member->group = id;
	__sync_fetch_and_add(&group_changes, 1);
}

SEC("struct_ops/lowtail_cgroup_set_weight")
void BPF_PROG(lowtail_cgroup_set_weight, struct cgroup *cgrp, __u32 weight)
{
	struct group *group = group_of(cgrp->kn->id);

	if (!group)
		return;
	group->weight = weight;
	__sync_fetch_and_add(&group_changes, 1);
}

SEC("struct_ops/lowtail_cgroup_set_bandwidth")
void BPF_PROG(lowtail_cgroup_set_bandwidth, struct cgroup *cgrp, __u64 period_us, __u64 quota_us,
	      __u64 burst_us)
{
	struct group *group = group_of(cgrp->kn->id);
	struct lt_cap cap;

	if (!group)
		return;
	group->period_us = period_us;
	group->quota_us = quota_us;
	group->burst_us = burst_us;
	cap = pool_of(group, bpf_ktime_get_ns());
	bpf_spin_lock(&group->lock);
	group->cap = cap;
	bpf_spin_unlock(&group->lock);
	__sync_fetch_and_add(&group_changes, 1);
}

#endif
