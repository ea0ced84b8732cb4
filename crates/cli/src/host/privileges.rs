//! What the process may do no longer, once it is known what it needs.

use caps::{CapSet, Capability, CapsHashSet};

use crate::out;

/// What observing takes: programs at tracepoints (`CAP_BPF`, `CAP_PERFMON`), and a look at which programs processes of
/// others run and hold open (`CAP_SYS_PTRACE`): `capabilities(7)`.
pub(crate) const OBSERVE: &[Capability] =
    &[Capability::CAP_BPF, Capability::CAP_PERFMON, Capability::CAP_SYS_PTRACE];

/// And writing a recording wherever root may, in place of whose file there is.
pub(crate) const RECORD: &[Capability] = &[
    Capability::CAP_BPF,
    Capability::CAP_PERFMON,
    Capability::CAP_SYS_PTRACE,
    Capability::CAP_DAC_OVERRIDE,
    Capability::CAP_CHOWN,
    Capability::CAP_FOWNER,
];

/// What it takes in a dom0 of Xen's, for `xl` and `xentrace`, which this process starts: hypercalls, and memory that stays where it is.
pub(crate) const XEN: &[Capability] = &[
    Capability::CAP_SYS_ADMIN,
    Capability::CAP_IPC_LOCK,
    Capability::CAP_KILL,
    Capability::CAP_DAC_OVERRIDE,
    Capability::CAP_CHOWN,
    Capability::CAP_FOWNER,
];

/// Gives up all capabilities but these, for this thread and those that it begins, and for whatever it would execute. To be
/// called before there are other threads. Where that fails it is told: nothing else fails for it.
pub(crate) fn keep(needed: &[Capability]) {
    if let Err(error) = drop_others(needed) {
        out::note(&format!(
            "note: lowtail could not drop capabilities that it does not need: {error}"
        ));
    }
}

fn drop_others(needed: &[Capability]) -> Result<(), String> {
    let said = |error: caps::errors::CapsError| error.to_string();
    let needed: CapsHashSet = needed.iter().copied().collect();
    let permitted = caps::read(None, CapSet::Permitted).map_err(said)?;
    let kept: CapsHashSet = permitted.intersection(&needed).copied().collect();
    // Of no use to who may not: then an executed program gains nothing anyhow.
    if permitted.contains(&Capability::CAP_SETPCAP) {
        for other in caps::all().difference(&needed) {
            // A kernel that does not know it has not given it either.
            let _ = caps::drop(None, CapSet::Bounding, *other);
        }
    }
    caps::clear(None, CapSet::Ambient).map_err(said)?;
    caps::clear(None, CapSet::Inheritable).map_err(said)?;
    caps::set(None, CapSet::Effective, &kept).map_err(said)?;
    caps::set(None, CapSet::Permitted, &kept).map_err(said)?;
    nix::sys::prctl::set_no_new_privs().map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// On a thread of its own: the others keep theirs.
    #[test]
    fn what_is_not_needed_is_gone_for_good() {
        let test = || {
            let before = caps::read(None, CapSet::Permitted).expect("it can be asked");
            drop_others(OBSERVE).expect("anybody may give up");
            let after = caps::read(None, CapSet::Permitted).expect("it can be asked");
            let needed: CapsHashSet = OBSERVE.iter().copied().collect();
            assert_eq!(after, before.intersection(&needed).copied().collect());
            assert_eq!(caps::read(None, CapSet::Effective).expect("it can be asked"), after);
            if before.contains(&Capability::CAP_SYS_ADMIN) {
                let again = caps::raise(None, CapSet::Effective, Capability::CAP_SYS_ADMIN);
                assert!(again.is_err(), "it comes back");
            }
            // What it executes gets no more, root or not: capabilities(7).
            let status = std::process::Command::new("cat").arg("/proc/self/status").output();
            let status = String::from_utf8(status.expect("there is a `cat`").stdout).expect("text");
            let line = |key: &str| {
                let line = status.lines().find_map(|line| line.strip_prefix(key)).expect(key);
                u64::from_str_radix(line.trim(), 16).expect("a mask")
            };
            let mask = after.iter().fold(0, |mask, cap| mask | cap.bitmask());
            assert_eq!(line("CapEff:") & !mask, 0, "{status}");
            assert!(status.contains("NoNewPrivs:\t1"), "{status}");
        };
        std::thread::spawn(test).join().expect("no panic");
    }
}
