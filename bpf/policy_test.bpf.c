// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The policy headers inside the kernel's BPF VM, for two purposes: the
 * program `steps` takes a list of calls and says what came of each, to be
 * compared with the same calls made natively; the programs `empty` and
 * `decision` are for measuring what a scheduling decision costs.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "vcpu.h"
#include "vif.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define STEPS 2048
#define VMS 2
#define VCPUS 4
#define VIFS 4

/*
 * All that the rule knows of a host with a pCPU, two vCPUs for each VM, and a
 * back end.
 */
struct world {
	struct lt_params params;
	lt_u32 pad;
	struct lt_pcpu cpu;
	struct lt_vm vms[VMS];
	struct lt_vcpu vcpus[VCPUS];
	lt_u64 vtime_ns;
	struct lt_vif vifs[VIFS];
};

/*
 * A call: which function, for which vCPU or interface and which other one, when,
 * with what.
 */
struct call {
	lt_u32 function;
	lt_u32 vcpu;
	lt_u32 other;
	lt_u32 small;	/* bits 0 and 1: which of two interfaces is small */
	lt_u64 now;
	lt_u64 amount;
};

/* What it returned, and a checksum of the world after it. */
struct answer {
	lt_u64 result;
	lt_u64 sum;
};

/* All variables, so that the other side knows where each stands. */
struct shared {
	lt_u64 count;
	lt_u64 clock_ns;	/* of the measured decisions */
	struct world world;
	struct call calls[STEPS];
	struct answer answers[STEPS];
} shared;

/* FNV-1a over words. */
static __attribute__((noinline)) lt_u64 checksum(void)
{
	const lt_u64 *words = (const lt_u64 *)&shared.world;
	lt_u64 sum = 0xcbf29ce484222325ull;

	for (int i = 0; i < (int)(sizeof(shared.world) / sizeof(lt_u64)); i++)
		sum = (sum ^ words[i]) * 0x100000001b3ull;
	return sum;
}

/* The functions of vif.h. */
static __attribute__((noinline)) lt_u64 make_vif(const struct call *call)
{
	lt_u64 now = call->now, amount = call->amount;
	lt_u32 bytes = amount, more = amount >> 32;
	struct lt_vif *vif = &shared.world.vifs[call->vcpu & (VIFS - 1)];
	const struct lt_vif *other = &shared.world.vifs[call->other & (VIFS - 1)];

	switch (call->function) {
	case 28:
		lt_vif_init(vif, bytes, more, now);
		return 0;
	case 29:
		lt_vif_join(vif, amount);
		return vif->vtime_ns;
	case 30:
		return lt_vif_small(vif, bytes, now);
	case 31:
		lt_vif_charge(vif, bytes);
		return vif->vtime_ns;
	case 32:
		return lt_vif_before(vif, call->small & 1, bytes,
				     other, call->small >> 1 & 1, more);
	}
	return 0;
}

static __attribute__((noinline)) lt_u64 make(const struct call *call)
{
	const struct lt_params *p = &shared.world.params;
	struct lt_vcpu *v, *w;
	struct lt_vm *vm, *wm;
	lt_u64 now = call->now, amount = call->amount;
	lt_u32 i = call->vcpu & (VCPUS - 1), j = call->other & (VCPUS - 1);

	v = &shared.world.vcpus[i];
	w = &shared.world.vcpus[j];
	vm = &shared.world.vms[(i >> 1) & (VMS - 1)];
	wm = &shared.world.vms[(j >> 1) & (VMS - 1)];
	switch (call->function) {
	case 0:
		lt_vcpu_wake(v, vm, p, shared.world.vtime_ns, now);
		return v->class;
	case 1:
		lt_vcpu_kick(v);
		return 0;
	case 2:
		lt_vcpu_yield(v);
		return 0;
	case 3:
		return lt_vcpu_grant(v, vm, p, now);
	case 4:
		return lt_vcpu_turn(v, p, amount);
	case 5:
		lt_vcpu_charge(v, vm, amount, now);
		return 0;
	case 6:
		lt_preempt_over(&shared.world.cpu, v, now);
		lt_vcpu_block(v, vm, now);
		return 0;
	case 7:
		return lt_cap_grant(v, vm, p, amount, now);
	case 8:
		return lt_cap_when(v, vm, p);
	case 9:
		return lt_left(v, amount);
	case 10:
		return lt_due(v);
	case 11:
		return lt_overdue(v, vm, now);
	case 12:
		return lt_boosted(v, p, now);
	case 13:
		return lt_before(v, vm, w, wm, now);
	case 14:
		shared.world.vtime_ns = lt_vtime(v, vm, p, shared.world.vtime_ns, now);
		return shared.world.vtime_ns;
	case 15:
		return lt_beats_when(v, vm, w, wm, p, amount, now);
	case 16:
		return lt_preempt_when(v, vm, &shared.world.cpu, p, now);
	case 17:
		return lt_preempt_take(v, vm, &shared.world.cpu, p);
	case 18:
		lt_vm_entitle(vm, amount, now);
		return 0;
	case 19:
		lt_vm_init(vm, p, (lt_u32)amount & 0xffff, i, j, now);
		lt_cap_init(&vm->cap, (lt_u32)(amount >> 32), (lt_u32)amount, i, now);
		return 0;
	case 20:
		lt_vcpu_init(v, p, now);
		lt_cap_init(&v->cap, (lt_u32)(amount >> 32), (lt_u32)amount, 1, now);
		return 0;
	case 21:
		lt_pcpu_init(&shared.world.cpu, p, now);
		return 0;
	case 22:
		return lt_share_at((lt_u32)amount, (lt_u32)(amount >> 32), (lt_u32)now);
	case 23:
		return lt_entitled((lt_u32)amount, (lt_u32)(amount >> 32), (lt_u32)now,
				   (lt_u32)(now >> 32), call->other);
	case 24:
		lt_bucket_fill(&v->small, now);
		return v->small.tokens_ns;
	case 25:
		return lt_bucket_take(&v->small, amount);
	case 26:
		lt_bucket_give(&v->small, amount);
		return 0;
	case 27:
		return lt_bucket_when(&v->small, amount);
	}
	return 0;
}

