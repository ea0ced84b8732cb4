//! A recorded schedule, read whole.

use std::collections::HashMap;
use std::io::Read;

use lowtail_control::policy::{Policy, fits};
use lowtail_trace::events::{Left, RecordedHost, What, events};
use lowtail_trace::{Options, ThreadInfo};

use crate::blame::Blame;
use crate::cause::{Interrupts, Judgement, interrupts};
use crate::components::components;
use crate::error::Error;
use crate::history::{History, THREADS_MAX, Thread};
use crate::schedule::Experience;
use crate::shares::{self, Share};

/// The longest that is simulated, in seconds.
const SPAN_MAX_S: u64 = 600;

/// A recorded schedule: what its threads have done, and what they have experienced.
#[derive(Debug)]
pub struct Recording {
    /// What the recording says of its host.
    pub host: RecordedHost,
    pub(crate) history: History,
    /// All that is known of each thread, what it is called, and what it has experienced.
    pub(crate) infos: Vec<ThreadInfo>,
    pub(crate) names: Vec<String>,
    /// The VM of each thread, by its place in the host's list.
    pub(crate) vms: Vec<Option<usize>>,
    /// The lowest number of a thread that each has to do with.
    pub(crate) components: Vec<usize>,
    /// What the interrupts that woke each thread were.
    pub(crate) judged: Vec<Judgement>,
    pub(crate) experience: Vec<Experience>,
    /// Who ran while others waited.
    pub(crate) blame: Blame,
    /// Of each VM of a Xen host: its domain's number, and its weight and cap when it was recorded. Others have none.
    pub(crate) domains: Vec<Option<u16>>,
    pub(crate) shares: Vec<Share>,
    /// Whether the recording, or somebody else, says what those were.
    pub(crate) shares_known: bool,
    /// What was said of it and is not for Xen, in words.
    pub(crate) notes: Vec<String>,
    /// How many events it has.
    pub events: u64,
}

impl Recording {
    /// Reads a recording of `lowtail host record`, or perf.data.
    ///
    /// # Errors
    /// If it is damaged, of another kind, or has too many threads.
    pub fn read<R: Read>(input: R, options: &Options) -> Result<Self, Error> {
        let mut history = History::default();
        // Of threads that have ended, whose numbers may be others' since.
        let mut ended: HashMap<usize, (ThreadInfo, String)> = HashMap::new();
        let (mut count, mut room) = (0, true);
        let host = events(input, options, |event, now| {
            count += 1;
            if let What::Switch { prev, left: Left::Dead, .. } = event.what
                && let Some(thread) = history.number_of(prev)
            {
                ended.insert(thread, (now.thread(prev), now.name(prev)));
            }
            room = room && history.event(event);
            Ok(())
        })?;
        if !room {
            return Err(Error::Threads { max: THREADS_MAX });
        }
        let s = host.span_ns.1.saturating_sub(host.span_ns.0) / 1_000_000_000;
        if s > SPAN_MAX_S {
            return Err(Error::Span { s, max: SPAN_MAX_S });
        }
        let called = |(number, thread): (usize, &Thread)| {
            let now = host.names();
            ended.remove(&number).unwrap_or_else(|| (now.thread(thread.tid), now.name(thread.tid)))
        };
        let (infos, names): (Vec<ThreadInfo>, _) =
            history.threads.iter().enumerate().map(called).unzip();
        let numbers: HashMap<&str, usize> = host.vms.iter().map(String::as_str).zip(0..).collect();
        let vm = |info: &ThreadInfo| numbers.get(info.vm.as_deref()?).copied();
        let vms = infos.iter().map(vm).collect();
        let components = components(&history.threads);
        let judged = history.threads.iter().map(|thread| interrupts(&thread.segments)).collect();
        let experience = history.finish(host.span_ns.1);
        let blame = history.take_blame();
        let events = count;
        let (mut domains, mut shares, mut shares_known) = (Vec::new(), Vec::new(), false);
        if let Some(xen) = &host.xen {
            domains = host.vms.iter().map(|name| domain(name)).collect();
            shares = shares::recorded(xen, &domains);
            shares_known = !xen.shares.is_empty();
        }
        Ok(Recording {
            host,
            history,
            infos,
            names,
            vms,
            components,
            judged,
            experience,
            blame,
            domains,
            shares,
            shares_known,
            notes: Vec::new(),
            events,
        })
    }

