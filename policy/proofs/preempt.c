// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Preemptions: how many, and for whom.
 *
 * Replaced: lt_bucket_fill lt_div_up
 * Overflows: in states.c
 */
#include "proof.h"

/* What was paid between two states of a pCPU. */
static lt_u64 price(const struct lt_pcpu *old, const struct lt_pcpu *new)
{
	return old->preempt.tokens_ns - new->preempt.tokens_ns;
}

/* What a preemption costs at least. */
static lt_u64 least_price(const struct lt_params *p)
{
	return p->preempt_ns - (((lt_u64)p->preempt_ns * LT_PREEMPT_DISCOUNT_16THS) >> 4);
}

/* Who may now, can pay, a follow-up more than others; and who cannot pay, takes nothing. */
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
		CHECK(price(&old_cpu, &cpu) == lt_preempt_price(&old_cpu, &p) ||
		      (v.is_completion_wakeup && price(&old_cpu, &cpu) == lt_completion_price(&p)));
		CHECK(price(&old_cpu, &cpu) >= least_price(&p));
		CHECK(cpu.disturbed_ns == cpu.preempt.filled_ns);
	} else {
		CHECK(cpu.preempt.tokens_ns == old_cpu.preempt.tokens_ns);
		CHECK(vm.preempt.tokens_ns == old_vm.preempt.tokens_ns);
	}
	CASE(when == 0);
	CASE(!taken);
	CASE(taken && price(&old_cpu, &cpu) == LT_COMPLETION_PRICE * p.preempt_ns);
	CASE(taken && price(&old_cpu, &cpu) < p.preempt_ns);
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
	CHECK(v.class == LT_LARGE || !lt_can_wait(&v, &p, now) || v.queued_ns > now ||
	      when <= v.queued_ns + p.completion_wait_ns);
	CASE(when > now + LT_SLICE_MAX_NS / 2 && v.is_completion_wakeup);
	CASE(when > now && !v.is_completion_wakeup);
}

/*
 * Above the reserve and what the waits rise over, nobody who has news waits, and pays less; and
 * if there is a price above the reserve, for no longer than one and a half since the last preemption.
 */
void prove_news_waits_for_a_price_at_most(void)
{
	struct lt_params p = any_params();
	struct lt_pcpu cpu = any_pcpu(&p);
	struct lt_vm vm = any_vm(&p);
	struct lt_vcpu v = any_vcpu(&p);
	lt_u64 now = any_clock(), when, above, most;

	ASSUME(v.class == LT_SMALL && !v.is_completion_wakeup);
	when = lt_preempt_when(&v, &vm, &cpu, &p, now);
	ASSUME(cpu.preempt.tokens_ns >= p.preempt_reserve_ns + p.preempt_ns);
	above = cpu.preempt.tokens_ns - p.preempt_reserve_ns;
	most = p.preempt_ns + p.preempt_ns / 2;
	CHECK(when <= now + most);
	CHECK(when == 0 || above >> LT_PREEMPT_RISE_SHIFT < most);
	CHECK(when == 0 || lt_since(now, cpu.disturbed_ns) < most);
	CHECK(lt_preempt_price(&cpu, &p) == p.preempt_ns || above >> LT_PREEMPT_RISE_SHIFT >= most);
	CASE(when == 0 && lt_since(now, cpu.disturbed_ns) < p.preempt_ns / 2);
	CASE(when > now + p.preempt_ns / 2);
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
	int taken = 0;

	watch(&cpu.preempt);
	if (!lt_preempt_when(&v, &vm, &cpu, &p, any_clock()))
		taken = lt_preempt_take(&v, &vm, &cpu, &p);
	CHECK(cpu.preempt.tokens_ns + (taken ? least_price(&p) : 0) <= had_tokens);
	CHECK(taken || cpu.preempt.tokens_ns == had_tokens);
	CHECK(cpu.preempt.rate == LT_RATE_ONE);
	CASE(taken);
	CASE(!taken);
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
 * have: they leave the last reserve. That pays for its preemption, at once if it holds
 * what the waits rise over.
 */
void prove_a_quiet_vm_is_not_kept_waiting(void)
{
	struct lt_params p = any_params();
	struct lt_pcpu cpu = any_pcpu(&p);
	struct lt_vm storm = any_vm(&p), quiet = any_vm(&p);
	struct lt_vcpu v = any_vcpu(&p), w = any_vcpu(&p);
	lt_u64 now = any_clock();

	ASSUME(p.preempt_reserve_ns >= (lt_u64)p.preempt_ns * 3 << (LT_PREEMPT_RISE_SHIFT - 1));
	ASSUME(cpu.preempt.tokens_ns >= p.preempt_reserve_ns);
	if (!lt_preempt_when(&v, &storm, &cpu, &p, now) &&
	    storm.preempt.tokens_ns < p.preempt_ns)
		lt_preempt_take(&v, &storm, &cpu, &p);
	CHECK(cpu.preempt.tokens_ns >= p.preempt_reserve_ns);

	ASSUME(w.class == LT_SMALL && !w.is_completion_wakeup &&
	       quiet.preempt.tokens_ns >= lt_max(p.preempt_ns, p.preempt_own_ns / 2));
	CHECK(lt_preempt_when(&w, &quiet, &cpu, &p, now) == 0);
	CASE(cpu.preempt.tokens_ns < p.preempt_ns + p.preempt_reserve_ns);
}

/*
 * And one that has used up more has its share all the same: what its own bucket pays for, it
 * gets, as soon as 1.5 prices have passed since the last preemption and the pCPU has one.
 */
void prove_each_vm_has_its_share(void)
{
	struct lt_params p = any_params();
	struct lt_pcpu cpu = any_pcpu(&p);
	struct lt_vm vm = any_vm(&p);
	struct lt_vcpu v = any_vcpu(&p);
	lt_u64 now = any_clock(), when;

	ASSUME(v.class == LT_SMALL && !v.is_completion_wakeup);
	when = lt_preempt_when(&v, &vm, &cpu, &p, now);
	ASSUME(cpu.preempt.tokens_ns >= p.preempt_ns && vm.preempt.tokens_ns >= p.preempt_ns);
	CHECK(when <= now + p.preempt_ns + p.preempt_ns / 2);
	CHECK(when == 0 || lt_since(now, cpu.disturbed_ns) < p.preempt_ns + p.preempt_ns / 2);
	CASE(when == 0 && cpu.preempt.tokens_ns < p.preempt_reserve_ns && vm.preempt.tokens_ns < p.preempt_own_ns / 2);
	CASE(when > now);
}
