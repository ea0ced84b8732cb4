//! A process that has opened a tap, as VMs have.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::needs::skip;
use crate::net::Namespace;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/tap.py");

/// The process. It ends when this is dropped.
pub struct TapProcess {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl TapProcess {
    /// Opens a tap of `host`, which is there, and sends so many frames from 10.77.0.3 to 10.77.0.9. `None` if there is no
    /// python3, or it cannot; in CI that is an error.
    pub fn start(host: &Namespace, name: &str, frames: usize) -> Option<TapProcess> {
        let mut command = Command::new("nsenter");
        let within = format!("--net={}", host.path());
        command.args([&within, "python3", SCRIPT, name, &frames.to_string()]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("nsenter is there");
        let (input, output) = (child.stdin.take(), child.stdout.take().expect("it has one"));
        let mut tap = TapProcess { child, input, output: BufReader::new(output) };
        let none = tap.line().is_empty();
        (!skip(none.then_some("no python3, or it cannot open the tap"))).then_some(tap)
    }

    /// Takes so many frames, one in each period, from now on; waits until they have come.
    pub fn take(&mut self, frames: usize, period_us: u64) {
        let input = self.input.as_mut().expect("it is open");
        writeln!(input, "{frames} {period_us}").expect("it reads");
        assert_eq!(self.line(), "read\n");
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("it prints");
        line
    }
}

impl Drop for TapProcess {
    fn drop(&mut self) {
        // It ends with its input.
        drop(self.input.take());
        let _ = self.child.wait();
    }
}
