//! What a scenario may ask for.
//!
//! A file need not be the user's own: no number in it makes memory grow beyond what a computer has before the first event, and no
//! name is longer than what shows it can bear. Each limit is far beyond what is published here; docs/reference/scenario.md lists them.

use toml::de::DeValue;

use crate::error::SpanError;
use crate::tree::Node;

/// Longest name, in characters: that of a file on Linux (`NAME_MAX`).
pub(crate) const NAME_CHARS_MAX: usize = 255;
/// Longest text, in characters, but for `notes` and `source`; also longest key in `set`.
const TEXT_CHARS_MAX: usize = 1000;
/// Texts without a limit of their own.
const LONG: [&str; 2] = ["notes", "source"];

/// Most cases of a scenario.
pub(crate) const CASES_MAX: usize = 10_000;
/// Most variables of a case.
pub(crate) const VARIABLES_MAX: usize = 32;
/// Most keys on the way to a value in `set`.
pub(crate) const SET_KEYS_MAX: usize = 16;
/// Most VMs, vCPUs, hosts, ends and conversations of all cases together. Each takes 100 bytes to some kilobytes of what is
/// read, whether its case is run or not.
pub(crate) const PARTS_MAX: usize = 1 << 24;
/// Most vCPUs of all hosts of a network. Each has histograms of some ten kilobytes.
pub(crate) const NETWORK_VCPUS_MAX: usize = 1 << 14;
/// Most queues of Linux' scheduler on a host: one a control group and pCPU, each half a kilobyte.
pub(crate) const GROUP_QUEUES_MAX: usize = 1 << 20;
/// Most packets that may wait at a driver domain for all interfaces, each some 50 bytes.
pub(crate) const BACKLOG_PACKETS_MAX: usize = 1 << 22;
/// Most memory, in bytes, that the disciplines and rings of a network begin with.
pub(crate) const PORT_BYTES_MAX: u64 = 1 << 30;
/// Most sizes by which the messages of a traffic are measured, each with a histogram.
pub(crate) const BINS_MAX: usize = 64;

/// Refuses names and texts in the tree of a file that are too long.
pub(crate) fn check_texts(root: &Node<'_>) -> Result<(), SpanError> {
    check(root, "")
}

fn check(node: &Node<'_>, key: &str) -> Result<(), SpanError> {
    match node.get_ref() {
        DeValue::String(text) if !LONG.contains(&key) => {
            let fault = |message| SpanError::new(node.span(), message);
            too_long(text, TEXT_CHARS_MAX, "a text").map_or(Ok(()), |message| Err(fault(message)))
        }
        DeValue::Array(array) => array.iter().try_for_each(|node| check(node, key)),
        DeValue::Table(table) => table.iter().try_for_each(|(name, node)| {
            let most = if key == "set" { TEXT_CHARS_MAX } else { NAME_CHARS_MAX };
            if let Some(message) = too_long(name.get_ref(), most, "a name") {
                return Err(SpanError::new(name.span(), message));
            }
            check(node, name.get_ref())
        }),
        _ => Ok(()),
    }
}

/// What is wrong with the name of something, if it is too long.
pub(crate) fn long_name(name: &str) -> Option<String> {
    too_long(name, NAME_CHARS_MAX, "a name")
}

fn too_long(text: &str, most: usize, what: &str) -> Option<String> {
    // Bytes are quicker to count, and no fewer.
    let chars = if text.len() > most { text.chars().count() } else { 0 };
    (chars > most).then(|| format!("{what} of {chars} characters: at most {most}"))
}
