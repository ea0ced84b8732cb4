//! Where it is written down what is to be restored.

use std::path::{Path, PathBuf};

use lowtail_control::guard::Memory;
use lowtail_control::manage;
use lowtail_control::reconcile::{self, Effect, Notes};

use crate::exit::Fail;

/// Where it is written down what is to be restored.
#[derive(Debug, clap::Args)]
pub(crate) struct State {
    /// Directory of the ledger, which has the original values [default: /run/lowtail]
    #[arg(long = "state", value_name = "DIR")]
    dir: Option<PathBuf>,
}

impl State {
    pub(crate) fn dir(&self) -> PathBuf {
        self.dir.clone().unwrap_or_else(lowtail_kernel::journal::directory)
    }
}

pub(crate) fn host(error: manage::Error) -> Fail {
    Fail::Host(error.to_string())
}

/// Forgets how VMs did before, what could not be had, and that a killed process had the scheduler: nothing is changed
/// any more.
pub(crate) fn forget(dir: &Path) -> Result<(), Fail> {
    let forgotten = Effect::forget(dir)
        .and_then(|()| Notes::forget(dir))
        .and_then(|()| Memory::forget_goals(dir))
        .and_then(|()| reconcile::forget_scheduler(dir));
    forgotten.map_err(|error| Fail::Host(format!("{}: {error}", dir.display())))
}

/// Nobody has a scheduler of ours while this process holds the host and has none; `status` shall not tell of one that was killed.
pub(crate) fn forget_dead(dir: &Path) -> Result<(), Fail> {
    reconcile::forget_scheduler(dir)
        .map_err(|error| Fail::Host(format!("{}: {error}", dir.display())))
}
