//! Restores what was there.

use serde::Serialize;

use super::execute::execute_steps;
use super::order::order;
use super::step::Step;
use super::{Checkpoint, Entry, Error, Failed, Foreign, HostLock, Ledger, OnError};

/// What has become of what was changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Reverted {
    /// Places that have again what they had.
    pub restored: usize,
    /// Places that had it already: a kill came before the step, or somebody else has restored them.
    #[serde(rename = "unchanged")]
    pub already: usize,
    /// Places that are gone: VMs that have ended.
    pub gone: usize,
    /// Places of an earlier boot, gone with it.
    pub stale: usize,
    /// What somebody else has changed since. It was left alone, and stays in the ledger, so that what was there before us is known.
    pub foreign: Vec<Foreign>,
    /// What could not be restored. It stays in the ledger for another try.
    pub failed: Vec<Failed>,
    /// Lines of the ledger that could not be read. It is kept aside as `host.ledger.damaged`.
    pub damaged: usize,
}

impl HostLock {
    /// Restores all that was changed, the last change first, as far as the kernel takes that order; with
    /// `force` also what somebody else has changed since. Without failures, and without what was left alone, there is no
    /// ledger afterwards.
    ///
    /// # Errors
    /// If the ledger cannot be written or removed. All has been restored that could be.
    pub fn revert(
        &mut self,
        force: bool,
        report: &mut dyn FnMut(Checkpoint<'_>),
    ) -> Result<Reverted, Error> {
        let HostLock { dir, ledger, .. } = self;
        let mut done =
            Reverted { stale: ledger.stale, damaged: ledger.damaged, ..Reverted::default() };
        let mut steps = Vec::new();
        for entry in ledger.entries.iter().rev() {
            let (knob, to) = (entry.knob.clone(), entry.was.clone());
            match knob.read() {
                Ok(None) => done.gone += 1,
                Ok(Some(now)) if now == to => done.already += 1,
                // Also where it only lacks CPUs that are off: they may come back.
                Ok(Some(now)) if force || entry.can_restore(&now) => {
                    steps.push(Step { knob, now, to, restores: true });
                }
                Ok(Some(now)) if knob.holds(&to, &now) => done.already += 1,
                Ok(Some(now)) => done.foreign.push(entry.foreign(now)),
                Err(error) => done.failed.push(Failed { knob, to, why: error.to_string() }),
            }
        }
        let steps = order(steps);
        let mut next = Ledger { damaged: 0, stale: 0, ..ledger.clone() };
        for step in &steps {
            // A value in between that nobody wants: whoever finds it shall know whose it is.
            if next.entry(&step.knob).is_some_and(|entry| entry.was != step.to) {
                next.record_intent(&step.knob, &step.now, &step.to, "");
            }
        }
        if ledger.damaged > 0 {
            Ledger::keep_aside(dir)?;
            next.save(dir)?;
        } else if next != *ledger {
            // Without room for that, a kill right in between would leave what is then told as somebody else's.
            let _ = next.save(dir);
        }
        *ledger = next;
        report(Checkpoint::Written);
        let executed = execute_steps(&steps, OnError::Continue, report);
        done.restored = executed.done.len();
        done.gone += executed.gone.len();
        done.failed.extend(executed.failed);
        // What was left out belongs to what has failed.
        let is_foreign = |entry: &Entry| done.foreign.iter().any(|other| other.knob == entry.knob);
        ledger.entries.iter_mut().for_each(|entry| entry.left = is_foreign(entry));
        ledger.entries.retain(|entry| {
            let failed = done.failed.iter().any(|failed| failed.knob == entry.knob);
            failed || entry.left || executed.left_out.contains(&entry.knob)
        });
        ledger.save(dir)?;
        report(Checkpoint::Settled);
        Ok(done)
    }

    /// Takes these out of the ledger: what somebody else has put there is what is restored from now on.
    ///
    /// # Errors
    /// If the ledger cannot be written or removed.
    pub fn forget(&mut self, foreign: &[Foreign]) -> Result<(), Error> {
        let HostLock { dir, ledger, .. } = self;
        ledger.entries.retain(|entry| !foreign.iter().any(|foreign| foreign.knob == entry.knob));
        ledger.save(dir)
    }
}
