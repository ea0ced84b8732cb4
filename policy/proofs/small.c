// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Who is small, and for how much run time.
 *
 * Replaced: lt_bucket_fill lt_div_up
 * Overflows: in states.c
 */
#include "proof.h"

static const struct lt_bucket *either(const struct lt_bucket *a, const struct lt_bucket *b)
{
	return watch(nondet_u8() ? a : b);
}

/* One that wakes is small if, and only if, neither bucket is drained. */
void prove_a_drained_bucket_is_never_small(void)
{
	struct lt_params p = any_params();
	struct lt_vm vm = any_vm(&p);
	struct lt_vcpu v = any_vcpu(&p);
	int tokens;

	ASSUME(vm.runnable < ~0u);
	lt_vcpu_wake(&v, &vm, &p, 0, any_clock());
	tokens = v.small.tokens_ns >= p.min_grant_ns && vm.small.tokens_ns >= p.min_grant_ns;
	CHECK(tokens == (v.class == LT_SMALL));
	CASE(v.class == LT_SMALL);
	CASE(v.class == LT_LARGE && vm.small.tokens_ns >= p.min_grant_ns);
	CASE(v.class == LT_LARGE && v.small.tokens_ns >= p.min_grant_ns);
}

/*
 * One that is granted a stretch as small has it from both buckets; else it is
 * large, if it has run for long in any case.
 */
void prove_a_small_stretch_comes_out_of_both_buckets(void)
{
	struct lt_params p = any_params();
	struct lt_vm vm = any_vm(&p);
	struct lt_vcpu v = any_vcpu(&p);
	const struct lt_bucket *bucket = either(&v.small, &vm.small);
	lt_u64 length, held = v.grant_ns;
	int long_run = v.ran_ns >= (lt_u64)p.burst_ns * LT_RUN_BURSTS;

	ASSUME(v.class == LT_SMALL);
	length = lt_vcpu_grant(&v, &vm, &p, any_clock());
	if (v.class == LT_SMALL) {
		CHECK(length == v.grant_ns && length >= p.min_grant_ns && length <= p.grant_ns);
		CHECK(bucket->tokens_ns + length == had_tokens);
	} else {
		CHECK(length == 0 && v.grant_ns == held);
		CHECK(v.small.tokens_ns < p.min_grant_ns || vm.small.tokens_ns < p.min_grant_ns ||
		      long_run);
	}
	CHECK(!long_run || v.class == LT_LARGE);
	CASE(v.class == LT_SMALL && length < p.grant_ns);
	CASE(v.class == LT_LARGE && v.small.tokens_ns >= p.min_grant_ns &&
	     vm.small.tokens_ns >= p.min_grant_ns);
}

/* Nothing but waking makes a large one small. (Settlements: below.) */
void prove_small_only_by_waking(void)
{
	struct lt_params p = any_params();
	struct lt_vm vm = any_vm(&p);
	struct lt_vcpu v = any_vcpu(&p);
	lt_u64 now = any_clock();

	ASSUME(v.class == LT_LARGE);
	switch (nondet_u8()) {
	case 0:
		lt_vcpu_kick(&v);
		break;
	case 1:
		lt_vcpu_yield(&v);
		break;
	case 2:
		lt_vcpu_grant(&v, &vm, &p, now);
		break;
	case 3:
		lt_vcpu_block(&v, &vm, now);
		break;
	default:
		lt_cap_grant(&v, &vm, &p, nondet_u64(), now);
	}
	CHECK(v.class == LT_LARGE);
	CASE(v.small.tokens_ns >= p.min_grant_ns && vm.small.tokens_ns >= p.min_grant_ns);
}

/*
 * Run time as small is tokens: what a VM's bucket holds, what its vCPUs hold of
 * it, and what they have run on it as small ones together grow by fills alone.
 * So in any window of time they run no longer as small ones than the burst,
 * what they held at its beginning, and what the VM's rate adds. The same for a
 * vCPU and its own bucket.
 *
 * Here is each operation on one vCPU; what the others hold stays. A settlement
 * counts what the vCPU has run, if the caller has stopped it at the end of its
 * grant. If not, whatever the buckets hold is taken for the rest; what they do
 * not hold is not made up for.
 */
