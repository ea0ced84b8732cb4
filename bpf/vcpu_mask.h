/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Distinct affinity masks of threads. Threads with the same mask wait in the same queue: all of them may run on the same
 * CPUs, so a CPU finds who is first without passing anybody whom it may not run, however many wait for other CPUs.
 *
 * Each CPU has a bitmap of the masks that it is in. Mask 0 is that of threads for whose mask there is no number
 * left: they share a queue whatever their masks are, and every CPU is in it from the first of them on. A mask that no thread has any longer is given up
 * with the next pass over all VMs, unless a thread has come to have it meanwhile.
 */
#ifndef LOWTAIL_VCPU_MASK_H
#define LOWTAIL_VCPU_MASK_H

#include "scx.h"
#include "vcpu_state.h"

/*
 * Numbers of queues: twice the CPU, or twice the number of CPUs and of the mask, and 1 for large ones. Those of the first
 * mask are those of all.
 */
#define QUEUE_OF(place, class) (2ull * (place) + ((class) == LT_LARGE))
#define ALL settings.cpus
#define PLACES (settings.cpus + settings.masks)
#define PARKED (2ull * PLACES)
/* Of threads without a slot. */
#define UNREGISTERED (2ull * PLACES + 1)

/* In `threads` of a mask that is nobody's. */
#define NO_MASK (~0u)
/* So often somebody else may count a thread at the same moment. */
#define HOLD_TRIES 8

/* Masks that no thread has, and that have not been given up. */
__u32 unused_masks;
/* Numbers that no mask has. */
__u32 masks_left;
/* Masks have had numbers below this one: no CPU looks at bits from there on. */
__u32 masks_high = 1;
/* Whether somebody has had the first mask. */
__u32 first_mask_used;

/* Words of a CPU's bitmap of masks. */
static __always_inline __u32 mask_words(void)
{
	return (masks_high + 63) / 64;
}

static __always_inline struct mask *mask_of(__u32 mask)
{
	return bpf_map_lookup_elem(&masks, &mask);
}

static __always_inline _Bool mask_has(const struct mask *mask, __u32 cpu)
{
	return cpu < CPUS && mask->cpus.bits[cpu / 64] >> (cpu % 64) & 1;
}

/* To whose bitmap a mask is added, or taken from. */
struct mask_change {
	__u32 mask;
	__u32 gone;
};

static long change_cpu(__u32 cpu, struct mask_change *change)
{
	struct mask *mask = mask_of(change->mask);
	struct cpu *c = cpu_of(cpu);
	__u32 word = change->mask / 64;
	__u64 bit = 1ull << change->mask % 64;

	if (!mask || !c || word >= MASK_WORDS)
		return 1;
	if (!mask_has(mask, cpu))
		return 0;
	if (change->gone)
		__sync_fetch_and_and(&c->masks[word], ~bit);
	else
		__sync_fetch_and_or(&c->masks[word], bit);
	return 0;
}

/* All CPUs of @mask are to look at its queues, or no longer. */
__attribute__((noinline)) int change_cpus(__u32 mask, __u32 gone)
{
	struct mask_change change = { .mask = mask, .gone = gone };

	bpf_loop(settings.cpus, change_cpu, &change, 0);
	return 0;
}

/* CPUs look at bits up to that of @mask. */
static __always_inline void raise_masks_high(__u32 mask)
{
	__u32 high;

	for (int i = 0; i < HOLD_TRIES; i++) {
		high = masks_high;
		if (mask < high ||
		    __sync_val_compare_and_swap(&masks_high, high, mask + 1) == high)
			break;
	}
}

/* Counts one more thread of @mask. Returns 0 if that is being given up. */
__attribute__((noinline)) int hold_mask(__u32 mask)
{
	struct mask *m = mask_of(mask);
	__u32 threads;

	if (!m)
		return 0;
	for (int i = 0; i < HOLD_TRIES; i++) {
		threads = m->threads;
		if (threads == NO_MASK)
			return 0;
		if (__sync_val_compare_and_swap(&m->threads, threads, threads + 1) == threads) {
			if (!threads)
				__sync_fetch_and_add(&unused_masks, -1);
			return 1;
		}
	}
	return 0;
}

