/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a packet is, read from a socket buffer: the TCP segment in it, if there is
 * one. All of it comes from guests and from the network: it is data, read with
 * bounds, and nothing that it says makes more work than the loops here.
 */
#ifndef LOWTAIL_SEGMENT_H
#define LOWTAIL_SEGMENT_H

/* Of the kernel's structures, the fields that are read: include/linux/{skbuff,netdevice}.h. */
struct ns_common {
	unsigned int inum;
} __attribute__((preserve_access_index));

struct net {
	struct ns_common ns;
} __attribute__((preserve_access_index));

typedef struct {
	struct net *net;
} __attribute__((preserve_access_index)) possible_net_t;

struct rtnl_link_ops {
	const char *kind;
} __attribute__((preserve_access_index));

struct Qdisc {
	int (*enqueue)(void);
} __attribute__((preserve_access_index));

struct netdev_queue {
	struct Qdisc *qdisc;
} __attribute__((preserve_access_index));

struct net_device {
	int ifindex;
	unsigned int mtu;
	unsigned short type;
	possible_net_t nd_net;
	struct netdev_queue *_tx;
	const struct rtnl_link_ops *rtnl_link_ops;
} __attribute__((preserve_access_index));

struct kernfs_node {
	__u64 id;
} __attribute__((preserve_access_index));

struct cgroup {
	struct kernfs_node *kn;
} __attribute__((preserve_access_index));

struct sock_cgroup_data {
	struct cgroup *cgroup;
} __attribute__((preserve_access_index));

struct sock_common {
	unsigned short skc_family;
	volatile unsigned char skc_state;
} __attribute__((preserve_access_index));

struct sock {
	struct sock_common __sk_common;
	struct sock_cgroup_data sk_cgrp_data;
} __attribute__((preserve_access_index));

struct sk_buff {
	struct net_device *dev;
	struct sock *sk;
	unsigned int len, data_len;
	int skb_iif;
	__u8 pkt_type : 3;
	__u16 mac_header;
	__u32 end;
	unsigned char *head, *data;
} __attribute__((preserve_access_index));

struct skb_shared_info {
	unsigned short gso_size;
} __attribute__((preserve_access_index));

/* States of sockets that are no full ones: include/net/tcp_states.h. */
#define TCP_TIME_WAIT 6
#define TCP_NEW_SYN_RECV 12

#define E2BIG 7
#define AF_UNSPEC 0

#define ETHERNET 1	/* ARPHRD_ETHER */
#define PACKET_HOST 0	/* linux/if_packet.h: it is addressed to this host */

#define FIN 1
#define SYN 2
#define RST 4
#define ACK 16

/* In all keys of flows, so that none is 0 or `CLAIMED`. */
#define FLOW_KEY 2ull

struct segment {
	__u64 sent;	/* its flow, if it leaves the host */
	__u64 came;	/* its flow, if it arrives: the same as of one that leaves for its source */
	__u32 seq, ack;
	__u32 end;	/* the sequence number after it */
	__u32 tsval, tsecr;
	__u16 id;	/* of its IPv4 header */
	__u8 flags;
	__u8 stamped;	/* it has time stamps (RFC 7323) */
};

enum kind {
	NO_SEGMENT,	/* something else */
	SEGMENT,
	ODD,		/* it says that it is one, but it is not whole */
};

/* A packet is in one of two states when it is looked at. */
enum where {
	AT_MAC,		/* `data` is where its link header begins: it leaves */
	AFTER_MAC,	/* or ends: it arrives */
};

static __always_inline __u64 mix(__u64 a, __u64 b)
{
	a = (a ^ b) * 0x9e3779b97f4a7c15ull;
	a ^= a >> 32;
	a *= 0xd6e8feb86659fd93ull;
	return a ^ a >> 29;
}

static __always_inline __u32 net16(__u32 be)
{
	return bpf_ntohs((__u16)be);
}

static __always_inline int is_vlan(__u16 kind)
{
	return kind == bpf_htons(0x8100) || kind == bpf_htons(0x88a8);
}

/* Where IP begins, after the link header at @at and up to two VLAN tags; 0: no IP. */
static __always_inline __u32 skip_link(const unsigned char *at, __u32 left)
{
	__u16 words[11];
	__u32 off = 14;
	__u16 kind;

	if (left < sizeof(words) || bpf_probe_read_kernel(words, sizeof(words), at))
		return 0;
	kind = words[6];
	if (is_vlan(kind)) {
		kind = words[8];
		off = 18;
		if (is_vlan(kind)) {
			kind = words[10];
			off = 22;
		}
	}
	return kind == bpf_htons(0x0800) || kind == bpf_htons(0x86dd) ? off : 0;
}

/* The time stamps among @size bytes of options at @at. */
static __always_inline void find_stamps(struct segment *s, const unsigned char *at, __u32 size)
{
	__u32 words[3], off = 0;
	__u8 head[2];

	if (size < 10)
		return;
	/* Nearly all segments have this and no more: RFC 7323, appendix A. */
	if (size >= 12 && !bpf_probe_read_kernel(words, 12, at) &&
	    words[0] == bpf_htonl(0x0101080a)) {
		s->tsval = bpf_ntohl(words[1]);
		s->tsecr = bpf_ntohl(words[2]);
		s->stamped = 1;
		return;
	}
	for (int i = 0; i < 12; i++) {
		if (off + 10 > size || bpf_probe_read_kernel(head, 2, at + off) || head[0] == 0)
			return;
		if (head[0] == 1) {
			off++;
			continue;
		}
		if (head[1] < 2)
			return;
		if (head[0] == 8 && head[1] == 10) {
			if (bpf_probe_read_kernel(words, 8, at + off + 2))
				return;
			s->tsval = bpf_ntohl(words[0]);
			s->tsecr = bpf_ntohl(words[1]);
			s->stamped = 1;
			return;
		}
		off += head[1];
	}
}

