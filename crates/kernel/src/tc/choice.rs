//! What suits an uplink, of what its kernel has: small first, delay of the rest kept down, long segments cut.

use std::fmt;

use super::bql::is_limited;
use super::link::{Facts, Link, Segments};
use super::options::{self, CUTTER};
use super::tree::{Node, Tree};
use super::{OWN_BANDS, OWN_PER_QUEUE, OWN_QUEUES, OWN_ROOT, ROOT};
use crate::Error;
use crate::Roots;

/// Bands of an uplink that VMs share: brief, small, the rest.
const BANDS: u32 = 3;
/// Bands of the rule (`LT_FLOW_BANDS` of `policy/flow.h`), of which all but two are the rest.
const RULE_BANDS: usize = 5;
/// Percent of a rate that we send at: only a queue that is here can be put in order. 1 % is what the other one needs to
/// run empty again; our choice, measured in docs/explanation/flow.md.
const SHARE_PERCENT: u64 = 99;
/// Bytes that may go at once, as time at the rate, us: longer than a timer is late, 1 ms. Else a rate is not reached
/// on a busy host.
const BURST_US: u64 = 1_000;
/// Who is behind a segment waits no longer than this for its end, us. Our choice; a frame of 1,514 bytes takes 121
/// us at 100 Mbit/s, a segment of 64 KB takes 5.2 ms.
const SEGMENT_US: u64 = 250;
/// The longest segment of TCP (`GSO_LEGACY_MAX_SIZE`), bytes.
const SEGMENT_MAX: u64 = 65_536;
/// The same as disciplines count it, with a header for each frame that it becomes (`qdisc_pkt_len_init`): 54 bytes of
/// Ethernet, IPv4 and TCP for each 536 bytes, the least that TCP has to send (RFC 9293), are 11 %.
const SEGMENT_WITH_HEADERS: u64 = SEGMENT_MAX + SEGMENT_MAX / 8;
/// Bytes of a header of Ethernet.
const ETHERNET: u64 = 14;
/// What may wait without an AQM, as time at the rate, us: a round trip of 50 ms can be filled by one connection.
const WAIT_US: u64 = 50_000;
/// The same in bytes where no rate is known: 2 MB, as the simulator's `small-first`.
const WAIT_BYTES: u64 = 2_000_000;
/// Priorities by which prio knows brief and small packets. The kernel itself gives no packet a priority above 7
/// (`rt_tos2priority`), and who is not privileged none above 6 (socket(7)).
const PRIO_BRIEF: u32 = 15;
const PRIO_SMALL: u32 = 14;
/// Bands where VMs have their own classes: small and the rest. Were brief ones before small ones, a VM that begins many flows would be
/// before another that sends little by one (`experiments/hostile-flows.toml`).
const VM_BANDS: u32 = 2;
/// Classes of each of these, 2^n, of which the host's has one: no two of up to 63 VMs share one. Our choice: some 130 disciplines.
const VM_CLASSES: u32 = 64;
/// Bytes of memory that packets of a VM in a band hold at most: an eighth of what fq_codel has by default, 32 MB, so that all VMs together
/// hold no more than 512 MB, if they flood and CoDel does not move them. A window of 4 MB is 30 ms at 1 Gbit/s.
const VM_MEMORY: u32 = 4 << 20;
/// From one VM's class to the next. The lower four bits are all that disciplines of others go by, at the
/// interfaces below an uplink such as a VLAN (`TC_PRIO_MAX`), so that they are the same for all VMs.
const VM_STEP: u32 = 16;
/// `TC_PRIO_INTERACTIVE` for small packets: they go first there, too (`prio2band` of `pfifo_fast`). All others are best effort, 0.
const VM_SMALL: u32 = 6;
/// The class that all of these are below where there is a rate: behind them.
const VM_RATE: u32 = 0x1000;
/// Queues for flows of a VM in a band, of fq_codel: 4 KB. FQ-CoDel's 1,024 are for all flows of a host (RFC 8290).
const VM_FLOWS: u32 = 64;

