//! Keeps a policy in force while VMs come and go, until told to end.
//!
//! The host is held for all that time. Each round looks at the VMs, asks for the settings if those have changed, and
//! applies what differs. What a killed one has left is taken over: what was there before it is what is restored.

mod ahead;
mod aside;
mod effect;
mod follower;
mod kept;
mod notes;
mod reported;
mod taggers;
mod vcpus;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use crate::desired::online;
use crate::manage::{
    Applied, Error, Foreign, HostLock, Knob, OnError, Plan, Refused, Reverted, Wanted,
};
use crate::xen;
use lowtail_discover::{Declared, Found, Scanner, Users, Vm};
use lowtail_kernel::Roots;
use lowtail_kernel::pace::Paced;
use lowtail_kernel::signals::Signals;
use lowtail_kernel::tc::{Link, Size};

pub use effect::Effect;
pub use follower::Follower;
pub use lowtail_kernel::VmEffect;
pub use notes::Notes;
pub use taggers::Taggers;
pub use vcpus::{InForce, Report, Vcpus, forget_scheduler, in_force};

/// From one look at signals to the next.
const LOOK: Duration = Duration::from_millis(50);
/// All places are read every so many rounds also if the VMs are the same, which tells what others have changed.
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
    /// Whether VMs are domains of Xen's, and this is their dom0.
    pub domains: bool,
    /// VMs by the user's word.
    pub declared: Vec<Declared>,
    /// Users whose word counts on what is a VM.
    pub users: Users,
    /// From one round to the next.
    pub period: Duration,
    /// Whether all stays in force at the end, for `revert` or the next one, instead of being restored.
    pub leave: bool,
}

impl Options {
    /// The same for the domains of a Xen host: a look at them is half a dozen runs of `xl`, so that a round is each five seconds.
    pub fn on_xen(dir: &Path) -> Self {
        Options { domains: true, period: Duration::from_secs(5), ..Self::new(dir) }
    }

    /// A round each second; at the end all is restored.
    pub fn new(dir: &Path) -> Self {
        let (roots, period) = (Roots::default(), Duration::from_secs(1));
        let users = Users::default();
        Options {
            dir: dir.to_path_buf(),
            roots,
            domains: false,
            declared: Vec::new(),
            users,
            period,
            leave: false,
        }
    }
}

/// Keeps settings in force.
#[derive(Debug)]
pub struct Reconciler {
    options: Options,
    hold: HostLock,
    scanner: Scanner,
    rounds: u32,
    vms: Vec<Vm>,
    cpus: Option<BTreeSet<usize>>,
    /// Interfaces, where the policy has some.
    links: Vec<Size>,
    /// What was wanted when that was known last.
    wanted: Option<Wanted>,
    /// What the kernel has refused, and when.
    failed: BTreeMap<(Knob, String), (Instant, String)>,
    refused: Vec<Refused>,
    foreign: BTreeMap<Knob, String>,
    /// It was told what is changed.
    told: bool,
}

/// What is to come after a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The next one, which looks whether VMs have come or gone.
    Wait,
    /// The next one, in which something else is wanted though no VM has come or gone.
    Due,
    /// None.
    End,
}

/// Says what is wanted for the VMs that were found, or why that is not known, in words.
pub type Resolve<'w> = dyn FnMut(&Found) -> Result<Wanted, String> + 'w;

/// What a round has found and done.
#[derive(Clone, Debug, Default)]
pub struct Round {
    /// The VMs, if they are others than the round before.
    pub changed: Option<Found>,
    /// What differed, if something did.
    pub plan: Option<Plan>,
    /// What was done about it.
    pub applied: Option<Applied>,
    /// What somebody else has changed, told once, and again when it was gone meanwhile.
    pub foreign: Vec<Foreign>,
    /// What places are not given, of themselves or by the kernel, all of it, if that is not what it was the round before.
    pub refused: Option<Vec<Refused>>,
    /// Why it is not known what is wanted. What was wanted before stays in force; the next round asks again.
    pub unknown: Option<String>,
    /// What is changed on this host, in the order in which it was, if something was done about it in this round.
    pub in_force: Option<Vec<Knob>>,
}

impl Reconciler {
    /// Takes hold of the host, and what another has left.
    ///
    /// # Errors
    /// As [`HostLock::take`].
    pub fn start(options: Options) -> Result<Self, Error> {
        let hold = HostLock::take(&options.dir)?;
        let scanner = Scanner::new(options.roots.clone(), options.declared.clone())
            .trusting(options.users.clone());
        Ok(Reconciler {
            options,
            hold,
            scanner,
            rounds: 0,
            vms: Vec::new(),
            cpus: None,
            links: Vec::new(),
            wanted: None,
            failed: BTreeMap::new(),
            refused: Vec::new(),
            foreign: BTreeMap::new(),
            told: false,
        })
    }

    /// One round. `resolve` says what is wanted for these VMs, or why that is not known; it is asked when VMs or the CPUs
    /// that are on have changed, and now and then. What is not known is not what nobody wants: what was wanted before
    /// stays.
    ///
    /// # Errors
    /// If the ledger cannot be written; nothing was changed then that is not written down. The next round may go well.
    pub fn round(&mut self, resolve: &mut Resolve<'_>) -> Result<Round, Error> {
        let mut round = self.look(resolve)?;
        if round.applied.is_some() || !std::mem::replace(&mut self.told, true) {
            let entries = self.hold.ledger().entries.iter();
            round.in_force = Some(entries.map(|entry| entry.knob.clone()).collect());
        }
        Ok(round)
    }

