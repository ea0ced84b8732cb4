/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Limits of control groups above VMs. Each holds for all VMs below together: what one of them is given to run
 * for is taken out of the limits of all groups above its own, and what it has not used goes back. Each limit has its own
 * lock, and only one is held at a time: what one level has given is put back if the next one has less.
 */
#ifndef LOWTAIL_VCPU_POOL_H
#define LOWTAIL_VCPU_POOL_H

#include "vcpu_state.h"

/*
 * Who shares a limit waits for a quarter of what it gives in 10 ms (and for 500 us at least), and runs for no longer: so many
 * may take turns as often as vCPUs of one VM would.
 */
#define POOL_TURNS 4

/* On the way up from the first group with a limit. */
struct draw {
	__u64 id;
	__u64 now;
	__u64 ns;		/* wanted, then given; held, when it is settled */
	__u64 ran_ns;
	__u64 ready;		/* when there is enough again */
	__u64 taken_ns[LEVELS];	/* of each level */
	int small;
};

static long draw_one(__u32 level, struct draw *draw)
{
	struct group *group = group_of(draw->id);

	if (!group || level >= LEVELS)
		return 1;
	bpf_spin_lock(&group->lock);
	draw->ns = lt_cap_take(&group->cap, draw->small, PARAMS->min_grant_ns, draw->ns, draw->now);
	bpf_spin_unlock(&group->lock);
	draw->taken_ns[level] = draw->ns;
	draw->id = group->parent;
	return !draw->ns;
}

static long put_back_one(__u32 level, struct draw *draw)
{
	struct group *group = group_of(draw->id);

	if (!group || level >= LEVELS)
		return 1;
	bpf_spin_lock(&group->lock);
	lt_cap_charge(&group->cap, lt_since(draw->taken_ns[level], draw->ns), 0, draw->now);
	bpf_spin_unlock(&group->lock);
	draw->id = group->parent;
	return 0;
}

static long charge_one(__u32 level, struct draw *draw)
{
	struct group *group = group_of(draw->id);

	if (!group)
		return 1;
	bpf_spin_lock(&group->lock);
	lt_cap_charge(&group->cap, draw->ns, draw->ran_ns, draw->now);
	bpf_spin_unlock(&group->lock);
	draw->id = group->parent;
	return 0;
}

static long ready_one(__u32 level, struct draw *draw)
{
	struct group *group = group_of(draw->id);
	__u64 ready;

	if (!group)
		return 1;
	bpf_spin_lock(&group->lock);
	ready = lt_cap_ready(&group->cap, draw->small, PARAMS->min_grant_ns);
	bpf_spin_unlock(&group->lock);
	draw->ready = lt_max(draw->ready, ready);
	draw->id = group->parent;
	return 0;
}

/* What the limits of group @pool and those above it let one run for, up to @want_ns; 0: it waits until pool_ready(). */
__attribute__((noinline)) __u64 pool_draw(__u64 pool, int small, __u64 want_ns, __u64 now)
{
	struct draw draw = { .id = pool, .now = now, .ns = want_ns, .small = small };

	bpf_loop(LEVELS, draw_one, &draw, 0);
	if (draw.ns == draw.taken_ns[0])
		return draw.ns;
	draw.id = pool;
	bpf_loop(LEVELS, put_back_one, &draw, 0);
	return draw.ns;
}

/* When one that was refused may run again. */
__attribute__((noinline)) __u64 pool_ready(__u64 pool, int small)
{
	struct draw draw = { .id = pool, .small = small };

	bpf_loop(LEVELS, ready_one, &draw, 0);
	return draw.ready;
}

/* One that held @held_ns of them has run for @ran_ns. */
__attribute__((noinline)) int pool_charge(__u64 pool, __u64 held_ns, __u64 ran_ns, __u64 now)
{
	struct draw draw = { .id = pool, .now = now, .ns = held_ns, .ran_ns = ran_ns };

	bpf_loop(LEVELS, charge_one, &draw, 0);
	return 0;
}

#endif
