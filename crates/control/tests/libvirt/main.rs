//! Values that go through libvirt: with its test driver, and with a libvirtd of our own and a QEMU without KVM.
//!
//! What needs libvirt, root or QEMU says so and passes without, unless `CI` is set.

mod driver;
mod hangs;
mod ledger;
mod libvirtd;
mod policy;
mod real;

use lowtail_testkit::needs;
use std::time::Duration;

use lowtail_control::libvirt::{Connection, Domain, Key, Options};
// One at a time: those that hang are counted for the process.
use needs::turn as alone;
use needs::{has, skip};

/// What is missing for libvirt's library.
fn no_library() -> Option<&'static str> {
    let found = Connection::open(options("test:///default"));
    matches!(found, Err(lowtail_control::libvirt::Error::Library(_)))
        .then_some("no libvirt.so.0 here")
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
    value.unwrap_or_else(|| panic!("{text}: the VM is gone"))
}

/// Sets a value of a VM that is there.
fn write(connection: &Connection, domain: &Domain, text: &str, value: &str) {
    let there =
        connection.write(domain, key(text), value).unwrap_or_else(|error| panic!("{error}"));
    assert!(there, "{text}={value}: the VM is gone");
}