/// What an uplink is to have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Wanted {
    /// Rate of the narrowest link that all its traffic passes, bit/s, as the host counts bytes (with the header of
    /// Ethernet, without what only the wire has). `None`: the interface's own, so that packets wait here anyway.
    pub rate: Option<u64>,
    /// Only this form; else the best that the kernel has.
    pub shape: Option<Shape>,
    /// Who shall cut long segments.
    pub split: Split,
}

/// Who shall cut long segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Split {
    /// The discipline where a segment takes longer than a burst, else the host's TCP.
    #[default]
    Auto,
    /// The discipline, whatever the rate.
    Discipline,
    /// The host's TCP, whatever the rate; without one there is no length to go by.
    Segments,
    /// Nobody.
    Nobody,
}

/// What is around the bands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outer {
    /// cake does all of it: rate, bands, AQM, cutting.
    Cake,
    /// tbf limits the rate.
    Tbf,
    /// Bands for each of the interface's queues.
    Mq,
    /// Nothing.
    None,
}

/// What makes bands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Bands {
    /// prio.
    Prio,
    /// htb, with classes that differ in nothing but their priority.
    Htb,
    /// htb, with a class for each VM in each band. Those of a band take turns by bytes (deficit round robin), so that no VM owns
    /// a band.
    Vms,
}

/// What is in a band.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Queue {
    /// fq_codel.
    FqCodel,
    /// bfifo, where there is no AQM.
    Fifo,
}

/// A form of an uplink's disciplines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shape {
    /// Around the bands.
    pub outer: Outer,
    /// What makes them; nothing of it with cake.
    pub bands: Bands,
    /// What is in them; nothing of it with cake.
    pub queue: Queue,
}

/// What cuts long segments, so that small packets do not wait for their ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Splitting {
    /// The discipline, everybody's: those longer than a frame.
    Discipline,
    /// TCP of the host makes none longer than this, bytes; those of VMs stay whole.
    Segments(u32),
    /// Nobody.
    Nobody,
}

/// What was chosen for an uplink.
#[derive(Clone, Debug)]
pub struct Choice {
    /// The interface.
    pub link: Link,
    /// The form of its disciplines.
    pub shape: Shape,
    /// Bits per second that it sends at most, 99 % of what was asked for.
    pub rate: Option<u64>,
    /// What cuts segments.
    pub splitting: Splitting,
    /// The disciplines, as they will read once they are there.
    pub tree: Tree,
    /// How long segments are to be, if that is to be changed.
    pub segments: Option<Segments>,
    /// The priority that each band of the rule has to have.
    pub priorities: [u32; RULE_BANDS],
    /// Classes of each band, 2^n: the VM's number modulo this, times `vm_step`, is added to the band's priority. 1 if VMs share the
    /// band.
    pub vm_classes: u32,
    /// From the class of one VM to that of the next.
    pub vm_step: u32,
    /// Whether the bytes in its rings are limited (BQL). If not, packets wait there, behind all that is here, unless a
    /// rate keeps them here.
    pub limited: bool,
    /// Forms that would have been better, which this kernel does not have.
    pub without: Vec<Shape>,
}

impl Choice {
    /// The best for `link` that its kernel has. Each form is tried in a network namespace of its own, so that nothing
    /// here changes.
    ///
    /// # Errors
    /// If the interface is gone or not one of Ethernet, a rate is out of range, or nothing works; then why the last did not.
    pub fn find(link: &Link, wanted: &Wanted) -> Result<Self, Error> {
        let facts = link.present()?;
        let what = || format!("disciplines for {link}");
        if !facts.ethernet {
            return Err(Error::network(what(), "it is not an interface of Ethernet"));
        }
        if let Some(rate) = wanted.rate
            && !(1_000_000..=400_000_000_000).contains(&rate)
        {
            let why = format!("a rate of {rate} bit/s: 1 Mbit/s to 400 Gbit/s would be right");
            return Err(Error::network(what(), why));
        }
        let forms = wanted.shape.map_or_else(|| forms(&facts, wanted), |shape| vec![shape]);
        let mut without = Vec::new();
        let mut last = Error::network(what(), "there is no form to try");
        for shape in forms {
            let mut choice = Self::of(shape, &facts, wanted);
            match choice.tree.dry_run(link) {
                Ok(tree) => {
                    (choice.tree, choice.without) = (tree, without);
                    return Ok(choice);
                }
                Err(error) => last = error,
            }
            without.push(shape);
        }
        Err(last)
    }

