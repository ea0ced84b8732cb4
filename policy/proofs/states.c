// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Every function of vcpu.h keeps pCPUs, VMs and vCPUs valid, and nothing
 * overflows in it, in whatever order they are called.
 *
 * Replaced: lt_bucket_fill lt_div_up
 */
#include "proof.h"

void prove_made_valid(void)
{
	struct lt_params p = any_params();
	struct lt_pcpu cpu;
	struct lt_vcpu v;
	lt_u64 now = any_clock();

	lt_pcpu_init(&cpu, &p, now);
	CHECK(valid_pcpu(&cpu, &p) && cpu.preempt.tokens_ns == p.preempt_burst_ns);
	lt_vcpu_init(&v, &p, now);
	CHECK(valid_vcpu(&v, &p) && v.class == LT_LARGE && v.grant_ns == 0);
	CASE(now == CLOCK_END - 1);
}

/* Whatever weight, number of vCPUs and share. */
void prove_vm_made_valid(void)
{
	struct lt_params p = any_params();
	struct lt_vm vm;
	lt_u32 share = nondet_u32();

	lt_vm_init(&vm, &p, nondet_u32(), nondet_u32(), share, any_clock());
	CHECK(valid_vm(&vm, &p) && !lt_capped(&vm.cap));
	CASE(vm.wait_max_ns == LT_WAIT_MAX_NS);
	CASE(vm.wait_max_ns < LT_WAIT_MAX_NS && share == 1 << 15);
}

/* Whatever rate, burst and number of vCPUs. */
void prove_cap_made_valid(void)
{
	struct lt_cap cap;
	lt_u32 rate = nondet_u32(), burst = nondet_u32();

	lt_cap_init(&cap, rate, burst, nondet_u32(), any_clock());
	CHECK(valid_cap(&cap) && lt_capped(&cap) == (rate != 0));
	CHECK(!rate || cap.run.burst_ns >= lt_min(burst, LT_BURST_MAX_NS));
	CASE(rate && cap.turn_ns < LT_CAP_RUN_NS);
	CASE(cap.turn_ns > LT_CAP_RUN_NS);
	CASE(rate == 1 && cap.turn_ns == LT_CAP_RUN_NS);
}

/* The demands, weights and levels that a caller may pass are all there are. */
void prove_entitlement_in_range(void)
{
	lt_u32 demand = nondet_u32(), weight = nondet_u32(), level = nondet_u32();
	lt_u32 spare = nondet_u32(), most = nondet_u32(), served, entitled;

	ASSUME(weight >= 1 && weight <= LT_WEIGHT_MAX);
	served = lt_share_at(demand, weight, level);
	CHECK(served <= demand);
	entitled = lt_entitled(demand, weight, level, spare, most);
	CHECK(entitled <= most && entitled <= LT_RATE_MAX);
	CHECK(!spare || entitled == most || entitled == LT_RATE_MAX || entitled > demand);
	CASE(served < demand && served > 0);
	CASE(entitled == LT_RATE_MAX && most > entitled);
	CASE(entitled > demand && entitled < most);
}

/* Nobody is entitled to less than it gets: for weights of 5 bits and levels of 8. */
void prove_entitled_to_what_is_served(void)
{
	lt_u32 demand = nondet_u32(), weight = nondet_u32() & 31, level;
	lt_u32 spare = nondet_u32(), most = nondet_u32();

	level = (nondet_u32() & 255) << 16;
	ASSUME(weight >= 1);
	ASSUME(demand <= most && demand <= LT_RATE_MAX);
	CHECK(lt_entitled(demand, weight, level, spare, most) >=
	      lt_share_at(demand, weight, level));
	CASE(spare == 0);
}

void prove_entitling_keeps_valid(void)
{
	struct lt_params p = any_params();
	struct lt_vm vm = any_vm(&p);
	lt_u32 rate = nondet_u32();

	lt_vm_entitle(&vm, rate, any_clock());
	CHECK(valid_vm(&vm, &p));
	CHECK(vm.small.rate == rate || vm.small.rate == LT_RATE_MAX);
	CASE(vm.small.rate == LT_RATE_MAX && rate > LT_RATE_MAX);
}

void prove_waking_keeps_valid(void)
{
	struct lt_params p = any_params();
	struct lt_vm vm = any_vm(&p);
	struct lt_vcpu v = any_vcpu(&p);
	lt_u64 vtime = nondet_u64(), old = vm.vtime_ns;

	ASSUME(vtime < VTIME_END);
	ASSUME(vm.runnable < ~0u);	/* vCPUs of a VM */
	lt_vcpu_wake(&v, &vm, &p, vtime, any_clock());
	CHECK(valid_vm(&vm, &p) && valid_vcpu(&v, &p));
	CHECK(vm.vtime_ns >= old && vm.runnable > 0);
	lt_vcpu_kick(&v);
	CHECK(valid_vcpu(&v, &p));
	lt_vcpu_yield(&v);
	CHECK(valid_vcpu(&v, &p));
	CASE(vm.vtime_ns > old && vm.vtime_ns < vtime);
	CASE(vm.vtime_ns > old && vm.vtime_ns == vtime);
}

