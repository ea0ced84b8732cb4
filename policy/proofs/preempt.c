// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Preemptions: how many, and for whom.
 *
 * Replaced: lt_bucket_fill lt_div_up
 * Overflows: in states.c
 */
#include "proof.h"

/* Who may now, can pay; and who cannot pay, takes nothing. */
void prove_allowed_is_paid_for(void)
{
	struct lt_params p = any_params();
	struct lt_pcpu cpu = any_pcpu(&p), old_cpu;
	struct lt_vm vm = any_vm(&p), old_vm;
	struct lt_vcpu v = any_vcpu(&p);
	lt_u64 when = lt_preempt_when(&v, &vm, &cpu, &p, any_clock());
	int taken;

	old_cpu = cpu;
	old_vm = vm;
	taken = lt_preempt_take(&v, &vm, &cpu, &p);
	CHECK(when != 0 || taken);
	if (taken) {
		CHECK(old_cpu.preempt.tokens_ns - cpu.preempt.tokens_ns == p.preempt_ns);
	} else {
		CHECK(cpu.preempt.tokens_ns == old_cpu.preempt.tokens_ns);
		CHECK(vm.preempt.tokens_ns == old_vm.preempt.tokens_ns);
	}
	CASE(when == 0);
	CASE(!taken);
}

/* Refused, one is told a moment to come; never a moment that does not come. */
void prove_refused_until_a_moment_to_come(void)
{
	struct lt_params p = any_params();
	struct lt_pcpu cpu = any_pcpu(&p);
	struct lt_vm vm = any_vm(&p);
	struct lt_vcpu v = any_vcpu(&p);
	lt_u64 now = any_clock(), when = lt_preempt_when(&v, &vm, &cpu, &p, now);

	CHECK(when == 0 || when > now);
	CHECK(when <= lt_max(now, cpu.preempt.filled_ns) + (1ull << 31));
	CASE(when > now + LT_SLICE_MAX_NS / 2 && v.is_completion_wakeup);
	CASE(when > now && !v.is_completion_wakeup);
}

/*
 * A preemption is its price in tokens, and these come from fills alone, at a
 * rate of one. So in any window there are no more preemptions than the window's
 * length, a unit and the burst pay for, whoever preempts whom. The same for a
 * VM and its own share.
 */
void prove_preemptions_make_no_tokens(void)
{
	struct lt_params p = any_params();
	struct lt_pcpu cpu = any_pcpu(&p);
	struct lt_vm vm = any_vm(&p);
	struct lt_vcpu v = any_vcpu(&p);
	lt_u64 paid = 0;

	watch(&cpu.preempt);
	if (!lt_preempt_when(&v, &vm, &cpu, &p, any_clock()) &&
	    lt_preempt_take(&v, &vm, &cpu, &p))
		paid = p.preempt_ns;
	CHECK(cpu.preempt.tokens_ns + paid == had_tokens);
	CHECK(cpu.preempt.rate == LT_RATE_ONE);
	CASE(paid);
	CASE(!paid);
}

void prove_own_shares_make_no_tokens(void)
{
	struct lt_params p = any_params();
	struct lt_pcpu cpu = any_pcpu(&p);
	struct lt_vm vm = any_vm(&p);
	struct lt_vcpu v = any_vcpu(&p);

	watch(&vm.preempt);
	if (!lt_preempt_when(&v, &vm, &cpu, &p, any_clock()))
		lt_preempt_take(&v, &vm, &cpu, &p);
	CHECK(vm.preempt.tokens_ns <= had_tokens);
	CHECK(vm.preempt.tokens_ns + p.preempt_ns >= had_tokens);
	CASE(vm.preempt.tokens_ns < had_tokens);
}

/*
 * Who may go how deep: large vCPUs and fresh follow-ups leave both reserves,
 * the others the last one; unless the VM pays for it out of its own share.
 */
void prove_reserves_are_kept(void)
{
	struct lt_params p = any_params();
	struct lt_pcpu cpu = any_pcpu(&p);
	struct lt_vm vm = any_vm(&p);
	struct lt_vcpu v = any_vcpu(&p);
	lt_u64 now = any_clock(), own;
	int fresh;

	ASSUME(lt_preempt_when(&v, &vm, &cpu, &p, now) == 0);
	own = vm.preempt.tokens_ns;
	fresh = v.is_completion_wakeup && lt_since(now, v.queued_ns) < p.completion_wait_ns;
	CHECK(lt_preempt_take(&v, &vm, &cpu, &p));
	CHECK(v.class == LT_SMALL || cpu.preempt.tokens_ns >= 2 * p.preempt_reserve_ns);
	CHECK(!fresh || cpu.preempt.tokens_ns >= 2 * p.preempt_reserve_ns);
	CHECK(cpu.preempt.tokens_ns >= p.preempt_reserve_ns ||
	      own - vm.preempt.tokens_ns == p.preempt_ns);
	CASE(v.class == LT_LARGE);
	CASE(fresh);
	CASE(cpu.preempt.tokens_ns < p.preempt_reserve_ns);
}

/*
 * So a VM that has not used up its own share is not kept waiting by those that
 * have: they leave the last reserve, and that pays for its preemption.
 */
void prove_a_quiet_vm_is_not_kept_waiting(void)
{
	struct lt_params p = any_params();
	struct lt_pcpu cpu = any_pcpu(&p);
	struct lt_vm storm = any_vm(&p), quiet = any_vm(&p);
	struct lt_vcpu v = any_vcpu(&p), w = any_vcpu(&p);
	lt_u64 now = any_clock();

	ASSUME(p.preempt_reserve_ns >= p.preempt_ns);
	ASSUME(cpu.preempt.tokens_ns >= p.preempt_reserve_ns);
	if (!lt_preempt_when(&v, &storm, &cpu, &p, now) &&
	    storm.preempt.tokens_ns < p.preempt_ns)
		lt_preempt_take(&v, &storm, &cpu, &p);
	CHECK(cpu.preempt.tokens_ns >= p.preempt_reserve_ns);

	ASSUME(w.class == LT_SMALL && !w.is_completion_wakeup && quiet.preempt.tokens_ns >= p.preempt_ns);
	CHECK(lt_preempt_when(&w, &quiet, &cpu, &p, now) == 0);
	CASE(cpu.preempt.tokens_ns < p.preempt_ns + p.preempt_reserve_ns);
}
