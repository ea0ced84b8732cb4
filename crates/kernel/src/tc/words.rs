//! Disciplines in words, as `tc qdisc show` prints them (iproute2's `tc/q_*.c` say which attribute means what).

use std::fmt::Write;

use super::netlink::{attributes, find, u32_at};
use super::tree::{Node, Tree};

/// Bits per second as `tc` writes them: `198Mbit`, `1500Kbit`.
fn rate(bytes_per_second: u64) -> String {
    let bits = u128::from(bytes_per_second) * 8;
    let units = [
        (1_000_000_000_000, "Tbit"),
        (1_000_000_000, "Gbit"),
        (1_000_000, "Mbit"),
        (1_000, "Kbit"),
    ];
    let fits = units.into_iter().find(|(unit, _)| bits >= *unit && bits.is_multiple_of(*unit));
    fits.map_or_else(|| format!("{bits}bit"), |(unit, name)| format!("{}{name}", bits / unit))
}

/// A span, in three digits: `5ms` for 4,999 us, which is what the kernel makes of 5,000.
fn time(us: u32) -> String {
    let (value, unit) = match us {
        0..1_000 => return format!("{us}us"),
        1_000..1_000_000 => (f64::from(us) / 1e3, "ms"),
        _ => (f64::from(us) / 1e6, "s"),
    };
    let digits = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
    let text = format!("{value:.digits$}");
    let text =
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text}{unit}")
}

/// The rate of a `struct tc_ratespec`, which is at `at`, bytes per second, unless attribute `wide` has the one of 64 bits.
fn rate_at(parms: &[u8], at: usize, wide: Option<&[u8]>) -> u64 {
    let wide = wide.and_then(|bytes| Some(u64::from_ne_bytes(bytes.try_into().ok()?)));
    wide.unwrap_or_else(|| u32_at(parms, at + 8).unwrap_or_default().into())
}

/// What fits the options of a discipline or class; `None` if they are not known here, or not whole.
fn options(kind: &str, options: &[u8]) -> Option<String> {
    let mut text = String::new();
    let all = attributes(options);
    let number = |attribute| find(&all, attribute).and_then(|bytes| u32_at(bytes, 0));
    match kind {
        "fq_codel" | "codel" => {
            let _ = write!(text, "limit {}p", number(2)?);
            if let Some(flows) = (kind == "fq_codel").then(|| number(5)).flatten() {
                let _ = write!(text, " flows {flows}");
            }
            if let Some(quantum) = (kind == "fq_codel").then(|| number(6)).flatten() {
                let _ = write!(text, " quantum {quantum}");
            }
            let _ = write!(text, " target {} interval {}", time(number(1)?), time(number(3)?));
            if number(4) == Some(1) {
                text += " ecn";
            }
        }
        "pfifo" => text = format!("limit {}p", u32_at(options, 0)?),
        "bfifo" => text = format!("limit {}b", u32_at(options, 0)?),
        "prio" | "pfifo_fast" => text = format!("bands {}", u32_at(options, 0)?),
        "tbf" => {
            let parms = find(&all, 1)?;
            let _ = write!(text, "rate {}", rate(rate_at(parms, 0, find(&all, 4))));
            // Told as the time that it takes at the rate, in units of 64 ns (`PSCHED_SHIFT`).
            let burst =
                u128::from(u32_at(parms, 28)?) * 64 * u128::from(rate_at(parms, 0, find(&all, 4)));
            let _ = write!(text, " burst {}b", burst / 1_000_000_000);
            let peak = rate_at(parms, 12, find(&all, 5));
            if peak > 0 {
                let _ = write!(text, " peakrate {}", rate(peak));
            }
            let limit = u32_at(parms, 24)?;
            if limit > 0 {
                let _ = write!(text, " limit {limit}b");
            }
        }
        "htb" => match find(&all, 1) {
            Some(parms) => {
                let _ = write!(text, "rate {}", rate(rate_at(parms, 0, find(&all, 6))));
                let _ = write!(text, " ceil {}", rate(rate_at(parms, 12, find(&all, 7))));
                let _ = write!(text, " prio {}", u32_at(parms, 40)?);
            }
            None => {
                let _ = write!(text, "default {:#x}", u32_at(find(&all, 2)?, 8)?);
            }
        },
        "cake" => {
            let bytes = find(&all, 2)?;
            let per_second = u64::from_ne_bytes(bytes.try_into().ok()?);
            text = match per_second {
                0 => "unlimited".to_string(),
                _ => format!("bandwidth {}", rate(per_second)),
            };
            let tins = ["diffserv3", "diffserv4", "diffserv8", "besteffort", "precedence"];
            if let Some(tins) = number(3).and_then(|mode| tins.get(mode as usize)) {
                let _ = write!(text, " {tins}");
            }
            match number(17) {
                Some(0) => text += " no-split-gso",
                Some(_) => text += " split-gso",
                None => {}
            }
        }
        "fq" => {
            let _ = write!(text, "limit {}p flow_limit {}p", number(1)?, number(2)?);
        }
        "mq" | "noqueue" | "ingress" | "clsact" => {}
        _ => return None,
    }
    Some(text)
}

