//! What an observer of a live host has seen, interval after interval, as tables.
//!
//! `timestamp`, `vm`, `pid` and `started_ticks` together name a VM in an interval, in all tables.

mod blame;
mod causes;
mod drops;
mod findings;
mod histogram;
mod intervals;
mod senders;
mod threads;
mod throttled;
mod uplinks;
mod vms;
mod word;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use lowtail_observe::{Finding, Snapshot};

pub use blame::{blame, blame_schema};
pub use causes::{causes, causes_schema};
pub use drops::{drops, drops_schema};
pub use findings::{findings, findings_schema};
pub use intervals::{intervals, intervals_schema};
pub use senders::{senders, senders_schema};
pub use threads::{threads, threads_schema};
pub use throttled::{throttled, throttled_schema};
pub use uplinks::{uplinks, uplinks_schema};
pub use vms::{vms, vms_schema};

/// Name, meaning of a line and schema of each table.
pub fn tables() -> [(&'static str, &'static str, SchemaRef); 10] {
    [
        ("intervals", "An interval.", intervals_schema()),
        ("vms", "A VM in an interval.", vms_schema()),
        ("threads", "A thread of a VM in an interval.", threads_schema()),
        ("blame", "Who ran while a thread of a VM waited for a CPU.", blame_schema()),
        ("throttled", "A control group of a VM that its quota held up.", throttled_schema()),
        ("drops", "Packets of a VM that were dropped for one reason.", drops_schema()),
        (
            "senders",
            "What one has sent through an uplink or to a VM, or in front of its packets.",
            senders_schema(),
        ),
        ("uplinks", "An uplink in an interval.", uplinks_schema()),
        ("findings", "A finding in an interval: a trouble of a VM.", findings_schema()),
        ("causes", "Who causes a finding, most first.", causes_schema()),
    ]
}

/// All tables of one interval, in the order of [`tables()`].
pub fn batches(snapshot: &Snapshot, found: &[Finding]) -> [RecordBatch; 10] {
    let one = std::slice::from_ref(snapshot);
    let found = &[(snapshot, found)];
    [
        intervals(one),
        vms(one),
        threads(one),
        blame(one),
        throttled(one),
        drops(one),
        senders(one),
        uplinks(one),
        findings(found),
        causes(found),
    ]
}
