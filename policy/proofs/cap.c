// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Limits: no faster than the quota, of a VM and of a vCPU, and a part of it is
 * for small ones.
 *
 * Replaced: lt_bucket_fill lt_div_up
 * Overflows: in states.c
 */
#include "proof.h"

/* The limit that a proof is about: that of a VM or that of its vCPU. */
static struct lt_cap *either(struct lt_vm *vm, struct lt_vcpu *v)
{
	struct lt_cap *cap = nondet_u8() ? &vm->cap : &v->cap;

	watch(&cap->run);
	ASSUME(lt_capped(cap));
	return cap;
}

/*
 * What a limit's bucket holds, what vCPUs hold of it, and what they have run
 * together grow by fills alone: see small.c.
 */
void prove_capped_grants_make_no_tokens(void)
{
	struct lt_params p = any_params();
	struct lt_vm vm = any_vm(&p);
	struct lt_vcpu v = any_vcpu(&p);
	struct lt_cap *cap = either(&vm, &v);
	lt_u64 length, held = v.grant_ns;

	ASSUME(v.cap_grant_ns == 0);	/* settled */
	length = lt_cap_grant(&v, &vm, &p, nondet_u64(), any_clock());
	CHECK(length == v.cap_grant_ns && v.grant_ns == held);
	CHECK(cap->run.tokens_ns + length == had_tokens);
	CASE(length > cap->turn_ns);
	CASE(length == vm.cap.turn_ns);
	CASE(length > 0 && lt_capped(&vm.cap) && lt_capped(&v.cap));
}

/* What is settled with @cap of @vm and @v, the other one being without limit. */
static void settle(struct lt_vm *vm, struct lt_vcpu *v, const struct lt_cap *cap)
{
	lt_u64 ran = nondet_u64(), held = v->cap_grant_ns, settled = any_clock();

	watch(&cap->run);
	ASSUME(lt_capped(cap));
	ASSUME(vm->vtime_ns < VTIME_END - (1ull << 40));
	ASSUME(ran <= LT_RAN_MAX_NS);
	lt_vcpu_charge(v, vm, ran, settled);
	CHECK((ran > held && cap->run.tokens_ns == 0) ||
	      cap->run.tokens_ns + ran <= had_tokens + held);
	CASE(ran < held && cap->run.tokens_ns < cap->run.burst_ns);
	CASE(ran > held && cap->run.tokens_ns > 0);
	CASE(ran > held && cap->run.filled_ns > settled);
}

/* Who runs for longer than the bucket held owes the rest, or has a stop of the longest kind before it. */
void prove_all_run_time_counts(void)
{
	struct lt_params p = any_params();
	struct lt_vm vm = any_vm(&p);
	lt_u64 ran = nondet_u64(), held = nondet_u64(), now = any_clock();
	struct lt_cap *cap = &vm.cap;

	ASSUME(lt_capped(cap) && ran <= LT_RAN_MAX_NS && held <= LT_BURST_MAX_NS);
	watch(&cap->run);
	lt_cap_charge(cap, held, ran, now);
	if (ran <= held + had_tokens || cap->run.filled_ns == now + LT_STEP_BACK_MAX_NS)
		return;
	CHECK(TIMES((cap->run.filled_ns - had_filled) >> LT_UNIT_SHIFT, cap->run.rate) >=
	      (ran - held - had_tokens) << LT_GAIN_SHIFT);
	CASE(held > 0 && had_tokens > 0);
}

void prove_capped_settlements_make_no_tokens(void)
{
	struct lt_params p = any_params();
	struct lt_vm vm = any_vm(&p);
	struct lt_vcpu v = any_vcpu(&p);

	ASSUME(!lt_capped(&v.cap));
	settle(&vm, &v, &vm.cap);
}

void prove_own_settlements_make_no_tokens(void)
{
	struct lt_params p = any_params();
	struct lt_vm vm = any_vm(&p);
	struct lt_vcpu v = any_vcpu(&p);

	ASSUME(!lt_capped(&vm.cap));
	settle(&vm, &v, &v.cap);
}