/// A discipline or class in words.
fn node(node: &Node) -> String {
    let bytes = node.bytes().unwrap_or_default();
    let said = options(&node.kind, &bytes);
    let said = said.unwrap_or_else(|| format!("(options of {} bytes)", bytes.len()));
    format!("{} {said}", node.kind).trim_end().to_string()
}

impl Tree {
    /// In words for people: each discipline with its main options, as `tc` prints them, without numbers; how many there are of those
    /// that are alike. Two trees that differ can have the same words.
    pub fn in_words(&self) -> String {
        if let Some(default) = &self.default {
            return format!("{default} (the kernel's own)");
        }
        // Ours differ by their priority, and are many.
        let classes = self.classes.iter().map(|class| match self.is_ours() {
            true => format!("class {}", class.kind),
            false => format!("class {}", node(class)),
        });
        let mut kinds: Vec<(String, usize)> = Vec::new();
        for text in self.disciplines.iter().map(node).chain(classes) {
            match kinds.iter_mut().find(|(other, _)| *other == text) {
                Some((_, n)) => *n += 1,
                None => kinds.push((text, 1)),
            }
        }
        let all =
            kinds.into_iter().map(|(text, n)| if n > 1 { format!("{n} x {text}") } else { text });
        let filters = (self.filters > 0).then(|| format!("{} filters", self.filters));
        all.chain(filters).collect::<Vec<_>>().join("; ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tc::options as ours;

    /// As `tc qdisc show` of iproute2 6.1 prints the same (`tests/network` compares with it where it is installed).
    #[test]
    fn disciplines_are_told_as_tc_prints_them() {
        // A burst is rounded up to units of 64 ns.
        let tbf = ours::tbf(24_750_000, 24_750, Some(1_514));
        assert_eq!(options("tbf", &tbf).unwrap(), "rate 198Mbit burst 24751b peakrate 10Gbit");
        assert_eq!(
            options("cake", &ours::cake(12_375_000, true)).unwrap(),
            "bandwidth 99Mbit diffserv3 split-gso"
        );
        assert_eq!(options("prio", &ours::prio(3, [2; 16])).unwrap(), "bands 3");
        assert_eq!(options("htb", &ours::htb(3)).unwrap(), "default 0x3");
        assert_eq!(
            options("htb", &ours::htb_class(1, 1 << 16)).unwrap(),
            "rate 1Tbit ceil 1Tbit prio 1"
        );
        assert_eq!(options("bfifo", &ours::bfifo(4_096)).unwrap(), "limit 4096b");
        let number = |n: u32| n.to_ne_bytes().to_vec();
        let codel = [
            (1, number(4_999)),
            (2, number(10_240)),
            (3, number(99_999)),
            (4, number(1)),
            (5, number(1_024)),
        ];
        assert_eq!(
            options("fq_codel", &super::super::netlink::nest(&codel)).unwrap(),
            "limit 10240p flows 1024 target 5ms interval 100ms ecn"
        );
    }

    #[test]
    fn what_is_alike_is_counted_and_what_is_unknown_is_said() {
        let fifo = |handle| Node::new(handle, 1, "bfifo", &ours::bfifo(10));
        let mut tree = Tree {
            disciplines: vec![Node::new(1, 0, "mq", &[]), fifo(2), fifo(3)],
            ..Tree::default()
        };
        assert_eq!(tree.in_words(), "mq; 2 x bfifo limit 10b");
        tree.disciplines = vec![Node::new(1, 0, "sfb", &[1, 2, 3]), Node::new(2, 0, "tbf", &[9])];
        tree.filters = 2;
        assert_eq!(
            tree.in_words(),
            "sfb (options of 3 bytes); tbf (options of 1 bytes); 2 filters"
        );
        let own = Tree { default: Some("noqueue".to_string()), ..Tree::default() };
        assert_eq!(own.in_words(), "noqueue (the kernel's own)");
    }
}
