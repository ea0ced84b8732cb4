//! Whether a thread keeps its pCPU.

/// Whether a thread lets others have its pCPU in its step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Keep {
    /// Anywhere: in a guest, or in a program.
    #[default]
    No,
    /// Before it begins, and then no more.
    AfterPoint,
    /// Not at all.
    Yes,
}
