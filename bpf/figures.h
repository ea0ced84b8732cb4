/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What all parts of path.bpf.c share: its constants, the VMs' figures, and
 * what was not followed. crates/observe/src/network/ reads them.
 */
#ifndef LOWTAIL_FIGURES_H
#define LOWTAIL_FIGURES_H

#define CLAIMED 1ull		/* a key while its entry is written */

struct config {
	__u64 seed;
	__u32 packet_mask;	/* sets of `packets`, less 1 */
	__u32 flow_mask;	/* of `flows` */
	__u32 named;		/* uplinks are those that the loader has named */
	__u32 pad;
};
const volatile struct config config SEC(".rodata.config");

/* The packet of a VM that is followed, of those that go one way: ahead.h. */
struct probe {
	__u64 key;		/* 0 if there is none */
	__u64 since_ns;		/* when it came, or the one before */
	__u64 delay_ns;		/* the longest of late: it shrinks with each packet that waits less */
};

/* A VM's figures. */
struct slot {
	__u64 epoch;		/* how often the slot was given away; what is of an older one is not counted */
	__u64 packets;
	__u64 bytes;
	__u64 received_packets;
	struct probe sent;
	struct probe received;
	struct lt_hist queue;
	struct lt_hist beyond;
	struct lt_hist ring;	/* of what it received: receive.h */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);	/* as many as the loader wants; so below */
	__type(key, __u32);
	__type(value, struct slot);
} slots SEC(".maps");

/* What was not followed. */
struct lost {
	__u64 packets;		/* forgotten for want of room, or not seen leaving */
	__u64 odd;		/* segments that are not whole */
	__u64 drops;		/* reasons that did not fit */
	__u64 flows;		/* forgotten before their answer, for want of room */
	__u64 blame;		/* packets at uplinks and taps for which there was no room in `served` */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct lost);
} losses SEC(".maps");

#define LOSE(what) do {								\
	__u32 _zero = 0;							\
	struct lost *_lost = bpf_map_lookup_elem(&losses, &_zero);		\
	if (_lost)								\
		__sync_fetch_and_add(&_lost->what, 1);				\
} while (0)

static __always_inline struct slot *find_slot(__u32 index, __u16 epoch)
{
	struct slot *slot = bpf_map_lookup_elem(&slots, &index);

	return slot && (__u16)slot->epoch == epoch ? slot : 0;
}

static __always_inline void note(struct lt_hist *hist, __u64 ns)
{
	__u32 index = lt_hist_index(ns);
	__u64 max = hist->max_ns;

	if (index >= LT_HIST_BUCKETS)
		return;
	__sync_fetch_and_add(&hist->count, 1);
	__sync_fetch_and_add(&hist->sum_ns, ns);
	__sync_fetch_and_add(&hist->buckets[index], 1);
	for (int i = 0; i < 4 && ns > max; i++)
		max = __sync_val_compare_and_swap(&hist->max_ns, max, ns);
}

#endif
