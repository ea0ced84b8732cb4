//! What a recording does not say of the host on which it was made, for `predict` and `tune`.

use std::path::PathBuf;

use clap::Args;
use lowtail_control::policy::Policy;
use lowtail_engine::Duration;
use lowtail_predict::{Terms, ratelimit, slice};

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
    /// What is said here.
    pub(crate) fn terms(&self) -> Result<Terms, Fail> {
        let policy = self.recorded_policy.as_deref().map(Policy::read).transpose();
        let policy = policy.map_err(|error| Fail::Input(error.to_string()))?;
        let (kernel, names) = (self.kernel.clone(), self.name.clone());
        let (ratelimit, slice) = (self.recorded_ratelimit, self.recorded_slice);
        Ok(Terms { kernel, names, policy, ratelimit, slice })
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