    /// Calls domains of a Xen host by their names, which are not in the recording: pairs of `d1` and a name.
    ///
    /// # Errors
    /// If it has no such domain, is of a Linux host, or two would be called alike.
    pub fn rename(&mut self, names: &[(String, String)]) -> Result<(), Error> {
        let before = self.host.vms.clone();
        for (domain, name) in names {
            let vm = before.iter().position(|vm| vm == domain && self.host.xen.is_some());
            let Some(vm) = vm else {
                return Err(Error::NoVm { name: domain.clone(), known: before });
            };
            self.host.vms[vm].clone_from(name);
            let shown = lowtail_out::name(name);
            for (thread, of) in self.names.iter_mut().zip(&self.vms) {
                if *of == Some(vm)
                    && let Some(rest) = thread.strip_prefix(domain.as_str())
                {
                    *thread = format!("{shown}{rest}");
                }
            }
        }
        let vms = &self.host.vms;
        match vms.iter().enumerate().find(|(at, name)| vms[..*at].contains(name)) {
            Some((_, name)) => Err(Error::SameName { name: name.clone() }),
            None => Ok(()),
        }
    }

    /// Takes it that this policy was in force when a Xen host was recorded: its weights and caps.
    ///
    /// # Errors
    /// If the recording is of a Linux host, which says it itself.
    pub fn set_policy(&mut self, policy: &Policy) -> Result<(), Error> {
        if self.host.xen.is_none() {
            return Err(Error::NotXen { option: "--recorded-policy" });
        }
        let rules = shares::rules(policy, &self.sizes());
        let (shares, notes) = shares::under(&rules, &self.shares);
        (self.shares, self.shares_known, self.notes) = (shares, true, notes);
        Ok(())
    }

    /// Name of each VM, and how many vCPUs it has.
    pub(crate) fn sizes(&self) -> Vec<(String, usize)> {
        let vcpus = |vm: usize| self.vms.iter().filter(|of| **of == Some(vm)).count();
        self.host.vms.iter().enumerate().map(|(vm, name)| (name.clone(), vcpus(vm))).collect()
    }

    /// The number of a VM's domain, if it is one of Xen's.
    pub fn domain(&self, vm: &str) -> Option<u16> {
        let at = self.host.vms.iter().position(|name| name == vm)?;
        self.domains.get(at).copied().flatten()
    }

    /// Takes the interrupts that wake threads of these names for what is said here, whatever lowtail makes of them. In a name, as
    /// [`Causes`](crate::Causes) have it, `*` stands for any characters; of several that fit, the last one decides.
    ///
    /// # Errors
    /// If no thread has such a name.
    pub fn set_interrupts(&mut self, of: &[(String, Interrupts)]) -> Result<(), Error> {
        for (pattern, interrupts) in of {
            let mut found = false;
            for (name, judged) in self.names.iter().zip(&mut self.judged) {
                if fits(pattern, name) {
                    (found, *judged) = (true, Judgement::given(*interrupts));
                }
            }
            if !found {
                let known = self.names.iter().map(String::as_str);
                let hint = lowtail_config_text::hint(pattern, known);
                return Err(Error::NoThread { name: pattern.clone(), hint });
            }
        }
        Ok(())
    }

    /// How long it is, in nanoseconds.
    pub fn span_ns(&self) -> u64 {
        self.host.span_ns.1.saturating_sub(self.host.span_ns.0)
    }
}

/// The number of a domain that is called `d1`, as `trace` calls it.
fn domain(name: &str) -> Option<u16> {
    name.strip_prefix('d')?.parse().ok()
}
