//! Waiting for work on other threads, without the interpreter's lock, and for Ctrl-C meanwhile.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// How long Ctrl-C takes at most to be seen.
const LOOK: Duration = Duration::from_millis(50);

/// What the work says.
enum Said<T> {
    Progress(u64, u64),
    Done(T),
}

/// What the work has of who waits for it.
pub(crate) struct Line<T> {
    sender: Sender<Said<T>>,
    stop: Arc<AtomicBool>,
}

impl<T> Line<T> {
    /// Tells how far it is.
    pub(crate) fn progress(&self, done: u64, total: u64) {
        // Who waited may have gone.
        let _ = self.sender.send(Said::Progress(done, total));
    }

    /// Whether nobody waits any more.
    pub(crate) fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// Does `work` on a thread of its own and gives what came of it. `progress` is called with what is done and what there is in all. After Ctrl-C, and
/// if `progress` raises, nobody waits any more: the work is told, and ends by itself.
///
/// # Errors
/// What `progress` raises, and KeyboardInterrupt.
pub(crate) fn wait<T: Send + 'static>(
    py: Python<'_>,
    progress: Option<&Bound<'_, PyAny>>,
    work: impl FnOnce(&Line<T>) -> T + Send + 'static,
) -> PyResult<T> {
    let (sender, receiver) = mpsc::channel();
    let stop = Arc::new(AtomicBool::new(false));
    let line = Line { sender, stop: Arc::clone(&stop) };
    let doing = thread::Builder::new().name("lowtail".into()).spawn(move || {
        let done = work(&line);
        let _ = line.sender.send(Said::Done(done));
    });
    doing.map_err(|error| PyRuntimeError::new_err(format!("no thread: {error}")))?;
    // A receiver is one thread's at a time.
    let receiver = Mutex::new(receiver);
    let heard = || {
        let receiver = receiver.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        receiver.recv_timeout(LOOK)
    };
    let look = || -> PyResult<Option<T>> {
        match py.detach(heard) {
            Ok(Said::Done(done)) => return Ok(Some(done)),
            Ok(Said::Progress(done, total)) => {
                if let Some(progress) = progress {
                    progress.call1((done, total))?;
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return Err(PyRuntimeError::new_err("lowtail failed; this is a bug"));
            }
        }
        py.check_signals()?;
        Ok(None)
    };
    loop {
        match look() {
            Ok(None) => {}
            Ok(Some(done)) => return Ok(done),
            Err(error) => {
                stop.store(true, Ordering::Relaxed);
                return Err(error);
            }
        }
    }
}
