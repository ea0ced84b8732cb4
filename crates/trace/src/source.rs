//! A trace of any format that is read, told by its first bytes.

use std::io::{Chain, Cursor, Read};

use crate::clock::{CpuHz, CpuHzSource, check_cpu_hz};
use crate::error::Error;
use crate::linux::{self, Queues};
use crate::merge::Merger;
use crate::options::Options;
use crate::problems::RecordProblems;
use crate::schedule::{Observer, Schedule};
use crate::xen;

/// How many bytes tell the formats apart.
const HEAD_BYTES: u64 = 8;

/// An input, from its first byte.
pub(crate) type Input<R> = Chain<Cursor<Vec<u8>>, R>;

/// Which format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// What `xentrace` writes; also what is none of the others, for the error to say so.
    Xentrace,
    /// A schedule of a Linux host.
    Linux(linux::Format),
}

/// Looks at the first bytes, which stay to be read, and whether the options fit.
pub(crate) fn open<R: Read>(mut input: R, options: &Options) -> Result<(Format, Input<R>), Error> {
    check_cpu_hz(options.cpu_hz)?;
    let mut head = Vec::new();
    let read = input.by_ref().take(HEAD_BYTES).read_to_end(&mut head);
    read.map_err(|source| Error::Read { offset: head.len() as u64, source })?;
    let format = linux::Format::of(&head).map_or(Format::Xentrace, Format::Linux);
    if format != Format::Xentrace && options.cpu_hz.is_some() {
        return Err(Error::ClockKnown);
    }
    Ok((format, Cursor::new(head).chain(input)))
}

/// A trace that can be followed.
#[derive(Debug)]
pub(crate) enum Source<R> {
    Xen(Box<Merger<Input<R>>>),
    Linux(Box<linux::Feed<Input<R>>>),
}

impl<R: Read> Source<R> {
    pub(crate) fn open(input: R, options: &Options) -> Result<Self, Error> {
        let (format, input) = open(input, options)?;
        Ok(match format {
            Format::Xentrace => Source::Xen(Box::new(Merger::new(input))),
            Format::Linux(format) => {
                Source::Linux(Box::new(linux::Feed::new(format, input, options)?))
            }
        })
    }

    /// Sends all of it through a schedule.
    pub(crate) fn follow<O: Observer>(&mut self, schedule: &mut Schedule<O>) -> Result<(), Error> {
        match self {
            Source::Xen(merger) => xen::follow(merger, schedule),
            Source::Linux(feed) => feed.follow(schedule),
        }
    }

    /// Begin and end, once all is read.
    pub(crate) fn span(&self) -> Option<(u64, u64)> {
        match self {
            Source::Xen(merger) => merger.span(),
            Source::Linux(feed) => feed.span(),
        }
    }

    /// How long a tick of this trace is.
    pub(crate) fn clock(&self, given: Option<u64>) -> CpuHz {
        match self {
            Source::Xen(merger) => merger.meter.resolve(given),
            Source::Linux(_) => CpuHz { hz: 1_000_000_000, source: CpuHzSource::Nanoseconds },
        }
    }

    /// What did not go smoothly, once all is read.
    pub(crate) fn problems<O>(&self, schedule: &Schedule<O>) -> RecordProblems {
        let mut problems = match self {
            Source::Xen(merger) => RecordProblems::from(merger.problems),
            Source::Linux(feed) => feed.problems(),
        };
        problems.inconsistent = schedule.inconsistent_records;
        problems
    }

    /// Who filled the uplinks, once all is read: over all of it, and interval by interval.
    pub(crate) fn queues(&self) -> Option<&Queues> {
        match self {
            Source::Xen(_) => None,
            Source::Linux(feed) => feed.queues(),
        }
    }

    /// Whether it is a schedule of a Linux host.
    pub(crate) fn is_linux(&self) -> bool {
        matches!(self, Source::Linux(_))
    }
}