/* Large ones leave what is for small ones; no turn is longer than it should be. */
void prove_large_ones_leave_what_is_kept(void)
{
	struct lt_params p = any_params();
	struct lt_vm vm = any_vm(&p);
	struct lt_vcpu v = any_vcpu(&p);
	struct lt_cap *cap = either(&vm, &v);
	lt_u64 length;

	length = lt_cap_grant(&v, &vm, &p, nondet_u64(), any_clock());
	CHECK(cap == &v.cap || length <= lt_max(cap->turn_ns, p.min_grant_ns));
	CHECK(length == 0 || v.class == LT_SMALL || cap->run.tokens_ns >= cap->small_reserve_ns);
	CASE(length > 0 && v.class == LT_LARGE && cap->run.tokens_ns == cap->small_reserve_ns);
	CASE(length > 0 && v.class == LT_SMALL && cap->run.tokens_ns < cap->small_reserve_ns);
}

/* Whoever has no limit is not kept from anything. */
void prove_without_limit_all_is_granted(void)
{
	struct lt_params p = any_params();
	struct lt_vm vm = any_vm(&p);
	struct lt_vcpu v = any_vcpu(&p);
	lt_u64 want = nondet_u64();

	ASSUME(!lt_capped(&vm.cap) && !lt_capped(&v.cap));
	CHECK(lt_cap_grant(&v, &vm, &p, want, any_clock()) == want);
	CHECK(lt_cap_when(&v, &vm, &p) == 0);
	CASE(want > LT_BURST_MAX_NS);
}

/* What several share: who draws gets what is taken, no more than wanted or a turn, and leaves what is for small ones. */
void prove_a_draw_takes_what_it_gives(void)
{
	struct lt_params p = any_params();
	struct lt_vm vm = any_vm(&p);
	lt_u64 want = nondet_u64(), drawn;
	int small = nondet_u8() != 0;

	watch(&vm.cap.run);
	ASSUME(lt_capped(&vm.cap));
	drawn = lt_cap_take(&vm.cap, small, p.min_grant_ns, want, any_clock());
	CHECK(vm.cap.run.tokens_ns + drawn == had_tokens);
	CHECK(drawn <= want && drawn <= lt_max(vm.cap.turn_ns, p.min_grant_ns));
	CHECK(drawn == 0 || small || vm.cap.run.tokens_ns >= vm.cap.small_reserve_ns);
	CASE(drawn > 0 && drawn == want);
	CASE(drawn == vm.cap.turn_ns && drawn < want);
	CASE(drawn > 0 && small && vm.cap.run.tokens_ns < vm.cap.small_reserve_ns);
}

/* Who may draw now, by lt_cap_ready, gets something; without a limit, all. */
void prove_who_is_ready_draws(void)
{
	struct lt_params p = any_params();
	struct lt_vm vm = any_vm(&p);
	lt_u64 want = nondet_u64(), now = any_clock(), drawn;
	int small = nondet_u8() != 0;

	lt_bucket_fill(&vm.cap.run, now);
	ASSUME(want > 0 && lt_cap_ready(&vm.cap, small, p.min_grant_ns) == 0);
	drawn = lt_cap_take(&vm.cap, small, p.min_grant_ns, want, now);
	CHECK(drawn > 0 && (lt_capped(&vm.cap) || drawn == want));
	CASE(lt_capped(&vm.cap) && !small);
	CASE(lt_capped(&vm.cap) && small);
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

	lt_bucket_fill(&v.cap.run, now);
	lt_bucket_fill(&vm.cap.run, now);
	when = lt_cap_when(&v, &vm, &p);
	CHECK(when != LT_NEVER);
	CHECK(lt_capped(&vm.cap) || lt_capped(&v.cap) || when == 0);
	CHECK(when == 0 || when > now);
	ASSUME(when == 0 && want > 0);
	CHECK(lt_cap_grant(&v, &vm, &p, want, now) > 0);
	CASE(lt_capped(&vm.cap) && v.class == LT_LARGE);
	CASE(lt_capped(&v.cap) && v.class == LT_SMALL);
}
