//! Who may be served at a time, and who has to go for others.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::task::AbortHandle;

use crate::limits::Limits;

/// Seats for those who have not sent their head, and others for those who get their answer.
///
/// Two kinds, since otherwise a client that holds many connections in one phase could have those of others
/// thrown out in the other.
pub(crate) struct Seats {
    limits: Limits,
    taken: Mutex<Taken>,
}

#[derive(Default)]
struct Taken {
    next: u64,
    /// The oldest first.
    reading: BTreeMap<u64, Option<AbortHandle>>,
    writing: BTreeMap<u64, Writing>,
}

struct Writing {
    end: Option<AbortHandle>,
    /// When the client took something last.
    took: Instant,
}

/// A connection's seat. It is free again when this is dropped.
#[derive(Clone)]
pub(crate) struct Seat(Arc<Place>);

struct Place {
    number: u64,
    seats: Arc<Seats>,
}

impl Seats {
    pub(crate) fn new(limits: Limits) -> Arc<Self> {
        Arc::new(Seats { limits, taken: Mutex::default() })
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A seat for a new connection. If there is none left, the oldest that still reads has to go: an honest
    /// client sends its head at once.
    pub(crate) fn sit(self: &Arc<Self>) -> Seat {
        let mut taken = self.taken();
        let full = taken.reading.len() >= self.limits.reading;
        let evicted = if full { taken.reading.pop_first() } else { None };
        let number = taken.next;
        taken.next += 1;
        taken.reading.insert(number, None);
        drop(taken);
        if let Some((_, Some(end))) = evicted {
            end.abort();
        }
        Seat(Arc::new(Place { number, seats: Arc::clone(self) }))
    }

    /// How many connections read, and how many write.
    #[cfg(test)]
    pub(crate) fn count(&self) -> (usize, usize) {
        let taken = self.taken();
        (taken.reading.len(), taken.writing.len())
    }
}

impl Seat {
    pub(crate) fn number(&self) -> u64 {
        self.0.number
    }

    /// The head is here, the answer begins. If there is no seat left, whose answer has stalled for longest has to go.
    pub(crate) fn write(&self) {
        let seats = &self.0.seats;
        let mut taken = seats.taken();
        let Some(end) = taken.reading.remove(&self.0.number) else { return };
        let full = taken.writing.len() >= seats.limits.writing;
        let slowest = taken.writing.iter().min_by_key(|(number, writing)| (writing.took, **number));
        let slowest = slowest.map(|(number, _)| *number).filter(|_| full);
        let evicted = slowest.and_then(|number| taken.writing.remove(&number));
        taken.writing.insert(self.0.number, Writing { end, took: Instant::now() });
        drop(taken);
        if let Some(end) = evicted.and_then(|writing| writing.end) {
            end.abort();
        }
    }

    /// The client has taken something of its answer.
    pub(crate) fn took(&self) {
        if let Some(writing) = self.0.seats.taken().writing.get_mut(&self.0.number) {
            writing.took = Instant::now();
        }
    }
}

impl Seats {
    /// How to end this connection when its seat is wanted.
    pub(crate) fn ends_with(&self, number: u64, end: AbortHandle) {
        if let Some(place) = self.taken().reading.get_mut(&number) {
            *place = Some(end);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.seats.taken();
        taken.reading.remove(&self.number);
        taken.writing.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seats(reading: usize, writing: usize) -> Arc<Seats> {
        Seats::new(Limits { reading, writing, ..Limits::default() })
    }

    #[test]
    fn the_oldest_reader_goes_and_no_writer_does() {
        let seats = seats(2, 2);
        let writer = seats.sit();
        writer.write();
        let readers: Vec<Seat> = (0..100).map(|_| seats.sit()).collect();
        assert_eq!(seats.count(), (2, 1));
        assert_eq!(*seats.taken().reading.first_key_value().unwrap().0, readers[98].number());
        drop((readers, writer));
        assert_eq!(seats.count(), (0, 0));
    }

    #[test]
    fn who_reads_its_answer_stays_and_who_does_not_goes_and_no_reader_does() {
        let seats = seats(8, 2);
        let reader = seats.sit();
        let (idle, busy, new) = (seats.sit(), seats.sit(), seats.sit());
        busy.write();
        idle.write();
        // `busy` came first, and takes something again and again.
        std::thread::sleep(std::time::Duration::from_millis(2));
        busy.took();
        new.write();
        let writing: Vec<u64> = seats.taken().writing.keys().copied().collect();
        assert_eq!(writing, [busy.number(), new.number()]);
        assert!(seats.taken().reading.contains_key(&reader.number()));
        drop(idle);
        assert_eq!(seats.count(), (1, 2), "whose seat was taken frees no other's");
    }
}
