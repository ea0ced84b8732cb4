// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * policy/flow.h inside the kernel, as a program for tc: `flow` finds a packet's
 * pair and gives it its band. Clock and VM come with the packet (cb), since a test
 * has to repeat; a host would take bpf_ktime_get_ns() and the interface, which a
 * guest cannot choose. `many` is for measuring, see there.
 */
#include "tagger.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define VMS 64		/* of `many` */

/* What the loader sets before the first packet. */
struct {
	struct lt_flow_rule rule;
	struct lt_flow_seed seed;
	lt_u32 mask;		/* sets - 1 */
	lt_u32 flows;		/* of `many` */
	lt_u64 count;		/* packets of `many` */
	lt_u64 where[2];	/* of `place` */
} shared;

/* The pair of a packet, fragment or not: 1; 0 if it has none. */
static __always_inline int has_pair(struct __sk_buff *skb, struct pair *pair)
{
	return find_pair(skb, &shared.seed, pair) >= FRAGMENT;
}

static __always_inline int band_of(lt_u32 vm, const struct pair *pair, lt_u32 bytes, lt_u64 now)
{
	return classify(&shared.rule, &shared.seed, shared.mask, vm, pair, bytes, now);
}

/* Gives a packet its band, from 1 on, as its mark; what is no IP passes as it is. */
SEC("tc")
int flow(struct __sk_buff *skb)
{
	lt_u64 now = skb->cb[0] | (lt_u64)skb->cb[1] << 32;
	lt_u32 vm = skb->cb[2];
	struct pair pair;
	int band;

	if (!has_pair(skb, &pair))
		return TC_ACT_OK;
	band = band_of(vm, &pair, skb->len, now);
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

	if (!has_pair(skb, &pair))
		return TC_ACT_OK;
	vm = next_pair(count, &pair);
	band = band_of(vm, &pair, skb->len, (1ull << 40) + count * 1000);
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

	if (!has_pair(skb, &pair))
		return TC_ACT_OK;
	vm = next_pair(count, &pair);
	hash = lt_flow_hash(&shared.seed, vm, pair.src, pair.dst, pair.ports);
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
