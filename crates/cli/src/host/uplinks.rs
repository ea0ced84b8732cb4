//! Who fills the queues of uplinks and taps, and whose packets wait for whose, as rows: for tables and the screen.

use lowtail_observe::{Network, QueueBlame, Sender, Sent, Snapshot, VmSnapshot};

use super::wording::{mbit, sender, us};

/// Senders that have a column, or a row of their own at an uplink. The others are put together.
const TOLD_MAX: usize = 6;

/// Titles of [`rates`].
pub(crate) const RATES: [&str; 4] = ["uplink", "sender", "Mbit/s", "%"];

/// What each uplink has sent, and whose it was: most first.
pub(crate) fn rates(snapshot: &Snapshot) -> Vec<[String; 4]> {
    let mut rows = Vec::new();
    for uplink in &snapshot.uplinks {
        let part = |bytes: u64| bytes as f64 / uplink.transmitted_bytes.max(1) as f64;
        let rate = uplink.bits_per_second(snapshot.interval_ms);
        rows.push([uplink.name.to_string(), "all".into(), mbit(rate), "100.0".into()]);
        for (who, bytes) in told(&uplink.senders, TOLD_MAX) {
            let part = part(bytes);
            let cells = [who, mbit(rate * part), format!("{:.1}", 100.0 * part)];
            let [who, rate, part] = cells;
            rows.push([String::new(), who, rate, part]);
        }
    }
    rows
}

/// Where packets wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Those that a VM sends, in the queue of an uplink.
    Uplink,
    /// Those that a VM gets, in its tap.
    Tap,
}

impl Wait {
    /// Both of them.
    pub(crate) const BOTH: [Wait; 2] = [Wait::Uplink, Wait::Tap];

    /// What a matrix of it shows.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Wait::Uplink => "bytes ahead of packets in the uplinks' queues, by sender",
            Wait::Tap => "bytes ahead of packets in the taps of VMs, by sender",
        }
    }

    fn blame(self, network: &Network) -> &QueueBlame {
        match self {
            Wait::Uplink => &network.queue_blame,
            Wait::Tap => &network.receive_queue_blame,
        }
    }
}

/// The matrix: for each VM whose packets waited, what was ahead of them and whose that was, in percent of bytes.
pub(crate) struct Matrix {
    /// Titles of the columns.
    pub(crate) titles: Vec<String>,
    /// A row for each VM, and its parts from 0 to 1, one for each of the last columns.
    pub(crate) rows: Vec<(Vec<String>, Vec<f64>)>,
}

/// Columns before those of senders.
const LEADING: [&str; 4] = ["VM", "packets", "mean delay us", "mean ahead kB"];

