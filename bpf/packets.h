/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Packets on their way: a bounded table, in which one is found in constant time. */
#ifndef LOWTAIL_PACKETS_H
#define LOWTAIL_PACKETS_H

#define PACKET_WAYS 4

/* An interface: its namespace's inode and its number, which is unique there only. */
struct link_key {
	__u32 netns;
	__u32 ifindex;
};

/*
 * A packet on its way: by its address in memory; one that may be cut into several,
 * which are others in memory, by what the first of those has in common with it; one
 * that goes up through a bridge, to be routed, and one that is in the ring of a VM's tap, by
 * their addresses as well.
 */
struct packet {
	__u64 key;
	__u64 since_ns;
	struct link_key link;	/* the uplink, or the tap in whose ring it is */
	__u32 len;
	__u16 slot;		/* its VM's; of one in a ring: the number of who sent it */
	__u16 epoch;
};

struct packet_set {
	struct packet ways[PACKET_WAYS];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct packet_set);
} packets SEC(".maps");

/* The two lowest bits of a key. */
#define BY_CARRIED 0ull
#define BY_RING 1ull
#define BY_ADDRESS 2ull
#define BY_START 3ull

/* An address as a number: the verifier lets one pointer be taken from another, and no other arithmetic. */
static __always_inline __u64 key_by(const struct sk_buff *skb, __u64 kind)
{
	__u64 distance = (__u64)skb - (__u64)&config;

	barrier_var(distance);
	return distance << 2 | kind;
}

static __always_inline struct packet_set *packet_set(__u64 key)
{
	__u32 index = mix(config.seed, key) & config.packet_mask;

	return bpf_map_lookup_elem(&packets, &index);
}

/* Notes a packet. Each one that is not seen again makes room for another some time, and is counted then. */
static __always_inline void park(__u64 key, const struct packet *packet)
{
	struct packet_set *set = packet_set(key);
	struct packet *into = 0, *way;
	__u64 old = 0, seen;

	if (!set)
		return;
#pragma unroll
	for (int i = 0; i < PACKET_WAYS; i++) {
		way = &set->ways[i];
		seen = *(volatile __u64 *)&way->key;
		if (seen == CLAIMED)
			continue;
		if (seen == key) {
			into = way;
			old = seen;
			break;
		}
		/* A free one if there is one, else the oldest. */
		if (!into || (old && (!seen || way->since_ns < into->since_ns))) {
			into = way;
			old = seen;
		}
	}
	/* What is cut into several may be sent again while the first is still there: that one counts. */
	if (!into || (old == key && (key & 3) == BY_START) ||
	    __sync_val_compare_and_swap(&into->key, old, CLAIMED) != old) {
		LOSE(packets);
		return;
	}
	if (old && (old & 3) != BY_CARRIED)
		LOSE(packets);
	into->since_ns = packet->since_ns;
	into->link = packet->link;
	into->len = packet->len;
	into->slot = packet->slot;
	into->epoch = packet->epoch;
	__sync_lock_test_and_set(&into->key, key);
}

/*
 * Finds a packet that was noted, and forgets it. Not static: the verifier looks at it once, and not
 * at all that follows for each of its ways.
 */
__attribute__((noinline)) int fetch(__u64 key, struct packet *packet)
{
	struct packet_set *set = packet_set(key);
	struct packet *way;

	if (!set || !packet)
		return false;
#pragma unroll
	for (int i = 0; i < PACKET_WAYS; i++) {
		way = &set->ways[i];
		if (*(volatile __u64 *)&way->key != key)
			continue;
		*packet = *way;
		return __sync_val_compare_and_swap(&way->key, key, 0) == key;
	}
	return false;
}

/*
 * Finds a packet by its address. Another one may have got that since, if this one has
 * gone unseen; it has another length then. A VLAN tag may have been added to the right one.
 */
static __always_inline bool fetch_address(const struct sk_buff *skb, struct packet *packet)
{
	if (!fetch(key_by(skb, BY_ADDRESS), packet))
		return false;
	if (skb->len - packet->len <= 4)
		return true;
	LOSE(packets);
	return false;
}

/* Of a packet that may be cut into several: what the first of those has too. */
static __always_inline __u64 cut_key(const struct segment *s)
{
	return mix(s->sent, (__u64)s->seq << 16 | s->id) << 2 | BY_START;
}

static __always_inline bool fetch_cut(const struct sk_buff *skb, enum where where,
				      struct packet *packet)
{
	struct segment s = {};

	return read_segment(skb, where, &s) == SEGMENT && fetch(cut_key(&s), packet);
}

#endif
