/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Control groups: what each says, as the kernel's callbacks tell it.
 */
#ifndef LOWTAIL_VCPU_GROUP_H
#define LOWTAIL_VCPU_GROUP_H

#include "scx.h"
#include "vcpu_state.h"

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

SEC("struct_ops.s/lowtail_cgroup_init")
__s32 BPF_PROG(lowtail_cgroup_init, struct cgroup *cgrp, struct scx_cgroup_init_args *args)
{
	struct group group = {
		.weight = args->weight,
		.period_us = args->bw_period_us,
		.quota_us = args->bw_quota_us,
		.burst_us = args->bw_burst_us,
	};
	__u64 id = cgrp->kn->id;

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

SEC("struct_ops/lowtail_cgroup_set_weight")
void BPF_PROG(lowtail_cgroup_set_weight, struct cgroup *cgrp, __u32 weight)
{
	struct group *group = group_of(cgrp->kn->id);

	if (group)
		group->weight = weight;
}

SEC("struct_ops/lowtail_cgroup_set_bandwidth")
void BPF_PROG(lowtail_cgroup_set_bandwidth, struct cgroup *cgrp, __u64 period_us, __u64 quota_us,
	      __u64 burst_us)
{
	struct group *group = group_of(cgrp->kn->id);

	if (!group)
		return;
	group->period_us = period_us;
	group->quota_us = quota_us;
	group->burst_us = burst_us;
	__sync_fetch_and_add(&group_changes, 1);
}

#endif
