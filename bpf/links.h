/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Interfaces that packets pass: VMs' taps, uplinks, and bridges in between. */
#ifndef LOWTAIL_LINKS_H
#define LOWTAIL_LINKS_H

enum link_kind {
	OTHER,
	TAP,		/* a VM's; the loader says which */
	UPLINK,		/* named, or found: it has a queue and is nobody's tap */
	CARRIER,	/* a bridge by which taps' packets go up to be routed */
};

/* Whether a tap has a ring, in which packets wait until the VM takes them: `is_tun()`. */
enum ring {
	RING_UNKNOWN,		/* nobody has looked */
	RING_NONE,
	RING,
};

struct link {
	__u32 kind;		/* enum link_kind */
	__u32 slot;		/* a tap's */
	__u32 ring;		/* enum ring; of a tap */
	__u32 pad;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, struct link_key);
	__type(value, struct link);
} links SEC(".maps");

#endif
