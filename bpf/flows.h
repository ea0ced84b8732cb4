/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Round trips of TCP: a bounded table of connections, and one segment of each that is on its way. */
#ifndef LOWTAIL_FLOWS_H
#define LOWTAIL_FLOWS_H

#define FLOW_WAYS 8
#define FLOW_SHARE 2		/* of a set, which a VM cannot take from others */
#define GIVE_UP_NS 60000000000ull

/* A connection, and one segment of it that has not been answered. */
struct flow {
	__u64 key;
	__u64 used_ns;
	__u64 sent_ns;		/* when the segment left; 0: there is none */
	__u32 end;		/* the sequence number after it */
	__u32 highest;		/* after all that was sent */
	__u32 tsval;
	__u16 slot;
	__u16 epoch;
	__u8 stamped;		/* it has a time stamp */
	__u8 again;		/* some of it was sent again meanwhile */
	__u8 pad[6];
};

struct flow_set {
	struct flow ways[FLOW_WAYS];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct flow_set);
} flows SEC(".maps");

static __always_inline bool before(__u32 a, __u32 b)
{
	return (__s32)(a - b) < 0;
}

static __always_inline struct flow *find_flow(__u64 key)
{
	__u32 index = key >> 8 & config.flow_mask;
	struct flow_set *set = bpf_map_lookup_elem(&flows, &index);

	if (!set)
		return 0;
#pragma unroll
	for (int i = 0; i < FLOW_WAYS; i++) {
		if (*(volatile __u64 *)&set->ways[i].key == key)
			return &set->ways[i];
	}
	return 0;
}

/*
 * Where there is room for a flow of @slot in the set @index: a free place, else the one unused for longest; of
 * the VM's own if it has its share of the set, so that one with many connections, true or not, does
 * not put an end to all measurements of others. `FLOW_WAYS`: nowhere. Not static, and a number rather than a
 * pointer: else the verifier follows each choice of each way by itself, 390,000 instructions.
 */
__attribute__((noinline)) __u32 flow_room(__u32 index, __u32 slot)
{
	struct flow_set *set = bpf_map_lookup_elem(&flows, &index);
	__u64 longest = ~0ull, longest_own = ~0ull, used, key;
	__u32 into = FLOW_WAYS, mine = FLOW_WAYS, own = 0;
	struct flow *way;

	if (!set)
		return FLOW_WAYS;
#pragma unroll
	for (int i = 0; i < FLOW_WAYS; i++) {
		way = &set->ways[i];
		key = *(volatile __u64 *)&way->key;
		if (key == CLAIMED)
			continue;
		used = key ? way->used_ns : 0;
		if (key && way->slot == slot) {
			own++;
			if (used < longest_own) {
				longest_own = used;
				mine = i;
			}
		}
		if (used < longest) {
			longest = used;
			into = i;
		}
	}
	return own >= FLOW_SHARE ? mine : into;
}

/* A place for a flow, which is `CLAIMED` until it has a key. */
static __always_inline struct flow *claim_flow(__u64 key, const struct packet *packet)
{
	__u32 index = key >> 8 & config.flow_mask, room = flow_room(index, packet->slot);
	struct flow_set *set = bpf_map_lookup_elem(&flows, &index);
	struct flow *into;
	__u64 old;

	if (!set)
		return 0;
	if (room >= FLOW_WAYS)
		goto lose;
	into = &set->ways[room];
	old = *(volatile __u64 *)&into->key;
	if (old == CLAIMED || __sync_val_compare_and_swap(&into->key, old, CLAIMED) != old)
		goto lose;
	if (old && into->sent_ns)
		LOSE(flows);
	into->sent_ns = 0;
	into->slot = packet->slot;
	into->epoch = packet->epoch;
	return into;
lose:
	LOSE(flows);
	return 0;
}

/*
 * A segment leaves. Of each flow one at a time is measured, and only one that asks for an
 * answer: it has data, or opens or closes. One that was sent before is not: its answer
 * might be the first one's (Karn and Partridge, 1987). Not static: the verifier looks at it
 * once, and not for each way to it.
 */
__attribute__((noinline)) int note_sent(const struct segment *s, const struct packet *packet,
					__u64 now)
{
	struct flow *flow;
	bool fresh = false;
	__u64 sent;

	if (!s || !packet || s->end == s->seq || s->flags & RST)
		return 0;
	flow = find_flow(s->sent);
	if (!flow) {
		flow = claim_flow(s->sent, packet);
		if (!flow)
			return 0;
		fresh = true;
	} else if (flow->slot != packet->slot || flow->epoch != packet->epoch) {
		/* Another VM has these addresses now, or says so. */
		__sync_lock_test_and_set(&flow->sent_ns, 0);
		flow->slot = packet->slot;
		flow->epoch = packet->epoch;
		flow->highest = s->end;
		return 0;
	}
	flow->used_ns = now;
	if (fresh || (s->flags & SYN && s->end != flow->highest)) {
		/* A connection in its midst: its first segment may have been sent before. */
		flow->highest = s->end;
		if (fresh && !(s->flags & SYN) && !s->stamped)
			goto publish;
	} else {
		bool again = before(s->seq, flow->highest);

		if (!again)
			flow->highest = s->end;
		sent = flow->sent_ns;
		if (sent && now - sent < GIVE_UP_NS) {
			if (!again || !before(s->seq, flow->end))
				return 0;
			/* The time stamp in its answer tells which one was answered, if they differ. */
			flow->again = 1;
			if (!s->stamped || !flow->stamped || s->tsval == flow->tsval)
				__sync_val_compare_and_swap(&flow->sent_ns, sent, 0);
			return 0;
		}
		if (again)
			return 0;
		if (sent)
			__sync_lock_test_and_set(&flow->sent_ns, 0);
	}
	flow->end = s->end;
	flow->tsval = s->tsval;
	flow->stamped = s->stamped;
	flow->again = 0;
	__sync_lock_test_and_set(&flow->sent_ns, now);
publish:
	if (fresh)
		__sync_lock_test_and_set(&flow->key, s->sent);
	return 0;
}

/*
 * A segment arrives that acknowledges the one that is measured, and all before it. A time stamp
 * that is newer than the measured one's says that something before it came later, sent again.
 */
static __always_inline void note_answer(const struct segment *s, __u64 now)
{
	struct flow *flow;
	struct slot *slot;
	__u16 index, epoch;
	bool valid;
	__u64 sent;

	if (!(s->flags & ACK) || s->flags & RST)
		return;
	flow = find_flow(s->came);
	if (!flow)
		return;
	sent = flow->sent_ns;
	if (!sent || before(s->ack, flow->end))
		return;
	index = flow->slot;
	epoch = flow->epoch;
	if (flow->stamped && s->stamped)
		valid = !before(flow->tsval, s->tsecr);
	else
		valid = !flow->again;
	if (__sync_val_compare_and_swap(&flow->sent_ns, sent, 0) != sent || !valid)
		return;
	if (now <= sent || now - sent >= GIVE_UP_NS)
		return;
	slot = find_slot(index, epoch);
	if (slot)
		note(&slot->beyond, now - sent);
}

#endif
