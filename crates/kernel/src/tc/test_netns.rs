//! A network namespace to try things out in. It is gone when its thread ends, with all that is in it.

use super::link::{self, Facts, Link};
use super::netlink::Session;
use super::tree::Tree;
use crate::Error;
use crate::netns::Namespace;

/// Kinds of interfaces that need no device; the first that the kernel has is taken.
const KINDS: [&str; 2] = ["veth", "dummy"];
const CALLED: &str = "scratch";

impl Tree {
    /// Builds it at an interface like `link`, in a network namespace of its own, and tells how it reads there.
    ///
    /// # Errors
    /// What the kernel says: it does not know a kind, or does not take its options.
    pub fn dry_run(&self, link: &Link) -> Result<Self, Error> {
        dry_run(self, link.present()?)
    }

    /// Whether it can be put back exactly: it reads the same in a dry run.
    ///
    /// # Errors
    /// Why not.
    pub fn restorable(&self, link: &Link) -> Result<(), Error> {
        let what = format!("disciplines of {link}");
        let foreign = "remove them yourself if they are not wanted: tc qdisc del dev";
        if self.filters > 0 {
            let why = format!(
                "{} filters direct packets in them, and could not be put back; {foreign} {link} root",
                self.filters
            );
            return Err(Error::network(what, why));
        }
        if self.default.is_some() {
            return Ok(());
        }
        let back = self.dry_run(link).map_err(|error| {
            Error::network(
                &what,
                format!("they cannot be put back ({error}); {foreign} {link} root"),
            )
        })?;
        if back == *self {
            return Ok(());
        }
        let why = format!("they would not be the same when put back; {foreign} {link} root");
        Err(Error::network(what, why))
    }
}

/// Builds `tree` at an interface with `like`'s MTU, queue and number of queues, and reads it there.
fn dry_run(tree: &Tree, like: Facts) -> Result<Tree, Error> {
    Namespace::new()?.within(|| {
        let link = make(&like)?;
        tree.put(&link)?;
        Tree::read(&link)?.ok_or_else(|| Error::network("a rehearsal", "its interface is gone"))
    })
}

fn make(like: &Facts) -> Result<Link, Error> {
    let mut session = Session::open()?;
    let mut made = session.execute(&[link::make(KINDS[0], CALLED, like)]);
    for kind in &KINDS[1..] {
        if made.is_err() {
            made = session.execute(&[link::make(kind, CALLED, like)]);
        }
    }
    made?;
    Link::find(CALLED)
}
