//! Other programs that say what there is, if they are installed. What they print is not trusted: neither its length nor
//! that it ends.

use std::io::{ErrorKind, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;

/// Where they are. The path that somebody has set is not used.
const DIRECTORIES: [&str; 6] =
    ["/usr/sbin", "/sbin", "/usr/bin", "/bin", "/usr/local/sbin", "/usr/local/bin"];
/// They may take so long.
const TIME: Duration = Duration::from_secs(10);
/// And print so much: a host of Kubernetes with thousands of services has a tenth of it.
const BYTES_MAX: u64 = 64 << 20;
/// When it has failed, its last words are waited for no longer: a child of it may hold the pipe.
const COMPLAINT: Duration = Duration::from_millis(200);

/// What a program prints; `None` if it is not installed.
///
/// # Errors
/// That it does not run, takes too long, prints too much, or fails.
pub fn output(program: &str, arguments: &[&str]) -> Result<Option<String>, String> {
    match find(program) {
        Some(place) => {
            run(&place, arguments, TIME, BYTES_MAX).map_err(|why| format!("{program}: {why}"))
        }
        None => Ok(None),
    }
}

/// Where a program is installed.
pub fn find(program: &str) -> Option<PathBuf> {
    let mut places = DIRECTORIES.iter().map(|directory| Path::new(directory).join(program));
    places.find(|place| place.exists())
}

/// A program as it is to be started: no environment of the caller's, and nothing to read.
pub fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_clear().env("LC_ALL", "C").env("PATH", DIRECTORIES.join(":"));
    command.stdin(Stdio::null());
    command
}

fn run(
    program: &Path,
    arguments: &[&str],
    time: Duration,
    most: u64,
) -> Result<Option<String>, String> {
    let mut command = command(program);
    command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
    // Who is killed while a program of ours changes something leaves nothing behind that changes it later.
    ends_with_this_thread(&mut command, Signal::SIGKILL);
    let child = command.spawn();
    let mut child = match child {
        Ok(child) => child,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    let out = child.stdout.take().expect("it was asked for");
    let err = child.stderr.take().expect("it was asked for");
    let (done, told) = mpsc::channel();
    // It ends with the pipe, at the latest when whoever holds that is gone.
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let read = out.take(most + 1).read_to_end(&mut bytes).map(|_| bytes);
        let _ = done.send(read);
    });
    let (complained, complaint) = mpsc::channel();
    thread::spawn(move || {
        let _ = complained.send(last_line(err));
    });
    let read = told.recv_timeout(time);
    let whole = matches!(&read, Ok(Ok(bytes)) if bytes.len() as u64 <= most);
    if !whole {
        let _ = child.kill();
    }
    let status = child.wait().map_err(|error| error.to_string())?;
    match read {
        Err(_) => Err(format!("it takes more than {} s", time.as_secs_f32())),
        Ok(Err(error)) => Err(error.to_string()),
        Ok(Ok(_)) if !whole => Err(format!("it prints more than {most} bytes")),
        Ok(Ok(_)) if !status.success() => {
            let said = complaint.recv_timeout(COMPLAINT).unwrap_or_default();
            Err(format!("it fails: {status}{said}"))
        }
        Ok(Ok(bytes)) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
    }
}

/// Has a command get `signal` when the thread that starts it ends, as it does when its process is killed (`prctl(2)`).
#[allow(unsafe_code, reason = "a call between fork and exec")]
pub fn ends_with_this_thread(command: &mut Command, signal: Signal) {
    // SAFETY: a single system call, which is safe between fork and exec (signal-safety(7)).
    unsafe {
        command.pre_exec(move || set_pdeathsig(signal).map_err(Errno::into));
    }
}

/// The last line that it prints for people, and nothing that a terminal would obey. All is read, so that it does not block.
fn last_line(mut err: impl Read) -> String {
    let mut last = Vec::new();
    let mut piece = [0; 4096];
    while let Ok(bytes @ 1..) = err.read(&mut piece) {
        last.extend_from_slice(&piece[..bytes]);
        last.drain(..last.len().saturating_sub(piece.len()));
    }
    let text = String::from_utf8_lossy(&last);
    let line = text.lines().rev().map(str::trim).find(|line| !line.is_empty());
    line.map_or_else(String::new, |line| format!(": {}", lowtail_out::line(line)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, most: u64) -> Result<Option<String>, String> {
        run(Path::new("/bin/sh"), &["-c", script], Duration::from_millis(300), most)
    }

    #[test]
    fn what_does_not_end_is_ended() {
        assert_eq!(output("no-such-program", &[]), Ok(None));
        assert_eq!(shell("echo a", 10), Ok(Some("a\n".to_string())));
        let said =
            shell("echo no; echo; echo 'bad \\033[2J' >&2; exit 2", 10).expect_err("it fails");
        assert!(said.starts_with("it fails: exit status: 2: bad \\u{1b}"), "{said}");
        assert!(shell("exit 3", 10).expect_err("it fails").contains("exit status: 3"));
        assert!(shell("exec sleep 1000", 10).expect_err("too long").contains("more than 0.3 s"));
        assert!(shell("exec yes", 1000).expect_err("too much").contains("more than 1000 bytes"));
        // Its child holds the pipe.
        assert!(shell("sleep 3 & exec sleep 1000", 10).is_err());
    }
}
