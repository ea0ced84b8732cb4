// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The tagger: what leaves by an uplink gets its band by policy/flow.h, as its
 * priority, which the queueing discipline of the uplink goes by, and if wanted as
 * its DSCP, which switches go by. It sits in clsact of the uplink, at egress.
 *
 * Whose packet it is says the interface by which it came in: that of a tap, which
 * no guest can choose. What the host itself sends, and what comes in by an
 * interface of nobody, is of number 0. A packet that is routed after a bridge has
 * forgotten its tap. So if the loader asks for marks, the same program sits at the
 * ingress of taps, too, and notes the number in those bits of the mark that the
 * policy gives it; others' bits stay as they are. No guest can set a mark: it is
 * no part of a packet. One program for both places: who finds it at an uplink has
 * all that a tap needs.
 *
 * Where the discipline has a class for each VM in each band, the priority tells it
 * the VM, too. Several VMs share one if there are more VMs than classes.
 *
 * Nothing is ever dropped here, whatever a packet says and whatever fails. Fragments
 * and what is no IP keep each of their bytes. They keep their priority, too, and the
 * discipline serves them behind what is small, or they are in their VM's last class:
 * nobody gains by sending such.
 */
#include "tagger.h"
#include "mark.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#ifndef TAG_NOW /* so that a test can repeat */
#define TAG_NOW(skb) bpf_ktime_get_ns()
#endif

/* The host, and whoever is not known: struct lt_flow_vm number 0. */
#define NOBODY 0
/* A band that keeps the packet's own DSCP. */
#define KEEP 0xff

/* What the loader sets before the first packet; crates/control/src/flow/layout.rs has the same. */
struct shared {
	struct lt_flow_rule rule;
	struct lt_flow_seed seed;
	struct lt_flow_params params;	/* for who asks what is in force */
	lt_u32 mask;		/* sets - 1 */
	struct mark mark;	/* VMs are told by these bits of the mark, too */
	lt_u32 pad;
} shared;

/* An uplink: what its discipline wants to see. */
struct uplink {
	__u32 priority[LT_FLOW_BANDS];
	__u32 vm_classes;		/* of each band, 2^n; 1: VMs share one */
	__u32 vm_step;			/* from the class of one VM to that of the next */
	__u8 dscp[LT_FLOW_BANDS];	/* 0 to 63, or KEEP */
	__u8 pad[3];
};

/* By the number of the interface. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 64);
	__type(key, __u32);
	__type(value, struct uplink);
} uplinks SEC(".maps");

/* The VM of an interface. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 64);	/* as many as the loader wants */
	__type(key, __u32);
	__type(value, __u32);
} owners SEC(".maps");

/* What has passed, of each CPU. */
struct passed {
	__u64 packets[LT_FLOW_BANDS];
	__u64 bytes[LT_FLOW_BANDS];
	__u64 not_ip;		/* these are in no band; in the last one of their VM if it has one */
	__u64 odd;
	__u64 fragments;
	__u64 untold;		/* no place for their VM */
	__u64 unwritten;	/* tagged, but their DSCP could not be changed */
	__u64 marked;		/* their VM was told by their mark */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct passed);
} counts SEC(".maps");

/* Gives the IPv4 header at @at the @dscp; its sum follows, as RFC 1624 has it. 0, or it failed. */
static __always_inline long tag_ipv4(struct __sk_buff *skb, lt_u32 at, lt_u32 dscp)
{
	__u16 words[6];		/* up to the sum */
	lt_u32 tos, sum;

	if (bpf_skb_load_bytes(skb, at, words, sizeof(words)))
		return -1;
	tos = bpf_ntohs(words[0]);
	/* The lowest two bits are ECN's (RFC 3168), and others' to set. */
	tos = (tos & 0xff03) | dscp << 2;
	if (tos == bpf_ntohs(words[0]))
		return 0;
	sum = (__u16)~words[5] + (lt_u32)(__u16)~words[0];
	words[0] = bpf_htons(tos);
	sum += words[0];
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	words[5] = ~sum;
	/* The sum of all bytes stays as it was, so nobody has to make another. */
	return bpf_skb_store_bytes(skb, at, words, sizeof(words), 0);
}

