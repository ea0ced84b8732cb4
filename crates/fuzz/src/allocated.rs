//! What a thread allocates.
#![allow(unsafe_code, reason = "an allocator has an unsafe interface")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator, counting for each thread.
struct Counting;

thread_local! {
    static HELD: Cell<i64> = const { Cell::new(0) };
    static MOST: Cell<i64> = const { Cell::new(0) };
    static TAKEN: Cell<u64> = const { Cell::new(0) };
}

fn count(bytes: i64) {
    let held = HELD.get() + bytes;
    HELD.set(held);
    if bytes > 0 {
        MOST.set(MOST.get().max(held));
        TAKEN.set(TAKEN.get() + bytes as u64);
    }
}

// SAFETY: every call is passed on to the system's allocator unchanged; counting allocates nothing, as the counters are constants
// without destructors.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: the caller's promises are those that `System` asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count(-(layout.size() as i64));
        // SAFETY: `memory` came from `System`.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size as i64 - layout.size() as i64);
        // SAFETY: `memory` came from `System`.
        unsafe { System.realloc(memory, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// What something has allocated, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Use {
    /// The most at once.
    pub held: u64,
    /// All in all, what was freed again as well.
    pub taken: u64,
}

/// What `work` allocates in this thread.
pub fn measure(work: impl FnOnce()) -> Use {
    let before = HELD.get();
    MOST.set(before);
    TAKEN.set(0);
    work();
    Use { held: (MOST.get() - before).max(0) as u64, taken: TAKEN.get() }
}
