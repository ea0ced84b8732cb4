// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Programs that do nothing: whether the kernel takes them says what it
 * lets us do. They are loaded and never attached.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* What observing needs: a tracepoint with the kernel's own types. */
SEC("tp_btf/sched_switch")
int tracing(void *ctx)
{
	return 0;
}

/* What tagging and splitting need: a classifier. */
SEC("tc")
int classifier(struct __sk_buff *skb)
{
	return 0;
}
