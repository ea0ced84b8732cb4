/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Line time: what bytes cost wherever packets are served. 8 ns for each byte,
 * what it takes at 1 Gbit/s, so that a bucket of line time fills at a part of
 * that rate.
 */
#ifndef LOWTAIL_LINE_H
#define LOWTAIL_LINE_H

#include "bucket.h"

/* Line time of a byte is 2^3 ns. */
#define LT_BYTE_SHIFT 3
/*
 * Packets count as no less than the shortest frame of Ethernet, so that none is
 * free, and as no more than 2^26 bytes.
 */
#ifndef LT_BYTES_MIN /* so that a test can differ */
#define LT_BYTES_MIN 64u
#endif
#define LT_BYTES_MAX (1u << 26)

/* What a packet of @bytes (any value) counts as: LT_BYTES_MIN to LT_BYTES_MAX. */
LT_FN lt_u64 lt_line_bytes(lt_u32 bytes)
{
	return lt_min(lt_max(bytes, LT_BYTES_MIN), LT_BYTES_MAX);
}

/* Line time, in ns, of a packet of @bytes (any value): 2^9 to 2^29. */
LT_FN lt_u64 lt_line_ns(lt_u32 bytes)
{
	return lt_line_bytes(bytes) << LT_BYTE_SHIFT;
}

#endif
