// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The way of a VM's packets out of the host: how long each was in the queue of
 * an uplink, which were dropped, and how long the answer took. The way in, from its tap on,
 * is in receive.h.
 *
 * A packet is a VM's by the interface that it came in by (skb_iif), which a
 * bridge leaves as it is; __netif_receive_skb_core() sets it. What goes up through
 * a bridge to be routed gets the bridge's number there, so such packets are noted
 * by their address in between.
 *
 * A packet waits from net_dev_queue, just before it is given to the discipline, to
 * net_dev_start_xmit, just before it is given to the driver (both net/core/dev.c).
 * qdisc_enqueue and qdisc_dequeue would be nearer by name, but the first comes after
 * enqueueing, when another CPU may have sent the packet, neither comes for a packet
 * that passes an empty queue by (TCQ_F_CAN_BYPASS), and the second shows only the first of
 * several packets that are taken at once, and a packet again that the driver had no room for.
 */
#include <linux/bpf.h>
#include <linux/in.h>
#include <stdbool.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_tracing.h>
#include "hist.h"
#include "figures.h"
#include "segment.h"
#include "packets.h"
#include "links.h"
#include "flows.h"
#include "senders.h"
#include "ahead.h"
#include "cuts.h"
#include "receive.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

struct drop_key {
	__u32 slot;
	__u32 reason;		/* enum skb_drop_reason */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, struct drop_key);
	__type(value, __u64);
} drops SEC(".maps");

static __always_inline struct link_key key_of(const struct net_device *dev, __u32 ifindex)
{
	struct link_key key = { dev->nd_net.net->ns.inum, ifindex };

	return key;
}

/* The link by which a packet came in. */
static __always_inline struct link *origin(const struct sk_buff *skb)
{
	struct link_key key = key_of(skb->dev, skb->skb_iif);

	return bpf_map_lookup_elem(&links, &key);
}

/* Taps that nobody has told about, of VMs or of tunnels. */
static __always_inline bool is_tun(const struct net_device *dev)
{
	const char *kind = BPF_CORE_READ(dev, rtnl_link_ops, kind);
	char name[4] = {};

	bpf_probe_read_kernel_str(name, sizeof(name), kind);
	return name[0] == 't' && name[1] == 'u' && name[2] == 'n' && !name[3];
}

/* Whether packets are queued there: __dev_queue_xmit() asks the same. */
static __always_inline bool has_queue(const struct net_device *dev)
{
	return BPF_CORE_READ(dev, _tx, qdisc, enqueue) != 0;
}

static __always_inline bool is_uplink(const struct net_device *dev, struct link_key *key)
{
	struct link *link = bpf_map_lookup_elem(&links, key), found = {};

	if (link)
		return link->kind == UPLINK;
	if (!config.named && has_queue(dev) && !is_tun(dev))
		found.kind = UPLINK;
	bpf_map_update_elem(&links, key, &found, BPF_NOEXIST);
	return found.kind == UPLINK;
}

SEC("tp_btf/net_dev_queue")
int BPF_PROG(queued, struct sk_buff *skb)
{
	struct packet packet = {}, carried = {};
	struct segment s = {};
	struct link *from;
	struct slot *slot;
	__u32 index;
	__u64 key;

	if (!skb->skb_iif)
		return 0;
	from = origin(skb);
	if (!from || (from->kind != TAP && from->kind != CARRIER))
		return 0;
	packet.link = key_of(skb->dev, skb->dev->ifindex);
	if (!is_uplink(skb->dev, &packet.link))
		return 0;
	if (from->kind == TAP)
		index = from->slot;
	else if (fetch(key_by(skb, BY_CARRIED), &carried))
		index = carried.slot;
	else
		return 0;
	slot = bpf_map_lookup_elem(&slots, &index);
	if (!slot)
		return 0;
	packet.len = skb->len;
	__sync_fetch_and_add(&slot->packets, 1);
	__sync_fetch_and_add(&slot->bytes, packet.len);
	packet.slot = index;
	packet.epoch = slot->epoch;
	if (is_gso(skb) && read_segment(skb, AT_MAC, &s) == SEGMENT)
		key = cut_key(&s);
	else
		key = key_by(skb, BY_ADDRESS);
	packet.since_ns = bpf_ktime_get_ns();
	park(key, &packet);
	probe(&slot->sent, index, &packet, key);
	return 0;
}

