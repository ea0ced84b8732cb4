//! The export, read with the official schema.
//!
//! Needs a Python that has the package `perfetto`; name it in `LOWTAIL_PERFETTO_PYTHON`:
//!
//! ```sh
//! python3 -m venv /tmp/perfetto && /tmp/perfetto/bin/pip install perfetto==0.59.1
//! LOWTAIL_PERFETTO_PYTHON=/tmp/perfetto/bin/python \
//!     cargo test -p lowtail-trace --test perfetto -- --nocapture
//! ```

use std::path::Path;
use std::process::Command;

use lowtail_trace::{CpuHzSource, Options, export_perfetto, export_perfetto_file};

const CAPTURE: &str = "data/credit2-4.20-ratelimit1000.bin";

#[test]
fn decodes_with_the_official_schema() {
    let Some(python) = std::env::var_os("LOWTAIL_PERFETTO_PYTHON") else {
        println!("skipped: LOWTAIL_PERFETTO_PYTHON names no Python with the package perfetto");
        return;
    };
    let output = std::env::temp_dir().join(format!("lowtail-{}.pftrace", std::process::id()));
    let exported =
        export_perfetto_file(Path::new(CAPTURE), &output, "capture", &Options::default()).unwrap();
    assert_eq!(exported.cpu_hz_source, CpuHzSource::Measured);
    let result =
        Command::new(python).arg("tests/perfetto_schema.py").arg(&output).output().unwrap();
    std::fs::remove_file(&output).unwrap();
    let (out, err) = (result.stdout, result.stderr);
    println!("{}{}", String::from_utf8_lossy(&out), String::from_utf8_lossy(&err));
    assert!(result.status.success());
}

#[test]
fn the_same_input_gives_the_same_bytes() {
    let bytes = std::fs::read(CAPTURE).unwrap();
    let export =
        || export_perfetto(&bytes[..], Vec::new(), "capture", &Options::default()).unwrap().1;
    assert_eq!(export(), export());
}

#[test]
fn a_failed_export_leaves_nothing_behind() {
    let dir = std::env::temp_dir().join(format!("lowtail-export-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let (cut, output) = (dir.join("cut.bin"), dir.join("out.pftrace"));
    let bytes = std::fs::read(CAPTURE).unwrap();
    std::fs::write(&cut, &bytes[..bytes.len() - 5]).unwrap();
    std::fs::write(&output, "what was there before").unwrap();
    for cpu_hz in [None, Some(1_000_000_000)] {
        let options = Options { cpu_hz, ..Options::default() };
        let error = export_perfetto_file(&cut, &output, "cut", &options).unwrap_err();
        assert_eq!(error.offset(), Some(bytes.len() as u64 - 5));
        assert_eq!(std::fs::read(&output).unwrap(), b"what was there before");
        assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 2);
    }
    std::fs::remove_dir_all(&dir).unwrap();
}
