//! The dom0 of a real Xen, which `scripts/xen` boots.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

use crate::boot;

/// Boots it with `program` as `lowtail` and with the files of the directory `also`, and runs `inside.sh` of these there, for so many seconds
/// of ours at most: what it printed. `None` where no Xen can be booted.
///
/// # Panics
/// If `inside.sh` failed, or the time was over.
pub fn dom0(program: impl AsRef<OsStr>, also: &Path, seconds: u32) -> Option<String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/xen");
    let mut command = Command::new(script);
    command.arg("run").arg(program).arg("/also/inside.sh");
    command.env("LOWTAIL_XEN_ALSO", also).env("LOWTAIL_XEN_SECONDS", seconds.to_string());
    let output = boot::output(&mut command)?;
    let out = String::from_utf8_lossy(&output.stdout).replace('\r', "");
    // So that a test that fails shows all.
    println!("{out}{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "in dom0: {}", output.status);
    Some(out)
}

/// What was printed between `=== NAME` and `--- CODE`, and that code.
///
/// # Panics
/// If there is no such section.
pub fn section<'a>(out: &'a str, name: &str) -> (&'a str, i32) {
    let head = format!("=== {name}\n");
    let (_, rest) = out.split_once(&head).unwrap_or_else(|| panic!("no section {name}"));
    let (text, rest) = rest.split_once("--- ").expect("its end");
    let code = rest.lines().next().and_then(|line| line.trim().parse().ok());
    (text, code.expect("an exit code"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_end_with_their_codes() {
        let out = "=== a\n=== no\n--- 0\n=== b\none\ntwo\n--- 12\n=== c\n";
        assert_eq!(section(out, "a"), ("=== no\n", 0));
        assert_eq!(section(out, "b"), ("one\ntwo\n", 12));
        for missing in ["c", "d"] {
            assert!(std::panic::catch_unwind(|| section(out, missing)).is_err(), "{missing}");
        }
    }
}
