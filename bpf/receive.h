/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The way of packets to a VM: from its tap until its back end has taken them. A tun device
 * puts each packet into a ring (tun_net_xmit(), drivers/net/tun.c) and drops it where that is full;
 * vhost, QEMU, or whoever runs the VM reads from it, and frees what it has read by consume_skb().
 * Other devices have no ring, and are not followed: veth hands packets on at once.
 */
#ifndef LOWTAIL_RECEIVE_H
#define LOWTAIL_RECEIVE_H

/* @packet, of which the sender is known, is about to be put into the ring of the VM @index. */
__attribute__((noinline)) int arrive(__u64 key, __u32 index, struct packet *packet)
{
	struct slot *slot = bpf_map_lookup_elem(&slots, &index);

	if (!slot || !packet)
		return 0;
	packet->epoch = slot->epoch;
	packet->since_ns = bpf_ktime_get_ns();
	park(key, packet);
	probe(&slot->received, index | AHEAD_RECEIVED, packet, key);
	return 0;
}

/* The VM to whose tap a packet was given, if it has it still. */
static __always_inline struct slot *receiver(const struct packet *packet, __u32 *index)
{
	struct link_key key = packet->link;
	struct link *tap = bpf_map_lookup_elem(&links, &key);

	if (!tap || tap->kind != TAP)
		return 0;
	*index = tap->slot;
	return find_slot(tap->slot, packet->epoch);
}

/* @packet, of @len bytes, has been taken. */
__attribute__((noinline)) int taken_by_vm(const struct packet *packet, __u32 len)
{
	struct link_key key;
	struct served *served;
	struct slot *slot;
	__u64 delay_ns;
	__u32 index;

	if (!packet)
		return 0;
	/* Another one has got its address since: it was freed by a way that nobody sees. */
	if (len != packet->len) {
		LOSE(packets);
		return 0;
	}
	slot = receiver(packet, &index);
	if (!slot)
		return 0;
	key = packet->link;
	delay_ns = bpf_ktime_get_ns() - packet->since_ns;
	__sync_fetch_and_add(&slot->received_packets, 1);
	note(&slot->ring, delay_ns);
	note_delay(&slot->received, delay_ns);
	if (is_probe(&slot->received, packet)) {
		note_ahead(index | AHEAD_RECEIVED, key.netns, key.ifindex, delay_ns);
		let_go(&slot->received);
	}
	served = served_by(&key);
	if (served && packet->slot < SENDERS)
		__sync_fetch_and_add(&served->bytes[packet->slot], len);
	return 0;
}

/* @packet did not fit into the ring, or was in it when it went. */
static __always_inline void refused(const struct packet *packet)
{
	__u32 index;
	struct slot *slot = receiver(packet, &index);

	if (slot && is_probe(&slot->received, packet))
		let_go(&slot->received);
}

#endif
