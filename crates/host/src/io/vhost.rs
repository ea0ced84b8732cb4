//! KVM's back end between VM and host: rings of taps, and the lists of work of vhost's workers.
//!
//! A kick, a packet in the ring of a tap, or buffers that were missing put a *turn* on the worker's list, and wake it if it sleeps
//! (`vhost_work_queue` in `drivers/vhost/vhost.c`, Linux 4.5 to 6.18). What is on the list already is not put there again. What a
//! worker does in its turn stands in [`guest::vhost`](crate::guest::vhost).

use std::collections::VecDeque;

use lowtail_engine::{Duration, Hist, Time};

use super::packet::Packet;
use crate::ids::Vcpu;

/// What a worker does next: one direction of a queue, as `handle_tx` and `handle_rx` of `drivers/vhost/net.c` do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Turn {
    /// The number of the queue on its host.
    pub(crate) queue: usize,
    /// Takes what the guest sends; else hands over what the tap has.
    pub(crate) sends: bool,
}

/// The queue of a tap, from the host's network to the worker.
#[derive(Debug)]
pub(crate) struct Tap {
    worker: usize,
    room: usize,
    packets: VecDeque<(Time, Packet)>,
    /// From coming into the ring to being copied out of it.
    waited: Hist,
    /// Its turns that are on the worker's list: to the guest, and from it.
    listed: [bool; 2],
    /// A packet that comes has the worker take its turn. Not while it is at it, nor while it waits for buffers of the guest's
    /// (`vhost_net_disable_vq`).
    watched: bool,
}

/// A worker's list.
#[derive(Debug)]
struct WorkList {
    vcpu: Vcpu,
    turns: VecDeque<Turn>,
    awake: bool,
}

/// Taps and workers of a host.
#[derive(Debug, Default)]
pub(crate) struct Vhosts {
    /// By queue.
    taps: Vec<Tap>,
    workers: Vec<WorkList>,
}

impl Vhosts {
    /// The threads `workers` serve queues, in turn those of one VM; each has a tap with room for so many packets.
    pub(crate) fn add(&mut self, workers: &[Vcpu], queues: u16, room: u16) {
        let first = self.workers.len();
        for &vcpu in workers {
            let turns = VecDeque::with_capacity(2 * usize::from(queues));
            self.workers.push(WorkList { vcpu, turns, awake: false });
        }
        for queue in 0..usize::from(queues) {
            self.taps.push(Tap {
                worker: first + queue % workers.len(),
                room: usize::from(room),
                packets: VecDeque::with_capacity(usize::from(room)),
                waited: Hist::new(),
                listed: [false; 2],
                watched: true,
            });
        }
    }

    /// Whether back ends are workers of vhost.
    pub(crate) fn any(&self) -> bool {
        !self.workers.is_empty()
    }

    /// How many workers there are.
    pub(crate) fn workers(&self) -> usize {
        self.workers.len()
    }

    /// The number of the worker that is the thread `vcpu`.
    pub(crate) fn worker(&self, vcpu: Vcpu) -> Option<usize> {
        self.workers.iter().position(|worker| worker.vcpu == vcpu)
    }

    /// The number of the worker that serves `queue`.
    pub(crate) fn serves(&self, queue: usize) -> usize {
        self.taps[queue].worker
    }

    /// Puts `turn` at the end of the list of its worker. Returns the thread that is to be woken, if it sleeps.
    pub(crate) fn list(&mut self, turn: Turn) -> Option<Vcpu> {
        let tap = &mut self.taps[turn.queue];
        if std::mem::replace(&mut tap.listed[usize::from(turn.sends)], true) {
            return None;
        }
        let worker = &mut self.workers[tap.worker];
        worker.turns.push_back(turn);
        let asleep = !std::mem::replace(&mut worker.awake, true);
        asleep.then_some(worker.vcpu)
    }

    /// The first turn of number `worker`, which sleeps if there is none.
    pub(crate) fn next(&mut self, worker: usize) -> Option<Turn> {
        let worker = &mut self.workers[worker];
        let turn = worker.turns.pop_front();
        worker.awake = turn.is_some();
        if let Some(turn) = turn {
            let tap = &mut self.taps[turn.queue];
            tap.listed[usize::from(turn.sends)] = false;
            tap.watched &= turn.sends;
        }
        turn
    }

