// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * What no program at these events can cost less than: one that does nothing, and one that looks at the clock and does
 * nothing else. crates/observe/examples/overhead.rs measures observe.bpf.c beside them.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

SEC("tp_btf/sched_switch")
int empty_switched(__u64 *ctx)
{
	return 0;
}

SEC("tp_btf/sched_waking")
int empty_waking(__u64 *ctx)
{
	return 0;
}

SEC("tp_btf/sched_switch")
int clock_switched(__u64 *ctx)
{
	bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/sched_waking")
int clock_waking(__u64 *ctx)
{
	bpf_ktime_get_ns();
	return 0;
}
