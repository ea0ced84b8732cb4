//! A network namespace to try things out in. It is gone when its thread ends, with all that is in it.

use std::thread;

use nix::sched::{CloneFlags, unshare};

use super::link::{self, Facts, Link};
use super::netlink::Session;
use super::tree::Tree;
use crate::Error;

/// Kinds of interfaces that need no device; the first that the kernel has is taken.
const KINDS: [&str; 2] = ["veth", "dummy"];
const CALLED: &str = "scratch";

/// Builds `tree` at an interface with `like`'s MTU, queue and number of queues, and reads it there.
pub(super) fn rehearse(tree: &Tree, like: Facts) -> Result<Tree, Error> {
    let tree = tree.clone();
    let rehearsal = move || {
        let failed = |error| Error::network("cannot make a network namespace to try in", error);
        unshare(CloneFlags::CLONE_NEWNET).map_err(failed)?;
        let link = make(&like)?;
        tree.put(&link)?;
        Tree::read(&link)?.ok_or_else(|| Error::network("a rehearsal", "its interface is gone"))
    };
    let spawned = thread::Builder::new().spawn(rehearsal);
    let thread = spawned.map_err(|error| Error::network("cannot start a thread", error))?;
    thread.join().unwrap_or_else(|_| Err(Error::network("a rehearsal", "it has panicked")))
}

fn make(like: &Facts) -> Result<Link, Error> {
    let mut session = Session::open()?;
    let mut made = session.order(&[link::make(KINDS[0], CALLED, like)]);
    for kind in &KINDS[1..] {
        if made.is_err() {
            made = session.order(&[link::make(kind, CALLED, like)]);
        }
    }
    made?;
    Link::find(CALLED)
}
