//! Any text whatever as a machine of libvirt's.
//!
//! `cargo +nightly fuzz run domain` in `crates/libvirt`; a good corpus to begin with is
//! `tests/data/`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use lowtail_libvirt::Domain;
use lowtail_libvirt::name::{scope, shown};

fuzz_target!(|text: &str| {
    match Domain::parse("fuzz.xml", text) {
        Ok(domain) => {
            assert!(!shown(&domain.name).contains(char::is_control));
            assert!(!scope(1, &domain.name).contains('/'));
            assert!(!domain.vcpus.is_empty());
        }
        Err(error) => assert!(error.line >= 1 && error.column >= 1),
    }
});
