//! Which threads have to do with each other: one wakes the other, or both have to do with a third.

use crate::history::Thread;

/// The lowest number of a thread that each has to do with.
pub(crate) fn components(threads: &[Thread]) -> Vec<usize> {
    let mut parents: Vec<usize> = (0..threads.len()).collect();
    for (number, thread) in threads.iter().enumerate() {
        for wake in &thread.wakes {
            let (a, b) = (root(&mut parents, number), root(&mut parents, wake.thread));
            parents[a.max(b)] = a.min(b);
        }
    }
    (0..threads.len()).map(|thread| root(&mut parents, thread)).collect()
}

fn root(parents: &mut [usize], mut at: usize) -> usize {
    while parents[at] != at {
        parents[at] = parents[parents[at]];
        at = parents[at];
    }
    at
}