    /// A packet comes to the tap of `queue` at `now`, if it has room. Returns the worker's thread if it is to be woken.
    ///
    /// # Errors
    /// If there is no room: the packet is lost.
    pub(crate) fn put(
        &mut self,
        queue: usize,
        packet: Packet,
        now: Time,
    ) -> Result<Option<Vcpu>, Full> {
        let tap = &mut self.taps[queue];
        if tap.packets.len() >= tap.room {
            return Err(Full);
        }
        tap.packets.push_back((now, packet));
        let watched = tap.watched;
        Ok(watched.then(|| self.list(Turn { queue, sends: false })).flatten())
    }

    /// The worker is done with its turn for the tap of `queue`: it is to hear of the next packet if there is none.
    pub(crate) fn watch(&mut self, queue: usize) {
        let tap = &mut self.taps[queue];
        tap.watched |= tap.packets.is_empty();
    }

    /// The first packet in the tap of `queue`.
    pub(crate) fn first(&self, queue: usize) -> Option<&Packet> {
        self.taps[queue].packets.front().map(|(_, packet)| packet)
    }

    /// The worker takes that packet, which came when the first value says.
    pub(crate) fn take(&mut self, queue: usize) -> Option<(Time, Packet)> {
        self.taps[queue].packets.pop_front()
    }

    /// The worker has copied a packet that was in the tap of `queue` for so long until then.
    pub(crate) fn copied(&mut self, queue: usize, waited: Duration) {
        self.taps[queue].waited.record(waited);
    }

    /// How long packets have been in the tap of `queue`, until they were copied.
    pub(crate) fn waited(&self, queue: usize) -> Option<&Hist> {
        self.taps.get(queue).map(|tap| &tap.waited)
    }
}

/// A tap without room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Full;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Dom;
    use crate::io::packet::Course;

    fn packet() -> Packet {
        Packet { bytes: 100, token: 0, hash: 0, course: Course::In { to: Dom(0) } }
    }

    /// Work that is listed is not listed twice, and who is awake is not woken: `vhost_work_queue`.
    #[test]
    fn woken_once() {
        let mut vhosts = Vhosts::default();
        vhosts.add(&[Vcpu(3)], 1, 3);
        let (sends, receives) = (Turn { queue: 0, sends: true }, Turn { queue: 0, sends: false });
        assert_eq!(vhosts.list(sends), Some(Vcpu(3)));
        assert_eq!(vhosts.list(sends), None);
        // The list is in order; the tap's packet finds the worker awake.
        assert_eq!(vhosts.put(0, packet(), Time::ZERO), Ok(None));
        assert_eq!([vhosts.next(0), vhosts.next(0)], [Some(sends), Some(receives)]);
        assert_eq!(vhosts.list(sends), None, "it is at its second turn");
        assert_eq!(vhosts.put(0, packet(), Time::ZERO), Ok(None), "it looks at the tap anyway");
        assert_eq!([vhosts.next(0), vhosts.next(0)], [Some(sends), None]);
        assert_eq!(vhosts.list(sends), Some(Vcpu(3)), "it sleeps");
        // Without buffers it has left a packet there, and waits for the guest.
        vhosts.watch(0);
        vhosts.take(0);
        vhosts.take(0);
        assert_eq!(vhosts.put(0, packet(), Time::ZERO), Ok(None));
        assert_eq!(vhosts.next(0), Some(sends));
        vhosts.take(0);
        vhosts.watch(0);
        assert_eq!(vhosts.put(0, packet(), Time::ZERO), Ok(None), "it is awake");
        assert_eq!(vhosts.next(0), Some(receives));
    }

    /// A tap of two packets loses the third one.
    #[test]
    fn full() {
        let mut vhosts = Vhosts::default();
        vhosts.add(&[Vcpu(3)], 1, 2);
        let put = |vhosts: &mut Vhosts| vhosts.put(0, packet(), Time::ZERO);
        assert_eq!([put(&mut vhosts), put(&mut vhosts)], [Ok(Some(Vcpu(3))), Ok(None)]);
        assert_eq!(put(&mut vhosts), Err(Full));
        vhosts.take(0);
        assert_eq!(put(&mut vhosts), Ok(None));
    }

    /// Two workers share three queues: the first has the first and the third.
    #[test]
    fn queues_in_turn() {
        let mut vhosts = Vhosts::default();
        vhosts.add(&[Vcpu(1), Vcpu(2)], 3, 8);
        assert_eq!([0, 1, 2].map(|queue| vhosts.serves(queue)), [0, 1, 0]);
    }
}