/* A thread of @mask has another one now, or has gone. */
static __always_inline void release_mask(__u32 mask)
{
	struct mask *m = mask_of(mask);

	if (mask && m && __sync_fetch_and_add(&m->threads, -1) == 1)
		__sync_fetch_and_add(&unused_masks, 1);
}

static __always_inline void free_mask(__u32 mask)
{
	bpf_map_push_elem(&free_masks, &mask, 0);
	__sync_fetch_and_add(&masks_left, 1);
}

/* A number for the set of CPUs in `wanted_mask`, which has none yet, or had none a moment ago; 0 if there is none left. */
static __always_inline __u32 new_mask(const struct cpu_bits *wanted)
{
	__u32 mask, *known;
	struct mask *m;

	if (bpf_map_pop_elem(&free_masks, &mask))
		return 0;
	__sync_fetch_and_add(&masks_left, -1);
	m = mask_of(mask);
	if (!m)
		return 0;
	m->cpus = *wanted;
	raise_masks_high(mask);
	change_cpus(mask, 0);
	m->threads = 1;
	if (!bpf_map_update_elem(&mask_numbers, wanted, &mask, BPF_NOEXIST))
		return mask;
	/* Another CPU has given it one at the same moment. */
	m->threads = NO_MASK;
	change_cpus(mask, 1);
	free_mask(mask);
	known = bpf_map_lookup_elem(&mask_numbers, wanted);
	return known && hold_mask(*known) ? *known : 0;
}

static __always_inline __u32 look_for_mask(struct task_struct *p)
{
	__u32 zero = 0, bytes = (settings.cpus + 63) / 64 * 8, *known;
	struct cpu_bits *wanted = bpf_map_lookup_elem(&wanted_mask, &zero);

	if (!wanted || bytes > sizeof(*wanted))
		return 0;
	/* The mask itself: `cpus_ptr` is another one while the thread must not leave its CPU. */
	if (bpf_probe_read_kernel(wanted, bytes, &p->cpus_mask))
		return 0;
	if (settings.cpus % 64)
		wanted->bits[settings.cpus / 64] &= (1ull << settings.cpus % 64) - 1;
	known = bpf_map_lookup_elem(&mask_numbers, wanted);
	if (known)
		return hold_mask(*known) ? *known : 0;
	return new_mask(wanted);
}

/* The number of the set of CPUs that @p may run on. Whoever gets it is counted, and releases it in the end. */
static __always_inline __u32 find_mask(struct task_struct *p)
{
	__u32 mask = look_for_mask(p);

	if (!mask && !first_mask_used) {
		first_mask_used = 1;
		change_cpus(0, 0);
	}
	return mask;
}

/* The first mask has all CPUs. */
static __always_inline void begin_first_mask(void)
{
	struct mask *m = mask_of(0);

	if (m)
		__builtin_memset(&m->cpus, 0xff, sizeof(m->cpus));
}

static long give_up_mask(__u32 mask, void *ctx)
{
	struct mask *m = mask_of(mask);

	if (!m || m->threads || __sync_val_compare_and_swap(&m->threads, 0, NO_MASK) != 0)
		return 0;
	__sync_fetch_and_add(&unused_masks, -1);
	bpf_map_delete_elem(&mask_numbers, &m->cpus);
	change_cpus(mask, 1);
	free_mask(mask);
	return 0;
}

/* Gives up those that no thread has. */
__attribute__((noinline)) int give_up_masks(void)
{
	if (unused_masks)
		bpf_loop(settings.masks, give_up_mask, 0, 0);
	return 0;
}

/* From the last to the first, so that the lowest numbers are given first. */
static long begin_mask(__u32 i, __s32 *failed)
{
	__u32 mask = settings.masks - 1 - i;
	struct mask *m = mask_of(mask);

	if (!m)
		return 1;
	m->threads = mask ? NO_MASK : 1;
	if (mask)
		free_mask(mask);
	*failed = scx_bpf_create_dsq(QUEUE_OF(ALL + mask, LT_SMALL), -1);
	if (!*failed)
		*failed = scx_bpf_create_dsq(QUEUE_OF(ALL + mask, LT_LARGE), -1);
	return *failed != 0;
}

#endif