    fn of(mut shape: Shape, facts: &Facts, wanted: &Wanted) -> Self {
        let rate = wanted.rate.map(|rate| rate / 100 * SHARE_PERCENT);
        // Bytes in a time at the rate.
        let bytes =
            |us: u64| rate.map(|rate| u64::try_from(u128::from(rate) * u128::from(us) / 8_000_000));
        let bytes = |us: u64| bytes(us).and_then(Result::ok);
        let frame = u64::from(facts.mtu) + ETHERNET;
        let cuts = match (shape.outer, wanted.split) {
            (Outer::Mq | Outer::None, _) | (_, Split::Segments | Split::Nobody) => false,
            // A tbf that only cuts is no faster than that.
            (Outer::Tbf, Split::Discipline) if shape.bands == Bands::Vms => {
                rate.is_some_and(|rate| rate / 8 < CUTTER.0)
            }
            (Outer::Cake | Outer::Tbf, Split::Discipline) => true,
            // Where a segment takes longer than a burst; elsewhere cutting is work for processors and of little use.
            (Outer::Cake | Outer::Tbf, Split::Auto) => {
                bytes(BURST_US).is_some_and(|burst| burst < SEGMENT_MAX)
            }
        };
        let shorter = bytes(SEGMENT_US).filter(|_| !cuts && wanted.split != Split::Nobody);
        let shorter = shorter.map(|most| most.max(frame));
        // Not by what is there now, which may be ours already; what was shorter before stays so: `manage::Network`.
        let segments = facts.segments.zip(shorter).and_then(|(now, most)| {
            let most = u32::try_from(most).ok().filter(|most| u64::from(*most) < SEGMENT_MAX)?;
            let gso_ipv4_max_size = now.gso_ipv4_max_size.map(|_| most);
            Some(Segments { gso_max_size: most, gso_ipv4_max_size, ..now })
        });
        let splitting = match segments {
            _ if cuts => Splitting::Discipline,
            Some(segments) => Splitting::Segments(segments.gso_max_size),
            None => Splitting::Nobody,
        };
        let mut tree = Tree::default();
        // A turn among large ones is no shorter than a packet, or who has long ones gets more. Among small ones it is as short as can
        // be: how many bytes these are is bounded by the rule.
        let turn = if cuts { frame } else { SEGMENT_WITH_HEADERS };
        let queue = Band {
            queue: shape.queue,
            turns: [frame, turn].map(|bytes| u32::try_from(bytes).unwrap_or(u32::MAX)),
            rate: None,
            limit: bytes(WAIT_US).unwrap_or(WAIT_BYTES).max(2 * SEGMENT_MAX),
        };
        let per_second = rate.unwrap_or_default() / 8;
        let mut priorities = priorities(shape, OWN_ROOT);
        match shape.outer {
            Outer::Cake => {
                let options = options::cake(per_second, cuts);
                tree.disciplines.push(Node::new(OWN_ROOT, ROOT, "cake", &options));
            }
            // htb holds the rate itself: it takes a packet when it may be sent. A tbf around it would take one before that, a long
            // one if no other waits, behind which the next small one waits. So tbf only cuts.
            Outer::Tbf if shape.bands == Bands::Vms => {
                let burst = bytes(BURST_US).unwrap_or_default().max(2 * frame);
                let band = Band { rate: Some((per_second, burst)), ..queue };
                if cuts {
                    let options = options::tbf(CUTTER.0, CUTTER.1, Some(frame));
                    tree.disciplines.push(Node::new(OWN_ROOT, ROOT, "tbf", &options));
                    bands(&mut tree, shape, (OWN_BANDS, OWN_ROOT | 1), OWN_QUEUES, band);
                    priorities = self::priorities(shape, OWN_BANDS);
                } else {
                    shape.outer = Outer::None;
                    bands(&mut tree, shape, (OWN_ROOT, ROOT), OWN_QUEUES, band);
                }
            }
            Outer::Tbf => {
                // tbf cuts what is longer than its burst.
                let least = if cuts { 2 * frame } else { SEGMENT_WITH_HEADERS };
                let burst = bytes(BURST_US).unwrap_or_default().max(least);
                let options = options::tbf(per_second, burst, cuts.then_some(frame));
                tree.disciplines.push(Node::new(OWN_ROOT, ROOT, "tbf", &options));
                bands(&mut tree, shape, (OWN_BANDS, OWN_ROOT | 1), OWN_QUEUES, queue);
                priorities = self::priorities(shape, OWN_BANDS);
            }
            Outer::Mq => {
                tree.disciplines.push(Node::new(OWN_ROOT, ROOT, "mq", &[]));
                for n in 0..facts.tx_queues {
                    let own = OWN_PER_QUEUE + ((n * (BANDS + 1)) << 16);
                    bands(&mut tree, shape, (own, OWN_ROOT | (n + 1)), own + (1 << 16), queue);
                }
            }
            Outer::None => bands(&mut tree, shape, (OWN_ROOT, ROOT), OWN_QUEUES, queue),
        }
        let link = facts.link.clone();
        let limited = is_limited(&Roots::default().sys, &link.name);
        let without = Vec::new();
        Choice {
            link,
            shape,
            rate,
            splitting,
            tree,
            segments,
            priorities,
            vm_classes: shape.bands.vm_classes(),
            vm_step: if shape.bands == Bands::Vms { VM_STEP } else { 0 },
            limited,
            without,
        }
    }
}

