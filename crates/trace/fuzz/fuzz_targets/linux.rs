//! Any bytes whatever behind the heads of Linux hosts' recordings: our own, and perf's out of a pipe.
//!
//! `cargo +nightly fuzz run linux` in `crates/trace`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use lowtail_trace::{Options, export_perfetto, info, latency};

fuzz_target!(|bytes: &[u8]| {
    for head in [&b"LTRC\x01\0\0\0"[..], b"PERFILE2\x10\0\0\0\0\0\0\0"] {
        let file = [head, bytes].concat();
        let options = Options::default();
        let latency = latency(&file[..], &options);
        let export = export_perfetto(&file[..], std::io::sink(), "fuzz", &options);
        assert_eq!(latency.is_ok(), export.is_ok());
        if let Ok(latency) = &latency {
            assert!(!latency.table().is_empty());
        }
        if let Ok(info) = info(&file[..], &options) {
            assert!(!info.table().is_empty());
        }
    }
});
