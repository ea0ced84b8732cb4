//! What holds of the kernel's answers to the doctor.

use super::qdisc;

/// Any bytes as a datagram of rtnetlink's: no more disciplines than there is room for.
pub fn qdiscs(bytes: &[u8]) {
    let mut found = Vec::new();
    let _ = qdisc::parse(bytes, &mut found);
    assert!(16 * found.len() <= bytes.len());
}