/*
 * The segment in a packet of @len bytes, the first @linear of which are at @at: its link
 * header if @ethernet, else its IP header. Flows are named by a hash that no guest can foresee,
 * for want of the seed. Not static: the verifier looks at it once, and not for each caller.
 */
__attribute__((noinline)) int parse_segment(__u64 at, __u32 len, __u32 linear, __u32 ethernet,
					    struct segment *s)
{
	const unsigned char *bytes = (const unsigned char *)at;
	__u32 ip[10] = {}, tcp[5] = {}, off = 0, size, header, local, remote;
	__u64 a, b, seed = config.seed;

	if (!s || linear > len)
		return NO_SEGMENT;
	if (ethernet) {
		off = skip_link(bytes, linear);
		if (!off)
			return NO_SEGMENT;
	}
	/* An IPv4 header and one of TCP, or one of IPv6. */
	if (linear < off + sizeof(ip) || bpf_probe_read_kernel(ip, sizeof(ip), bytes + off))
		return linear < len ? ODD : NO_SEGMENT;
	len -= off;
	header = bpf_ntohl(ip[0]);
	s->id = 0;
	if (header >> 28 == 4) {
		if ((bpf_ntohl(ip[2]) >> 16 & 0xff) != IPPROTO_TCP || ip[1] & bpf_htonl(0x3fff))
			return NO_SEGMENT;
		/* 0: more than fits into the field, as segments of a NIC's can be. */
		size = header & 0xffff ? header & 0xffff : len;
		s->id = bpf_ntohl(ip[1]) >> 16;
		header = (header >> 24 & 15) * 4;
		a = ip[3];
		b = ip[4];
	} else if (header >> 28 == 6) {
		if ((bpf_ntohl(ip[1]) >> 8 & 0xff) != IPPROTO_TCP)
			return NO_SEGMENT;
		size = bpf_ntohl(ip[1]) >> 16;
		header = 40;
		size = size ? size + header : len;
		a = mix(seed ^ (ip[2] | (__u64)ip[3] << 32), ip[4] | (__u64)ip[5] << 32);
		b = mix(seed ^ (ip[6] | (__u64)ip[7] << 32), ip[8] | (__u64)ip[9] << 32);
	} else {
		return NO_SEGMENT;
	}
	off += header;
	if (header < 20 || size < header + sizeof(tcp) || linear < off + sizeof(tcp) ||
	    bpf_probe_read_kernel(tcp, sizeof(tcp), bytes + off))
		return ODD;
	size -= header;
	header = (bpf_ntohl(tcp[3]) >> 28) * 4;
	if (header < sizeof(tcp) || size < header || linear < off + header)
		return ODD;
	local = bpf_ntohl(tcp[0]) >> 16;
	remote = bpf_ntohl(tcp[0]) & 0xffff;
	/* Ports go with their addresses, so that both directions have the same two ends. */
	a = mix(seed ^ a, local);
	b = mix(seed ^ b, remote);
	s->sent = mix(a, b) | FLOW_KEY;
	s->came = mix(b, a) | FLOW_KEY;
	s->seq = bpf_ntohl(tcp[1]);
	s->ack = bpf_ntohl(tcp[2]);
	s->flags = bpf_ntohl(tcp[3]) >> 16 & 0x3f;
	s->end = s->seq + size - header + !!(s->flags & SYN) + !!(s->flags & FIN);
	s->stamped = 0;
	s->tsval = s->tsecr = 0;
	find_stamps(s, bytes + off + sizeof(tcp), header - sizeof(tcp));
	return SEGMENT;
}

/*
 * The segment in @skb. Addresses are read as numbers, since verifiers differ in what may
 * be done with pointers to bytes.
 */
static __always_inline enum kind read_segment(const struct sk_buff *skb, enum where where,
					      struct segment *s)
{
	__u32 linear = skb->len - skb->data_len, len = skb->len, link;
	__u64 at = (__u64)BPF_CORE_READ(skb, data);
	bool ethernet = skb->dev->type == ETHERNET;

	if (ethernet && where == AFTER_MAC) {
		link = at - ((__u64)BPF_CORE_READ(skb, head) + skb->mac_header);
		if (link > 64)
			return NO_SEGMENT;
		at -= link;
		linear += link;
		len += link;
	}
	return parse_segment(at, len, linear, ethernet, s);
}

/* Whether it may be cut into several on its way; what fits into a frame is not, even if it could be. */
static __always_inline int is_gso(const struct sk_buff *skb)
{
	__u64 info;

	if (skb->len <= skb->dev->mtu + 22)
		return 0;
	info = (__u64)BPF_CORE_READ(skb, head) + skb->end;
	return BPF_CORE_READ((const struct skb_shared_info *)info, gso_size);
}

#endif
