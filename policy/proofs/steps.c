// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Preemptions step by step from a new pCPU on, with fills as they are: that
 * the inductions of bucket.c and preempt.c begin right, and fit together.
 *
 * Replaced: lt_gain lt_div_up
 * Overflows: in states.c and bucket.c
 */
#include "proof.h"

/*
 * With prices of 1 ms and a burst of eight, no reserves, attempts of any VMs at
 * any moments: what is left and what was paid is never more than the burst and
 * what the time adds.
 */
void prove_preemptions_step_by_step(void)
{
	struct lt_params p = LT_PARAMS_DEFAULT;
	struct lt_pcpu cpu;
	struct lt_vm vm;
	struct lt_vcpu v;
	lt_u64 begin = 1ull << 40, now = begin, paid = 0;
	int i, times = 0;

	p.preempt_burst_ns = 8 * p.preempt_ns;
	p.preempt_reserve_ns = 0;
	lt_pcpu_init(&cpu, &p, now);
	lt_vm_init(&vm, &p, LT_WEIGHT_USUAL, 1, LT_RATE_ONE, now);
	lt_vcpu_init(&v, &p, now);
	for (i = 0; i < 4; i++) {
		v.class = nondet_u8() & 1;
		v.is_completion_wakeup = nondet_u8() & 1;
		now += nondet_u32() & ((1u << 22) - 1);
		if (!lt_preempt_when(&v, &vm, &cpu, &p, now) &&
		    lt_preempt_take(&v, &vm, &cpu, &p)) {
			paid += p.preempt_ns;
			times++;
		}
		CHECK(cpu.preempt.tokens_ns + paid <= p.preempt_burst_ns + (now - begin));
	}
	CASE(times == 3);
}
