//! What must hold between two events.

use super::loads::Shared;
use super::state::Fair;
use crate::host_state::HostState;
use crate::ids::Vcpu;

impl Fair {
    /// What is wrong with the books.
    pub(super) fn check_books(&self, host: &HostState) -> Result<(), String> {
        if self.queues.is_empty() {
            // No event has happened yet.
            return Ok(());
        }
        for e in 0..self.threads {
            self.check_thread(host, e)?;
        }
        (0..self.queues.len()).try_for_each(|q| self.check_queue(q))?;
        for (p, current) in host.current.iter().enumerate() {
            if self.cpus[p].current != current.map(|v| v.index()) {
                return Err(format!("pCPU {p} runs {current:?}: {:?}", self.cpus[p]));
            }
            let (cpu, root, load) = (&self.cpus[p], &self.queues[p], self.loads.of(p));
            let idles = cpu.current.is_none() && root.runnable == 0 && cpu.realtime.is_empty();
            if (load.load, load.runnable, self.loads.idles(p)) != (root.load, root.runnable, idles)
            {
                return Err(format!("pCPU {p} has {load:?}: {cpu:?} {root:?}"));
            }
        }
        let topology = &host.topology;
        for (shared, sets) in [(Shared::Cache, &topology.caches), (Shared::Node, &topology.nodes)] {
            for (number, set) in sets.iter().enumerate() {
                let load: u64 = set.iter().map(|p| self.queues[p.index()].load).sum();
                if load != self.loads.of_set(shared, number).load {
                    return Err(format!("{shared:?} {number} has load {load}: {:?}", self.loads));
                }
            }
        }
        for (group, state) in self.groups.iter().enumerate() {
            let pcpus = self.cpus.len();
            let load: u64 = (0..pcpus).map(|p| self.queues[group * pcpus + p].load).sum();
            if load != state.load {
                return Err(format!("group {group} has load {load}: {state:?}"));
            }
        }
        Ok(())
    }

    fn check_thread(&self, host: &HostState, e: usize) -> Result<(), String> {
        let (state, v) = (&host.vcpus[e], Vcpu(e as u16));
        let entity = &self.entities[e];
        let fail = |what: &str| Err(format!("{v:?} {what}: {state:?} {entity:?}"));
        let queued = if self.is_realtime(e) { self.tasks[e].waits } else { entity.queued };
        let in_limbo = self.tasks[e].in_limbo;
        if in_limbo && (queued || state.blocked || self.queues[entity.queue].throttles == 0) {
            return fail("is in limbo");
        }
        // One that wakes on its way out of a pCPU queues up when it has left.
        if state.runnable() && !queued && !in_limbo && !state.running {
            return fail("waits nowhere");
        }
        if state.blocked && queued && !entity.delayed {
            return fail("blocks in a queue");
        }
        if self.is_realtime(e) {
            let p = state.processor.index();
            let places = self.cpus[p].realtime.iter().filter(|&&other| other == e).count();
            return if places == usize::from(queued) {
                Ok(())
            } else {
                fail("is lined up wrongly")
            };
        }
        let p = self.queues[entity.queue].pcpu;
        if queued && p != state.processor.index() {
            return fail("queues elsewhere");
        }
        let places = self.cpus[p].threads.iter().filter(|&&other| other == e).count();
        if places != usize::from(queued) {
            return fail("is not where balancing looks for it");
        }
        Ok(())
    }

    fn check_queue(&self, q: usize) -> Result<(), String> {
        let queue = &self.queues[q];
        let fail = |what: &str| Err(format!("queue {q} {what}: {queue:?}"));
        let queued = queue.waiting.iter().copied().chain(self.running(q));
        let (mut entities, mut load, mut runnable) = (0, 0, 0);
        for e in queued {
            let entity = &self.entities[e];
            if entity.queue != q || !entity.queued {
                return fail("has a stranger");
            }
            (entities, load) = (entities + 1, load + entity.weight);
            runnable += match entity.my_queue {
                None => u32::from(!entity.delayed),
                Some(own) => {
                    let below = &self.queues[own];
                    if below.entities == 0 && !entity.delayed {
                        return fail("has an empty group");
                    }
                    if self.is_cut_off(own) {
                        return fail("has a throttled group");
                    }
                    below.runnable
                }
            };
        }
        if (entities, load, runnable) != (queue.entities, queue.load, queue.runnable) {
            return fail("is counted wrongly");
        }
        let entity = &self.entities[self.threads + q];
        let out = queue.group == 0 || self.is_cut_off(q) || queue.entities == 0;
        if !out && !entity.queued {
            return fail("is left out");
        }
        let mut throttles = 0;
        let mut group = queue.group;
        while group != 0 {
            let above = &self.queues[group * self.cpus.len() + queue.pcpu];
            throttles += u32::from(above.limited.throttled.is_some());
            group = self.groups[group].above;
        }
        if throttles != queue.throttles {
            return fail("is throttled otherwise");
        }
        Ok(())
    }
}