void prove_waking_makes_no_tokens(void)
{
	struct lt_params p = any_params();
	struct lt_vm vm = any_vm(&p);
	struct lt_vcpu v = any_vcpu(&p);
	const struct lt_bucket *bucket = either(&v.small, &vm.small);
	lt_u64 held = v.grant_ns, tokens = had_tokens;

	ASSUME(vm.runnable < ~0u);
	lt_vcpu_wake(&v, &vm, &p, nondet_u32(), any_clock());
	CHECK(bucket->tokens_ns == had_tokens && v.grant_ns == held);
	CASE(had_tokens > tokens);
}

void prove_entitling_makes_no_tokens(void)
{
	struct lt_params p = any_params();
	struct lt_vm vm = any_vm(&p);
	lt_u64 tokens = vm.small.tokens_ns;

	watch(&vm.small);
	lt_vm_entitle(&vm, nondet_u32(), any_clock());
	CHECK(vm.small.tokens_ns == had_tokens);
	CASE(had_tokens > tokens);
}

void prove_granting_makes_no_tokens(void)
{
	struct lt_params p = any_params();
	struct lt_vm vm = any_vm(&p);
	struct lt_vcpu v = any_vcpu(&p);
	const struct lt_bucket *bucket = either(&v.small, &vm.small);

	ASSUME(v.grant_ns == 0);	/* settled */
	lt_vcpu_grant(&v, &vm, &p, any_clock());
	CHECK(bucket->tokens_ns + v.grant_ns == had_tokens);
	CHECK(v.class == LT_SMALL || v.grant_ns == 0);
	CASE(v.grant_ns == p.grant_ns);
}

void prove_settling_makes_no_tokens(void)
{
	struct lt_params p = any_params();
	struct lt_vm vm = any_vm(&p);
	struct lt_vcpu v = any_vcpu(&p);
	const struct lt_bucket *bucket = either(&v.small, &vm.small);
	lt_u64 held = v.grant_ns, ran = nondet_u64();

	ASSUME(vm.vtime_ns < VTIME_END - (1ull << 40));
	ASSUME(ran <= v.grant_ns);
	lt_vcpu_charge(&v, &vm, ran, any_clock());
	CHECK(v.grant_ns == 0);
	CHECK(bucket->tokens_ns + ran <= had_tokens + held);
	CHECK(bucket->tokens_ns + ran == had_tokens + held ||
	      bucket->tokens_ns == bucket->burst_ns);
	CASE(ran < held && bucket->tokens_ns == p.burst_ns);
	CASE(ran < held && bucket->tokens_ns < p.burst_ns);
	CASE(ran < held && v.class == LT_LARGE && bucket == &vm.small);
}

/* One that has run beyond its grant pays as far as its buckets go. */
void prove_an_overrun_is_paid(void)
{
	struct lt_params p = any_params();
	struct lt_vm vm = any_vm(&p);
	struct lt_vcpu v = any_vcpu(&p);
	const struct lt_bucket *bucket = either(&v.small, &vm.small);
	lt_u64 held = v.grant_ns, ran = nondet_u64();

	ASSUME(vm.vtime_ns < VTIME_END - (1ull << 40));
	ASSUME(v.class == LT_SMALL && ran >= v.grant_ns && ran <= LT_RAN_MAX_NS);
	lt_vcpu_charge(&v, &vm, ran, any_clock());
	CHECK(bucket->tokens_ns == 0 ||
	      bucket->tokens_ns + ran == had_tokens + held);
	CASE(bucket->tokens_ns == 0);
	CASE(bucket->tokens_ns > 0 && ran > held);
}

/*
 * A large one's run is taken out of its own bucket, not out of its VM's. (One that
 * has become large while it held a grant is among those that settle, above.)
 */
void prove_a_large_run_leaves_the_vm_its_tokens(void)
{
	struct lt_params p = any_params();
	struct lt_vm vm = any_vm(&p);
	struct lt_vcpu v = any_vcpu(&p);
	lt_u64 ran = nondet_u64();
	lt_u64 vm_tokens = vm.small.tokens_ns;

	watch(&v.small);
	ASSUME(vm.vtime_ns < VTIME_END - (1ull << 40));
	ASSUME(v.class == LT_LARGE && v.grant_ns == 0 && ran <= LT_RAN_MAX_NS);
	lt_vcpu_charge(&v, &vm, ran, any_clock());
	CHECK(v.class == LT_LARGE && vm.small.tokens_ns == vm_tokens);
	CHECK(v.small.tokens_ns == 0 || v.small.tokens_ns + ran == had_tokens);
	CASE(v.small.tokens_ns == 0);
	CASE(v.small.tokens_ns > 0 && ran > 0);
}
