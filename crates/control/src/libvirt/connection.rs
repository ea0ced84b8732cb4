//! A connection that does not hang when libvirtd does.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use super::session::Session;
use super::{Domain, Error, Key, Running, library, uri};

/// How long an answer is waited for, unless something else is said. Longer than a busy libvirtd takes, and shorter than
/// it waits itself for a VM that is busy with something else (30 s, `QEMU_JOB_WAIT_TIME` of `qemu_domainjob.c`).
const DEADLINE: Duration = Duration::from_secs(10);

/// Calls that may hang at one time. Each leaves a thread behind until libvirtd answers or ends; one that tries again
/// and again must not collect them. More than one, so that one libvirtd that hangs does not bar the way to another.
const HANGING_MAX: usize = 4;

/// Calls that hang.
static HANGING: AtomicUsize = AtomicUsize::new(0);

/// Where libvirt is, and how long it may take.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Options {
    /// libvirt's URI: <https://libvirt.org/uri.html>. `qemu:///system` unless something else is said.
    pub uri: String,
    /// Whether the URI may lead over a network. Control groups of this host are not those of another: for tools that
    /// only ask.
    pub network: bool,
    /// How long to wait for an answer; 10 s unless something else is said.
    pub deadline: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Options { uri: "qemu:///system".to_string(), network: false, deadline: DEADLINE }
    }
}

type Job = Box<dyn FnOnce(&Session) + Send>;

/// A connection to libvirt, in a thread of its own.
///
/// libvirt's calls wait as long as it takes. Here the one who asks waits until the deadline, in a thread that is not
/// libvirt's. After that this connection is given up: all further calls fail at once, and its thread ends when libvirt
/// comes back to it, or not before the process does. A value that was being written then may still come into force later.
pub struct Connection {
    options: Options,
    jobs: Sender<Job>,
    watch: Arc<Watch>,
}

impl Connection {
    /// Connects.
    ///
    /// # Errors
    /// If the library is not there, the URI leads away from this host, or nobody answers in time.
    pub fn open(options: Options) -> Result<Self, Error> {
        let odd = |why| Error::Uri { uri: options.uri.clone(), why };
        if !options.network {
            uri::local(&options.uri).map_err(odd)?;
        }
        library::load().map_err(Error::Library)?;
        let hanging = HANGING.load(Ordering::Relaxed);
        if hanging >= HANGING_MAX {
            return Err(Error::Stuck(hanging));
        }
        let watch = Arc::new(Watch::default());
        let (jobs, todo) = channel();
        let (opened, result) = channel();
        let (uri, end) = (options.uri.clone(), End(Arc::clone(&watch)));
        let spawned = thread::Builder::new().name("libvirt".to_string()).spawn(move || {
            let session = match Session::open(&uri) {
                Ok(session) => session,
                Err(error) => {
                    let _ = opened.send(Err(error));
                    return;
                }
            };
            // Nobody waits any more if it was given up.
            let _ = opened.send(Ok(()));
            work(&session, &todo, &end.0);
        });
        spawned.map_err(|error| Error::Open {
            uri: options.uri.clone(),
            why: format!("no thread: {error}"),
        })?;
        let connection = Connection { options, jobs, watch };
        connection.wait("connect", &result)??;
        Ok(connection)
    }

    /// The VMs that run.
    ///
    /// # Errors
    /// If libvirt refuses it or does not answer.
    pub fn running(&self) -> Result<Vec<Running>, Error> {
        self.ask("list VMs", Session::running)
    }

    /// A value of a VM; `None` if it has ended, or was started again.
    ///
    /// # Errors
    /// If the VM does not have it, or libvirt refuses it or does not answer.
    pub fn read(&self, domain: &Domain, key: Key) -> Result<Option<String>, Error> {
        let domain = domain.clone();
        self.ask(&format!("{domain}, read {key}"), move |session| session.read(&domain, key))
    }

    /// Sets a value of a VM while it runs, and looks whether it is so; `false` if the VM has ended, or was
    /// started again.
    ///
    /// # Errors
    /// If the VM does not have it, it is no value, or libvirt refuses it, does something else or does not answer.
    pub fn write(&self, domain: &Domain, key: Key, value: &str) -> Result<bool, Error> {
        let wanted = key.canonical(value).map_err(Error::Value)?;
        let domain = domain.clone();
        let what = format!("{domain}, set {key} to {wanted}");
        self.ask(&what, move |session| session.write(&domain, key, &wanted))
    }

    fn ask<T: Send + 'static>(
        &self,
        what: &str,
        job: impl FnOnce(&Session) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        if self.watch.given_up() {
            return Err(self.hung(what));
        }
        let (answer, answered) = channel();
        let job: Job = Box::new(move |session| {
            let _ = answer.send(job(session));
        });
        // If the thread has ended the channel to the answer is closed as well.
        let _ = self.jobs.send(job);
        self.wait(what, &answered)?
    }

    /// Waits for an answer. Who waits too long gives the connection up.
    fn wait<T>(&self, what: &str, answered: &Receiver<T>) -> Result<T, Error> {
        answered.recv_timeout(self.options.deadline).map_err(|_| {
            self.watch.give_up();
            self.hung(what)
        })
    }

    fn hung(&self, what: &str) -> Error {
        Error::Hangs {
            uri: self.options.uri.clone(),
            what: what.to_string(),
            after: self.options.deadline,
        }
    }
}

/// Does what it is told until nobody is left who could tell it something. What was still to do when the connection was
/// given up is not done: who wanted it has been told so.
fn work(session: &Session, todo: &Receiver<Job>, watch: &Watch) {
    for job in todo {
        if watch.given_up() {
            return;
        }
        job(session);
    }
}

/// What those who ask and the thread that answers know of each other.
#[derive(Default)]
struct Watch(Mutex<State>);

#[derive(Default)]
struct State {
    given_up: bool,
    ended: bool,
}

impl Watch {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn given_up(&self) -> bool {
        self.state().given_up
    }

    /// Counts the call among those that hang, unless it has come back in the meantime.
    fn give_up(&self) {
        let mut state = self.state();
        if !state.given_up && !state.ended {
            HANGING.fetch_add(1, Ordering::Relaxed);
        }
        state.given_up = true;
    }
}

/// The end of the thread, however it comes.
struct End(Arc<Watch>);

impl Drop for End {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.ended = true;
        if state.given_up {
            HANGING.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
