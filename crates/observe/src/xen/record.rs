//! What Xen's schedulers do, written into a file.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use lowtail_trace::{Info, Options};
use lowtail_xen::{Error, Xentrace};

use crate::record::Failure;

/// From one look at whether to stop to the next.
const LOOK: Duration = Duration::from_millis(100);
/// A pipe's worth.
const PIECE_BYTES: usize = 64 << 10;
/// A recording is no larger: a record takes some 20 bytes, and a busy pCPU makes 100,000 a second.
const BYTES_MAX: u64 = 4 << 30;

/// What has been recorded.
#[derive(Clone, Debug, PartialEq)]
pub struct XenSummary {
    /// What is in the file.
    pub info: Info,
    /// Its size.
    pub bytes: u64,
    /// It ended because of its size.
    pub is_full: bool,
}

/// Records until `stop` says so, which is told how long it has been, and gives `output` back. Xen's trace is then off again.
///
/// # Errors
/// If `xentrace` does not run here, or writing fails.
pub fn record<W: Write>(
    mut output: W,
    buffer_bytes: u64,
    mut stop: impl FnMut(Duration) -> bool,
) -> Result<(XenSummary, W), Failure> {
    let host = |error: Error| xen(error.to_string());
    let mut trace = Xentrace::start(buffer_bytes).map_err(host)?;
    // What it is that is written is told by the reader, which reads along.
    let (read_along, mut along) = io::pipe().map_err(Failure::Write)?;
    let reader = std::thread::spawn(move || lowtail_trace::info(read_along, &Options::default()));
    let (from, mut bytes) = (Instant::now(), 0);
    let mut piece = vec![0; PIECE_BYTES];
    let (mut stopped, mut is_full) = (false, false);
    loop {
        if !stopped && (stop(from.elapsed()) || bytes >= BYTES_MAX) {
            (stopped, is_full) = (true, bytes >= BYTES_MAX);
            trace.stop();
        }
        match trace.read_within(&mut piece, LOOK).map_err(Failure::Write)? {
            None => {}
            Some(0) => break,
            Some(count) => {
                output.write_all(&piece[..count]).map_err(Failure::Write)?;
                bytes += count as u64;
                // A reader that has found it wrong has said so by its end.
                let _ = along.write_all(&piece[..count]);
            }
        }
    }
    drop(along);
    trace.finish().map_err(host)?;
    let info = reader.join().map_err(|_| xen("its reader failed".to_string()))?;
    let info = info.map_err(|error| xen(format!("xentrace: {error}")))?;
    Ok((XenSummary { info, bytes, is_full }, output))
}

fn xen(says: String) -> Failure {
    Failure::Host(lowtail_kernel::Error::Xen(says))
}
