//! What holds of the maps of the programs that look on.

use super::Histogram;
use super::network::{Interface, drop_key, network};
use super::slot::{Ran, RanBytes, Slot, SlotBytes};
use lowtail_kernel::shared::Value;

/// Any bytes as values of the maps, cut or filled up to each one's size.
pub fn maps(bytes: &[u8]) {
    let sized = |size: usize| {
        let mut value = bytes.to_vec();
        value.resize(size, 0);
        value
    };
    for value in [bytes, &sized(SlotBytes::BYTES), &sized(RanBytes::BYTES)] {
        if let Some(slot) = Slot::from_bytes(value) {
            assert!(slot.comm.len() <= 3 * 16);
        }
        if let Some(ran) = Ran::from_bytes(7, value) {
            assert_eq!((ran.slot, ran.epoch), (3, 1));
        }
    }
    if let Some(histogram) = Histogram::from_bytes(&sized(Histogram::SIZE)) {
        let none = histogram.since(&histogram);
        assert_eq!(none.count(), 0);
        for percent in [0.0, 50.0, 99.9, 100.0] {
            let _ = histogram.percentile_us(percent / 100.0);
        }
    }
    let _ = network(bytes);
    let _ = network(&sized(24 + 2 * Histogram::SIZE));
    let _ = drop_key(bytes);
    if let Some(interface) = Interface::from_key(bytes) {
        assert_eq!(interface.key()[..], *bytes);
    }
}
