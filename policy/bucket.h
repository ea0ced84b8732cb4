/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A token bucket that a BPF program and a simulator can share, and a model
 * checker can prove.
 *
 * Tokens are nanoseconds: of run time where the bucket counts run time, of the
 * price of a preemption where it counts preemptions. The caller passes the
 * clock (ns, any origin) and does the locking.
 *
 * Arithmetic. Time counts in units of 1,024 ns: what does not fill a unit
 * stays on the clock and is counted by the next fill, so that nothing is lost
 * and nothing counted twice. A gap is at most 2^20 units (1.07 s) and a rate
 * at most 2^23, so that the one product there is, gap times rate, stays below
 * 2^43. No other 64-bit product or quotient of variables is on the hot path;
 * CBMC and the verifier of BPF can follow.
 *
 * A clock that steps back adds nothing: the bucket waits until the clock has
 * caught up. If it steps back by more than LT_STEP_BACK_MAX_NS it is taken for
 * a new clock and counted from there on.
 *
 * A long idle adds what LT_GAP_UNITS_MAX units add, at most.
 *
 * What was used beyond what the bucket held is owed: it is filled up to a moment
 * that is yet to come, and adds nothing until then.
 */
#ifndef LOWTAIL_BUCKET_H
#define LOWTAIL_BUCKET_H

typedef unsigned char lt_u8;
typedef unsigned short lt_u16;
typedef unsigned int lt_u32;
typedef unsigned long long lt_u64;

/* For functions that are part of whatever includes them. */
#define LT_FN static inline __attribute__((always_inline, unused))

/* One unit of time is 2^10 ns. */
#define LT_UNIT_SHIFT 10
/* Longest gap that one fill counts, in units: 2^30 ns. */
#define LT_GAP_UNITS_MAX (1u << 20)
/* A clock that steps back by more than this, in ns, is a new clock. */
#define LT_STEP_BACK_MAX_NS (1ull << 30)

/* Rates are ns of tokens per ns of time, 16 bits of them behind the point. */
#define LT_RATE_ONE (1u << 16)
/* Highest rate: 128 pCPUs. */
#define LT_RATE_MAX (128u << 16)
/* From rate times units to ns: 16 bits of fraction, less the 10 of the unit. */
#define LT_GAIN_SHIFT (16 - LT_UNIT_SHIFT)
/* Largest burst, in ns. */
#define LT_BURST_MAX_NS (1u << 30)

/* What a bucket is owed for, at most: more would take the highest rate longer than LT_STEP_BACK_MAX_NS to add. */
#define LT_OWED_MAX_NS (1ull << 37)

/* A moment that does not come. */
#define LT_NEVER (~0ull)

struct lt_bucket {
	lt_u64 tokens_ns;	/* 0 to burst_ns */
	lt_u64 filled_ns;	/* clock up to which it has been filled, or is owed */
	lt_u32 rate;		/* 0 to LT_RATE_MAX */
	lt_u32 burst_ns;	/* most that it holds, 0 to LT_BURST_MAX_NS */
};

LT_FN lt_u64 lt_min(lt_u64 a, lt_u64 b)
{
	return a < b ? a : b;
}

LT_FN lt_u64 lt_max(lt_u64 a, lt_u64 b)
{
	return a > b ? a : b;
}

/* Time from @then to @now, both ns; 0 if the clock has stepped back. */
LT_FN lt_u64 lt_since(lt_u64 now, lt_u64 then)
{
	return now > then ? now - then : 0;
}

/*
 * Tokens, in ns, that @units of time (0 to LT_GAP_UNITS_MAX) add at @rate
 * (0 to LT_RATE_MAX); rounded down, so that two parts of a gap never add more
 * than the whole.
 */
LT_FN lt_u64 lt_gain(lt_u64 units, lt_u32 rate)
{
	return (units * rate) >> LT_GAIN_SHIFT;
}