    fn look(&mut self, resolve: &mut Resolve<'_>) -> Result<Round, Error> {
        let found = match self.options.domains {
            true => xen::scan(&self.options.roots),
            false => self.scanner.scan(),
        };
        let cpus = online(&self.options.roots).ok();
        let changed = self.rounds == 0 || found.vms != self.vms;
        let links = self.links();
        let due = self.rounds.is_multiple_of(EVERY) || cpus != self.cpus || links != self.links;
        self.links = links;
        self.rounds = self.rounds.wrapping_add(1);
        let mut round = Round::default();
        if !changed && !due {
            return Ok(round);
        }
        let asked = match &found.unknown {
            Some(why) => Err(why.clone()),
            None => resolve(&found),
        };
        match asked {
            Ok(wanted) => {
                self.wanted = Some(wanted);
                self.cpus = cpus;
            }
            Err(why) => {
                round.unknown = Some(why);
                // The next round is due.
                self.rounds = 0;
            }
        }
        // Of places that are gone the entries are dropped, also where nothing new is known.
        let Some(wanted) = &self.wanted else { return Ok(round) };
        let mut plan = self.hold.plan_wanted(wanted, false)?;
        round.foreign = self.others(&plan);
        self.leave_failed(&mut plan);
        if !plan.is_empty() {
            let applied = match self.hold.apply(&plan, OnError::Continue, &mut |_| {}) {
                // Somebody was faster than us; the next round sees what is there.
                Err(Error::Moved { .. }) => {
                    self.rounds = 0;
                    return Ok(round);
                }
                applied => applied?,
            };
            for failed in &applied.failed {
                let (knob, why) = ((failed.knob.clone(), failed.to.clone()), failed.why.clone());
                self.failed.insert(knob, (Instant::now(), why));
            }
            round.applied = Some(applied);
        }
        round.refused = self.refuse(&plan);
        round.plan = round.applied.is_some().then_some(plan);
        if found.unknown.is_none() {
            self.vms.clone_from(&found.vms);
            round.changed = changed.then_some(found);
        }
        Ok(round)
    }

    /// What of interfaces matters to what is wanted: one that comes, or gets another size, is not waited for. What cannot be
    /// listed is as it was.
    fn links(&self) -> Vec<Size> {
        let matter = self.wanted.as_ref().is_some_and(Wanted::has_interfaces);
        if matter { Link::sizes().unwrap_or_else(|_| self.links.clone()) } else { Vec::new() }
    }

    /// What others have changed, if that is new. What is no longer so is forgotten, so that it is told when it comes again.
    fn others(&mut self, plan: &Plan) -> Vec<Foreign> {
        let now = plan.foreign.iter().map(|foreign| (foreign.knob.clone(), foreign.now.clone()));
        let before = std::mem::replace(&mut self.foreign, now.collect());
        let is_new = |foreign: &&Foreign| before.get(&foreign.knob) != Some(&foreign.now);
        plan.foreign.iter().filter(is_new).cloned().collect()
    }

    /// Leaves out for a while what the kernel has refused. What is no longer planned is forgotten.
    fn leave_failed(&mut self, plan: &mut Plan) {
        let planned: BTreeSet<(&Knob, &str)> =
            plan.changes.iter().map(|change| (&change.knob, change.to.as_str())).collect();
        self.failed.retain(|(knob, to), (when, _)| {
            when.elapsed() < RETRY && planned.contains(&(knob, to.as_str()))
        });
        plan.leave_out(|knob, to| self.failed.contains_key(&(knob.clone(), to.to_string())));
    }

    /// What is refused now, if that is new.
    fn refuse(&mut self, plan: &Plan) -> Option<Vec<Refused>> {
        let failed = self.failed.iter().map(|((knob, wanted), (_, why))| {
            let (knob, wanted, why) = (knob.clone(), wanted.clone(), why.clone());
            Refused { knob, wanted, why }
        });
        let now: Vec<Refused> = plan.refused.iter().cloned().chain(failed).collect();
        let is_new = now != self.refused;
        self.refused.clone_from(&now);
        is_new.then_some(now)
    }

    /// Rounds until a signal asks for an end, or `report`, which is told of each, and of what went wrong in it.
    pub fn run(
        &mut self,
        signals: &Signals,
        resolve: &mut Resolve<'_>,
        report: &mut dyn FnMut(Result<Round, Error>) -> Next,
    ) {
        let _paced = Paced::begin();
        while signals.caught().is_none() {
            let next = Instant::now() + self.options.period;
            match report(self.round(resolve)) {
                Next::Wait => {}
                // The next round is due.
                Next::Due => self.rounds = 0,
                Next::End => return,
            }
            while signals.caught().is_none() && Instant::now() < next {
                thread::sleep(LOOK.min(next.saturating_duration_since(Instant::now())));
            }
        }
    }

    /// Ends: restores all, unless it is to be left.
    ///
    /// # Errors
    /// As [`HostLock::revert`].
    pub fn end(mut self) -> Result<Option<Reverted>, Error> {
        if self.options.leave {
            return Ok(None);
        }
        self.hold.revert(false, &mut |_| {}).map(Some)
    }
}
