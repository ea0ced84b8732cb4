//! What a recording does not say of the host on which it was made, for `predict` and `tune`.

use std::path::PathBuf;

use clap::Args;
use lowtail_control::policy::Policy;
use lowtail_engine::Duration;
use lowtail_predict::{Error, Recording, Setup, recorded_scheduler, set_xen};
use lowtail_xen::{RATELIMIT_US, TIMESLICE_MS};

use crate::exit::Fail;

/// What a recording does not say of its host.
#[derive(Debug, Args)]
pub(crate) struct Recorded {
    /// The kernel under which it was recorded, where the file does not say, such as 6.12; of Xen its scheduler, such as credit2-4.21
    #[arg(long, value_name = "RELEASE")]
    kernel: Option<String>,
    /// What a domain of Xen's is called, which is not in the recording, such as d1=web
    #[arg(long, value_name = "DOMAIN=NAME", value_parser = name)]
    name: Vec<(String, String)>,
    /// The weights and caps of Xen's domains when it was recorded, as a policy file
    #[arg(long, value_name = "FILE")]
    recorded_policy: Option<PathBuf>,
    /// Xen's rate limit when it was recorded [default: as its records tell, or else 1ms]
    #[arg(long, value_name = "SPAN", value_parser = ratelimit)]
    recorded_ratelimit: Option<Duration>,
    /// Time slice of Xen's credit when it was recorded [default: as its records tell, or else 30ms]
    #[arg(long, value_name = "SPAN", value_parser = slice)]
    recorded_slice: Option<Duration>,
}

impl Recorded {
    /// Tells `recording` what is said of it, and gives its host as it was.
    pub(crate) fn setup(&self, recording: &mut Recording) -> Result<Result<Setup, Error>, Fail> {
        let policy = self.recorded_policy.as_deref().map(Policy::read).transpose();
        let policy = policy.map_err(|error| Fail::Input(error.to_string()))?;
        let said = recording.rename(&self.name).and_then(|()| match &policy {
            Some(policy) => recording.set_policy(policy),
            None => Ok(()),
        });
        let scheduler =
            said.and_then(|()| recorded_scheduler(&recording.host, self.kernel.as_deref()));
        let mut scheduler = match scheduler {
            Ok(scheduler) => scheduler,
            Err(error) => return Ok(Err(error)),
        };
        set_xen(&mut scheduler, self.recorded_ratelimit, self.recorded_slice)
            .map_err(|why| Fail::Usage(format!("--recorded-ratelimit, --recorded-slice: {why}")))?;
        Ok(Ok(Setup::new(scheduler)))
    }

    /// An option that is given, if any is: they are about recordings.
    pub(crate) fn given(&self) -> Option<&'static str> {
        let options = [
            ("--kernel", self.kernel.is_some()),
            ("--name", !self.name.is_empty()),
            ("--recorded-policy", self.recorded_policy.is_some()),
            ("--recorded-ratelimit", self.recorded_ratelimit.is_some()),
            ("--recorded-slice", self.recorded_slice.is_some()),
        ];
        options.into_iter().find_map(|(option, given)| given.then_some(option))
    }
}

fn name(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').filter(|(domain, name)| !domain.is_empty() && !name.is_empty());
    let (domain, name) = pair.ok_or("a domain and its name, such as d1=web")?;
    Ok((domain.to_owned(), name.to_owned()))
}

/// A rate limit that Xen takes.
pub(super) fn ratelimit(text: &str) -> Result<Duration, String> {
    let span: Duration = text.parse().map_err(|error| format!("{error}"))?;
    let us = |us: &u32| Duration::from_us((*us).into());
    let all = us(RATELIMIT_US.start())..=us(RATELIMIT_US.end());
    let is_right = span.is_zero() || all.contains(&span);
    is_right.then_some(span).ok_or_else(|| "0us (none), or 100us to 500ms".to_owned())
}

/// A time slice that Xen takes.
pub(super) fn slice(text: &str) -> Result<Duration, String> {
    let span: Duration = text.parse().map_err(|error| format!("{error}"))?;
    let ms = |ms: &u32| Duration::from_ms((*ms).into());
    let all = ms(TIMESLICE_MS.start())..=ms(TIMESLICE_MS.end());
    let is_right = span.as_ps().is_multiple_of(ms(&1).as_ps()) && all.contains(&span);
    is_right.then_some(span).ok_or_else(|| "whole milliseconds from 1ms to 1s".to_owned())
}
