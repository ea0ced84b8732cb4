//! What the scheduler needs of a kernel that has sched_ext.

use std::path::Path;

use crate::btf;

/// The first Linux that has it all, and the last one on which that was tested (`tests/kernels` of the command).
pub const KERNELS: (&str, &str) = ("6.17", "7.3");

/// Callbacks and functions that `bpf/scx.h` asks for, by the kernel's names. The youngest are those of control groups'
/// limits (6.17, commit ddceadce63d9), without which `cpu.max` would hold for no VM; the functions about
/// queues have these names since 6.13 (cc26abb1a19a, 5209c03c8ed2, 5cbb302880f5), all others are as old as sched_ext.
/// In order.
pub const NEEDS: [&str; 42] = [
    "bpf_cpumask_test_cpu",
    "bpf_iter_scx_dsq_destroy",
    "bpf_iter_scx_dsq_new",
    "bpf_iter_scx_dsq_next",
    "cgroup_exit",
    "cgroup_init",
    "cgroup_move",
    "cgroup_set_bandwidth",
    "cgroup_set_weight",
    "cpu_offline",
    "cpu_online",
    "cpu_release",
    "disable",
    "dispatch",
    "enable",
    "enqueue",
    "exit",
    "init",
    "init_task",
    "quiescent",
    "runnable",
    "running",
    "scx_bpf_create_dsq",
    "scx_bpf_dsq_insert",
    "scx_bpf_dsq_insert_vtime",
    "scx_bpf_dsq_move",
    "scx_bpf_dsq_move_set_slice",
    "scx_bpf_dsq_move_set_vtime",
    "scx_bpf_dsq_move_to_local",
    "scx_bpf_dsq_move_vtime",
    "scx_bpf_dsq_nr_queued",
    "scx_bpf_error_bstr",
    "scx_bpf_kick_cpu",
    "scx_bpf_pick_idle_cpu",
    "scx_bpf_reenqueue_local",
    "scx_bpf_select_cpu_dfl",
    "scx_bpf_task_cpu",
    "scx_bpf_test_and_clear_cpu_idle",
    "select_cpu",
    "set_cpumask",
    "stopping",
    "yield",
];

/// What the kernel whose `/sys` this is lacks; nothing where it does not describe itself, since the loader will say so.
pub fn lacking(sys: &Path) -> Vec<&'static str> {
    let mut begins = [false; 256];
    NEEDS.iter().for_each(|need| begins[usize::from(need.as_bytes()[0])] = true);
    let mut has = [false; NEEDS.len()];
    let read = btf::names(&sys.join(btf::VMLINUX), |name| {
        // There are some 300,000 names.
        if name.first().is_some_and(|&first| begins[usize::from(first)])
            && let Ok(i) = NEEDS.binary_search_by(|need| need.as_bytes().cmp(name))
        {
            has[i] = true;
        }
    });
    let lacks = |i: &usize| read.is_ok() && !has[*i];
    (0..NEEDS.len()).filter(lacks).map(|i| NEEDS[i]).collect()
}

/// The sentence about that.
pub fn sentence(lacking: &[&str]) -> String {
    let (first, last) = KERNELS;
    let lacking = lacking.join(", ");
    format!(
        "the kernel's sched_ext lacks {lacking}: lowtail's scheduler is for Linux {first} to {last}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::fs;

    /// The word before the bracket of each function, and after the star of each callback.
    fn asked() -> BTreeSet<String> {
        let header = include_str!("../../../bpf/scx.h");
        let word = |text: &str| -> String {
            let end = text.find(|c: char| !c.is_alphanumeric() && c != '_');
            text[..end.unwrap_or(text.len())].to_string()
        };
        // A weak one may be missing.
        let weak =
            |declared: &&str| declared.split(';').next().unwrap_or_default().ends_with("__weak");
        let functions =
            header.split("\nextern ").skip(1).filter(|declared| !weak(declared)).map(|declared| {
                let before = declared.split('(').next().unwrap_or_default();
                word(before.rsplit([' ', '*']).next().unwrap_or_default())
            });
        let callbacks = header.split("(*").skip(1).map(word);
        functions.chain(callbacks).collect()
    }

    #[test]
    fn all_that_the_programs_ask_for() {
        let needs: BTreeSet<String> = NEEDS.iter().map(ToString::to_string).collect();
        assert!(NEEDS.is_sorted() && needs.len() == NEEDS.len(), "out of order, or twice");
        assert_eq!(needs, asked());
    }

    #[test]
    fn a_kernel_that_lacks_something() {
        let dir = tempfile::tempdir().expect("a directory");
        let lacks = |names: Vec<&str>| {
            let text = format!("\u{9f}eB\0{}\0", names.join("\0"));
            fs::create_dir_all(dir.path().join("kernel/btf")).expect("a directory");
            fs::write(dir.path().join(btf::VMLINUX), text).expect("a file");
            lacking(dir.path())
        };
        assert_eq!(lacking(dir.path()), [""; 0], "one that does not say");
        assert_eq!(lacks(NEEDS.to_vec()), [""; 0]);
        // A longer name is another one.
        let older = |name: &&str| !["cgroup_set_bandwidth", "scx_bpf_dsq_move"].contains(name);
        let found = lacks(NEEDS.into_iter().filter(older).collect());
        assert_eq!(found, ["cgroup_set_bandwidth", "scx_bpf_dsq_move"]);
        let said = sentence(&found);
        assert!(said.contains("lacks cgroup_set_bandwidth, scx_bpf_dsq_move: "), "{said}");
    }
}
