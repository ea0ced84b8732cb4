//! Queueing disciplines as `tc` is told about them, where a kernel has them.

use super::queue::{CodelFile, QueueFile, RuleFile};

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
        match queue {
            QueueFile::Fifo { mark: Some(_), .. } => {
                Err("a fifo that marks is none of a kernel's".into())
            }
            QueueFile::Fifo { bytes: Some(bytes), .. } => {
                self.add(parent, &format!("bfifo limit {}", bytes.0));
                Ok(())
            }
            QueueFile::Fifo { packets, .. } => {
                self.add(parent, &format!("pfifo limit {}", packets.unwrap_or(1000)));
                Ok(())
            }
            QueueFile::Codel(codel) => {
                self.add(parent, &format!("codel limit 1000 {}", codel_words(codel)));
                Ok(())
            }
            QueueFile::FqCodel(codel) => {
                self.add(parent, &format!("fq_codel {}", codel_words(codel)));
                Ok(())
            }
            QueueFile::Tbf { rate, burst, queue } => {
                let words =
                    format!("tbf rate {}bit burst {} limit {UNUSED_LIMIT}", rate.0, burst.0);
                let own = self.add(parent, &words);
                self.add_queue(&format!("parent {own}:1"), queue)
            }
            QueueFile::Prio { bands, queue } => {
                let own = self.add(parent, &format!("prio bands {bands} priomap {PRIOMAP}"));
                (1..=*bands)
                    .try_for_each(|band| self.add_queue(&format!("parent {own}:{band}"), queue))
            }
            QueueFile::Cake { rate, split } => {
                let rate = rate.map_or_else(
                    || "unlimited".to_string(),
                    |rate| format!("bandwidth {}bit", rate.0),
                );
                let split = if split.unwrap_or(true) { "split-gso" } else { "no-split-gso" };
                self.add(parent, &format!("cake {rate} besteffort triple-isolate {split}"));
                Ok(())
            }
            // Linux's own `tbf` does it.
            QueueFile::Split { into: None, queue } if cuts(queue) => self.add_queue(parent, queue),
            QueueFile::Tag { by: RuleFile::SmallFirst, queue, .. } => self.add_queue(parent, queue),
            other => Err(format!("`{}` is none that a kernel has", other.describe())),
        }
    }
}

/// Whether Linux's discipline cuts up each segment that comes.
fn cuts(queue: &QueueFile) -> bool {
    matches!(queue, QueueFile::Tbf { burst, .. } if burst.0 < TWO_FRAMES)
}

fn codel_words(codel: &CodelFile) -> String {
    let target_us = codel.target.map_or(5_000, |span| span.0.as_ns() / 1_000);
    let interval_us = codel.interval.map_or(100_000, |span| span.0.as_ns() / 1_000);
    let ecn = if codel.ecn == Some(true) { "ecn" } else { "noecn" };
    format!("target {target_us}us interval {interval_us}us {ecn}")
}
