//! Who sent how much, where.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use lowtail_observe::{Sent, Snapshot, VmSnapshot};

use super::word::sender;
use crate::column::{Column, Get};
use crate::table::{Once, batch};

/// What one has sent in an interval.
struct Row<'a> {
    snapshot: &'a Snapshot,
    place: &'static str,
    uplink: Option<&'a str>,
    vm: Option<&'a VmSnapshot>,
    sent: &'a Sent,
}

fn columns<'a>() -> Vec<Column<Row<'a>>> {
    vec![
        Column::new(
            "timestamp",
            "",
            "When the interval ended (UTC).",
            Get::Time(|row: &Row<'_>| row.snapshot.unix_ms),
        ),
        Column::new(
            "place",
            "",
            "`uplink`: what left by an uplink; `received`: what the VM's back end took from its taps; `ahead`: what left while packets of the VM that were followed waited for an uplink; `receive-ahead`: what was taken while packets to it that were followed waited in its taps.",
            Get::Text(|row| row.place),
        ),
        Column::new("uplink", "", "The uplink, of `uplink`.", Get::SomeText(|row| row.uplink)),
        Column::new(
            "vm",
            "",
            "The VM, of the others.",
            Get::SomeText(|row| row.vm.map(|vm| vm.name.as_given())),
        ),
        Column::new("pid", "", "Its process.", Get::SomeU32(|row| row.vm.map(|vm| vm.pid))),
        Column::new(
            "started_ticks",
            "",
            "When that started, in clock ticks since boot.",
            Get::SomeU64(|row| row.vm.map(|vm| vm.started_ticks)),
        ),
        Column::new(
            "sender",
            "",
            "Who sent: `vm`, `group` (a control group's processes), `interface` (others, that came in by it), `host` or `others`.",
            Get::Text(|row| sender(&row.sent.sender).0),
        ),
        Column::new(
            "sender_name",
            "",
            "The name of that VM, control group or interface.",
            Get::SomeText(|row| sender(&row.sent.sender).1),
        ),
        Column::new(
            "sender_pid",
            "",
            "The process of that VM.",
            Get::SomeU32(|row| sender(&row.sent.sender).2),
        ),
        Column::new("bytes", "bytes", "How many bytes.", Get::U64(|row| row.sent.bytes)),
    ]
}

/// The schema of [`senders`].
pub fn senders_schema() -> SchemaRef {
    static SCHEMA: Once = Once::new();
    SCHEMA.of(&columns())
}

/// Who sent how much through uplinks, to VMs and in front of their packets, in each interval.
pub fn senders(snapshots: &[Snapshot]) -> RecordBatch {
    let mut rows = Vec::new();
    for snapshot in snapshots {
        for uplink in &snapshot.uplinks {
            let name = Some(uplink.name.as_given());
            let of = |sent| Row { snapshot, place: "uplink", uplink: name, vm: None, sent };
            rows.extend(uplink.senders.iter().map(of));
        }
        for vm in &snapshot.vms {
            let Some(network) = &vm.network else { continue };
            for (place, all) in [
                ("received", &network.received_senders),
                ("ahead", &network.queue_blame.senders),
                ("receive-ahead", &network.receive_queue_blame.senders),
            ] {
                let of = |sent| Row { snapshot, place, uplink: None, vm: Some(vm), sent };
                rows.extend(all.iter().map(of));
            }
        }
    }
    batch(senders_schema(), &columns(), &rows)
}
