//! Weights and caps of Xen's domains: those that a recording tells of, and what a policy makes of them.

use std::fmt;

use lowtail_control::policy::{Cap, Policy, Rule, Weight};
use lowtail_control::xen::nearest;
use lowtail_discover::{Kind, KnownBy, Name, NamedBy, Origin, Role, Users, Vm, VmThread};
use lowtail_trace::events::XenSettings;

/// Weights that are so near to the usual one are the usual one, as credits are whole numbers.
const NEAR: f64 = 0.02;

/// What a domain of Xen's gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Share {
    /// The weight of each of its vCPUs.
    pub(crate) weight: u16,
    /// At most so much of a pCPU, in percent; 0: without a limit.
    pub(crate) cap_percent: u16,
}

/// That of a domain of which nobody has said anything.
pub(crate) const USUAL: Share = Share { weight: nearest::WEIGHT, cap_percent: 0 };

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "weight {}", self.weight)?;
        if self.cap_percent > 0 {
            write!(f, " cap {} %", self.cap_percent)?;
        }
        Ok(())
    }
}

/// Those of domains with these numbers, as far as records of credit2 tell: dom0 has the usual weight, or without it who has the least.
pub(crate) fn recorded(settings: &XenSettings, domains: &[Option<u16>]) -> Vec<Share> {
    let known = |domain: u16| settings.shares.iter().find(|share| share.domain == domain);
    let least = settings.shares.iter().map(|share| share.weight).fold(f64::INFINITY, f64::min);
    let usual = known(0).map_or(least, |share| share.weight);
    let share = |domain: &Option<u16>| {
        let Some(share) = domain.and_then(known) else { return USUAL };
        let ratio = share.weight / usual;
        let ratio = if (ratio - 1.0).abs() < NEAR { 1.0 } else { ratio };
        let weight = (f64::from(nearest::WEIGHT) * ratio).round().clamp(1.0, f64::from(u16::MAX));
        let cap = share.cap_percent.unwrap_or(0.0).round().clamp(0.0, f64::from(u16::MAX));
        Share { weight: weight as u16, cap_percent: cap as u16 }
    };
    domains.iter().map(share).collect()
}

/// What `policy` wants of VMs with these names and numbers of vCPUs.
pub(crate) fn rules(policy: &Policy, vms: &[(String, usize)]) -> Vec<Rule> {
    let rule = |(name, vcpus): &(String, usize)| {
        policy.vms.rule(&as_found(name, *vcpus), &[], &Users::default()).into_owned()
    };
    vms.iter().map(rule).collect()
}

/// What these rules make of `shares`, those of the same domains; and what of them is not for Xen, in words.
pub(crate) fn under(rules: &[Rule], shares: &[Share]) -> (Vec<Share>, Vec<String>) {
    let mut notes = Vec::new();
    let share = |(rule, before): (&Rule, &Share)| {
        let mut share = *before;
        if !rule.manage {
            return share;
        }
        if let Weight::PerVcpu(weight) = rule.weight {
            share.weight = nearest::weight(weight);
        }
        match rule.cap {
            Some(Cap::Unlimited) => share.cap_percent = 0,
            Some(cap) => {
                let percent = cap.percent().unwrap_or(0.0).round();
                share.cap_percent = percent.clamp(1.0, f64::from(u16::MAX)) as u16;
            }
            None => {}
        }
        for (key, is_set) in [
            ("vcpu_cap", rule.vcpu_cap.is_some()),
            ("emulator_cap", rule.emulator_cap.is_some()),
            ("iothread_cap", rule.iothread_cap.is_some()),
        ] {
            let note = format!("`{key}` is for Linux hosts: Xen limits whole domains");
            if is_set && !notes.contains(&note) {
                notes.push(note);
            }
        }
        share
    };
    let shares = rules.iter().zip(shares).map(share).collect();
    (shares, notes)
}

/// A domain as it would be found: whose it was is not in the recording; a prediction harms nobody.
fn as_found(name: &str, vcpus: usize) -> Vm {
    let thread = |vcpu: usize| VmThread {
        tid: vcpu as u32 + 1,
        role: Role::Vcpu(vcpu.min(u16::MAX.into()) as u16),
        comm: Name::new(""),
        cgroup: None,
    };
    Vm {
        name: Name::new(name),
        kind: Kind::Xen,
        origin: Origin {
            known_by: KnownBy::Xen,
            named_by: NamedBy::Root,
            uid: Some(0),
            root_cgroup: true,
        },
        pid: 0,
        started_ticks: 0,
        cgroup: None,
        labels: Default::default(),
        threads: (0..vcpus).map(thread).collect(),
        taps: Vec::new(),
        groups: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lowtail_trace::events::XenShare;

    fn policy(text: &str) -> Policy {
        Policy::parse("a test", text).unwrap()
    }

    fn share(weight: u16, cap_percent: u16) -> Share {
        Share { weight, cap_percent }
    }

    #[test]
    fn a_policy_becomes_weights_and_caps() {
        let vms = [("web".to_owned(), 1), ("batch".to_owned(), 2), ("d0".to_owned(), 1)];
        let before = [USUAL, share(512, 50), USUAL];
        let text = "[[vm]]\nname = \"web\"\nweight = 400\n[[vm]]\nname = \"b*\"\nweight = \"keep\"\ncap = \"150%\"\nvcpu_cap = \"90%\"\n";
        let of = |text: &str| under(&rules(&policy(text), &vms), &before);
        let (after, notes) = of(text);
        // 100 of a policy are Xen's 256.
        assert_eq!(after, [share(1024, 0), share(512, 150), USUAL]);
        assert_eq!(notes, ["`vcpu_cap` is for Linux hosts: Xen limits whole domains"]);
        let (after, _) = of("[[vm]]\nname = \"batch\"\nweight = 1\ncap = \"none\"\n");
        assert_eq!(after, [USUAL, share(2, 0), USUAL]);
        // An empty file weighs all alike, and leaves caps.
        assert_eq!(of("").0, [USUAL, share(256, 50), USUAL]);
    }

    #[test]
    fn records_of_credit2_tell_weights_and_caps() {
        let of = |domain, weight, cap_percent| XenShare { domain, weight, cap_percent };
        let shares = vec![of(0, 0.5, None), of(1, 1.0, None), of(2, 0.502, Some(39.8))];
        let settings = XenSettings { shares, ..XenSettings::default() };
        let found = recorded(&settings, &[Some(1), Some(0), Some(2), Some(7), None]);
        assert_eq!(found, [share(512, 0), USUAL, share(256, 40), USUAL, USUAL]);
        // Without dom0 the least is usual.
        let shares = vec![of(1, 1.0, None), of(2, 0.25, None)];
        let settings = XenSettings { shares, ..XenSettings::default() };
        assert_eq!(recorded(&settings, &[Some(1), Some(2)]), [share(1024, 0), USUAL]);
    }
}
