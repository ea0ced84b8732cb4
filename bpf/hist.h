/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Log-linear histograms of delays: sixteen buckets to each doubling, so that a bucket is at most a sixteenth as
 * wide as what is in it. crates/kernel/src/histogram.rs reads them.
 */
#ifndef LOWTAIL_HIST_H
#define LOWTAIL_HIST_H

/* Up to 2^38 ns, some four minutes; what is longer is in the last bucket. */
#define LT_HIST_BUCKETS 560u

struct lt_hist {
	__u64 count;
	__u64 sum_ns;
	__u64 max_ns;
	__u32 buckets[LT_HIST_BUCKETS];
};

static __always_inline __u32 lt_log2(__u64 v)
{
	__u32 n = 0;

	if (v >> 32) {
		n += 32;
		v >>= 32;
	}
	if (v >> 16) {
		n += 16;
		v >>= 16;
	}
	if (v >> 8) {
		n += 8;
		v >>= 8;
	}
	if (v >> 4) {
		n += 4;
		v >>= 4;
	}
	if (v >> 2) {
		n += 2;
		v >>= 2;
	}
	return n + (v >> 1);
}

static __always_inline __u32 lt_hist_index(__u64 ns)
{
	__u32 e, index;

	if (ns < 16)
		return ns;
	e = lt_log2(ns);
	index = (e - 3) * 16 + ((ns >> (e - 4)) & 15);
	return index < LT_HIST_BUCKETS ? index : LT_HIST_BUCKETS - 1;
}

#endif
