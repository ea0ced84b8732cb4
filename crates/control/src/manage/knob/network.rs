//! An interface's disciplines, segments, hooks and tagger.

use std::io;

use serde::{Deserialize, Serialize};

use super::kind::Kind;
use crate::flow::{self, TaggerConfig, TapTagger};
use lowtail_kernel::Error;
use lowtail_kernel::tc::{self, Hooks, Link, Segments, Tree};

/// What of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// Its disciplines from the root on: [`Tree::to_text`].
    Disciplines,
    /// How long segments are that it takes from TCP: [`Segments`] in JSON.
    Segments,
    /// Its hooks (clsact): `present` or `absent`. Whoever wants a tagger wants these first.
    Hooks,
    /// What the tagger at its egress is told: [`TaggerConfig::to_text`], or `none`.
    Tagger,
    /// Its hook for what comes in: `ingress` or `clsact`, or `absent`. `present` is what there is, else `ingress`. Whoever
    /// wants an entry wants this first.
    Ingress,
    /// Which tagger is at its ingress: [`TapTagger::to_text`], or `none`.
    Entry,
}

/// A part of an interface of this network namespace. Each write is one system call's work, so that a kill leaves either
/// what was there or what is wanted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Network {
    /// The interface.
    pub link: Link,
    /// What of it.
    pub part: Part,
}

impl Network {
    /// What is set as a whole or not at all: an interface as an uplink, or as a tap (`true`).
    pub(super) fn whole(&self) -> (&Link, bool) {
        (&self.link, matches!(self.part, Part::Ingress | Part::Entry))
    }
}

const PRESENT: &str = "present";
const ABSENT: &str = "absent";

impl Kind for Network {
    fn label(&self) -> String {
        let part = match self.part {
            Part::Disciplines => "queueing disciplines",
            Part::Segments => "longest segments",
            Part::Hooks => "hooks",
            Part::Tagger => "tagger",
            Part::Ingress => "ingress hook",
            Part::Entry => "tagger at the ingress",
        };
        format!("{part} of {}", self.link)
    }

    fn read(&self) -> io::Result<Option<String>> {
        let link = &self.link;
        match self.part {
            Part::Disciplines => Tree::read(link).map(|tree| tree.map(|tree| tree.to_text())),
            Part::Segments => link.segments().map(|found| found.map(|found| text(&found))),
            Part::Hooks => tc::has_hooks(link)
                .map(|hooks| hooks.map(|hooks| if hooks { PRESENT } else { ABSENT }.to_string())),
            Part::Tagger => flow::read(link),
            Part::Ingress => {
                tc::hooks(link).map(|hooks| hooks.map(|hooks| hooks.name().to_string()))
            }
            Part::Entry => flow::read_tap(link),
        }
        .map_err(io::Error::other)
    }

    fn write(&self, value: &str) -> io::Result<bool> {
        let link = &self.link;
        if self.read()?.is_none() {
            return Ok(false);
        }
        let write = || -> Result<(), Error> {
            match self.part {
                Part::Disciplines => Tree::parse(value)?.put(link),
                Part::Segments => link.set_segments(&segments(value)?),
                Part::Hooks => tc::set_hooks(link, value == PRESENT),
                Part::Tagger => flow::write(link, value),
                Part::Ingress => tc::put_hooks(link, named(value)?),
                Part::Entry => flow::write_tap(link, value),
            }
        };
        match write() {
            Ok(()) => Ok(true),
            // A VM that ends takes its tap with it at any moment.
            Err(_) if matches!(self.read(), Ok(None)) => Ok(false),
            Err(error) => Err(io::Error::other(error)),
        }
    }

    fn is_whole(&self) -> bool {
        false
    }

    fn in_words(&self, value: &str) -> String {
        let words = match self.part {
            Part::Disciplines => Tree::parse(value).ok().map(|tree| tree.in_words()),
            Part::Segments => segments(value).ok().map(|segments| segments.to_string()),
            Part::Tagger => TaggerConfig::parse(value).ok().flatten().map(|own| own.to_string()),
            Part::Entry => TapTagger::parse(value).ok().flatten().map(|own| own.to_string()),
            Part::Hooks | Part::Ingress => None,
        };
        words.unwrap_or_else(|| value.to_string())
    }

    fn normalize(&self, to: &str, was: &str) -> Result<String, String> {
        let normalize = || -> Result<String, Error> {
            match self.part {
                Part::Disciplines => {
                    // What could not be put back is not replaced.
                    let before = Tree::parse(was)?;
                    if !before.is_ours() {
                        before.restorable(&self.link)?;
                    }
                    let tree = Tree::parse(to)?;
                    match tree.default {
                        Some(_) => Ok(tree.to_text()),
                        None => Ok(tree.dry_run(&self.link)?.to_text()),
                    }
                }
                Part::Segments => Ok(text(&segments(to)?.at_most(&segments(was)?))),
                Part::Hooks if [PRESENT, ABSENT].contains(&to) => {
                    if to == PRESENT && tc::hooks(&self.link)? == Some(Hooks::Ingress) {
                        let why = "it has an `ingress` discipline, beside which there is no clsact, and nothing for what \
                                   goes out: put its filters at the ingress of a clsact instead";
                        return Err(Error::network(format!("hooks of {}", self.link), why));
                    }
                    Ok(to.to_string())
                }
                Part::Hooks => Err(Error::network("hooks", "`present` or `absent` would be right")),
                Part::Tagger => {
                    Ok(TaggerConfig::parse(to)?.map_or_else(|| to.to_string(), |t| t.to_text()))
                }
                Part::Ingress => Ok(match (to, named(was)?) {
                    (PRESENT, Hooks::Absent) => Hooks::Ingress.name().to_string(),
                    (PRESENT, there) => there.name().to_string(),
                    (to, _) => named(to)?.name().to_string(),
                }),
                Part::Entry => {
                    Ok(TapTagger::parse(to)?.map_or_else(|| to.to_string(), |e| e.to_text()))
                }
            }
        };
        normalize().map_err(|error| error.to_string())
    }
}

fn named(hooks: &str) -> Result<Hooks, Error> {
    let wrong = || Error::network("hooks", "`ingress`, `clsact` or `absent` would be right");
    Hooks::named(hooks).ok_or_else(wrong)
}

fn text(segments: &Segments) -> String {
    serde_json::to_string(segments).expect("numbers")
}

fn segments(text: &str) -> Result<Segments, Error> {
    serde_json::from_str(text).map_err(|error| Error::network("longest segments", error))
}
