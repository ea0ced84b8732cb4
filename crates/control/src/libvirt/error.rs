//! What can go wrong with libvirt.

use std::time::Duration;

use super::{Domain, Key};

/// Why libvirt could not be asked, or has not done it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The library cannot be loaded.
    #[error(
        "cannot load libvirt: {0}; install the package libvirt0 (Debian) or libvirt-libs (Fedora)"
    )]
    Library(String),
    /// A URI that is none, or leads to another host.
    #[error("libvirt's URI `{uri}`: {why}")]
    Uri {
        /// As it was given.
        uri: String,
        /// What is wrong, and what would be right.
        why: String,
    },
    /// Nobody answers there, or one may not.
    #[error("cannot reach libvirt at {uri}: {why}")]
    Open {
        /// Where.
        uri: String,
        /// What libvirt says.
        why: String,
    },
    /// No answer in time.
    #[error(
        "libvirt at {uri} has not answered for {} s: {what}; whether it will do so later is not known. \
         Look at libvirtd (systemctl status libvirtd) and try again", after.as_secs_f64()
    )]
    Hangs {
        /// Where.
        uri: String,
        /// What it was asked.
        what: String,
        /// How long it was waited for.
        after: Duration,
    },
    /// libvirtd has ended, or was started anew.
    #[error(
        "libvirt at {uri} has closed the connection: {what}; whether that was done is not known"
    )]
    Closed {
        /// Where.
        uri: String,
        /// What it was asked.
        what: String,
    },
    /// Too many calls that never came back.
    #[error("{0} calls of libvirt hang; no more are made before one of them ends")]
    Stuck(usize),
    /// libvirt says no.
    #[error("libvirt, {what}: {why}")]
    Refused {
        /// What it was asked.
        what: String,
        /// What it says.
        why: String,
    },
    /// The VM does not have this.
    #[error("{domain}: no {key}: {why}")]
    NoSuch {
        /// The VM.
        domain: Domain,
        /// What it does not have.
        key: Key,
        /// Why.
        why: String,
    },
    /// A value that is none.
    #[error("{0}")]
    Value(String),
    /// libvirt has said yes, and the value is another.
    #[error("{domain}: {key} was set to {wanted}, and is {is}")]
    NotTaken {
        /// The VM.
        domain: Domain,
        /// The value's name.
        key: Key,
        /// What was written.
        wanted: String,
        /// What was read then.
        is: String,
    },
}
