//! A split virtqueue in memory that vhost shares: virtio 1.2, section 2.7, with notifications by index (`VIRTIO_F_EVENT_IDX`).

use std::ptr;
use std::sync::atomic::{AtomicU16, Ordering, fence};

/// Entries of a ring: QEMU's default for virtio-net.
pub(super) const ENTRIES: u16 = 256;
/// Bytes of a buffer; each entry has one of its own.
pub(super) const BUFFER: usize = 2048;
/// The device writes into it (`VIRTQ_DESC_F_WRITE`).
const WRITABLE: u16 = 2;

/// Where the parts of a ring begin, in bytes: descriptors, what is available, what is used, buffers.
const AVAILABLE: usize = 16 * ENTRIES as usize;
const USED: usize = AVAILABLE + 4096;
const BUFFERS: usize = USED + 4096;
/// Bytes of a ring with its buffers.
pub(super) const BYTES: usize = BUFFERS + ENTRIES as usize * BUFFER;

/// A ring as the driver in a VM sees it.
#[derive(Debug)]
pub(super) struct Ring {
    base: *mut u8,
    /// What it has made available, and seen to be used.
    available: u16,
    used: u16,
    /// How far the other side has been told.
    told: u16,
}

// SAFETY: one thread at a time has a ring; the other side is the kernel's.
#[allow(unsafe_code, reason = "memory that the kernel shares")]
unsafe impl Send for Ring {}

#[allow(unsafe_code, reason = "memory that the kernel shares")]
impl Ring {
    /// A ring in `BYTES` zeroes at `base`, which live as long as this process and are aligned to a page.
    pub(super) fn new(base: *mut u8, writable: bool) -> Self {
        for entry in 0..usize::from(ENTRIES) {
            let buffer = base as u64 + (BUFFERS + entry * BUFFER) as u64;
            let flags = if writable { WRITABLE } else { 0 };
            // SAFETY: the descriptors are within the ring's memory, which is the caller's promise.
            unsafe {
                let descriptor = base.add(16 * entry);
                descriptor.cast::<u64>().write_volatile(buffer);
                descriptor.add(8).cast::<u32>().write_volatile(BUFFER as u32);
                descriptor.add(12).cast::<u16>().write_volatile(flags);
            }
        }
        Ring { base, available: 0, used: 0, told: 0 }
    }

    /// Addresses of descriptors, of what is available, and of what is used.
    pub(super) fn addresses(&self) -> [u64; 3] {
        [0, AVAILABLE, USED].map(|at| self.base as u64 + at as u64)
    }

    fn word(&self, at: usize) -> &AtomicU16 {
        debug_assert!(at.is_multiple_of(2) && at < BYTES);
        // SAFETY: within the ring's memory, and aligned, as all offsets here are even.
        unsafe { AtomicU16::from_ptr(self.base.add(at).cast()) }
    }

    /// How many entries are free.
    pub(super) fn free(&self) -> u16 {
        ENTRIES - self.available.wrapping_sub(self.used)
    }

    /// Makes the next entry available, with `bytes` of its buffer as `fill` leaves them.
    pub(super) fn push(&mut self, bytes: usize, fill: impl FnOnce(*mut u8)) {
        let entry = self.available % ENTRIES;
        // SAFETY: the entry is free, so that its descriptor and its buffer are the driver's.
        unsafe {
            fill(self.base.add(BUFFERS + usize::from(entry) * BUFFER));
            self.base.add(16 * usize::from(entry) + 8).cast::<u32>().write_volatile(bytes as u32);
        }
        // Entries are used in order, so that each has a place of its own.
        let slot = AVAILABLE + 4 + 2 * usize::from(entry);
        self.word(slot).store(entry, Ordering::Relaxed);
        self.available = self.available.wrapping_add(1);
        self.word(AVAILABLE + 2).store(self.available, Ordering::Release);
    }

