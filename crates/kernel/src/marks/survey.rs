//! What is known of marks.

use std::fmt;

use super::mask::Mask;

/// Somebody who uses bits of marks.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Use {
    /// Who, and where it says so, with what a terminal would obey escaped.
    pub who: String,
    /// The bits that it looks at or sets.
    pub bits: u32,
}

/// All that is known of marks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// Each once, in order of who.
    pub uses: Vec<Use>,
    /// What could not be read, and why.
    pub unread: Vec<String>,
}

impl fmt::Display for Use {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x} by {}", self.bits, self.who)
    }
}

impl Survey {
    /// The bits that nobody uses.
    pub fn free(&self) -> Mask {
        Mask(!self.uses.iter().fold(0, |bits, own| bits | own.bits))
    }

    /// Those who use bits of `mask`.
    pub fn clashes(&self, mask: Mask) -> Vec<&Use> {
        self.uses.iter().filter(|own| own.bits & mask.0 != 0).collect()
    }

    /// Why `mask` cannot be had, and what could; `None` if it can.
    pub fn refusal(&self, mask: Mask) -> Option<String> {
        let clashes = self.clashes(mask);
        if clashes.is_empty() {
            return None;
        }
        let told: Vec<String> = clashes
            .iter()
            .map(|own| Use { who: own.who.clone(), bits: own.bits & mask.0 }.to_string())
            .collect();
        let free = self.free();
        let right = match free.0.count_ones() {
            0..Mask::BITS_LEAST => "no bits are free: leave out `taps`".to_string(),
            _ => format!("free is `mark_mask = {free}`, for {} VMs", free.vms()),
        };
        Some(format!("`[network] mark_mask` {mask} is in use: {}; {right}", told.join(", ")))
    }

    /// Adds one of `who` that was found at `place`.
    pub(super) fn add(&mut self, who: &str, bits: u32) {
        if bits == 0 {
            return;
        }
        match self.uses.iter_mut().find(|own| own.who == who) {
            Some(own) => own.bits |= bits,
            None => self.uses.push(Use { who: who.to_string(), bits }),
        }
    }
}

/// Who names chains and tables so.
pub(super) fn known(name: &str) -> Option<&'static str> {
    let begins = |start: &str| name.starts_with(start);
    match () {
        () if begins("cali-") || begins("calico") || name == "filter-cali" => Some("Calico"),
        () if begins("KUBE-") || begins("kube-proxy") => Some("kube-proxy"),
        () if begins("ts-") || begins("tailscale") => Some("Tailscale"),
        () if begins("CILIUM_") || begins("OLD_CILIUM_") || begins("cilium") => Some("Cilium"),
        () => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_use_and_what_is_free() {
        let mut survey = Survey::default();
        assert_eq!(survey.free(), Mask(u32::MAX));
        assert_eq!(survey.refusal(Mask::UPPER), None);
        survey.add("Calico", 0x000f_0000);
        survey.add("kube-proxy", 0x4000);
        survey.add("Calico", 0x00f0_0000);
        survey.add("nobody", 0);
        assert_eq!(survey.uses.len(), 2);
        let refused = survey.refusal(Mask::UPPER).expect("it clashes");
        let wanted = "0xffff0000 is in use: 0xff0000 by Calico; free is `mark_mask = 0xff00bfff`";
        assert!(refused.contains(wanted), "{refused}");
        assert_eq!(survey.refusal(Mask(0xff00_0000)), None);
        survey.add("x", 0xffff_fffe);
        let refused = survey.refusal(Mask(0x3)).expect("it clashes");
        assert!(refused.ends_with("no bits are free: leave out `taps`"), "{refused}");
    }
}
