//! Tests of [`Calendar`], most of them against a sorted list.

use super::*;
use proptest::prelude::*;

#[test]
fn equal_times_leave_in_order_of_arrival() {
    let mut queue = Calendar::new();
    for n in 0..100u32 {
        queue.at(Time::from_ps(u64::from(n % 3)), n);
    }
    let mut expected: Vec<u32> = (0..100).collect();
    expected.sort_by_key(|n| n % 3); // a stable sort: by time, then by arrival
    let order: Vec<u32> = std::iter::from_fn(|| queue.pop()).map(|(_, n)| n).collect();
    assert_eq!(order, expected);
}

#[test]
fn tells_when_the_next_event_is_and_waits_for_others() {
    let ps = Time::from_ps;
    let mut queue = Calendar::new();
    assert_eq!(queue.next_time(), None);
    queue.at(ps(10), 1u32);
    queue.at(ps(1 << 40), 3);
    assert_eq!((queue.pop_until(ps(9)), queue.next_time()), (None, Some(ps(10))));
    assert_eq!(queue.pop_until(ps(10)), Some((ps(10), 1)));
    assert_eq!((queue.pop_until(ps(1 << 30)), queue.next_time()), (None, Some(ps(1 << 40))));
    assert_eq!(queue.advance_to(ps(1 << 39)), Ok(()));
    queue.after(Duration::from_ps(5), 2);
    assert_eq!(queue.pop(), Some((ps((1 << 39) + 5), 2)));
    assert_eq!(queue.advance_to(ps(1 << 40)), Ok(()));
    assert_eq!((queue.pop(), queue.pop()), (Some((ps(1 << 40), 3)), None));
    assert!(queue.is_empty() && queue.popped() == 3);
}

#[test]
fn the_clock_skips_no_event_and_never_goes_back() {
    let ps = Time::from_ps;
    let mut queue = Calendar::new();
    queue.at(ps(10), ());
    assert_eq!(queue.advance_to(ps(11)), Err(AdvanceError::BehindEvent(ps(10))));
    assert_eq!((queue.advance_to(ps(10)), queue.now()), (Ok(()), ps(10)));
    assert_eq!(queue.advance_to(ps(9)), Err(AdvanceError::Past(ps(10))));
}

#[test]
fn the_width_follows_and_chunks_are_used_again() {
    let mut queue = Calendar::new();
    for n in 0..1_000u64 {
        queue.at(Time::from_ps(n * 7), n);
    }
    let mut largest = 0;
    for round in 0..400_000u64 {
        let Some((_, n)) = queue.pop() else { break };
        // First 7 us each, then 7 ms: first far apart, then too near.
        let span = if round < 200_000 { 7_000_000 } else { 7_000_000_000 };
        queue.after(Duration::from_ps(span + n), n);
        if round == 300_000 {
            largest = queue.chunks.len();
        }
    }
    assert_eq!(queue.len(), 1_000);
    assert_eq!(queue.chunks.len(), largest);
    let (buckets, far) = (queue.buckets.len() as u64, queue.overflow.len());
    assert!(buckets << queue.shift >= 7_000_000_000 && far < 200, "{buckets} {far}");
}

#[derive(Debug, Clone)]
enum Op {
    Put(u64),
    Pop,
    PopUntil(u64),
    Advance(u64),
}

/// Delays of many sizes, with many equal ones.
fn delay() -> impl Strategy<Value = u64> {
    (0u32..45, 0u64..8).prop_map(|(shift, n)| n << shift)
}

fn ops(n: usize) -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        6 => delay().prop_map(Op::Put),
        4 => Just(Op::Pop),
        1 => delay().prop_map(Op::PopUntil),
        1 => delay().prop_map(Op::Advance),
    ];
    proptest::collection::vec(op, 0..n)
}

/// Against the simplest thing that can be right: a sorted list. `adapt` moves everything into
/// buckets of another width now and then.
fn check(ops: Vec<Op>, adapt: &[(u32, usize)]) -> Result<(), TestCaseError> {
    let mut queue = Calendar::new();
    let mut model: Vec<(Time, u32)> = Vec::new();
    for (n, op) in ops.into_iter().enumerate() {
        match op {
            Op::Put(delay) => {
                let time = queue.now() + Duration::from_ps(delay);
                queue.at(time, n as u32);
                let place = model.partition_point(|&(t, _)| t <= time);
                model.insert(place, (time, n as u32));
            }
            Op::Pop => {
                let expected = if model.is_empty() { None } else { Some(model.remove(0)) };
                prop_assert_eq!(queue.pop(), expected);
            }
            Op::PopUntil(delay) => {
                let end = queue.now() + Duration::from_ps(delay);
                let due = model.first().is_some_and(|first| first.0 <= end);
                prop_assert_eq!(queue.pop_until(end), due.then(|| model.remove(0)));
            }
            Op::Advance(delay) => {
                let to = queue.now() + Duration::from_ps(delay);
                assert_eq!(
                    queue.advance_to(model.first().map_or(to, |first| first.0.min(to))),
                    Ok(())
                );
            }
        }
        if n % 16 == 15 && !adapt.is_empty() {
            let (shift, n) = adapt[n / 16 % adapt.len()];
            queue.rebuild(shift, queue.buckets.len().max(n));
        }
        prop_assert_eq!(queue.len(), model.len());
        prop_assert_eq!(queue.next_time(), model.first().map(|&(time, _)| time));
    }
    let rest: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
    prop_assert_eq!(rest, model);
    Ok(())
}

proptest! {
    #[test]
    fn agrees_with_a_sorted_list(ops in ops(2_000)) {
        check(ops, &[])?;
    }

    #[test]
    fn agrees_whatever_the_width(
        ops in ops(600),
        adapt in proptest::collection::vec((0..=SHIFT_MAX, prop_oneof![Just(256usize), Just(1024)]), 1..8),
    ) {
        check(ops, &adapt)?;
    }
}
