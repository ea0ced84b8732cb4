/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Whose the pieces are of packets that were cut into several on their way, where their interface does
 * not say it: those that go up through a bridge to be routed. The first piece is recognised, and the others have
 * its flow. A table of the latest ones, in which a flow may displace another.
 */
#ifndef LOWTAIL_CUTS_H
#define LOWTAIL_CUTS_H

#define CUTS 4096u

/* Pieces follow within the delay of a queue. */
#define CUT_AGE_NS 10000000000ull

struct cut {
	__u64 flow;
	__u64 at_ns;
	__u16 slot;
	__u16 epoch;
	__u32 pad;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, CUTS);
	__type(key, __u32);
	__type(value, struct cut);
} cuts SEC(".maps");

static __always_inline struct cut *cut_at(const struct segment *s)
{
	__u32 index = s->sent >> 8 & (CUTS - 1);

	return bpf_map_lookup_elem(&cuts, &index);
}

static __always_inline void note_cut(const struct segment *s, const struct packet *packet, __u64 now)
{
	struct cut *cut = cut_at(s);

	if (!cut)
		return;
	cut->flow = 0;
	cut->at_ns = now;
	cut->slot = packet->slot;
	cut->epoch = packet->epoch;
	*(volatile __u64 *)&cut->flow = s->sent;
}

/* Whose a piece is; `SENDERS` if that is not known. */
static __always_inline __u32 cut_of(const struct segment *s, __u64 now)
{
	struct cut *cut = cut_at(s);

	if (!cut || *(volatile __u64 *)&cut->flow != s->sent || now - cut->at_ns > CUT_AGE_NS ||
	    !find_slot(cut->slot, cut->epoch))
		return SENDERS;
	return vm_sender(cut->slot);
}

#endif
