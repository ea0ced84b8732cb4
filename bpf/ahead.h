/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Whose bytes leave a queue while a VM's packet waits there: an uplink's, or the ring of its tap. Of
 * each VM and each way one packet at a time is followed, and at most one in each millisecond: when
 * it is queued, what has left of each sender is noted; when it leaves, what left since is added up.
 */
#ifndef LOWTAIL_AHEAD_H
#define LOWTAIL_AHEAD_H

#define PROBE_GAP_NS 1000000ull
/*
 * Whoever has not left by then, and by four times the longest delay of late, was lost without a word:
 * the kernel leaves out a run of a program while another one of the same runs on its CPU.
 */
#define PROBE_GIVE_UP_NS 100000000ull

/* Added to the number of a slot, for packets to the VM. */
#define AHEAD_RECEIVED (1u << 31)

/* A VM's, of one way; the loader makes it. */
struct ahead {
	struct link_key link;		/* of the packet that is followed */
	__u64 packets;			/* that were followed */
	__u64 delay_ns;			/* how long those waited, together */
	__u64 bytes[SENDERS];		/* of each sender, that left meanwhile */
	__u64 before[SENDERS];		/* what had left when the packet came */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32);
	__type(value, struct ahead);
} aheads SEC(".maps");

/* Not static: the verifier looks at it once. */
__attribute__((noinline)) int note_before(__u32 index, __u32 netns, __u32 ifindex)
{
	struct link_key link = { netns, ifindex };
	struct ahead *ahead = bpf_map_lookup_elem(&aheads, &index);
	struct served *now;

	if (!ahead)
		return -1;
	now = served_by(&link);
	if (!now)
		return -1;
	ahead->link = link;
	return bpf_probe_read_kernel(ahead->before, sizeof(ahead->before), now->bytes);
}

__attribute__((noinline)) int note_ahead(__u32 index, __u32 netns, __u32 ifindex, __u64 delay_ns)
{
	struct link_key link = { netns, ifindex };
	struct ahead *ahead = bpf_map_lookup_elem(&aheads, &index);
	struct served *now;

	if (!ahead)
		return -1;
	now = bpf_map_lookup_elem(&served, &link);
	if (!now || ahead->link.netns != netns || ahead->link.ifindex != ifindex)
		return -1;
	for (__u32 i = 0; i < SENDERS; i++)
		ahead->bytes[i] += now->bytes[i] - ahead->before[i];
	ahead->packets++;
	ahead->delay_ns += delay_ns;
	return 0;
}

/*
 * @packet has been parked under @key and is about to be queued; @index is that of its VM's `ahead`. While
 * its figures are written the probe's key is `CLAIMED`, so that CPUs do not mix up two packets.
 */
static __always_inline void probe(struct probe *probe, __u32 index, const struct packet *packet,
				  __u64 key)
{
	__u64 last = probe->since_ns, least = PROBE_GAP_NS, old = probe->key;

	if (old == CLAIMED)
		return;
	if (old)
		least = PROBE_GIVE_UP_NS + 4 * probe->delay_ns;
	/* A packet of another CPU may have come later, and be here before. */
	if ((__s64)(packet->since_ns - last) < (__s64)least)
		return;
	if (__sync_val_compare_and_swap(&probe->key, old, CLAIMED) != old)
		return;
	probe->since_ns = packet->since_ns;
	if (note_before(index, packet->link.netns, packet->link.ifindex))
		key = 0;
	__sync_lock_test_and_set(&probe->key, key);
}

/* A packet has left; CPUs that do so at once may take each other's, which matters little. */
static __always_inline void note_delay(struct probe *probe, __u64 delay_ns)
{
	__u64 longest = probe->delay_ns;

	longest -= longest >> 8;
	probe->delay_ns = delay_ns > longest ? delay_ns : longest;
}

/* Whether it is @packet that is followed; if so, it is to be let go. */
static __always_inline bool is_probe(struct probe *probe, const struct packet *packet)
{
	return probe->key == packet->key && probe->since_ns == packet->since_ns &&
	       __sync_val_compare_and_swap(&probe->key, packet->key, CLAIMED) == packet->key;
}

static __always_inline void let_go(struct probe *probe)
{
	__sync_lock_test_and_set(&probe->key, 0);
}

#endif
