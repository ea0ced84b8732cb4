//! `xl`, as readers and writers of single values run it.

use std::cell::RefCell;
use std::rc::Rc;

use lowtail_kernel::tool;

use crate::error::Error;

/// Runs `xl` with arguments: what it prints, or `None` if it is not installed.
pub(crate) type Run = dyn Fn(&[&str]) -> Result<Option<String>, String>;

thread_local! {
    static INSTEAD: RefCell<Option<Rc<Run>>> = const { RefCell::new(None) };
}

/// Has this thread ask `run` in place of `xl`.
#[cfg(feature = "fake")]
pub(crate) fn ask_instead(run: Rc<Run>) {
    INSTEAD.with_borrow_mut(|instead| *instead = Some(run));
}

/// The same as [`run`], for those that have words of their own for what fails.
pub(crate) fn output(arguments: &[&str]) -> Result<Option<String>, String> {
    match INSTEAD.with_borrow(Clone::clone) {
        Some(instead) => instead(arguments),
        None => tool::output("xl", arguments),
    }
}

/// What `xl` prints.
///
/// # Errors
/// That it is not installed, refuses, or takes too long.
pub(crate) fn run(arguments: &[&str]) -> Result<String, Error> {
    told(&output, arguments)
}

/// What it prints that `run` runs in its place.
///
/// # Errors
/// As [`run`].
pub(crate) fn told(run: &Run, arguments: &[&str]) -> Result<String, Error> {
    match run(arguments) {
        Ok(Some(text)) => Ok(text),
        Ok(None) => Err(Error::NotInstalled { program: "xl" }),
        Err(says) => Err(Error::Command { command: format!("xl {}", arguments.join(" ")), says }),
    }
}