/* A stretch is never empty, nor longer than a slice or a grant. */
void prove_granting_keeps_valid(void)
{
	struct lt_params p = any_params();
	struct lt_vm vm = any_vm(&p);
	struct lt_vcpu v = any_vcpu(&p);
	lt_u64 now = any_clock(), length;
	lt_u8 class = v.class;

	length = lt_vcpu_grant(&v, &vm, &p, now);
	CHECK(valid_vm(&vm, &p) && valid_vcpu(&v, &p));
	CHECK(length > 0 || (class == LT_SMALL && v.class == LT_LARGE));
	CHECK(length <= lt_max(p.slice_ns, p.grant_ns));
	CHECK(lt_vcpu_turn(&v, &p, length) >= length);
	CHECK(lt_vcpu_turn(&v, &p, length) <= LT_SLICE_MAX_NS);
	CASE(length == 0);
	CASE(length == p.grant_ns && v.class == LT_SMALL);
	CASE(length < p.starvation_boost_ns && v.class == LT_LARGE);
}

void prove_settling_keeps_valid(void)
{
	struct lt_params p = any_params();
	struct lt_vm vm = any_vm(&p);
	struct lt_vcpu v = any_vcpu(&p);
	lt_u64 now = any_clock(), ran = nondet_u64(), vtime = vm.vtime_ns;

	ASSUME(vm.vtime_ns < VTIME_END - (1ull << 40));
	lt_vcpu_charge(&v, &vm, ran, now);
	CHECK(valid_vm(&vm, &p) && valid_vcpu(&v, &p));
	CHECK(v.grant_ns == 0 && v.cap_grant_ns == 0);
	CHECK(vm.vtime_ns >= vtime && vm.vtime_ns - vtime <= 1ull << 40);
	CHECK(ran > LT_RAN_MAX_NS || vm.inv_weight > 256 || vm.vtime_ns - vtime == ran >> 8);
	CASE(v.ran_ns == ~0u);
	CASE(vm.vtime_ns - vtime == 1ull << 40);

	vtime = vm.runnable;
	lt_vcpu_block(&v, &vm, now);
	CHECK(valid_vm(&vm, &p) && valid_vcpu(&v, &p));
	CHECK(vm.runnable == lt_since(vtime, 1));
	CASE(v.avg_burst_ns == ~0u);
}

void prove_caps_keep_valid(void)
{
	struct lt_params p = any_params();
	struct lt_vm vm = any_vm(&p);
	struct lt_vcpu v = any_vcpu(&p);
	lt_u64 want = nondet_u64(), length;

	length = lt_cap_grant(&v, &vm, &p, want, any_clock());
	CHECK(valid_vm(&vm, &p) && valid_vcpu(&v, &p) && length <= want);
	CHECK(length == want || lt_capped(&vm.cap) || lt_capped(&v.cap));
	lt_cap_when(&v, &vm, &p);
	CASE(length > 0 && length < want);
	CASE(length == 0 && want > 0);
}

void prove_preempting_keeps_valid(void)
{
	struct lt_params p = any_params();
	struct lt_pcpu cpu = any_pcpu(&p);
	struct lt_vm vm = any_vm(&p);
	struct lt_vcpu v = any_vcpu(&p);

	lt_preempt_when(&v, &vm, &cpu, &p, any_clock());
	CHECK(valid_vm(&vm, &p) && valid_pcpu(&cpu, &p));
	lt_preempt_take(&v, &vm, &cpu, &p);
	CHECK(valid_vm(&vm, &p) && valid_pcpu(&cpu, &p));
	CASE(cpu.preempt.tokens_ns == 0 && vm.preempt.tokens_ns == 0);
}

/* What only looks overflows nowhere either. */
void prove_looking_is_safe(void)
{
	struct lt_params p = any_params();
	struct lt_vm vm = any_vm(&p), other_vm = any_vm(&p);
	struct lt_vcpu v = any_vcpu(&p), other = any_vcpu(&p);
	lt_u64 now = any_clock(), ran = nondet_u64();
	int before, beats;

	before = lt_before(&v, &vm, &other, &other_vm, now);
	beats = lt_beats(&v, &vm, &other, &other_vm, &p, ran, now);
	CHECK((before == 0 || before == 1) && (beats == 0 || beats == 1));
	CASE(beats && !before);
	CASE(before && !beats);
}

/* Virtual time is pulled along, never back, and never beyond who pulls. */
void prove_vtime_is_pulled_along(void)
{
	struct lt_params p = any_params();
	struct lt_vm vm = any_vm(&p);
	struct lt_vcpu v = any_vcpu(&p);
	lt_u64 vtime = nondet_u64(), new;

	new = lt_vtime(&v, &vm, &p, vtime, any_clock());
	CHECK(new >= vtime && new <= lt_max(vtime, vm.vtime_ns));
	CASE(new > vtime && new < vm.vtime_ns);
	CASE(new > vtime && new == vm.vtime_ns);
}