/*
 * A packet that a VM has sent, by @from, is given to the driver of @dev. Whose it is for the uplink;
 * `SENDERS` if that is not known: who shares a bridge with VMs, or a piece of something else than TCP.
 */
static __always_inline __u32 left(const struct sk_buff *skb, const struct link_key *key,
				  const struct link *from, bool uplink)
{
	bool found, carried = from->kind == CARRIER;
	__u32 sender = carried ? SENDERS : vm_sender(from->slot);
	struct packet packet = {};
	struct segment s = {};
	struct slot *slot;
	enum kind kind;
	__u64 now;

	found = fetch_address(skb, &packet);
	/* To another VM, it passes no uplink; else it may be the first piece of one. */
	if (!found && !uplink)
		return sender;
	now = bpf_ktime_get_ns();
	kind = read_segment(skb, AT_MAC, &s);
	if (!found && (kind != SEGMENT || !fetch(cut_key(&s), &packet)))
		return carried && kind == SEGMENT ? cut_of(&s, now) : sender;
	if (carried) {
		sender = vm_sender(packet.slot);
		if (!found)
			note_cut(&s, &packet, now);
	}
	if (packet.link.ifindex != key->ifindex || packet.link.netns != key->netns)
		return sender;
	slot = find_slot(packet.slot, packet.epoch);
	if (!slot)
		return sender;
	note(&slot->queue, now - packet.since_ns);
	note_delay(&slot->sent, now - packet.since_ns);
	if (is_probe(&slot->sent, &packet)) {
		note_ahead(packet.slot, key->netns, key->ifindex, now - packet.since_ns);
		let_go(&slot->sent);
	}
	if (kind == SEGMENT)
		note_sent(&s, &packet, now);
	else if (kind == ODD)
		LOSE(odd);
	return sender;
}

/* Whose a packet is that is not known to be a VM's: the host's own, or one that it forwards. */
static __always_inline __u32 not_a_vms(const struct sk_buff *skb)
{
	struct link_key from;

	if (!skb->skb_iif)
		return host_sender(skb);
	from = key_of(skb->dev, skb->skb_iif);
	return named_sender(SENDER_INTERFACE, (__u64)from.netns << 32 | from.ifindex);
}

static __always_inline bool has_ring(struct link *tap, const struct net_device *dev)
{
	if (tap->ring == RING_UNKNOWN)
		tap->ring = is_tun(dev) ? RING : RING_NONE;
	return tap->ring == RING;
}

/* Which VM's a packet is that goes to a tap, by @from; `SENDERS` if it is none's. */
static __always_inline __u32 vm_of(const struct sk_buff *skb, const struct link *from)
{
	struct packet carried = {};

	if (!from)
		return SENDERS;
	if (from->kind == TAP)
		return vm_sender(from->slot);
	if (from->kind == CARRIER && fetch(key_by(skb, BY_CARRIED), &carried) &&
	    find_slot(carried.slot, carried.epoch))
		return vm_sender(carried.slot);
	return SENDERS;
}

SEC("tp_btf/net_dev_start_xmit")
int BPF_PROG(started, struct sk_buff *skb, struct net_device *dev)
{
	struct link_key key = key_of(dev, dev->ifindex);
	struct link *to = bpf_map_lookup_elem(&links, &key), *from = 0;
	struct packet packet = { .link = key };
	bool uplink = to && to->kind == UPLINK, tap = to && to->kind == TAP;
	struct served *served;
	__u32 sender = SENDERS;

	if (tap && !has_ring(to, dev))
		return 0;
	if (skb->skb_iif)
		from = origin(skb);
	if (tap)
		sender = vm_of(skb, from);
	else if (from && (from->kind == TAP || from->kind == CARRIER))
		sender = left(skb, &key, from, uplink);
	if (!uplink && !tap)
		return 0;
	if (sender == SENDERS)
		sender = not_a_vms(skb);
	if (tap) {
		packet.len = skb->len;
		packet.slot = sender;
		arrive(key_by(skb, BY_RING), to->slot, &packet);
		return 0;
	}
	served = served_by(&key);
	if (served && sender < SENDERS)
		__sync_fetch_and_add(&served->bytes[sender], skb->len);
	return 0;
}