/// Forms, best first.
fn forms(facts: &Facts, wanted: &Wanted) -> Vec<Shape> {
    let by_vm = [(Bands::Vms, Queue::FqCodel), (Bands::Vms, Queue::Fifo)];
    let inner = [
        (Bands::Prio, Queue::FqCodel),
        (Bands::Htb, Queue::FqCodel),
        (Bands::Prio, Queue::Fifo),
        (Bands::Htb, Queue::Fifo),
    ];
    let around = |outer| inner.map(|(bands, queue)| Shape { outer, bands, queue });
    let by_vm = |outer| by_vm.map(|(bands, queue)| Shape { outer, bands, queue });
    match wanted.rate {
        Some(_) => {
            let cake = around(Outer::Cake)[0];
            by_vm(Outer::Tbf).into_iter().chain([cake]).chain(around(Outer::Tbf)).collect()
        }
        None => {
            // By its number a packet finds its band below any of them with prio only. Numbers are there for so many.
            let several = (2..=64).contains(&facts.tx_queues);
            let mq = around(Outer::Mq).into_iter().filter(|shape| shape.bands == Bands::Prio);
            let mq = mq.filter(|_| several);
            mq.chain(by_vm(Outer::None)).chain(around(Outer::None)).collect()
        }
    }
}

/// What is in a band, and how much of it.
#[derive(Clone, Copy)]
struct Band {
    queue: Queue,
    limit: u64,
    /// Bytes of a VM's turn in each of its bands.
    turns: [u32; VM_BANDS as usize],
    /// Bytes per second that all bands together send, and at once, where those of VMs hold them to a rate.
    rate: Option<(u64, u64)>,
}

