// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * policy/flow.h inside the kernel, as a program for tc: `flow` finds a packet's
 * pair and gives it its band. Clock and VM come with the packet (cb), since a test
 * has to repeat; a host would take bpf_ktime_get_ns() and the interface, which a
 * guest cannot choose. `many` is for measuring, see there.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#define LT_FLOW_LOCK struct bpf_spin_lock
#include "flow.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define VMS 64
/* Ethernet, two VLAN tags and an IPv6 header. */
#define VLANS 2
#define HEADERS (14 + 4 * VLANS + 40)

/*
 * A lock for each set, so that all queues can send at once. Only maps that could
 * be mapped begin on a page; the others' values are a quarter of a line off, and
 * each would lie on two.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 16);	/* as many as the loader wants, 2^n */
	__type(key, __u32);
	__type(value, struct lt_flow_set);
} sets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, VMS);
	__type(key, __u32);
	__type(value, struct lt_flow_vm);
} vms SEC(".maps");

/* What the loader sets before the first packet. */
struct {
	struct lt_flow_rule rule;
	struct lt_flow_seed seed;
	lt_u32 mask;		/* sets - 1 */
	lt_u32 flows;		/* of `many` */
	lt_u64 count;		/* packets of `many` */
	lt_u64 where[2];	/* of `place` */
} shared;

struct pair {
	lt_u64 src;
	lt_u64 dst;
};

/* The pair of an IP packet: 1; 0 if it is something else, or not whole. */
static __always_inline int find_pair(struct __sk_buff *skb, struct pair *pair)
{
	void *at = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	struct ethhdr *eth = at;
	struct iphdr *ip;
	struct ipv6hdr *ip6;
	lt_u32 *word;
	__be16 kind;

	/* Headers that are not in the linear part: fetch them. It moves no byte. */
	if (at + HEADERS > end && skb->len > (lt_u32)(end - at)) {
		bpf_skb_pull_data(skb, skb->len < HEADERS ? skb->len : HEADERS);
		at = (void *)(long)skb->data;
		end = (void *)(long)skb->data_end;
		eth = at;
	}
	if (at + sizeof(*eth) > end)
		return 0;
	kind = eth->h_proto;
	at += sizeof(*eth);
#pragma unroll
	for (int i = 0; i < VLANS; i++) {
		if (kind != bpf_htons(ETH_P_8021Q) && kind != bpf_htons(ETH_P_8021AD))
			break;
		if (at + 4 > end)
			return 0;
		kind = ((__be16 *)at)[1];
		at += 4;
	}
	if (kind == bpf_htons(ETH_P_IP)) {
		ip = at;
		/* Fragments have addresses like all, options come behind them. */
		if (at + sizeof(*ip) > end || ip->version != 4 || ip->ihl < 5)
			return 0;
		pair->src = ip->saddr;
		pair->dst = ip->daddr;
		return 1;
	}
	if (kind == bpf_htons(ETH_P_IPV6)) {
		ip6 = at;
		if (at + sizeof(*ip6) > end || ip6->version != 6)
			return 0;
		word = (lt_u32 *)&ip6->saddr;
		pair->src = lt_flow_fold(&shared.seed, word[0] | (lt_u64)word[1] << 32,
					 word[2] | (lt_u64)word[3] << 32);
		pair->dst = lt_flow_fold(&shared.seed, word[4] | (lt_u64)word[5] << 32,
					 word[6] | (lt_u64)word[7] << 32);
		return 1;
	}
	return 0;
}

/* The band of a packet of @bytes. -1 if there is no such VM. */
static __always_inline int classify(lt_u32 vm, const struct pair *pair, lt_u32 bytes,
				    lt_u64 now)
{
	lt_u64 hash = lt_flow_hash(&shared.seed, vm, pair->src, pair->dst);
	lt_u32 index = lt_flow_index(hash, shared.mask), band;
	struct lt_flow_set *set = bpf_map_lookup_elem(&sets, &index);
	struct lt_flow_vm *owner = bpf_map_lookup_elem(&vms, &vm);

	if (!set || !owner)
		return -1;
	bpf_spin_lock(&set->lock);
	band = lt_flow_classify(set, owner, &shared.rule, vm, hash, bytes, now);
	bpf_spin_unlock(&set->lock);
	return band;
}

/* Gives a packet its band, from 1 on, as its mark; what is no IP passes as it is. */
SEC("tc")
int flow(struct __sk_buff *skb)
{
	lt_u64 now = skb->cb[0] | (lt_u64)skb->cb[1] << 32;
	lt_u32 vm = skb->cb[2];
	struct pair pair;
	int band;

	if (!find_pair(skb, &pair))
		return TC_ACT_OK;
	band = classify(vm, &pair, skb->len, now);
	if (band >= 0)
		skb->mark = band + 1;
	return TC_ACT_OK;
}

/*
 * The same for a measurement, in which one packet runs over and over: its source
 * becomes another with each run, one of so many, in an order that no cache
 * foresees; they are in turn of 64 VMs. 1 us passes between two packets.
 */
static __always_inline lt_u32 next_pair(lt_u64 count, struct pair *pair)
{
	pair->src += (lt_u64)((lt_u32)count * 0x9e3779b1u) * shared.flows >> 32;
	return pair->src & (VMS - 1);
}

SEC("tc")
int many(struct __sk_buff *skb)
{
	lt_u64 count = shared.count++;
	struct pair pair;
	lt_u32 vm;
	int band;

	if (!find_pair(skb, &pair))
		return TC_ACT_OK;
	vm = next_pair(count, &pair);
	band = classify(vm, &pair, skb->len, (1ull << 40) + count * 1000);
	if (band >= 0)
		skb->mark = band + 1;
	return TC_ACT_OK;
}

/*
 * What `many` cannot do without: it finds a packet's pair, its hash and its set,
 * and writes to that. With @lock it takes the set's lock meanwhile.
 */
static __always_inline int touch_set(struct __sk_buff *skb, int lock)
{
	lt_u64 count = shared.count++, hash;
	struct lt_flow_set *set;
	struct pair pair;
	lt_u32 vm, index;
	volatile lt_u32 *key;

	if (!find_pair(skb, &pair))
		return TC_ACT_OK;
	vm = next_pair(count, &pair);
	hash = lt_flow_hash(&shared.seed, vm, pair.src, pair.dst);
	index = lt_flow_index(hash, shared.mask);
	set = bpf_map_lookup_elem(&sets, &index);
	if (!set)
		return TC_ACT_OK;
	if (lock)
		bpf_spin_lock(&set->lock);
	key = &set->key[0];
	*key = *key;
	if (lock)
		bpf_spin_unlock(&set->lock);
	return TC_ACT_OK;
}

SEC("tc")
int touch(struct __sk_buff *skb)
{
	return touch_set(skb, 0);
}

SEC("tc")
int touch_locked(struct __sk_buff *skb)
{
	return touch_set(skb, 1);
}

/* Where the maps' values begin. */
SEC("tc")
int place(struct __sk_buff *skb)
{
	lt_u32 first = 0;

	shared.where[0] = (lt_u64)bpf_map_lookup_elem(&sets, &first);
	shared.where[1] = (lt_u64)bpf_map_lookup_elem(&vms, &first);
	return TC_ACT_OK;
}

SEC("tc")
int empty(struct __sk_buff *skb)
{
	return TC_ACT_OK;
}
