//! Any bytes whatever through everything that reads traces.
//!
//! `cargo +nightly fuzz run trace` in `crates/trace`; a good corpus to begin with is `data/`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use lowtail_trace::{Options, export_perfetto, info, latency};

fuzz_target!(|bytes: &[u8]| {
    let options = Options::default();
    let info = info(bytes, &options);
    let latency = latency(bytes, &options);
    let export = export_perfetto(bytes, std::io::sink(), "fuzz", &options);
    if let Ok(info) = &info {
        assert!(!info.table().is_empty());
    }
    if let Ok(latency) = &latency {
        assert!(!latency.table().is_empty());
    }
    // What one of them takes for a trace, the others do too.
    assert_eq!(latency.is_ok(), export.is_ok());
});
