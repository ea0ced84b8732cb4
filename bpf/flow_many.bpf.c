// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The tagger, with a clock that repeats: for the test that sends many packets
 * through it and through the native rule. One packet runs over and over; each time
 * it gets another source, clock, VM and priority first. What became of all is
 * folded into one number, as crates/control/tests/network/many.rs does.
 */
static unsigned long long test_clock(void);
#define TAG_NOW(skb) test_clock()
#include "flow.bpf.c"

struct {
	lt_u64 state;		/* of the random numbers */
	lt_u64 now;
	lt_u64 digest;
	lt_u32 source_at;	/* where the lower four bytes of the source are */
	lt_u32 header_at;	/* where the IP header begins */
	lt_u64 words[2];	/* the header's first two words as they were */
	lt_u32 vms;
	lt_u32 pad;
} test SEC(".data.test") = { .vms = 1 };

static __always_inline unsigned long long test_clock(void)
{
	return test.now;
}

/* Whose a packet is says its mark here. */
SEC("tc")
int many(struct __sk_buff *skb)
{
	lt_u64 words[2] = {};
	lt_u32 source, at = test.header_at & 63, ifindex = skb->ifindex;
	struct uplink *uplink = bpf_map_lookup_elem(&uplinks, &ifindex);

	if (!uplink)
		return TC_ACT_SHOT;
	/* Marsaglia's xorshift, 13, 7, 17. */
	test.state ^= test.state << 13;
	test.state ^= test.state >> 7;
	test.state ^= test.state << 17;
	/* Half of a VM's packets are of one pair. */
	source = (test.state >> 8 & 0x3f) * (test.state >> 4 & 1);
	test.now += test.state >> 16 & 0x1fff;
	skb->mark = mark_with(&shared.mark, 0, (test.state >> 40) % test.vms + 1);
	skb->priority = 0;
	/* The header as it was before the last run. */
	bpf_skb_store_bytes(skb, at, test.words, 16, 0);
	bpf_skb_store_bytes(skb, test.source_at & 63, &source, 4, 0);
	tag_packet(skb, uplink);
	bpf_skb_load_bytes(skb, at, words, 16);
	test.digest ^= words[0] ^ (lt_u64)skb->priority << 20;
	test.digest = test.digest * 0x9e3779b97f4a7c15ull + words[1];
	return TC_ACT_OK;
}
