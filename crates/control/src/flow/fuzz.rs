//! What holds of taggers' maps and texts.

use lowtail_policy::FlowParams;

use super::layout::Told;
use super::tagger_config::PROGRAM;
use super::{Counts, Mask, TaggerConfig, TapTagger, layout};

/// Any bytes as values of the tagger's maps.
pub fn flow_maps(bytes: &[u8]) {
    let _ = layout::told(bytes);
    let told = Told { params: FlowParams::default(), marks: Mask::NONE, program: PROGRAM };
    if let Some(config) = layout::parse_uplink(bytes, &told) {
        let again = layout::parse_uplink(&layout::uplink(&config), &told);
        assert_eq!(again, Some(config), "what is written is read again");
    }
    // One CPU's: a sum of several is as large as the kernel's counts are true.
    let mut counts = Counts::default();
    counts.add(bytes);
}

/// Any bytes as what a tagger is told: what is read is written the same and read again.
pub fn tagger_text(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(Some(config)) = TaggerConfig::parse(&text) {
        let again = config.to_text();
        assert_eq!(TaggerConfig::parse(&again).expect("what was written"), Some(config), "{again}");
    }
    if let Ok(Some(entry)) = TapTagger::parse(&text) {
        let again = entry.to_text();
        assert_eq!(TapTagger::parse(&again).expect("what was written"), Some(entry), "{again}");
    }
}
