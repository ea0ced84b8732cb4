//! How a TCP goes about things, and what its packets tell.

use lowtail_engine::Duration;

use super::congestion::Control;

/// Linux's longest delay of an acknowledgement that starts small (`TCP_DELACK_MIN`, 40 ms).
pub const DELAYED_ACK: Duration = Duration::from_ms(40);

/// In [`Packet::flags`](crate::packet::Packet::flags) of an acknowledgement: echoes a mark.
pub const FLAG_ECHO: u8 = 1;
/// In those of data: leaving the host is to be told to the sender (small queues).
pub const FLAG_SMALL_QUEUE: u8 = 2;

/// How a TCP goes about things.
#[derive(Debug, Clone, PartialEq)]
pub struct TcpConfig {
    /// Congestion control.
    pub control: Control,
    /// Packets are capable of marks.
    pub ecn: bool,
    /// Segments of the first window (RFC 6928; Linux since 2.6.39: 10).
    pub initial_window: u32,
    /// Least time-out beyond the round trip (Linux `TCP_RTO_MIN`: 200 ms).
    pub rto_min: Duration,
    /// Time-out before the first round trip (RFC 6298: 1 s).
    pub rto_initial: Duration,
    /// Longest delay of an acknowledgement (Linux `TCP_DELACK_MIN`: 40 ms).
    pub delayed_ack: Duration,
    /// Segments that are acknowledged at once (RFC 5681: 2).
    pub ack_every: u8,
    /// Most payload that is handed down in one piece (GSO, TSO); an [`MSS`](crate::packet::MSS_BYTES) if less.
    pub segment_bytes: u32,
    /// Pieces are no longer than a millisecond's worth (Linux `tcp_tso_autosize`).
    pub autosize: bool,
    /// Little is kept in queues of the own host (TCP small queues, Linux since 3.6).
    pub small_queues: bool,
    /// Bytes that the receiver has room for.
    pub receive_window: u64,
    /// A probe before the time-out (RFC 8985, 7; Linux since 3.10).
    pub tail_probe: bool,
    /// An idle connection starts slowly (Linux `tcp_slow_start_after_idle`).
    pub idle_restart: bool,
}

impl Default for TcpConfig {
    /// Linux today, on a network card without offloads.
    fn default() -> Self {
        TcpConfig {
            control: Control::Cubic,
            ecn: false,
            initial_window: 10,
            rto_min: Duration::from_ms(200),
            rto_initial: Duration::from_ms(1_000),
            delayed_ack: DELAYED_ACK,
            ack_every: 2,
            segment_bytes: 0,
            autosize: true,
            small_queues: false,
            // `tcp_rmem[2]`, 6 MB, of which half is window (`tcp_adv_win_scale`).
            receive_window: 3_145_728,
            tail_probe: true,
            idle_restart: true,
        }
    }
}

impl TcpConfig {
    /// Whether each acknowledgement tells of the marks of its own packets only (DCTCP).
    pub(crate) fn echo_each(&self) -> bool {
        self.ecn && self.control == Control::Dctcp
    }
}
