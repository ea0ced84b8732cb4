/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * policy/flow.h for programs of tc: the tables, which pair a packet is of, and its
 * band. Rule and seed are the program's own.
 */
#ifndef LOWTAIL_TAGGER_H
#define LOWTAIL_TAGGER_H

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#define LT_FLOW_LOCK struct bpf_spin_lock
#include "flow.h"

/* Ethernet, two VLAN tags, the longest IPv4 header and ports. A tag that is beside the frame is not seen at all. */
#define VLANS 2
#define HEADERS (14 + 4 * VLANS + 60 + 4)
/* Of an IPv4 header: more fragments, and where this one belongs (RFC 791). */
#define FRAGMENT_BITS 0x3fff
/* The next header is that of a fragment (RFC 8200). */
#define IPV6_FRAGMENT 44

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
	__uint(max_entries, 64);	/* as many as the loader wants */
	__type(key, __u32);
	__type(value, struct lt_flow_vm);
} vms SEC(".maps");

struct pair {
	lt_u64 src;
	lt_u64 dst;
	lt_u64 ports;		/* with the protocol: lt_flow_ports */
	lt_u32 at;		/* where the IP header begins */
	lt_u32 version;		/* 4 or 6 */
};

enum found {
	NOT_IP,
	ODD,			/* it says that it is IP, but is not, or not whole */
	FRAGMENT,		/* has addresses like all */
	WHOLE,
};

/*
 * What tells apart packets of the same addresses that are by @protocol, whose header
 * begins at @at: where these have ports, they are first in it (RFC 9293, 768, 4340,
 * 9260, 3828). A header that is not whole counts as without.
 */
static __always_inline lt_u64 find_ports(const void *at, const void *end, lt_u32 protocol)
{
	const __u16 *ports = at;

	switch (protocol) {
	case IPPROTO_TCP:
	case IPPROTO_UDP:
	case IPPROTO_DCCP:
	case IPPROTO_SCTP:
	case IPPROTO_UDPLITE:
		if (at + 4 <= end)
			return lt_flow_ports(protocol, ports[0], ports[1]);
	}
	return lt_flow_ports(protocol, 0, 0);
}

/* What @skb is, and its @pair if it is IP. */
static __always_inline enum found find_pair(struct __sk_buff *skb,
					    const struct lt_flow_seed *seed, struct pair *pair)
{
	void *at = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	struct ethhdr *eth = at;
	struct iphdr *ip;
	struct ipv6hdr *ip6;
	lt_u32 *word, off;
	__be16 kind;

	/* Headers that are not in the linear part: fetch them. It moves no byte. */
	if (at + HEADERS > end && skb->len > (lt_u32)(end - at)) {
		bpf_skb_pull_data(skb, skb->len < HEADERS ? skb->len : HEADERS);
		at = (void *)(long)skb->data;
		end = (void *)(long)skb->data_end;
		eth = at;
	}
	if (at + sizeof(*eth) > end)
		return NOT_IP;
	kind = eth->h_proto;
	at += sizeof(*eth);
	off = sizeof(*eth);
#pragma unroll
	for (int i = 0; i < VLANS; i++) {
		if (kind != bpf_htons(ETH_P_8021Q) && kind != bpf_htons(ETH_P_8021AD))
			break;
		if (at + 4 > end)
			return ODD;
		kind = ((__be16 *)at)[1];
		at += 4;
		off += 4;
	}
	pair->at = off;
	if (kind == bpf_htons(ETH_P_IP)) {
		ip = at;
		if (at + sizeof(*ip) > end || ip->version != 4 || ip->ihl < 5)
			return ODD;
		pair->version = 4;
		pair->src = ip->saddr;
		pair->dst = ip->daddr;
		if (ip->frag_off & bpf_htons(FRAGMENT_BITS)) {
			pair->ports = lt_flow_ports(ip->protocol, 0, 0);
			return FRAGMENT;
		}
		pair->ports = find_ports(at + ip->ihl * 4, end, ip->protocol);
		return WHOLE;
	}
	if (kind == bpf_htons(ETH_P_IPV6)) {
		ip6 = at;
		if (at + sizeof(*ip6) > end || ip6->version != 6)
			return ODD;
		word = (lt_u32 *)&ip6->saddr;
		pair->version = 6;
		pair->src = lt_flow_fold(seed, word[0] | (lt_u64)word[1] << 32,
					 word[2] | (lt_u64)word[3] << 32);
		pair->dst = lt_flow_fold(seed, word[4] | (lt_u64)word[5] << 32,
					 word[6] | (lt_u64)word[7] << 32);
		pair->ports = find_ports(at + sizeof(*ip6), end, ip6->nexthdr);
		return ip6->nexthdr == IPV6_FRAGMENT ? FRAGMENT : WHOLE;
	}
	return NOT_IP;
}

/* The band of a packet of @bytes, in tables of @mask + 1 sets. -1 if there is no such VM. */
static __always_inline int classify(const struct lt_flow_rule *rule,
				    const struct lt_flow_seed *seed, lt_u32 mask, lt_u32 vm,
				    const struct pair *pair, lt_u32 bytes, lt_u64 now)
{
	lt_u64 hash = lt_flow_hash(seed, vm, pair->src, pair->dst, pair->ports);
	lt_u32 index = lt_flow_index(hash, mask), band;
	struct lt_flow_set *set = bpf_map_lookup_elem(&sets, &index);
	struct lt_flow_vm *owner = bpf_map_lookup_elem(&vms, &vm);

	if (!set || !owner)
		return -1;
	bpf_spin_lock(&set->lock);
	band = lt_flow_classify(set, owner, rule, vm, hash, bytes, now);
	bpf_spin_unlock(&set->lock);
	return band;
}

#endif
