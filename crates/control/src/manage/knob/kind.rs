//! What each kind of knob can do.

use std::io;

/// Reads and writes values of one kind of knob.
pub(in crate::manage) trait Kind {
    /// What people call it; safe for a terminal.
    fn label(&self) -> String;

    /// The value there now, without the end of its line; `None` if the knob is gone.
    fn read(&self) -> io::Result<Option<String>>;

    /// Puts a value there that [`normalize`](Kind::normalize) has given. False if the knob is gone.
    fn write(&self, value: &str) -> io::Result<bool>;

    /// Whether `now` is what one reads where `value` was put.
    fn holds(&self, value: &str, now: &str) -> bool {
        value == now
    }

    /// Whether `now` may be what the kernel has made by itself of `value`, later.
    fn may_become(&self, value: &str, now: &str) -> bool {
        self.holds(value, now)
    }

    /// Whether a write that has failed has changed nothing.
    fn is_whole(&self) -> bool {
        true
    }

    /// A value in words for people; most values are words.
    fn in_words(&self, value: &str) -> String {
        value.to_string()
    }

    /// What is wanted, as `read` will give it: in its one form, with what `to` leaves open as it `was`.
    ///
    /// # Errors
    /// Why it is no value of this knob, in words.
    fn normalize(&self, to: &str, was: &str) -> Result<String, String>;
}
