// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The functions of the policy headers with addresses, for callers in Rust. */
#include "vcpu.h"
#include "vif.h"
/* Here who calls has all of it to himself, as Rust's `&mut` says. */
#define LT_FLOW_SWAP(at, old, new) (*(at) = (new), 1)
#define LT_FLOW_COUNT(at) ((void)++*(at))
#include "flow.h"

void lowtail_params_default(struct lt_params *p)
{
	*p = (struct lt_params)LT_PARAMS_DEFAULT;
}

/* Sizes that Rust's copies of the structs must have. */
void lowtail_sizes(lt_u32 *sizes)
{
	sizes[0] = sizeof(struct lt_bucket);
	sizes[1] = sizeof(struct lt_params);
	sizes[2] = sizeof(struct lt_pcpu);
	sizes[3] = sizeof(struct lt_vm);
	sizes[4] = sizeof(struct lt_vcpu);
	sizes[5] = sizeof(struct lt_vif);
	sizes[6] = sizeof(struct lt_flow_params);
	sizes[7] = sizeof(struct lt_flow_rule);
	sizes[8] = sizeof(struct lt_flow_set);
	sizes[9] = sizeof(struct lt_flow_vm);
	sizes[10] = sizeof(struct lt_flow_seed);
	sizes[11] = sizeof(struct lt_cap);
}

void lowtail_bucket_init(struct lt_bucket *b, lt_u32 rate, lt_u32 burst_ns,
			 lt_u64 tokens_ns, lt_u64 now)
{
	lt_bucket_init(b, rate, burst_ns, tokens_ns, now);
}

void lowtail_bucket_fill(struct lt_bucket *b, lt_u64 now)
{
	lt_bucket_fill(b, now);
}

lt_u64 lowtail_bucket_take(struct lt_bucket *b, lt_u64 want_ns)
{
	return lt_bucket_take(b, want_ns);
}

void lowtail_bucket_give(struct lt_bucket *b, lt_u64 back_ns)
{
	lt_bucket_give(b, back_ns);
}

lt_u64 lowtail_bucket_when(const struct lt_bucket *b, lt_u64 want_ns)
{
	return lt_bucket_when(b, want_ns);
}

lt_u32 lowtail_share_at(lt_u32 demand, lt_u32 weight, lt_u32 level)
{
	return lt_share_at(demand, weight, level);
}

lt_u32 lowtail_entitled(lt_u32 demand, lt_u32 weight, lt_u32 level, lt_u32 spare,
			lt_u32 most)
{
	return lt_entitled(demand, weight, level, spare, most);
}

void lowtail_pcpu_init(struct lt_pcpu *cpu, const struct lt_params *p, lt_u64 now)
{
	lt_pcpu_init(cpu, p, now);
}

void lowtail_vm_init(struct lt_vm *vm, const struct lt_params *p, lt_u32 weight,
		     lt_u32 vcpus, lt_u32 share, lt_u64 now)
{
	lt_vm_init(vm, p, weight, vcpus, share, now);
}

void lowtail_cap_init(struct lt_cap *cap, lt_u32 rate, lt_u32 burst_ns, lt_u32 vcpus,
		      lt_u64 now)
{
	lt_cap_init(cap, rate, burst_ns, vcpus, now);
}

void lowtail_vcpu_init(struct lt_vcpu *v, const struct lt_params *p, lt_u64 now)
{
	lt_vcpu_init(v, p, now);
}

void lowtail_vm_entitle(struct lt_vm *vm, lt_u32 rate, lt_u64 now)
{
	lt_vm_entitle(vm, rate, now);
}

void lowtail_vcpu_wake(struct lt_vcpu *v, struct lt_vm *vm, const struct lt_params *p,
		       lt_u64 vtime_ns, lt_u64 now)
{
	lt_vcpu_wake(v, vm, p, vtime_ns, now);
}

void lowtail_vcpu_kick(struct lt_vcpu *v)
{
	lt_vcpu_kick(v);
}

void lowtail_vcpu_yield(struct lt_vcpu *v)
{
	lt_vcpu_yield(v);
}

lt_u64 lowtail_vcpu_grant(struct lt_vcpu *v, struct lt_vm *vm, const struct lt_params *p,
			  lt_u64 now)
{
	return lt_vcpu_grant(v, vm, p, now);
}

lt_u64 lowtail_vcpu_turn(const struct lt_vcpu *v, const struct lt_params *p,
			 lt_u64 granted_ns)
{
	return lt_vcpu_turn(v, p, granted_ns);
}

void lowtail_vcpu_charge(struct lt_vcpu *v, struct lt_vm *vm, lt_u64 ran_ns, lt_u64 now)
{
	lt_vcpu_charge(v, vm, ran_ns, now);
}

void lowtail_vcpu_block(struct lt_vcpu *v, struct lt_vm *vm, lt_u64 now)
{
	lt_vcpu_block(v, vm, now);
}