static long step(__u64 i, void *ctx)
{
	if (i >= STEPS)
		return 1;
	shared.answers[i].result = shared.calls[i].function < 28 ?
		make(&shared.calls[i]) : make_vif(&shared.calls[i]);
	shared.answers[i].sum = checksum();
	return 0;
}

SEC("syscall")
int steps(void *ctx)
{
	bpf_loop(shared.count < STEPS ? shared.count : STEPS, step, 0, 0);
	return 0;
}

SEC("tc")
int empty(struct __sk_buff *skb)
{
	return 0;
}

/* What the measured decisions start from. */
static __always_inline void begin(lt_u64 now)
{
	const struct lt_params *p = &shared.world.params;

	if (now != 700000)
		return;
	lt_pcpu_init(&shared.world.cpu, p, now);
	for (int i = 0; i < VMS; i++)
		lt_vm_init(&shared.world.vms[i], p, 256, 1, LT_RATE_ONE / 2, now);
	for (int i = 0; i < VCPUS; i++)
		lt_vcpu_init(&shared.world.vcpus[i], p, now);
	for (int i = 0; i < VIFS; i++)
		lt_vif_init(&shared.world.vifs[i], LT_VIF_RATE, LT_VIF_BURST_NS, now);
}

/*
 * The decision that a scheduler makes on each wake-up: does who woke interrupt
 * who runs, and may it?
 */
SEC("tc")
int interrupt(struct __sk_buff *skb)
{
	const struct lt_params *p = &shared.world.params;
	struct lt_vcpu *v = &shared.world.vcpus[0], *cur = &shared.world.vcpus[2];
	struct lt_vm *vm = &shared.world.vms[0], *vm_cur = &shared.world.vms[1];
	lt_u64 now = shared.clock_ns + 700000;

	shared.clock_ns = now;
	begin(now);
	v->class = LT_SMALL;
	if (lt_beats(v, vm, cur, vm_cur, p, 30000, now) &&
	    !lt_preempt_when(v, vm, &shared.world.cpu, p, now))
		lt_preempt_take(v, vm, &shared.world.cpu, p);
	return 0;
}

/*
 * All that the rule does for one wake-up: it wakes, interrupts, gets its grant,
 * virtual time goes on, it is settled and blocks.
 */
SEC("tc")
int decision(struct __sk_buff *skb)
{
	const struct lt_params *p = &shared.world.params;
	struct lt_vcpu *v = &shared.world.vcpus[0], *cur = &shared.world.vcpus[2];
	struct lt_vm *vm = &shared.world.vms[0], *vm_cur = &shared.world.vms[1];
	lt_u64 now = shared.clock_ns + 700000;

	shared.clock_ns = now;
	begin(now);
	lt_vcpu_wake(v, vm, p, shared.world.vtime_ns, now);
	if (lt_beats(v, vm, cur, vm_cur, p, 30000, now) &&
	    !lt_preempt_when(v, vm, &shared.world.cpu, p, now))
		lt_preempt_take(v, vm, &shared.world.cpu, p);
	lt_vcpu_grant(v, vm, p, now);
	shared.world.vtime_ns = lt_vtime(v, vm, p, shared.world.vtime_ns, now);
	lt_vcpu_charge(v, vm, 20000, now + 20000);
	lt_vcpu_block(v, vm, now + 20000);
	return 0;
}

/*
 * A back end's choice between two interfaces, and that the winner pays: one
 * sends requests and is small, the other all that it can.
 */
SEC("tc")
int serve(struct __sk_buff *skb)
{
	struct lt_vif *a = &shared.world.vifs[0], *b = &shared.world.vifs[1];
	lt_u64 now = shared.clock_ns + 700000;
	int small_a, small_b;

	shared.clock_ns = now;
	begin(now);
	small_a = lt_vif_small(a, 200, now);
	small_b = lt_vif_small(b, 1500, now);
	if (lt_vif_before(a, small_a, 200, b, small_b, 65536))
		lt_vif_charge(a, 200);
	else
		lt_vif_charge(b, 1500);
	return 0;
}