/* The same for IPv6, whose header has no sum. */
static __always_inline long tag_ipv6(struct __sk_buff *skb, lt_u32 at, lt_u32 dscp)
{
	lt_u32 class;
	__u16 word;

	if (bpf_skb_load_bytes(skb, at, &word, sizeof(word)))
		return -1;
	class = bpf_ntohs(word);
	class = (class & 0xf03f) | dscp << 6;
	if (class == bpf_ntohs(word))
		return 0;
	word = bpf_htons(class);
	return bpf_skb_store_bytes(skb, at, &word, sizeof(word), BPF_F_RECOMPUTE_CSUM);
}

/* Sets the mark as a whole: of a half of it the verifier refuses to hear. */
static __always_inline void set_mark(struct __sk_buff *skb, lt_u32 mark)
{
	LT_OPAQUE(mark);
	*(volatile lt_u32 *)&skb->mark = mark;
}

/* The VM that @skb is of. */
static __always_inline lt_u32 owner_of(struct __sk_buff *skb, struct passed *passed)
{
	lt_u32 ifindex = skb->ingress_ifindex, mark = mark_number(&shared.mark, skb->mark);
	__u32 *vm;

	if (mark) {
		passed->marked++;
		return mark - 1;
	}
	vm = ifindex ? bpf_map_lookup_elem(&owners, &ifindex) : 0;
	return vm ? *vm : NOBODY;
}

/* The priority of a packet of @vm in @band. */
static __always_inline lt_u32 priority_of(const struct uplink *uplink, lt_u32 band, lt_u32 vm)
{
	return uplink->priority[band] + (vm & (uplink->vm_classes - 1)) * uplink->vm_step;
}

/* A packet of @vm that has no band, where @found says why. */
static __always_inline void tag_other(struct __sk_buff *skb, const struct uplink *uplink,
				      struct passed *passed, enum found found, lt_u32 vm)
{
	switch (found) {
	case NOT_IP:
		passed->not_ip++;
		break;
	case ODD:
		passed->odd++;
		break;
	case FRAGMENT:
		passed->fragments++;
		break;
	case WHOLE:
		passed->untold++;
		break;
	}
	if (uplink->vm_classes > 1)
		skb->priority = priority_of(uplink, LT_FLOW_BULK, vm);
}

/* Tags a packet that leaves by @uplink. */
static __always_inline void tag_packet(struct __sk_buff *skb, struct uplink *uplink)
{
	lt_u32 zero = 0, bytes = skb->len, vm, dscp;
	struct passed *passed = bpf_map_lookup_elem(&counts, &zero);
	struct pair pair = {};
	enum found found;
	long failed = 0;
	int band = -1;

	if (!passed)
		return;
	found = find_pair(skb, &shared.seed, &pair);
	vm = owner_of(skb, passed);
	if (found == WHOLE)
		band = classify(&shared.rule, &shared.seed, shared.mask, vm, &pair, bytes,
				TAG_NOW(skb));
	if (band < 0 || band >= LT_FLOW_BANDS)
		return tag_other(skb, uplink, passed, found, vm);
	passed->packets[band]++;
	passed->bytes[band] += bytes;
	skb->priority = priority_of(uplink, band, vm);
	dscp = uplink->dscp[band];
	if (dscp != KEEP)
		failed = pair.version == 4 ? tag_ipv4(skb, pair.at, dscp & 63) :
					     tag_ipv6(skb, pair.at, dscp & 63);
	if (failed)
		passed->unwritten++;
}

/* Whose a packet is that comes in by a tap: in our bits of its mark. */
static __always_inline void enter(struct __sk_buff *skb, lt_u32 ifindex)
{
	__u32 *vm = bpf_map_lookup_elem(&owners, &ifindex);

	if (vm && *vm <= LT_FLOW_VM_MAX)
		set_mark(skb, mark_with(&shared.mark, skb->mark, *vm + 1));
}

/* At an uplink's egress, and at the ingress of taps, which are no uplinks. */
SEC("tc")
int tag(struct __sk_buff *skb)
{
	lt_u32 ifindex = skb->ifindex;
	struct uplink *uplink = bpf_map_lookup_elem(&uplinks, &ifindex);

	if (uplink) {
		tag_packet(skb, uplink);
		/* The number is for here alone. */
		if (shared.mark.mask)
			set_mark(skb, skb->mark & ~shared.mark.mask);
	} else if (shared.mark.mask) {
		enter(skb, ifindex);
	}
	/* What other filters say still counts. */
	return TC_ACT_UNSPEC;
}

/* Beside which the others' time is measured. */
SEC("tc")
int empty(struct __sk_buff *skb)
{
	return TC_ACT_UNSPEC;
}