lt_u64 lowtail_cap_grant(struct lt_vcpu *v, struct lt_vm *vm, const struct lt_params *p,
			 lt_u64 want_ns, lt_u64 now)
{
	return lt_cap_grant(v, vm, p, want_ns, now);
}

lt_u64 lowtail_cap_when(const struct lt_vcpu *v, const struct lt_vm *vm,
			const struct lt_params *p)
{
	return lt_cap_when(v, vm, p);
}

lt_u64 lowtail_left(const struct lt_vcpu *v, lt_u64 ran_ns)
{
	return lt_left(v, ran_ns);
}

lt_u64 lowtail_due(const struct lt_vcpu *v)
{
	return lt_due(v);
}

int lowtail_overdue(const struct lt_vcpu *v, const struct lt_vm *vm, lt_u64 now)
{
	return lt_overdue(v, vm, now);
}

int lowtail_boosted(const struct lt_vcpu *v, const struct lt_params *p, lt_u64 now)
{
	return lt_boosted(v, p, now);
}

int lowtail_before(const struct lt_vcpu *a, const struct lt_vm *vm_a,
		   const struct lt_vcpu *b, const struct lt_vm *vm_b, lt_u64 now)
{
	return lt_before(a, vm_a, b, vm_b, now);
}

lt_u64 lowtail_vtime(const struct lt_vcpu *v, const struct lt_vm *vm,
		     const struct lt_params *p, lt_u64 vtime_ns, lt_u64 now)
{
	return lt_vtime(v, vm, p, vtime_ns, now);
}

lt_u64 lowtail_beats_when(const struct lt_vcpu *v, const struct lt_vm *vm,
			  const struct lt_vcpu *cur, const struct lt_vm *vm_cur,
			  const struct lt_params *p, lt_u64 ran_ns, lt_u64 now)
{
	return lt_beats_when(v, vm, cur, vm_cur, p, ran_ns, now);
}

lt_u64 lowtail_preempt_when(const struct lt_vcpu *v, struct lt_vm *vm,
			    struct lt_pcpu *cpu, const struct lt_params *p, lt_u64 now)
{
	return lt_preempt_when(v, vm, cpu, p, now);
}

void lowtail_preempt_over(struct lt_pcpu *cpu, const struct lt_vcpu *v, lt_u64 now)
{
	lt_preempt_over(cpu, v, now);
}

int lowtail_preempt_take(const struct lt_vcpu *v, struct lt_vm *vm, struct lt_pcpu *cpu,
			 const struct lt_params *p)
{
	return lt_preempt_take(v, vm, cpu, p);
}

void lowtail_vif_init(struct lt_vif *vif, lt_u32 rate, lt_u32 burst_ns, lt_u64 now)
{
	lt_vif_init(vif, rate, burst_ns, now);
}

void lowtail_vif_join(struct lt_vif *vif, lt_u64 vtime_ns)
{
	lt_vif_join(vif, vtime_ns);
}

int lowtail_vif_small(struct lt_vif *vif, lt_u32 bytes, lt_u64 now)
{
	return lt_vif_small(vif, bytes, now);
}

void lowtail_vif_charge(struct lt_vif *vif, lt_u32 bytes)
{
	lt_vif_charge(vif, bytes);
}

int lowtail_vif_before(const struct lt_vif *a, int small_a, lt_u64 waiting_a,
		       const struct lt_vif *b, int small_b, lt_u64 waiting_b)
{
	return lt_vif_before(a, small_a, waiting_a, b, small_b, waiting_b);
}

void lowtail_flow_params_default(struct lt_flow_params *p)
{
	*p = (struct lt_flow_params)LT_FLOW_PARAMS_DEFAULT;
}

lt_u64 lowtail_flow_fold(const struct lt_flow_seed *seed, lt_u64 high, lt_u64 low)
{
	return lt_flow_fold(seed, high, low);
}

lt_u64 lowtail_flow_hash(const struct lt_flow_seed *seed, lt_u32 vm, lt_u64 src, lt_u64 dst,
			 lt_u64 ports)
{
	return lt_flow_hash(seed, vm, src, dst, ports);
}

lt_u32 lowtail_flow_index(lt_u64 hash, lt_u32 mask)
{
	return lt_flow_index(hash, mask);
}

void lowtail_flow_rule_init(struct lt_flow_rule *r, const struct lt_flow_params *p)
{
	lt_flow_rule_init(r, p);
}

int lowtail_flow_vm_take(struct lt_flow_vm *vm, const struct lt_flow_rule *r,
			 lt_u32 bytes, lt_u64 now)
{
	return lt_flow_vm_take(vm, r, bytes, now);
}

lt_u32 lowtail_flow_classify(struct lt_flow_set *set, struct lt_flow_vm *owner,
			     const struct lt_flow_rule *r, lt_u32 vm, lt_u64 hash,
			     lt_u32 bytes, lt_u64 now)
{
	return lt_flow_classify(set, owner, r, vm, hash, bytes, now);
}
