//! Who has woken a thread, and in which context.

use std::io::{PipeReader, PipeWriter, Read, Write, pipe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lowtail_host::cgroup::Policy;
use lowtail_kernel::thread::own_cpus;
use lowtail_observe::record::Recorder;

use crate::events::{self, Event};
use crate::stand::{self, Stage};

const WAKE: u32 = 1;
/// Contexts, and the bit that says that the waker ran on another CPU than the one that tells of it.
const THREAD: u32 = 1;
const HARD_INTERRUPT: u32 = 2;
const SOFT_INTERRUPT: u32 = 3;
const CONTEXT: u32 = 3;

fn wakes(events: &[Event], tid: u32) -> Vec<Event> {
    events.iter().copied().filter(|event| event.kind == WAKE && event.tid == tid).collect()
}

/// Answers until the other end is closed.
fn answer(mut from: PipeReader, mut to: PipeWriter) -> impl FnOnce(&AtomicBool) + Send + 'static {
    move |over| {
        while !over.load(Ordering::Relaxed) && from.read_exact(&mut [0]).is_ok() {
            if to.write_all(&[0]).is_err() {
                break;
            }
        }
    }
}

/// Who writes into a pipe wakes the one that reads it: each wake-up is by the other thread, whichever CPU tells of it.
#[test]
fn threads_that_wake_each_other_are_each_others_wakers() {
    let Some(_turn) = stand::alone() else { return };
    let cpus = own_cpus().unwrap();
    // On one CPU the kernel has nothing to hand over.
    for [one, other] in [[cpus[0], cpus[0]], [cpus[0], cpus[cpus.len() - 1]]] {
        let mut stage = Stage::default();
        let ((to_pong, mut by_ping), (to_ping, by_pong)) = (pipe().unwrap(), pipe().unwrap());
        by_ping.write_all(&[0]).unwrap();
        let pong = stage.add("pong", vec![other], Policy::Other, answer(to_pong, by_pong));
        let ping = stage.add("ping", vec![one], Policy::Other, answer(to_ping, by_ping));
        let mut recorder = Recorder::new(stand::options()).unwrap();
        let (_, file) = stand::record(&mut recorder, Duration::from_secs(1));
        stage.end();
        let (events, lost) = events::all(&file);
        assert_eq!(lost, 0);
        for (tid, waker) in [(ping, pong), (pong, ping)] {
            let all = wakes(&events, tid);
            let right = |event: &&Event| event.other == waker && event.how & CONTEXT == THREAD;
            let (right, elsewhere) = (
                all.iter().filter(right).count(),
                all.iter().filter(|event| event.how & !CONTEXT != 0).count(),
            );
            println!(
                "CPUs {one} and {other}: {right} of {} right, {elsewhere} elsewhere",
                all.len()
            );
            assert!(all.len() > 1000, "{}", all.len());
            assert!(right * 100 >= all.len() * 99, "{right} of {}", all.len());
            assert!(one != other || elsewhere == 0, "{elsewhere} on one CPU");
        }
    }
}

/// A sleep is ended by the timer's interrupt: a hard one, and with `CONFIG_PREEMPT_RT` a soft one.
#[test]
fn a_sleep_is_ended_by_an_interrupt() {
    let Some(_turn) = stand::alone() else { return };
    let mut stage = Stage::default();
    let late = Default::default();
    let work = stand::server(Duration::from_millis(1), late);
    let sleeper = stage.add("sleeper", vec![stand::cpu()], Policy::Other, work);
    let mut recorder = Recorder::new(stand::options()).unwrap();
    let (_, file) = stand::record(&mut recorder, Duration::from_secs(1));
    stage.end();
    let all = wakes(&events::all(&file).0, sleeper);
    let by_interrupt =
        |event: &&Event| [HARD_INTERRUPT, SOFT_INTERRUPT].contains(&(event.how & CONTEXT));
    let right = all.iter().filter(by_interrupt).count();
    println!("{right} of {} by an interrupt", all.len());
    assert!(all.len() > 300, "{}", all.len());
    assert!(right * 100 >= all.len() * 99, "{right} of {}", all.len());
}
