//! What a target says of a reader.

/// A reader.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// What it is called: the directory of its corpus, too.
    pub name: &'static str,
    /// Reads the bytes; panics if something does not hold.
    pub read: fn(&[u8]),
    /// Longest input that is worth a try, in bytes.
    pub bytes_max: usize,
    /// What it may allocate.
    pub most: Most,
    /// Words that mean something to it.
    pub words: &'static [&'static str],
}

/// What a reader may allocate for an input of `n` bytes: `fixed + each * n`.
#[derive(Clone, Copy, Debug)]
pub struct Most {
    /// At once, in bytes.
    pub held: (u64, u64),
    /// All in all, in bytes, what was freed again as well.
    pub taken: (u64, u64),
}

impl Most {
    /// For readers of short texts, which may read each several times; a set of all CPUs takes 280 KiB.
    pub const TEXT: Most = Most { held: (1 << 20, 256), taken: (2 << 20, 4096) };
}

/// A reader of short texts.
pub(crate) const fn text(
    name: &'static str,
    read: fn(&[u8]),
    words: &'static [&'static str],
) -> Target {
    Target { name, read, bytes_max: 4096, most: Most::TEXT, words }
}
