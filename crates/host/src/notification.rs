//! Notifications of a vCPU, and how far each has to travel.

/// Where a notification comes from, which decides how far it has to travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// Another pCPU, such as the driver domain's after a packet came in.
    Elsewhere,
    /// A timer, or a sender, on the pCPU where the vCPU ran last.
    OwnProcessor,
    /// A vCPU that runs at this moment on the pCPU where the vCPU ran last.
    Beside,
    /// A thread that runs at this moment on the pCPU where the vCPU ran last and wakes it in its own time: what that takes is in its work.
    Thread,
    /// Something that the vCPU reads in memory over and over, if it runs.
    Memory,
}
