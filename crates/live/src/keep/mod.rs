//! Keeps a policy in force while machines come and go, until told to end.
//!
//! The host is held for all that time. Each round looks at the machines, asks for the settings if those have changed, and
//! applies what differs. What a killed one has left is taken over: what was there before it is what is restored.

mod effect;
mod notes;
mod taggers;
mod vcpus;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use crate::discover::{Declared, Found, Roots, Scanner, Users, Vm};
use crate::manage::{Applied, Error, Foreign, Hold, OnError, Place, Plan, Reverted, Setting};
use crate::signals::Signals;

pub use effect::{Effect, VmEffect};
pub use notes::{forget_notes, load_notes, save_notes};
pub use taggers::Taggers;
pub use vcpus::{InForce, Report, Vcpus, forget_scheduler, in_force};

/// From one look at signals to the next.
const LOOK: Duration = Duration::from_millis(50);
/// All places are read every so many rounds also if the machines are the same, which tells what others have changed.
const EVERY: u32 = 10;
/// What the kernel has refused is not tried again for so long.
const RETRY: Duration = Duration::from_secs(60);

/// How to keep.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where the ledger is.
    pub dir: PathBuf,
    /// Where the kernel tells about itself.
    pub roots: Roots,
    /// Machines by the user's word.
    pub declared: Vec<Declared>,
    /// Users whose word counts on what is a machine.
    pub users: Users,
    /// From one round to the next.
    pub period: Duration,
    /// Whether all stays in force at the end, for `revert` or the next one, instead of being restored.
    pub leave: bool,
}

impl Options {
    /// A round each second; at the end all is restored.
    pub fn new(dir: &Path) -> Self {
        let (roots, period) = (Roots::default(), Duration::from_secs(1));
        let users = Users::default();
        Options { dir: dir.to_path_buf(), roots, declared: Vec::new(), users, period, leave: false }
    }
}

/// Keeps settings in force.
#[derive(Debug)]
pub struct Keep {
    options: Options,
    hold: Hold,
    scanner: Scanner,
    rounds: u32,
    vms: Vec<Vm>,
    settings: Vec<Setting>,
    refused: BTreeMap<(Place, String), Instant>,
    foreign: BTreeMap<Place, String>,
}

/// What a round has found and done.
#[derive(Clone, Debug, Default)]
pub struct Round {
    /// The machines, if they are others than the round before.
    pub changed: Option<Found>,
    /// What differed, if something did.
    pub plan: Option<Plan>,
    /// What was done about it.
    pub applied: Option<Applied>,
    /// What somebody else has changed, told once.
    pub foreign: Vec<Foreign>,
}

impl Keep {
    /// Takes hold of the host, and what another has left.
    ///
    /// # Errors
    /// As [`Hold::take`].
    pub fn start(options: Options) -> Result<Self, Error> {
        let hold = Hold::take(&options.dir)?;
        let scanner = Scanner::new(options.roots.clone(), options.declared.clone())
            .trusting(options.users.clone());
        Ok(Keep {
            options,
            hold,
            scanner,
            rounds: 0,
            vms: Vec::new(),
            settings: Vec::new(),
            refused: BTreeMap::new(),
            foreign: BTreeMap::new(),
        })
    }

    /// One round. `want` gives the settings for these machines; it is asked when they have changed, and now and then.
    ///
    /// # Errors
    /// If the ledger cannot be written, or a setting cannot be; nothing was changed then that is not written down. The
    /// next round may go well.
    pub fn round(&mut self, want: &mut dyn FnMut(&Found) -> Vec<Setting>) -> Result<Round, Error> {
        let found = self.scanner.scan();
        let changed = self.rounds == 0 || found.vms != self.vms;
        let due = self.rounds.is_multiple_of(EVERY);
        self.rounds = self.rounds.wrapping_add(1);
        let mut round = Round::default();
        if !changed && !due {
            return Ok(round);
        }
        self.settings = want(&found);
        let mut plan = self.hold.plan(&self.settings, false)?;
        self.refused.retain(|_, when| when.elapsed() < RETRY);
        plan.leave_out(|place, to| self.refused.contains_key(&(place.clone(), to.to_string())));
        for foreign in &plan.foreign {
            let told = self.foreign.insert(foreign.place.clone(), foreign.now.clone());
            if told.as_ref() != Some(&foreign.now) {
                round.foreign.push(foreign.clone());
            }
        }
        if !plan.is_empty() {
            let applied = match self.hold.apply(&plan, OnError::GoOn, &mut |_| {}) {
                // Somebody was faster than us; the next round sees what is there.
                Err(Error::Moved { .. }) => {
                    self.vms.clear();
                    return Ok(round);
                }
                applied => applied?,
            };
            for failed in &applied.failed {
                self.refused.insert((failed.place.clone(), failed.to.clone()), Instant::now());
            }
            round.applied = Some(applied);
            round.plan = Some(plan);
        }
        self.vms.clone_from(&found.vms);
        round.changed = changed.then_some(found);
        Ok(round)
    }

    /// Rounds until a signal asks for an end; `tell` is told of each, and of what went wrong in it.
    pub fn run(
        &mut self,
        signals: &Signals,
        want: &mut dyn FnMut(&Found) -> Vec<Setting>,
        tell: &mut dyn FnMut(Result<Round, Error>),
    ) {
        while signals.caught().is_none() {
            let next = Instant::now() + self.options.period;
            tell(self.round(want));
            while signals.caught().is_none() && Instant::now() < next {
                thread::sleep(LOOK.min(next.saturating_duration_since(Instant::now())));
            }
        }
    }

    /// Ends: restores all, unless it is to be left.
    ///
    /// # Errors
    /// As [`Hold::revert`].
    pub fn end(mut self) -> Result<Option<Reverted>, Error> {
        if self.options.leave {
            return Ok(None);
        }
        self.hold.revert(false, &mut |_| {}).map(Some)
    }
}
