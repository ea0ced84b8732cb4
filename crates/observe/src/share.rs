//! How many slots each VM gets where there are too few.

/// Threads of a VM that want a slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wants {
    /// vCPUs, and threads of the back end.
    pub(crate) serving: usize,
    /// All others.
    pub(crate) workers: usize,
}

/// Gives nobody more than it wants, and whoever gets less than that as much as anybody has: max-min fair. What cannot be
/// divided goes to the first ones.
pub(crate) fn max_min(room: usize, wants: &[usize]) -> Vec<usize> {
    let mut modest_first: Vec<usize> = (0..wants.len()).collect();
    modest_first.sort_by_key(|&i| wants[i]);
    let mut shares = vec![0; wants.len()];
    let mut room = room;
    for (at, &i) in modest_first.iter().enumerate() {
        let rest = &modest_first[at..];
        if wants[i] > room / rest.len() {
            // All of these want more than there is for each.
            let (each, over) = (room / rest.len(), room % rest.len());
            rest.iter().for_each(|&i| shares[i] = each);
            let mut first = rest.to_vec();
            first.sort_unstable();
            first.iter().take(over).for_each(|&i| shares[i] += 1);
            break;
        }
        shares[i] = wants[i];
        room -= wants[i];
    }
    shares
}

/// vCPUs and back ends first, max-min fair between VMs; workers have the rest, in the same way. So a VM with
/// any number of threads takes no slot from what others have up to their share.
pub(crate) fn divide(room: usize, wants: &[Wants]) -> Vec<Wants> {
    let serving: Vec<usize> = wants.iter().map(|wants| wants.serving).collect();
    let serving = max_min(room, &serving);
    let workers: Vec<usize> = wants.iter().map(|wants| wants.workers).collect();
    let workers = max_min(room - serving.iter().sum::<usize>(), &workers);
    let both = serving.into_iter().zip(workers);
    both.map(|(serving, workers)| Wants { serving, workers }).collect()
}

#[cfg(test)]
mod tests {
    use lowtail_engine::Rng;

    use super::*;

    #[test]
    fn a_crowd_takes_nothing_from_the_modest() {
        assert_eq!(max_min(4096, &[5_000, 4]), [4_092, 4]);
        assert_eq!(max_min(10, &[100, 100, 100]), [4, 3, 3]);
        assert_eq!(max_min(10, &[100, 2, 100]), [4, 2, 4]);
        assert_eq!(max_min(2, &[1, 1, 1]), [1, 1, 0]);
        assert_eq!(max_min(7, &[]), [0; 0]);
        let wants = |serving, workers| Wants { serving, workers };
        assert_eq!(
            divide(100, &[wants(0, 5_000), wants(7, 3), wants(4_096, 9)]),
            [wants(0, 0), wants(7, 0), wants(93, 0)]
        );
        assert_eq!(divide(100, &[wants(1, 5_000), wants(7, 3)]), [wants(1, 89), wants(7, 3)]);
    }

    /// All room is given or all wants are met, and who has less than it wants has at most one less than any other.
    #[test]
    fn shares_are_max_min_fair() {
        let seed = std::process::id().into();
        eprintln!("seed {seed}");
        let mut rng = Rng::new(seed, "share");
        for _ in 0..2_000 {
            let room = rng.below(500) as usize;
            let wants: Vec<usize> = (0..rng.below(20)).map(|_| rng.below(60) as usize).collect();
            let shares = max_min(room, &wants);
            let (given, wanted) = (shares.iter().sum::<usize>(), wants.iter().sum::<usize>());
            assert_eq!(given, room.min(wanted), "seed {seed}: {room} for {wants:?}: {shares:?}");
            for (i, &share) in shares.iter().enumerate() {
                assert!(share <= wants[i], "seed {seed}");
                let most = shares.iter().max().copied().unwrap_or(0);
                assert!(share == wants[i] || share + 1 >= most, "seed {seed}: {shares:?}");
            }
        }
    }
}
