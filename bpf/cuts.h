/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Whose the pieces are of packets that were cut into several on their way, where their interface does
 * not say it: those that go up through a bridge to be routed. The first piece is recognised, and the others have
 * its flow. A table of the latest ones, in which a flow may displace another.
 */
#ifndef LOWTAIL_CUTS_H
#define LOWTAIL_CUTS_H

#define CUTS 4096u

struct cut {
	__u64 flow;
	__u64 sender;
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

static __always_inline void note_cut(const struct segment *s, __u32 sender)
{
	struct cut *cut = cut_at(s);

	if (!cut)
		return;
	cut->flow = 0;
	cut->sender = sender;
	*(volatile __u64 *)&cut->flow = s->sent;
}

static __always_inline __u32 cut_of(const struct segment *s, __u32 otherwise)
{
	struct cut *cut = cut_at(s);

	return cut && *(volatile __u64 *)&cut->flow == s->sent ? cut->sender : otherwise;
}

#endif
