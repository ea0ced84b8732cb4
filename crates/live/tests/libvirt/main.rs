//! Values that go through libvirt: with its test driver, and with a libvirtd of our own and a QEMU without KVM.
//!
//! What needs libvirt, root or QEMU says so and passes without, unless `CI` is set.

mod driver;
mod hangs;
mod ledger;
mod libvirtd;
mod policy;
mod real;

use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lowtail_live::libvirt::{Connection, Domain, Key, Options};

/// One at a time: those that hang are counted for the process.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether something may be skipped; if so it says why.
fn skip(missing: Option<&str>) -> bool {
    let Some(missing) = missing else { return false };
    assert!(std::env::var_os("CI").is_none(), "{missing}, but in CI nothing may be skipped");
    eprintln!("skipped: {missing}");
    true
}

/// Whether the program is there.
fn has(program: &str) -> bool {
    let mut command = Command::new(program);
    let command = command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// What is missing for libvirt's library.
fn no_library() -> Option<&'static str> {
    let found = Connection::open(options("test:///default"));
    matches!(found, Err(lowtail_live::libvirt::Error::Library(_))).then_some("no libvirt.so.0 here")
}

fn options(uri: &str) -> Options {
    Options { uri: uri.to_string(), deadline: Duration::from_secs(20), ..Options::default() }
}

fn key(text: &str) -> Key {
    text.parse().unwrap_or_else(|error: String| panic!("{error}"))
}

/// A value that is there.
fn read(connection: &Connection, domain: &Domain, text: &str) -> String {
    let value = connection.read(domain, key(text)).unwrap_or_else(|error| panic!("{error}"));
    value.unwrap_or_else(|| panic!("{text}: the machine is gone"))
}

/// Sets a value of a machine that is there.
fn write(connection: &Connection, domain: &Domain, text: &str, value: &str) {
    let there =
        connection.write(domain, key(text), value).unwrap_or_else(|error| panic!("{error}"));
    assert!(there, "{text}={value}: the machine is gone");
}
