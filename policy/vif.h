/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Small first, for the interfaces of a back end: whose packet is next.
 *
 * What an interface sends and receives is counted as line time: 8 ns for each
 * byte, what it takes at 1 Gbit/s. An interface is SMALL for a packet if its
 * bucket holds the packet's line time; the bucket fills at the rate to which it
 * is entitled, up to a burst. Small interfaces go before large ones; among
 * them, the one with the least waiting. Large ones share by bytes, in virtual
 * time.
 *
 * The caller keeps the queues, tells of packets as they come (lt_vif_join, if
 * the interface had none) and go (lt_vif_charge), and asks lt_vif_before.
 * Clocks in ns, below 2^63.
 */
#ifndef LOWTAIL_VIF_H
#define LOWTAIL_VIF_H

#include "bucket.h"

/* Line time of a byte is 2^3 ns. */
#define LT_BYTE_SHIFT 3
/* Longest packet that is counted, in bytes; a longer one counts as this. */
#define LT_BYTES_MAX (1u << 26)

/*
 * Rate 10 Mbit/s and burst 30 KB: what "Small is Better" (SoCC'13) gives a
 * flow; 655 / 65536 of 1 Gbit/s is 10 Mbit/s.
 */
#define LT_VIF_RATE 655
#define LT_VIF_BURST_NS (30000u << LT_BYTE_SHIFT)

struct lt_vif {
	struct lt_bucket small;	/* line time */
	lt_u64 vtime_ns;	/* line time served */
};

/* Line time of @bytes. */
LT_FN lt_u64 lt_line_ns(lt_u32 bytes)
{
	return lt_min(bytes, LT_BYTES_MAX) << LT_BYTE_SHIFT;
}

/* An interface that is entitled to @rate (line time per time, 16.16), with @burst_ns. */
LT_FN void lt_vif_init(struct lt_vif *vif, lt_u32 rate, lt_u32 burst_ns, lt_u64 now)
{
	lt_bucket_init(&vif->small, rate, burst_ns, burst_ns, now);
	vif->vtime_ns = 0;
}

/*
 * @vif, which had no packets waiting, has one; @vtime_ns is the virtual time of
 * the large one served last. It does not start behind that.
 */
LT_FN void lt_vif_join(struct lt_vif *vif, lt_u64 vtime_ns)
{
	vif->vtime_ns = lt_max(vif->vtime_ns, vtime_ns);
}

/* Whether @vif is small for a packet of @bytes at @now: 0 or 1. */
LT_FN int lt_vif_small(struct lt_vif *vif, lt_u32 bytes, lt_u64 now)
{
	lt_bucket_fill(&vif->small, now);
	return vif->small.tokens_ns >= lt_line_ns(bytes);
}

/* A packet of @bytes of @vif is served; what its bucket lacks is not owed. */
LT_FN void lt_vif_charge(struct lt_vif *vif, lt_u32 bytes)
{
	lt_u64 span = lt_line_ns(bytes);

	lt_bucket_take(&vif->small, span);
	vif->vtime_ns += span;
}

/*
 * Whether @a goes before @b: @small_a and @small_b say whether they are small
 * for their next packets, @waiting_a and @waiting_b how many bytes wait.
 */
LT_FN int lt_vif_before(const struct lt_vif *a, int small_a, lt_u64 waiting_a,
			const struct lt_vif *b, int small_b, lt_u64 waiting_b)
{
	if (small_a != small_b)
		return small_a;
	if (small_a && waiting_a != waiting_b)
		return waiting_a < waiting_b;
	return a->vtime_ns < b->vtime_ns;
}

#endif
