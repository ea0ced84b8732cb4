// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Placeholder. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";
