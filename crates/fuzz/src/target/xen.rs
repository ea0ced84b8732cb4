//! What Xen's toolstack prints.

use crate::reader::{Most, Target};

/// A domain of a list takes some times the room of its shortest text.
const MOST: Most = Most { held: (1 << 20, 1 << 10), taken: (8 << 20, 16 << 10) };

pub(super) const XL: Target = Target {
    name: "xl",
    read: lowtail_xen::fuzz::xl,
    bytes_max: 4096,
    most: MOST,
    words: &[
        "Domain-0",
        "Cpupool Pool-0: ",
        "ratelimit=1000us",
        "xen_version",
        "\"domid\":",
        "all / all",
        "web",
    ],
};