    /// Whether the other side wants to be told of what was made available since it was asked last.
    pub(super) fn wants_kick(&mut self) -> bool {
        fence(Ordering::SeqCst);
        let event = self.word(USED + 4 + 8 * usize::from(ENTRIES)).load(Ordering::Relaxed);
        let old = std::mem::replace(&mut self.told, self.available);
        // `vring_need_event` of virtio 1.2, section 2.7.7.1.
        self.available.wrapping_sub(event).wrapping_sub(1) < self.available.wrapping_sub(old)
    }

    /// Takes the next entry that is used: its buffer, and how many bytes it has.
    pub(super) fn pop(&mut self) -> Option<(*mut u8, usize)> {
        if self.used == self.word(USED + 2).load(Ordering::Acquire) {
            return None;
        }
        let slot = USED + 4 + 8 * usize::from(self.used % ENTRIES);
        // SAFETY: within the ring; the other side has written it before it moved the index.
        let (entry, bytes) = unsafe {
            let slot = self.base.add(slot).cast::<u32>();
            (ptr::read_volatile(slot), ptr::read_volatile(slot.add(1)))
        };
        self.used = self.used.wrapping_add(1);
        let entry = entry as usize % usize::from(ENTRIES);
        // SAFETY: an entry has a buffer within the ring.
        let buffer = unsafe { self.base.add(BUFFERS + entry * BUFFER) };
        Some((buffer, (bytes as usize).min(BUFFER)))
    }

    /// Has the other side tell of the next entry that it uses. Returns whether there is one already.
    pub(super) fn listen(&mut self) -> bool {
        self.set_event(self.used);
        fence(Ordering::SeqCst);
        self.used != self.word(USED + 2).load(Ordering::Acquire)
    }

    /// Has it tell of none for now.
    pub(super) fn be_deaf(&mut self) {
        self.set_event(self.used.wrapping_add(1 << 15));
    }

    fn set_event(&self, index: u16) {
        let at = AVAILABLE + 4 + 2 * usize::from(ENTRIES);
        self.word(at).store(index, Ordering::Relaxed);
    }
}

#[cfg(test)]
#[allow(unsafe_code, reason = "plays the other side of the ring")]
mod tests {
    use super::*;

    /// The other side uses entry after entry, and says so only as far as it is asked to.
    #[test]
    fn round_and_round() {
        let memory = Box::leak(vec![0_u64; BYTES / 8].into_boxed_slice());
        let mut ring = Ring::new(memory.as_mut_ptr().cast(), false);
        for n in 0..1000_u16 {
            assert_eq!(ring.free(), ENTRIES);
            // SAFETY: the buffer has room for a byte.
            ring.push(60, |buffer| unsafe { buffer.write(n as u8) });
            let (available, slot) = (ring.word(AVAILABLE + 2).load(Ordering::Relaxed), n % ENTRIES);
            assert_eq!((available, ring.free()), (n + 1, ENTRIES - 1));
            assert!(ring.pop().is_none(), "nobody has used it");
            ring.word(USED + 4 + 8 * usize::from(slot)).store(slot, Ordering::Relaxed);
            ring.word(USED + 4 + 8 * usize::from(slot) + 4).store(60, Ordering::Relaxed);
            ring.word(USED + 2).store(n + 1, Ordering::Release);
            assert!(ring.listen());
            let (buffer, bytes) = ring.pop().expect("one");
            // SAFETY: that byte.
            assert_eq!((unsafe { buffer.read() }, bytes), (n as u8, 60));
            assert!(!ring.listen());
        }
    }

    /// A kick is due when the index that the other side waits for is passed, and not before.
    #[test]
    fn kicks() {
        let memory = Box::leak(vec![0_u64; BYTES / 8].into_boxed_slice());
        let mut ring = Ring::new(memory.as_mut_ptr().cast(), false);
        let event = USED + 4 + 8 * usize::from(ENTRIES);
        ring.push(1, |_| ());
        assert!(ring.wants_kick(), "it waits for the first one");
        ring.push(1, |_| ());
        assert!(!ring.wants_kick(), "it has not looked since");
        ring.word(event).store(4, Ordering::Relaxed);
        (0..2).for_each(|_| ring.push(1, |_| ()));
        assert!(!ring.wants_kick(), "it waits for the fifth one");
        ring.push(1, |_| ());
        assert!(ring.wants_kick());
    }
}
