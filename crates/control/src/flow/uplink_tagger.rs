//! The tagger of an uplink, as text that can be put there and read back.

use super::tagger_config::{NONE, TaggerConfig};
use super::{Tagger, running};
use lowtail_kernel::Error;
use lowtail_kernel::tc::{self, Hook, Link};

/// What the tagger of an uplink is told, as text; `none` without one. `None` if the interface is gone.
///
/// # Errors
/// What the kernel says, or that somebody else's filter is in our place.
pub fn read(link: &Link) -> Result<Option<String>, Error> {
    let present = tc::has_hooks(link)?;
    if present != Some(true) {
        return Ok(present.map(|_| NONE.to_string()));
    }
    let config = Tagger::running(link)?.map(|tagger| tagger.config(link)).transpose()?;
    Ok(Some(config.map_or_else(|| NONE.to_string(), |config| config.to_text())))
}

/// Puts a tagger at an uplink that is told so, or removes it. It is one that runs already in this network namespace, if
/// that has the same rule.
///
/// # Errors
/// If the text is none, there are no hooks, or the kernel refuses.
pub fn write(link: &Link, text: &str) -> Result<(), Error> {
    match TaggerConfig::parse(text)? {
        Some(config) => running::tagger(&config.params(), config.marks)?.attach(link, &config),
        None => match Tagger::running(link)? {
            Some(tagger) => tagger.detach(link),
            None => tc::detach(link, Hook::Egress),
        },
    }
}