/* A packet is freed that has come where it was to go: from a ring, if it was put into one. */
SEC("tp_btf/consume_skb")
int BPF_PROG(consumed, struct sk_buff *skb)
{
	struct packet packet = {};

	if (fetch(key_by(skb, BY_RING), &packet))
		taken_by_vm(&packet, skb->len);
	return 0;
}

/* A packet of a tap's is taken up by the bridge @key. */
static __always_inline void carry(struct sk_buff *skb, struct link_key *key, struct link *bridge)
{
	struct link carrier = { .kind = CARRIER };
	struct packet packet = {};
	struct link *from = origin(skb);
	struct slot *slot;

	if (!from || from->kind != TAP) {
		/* What had the same place in memory was another. */
		if (bridge && bridge->kind == CARRIER)
			fetch(key_by(skb, BY_CARRIED), &packet);
		return;
	}
	slot = bpf_map_lookup_elem(&slots, &from->slot);
	if (!slot || (bridge && bridge->kind != CARRIER && bridge->kind != OTHER))
		return;
	if (!bridge || bridge->kind != CARRIER)
		bpf_map_update_elem(&links, key, &carrier, BPF_ANY);
	packet.slot = from->slot;
	packet.epoch = slot->epoch;
	packet.since_ns = bpf_ktime_get_ns();
	park(key_by(skb, BY_CARRIED), &packet);
}

SEC("tp_btf/netif_receive_skb")
int BPF_PROG(received, struct sk_buff *skb)
{
	__u32 ifindex = skb->dev->ifindex;
	struct link_key key = key_of(skb->dev, ifindex);
	struct link *link = bpf_map_lookup_elem(&links, &key);
	struct segment s = {};
	enum kind kind;

	if (link && link->kind == UPLINK) {
		kind = read_segment(skb, AFTER_MAC, &s);
		if (kind == SEGMENT)
			note_answer(&s, bpf_ktime_get_ns());
		else if (kind == ODD)
			LOSE(odd);
	} else if (skb->skb_iif && skb->skb_iif != ifindex) {
		/* Not set anew yet, it says where the packet was before. */
		carry(skb, &key, link);
	}
	return 0;
}

static __always_inline void note_drop(__u32 slot, __u32 reason)
{
	struct drop_key key = { slot, reason };
	__u64 *count = bpf_map_lookup_elem(&drops, &key), zero = 0;

	if (!count) {
		bpf_map_update_elem(&drops, &key, &zero, BPF_NOEXIST);
		count = bpf_map_lookup_elem(&drops, &key);
	}
	if (count)
		__sync_fetch_and_add(count, 1);
	else
		LOSE(drops);
}

/*
 * A packet is dropped: one that a VM sent, wherever it was, or one for a VM at
 * its tap. Some have no interface, and something else in its place; that is read, and
 * found nowhere.
 */
SEC("tp_btf/kfree_skb")
int BPF_PROG(dropped, struct sk_buff *skb, void *location, __u32 reason)
{
	struct net_device *dev = skb->dev;
	struct link_key key;
	struct packet packet = {};
	struct link *link;
	struct slot *slot;

	if (!dev)
		return 0;
	if (fetch_address(skb, &packet)) {
		slot = find_slot(packet.slot, packet.epoch);
		if (slot) {
			if (is_probe(&slot->sent, &packet))
				let_go(&slot->sent);
			note_drop(packet.slot, reason);
		}
		return 0;
	}
	if (fetch(key_by(skb, BY_RING), &packet))
		refused(&packet);
	key = key_of(dev, dev->ifindex);
	link = bpf_map_lookup_elem(&links, &key);
	if (link && link->kind == TAP && key.ifindex != skb->skb_iif) {
		note_drop(link->slot, reason);
		return 0;
	}
	if (!skb->skb_iif)
		return 0;
	link = origin(skb);
	if (!link)
		return 0;
	if (link->kind == TAP) {
		fetch_cut(skb, AT_MAC, &packet);
		note_drop(link->slot, reason);
	} else if (link->kind == CARRIER && (fetch(key_by(skb, BY_CARRIED), &packet) ||
					     fetch_cut(skb, AT_MAC, &packet))) {
		/* Copies of what all get, or others, are none of the host's business. */
		if (BPF_CORE_READ_BITFIELD(skb, pkt_type) == PACKET_HOST &&
		    find_slot(packet.slot, packet.epoch))
			note_drop(packet.slot, reason);
	}
	return 0;
}
