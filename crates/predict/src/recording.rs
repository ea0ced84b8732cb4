//! A recorded schedule, read whole.

use std::collections::HashMap;
use std::io::Read;

use lowtail_control::policy::fits;
use lowtail_trace::events::{Left, RecordedHost, What, events};
use lowtail_trace::{Options, ThreadInfo};

use crate::blame::Blame;
use crate::cause::{Interrupts, Judgement, interrupts};
use crate::components::components;
use crate::error::Error;
use crate::history::{History, THREADS_MAX, Thread};
use crate::schedule::Experience;

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
            events,
        })
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