/// Of an interval; with no rows where nothing has waited.
pub(crate) fn matrix(snapshot: &Snapshot, wait: Wait) -> Matrix {
    let blamed = |vm| -> Option<(&VmSnapshot, &QueueBlame)> {
        let vm: &VmSnapshot = vm;
        let blame = wait.blame(vm.network.as_ref()?);
        (blame.bytes_ahead > 0).then_some((vm, blame))
    };
    let waiting: Vec<_> = snapshot.vms.iter().filter_map(blamed).collect();
    let mut columns: Vec<Sent> = Vec::new();
    for sent in waiting.iter().flat_map(|(_, blame)| &blame.senders) {
        match columns.iter_mut().find(|column| column.sender == sent.sender) {
            Some(column) => column.bytes += sent.bytes,
            None => columns.push(sent.clone()),
        }
    }
    // Those who have a name of their own, most first.
    columns.retain(|column| column.sender != Sender::Others);
    columns.sort_by_key(|column| std::cmp::Reverse(column.bytes));
    columns.truncate(TOLD_MAX);
    let row = |(vm, blame): &(&VmSnapshot, &QueueBlame)| {
        let packets = blame.sampled_packets.max(1) as f64;
        let leading = vec![
            vm.name.to_string(),
            blame.sampled_packets.to_string(),
            us(Some(blame.sampled_delay_ns as f64 / 1e3 / packets)),
            us(Some(blame.bytes_ahead as f64 / 1e3 / packets)),
        ];
        let bytes = |who: &Sender| {
            let found = blame.senders.iter().find(|sent| sent.sender == *who);
            found.map_or(0, |sent| sent.bytes)
        };
        let mut parts: Vec<f64> = columns
            .iter()
            .map(|column| bytes(&column.sender) as f64 / blame.bytes_ahead as f64)
            .collect();
        let others = (1.0 - parts.iter().sum::<f64>()).max(0.0);
        parts.push(others);
        let cells = parts.iter().map(|part| format!("{:.1}", 100.0 * part));
        (leading.into_iter().chain(cells).collect(), parts)
    };
    let mut rows: Vec<(Vec<String>, Vec<f64>)> = waiting.iter().map(row).collect();
    let mut titles: Vec<String> = LEADING.iter().map(ToString::to_string).collect();
    titles.extend(columns.iter().map(|column| format!("{} %", sender(&column.sender))));
    titles.push("others %".to_string());
    // A column that nobody needs is none.
    if rows.iter().all(|(_, parts)| parts.last().is_none_or(|part| *part < 5e-4)) {
        titles.pop();
        for (cells, parts) in &mut rows {
            cells.pop();
            parts.pop();
        }
    }
    Matrix { titles, rows }
}

impl Matrix {
    /// Columns that come before the senders'.
    pub(crate) const LEADING: usize = LEADING.len();
}

/// The first so many, and the others together.
fn told(senders: &[Sent], most: usize) -> Vec<(String, u64)> {
    let (first, rest) = senders.split_at(most.min(senders.len()));
    let mut told: Vec<(String, u64)> =
        first.iter().map(|sent| (sender(&sent.sender), sent.bytes)).collect();
    if !rest.is_empty() {
        told.push((format!("{} others", rest.len()), rest.iter().map(|sent| sent.bytes).sum()));
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::example::snapshot;

    #[test]
    fn rows_of_the_matrix_are_all_of_what_was_ahead() {
        let to_taps = matrix(&snapshot(), Wait::Tap);
        assert_eq!(to_taps.titles[Matrix::LEADING..], ["from eth0 %"]);
        assert_eq!(to_taps.rows[0].0[1..], ["2", "15.0", "1.50", "100.0"]);
        let matrix = matrix(&snapshot(), Wait::Uplink);
        assert_eq!(matrix.titles[Matrix::LEADING..], ["batch %", "cgroup backup.service %"]);
        assert_eq!(matrix.rows.len(), 1, "batch has no traffic");
        let (cells, parts) = &matrix.rows[0];
        assert_eq!(cells[1..], ["4", "50.0", "12.5", "90.0", "10.0"]);
        assert!((parts.iter().sum::<f64>() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn an_uplinks_senders_add_up_to_it() {
        let rows = rates(&snapshot());
        let rates = |row: &[String; 4]| row[2].parse::<f64>().unwrap();
        assert_eq!(rows[0][..3], ["eth0", "all", "8.00"]);
        assert_eq!(rows[1..].iter().map(rates).sum::<f64>(), 8.0);
    }

    #[test]
    fn who_does_not_fit_is_put_together() {
        let mut snapshot = snapshot();
        let named = |i: u64| Sender::Group(lowtail_kernel::Name::new(format!("g{i}")));
        let network = snapshot.vms[1].network.as_mut().unwrap();
        let senders: Vec<Sent> = (1..=10).map(|i| Sent { sender: named(i), bytes: 10 }).collect();
        network.queue_blame = QueueBlame { bytes_ahead: 100, senders, ..QueueBlame::default() };
        let matrix = matrix(&snapshot, Wait::Uplink);
        assert_eq!(matrix.titles.last().unwrap(), "others %");
        assert_eq!(matrix.rows[0].0.last().unwrap(), "40.0");
    }
}
