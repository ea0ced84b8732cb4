//! Independent pieces of work on several threads.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

/// How far a run has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Cases done.
    pub done: usize,
    /// Cases in all.
    pub total: usize,
}

/// Does pieces 0 to `total` of a work, `jobs` at the same time (0 counts as 1), and returns
/// their results, in order. `progress` is called on the calling thread, once before the
/// first and after each.
///
/// # Errors
/// The number and the words of the first piece that panicked.
pub fn run<T: Send>(
    total: usize,
    jobs: usize,
    progress: &dyn Fn(Progress),
    piece: impl Fn(usize) -> T + Sync,
) -> Result<Vec<T>, (usize, String)> {
    let mut results: Vec<Option<T>> = (0..total).map(|_| None).collect();
    progress(Progress { done: 0, total });
    let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    let mut failure: Option<(usize, String)> = None;
    let (sender, receiver) = mpsc::channel();
    let work = |sender: mpsc::Sender<(usize, Result<T, String>)>| {
        while !stop.load(Ordering::Relaxed) {
            let i = next.fetch_add(1, Ordering::Relaxed);
            if i >= total {
                break;
            }
            let result = catch_unwind(AssertUnwindSafe(|| piece(i)));
            if sender.send((i, result.map_err(|panic| panic_text(&*panic)))).is_err() {
                break;
            }
        }
    };
    thread::scope(|scope| {
        let mut threads = 0;
        for _ in 0..jobs.clamp(1, total.max(1)) {
            let (sender, work) = (sender.clone(), &work);
            // Where there is no room for more threads, those that there are do all of it.
            if thread::Builder::new().spawn_scoped(scope, move || work(sender)).is_err() {
                break;
            }
            threads += 1;
        }
        if threads == 0 {
            work(sender);
        } else {
            drop(sender);
        }
        for (done, (i, result)) in receiver.iter().enumerate() {
            match result {
                Ok(result) => results[i] = Some(result),
                Err(message) => {
                    stop.store(true, Ordering::Relaxed);
                    // The first one that fails, whichever thread was faster.
                    if failure.as_ref().is_none_or(|(first, _)| i < *first) {
                        failure = Some((i, message));
                    }
                }
            }
            progress(Progress { done: done + 1, total });
        }
    });
    failure.map_or_else(|| Ok(results.into_iter().flatten().collect()), Err)
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("no message").to_string()
}
