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
 * the interface had none) and go (lt_vif_charge), and asks lt_vif_before. It
 * asks lt_vif_small for each packet before it charges it: a portion of several
 * packets that began as small ends with the first that is not. Else a short
 * packet would bring long ones behind it past the bucket.
 *
 * Clocks are ns of any origin, below 2^63. One that steps back adds nothing to
 * a bucket, a long idle no more than bucket.h says: 2^30 ns' worth, and never
 * beyond the burst.
 */
#ifndef LOWTAIL_VIF_H
#define LOWTAIL_VIF_H

#include "line.h"

/*
 * Rate 10 Mbit/s and burst 30 KB: what "Small is Better" (SoCC'13) gives a
 * flow; 655 / 65536 of 1 Gbit/s is 10 Mbit/s. A packet longer than the burst is
 * never small.
 */
#define LT_VIF_RATE 655
#define LT_VIF_BURST_NS (30000u << LT_BYTE_SHIFT)

struct lt_vif {
	struct lt_bucket small;	/* line time as a small interface */
	lt_u64 vtime_ns;	/* line time served; any value */
};

/*
 * An interface that is entitled to @rate (line time per time, 16.16; 0 to
 * LT_RATE_MAX) with a burst of @burst_ns (line time, 0 to LT_BURST_MAX_NS), both
 * clamped to their ranges; its bucket is full at @now. Each fill rounds down to
 * 1 ns: a rate below 64 (1 Mbit/s) adds nothing to a bucket that is looked at
 * in each unit of 1,024 ns.
 */
LT_FN void lt_vif_init(struct lt_vif *vif, lt_u32 rate, lt_u32 burst_ns, lt_u64 now)
{
	lt_bucket_init(&vif->small, rate, burst_ns, burst_ns, now);
	vif->vtime_ns = 0;
}

/*
 * @vif, which had no packets waiting, has one; @vtime_ns (line time, any value)
 * is the virtual time of the large one served last. It does not start behind
 * that, nor does it lose what it is ahead by: to leave and to come again gains
 * nothing.
 */
LT_FN void lt_vif_join(struct lt_vif *vif, lt_u64 vtime_ns)
{
	vif->vtime_ns = lt_max(vif->vtime_ns, vtime_ns);
}

/* Whether @vif is small for a packet of @bytes (any value) at @now: 0 or 1. */
LT_FN int lt_vif_small(struct lt_vif *vif, lt_u32 bytes, lt_u64 now)
{
	lt_bucket_fill(&vif->small, now);
	return vif->small.tokens_ns >= lt_line_ns(bytes);
}

/*
 * A packet of @bytes (any value) of @vif is served, as small or as large; what
 * its bucket lacks is not owed. Virtual time ends at 2^64 - 1 ns, after 584
 * years of line time, 5.8 at 100 Gbit/s: it stays there, and who is there goes
 * after all large ones that are not.
 */
LT_FN void lt_vif_charge(struct lt_vif *vif, lt_u32 bytes)
{
	lt_u64 span = lt_line_ns(bytes);

	lt_bucket_take(&vif->small, span);
	vif->vtime_ns += lt_min(span, ~0ull - vif->vtime_ns);
}

/*
 * Whether @a goes before @b, 0 or 1: @small_a and @small_b say whether they are
 * small (not 0) for their next packets, @waiting_a and @waiting_b (any values)
 * how many bytes wait. Small ones go by bytes that wait, then by virtual time;
 * large ones by virtual time.
 *
 * A strict order, whichever of two is asked about first: of those that are equal
 * in all of this neither goes before the other. That tie is the caller's to end;
 * it lasts for one packet, since who is charged is then behind.
 */
LT_FN int lt_vif_before(const struct lt_vif *a, int small_a, lt_u64 waiting_a,
			const struct lt_vif *b, int small_b, lt_u64 waiting_b)
{
	if (!small_a != !small_b)
		return !small_b;
	if (small_a && waiting_a != waiting_b)
		return waiting_a < waiting_b;
	return a->vtime_ns < b->vtime_ns;
}

#endif