/* @a / @b rounded up; @b 1 or more, and @a + @b no more than fits. */
LT_FN lt_u64 lt_div_up(lt_u64 a, lt_u32 b)
{
	return (a + b - 1) / b;
}

/*
 * A bucket with @rate and @burst_ns, both clamped to their ranges, that holds
 * @tokens_ns (clamped to the burst) at @now.
 */
LT_FN void lt_bucket_init(struct lt_bucket *b, lt_u32 rate, lt_u32 burst_ns,
			  lt_u64 tokens_ns, lt_u64 now)
{
	b->rate = lt_min(rate, LT_RATE_MAX);
	b->burst_ns = lt_min(burst_ns, LT_BURST_MAX_NS);
	b->tokens_ns = lt_min(tokens_ns, b->burst_ns);
	b->filled_ns = now;
}

/* Adds the tokens of the time up to @now. */
LT_FN void lt_bucket_fill(struct lt_bucket *b, lt_u64 now)
{
	lt_u64 units;

	if (now < b->filled_ns) {
		if (b->filled_ns - now > LT_STEP_BACK_MAX_NS)
			b->filled_ns = now;
		return;
	}
	units = (now - b->filled_ns) >> LT_UNIT_SHIFT;
	if (units > LT_GAP_UNITS_MAX) {
		units = LT_GAP_UNITS_MAX;
		b->filled_ns = now;
	} else {
		b->filled_ns += units << LT_UNIT_SHIFT;
	}
	b->tokens_ns = lt_min(b->tokens_ns + lt_gain(units, b->rate), b->burst_ns);
}

/*
 * Takes up to @want_ns (any value) out of the bucket; returns what was there,
 * 0 to @want_ns. Fill first.
 */
LT_FN lt_u64 lt_bucket_take(struct lt_bucket *b, lt_u64 want_ns)
{
	lt_u64 taken = lt_min(want_ns, b->tokens_ns);

	b->tokens_ns -= taken;
	return taken;
}

/*
 * Puts back @back_ns (any value; what does not fit is lost), the part of an
 * earlier take that was not used.
 */
LT_FN void lt_bucket_give(struct lt_bucket *b, lt_u64 back_ns)
{
	lt_u64 room = b->burst_ns - b->tokens_ns;

	b->tokens_ns += lt_min(back_ns, room);
}

/*
 * Of an empty bucket with a rate, @owed_ns (any value) more have been used at @now
 * than it held: time adds nothing until it has paid for them, but for no longer
 * than LT_STEP_BACK_MAX_NS from @now on. Fill first. Divides: for those who could
 * not be stopped in time.
 */
LT_FN void lt_bucket_owe(struct lt_bucket *b, lt_u64 owed_ns, lt_u64 now)
{
	lt_u64 owed = lt_min(owed_ns, LT_OWED_MAX_NS);
	lt_u64 units = lt_div_up(owed << LT_GAIN_SHIFT, b->rate);

	b->filled_ns = lt_min(b->filled_ns + (units << LT_UNIT_SHIFT),
			      now + LT_STEP_BACK_MAX_NS);
}

/*
 * The moment at which the bucket will hold @want_ns, if nobody takes any: the
 * exact one in the arithmetic of lt_bucket_fill. 0 if it holds them already,
 * LT_NEVER if it never will. Fill first. Not on the path of every decision:
 * it divides.
 */
LT_FN lt_u64 lt_bucket_when(const struct lt_bucket *b, lt_u64 want_ns)
{
	lt_u64 units;

	if (b->tokens_ns >= want_ns)
		return 0;
	if (want_ns > b->burst_ns || !b->rate)
		return LT_NEVER;
	units = lt_div_up((want_ns - b->tokens_ns) << LT_GAIN_SHIFT, b->rate);
	/* A gap of more units counts as LT_GAP_UNITS_MAX: look again then. */
	units = lt_min(units, LT_GAP_UNITS_MAX);
	return b->filled_ns + (units << LT_UNIT_SHIFT);
}

#endif
