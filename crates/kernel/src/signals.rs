//! Signals that ask for an end.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use signal_hook::SigId;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};

/// A file that grows beyond `RLIMIT_FSIZE` is an error from now on (`EFBIG`) and no longer a signal that ends the process: what was
/// begun is removed, and somebody is told.
///
/// # Errors
/// If the kernel refuses a handler.
pub fn keep_despite_file_limit() -> io::Result<()> {
    let seen = Arc::new(AtomicUsize::new(0));
    signal_hook::flag::register_usize(SIGXFSZ, seen, SIGXFSZ as usize).map(|_| ())
}

/// While it lives, SIGINT, SIGTERM and SIGHUP are noted instead of ending the process.
#[derive(Debug)]
pub struct Signals {
    caught: Arc<AtomicUsize>,
    ids: Vec<SigId>,
}

impl Signals {
    /// From now on.
    ///
    /// # Errors
    /// If the kernel refuses a handler.
    pub fn new() -> io::Result<Self> {
        let caught = Arc::new(AtomicUsize::new(0));
        let mut signals = Signals { caught, ids: Vec::new() };
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            let caught = Arc::clone(&signals.caught);
            let id = signal_hook::flag::register_usize(signal, caught, signal as usize)?;
            signals.ids.push(id);
        }
        Ok(signals)
    }

    /// The last one that came.
    pub fn caught(&self) -> Option<i32> {
        match self.caught.load(Ordering::Relaxed) {
            0 => None,
            signal => Some(signal as i32),
        }
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        for id in self.ids.drain(..) {
            signal_hook::low_level::unregister(id);
        }
    }
}

/// From now on the process ends as soon as its terminal is gone (SIGHUP), whatever it does: there is nobody to look at it, and
/// whoever reads a terminal that is gone may read for ever.
///
/// # Errors
/// If the kernel refuses a handler.
pub fn end_with_the_terminal() -> io::Result<()> {
    let always = Arc::new(AtomicBool::new(true));
    signal_hook::flag::register_conditional_default(SIGHUP, always).map(|_| ())
}

/// Ends the process as `signal` would have done without a handler, so that whoever waits for
/// it sees that.
pub fn die_of(signal: i32) {
    // Only for signals that cannot be: those noted here all end a process.
    let _ = signal_hook::low_level::emulate_default_handler(signal);
}
