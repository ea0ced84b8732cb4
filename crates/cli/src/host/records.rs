//! Where it is written down what was decided and changed: the audit log, and the journal of systemd.

use std::fmt::Write;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use lowtail_control::guard::{Audit, Line, Owners};
use lowtail_control::manage::{Applied, Change, Plan, Row, Status};
use lowtail_discover::Vm;
use lowtail_kernel::Name;

/// Where the journal takes entries: <https://systemd.io/JOURNAL_NATIVE_PROTOCOL/>.
const JOURNAL: &str = "/run/systemd/journal/socket";
/// `LOG_NOTICE` of syslog(3).
const NOTICE: u8 = 5;

/// Both logs.
#[derive(Debug)]
pub(crate) struct Records {
    audit: Result<Audit, String>,
    /// It was told that there is no audit log.
    told: bool,
    journal: Option<UnixDatagram>,
}

impl Records {
    /// Those of the ledger in `dir`. Without them nothing fails but they.
    pub(crate) fn open(dir: &Path) -> Self {
        let audit = Audit::open(dir);
        let audit = audit.map_err(|error| format!("no audit log: {}: {error}", dir.display()));
        let journal = Path::new(JOURNAL).exists().then(UnixDatagram::unbound);
        let journal = journal.and_then(Result::ok);
        // A journal that does not read holds up nobody.
        let journal = journal.filter(|socket| socket.set_nonblocking(true).is_ok());
        Records { audit, told: false, journal }
    }

    /// Writes these lines down; what went wrong, once.
    pub(crate) fn add(&mut self, lines: &[Line]) -> Option<String> {
        for line in lines {
            // It is written in the audit log.
            let _ = self.journal.as_ref().map(|to| to.send_to(entry(line).as_bytes(), JOURNAL));
        }
        if let Ok(audit) = &mut self.audit
            && let Err(error) = audit.add(now_ms(), lines)
        {
            self.audit = Err(format!("no audit log: {error}"));
        }
        let why = self.audit.as_ref().err().filter(|_| !self.told).cloned();
        self.told |= why.is_some();
        why
    }

    /// Writes down what was changed.
    pub(crate) fn changed(&mut self, plan: &Plan, applied: &Applied, vms: &[Vm]) -> Option<String> {
        let owners = Owners::new(vms);
        let done = |change: &&Change| !applied.failed.iter().any(|of| of.knob == change.knob);
        let line = |change: &Change| {
            let Change { knob, now, to, why, restores } = change;
            let owner = owners.of(knob);
            Line {
                vm: owner.map(|vm| vm.name.as_given().to_string()),
                pid: owner.map(|vm| vm.pid),
                ..Line::changed(knob, now, to, *restores, why)
            }
        };
        let lines: Vec<Line> = plan.changes.iter().filter(done).map(line).collect();
        self.add(&lines)
    }

    /// Writes down what is about to be restored: all that this says.
    pub(crate) fn restored(&mut self, status: &Status, vms: &[Vm]) -> Option<String> {
        let owners = Owners::new(vms);
        let line = |Row { entry, .. }: &Row| {
            let owner = owners.of(&entry.knob);
            let ours = entry.ours.last().map_or("", String::as_str);
            Line {
                vm: owner.map(|vm| vm.name.as_given().to_string()),
                pid: owner.map(|vm| vm.pid),
                ..Line::changed(&entry.knob, ours, &entry.was, true, "all is to be as it was")
            }
        };
        let lines: Vec<Line> = status.rows.iter().map(line).collect();
        self.add(&lines)
    }
}

/// An entry of the journal: fields with no line breaks in them, since names are escaped.
fn entry(line: &Line) -> String {
    let mut message = format!("{}: ", line.decision);
    for of in [&line.vm, &line.setting].into_iter().flatten() {
        let _ = write!(message, "{}: ", Name::new(of));
    }
    if let (Some(before), Some(after)) = (&line.before, &line.after) {
        let _ = write!(message, "{} -> {}: ", Name::new(before), Name::new(after));
    }
    message += &Name::new(&line.reason).to_string();
    let mut entry = format!("MESSAGE={message}\nPRIORITY={NOTICE}\nSYSLOG_IDENTIFIER=lowtail\n");
    let fields = [
        ("LOWTAIL_DECISION", Some(&line.decision)),
        ("LOWTAIL_VM", line.vm.as_ref()),
        ("LOWTAIL_SETTING", line.setting.as_ref()),
        ("LOWTAIL_REASON", Some(&line.reason)),
    ];
    for (name, value) in fields {
        if let Some(value) = value {
            let _ = writeln!(entry, "{name}={}", Name::new(value));
        }
    }
    entry
}

/// The time of day, for people: nothing is decided by it.
fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_adds_no_field() {
        let vm = Some("web\nPRIORITY=0".to_string());
        let line = Line { vm, ..Line::told("revert", "late") };
        let entry = entry(&line);
        assert_eq!(entry.lines().count(), 6, "{entry}");
        assert!(
            entry.starts_with("MESSAGE=revert: web\\u{a}PRIORITY=0: late\nPRIORITY=5\n"),
            "{entry}"
        );
    }
}
