//! Values by number, the numbers used again.

/// Values that come and go, each under a number while it is there.
#[derive(Debug, Clone)]
pub(crate) struct Slab<T> {
    values: Vec<T>,
    free: Vec<u32>,
}

impl<T> Slab<T> {
    pub(crate) fn new() -> Self {
        Slab { values: Vec::new(), free: Vec::new() }
    }

    /// Puts `value` in.
    pub(crate) fn put(&mut self, value: T) -> u32 {
        if let Some(at) = self.free.pop() {
            self.values[at as usize] = value;
            return at;
        }
        self.values.push(value);
        (self.values.len() - 1) as u32
    }

    /// Gives the number `at` back; what is under it stays readable until the next one is put in.
    pub(crate) fn release(&mut self, at: u32) {
        self.free.push(at);
    }
}

impl<T> std::ops::Index<u32> for Slab<T> {
    type Output = T;
    fn index(&self, at: u32) -> &T {
        &self.values[at as usize]
    }
}
