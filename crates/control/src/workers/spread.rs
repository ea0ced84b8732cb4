//! Which worker on which CPU.

/// A worker, as it is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Worker {
    /// Its VM, as a number.
    pub(super) vm: u32,
    /// The CPU that it runs on, if it is one only.
    pub(super) alone_on: Option<usize>,
}

/// A CPU for each of the workers: each CPU has as many as another, or one more. Who can stay does.
pub(super) fn spread(workers: &[Worker], cpus: &[usize]) -> Vec<usize> {
    let least = workers.len() / cpus.len();
    let mut with_one_more = workers.len() % cpus.len();
    let mut load = vec![0; cpus.len()];
    let mut to: Vec<Option<usize>> = vec![None; workers.len()];
    for (worker, to) in workers.iter().zip(&mut to) {
        let Some(at) = cpus.iter().position(|cpu| Some(*cpu) == worker.alone_on) else { continue };
        if load[at] < least || load[at] == least && with_one_more > 0 {
            with_one_more -= usize::from(load[at] == least);
            load[at] += 1;
            *to = Some(at);
        }
    }
    for i in 0..workers.len() {
        if to[i].is_some() {
            continue;
        }
        let own = |at: usize| {
            let of_vm = workers.iter().zip(&to).filter(|(other, _)| other.vm == workers[i].vm);
            of_vm.filter(|(_, to)| **to == Some(at)).count()
        };
        let at = (0..cpus.len()).min_by_key(|&at| (load[at], own(at), at)).unwrap_or(0);
        load[at] += 1;
        to[i] = Some(at);
    }
    to.into_iter().flatten().map(|at| cpus[at]).collect()
}

#[cfg(test)]
mod tests {
    use lowtail_engine::Rng;

    use super::*;
    use lowtail_testkit::seed::seed;

    fn worker(vm: u32, alone_on: Option<usize>) -> Worker {
        Worker { vm, alone_on }
    }

    #[test]
    fn those_of_one_machine_go_apart() {
        // Four of one VM on four CPUs, then two of another.
        let mut workers = vec![worker(1, None); 4];
        workers.extend([worker(2, None); 2]);
        assert_eq!(spread(&workers, &[2, 3, 4, 5]), [2, 3, 4, 5, 2, 3]);
        // Both CPUs have one: the second of VM 1 goes where its first is not.
        let workers = [worker(1, Some(3)), worker(2, Some(2)), worker(1, None)];
        assert_eq!(spread(&workers, &[2, 3]), [3, 2, 2]);
    }

    /// Three on one CPU and none on the other: one goes, two stay. A CPU that is not theirs does not count.
    #[test]
    fn who_can_stay_does() {
        let workers = [worker(1, Some(7)); 3];
        assert_eq!(spread(&workers, &[6, 7]), [7, 7, 6]);
        assert_eq!(spread(&[worker(1, Some(0))], &[6, 7]), [6]);
    }

    /// Whatever there is: even, the same again from there, and nobody moves who need not.
    #[test]
    fn always_even_and_at_rest() {
        let mut rng = Rng::new(seed(), "spread");
        let mut draw = |n: usize| rng.below(n as u64) as usize;
        for _ in 0..2_000 {
            let cpus: Vec<usize> = (0..1 + draw(6)).map(|i| 3 * i).collect();
            let workers: Vec<Worker> = (0..draw(30))
                .map(|_| worker(draw(4) as u32, Some(draw(20)).filter(|cpu| *cpu < 18)))
                .collect();
            let to = spread(&workers, &cpus);
            let load = |to: &[usize], cpu| to.iter().filter(|at| **at == cpu).count();
            let loads: Vec<usize> = cpus.iter().map(|cpu| load(&to, *cpu)).collect();
            let (least, most) = (loads.iter().min().unwrap(), loads.iter().max().unwrap());
            assert!(most - least <= 1 && loads.iter().sum::<usize>() == workers.len());
            let again: Vec<Worker> =
                workers.iter().zip(&to).map(|(of, to)| worker(of.vm, Some(*to))).collect();
            assert_eq!(spread(&again, &cpus), to);
            // Moved only to where fewer stayed: with one more it would not have been even.
            let stayed = |cpu| {
                let stay = workers.iter().zip(&to);
                stay.filter(|(of, to)| of.alone_on == Some(cpu) && **to == cpu).count()
            };
            for (of, to) in workers.iter().zip(&to) {
                let left = of.alone_on.filter(|cpu| cpus.contains(cpu) && cpu != to);
                assert!(left.is_none_or(|cpu| stayed(cpu) >= workers.len() / cpus.len()));
            }
        }
    }
}
