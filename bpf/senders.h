/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Whose a packet is that leaves by an uplink or goes to a VM's tap, and how many bytes of each sender
 * have left its queue. A sender has a number: a VM's is that of its slot; the host's groups of processes, and the interfaces
 * by which others' packets come in, get theirs when they are seen first.
 */
#ifndef LOWTAIL_SENDERS_H
#define LOWTAIL_SENDERS_H

#define SENDERS 256u

enum sender {
	SENDER_OTHER_VMS = 192,	/* VMs whose slots are beyond */
	SENDER_HOST,		/* the kernel itself, or a socket that nobody has */
	SENDER_OTHERS,		/* who has found no number */
	SENDER_NAMED,		/* from here on those that get theirs when they are seen */
};

#define SENDERS_NAMED (SENDERS - SENDER_NAMED)

enum sender_kind {
	SENDER_GROUP = 1,	/* a control group: its number */
	SENDER_INTERFACE,	/* its namespace, and its number there */
};

struct sender_key {
	__u64 id;
	__u64 kind;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, SENDERS_NAMED);
	__type(key, struct sender_key);
	__type(value, __u32);
} senders SEC(".maps");

/*
 * Which numbers are taken, from SENDER_NAMED on. The loader gives back those of who is gone, each by
 * itself: others may be taken meanwhile.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SENDERS_NAMED);
	__type(key, __u32);
	__type(value, __u64);
} taken SEC(".maps");

/* That all are taken, so that nobody looks for one in vain; the loader clears it when it gives some back. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} full SEC(".maps");

/* Bytes of each sender that an uplink's driver was given, or that were taken from a tap's ring. */
struct served {
	__u64 bytes[SENDERS];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 64);	/* and as many as there can be taps */
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct link_key);
	__type(value, struct served);
} served SEC(".maps");

/* What a new entry of `served` begins with: more than a program's stack holds. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct served);
} nothing SEC(".maps");

static __always_inline struct served *served_by(const struct link_key *link)
{
	struct served *found = bpf_map_lookup_elem(&served, link);
	__u32 zero = 0;

	if (found)
		return found;
	found = bpf_map_lookup_elem(&nothing, &zero);
	if (!found)
		return 0;
	if (bpf_map_update_elem(&served, link, found, BPF_NOEXIST) == -E2BIG)
		LOSE(blame);
	return bpf_map_lookup_elem(&served, link);
}

/* A number for somebody who has none yet. Not static: the verifier looks at it once. */
__attribute__((noinline)) __u32 enter_sender(__u64 kind, __u64 id)
{
	struct sender_key key = { id, kind };
	__u32 zero = 0, at, number, *found;
	__u64 *is_taken, *is_full = bpf_map_lookup_elem(&full, &zero);

	if (!is_full || *is_full)
		return SENDER_OTHERS;
	for (__u32 i = 0; i < SENDERS_NAMED; i++) {
		/* A copy: the verifier would forget what is known of a variable that has an address. */
		at = i;
		is_taken = bpf_map_lookup_elem(&taken, &at);
		if (!is_taken || *is_taken || __sync_val_compare_and_swap(is_taken, 0, 1))
			continue;
		number = SENDER_NAMED + i;
		if (!bpf_map_update_elem(&senders, &key, &number, BPF_NOEXIST))
			return number;
		/* Another CPU was first. */
		__sync_lock_test_and_set(is_taken, 0);
		found = bpf_map_lookup_elem(&senders, &key);
		return found ? *found : SENDER_OTHERS;
	}
	*is_full = 1;
	return SENDER_OTHERS;
}

static __always_inline __u32 named_sender(__u64 kind, __u64 id)
{
	struct sender_key key = { id, kind };
	__u32 *number = bpf_map_lookup_elem(&senders, &key);

	return number ? *number : enter_sender(kind, id);
}

static __always_inline __u32 vm_sender(__u32 slot)
{
	return slot < SENDER_OTHER_VMS ? slot : SENDER_OTHER_VMS;
}

/* Of the host's own packets: the control group in which the socket was made. */
static __always_inline __u32 host_sender(const struct sk_buff *skb)
{
	const struct sock *sk = skb->sk;
	__u64 id;

	/* Two kinds of sockets are too short to have one: of connections that begin, and that have ended. */
	if (!sk || !bpf_core_field_exists(sk->sk_cgrp_data.cgroup) ||
	    sk->__sk_common.skc_state == TCP_TIME_WAIT || sk->__sk_common.skc_state == TCP_NEW_SYN_RECV)
		return SENDER_HOST;
	/* A tap's: what its VM sends through a tunnel or a macvtap, in the group of whoever has opened it. */
	if (sk->__sk_common.skc_family == AF_UNSPEC)
		return SENDER_OTHERS;
	id = BPF_CORE_READ(sk, sk_cgrp_data.cgroup, kn, id);
	/* In the topmost one are those of the kernel. */
	return id > 1 ? named_sender(SENDER_GROUP, id) : SENDER_HOST;
}

#endif
