//! Queueing disciplines as `tc` is told about them, where a kernel has them.

use lowtail_net::queue::codel::{CodelConfig, LIMIT_PACKETS};

use super::queue::{QueueFile, RuleFile};

/// Most bytes that a token bucket's own queue may hold. It is replaced by the one within; `tc` wants a number all the same.
const UNUSED_LIMIT: u32 = 1_000_000;
/// A burst below this lets no two frames of 1,514 bytes pass as one segment, so that Linux's `tbf` cuts all of them up.
const TWO_FRAMES: u64 = 2 * 1514;
/// For each priority of a packet its band in `prio`: those of [`PRIORITIES`] in turn, others as a flow of which nothing is known.
const PRIOMAP: &str = "2 0 1 2 3 4 2 2 2 2 2 2 2 2 2 2";

/// The priority that a tagger gives packets of each band of the rule.
pub const PRIORITIES: [u32; 5] = [1, 2, 3, 4, 5];

/// What is said to `tc` about the disciplines of an interface.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TcLines {
    /// Each behind `qdisc add dev …`.
    pub lines: Vec<String>,
    /// The number of the next discipline.
    next: u16,
}

impl TcLines {
    /// Adds a discipline in place `parent`, such as `root`, and gives its number.
    pub(super) fn add(&mut self, parent: &str, words: &str) -> u16 {
        self.next += 1;
        self.lines.push(format!("{parent} handle {}: {words}", self.next));
        self.next
    }

    /// Adds `queue` in place `parent`.
    ///
    /// # Errors
    /// What no kernel has, or has otherwise.
    pub(super) fn add_queue(&mut self, parent: &str, queue: &QueueFile) -> Result<(), String> {
        let words = match queue {
            QueueFile::Fifo { mark: Some(_), .. } => {
                return Err("a fifo that marks is none of a kernel's".into());
            }
            QueueFile::Fifo { bytes: Some(bytes), .. } => format!("bfifo limit {}", bytes.0),
            QueueFile::Fifo { packets, .. } => format!("pfifo limit {}", packets.unwrap_or(1000)),
            QueueFile::Codel(codel) => {
                format!("codel limit {LIMIT_PACKETS} {}", codel_words(&codel.build()))
            }
            QueueFile::FqCodel(codel) => format!("fq_codel {}", codel_words(&codel.build())),
            QueueFile::Cake { rate, split } => {
                let rate = rate.map_or_else(
                    || "unlimited".to_string(),
                    |rate| format!("bandwidth {}bit", rate.0),
                );
                let split = if split.unwrap_or(true) { "split-gso" } else { "no-split-gso" };
                format!("cake {rate} besteffort triple-isolate {split}")
            }
            QueueFile::Tbf { rate, burst, .. } => {
                format!("tbf rate {}bit burst {} limit {UNUSED_LIMIT}", rate.0, burst.0)
            }
            QueueFile::Prio { bands, .. } => format!("prio bands {bands} priomap {PRIOMAP}"),
            // Linux's own `tbf` does it.
            QueueFile::Split { into: None, queue } if cuts(queue) => {
                return self.add_queue(parent, queue);
            }
            QueueFile::Tag { by: RuleFile::SmallFirst, queue, .. } => {
                // lowtail puts its own there.
                let is_uplinks = parent == "root" && queue.uplink_rate().is_some();
                return if is_uplinks { Ok(()) } else { self.add_queue(parent, queue) };
            }
            other => return Err(format!("`{}` is none that a kernel has", other.describe())),
        };
        let own = self.add(parent, &words);
        let bands = if let QueueFile::Prio { bands, .. } = queue { *bands } else { 1 };
        let mut inner = (1..=bands).filter_map(|band| Some((band, queue.inner()?)));
        inner.try_for_each(|(band, inner)| self.add_queue(&format!("parent {own}:{band}"), inner))
    }
}

/// Whether Linux's discipline cuts up each segment that comes.
fn cuts(queue: &QueueFile) -> bool {
    matches!(queue, QueueFile::Tbf { burst, .. } if burst.0 < TWO_FRAMES)
}

fn codel_words(codel: &CodelConfig) -> String {
    let [target_us, interval_us] = [codel.target, codel.interval].map(|span| span.as_ns() / 1_000);
    let ecn = if codel.ecn { "ecn" } else { "noecn" };
    format!("target {target_us}us interval {interval_us}us {ecn}")
}
