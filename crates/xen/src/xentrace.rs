//! Xen's trace records, taken by `xentrace` as a child of this process.

use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use lowtail_kernel::{file, tool};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::error::Error;

const PROGRAM: &str = "xentrace";
/// All events of the class `TRC_SCHED` (`xen/include/public/trace.h`).
const SCHEDULER_EVENTS: &str = "0x0002f000";
/// Programs that take the same records, by what the kernel keeps of their names.
const TAKERS: [&str; 3] = ["xentrace", "xenbaked", "xenmon"];
/// A page of the trace buffers.
const PAGE_BYTES: u64 = 4096;
/// Room for what it writes at once, ten times a second. Where it waits for room while it is told to end, its write ends half way, and it fails with
/// Xen's trace left on. As much as any user may have (`/proc/sys/fs/pipe-max-size`, pipe(7)).
const PIPE_BYTES: i32 = 1 << 20;
/// After it is told to end, it looks at the buffers once more; then it is killed.
const END: Duration = Duration::from_secs(5);

/// A running `xentrace`. It reads as what `xentrace` would write into a file.
///
/// When it ends, Xen records no longer: `xentrace` turns its trace off on its way out. It ends when this is dropped, and when this process is
/// killed. The trace buffers stay allocated until the next boot of Xen, as after each `xentrace`.
#[derive(Debug)]
pub struct Xentrace {
    child: Child,
    out: ChildStdout,
    ended: bool,
}

impl Xentrace {
    /// Starts it with buffers of about so many bytes for each pCPU. What was in the buffers before is thrown away. Buffers that an earlier one
    /// has made are kept as they are.
    ///
    /// # Errors
    /// If it is not installed, or another process takes the records already.
    pub fn start(buffer_bytes: u64) -> Result<Self, Error> {
        let program = tool::find(PROGRAM).ok_or(Error::NotInstalled { program: PROGRAM })?;
        if let Some((pid, program)) = taker() {
            return Err(Error::TraceInUse { pid, program });
        }
        let failed = |says: io::Error| Error::Command {
            command: PROGRAM.to_string(),
            says: says.to_string(),
        };
        let pages = buffer_bytes.div_ceil(PAGE_BYTES).max(1).to_string();
        let mut command = tool::command(&program);
        command.args(["-D", "-e", SCHEDULER_EVENTS, "-S", &pages]);
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        // Ctrl-C at a terminal is for this process, which ends it.
        command.process_group(0);
        tool::ends_with_this_thread(&mut command, Signal::SIGTERM);
        let mut child = command.spawn().map_err(failed)?;
        let out = child.stdout.take().expect("it was asked for");
        // A pipe of the usual size is enough for a quiet host.
        let _ = fcntl(&out, FcntlArg::F_SETPIPE_SZ(PIPE_BYTES));
        Ok(Xentrace { child, out, ended: false })
    }

    /// Has it end. What it has taken until then can still be read.
    pub fn stop(&self) {
        // It may have ended by itself.
        let _ = kill(Pid::from_raw(self.child.id() as i32), Signal::SIGTERM);
    }

    /// Waits for its end; to be called once all is read.
    ///
    /// # Errors
    /// If it failed: not dom0, not root, or no memory for buffers.
    pub fn finish(mut self) -> Result<(), Error> {
        self.stop();
        let status = self.wait();
        let failed = |says: String| {
            Err(Error::Command {
                command: PROGRAM.to_string(),
                says: format!("{says}; this needs root in dom0"),
            })
        };
        match status {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => failed(format!("it ended with {status}")),
            Err(error) => failed(error.to_string()),
        }
    }

    fn wait(&mut self) -> io::Result<std::process::ExitStatus> {
        let from = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait()? {
                self.ended = true;
                return Ok(status);
            }
            if from.elapsed() > END {
                self.child.kill()?;
            }
            thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Xentrace {
    /// The next bytes, waiting for them for so long at most. `None` if there are none yet; 0 at its end.
    ///
    /// # Errors
    /// What the pipe says.
    pub fn read_within(&mut self, bytes: &mut [u8], limit: Duration) -> io::Result<Option<usize>> {
        let limit = PollTimeout::try_from(limit).unwrap_or(PollTimeout::MAX);
        let ready = poll(&mut [PollFd::new(self.out.as_fd(), PollFlags::POLLIN)], limit);
        match ready {
            Ok(0) | Err(Errno::EINTR) => Ok(None),
            Ok(_) => self.out.read(bytes).map(Some),
            Err(error) => Err(error.into()),
        }
    }
}

impl Drop for Xentrace {
    fn drop(&mut self) {
        if !self.ended {
            self.stop();
            let _ = self.wait();
        }
    }
}

/// A process that takes the records.
fn taker() -> Option<(u32, String)> {
    let proc = Path::new("/proc");
    file::numbers(proc).unwrap_or_default().into_iter().find_map(|pid| {
        let comm = file::text(&proc.join(format!("{pid}/comm")), 64).ok()?;
        TAKERS.contains(&comm.trim()).then(|| (pid, comm.trim().to_string()))
    })
}
