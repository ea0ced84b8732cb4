//! What the threads do: the workloads of the simulator, for real.

use std::hint::black_box;
use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};

use lowtail_engine::{Distribution, Duration, Hist, Rng};
use lowtail_xen::OwnVcpu;

use crate::plan::Task;
use crate::spin::Spin;
use lowtail_kernel::clock::{Instant, own_cpu};

/// Work of the loop between two looks at a clock.
const LOOK: Duration = Duration::from_us(10);
/// The longest sleep without a look whether the run has ended.
const NAP: Duration = Duration::from_ms(100);

/// When a run begins, is measured, and ends.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Window {
    /// When all threads start.
    pub(crate) start: Instant,
    /// From when on what is woken counts.
    pub(crate) from: Instant,
    /// Until when.
    pub(crate) to: Instant,
    /// When a thread stops that nobody has stopped: whoever would have may not get a CPU.
    pub(crate) last: Instant,
}

/// Whether a socket has had nothing for as long as it waits.
pub(crate) fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// One thread at work.
#[derive(Debug)]
pub(crate) struct Work<'a> {
    pub(crate) window: Window,
    /// Set when all is over.
    pub(crate) stop: &'a AtomicBool,
    /// The thread's number in its VM.
    pub(crate) vcpu: usize,
    /// Random draws of its VM, none of which is drawn yet.
    pub(crate) guest: Rng,
    /// Random draws of this thread.
    pub(crate) rng: Rng,
    /// What computing takes here.
    pub(crate) spin: Spin,
    /// What it needs for that.
    pub(crate) means: &'a Means,
}

/// What a task needs that is opened before it starts.
#[derive(Debug)]
pub(crate) enum Means {
    /// Nothing; who yields is the thread.
    None,
    /// Who yields is the vCPU.
    Vcpu(OwnVcpu),
    /// Where requests come.
    Socket(UdpSocket),
}

impl Means {
    /// What a guest of Xen needs for `task`.
    ///
    /// # Errors
    /// Why it cannot be had.
    pub(crate) fn of_guest(task: Task) -> Result<Self, String> {
        match task {
            Task::Yield { .. } => {
                OwnVcpu::open().map(Means::Vcpu).map_err(|error| error.to_string())
            }
            Task::Serve { .. } => {
                let open = || {
                    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, PORT))?;
                    socket.set_read_timeout(Some(NO_REQUEST))?;
                    Ok::<_, io::Error>(socket)
                };
                open().map(Means::Socket).map_err(|error| format!("UDP port {PORT}: {error}"))
            }
            Task::Loop | Task::Hog { .. } | Task::Sleeper { .. } => Ok(Means::None),
        }
    }
}

/// Port on which servers answer.
pub(crate) const PORT: u16 = 7000;
/// The longest a server waits for a request without a look whether the run has ended; so long that its timer hardly ever fires
/// while requests come.
const NO_REQUEST: std::time::Duration = std::time::Duration::from_millis(500);

impl Work<'_> {
    /// Does `task` until the end; gives how late its wake-ups were, if it is about that.
    ///
    /// # Errors
    /// Why it cannot yield or listen.
    pub(crate) fn run(&mut self, task: Task) -> Result<Option<Hist>, String> {
        Ok(match task {
            Task::Loop => {
                while !self.over() {
                    self.compute(LOOK);
                }
                None
            }
            Task::Hog { burst, sleep, start } => {
                // The same first sleep as in the simulator, for the same reason.
                let rng = if self.vcpu == 0 { &mut self.rng } else { &mut self.guest };
                let period = sleep.mean() + burst.mean();
                let start = start.unwrap_or(Distribution::Uniform(Duration::ZERO, period));
                let mut first = Duration::ZERO;
                for _ in 0..=self.vcpu {
                    first = start.draw(rng);
                }
                self.sleep(Instant::now().after(first));
                while !self.over() {
                    let burst = burst.draw(&mut self.rng);
                    self.compute(burst);
                    let sleep = sleep.draw(&mut self.rng);
                    self.sleep(Instant::now().after(sleep));
                }
                None
            }
            Task::Sleeper { start, sleep, work, wake_work, long } => {
                let mut lateness = Hist::new();
                let start = start.draw(&mut self.rng);
                if !start.is_zero() {
                    self.sleep(self.window.start.after(start));
                }
                let bookkeeping = self.bookkeeping(sleep);
                let mut wakeups = 0_u64;
                while !self.over() {
                    wakeups += 1;
                    let work = match long {
                        Some((every, long)) if wakeups.is_multiple_of(every.into()) => long,
                        _ => work,
                    };
                    self.compute(work.saturating_sub(bookkeeping));
                    let due = Instant::now().after(sleep.draw(&mut self.rng));
                    self.sleep(due);
                    self.compute(wake_work);
                    self.note(due, &mut lateness);
                }
                Some(lateness)
            }
            Task::Yield { work } => {
                while !self.over() {
                    self.compute(work);
                    match self.means {
                        Means::Vcpu(vcpu) => vcpu.yields().map_err(|error| error.to_string())?,
                        _ => std::thread::yield_now(),
                    }
                }
                None
            }
            Task::Serve { service, after_reply } => {
                let Means::Socket(socket) = self.means else {
                    return Err("no socket to answer requests".into());
                };
                self.serve(socket, service, after_reply).map_err(|error| error.to_string())?;
                None
            }
        })
    }

    /// Answers requests, each with its own bytes.
    fn serve(
        &mut self,
        socket: &UdpSocket,
        service: Distribution,
        after_reply: Distribution,
    ) -> io::Result<()> {
        let mut request = [0; 64];
        while !self.over() {
            let (length, client) = match socket.recv_from(&mut request) {
                Ok(received) => received,
                Err(error) if is_timeout(&error) => continue,
                Err(error) => return Err(error),
            };
            let work = service.draw(&mut self.rng);
            self.compute(work);
            socket.send_to(&request[..length], client)?;
            let work = after_reply.draw(&mut self.rng);
            self.compute(work);
        }
        Ok(())
    }

    /// Notes how late the wake-up of `due` is, if it is measured.
    fn note(&self, due: Instant, lateness: &mut Hist) {
        let woken = Instant::now();
        if due >= self.window.from && due < self.window.to && woken >= due {
            lateness.record(woken.since(due));
        }
    }

    /// CPU time of what a sleeper does for each wake-up besides its work: it is a part of that.
    fn bookkeeping(&self, sleep: Distribution) -> Duration {
        let (mut rng, mut lateness) = (self.rng.clone(), Hist::new());
        let mut all = |times: u64| {
            let before = own_cpu();
            for _ in 0..times {
                let due = Instant::now().after(sleep.draw(&mut rng));
                black_box(due.min(Instant::now().after(NAP)));
                self.note(self.window.from, &mut lateness);
                black_box(self.over());
            }
            own_cpu().saturating_sub(before) / times
        };
        // First what is touched for the first time.
        all(10);
        all(100)
    }

    fn over(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || Instant::now() >= self.window.last
    }

    fn compute(&self, work: Duration) {
        if work.is_zero() {
            return;
        }
        self.spin.compute(work, || self.over());
    }

    fn sleep(&self, due: Instant) {
        loop {
            let nap = Instant::now().after(NAP);
            due.min(nap).sleep();
            if due <= nap || self.over() {
                return;
            }
        }
    }
}
