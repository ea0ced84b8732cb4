//! What a policy does to VMs: how they did before, and how they do now.

use std::path::Path;

use lowtail_control::reconcile::{Effect, VmEffect};
use lowtail_discover::Declared;
use lowtail_engine::Duration;
use lowtail_kernel::error::Error;
use lowtail_observe::xen::{XenObserver, XenOptions};
use lowtail_observe::{Observer, Options};

use super::dom0::is_dom0;
use super::observe::XEN_BUFFER_BYTES;
use crate::exit::Fail;
use crate::out;
use crate::span::{of_wall, span};

/// For how long to look.
#[derive(Debug, clap::Args)]
pub(crate) struct Look {
    /// How long to measure the VMs, for the figures before and after
    #[arg(long, value_name = "SPAN", value_parser = span, default_value = "1s")]
    look: Duration,
    /// Do not measure the VMs
    #[arg(long, conflicts_with = "look")]
    pub(super) no_look: bool,
}

impl Look {
    /// Keeps how VMs do before anything is changed, unless that is known already. Where it cannot be seen that is
    /// told, and nothing else fails for it.
    pub(crate) fn before(&self, dir: &Path, declared: &[Declared]) -> Result<(), Fail> {
        if self.no_look || load(dir)?.is_some() {
            return Ok(());
        }
        match self.look(declared) {
            Ok(before) => {
                let kept = Effect { before, after: Vec::new() }.save(dir);
                kept.map_err(|error| Fail::Host(format!("{}: {error}", dir.display())))
            }
            Err(why) => {
                out::note(&format!("note: the effect cannot be measured: {why}"));
                Ok(())
            }
        }
    }

    /// How VMs did before and do now, if it is known how they did.
    pub(crate) fn now(&self, dir: &Path) -> Result<Option<Effect>, Fail> {
        let Some(mut effect) = load(dir)? else { return Ok(None) };
        if !self.no_look {
            match self.look(&[]) {
                Ok(after) => effect.after = after,
                Err(why) => out::note(&format!("note: the VMs cannot be measured now: {why}")),
            }
        }
        Ok(Some(effect))
    }

    fn look(&self, declared: &[Declared]) -> Result<Vec<VmEffect>, String> {
        if is_dom0() {
            return self.look_at_domains();
        }
        let options = Options { declared: declared.to_vec(), network: false, ..Options::default() };
        let look = || {
            let mut observer = Observer::start(options)?;
            std::thread::sleep(of_wall(self.look));
            observer.snapshot()
        };
        look().map(|snapshot| snapshot.effects()).map_err(|error| error.to_string())
    }

    /// The same by Xen's records.
    fn look_at_domains(&self) -> Result<Vec<VmEffect>, String> {
        let options = XenOptions { names: Vec::new(), buffer_bytes: XEN_BUFFER_BYTES };
        let look = || {
            let mut observer = XenObserver::start(options)?;
            std::thread::sleep(of_wall(self.look));
            observer.snapshot()
        };
        look().map(|snapshot| snapshot.effects()).map_err(|error: Error| error.to_string())
    }
}

fn load(dir: &Path) -> Result<Option<Effect>, Fail> {
    Effect::load(dir).map_err(|error| Fail::Host(format!("{}: {error}", dir.display())))
}
