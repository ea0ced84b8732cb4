//! What a live host gives, and what is kept on it.

use lowtail_control::fuzz as control;
use lowtail_control::policy::Policy;
use lowtail_discover::fuzz as discover;
use lowtail_kernel::fuzz as kernel;
use lowtail_observe::{doctor, fuzz as observe, record};

use crate::reader::{Most, Target, text};

const POLICY_MOST: Most = Most { held: (4 << 20, 2048), taken: (16 << 20, 16 << 10) };

pub(super) const POLICY: Target = Target {
    name: "policy",
    read: policy,
    bytes_max: 16 << 10,
    most: POLICY_MOST,
    words: &[
        "[[vm]]\n",
        "[[uplink]]\n",
        "[workers]\n",
        "[flow]\n",
        "[small_first]\n",
        "[network]\n",
        "name = ",
        "class = ",
        "weight = ",
        "\"*\"",
        "\"1%\"",
        "\"none\"",
        "\"1Mbit/s\"",
        "keep",
        "scheduler = \"small-first\"\n",
        "label = ",
        "cap = ",
        "nice = ",
        "\u{1b}",
        "\u{202e}",
    ],
};
pub(super) const LEDGER: Target = Target {
    name: "ledger",
    read: control::ledger,
    bytes_max: 4096,
    most: Most::TEXT,
    words: &[
        "{\"lowtail_ledger\":1,\"boot\":\"BOOT\",\"entries\":1}\n",
        "{\"place\":",
        "\"was\":",
        "\"ours\":[",
        "\"done\":true",
        "\"why\":",
        "\"group\"",
        "\"affinity\"",
        "\"sched\"",
        "\"libvirt\"",
        "\"network\"",
        "\\u001b",
        "\n",
        "18446744073709551615",
        "-1",
    ],
};
pub(super) const GUARD: Target = Target {
    name: "guard",
    read: control::guard,
    bytes_max: 4096,
    most: Most::TEXT,
    words: &[
        "{\"policy\":\"00000000\",\"reverted\":[],\"goals\":[]}",
        "{\"vm\":",
        "\"pid\":",
        "\"started_ticks\":",
        "\"by_name\":true",
        "\"reason\":",
        "\"goal_p99_seconds\":",
        "\"limit_p99_seconds\":null",
        "\"before_p99_seconds\":null",
        "\"measured_p99_seconds\":1e-3",
        "\"state\":\"kept\"",
        "\"vms\":[",
        "\"p99_seconds\":",
        "\\u001b",
        "1e308",
        "-0.0",
        "4294967296",
    ],
};
pub(super) const STAT: Target =
    text("stat", discover::stat, &[") ", " (", "S", "Z", "X", " 2097216 ", "\n", "4294967296"]);
pub(super) const CGROUP: Target = text(
    "cgroup",
    discover::cgroup,
    &[
        "0::/",
        "2:cpu,cpuacct:/",
        "..",
        "/",
        " (deleted)",
        "machine-qemu\\x2d1\\x2d",
        ".scope",
        "\n",
    ],
);
pub(super) const CMDLINE: Target = text(
    "cmdline",
    discover::cmdline,
    &[
        "\0-name\0",
        "guest=",
        ",,",
        ",debug-threads=on",
        "\0--id\0",
        "--api-socket",
        "path=",
        "-machine\0none",
    ],
);
pub(super) const THREAD_NAMES: Target = text(
    "thread_names",
    discover::thread_names,
    &[
        "CPU ",
        "/KVM",
        "/TCG",
        "IO ",
        "mon_iothread",
        "fc_vcpu ",
        "vcpu",
        "vhost-",
        "_net0_qp1",
        "_q",
        "\n",
        "4096",
    ],
);
pub(super) const GROUP_NAME: Target = text(
    "group_name",
    discover::group_name,
    &[
        "machine-",
        "qemu-",
        "ch-",
        "\\x2d",
        "\\x",
        ".scope",
        ".libvirt-qemu",
        "libvirt/qemu/",
        "/",
        "\n",
    ],
);
pub(super) const FDINFO: Target =
    text("fdinfo", discover::fdinfo, &["iff:\t", "\n", "..", "tap0", "/"]);
pub(super) const DECLARED: Target =
    text("declared", discover::declared, &["=", ",tap=", "/", "..", "42", "\0", "\u{1b}"]);
pub(super) const NAME: Target =
    text("name", discover::name, &["\u{1b}[2J", "\u{202e}", "\\u{1b}", "\u{feff}"]);
pub(super) const MOUNTINFO: Target = text(
    "mountinfo",
    kernel::mountinfo,
    &[" - ", "cgroup2 ", "cgroup ", "rw,cpu", "\\040", "\\", "\n", "é", "\\777", "\\+12"],
);
pub(super) const CPU_STAT: Target = text(
    "cpu_stat",
    kernel::cpu_stat,
    &[
        "nr_periods ",
        "nr_throttled ",
        "throttled_usec ",
        "throttled_time ",
        "burst_usec ",
        "18446744073709551615",
        "\n",
    ],
);
pub(super) const CPU_LIST: Target =
    text("cpu_list", control::cpu_list, &["-", ",", "8191", "8192", "+", " ", "\n", "\u{1b}"]);
pub(super) const NETLINK: Target =
    text("netlink", kernel::netlink, &["\x24\0", "htb\0", "bpf\0", "clsact\0", "fq_codel\0"]);
pub(super) const QDISCS: Target =
    text("qdiscs", doctor::fuzz::qdiscs, &["\x24\0", "fq_pie\0", "mq\0"]);
pub(super) const TREE_TEXT: Target = text(
    "tree_text",
    kernel::tree_text,
    &[
        "{\"default\":\"mq\"}",
        "\"disciplines\":[",
        "\"classes\":[",
        "\"handle\":",
        "\"parent\":4294967295",
        "\"kind\":\"htb\"",
        "\"options\":\"",
        "\"filters\":1",
    ],
);
pub(super) const TAGGER_TEXT: Target = text(
    "tagger_text",
    control::tagger_text,
    &["none", "{\"rule\":[", "\"priorities\":[", "\"dscp\":[", "\"marks\":true", "255"],
);
pub(super) const MAPS: Target = text("maps", observe::maps, &["\x06\0\0\0"]);
pub(super) const FLOW_MAPS: Target = text("flow_maps", control::flow_maps, &[]);
pub(super) const RECORD_MAPS: Target = text("record_maps", record::fuzz::record_maps, &[]);

/// A policy is refused with a place, or taken.
fn policy(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Err(error) = Policy::parse("x.toml", &text) {
        let lines = text.matches('\n').count() + 1;
        assert!((1..=lines).contains(&error.line) && error.column > 0, "{error}");
        assert!(!error.message.is_empty());
        assert!(!error.to_string().contains(char::is_control), "{error:?}");
    }
}
