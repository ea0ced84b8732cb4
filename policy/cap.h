/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Limits on run time, of a VM as a whole and of each of its vCPUs: what quota,
 * period and burst are elsewhere.
 *
 * A limit is a bucket of run time that fills all the time. Who has run up to it
 * does not wait for a period to end, but until there is enough for a turn: a VM's
 * vCPUs take turns, and no quota stops all of them for long. A part of what there
 * is is for small vCPUs, so that one that computes does not stop one that
 * answers.
 */
#ifndef LOWTAIL_CAP_H
#define LOWTAIL_CAP_H

#include "bucket.h"

/*
 * Time of a limit's quota: Xen's credit2 has the same 10 ms. The bucket holds two
 * quotas at least: what comes in while one waits for somebody's turn to end must
 * not be lost, or a cap near its share by weight would be 3 % off.
 */
#define LT_CAP_PERIOD_NS 10000000u
/* Shortest run under a limit, if the bucket is not smaller: 500 us as in credit2. */
#define LT_CAP_RUN_NS 500000u

struct lt_cap {
	struct lt_bucket run;	/* run time; with the rate 0 there is no limit */
	lt_u32 turn_ns;		/* what one waits for that has run up to it */
	lt_u32 small_reserve_ns;	/* part that is for small ones */
};

/*
 * A limit of @rate (any value, 0: none) for @vcpus (0 counts as 1) that saves up
 * to @burst_ns (any value), if that is more than two quotas of 10 ms: a quota of
 * another period, with what may be left over of those before it. Divides; not for
 * hot paths.
 */
LT_FN void lt_cap_init(struct lt_cap *cap, lt_u32 rate, lt_u32 burst_ns, lt_u32 vcpus,
		       lt_u64 now)
{
	lt_u64 quota, turn, most;

	rate = lt_min(rate, LT_RATE_MAX);
	quota = lt_min(((lt_u64)LT_CAP_PERIOD_NS * rate) >> 16, LT_BURST_MAX_NS / 2);
	most = rate ? lt_max(2 * quota, lt_min(burst_ns, LT_BURST_MAX_NS)) : 0;
	lt_bucket_init(&cap->run, rate, most, quota, now);
	cap->small_reserve_ns = quota / 4;
	turn = lt_max(quota / lt_max(vcpus, 1), LT_CAP_RUN_NS);
	cap->turn_ns = lt_min(turn, lt_max(most / 2, 1) - cap->small_reserve_ns);
}

LT_FN int lt_capped(const struct lt_cap *cap)
{
	return cap->run.rate != 0;
}

/*
 * What the limit lets a vCPU run for, @small or not: LT_NEVER if there is none, 0
 * if it has to wait. @min_grant_ns: less is nothing.
 */
LT_FN lt_u64 lt_cap_there(struct lt_cap *cap, int small, lt_u32 min_grant_ns, lt_u64 now)
{
	lt_u64 there;

	if (!lt_capped(cap))
		return LT_NEVER;
	lt_bucket_fill(&cap->run, now);
	there = lt_since(cap->run.tokens_ns, small ? 0 : cap->small_reserve_ns);
	return there < lt_min(min_grant_ns, cap->turn_ns) ? 0 : there;
}

/*
 * Takes what a vCPU may run for, up to @want_ns and for no longer than a turn; all of @want_ns if there is no limit, 0 if
 * it has to wait until lt_cap_ready.
 */
LT_FN lt_u64 lt_cap_take(struct lt_cap *cap, int small, lt_u32 min_grant_ns, lt_u64 want_ns,
			 lt_u64 now)
{
	lt_u64 there = lt_cap_there(cap, small, min_grant_ns, now);

	if (there == LT_NEVER)
		return want_ns;
	there = lt_min(there, lt_max(cap->turn_ns, min_grant_ns));
	return lt_bucket_take(&cap->run, lt_min(there, want_ns));
}

/*
 * When one that had to wait may run again: with enough for a turn, or for 500 us
 * if it is @small. 0 is now. Fill first.
 */
LT_FN lt_u64 lt_cap_ready(const struct lt_cap *cap, int small, lt_u32 min_grant_ns)
{
	lt_u64 least = lt_max(min_grant_ns, LT_CAP_RUN_NS);

	if (!lt_capped(cap))
		return 0;
	if (small)
		return lt_bucket_when(&cap->run, lt_min(least, cap->turn_ns));
	return lt_bucket_when(&cap->run, (lt_u64)cap->small_reserve_ns + cap->turn_ns);
}

/*
 * One that held @held_ns of it has run for @ran_ns up to @now. Who could not be
 * stopped in time has run for longer than it might: all of it counts, or a timer
 * that comes late would lift the limit.
 */
LT_FN void lt_cap_charge(struct lt_cap *cap, lt_u64 held_ns, lt_u64 ran_ns, lt_u64 now)
{
	lt_u64 used = lt_min(ran_ns, held_ns), over = ran_ns - used;

	if (!lt_capped(cap))
		return;
	lt_bucket_fill(&cap->run, now);
	lt_bucket_give(&cap->run, held_ns - used);
	over -= lt_bucket_take(&cap->run, over);
	if (over)
		lt_bucket_owe(&cap->run, over, now);
}

#endif
