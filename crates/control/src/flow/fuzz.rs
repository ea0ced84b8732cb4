//! What holds of taggers' maps and texts.

use super::{Counts, TaggerConfig, TapTagger, layout};

/// Any bytes as values of the tagger's maps.
pub fn flow_maps(bytes: &[u8]) {
    let _ = layout::params(bytes);
    if let Some((priorities, dscp)) = layout::parse_uplink(bytes) {
        let again = layout::uplink(&priorities, &dscp);
        let length = again.len().min(bytes.len()).min(25);
        assert_eq!(again[..length], bytes[..length]);
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
