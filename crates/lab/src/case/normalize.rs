//! The tree of a scenario in the form that serde reads.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::error::SpanError;
use crate::tree::{self, Node};

/// `costs = "name"` becomes `costs = { file = "name" }`, so that single costs can be set.
pub(super) fn normalize_costs(root: &mut Node<'_>) {
    let Some(host) = tree::table_mut(root).and_then(|root| root.get_mut("host")) else { return };
    let Some(costs) = tree::table_mut(host).and_then(|host| host.get_mut("costs")) else { return };
    if costs.get_ref().is_str() {
        let span = costs.span();
        let name = std::mem::replace(costs, Spanned::new(span.clone(), DeValue::Boolean(false)));
        let mut file = DeTable::new();
        file.insert(Spanned::new(span.clone(), "file".into()), name);
        *costs = Spanned::new(span, DeValue::Table(file));
    }
}

/// Brings a tree into the form that serde reads.
pub(crate) fn normalize(root: &mut Node<'_>) -> Result<(), SpanError> {
    normalize_costs(root);
    let Some(root) = tree::table_mut(root) else { return Ok(()) };
    let host = root.get_mut("host").and_then(tree::table_mut);
    if let Some(scheduler) = host.and_then(|host| host.get_mut("scheduler")) {
        tree::tag(scheduler, "scheduler", "credit, credit2, null or small-first")?;
    }
    if let Some(network) = root.get_mut("network").and_then(tree::table_mut) {
        if let Some(topology) = network.get_mut("topology") {
            tree::tag(topology, "topology", "star, dumbbell, fat-tree or tree")?;
        }
        for key in ["queue", "switch"] {
            network.get_mut(key).map_or(Ok(()), normalize_queue)?;
        }
    }
    let traffic = root.get_mut("traffic").and_then(tree::table_mut);
    for (_, kind) in traffic.into_iter().flatten() {
        if let Some(pattern) = tree::table_mut(kind).and_then(|kind| kind.get_mut("pattern")) {
            let kinds = "bulk, transfer, messages, requests, ping or datagrams";
            tree::tag(pattern, "pattern", kinds)?;
        }
    }
    let vms = root.get_mut("vm").and_then(tree::table_mut);
    for (_, vm) in vms.into_iter().flatten() {
        normalize_workload(vm)?;
        let Some(vm) = tree::table_mut(vm) else { continue };
        for key in ["emulator", "iothreads", "vhost"] {
            vm.get_mut(key).map_or(Ok(()), normalize_workload)?;
        }
        if let Some(DeValue::Array(threads)) = vm.get_mut("iothread").map(Spanned::get_mut) {
            threads.iter_mut().try_for_each(normalize_workload)?;
        }
    }
    Ok(())
}

/// What a VM, or a thread, does.
fn normalize_workload(node: &mut Node<'_>) -> Result<(), SpanError> {
    let workload = tree::table_mut(node).and_then(|table| table.get_mut("workload"));
    workload.map_or(Ok(()), |workload| {
        let kinds = "cpu-loop, duty-hog, request-server, timer-sleeper, yielder, tick-dodger, \
                     boost-saver, wake-storm, bucket-surfer, splitter, edge-burner, \
                     driver-domain, net-guest or vhost";
        tree::tag(workload, "workload", kinds)
    })
}

/// A discipline, and those within it.
fn normalize_queue(node: &mut Node<'_>) -> Result<(), SpanError> {
    if let Some(inner) = tree::table_mut(node).and_then(|queue| queue.get_mut("queue")) {
        normalize_queue(inner)?;
    }
    tree::tag(node, "queue", crate::network::queue::KINDS)
}
