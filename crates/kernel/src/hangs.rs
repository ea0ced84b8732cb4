//! Kernels of which it is known, or was reported, that a scheduler of sched_ext makes them hang. Each with its source.

/// A version: its first two numbers.
pub type Version = (u32, u32);

/// Something that is wrong with some kernels.
#[derive(Debug)]
pub struct Trouble {
    /// From this version on.
    pub since: Version,
    /// The first version without it; `None`: none is known.
    pub fixed: Option<Version>,
    /// What happens.
    pub what: &'static str,
    /// What to do.
    pub remedy: &'static str,
    /// Who says so.
    source: &'static str,
}

/// All that are known.
const TROUBLES: [Trouble; 2] = [
    // Reported on 7.1.3 (scx_lavd, cloud-hypervisor: each time a guest booted) in an issue about 7.1 and later. It was closed
    // on 2026-08-18 by who had opened it, as resolved; what could be read of it names no fix in the kernel.
    Trouble {
        since: (7, 1),
        fixed: None,
        what: "hosts were reported to hang when a KVM guest boots under a scheduler of sched_ext",
        remedy: "try it on a host that may hang, or take Linux 6.17 to 7.0, or `scheduler = \"fair\"`",
        source: "https://github.com/sched-ext/scx/issues/3687",
    },
    // Since a5b98009f16d (7.1-rc2); fadeedd7cfc5 was queued for 7.2 and marked for stable kernels on 2026-08-03.
    Trouble {
        since: (7, 1),
        fixed: Some((7, 2)),
        what: "a scheduler of sched_ext that is loaded while systemd asks for pressure (PSI) may block the kernel for ever",
        remedy: "take a 7.1 with fadeedd7cfc5 (`sched/psi: Create the psimon kthread outside of cgroup_mutex`), or 7.2",
        source: "https://github.com/sched-ext/scx/issues/3716",
    },
];

impl Trouble {
    /// In a sentence, with where it is from.
    pub fn sentence(&self) -> String {
        format!("{} ({})", self.what, self.source)
    }
}

/// What a kernel of this version has.
pub fn of(version: Version) -> impl Iterator<Item = &'static Trouble> {
    let has = move |trouble: &&Trouble| {
        version >= trouble.since && trouble.fixed.is_none_or(|fixed| version < fixed)
    };
    TROUBLES.iter().filter(has)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn which_kernels_have_which() {
        let sources = |version| -> Vec<&str> {
            of(version).map(|trouble| trouble.source.rsplit('/').next().unwrap_or("")).collect()
        };
        assert_eq!([(6, 12), (6, 18), (7, 0)].map(sources), [(); 3].map(|()| Vec::<&str>::new()));
        assert_eq!(sources((7, 1)), ["3687", "3716"]);
        assert_eq!([(7, 2), (7, 3), (8, 0)].map(sources), [(); 3].map(|()| vec!["3687"]));
    }
}
