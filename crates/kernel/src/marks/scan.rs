//! One look at all who use marks.

use super::survey::Survey;
use super::{iptables, kernel, nft};

/// The bits that Cilium goes by in its BPF programs, which say so nowhere: 0x0f00 for what a packet is, and the upper half
/// for the identity of its source (`pkg/datapath/linux/linux_defaults/mark.go` and its documentation of reserved marks).
const CILIUM_BITS: u32 = 0xffff_0f00;

/// Looks at everything now.
pub(super) fn look() -> Survey {
    let mut survey = Survey::default();
    kernel::rules(&mut survey);
    kernel::filters(&mut survey);
    nft::read(&mut survey);
    iptables::read(&mut survey);
    if survey.uses.iter().any(|own| own.who.starts_with("Cilium")) {
        survey.add("Cilium (its BPF programs)", CILIUM_BITS);
    }
    survey.uses.sort();
    survey
}