/// Bands as `own`, and what is in them.
fn bands(tree: &mut Tree, shape: Shape, (own, parent): (u32, u32), first: u32, band: Band) {
    match shape.bands {
        Bands::Prio => {
            let mut map = [2; 16];
            map[PRIO_BRIEF as usize] = 0;
            map[PRIO_SMALL as usize] = 1;
            tree.disciplines.push(Node::new(own, parent, "prio", &options::prio(BANDS, map)));
        }
        Bands::Htb => {
            tree.disciplines.push(Node::new(own, parent, "htb", &options::htb(BANDS)));
            for n in 0..BANDS {
                let class = options::htb_class(n, 1 << 16);
                tree.classes.push(Node::new(own + n + 1, own, "htb", &class));
            }
        }
        Bands::Vms => {
            // What the tagger says nothing of is the host's, in the last band.
            let last = vm_class(VM_CLASSES);
            tree.disciplines.push(Node::new(own, parent, "htb", &options::htb(last)));
            let mut above = own;
            if let Some((rate, burst)) = band.rate {
                above = own + VM_RATE;
                tree.classes.push(Node::new(above, own, "htb", &options::htb_rate(rate, burst)));
            }
            for n in 0..VM_BANDS * VM_CLASSES {
                let prio = n / VM_CLASSES;
                let turn = band.turns[prio as usize];
                let class = match band.rate {
                    Some(_) => options::htb_borrower(prio, turn),
                    None => options::htb_class(prio, turn),
                };
                tree.classes.push(Node::new(own + vm_class(n), above, "htb", &class));
            }
        }
    }
    let limit = u32::try_from(band.limit).unwrap_or(u32::MAX);
    for n in 0..shape.bands.bands() * shape.bands.vm_classes() {
        let (kind, options) = match (band.queue, shape.bands) {
            (Queue::FqCodel, Bands::Vms) => ("fq_codel", options::fq_codel(VM_FLOWS, VM_MEMORY)),
            (Queue::FqCodel, _) => ("fq_codel", Vec::new()),
            (Queue::Fifo, _) => ("bfifo", options::bfifo(limit)),
        };
        let class = match shape.bands {
            Bands::Vms => vm_class(n),
            Bands::Prio | Bands::Htb => n + 1,
        };
        tree.disciplines.push(Node::new(first + (n << 16), own + class, kind, &options));
    }
}

impl Bands {
    /// How many there are.
    fn bands(self) -> u32 {
        match self {
            Bands::Vms => VM_BANDS,
            Bands::Prio | Bands::Htb => BANDS,
        }
    }

    /// [`Choice::vm_classes`].
    fn vm_classes(self) -> u32 {
        match self {
            Bands::Vms => VM_CLASSES,
            Bands::Prio | Bands::Htb => 1,
        }
    }
}

/// The number of class `n` of those of VMs: all of the band of small packets, then all of the other one.
fn vm_class(n: u32) -> u32 {
    n * VM_STEP + if n < VM_CLASSES { VM_SMALL } else { 0 }
}

/// Which priority finds which band of a discipline.
fn priorities(shape: Shape, own: u32) -> [u32; RULE_BANDS] {
    match (shape.outer, shape.bands) {
        // Its third tin is for voice; small is bounded by the rule as voice is.
        (Outer::Cake, _) => [own | 3, own | 3, own | 2, own | 2, own | 2],
        (_, Bands::Prio) => [PRIO_BRIEF, PRIO_SMALL, 0, 0, 0],
        (_, Bands::Htb) => [own | 1, own | 2, own | 3, own | 3, own | 3],
        (_, Bands::Vms) => [0, 0, 1, 1, 1].map(|band| own | vm_class(band * VM_CLASSES)),
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bands = match self.bands {
            Bands::Prio => "prio",
            Bands::Htb => "htb",
            Bands::Vms => "htb by VM",
        };
        let queue = match self.queue {
            Queue::FqCodel => "fq_codel",
            Queue::Fifo => "bfifo",
        };
        match self.outer {
            Outer::Cake => write!(f, "cake"),
            Outer::Tbf => write!(f, "tbf, {bands}, {queue}"),
            Outer::Mq => write!(f, "mq, {bands}, {queue}"),
            Outer::None => write!(f, "{bands}, {queue}"),
        }
    }
}

impl fmt::Display for Splitting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Splitting::Discipline => write!(f, "the discipline cuts long segments into frames"),
            Splitting::Segments(bytes) => write!(
                f,
                "TCP of this host makes segments of {bytes} bytes at most; those of VMs stay whole"
            ),
            Splitting::Nobody => write!(f, "long segments stay whole"),
        }
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.link, self.shape)?;
        if let Some(rate) = self.rate {
            write!(f, " at {} Mbit/s", rate as f64 / 1e6)?;
        }
        write!(f, "; {}", self.splitting)?;
        if self.rate.is_none() && !self.limited {
            write!(f, "; nothing limits its ring (BQL), in which packets wait in no order")?;
        }
        if !self.without.is_empty() {
            let without: Vec<String> = self.without.iter().map(ToString::to_string).collect();
            write!(f, " (this kernel has no {})", without.join("; no "))?;
        }
        Ok(())
    }
}
