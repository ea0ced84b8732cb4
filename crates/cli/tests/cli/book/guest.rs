//! Blocks that need root on a live host run in a guest: one for all pages, one page after the other.

use std::fmt::Write;
use std::fs;

use lowtail_standin::binary;
use lowtail_testkit::guest::Guest;

use super::blocks::Class;
use super::here::{failed, script};
use super::pages::all;

/// Before each page: a directory of its own with the two programs where `cargo` builds them.
const PLACE: &str = r#"
place() {
	rm -rf /tmp/page && mkdir -p /tmp/page/target/release && cd /tmp/page
	ln -s release target/debug
	ln -s /bin/lowtail /bin/lowtail-standin target/release/
}
standins() {
	lowtail-standin --name web --do serve --every 2000 --work 300 --cpu 1 >/tmp/web &
	# Web has to wait for it, but most of the time the CPU is idle: an emulated one is fast then.
	lowtail-standin --name batch --vcpus 4 --do serve --every 200000 --work 10000 --cpu 1 >/tmp/batch &
	until grep -q pid /tmp/web && grep -q pid /tmp/batch; do sleep 0.1; done
	for vm in web batch; do
		mkdir -p /sys/fs/cgroup/$vm
		sed 's/.*"pid":\([0-9]*\).*/\1/' /tmp/$vm >/sys/fs/cgroup/$vm/cgroup.procs
	done
}
# What a page has started ends with it, and what it has changed is as it was.
end() {
	killall lowtail 2>/dev/null && sleep 1
	lowtail host revert
	# Stand-ins run under the names and with the arguments of hypervisors. `[n]`: grep does not find itself.
	for process in $(grep -l 'debug-threads=o[n]' /proc/[0-9]*/cmdline); do
		process=${process#/proc/}
		kill -9 ${process%/cmdline}
	done
	sleep 0.2
}
"#;

/// All of what the guest does. Each page's words are between `== PAGE` and `== EXIT-CODE`.
fn inside(pages: &[(String, String)]) -> String {
    let mut inside = format!("#!/bin/sh\n{PLACE}");
    for (name, script) in pages {
        let _ = write!(
            inside,
            "cat >/tmp/page.sh <<'END-OF-PAGE'\nexec 2>&1\n{script}END-OF-PAGE\necho '== {name}'\nplace\n"
        );
        if !script.contains("lowtail-standin --") {
            inside.push_str("standins\n");
        }
        inside.push_str("sh /tmp/page.sh </dev/null\necho \"== $?\"\nend >/tmp/end 2>&1\n");
        let _ = writeln!(inside, "echo \"$(cut -d' ' -f1 /proc/uptime) {name}\" >>/tmp/uptimes");
    }
    // By the guest's clock, for who wants to know which page takes long.
    inside.push_str("cat /tmp/uptimes\n");
    inside
}

/// Pages that failed, of what the guest said.
fn judge(said: &str) -> (usize, Vec<String>) {
    let (mut count, mut wrong) = (0, Vec::new());
    let mut page: Option<(&str, String)> = None;
    for line in said.lines() {
        match (line.strip_prefix("== "), &mut page) {
            (Some(name), None) => page = Some((name, String::new())),
            (Some(code), Some((name, said))) => {
                count += 1;
                if code != "0" {
                    wrong.push(failed(name, code.parse().ok(), said));
                }
                page = None;
            }
            (None, Some((_, said))) => {
                said.push_str(line);
                said.push('\n');
            }
            (None, None) => {}
        }
    }
    (count, wrong)
}

#[test]
fn commands_of_a_live_host_run_in_a_guest() {
    let pages: Vec<_> = all()
        .iter()
        .filter_map(|page| Some((page.name.clone(), script(page, Class::Host)?)))
        .collect();
    assert!(pages.len() > 3, "{} pages", pages.len());
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("book.sh");
    fs::write(&path, inside(&pages)).expect("a script");
    let guest = Guest::new(env!("CARGO_BIN_EXE_lowtail")).command(["sh", "/bin/book.sh"]);
    let guest = guest.also(binary()).also(&path);
    let Some(said) = guest.set("CPUS", 2).set("MEMORY", 1024).run() else {
        return;
    };
    let (count, wrong) = judge(&said);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(count, pages.len(), "the guest did not come to its end");
}
