//! iproute2 and values below `/proc/sys`, in a network namespace.

use std::fs;
use std::io::{ErrorKind, Write};
use std::process::{Command, Stdio};

use lowtail_kernel::Error;
use lowtail_kernel::netns::Namespace;

/// A new namespace without IPv6, which would send by itself.
pub(super) fn namespace() -> Result<Namespace, Error> {
    let namespace = Namespace::new()?;
    for of in ["all", "default"] {
        // A kernel without IPv6 has no such file.
        let _ = set(&namespace, &format!("net/ipv6/conf/{of}/disable_ipv6"), "1");
    }
    batch(&namespace, "ip", &["link set lo up".to_string()])?;
    Ok(namespace)
}

/// Sets a value below `/proc/sys`.
pub(super) fn set(namespace: &Namespace, file: &str, value: &str) -> Result<(), Error> {
    let path = format!("/proc/sys/{file}");
    namespace.within(|| {
        fs::write(&path, value).map_err(|error| Error::network(format!("{path} = {value}"), error))
    })
}

/// Runs `program` of iproute2 on all `lines`.
pub(super) fn batch(namespace: &Namespace, program: &str, lines: &[String]) -> Result<(), Error> {
    output(namespace, program, &["-batch", "-"], &lines.join("\n")).map(|_| ())
}

/// What `program` of iproute2 prints when it reads `input`.
pub(super) fn output(
    namespace: &Namespace,
    program: &str,
    words: &[&str],
    input: &str,
) -> Result<String, Error> {
    let failed = |why: String| Error::network(format!("{program} {}", words.join(" ")), why);
    let run = || {
        let mut command = Command::new(program);
        command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| match error.kind() {
            ErrorKind::NotFound => failed("it is not there; install iproute2".into()),
            _ => failed(error.to_string()),
        })?;
        if let Some(mut stdin) = child.stdin.take() {
            // It says what was wrong when it ends before it has read all.
            let _ = stdin.write_all(input.as_bytes());
        }
        let output = child.wait_with_output().map_err(|error| failed(error.to_string()))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(failed(format!("{}; it was told:\n{input}", said.trim())));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    };
    namespace.within(run)
}
