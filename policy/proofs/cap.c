// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Caps: no faster than the quota, and a part of it is for small ones.
 *
 * Replaced: lt_bucket_fill lt_div_up
 * Overflows: in states.c
 */
#include "proof.h"

/*
 * What the cap's bucket holds, what vCPUs hold of it, and what they have run
 * together grow by fills alone: see small.c.
 */
void prove_capped_grants_make_no_tokens(void)
{
	struct lt_params p = any_params();
	struct lt_vm vm = any_vm(&p);
	struct lt_vcpu v = any_vcpu(&p);
	lt_u64 length, held = v.grant_ns;

	watch(&vm.cap);
	ASSUME(vm.capped && v.cap_grant_ns == 0);	/* settled */
	length = lt_cap_grant(&v, &vm, &p, nondet_u64(), any_clock());
	CHECK(length == v.cap_grant_ns && v.grant_ns == held);
	CHECK(vm.cap.tokens_ns + length == had_tokens);
	CASE(length > vm.cap_run_ns);
	CASE(length == vm.cap_run_ns);
}

void prove_capped_settlements_make_no_tokens(void)
{
	struct lt_params p = any_params();
	struct lt_vm vm = any_vm(&p);
	struct lt_vcpu v = any_vcpu(&p);
	lt_u64 ran = nondet_u64(), held = v.cap_grant_ns;

	watch(&vm.cap);
	ASSUME(vm.vtime_ns < VTIME_END - (1ull << 40));
	ASSUME(vm.capped && ran <= LT_RAN_MAX_NS);
	lt_vcpu_settle(&v, &vm, ran, any_clock());
	CHECK((ran > held && vm.cap.tokens_ns == 0) ||
	      vm.cap.tokens_ns + ran <= had_tokens + held);
	CASE(ran < held && vm.cap.tokens_ns < vm.cap.burst_ns);
	CASE(ran > held && vm.cap.tokens_ns > 0);
}

/* Large ones leave what is for small ones; no turn is longer than it should be. */
void prove_large_ones_leave_what_is_kept(void)
{
	struct lt_params p = any_params();
	struct lt_vm vm = any_vm(&p);
	struct lt_vcpu v = any_vcpu(&p);
	lt_u64 length;

	ASSUME(vm.capped);
	length = lt_cap_grant(&v, &vm, &p, nondet_u64(), any_clock());
	CHECK(length <= lt_max(vm.cap_run_ns, p.grain_ns));
	CHECK(length == 0 || v.class == LT_SMALL || vm.cap.tokens_ns >= vm.cap_keep_ns);
	CASE(length > 0 && v.class == LT_LARGE && vm.cap.tokens_ns == vm.cap_keep_ns);
	CASE(length > 0 && v.class == LT_SMALL && vm.cap.tokens_ns < vm.cap_keep_ns);
}

/*
 * The moment that lt_cap_when names is there, and it is the moment when
 * lt_cap_grant grants: 0 means now, and now it does.
 */
void prove_a_capped_one_waits_for_its_moment(void)
{
	struct lt_params p = any_params();
	struct lt_vm vm = any_vm(&p);
	struct lt_vcpu v = any_vcpu(&p);
	lt_u64 when, now = any_clock(), want = nondet_u64();

	lt_bucket_fill(&vm.cap, now);
	when = lt_cap_when(&v, &vm, &p);
	CHECK(when != LT_NEVER);
	CHECK(vm.capped || when == 0);
	CHECK(when == 0 || when > now);
	ASSUME(when == 0 && want > 0);
	CHECK(lt_cap_grant(&v, &vm, &p, want, now) > 0);
	CASE(vm.capped && v.class == LT_LARGE);
	CASE(vm.capped && v.class == LT_SMALL);
}
