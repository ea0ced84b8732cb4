/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A number in some bits of a packet's mark, whichever these are: the lowest bit of the number in the lowest of them, and so
 * on. All other bits are others'. The loader makes the steps of the mask (crates/kernel/src/marks/mask.rs): with step i
 * those bits move by 2^i that have to, as in "Hacker's Delight", 7-4 and 7-5.
 */
#ifndef LOWTAIL_MARK_H
#define LOWTAIL_MARK_H

#define MARK_STEPS 5

struct mark {
	lt_u32 mask;			/* the bits that are ours, 0: none */
	lt_u32 steps[MARK_STEPS];	/* which bits move by 1, 2, 4, 8, 16 */
};

/* The number in @mark. */
static __always_inline lt_u32 mark_number(const struct mark *m, lt_u32 mark)
{
	lt_u32 bits = mark & m->mask;

#pragma unroll
	for (int i = 0; i < MARK_STEPS; i++) {
		lt_u32 moved = bits & m->steps[i];

		bits = (bits ^ moved) | moved >> (1 << i);
	}
	return bits;
}

/* @mark with @number in it, which fits; no bit changes that is not ours. */
static __always_inline lt_u32 mark_with(const struct mark *m, lt_u32 mark, lt_u32 number)
{
	lt_u32 bits = number;

#pragma unroll
	for (int i = MARK_STEPS - 1; i >= 0; i--)
		bits = (bits & ~m->steps[i]) | (bits << (1 << i) & m->steps[i]);
	return (mark & ~m->mask) | (bits & m->mask);
}

#endif
