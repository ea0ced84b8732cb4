//! Options of the commands of `lowtail lab`.

use std::path::PathBuf;

use clap::Args;
use lowtail_lab::{Override, RunOptions, Watch};
use lowtail_play::report::{SECONDS, STARTS, Settings};

/// Scheduler of the host for `--domain-xml` where the command names none.
pub(super) const SCHEDULER: &str = "eevdf-6.12";

/// Records kept of each case's schedule for `--perfetto` and `--schedules`: 1 MiB, and seconds of most schedules.
const RECORDS: usize = 1 << 16;

/// Where a scenario is played.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum On {
    /// By the simulator.
    Simulator,
    /// By this host's kernel, too.
    Kernel,
    /// By guests of the Xen of which this is dom0, too.
    Dom0,
    /// By those of one of this series, booted under QEMU, too.
    Xen(String),
}

impl std::str::FromStr for On {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let wrong = || "simulator, kernel, xen, xen=VERSION, or dom0".to_string();
        match word {
            "simulator" => Ok(On::Simulator),
            _ if word.starts_with("guest") => Err(wrong()),
            _ => match word.parse() {
                Ok(CheckOn::Kernel) => Ok(On::Kernel),
                Ok(CheckOn::Dom0) => Ok(On::Dom0),
                Ok(CheckOn::Xen(series)) => Ok(On::Xen(series)),
                Err(why) if word.starts_with("xen=") => Err(why),
                Ok(CheckOn::Guest(_)) | Err(_) => Err(wrong()),
            },
        }
    }
}

impl std::fmt::Display for On {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            On::Simulator => f.write_str("simulator"),
            On::Kernel => f.write_str("kernel"),
            On::Dom0 => f.write_str("dom0"),
            On::Xen(series) => write!(f, "xen={series}"),
        }
    }
}

/// `lowtail lab run`.
#[derive(Debug, Args)]
pub(crate) struct LabRun {
    /// Names of experiments, or paths of scenario files (end in .toml)
    #[arg(required_unless_present_any = ["all", "domain_xml"], conflicts_with = "all")]
    #[arg(value_name = "NAME|PATH")]
    pub(super) experiments: Vec<String>,
    /// Run every experiment of the catalogue
    #[arg(long)]
    pub(super) all: bool,
    /// Simulate these libvirt domains (what `virsh dumpxml` prints) on one host instead of
    /// experiments; all their vCPUs compute
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with_all = ["experiments", "all"])]
    pub(super) domain_xml: Vec<PathBuf>,
    /// pCPUs of the host for --domain-xml [default: as many as here]
    #[arg(long, value_name = "N", requires = "domain_xml")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(super) pcpus: Option<u16>,
    /// What the pCPUs of the host for --domain-xml share, and how many there are: what `virsh capabilities` prints, or a copy of
    /// /proc/cpuinfo
    #[arg(long, value_name = "FILE", requires = "domain_xml", conflicts_with = "pcpus")]
    pub(super) topology: Option<PathBuf>,
    #[arg(long, value_name = "NAME", requires = "domain_xml", help = scheduler_help())]
    pub(super) scheduler: Option<String>,
    /// Version of the host's control groups for --domain-xml: with 1 `shares` are cpu.shares,
    /// with 2 cpu.weight [default: 2]
    #[arg(long, value_name = "1|2", requires = "domain_xml")]
    #[arg(value_parser = clap::value_parser!(u8).range(1..=2))]
    pub(super) cgroup_version: Option<u8>,
    /// Print the scenario that --domain-xml makes, and run nothing
    #[arg(long, requires = "domain_xml")]
    pub(super) print_toml: bool,
    /// Seed in place of the one in the file
    #[arg(long, value_name = "N")]
    pub(super) seed: Option<u64>,
    /// Run each case with N seeds in a row, and show means
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=100))]
    pub(super) seeds: Option<u16>,
    /// Set a value in place of the file's, such as host.pcpus=4, case.0.name=x or 'duration=10s'; repeat for more
    #[arg(long, value_name = "KEY=VALUE", conflicts_with_all = ["all", "domain_xml"])]
    pub(super) set: Vec<Override>,
    /// Where to run: simulator; or kernel, which also plays the scenario with threads in control
    /// groups of this host; or xen, with guests of a Xen 4.20 that lowtail boots under QEMU, or xen=4.17; or dom0,
    /// with guests of the Xen of which this is the control domain. kernel and dom0 need root; none of them writes a report
    #[arg(long, default_value = "simulator", value_name = "WHERE")]
    pub(super) on: On,
    /// With --on: seconds to measure each case at most
    #[arg(long, value_name = "N", default_value_t = 10)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub(super) seconds: u32,
    /// With --on kernel or dom0: also judge claims about latency; the host needs a clock that counts
    /// instructions, and nobody else on it. With --on xen it has
    #[arg(long)]
    pub(super) exact_clock: bool,
    /// Cases to run at the same time [default: one per processor]; results do not depend on it
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(super) jobs: Option<u16>,
    /// Run the longer form: more samples, steadier tails
    #[arg(long)]
    pub(super) full: bool,
    /// Where to write the HTML report
    #[arg(long, value_name = "FILE", default_value = "lowtail-report.html")]
    pub(super) report: PathBuf,
    /// Write no report
    #[arg(long, conflicts_with = "report")]
    pub(super) no_report: bool,
    /// Also draw the distributions of the one experiment, of eight cases at most, into this file (SVG)
    #[arg(long, value_name = "FILE", conflicts_with = "all")]
    pub(super) chart: Option<PathBuf>,
    /// Also write all tables as Markdown into this file
    #[arg(long, value_name = "FILE")]
    pub(super) markdown: Option<PathBuf>,
    /// Also write the claims alone as Markdown into this file
    #[arg(long, value_name = "FILE")]
    pub(super) claims: Option<PathBuf>,
    /// Run only this case; repeat for more. Claims about others are not judged
    #[arg(long, value_name = "NAME", conflicts_with = "all")]
    pub(super) case: Vec<String>,
    /// Also write the end of each case's schedule, and how much waited at the ports of its
    /// network, into this file, for ui.perfetto.dev
    #[arg(long, value_name = "FILE")]
    pub(super) perfetto: Option<PathBuf>,
    /// Also write the frames on links of one case's network into this file, for Wireshark
    #[arg(long, value_name = "FILE")]
    pub(super) pcap: Option<PathBuf>,
    /// Also write when each transfer of a list (`flows` in the file) was complete, with the first
    /// seed, into this file (CSV)
    #[arg(long, value_name = "FILE")]
    pub(super) completions: Option<PathBuf>,
    /// Also show whose bytes were in front of whose packets at each queue: of a network, of a host's links, of back ends; with the
    /// first seed, in the table, --json and the report
    #[arg(long)]
    pub(super) blame: bool,
    /// Also write all tables into this directory, as Parquet files: rows, claims, distributions, schedules, queues, completions;
    /// lowtail creates it. docs/reference/parquet.md has their columns
    #[arg(long, value_name = "DIR")]
    pub(super) parquet: Option<PathBuf>,
    /// With --parquet: also the end of each case's schedule, and how much waited at the ports of its network
    #[arg(long, requires = "parquet")]
    pub(super) schedules: bool,
    /// Which link: A is that from the NIC of host A, to:A that from its switch; up:0, down:0
    /// and so on are those between switches. Repeat for more [default for --pcap: both
    /// of the first host; for --perfetto and --schedules: both of the first 32]
    #[arg(long, value_name = "LINK")]
    pub(super) link: Vec<String>,
    /// Frames of each link to write at most, the first ones
    #[arg(long, value_name = "N", default_value_t = 1_000_000, requires = "pcap")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    pub(super) pcap_frames: u32,
}

/// `lowtail lab attack`.
#[derive(Debug, Args)]
pub(crate) struct LabAttack {
    /// Scheduler to attack, such as credit2-4.21, or all of a kind, such as credit2 [default: all]
    #[arg(long, value_name = "NAME")]
    pub(super) scheduler: Option<String>,
    /// Attack the queue of an uplink instead: fifo, fq-codel, cake or small-first, or all
    #[arg(long, value_name = "NAME", conflicts_with = "scheduler")]
    pub(super) queue: Option<String>,
    /// Seed of all random choices
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) seed: u64,
    /// How many random hosts to try
    #[arg(long, value_name = "RUNS", default_value_t = 200)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(super) budget: u32,
    /// Runs at the same time [default: one per processor]; results do not depend on it
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(super) jobs: Option<u16>,
    /// Also write the scenarios of what was found into this directory; lowtail creates it
    #[arg(long, value_name = "DIR")]
    pub(super) save: Option<PathBuf>,
}

/// By what a random scenario is checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CheckOn {
    /// The kernel of this host.
    Kernel,
    /// One of this series, in a guest.
    Guest(String),
    /// The Xen of which this is dom0.
    Dom0,
    /// One of this series, booted under QEMU.
    Xen(String),
}

impl CheckOn {
    /// Whether that is a Xen.
    pub(super) fn is_xen(&self) -> bool {
        matches!(self, CheckOn::Dom0 | CheckOn::Xen(_))
    }
}

/// Series of kernels that a guest can have; the first is the default.
const SERIES: [&str; 6] = ["6.18", "6.1", "6.12", "6.16", "6.17", "7"];
/// The same of Xen.
const XEN_SERIES: [&str; 2] = ["4.20", "4.17"];

impl std::str::FromStr for CheckOn {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let known = |series: &str, all: &[&str], what: &str| {
            let wrong = || format!("no {what} {series}: {}", all.join(", "));
            if all.contains(&series) { Ok(series.to_string()) } else { Err(wrong()) }
        };
        let (place, series) = word.split_once('=').map_or((word, None), |(a, b)| (a, Some(b)));
        match (place, series) {
            ("kernel", None) => Ok(CheckOn::Kernel),
            ("dom0", None) => Ok(CheckOn::Dom0),
            ("guest", series) => {
                known(series.unwrap_or(SERIES[0]), &SERIES, "kernel").map(CheckOn::Guest)
            }
            ("xen", series) => {
                known(series.unwrap_or(XEN_SERIES[0]), &XEN_SERIES, "Xen").map(CheckOn::Xen)
            }
            _ => Err("kernel, guest, guest=VERSION, xen, xen=VERSION, or dom0".into()),
        }
    }
}

impl std::fmt::Display for CheckOn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            CheckOn::Kernel => f.write_str("kernel"),
            CheckOn::Guest(series) => write!(f, "guest={series}"),
            CheckOn::Dom0 => f.write_str("dom0"),
            CheckOn::Xen(series) => write!(f, "xen={series}"),
        }
    }
}

/// `lowtail lab sensitivity`.
#[derive(Debug, Args)]
pub(crate) struct LabSensitivity {
    /// Name of an experiment, or path of a scenario file (ends in .toml)
    #[arg(value_name = "NAME|PATH")]
    pub(super) experiment: String,
    /// By how many percent each cost is moved, down and up
    #[arg(long, value_name = "PERCENT", default_value_t = 20)]
    #[arg(value_parser = clap::value_parser!(u8).range(1..=99))]
    pub(super) by: u8,
    /// Seed in place of the one in the file
    #[arg(long, value_name = "N")]
    pub(super) seed: Option<u64>,
    /// Judge by N seeds in a row each time
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=100))]
    pub(super) seeds: Option<u16>,
    /// Cases to run at the same time [default: one per processor]; results do not depend on it
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(super) jobs: Option<u16>,
}

/// `lowtail lab check`.
#[derive(Debug, Args)]
pub(crate) struct LabCheck {
    /// Where: kernel, which is this host's, as root; guest, a Linux 6.18 that lowtail boots under QEMU with a clock that
    /// counts instructions, or guest=6.1, 6.12, 6.16, 6.17, 7; xen, a Xen 4.20 that it boots likewise, or xen=4.17; or dom0, the Xen
    /// of which this is the control domain
    #[arg(long, value_name = "WHERE", default_value = "guest")]
    pub(super) on: CheckOn,
    /// Seed of all random choices
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) seed: u64,
    /// How many random scenarios
    #[arg(long, value_name = "N", default_value_t = 20)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(super) scenarios: u32,
    /// Number of the first one
    #[arg(long, value_name = "K", default_value_t = 0)]
    pub(super) first: u32,
    /// Only this one
    #[arg(long, value_name = "K", conflicts_with_all = ["scenarios", "first"])]
    pub(super) only: Option<u32>,
    /// How often each is played, threads starting in other phases each time; all that is measured counts together
    #[arg(long, value_name = "N", default_value_t = STARTS)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=100))]
    pub(super) starts: u16,
    /// How often at most: a scenario is played twice, four times as often, and so on, as long as the simulator's own figures differ
    /// from one set of starts to another by more than the goals of fidelity allow [default: as --starts]
    #[arg(long, value_name = "N", conflicts_with = "networks")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=100))]
    pub(super) starts_max: Option<u16>,
    /// Seconds to measure each time
    #[arg(long, value_name = "N", default_value_t = SECONDS)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=600))]
    pub(super) seconds: u16,
    /// Networks, of namespaces, virtual links and bridges, in place of VMs on CPUs; each takes the six seconds of its scenario.
    /// Needs iproute2
    #[arg(long, conflicts_with = "twice")]
    pub(super) networks: bool,
    /// Small-first schedules the VMs, in place of the kernel's own scheduler: with weights and caps, on one CPU. Needs a kernel with
    /// sched_ext
    #[arg(long, conflicts_with = "networks")]
    pub(super) small_first: bool,
    /// With --on kernel: the host's clock counts instructions, and nobody else is on it
    #[arg(long)]
    pub(super) exact_clock: bool,
    /// The kernel twice, with other seeds, in place of the simulator: how near figures can be at best
    #[arg(long)]
    pub(super) twice: bool,
    /// Guests at the same time [default: one per processor]
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(super) jobs: Option<u16>,
    /// Also write the scenarios into this directory; lowtail creates it
    #[arg(long, value_name = "DIR")]
    pub(super) save: Option<PathBuf>,
    /// Also write all figures into this file (JSON), a line for each scenario: what `lab fidelity` reads
    #[arg(long, value_name = "FILE")]
    pub(super) report: Option<PathBuf>,
}

/// `lowtail lab fidelity`.
#[derive(Debug, Args)]
pub(crate) struct LabFidelity {
    /// Reports that `lab check --report FILE` or `lab check --json` has written, one of each system
    #[arg(required = true, value_name = "REPORT.json")]
    pub(super) reports: Vec<PathBuf>,
    /// A file with causes of errors (TOML), shown beside the worst figures. A cause of a figure that no report has
    /// is an error
    #[arg(long, value_name = "FILE")]
    pub(super) causes: Option<PathBuf>,
    /// Also draw the errors of each system into this directory (SVG), and link the pictures; lowtail creates it. The links are
    /// right if the page is in the directory from which lowtail runs
    #[arg(long, value_name = "DIR")]
    pub(super) pictures: Option<PathBuf>,
}

impl LabCheck {
    /// How often each scenario is played at most.
    pub(super) fn most_starts(&self) -> u16 {
        self.starts_max.map_or(self.starts, |most| most.max(self.starts))
    }

    /// What repeats it.
    pub(super) fn settings(&self) -> Settings {
        Settings {
            on: self.on.to_string(),
            seed: self.seed,
            starts: self.starts,
            starts_max: self.starts_max,
            seconds: self.seconds,
            exact_clock: self.exact_clock,
            twice: self.twice,
            networks: self.networks,
            small_first: self.small_first,
        }
    }
}

impl LabRun {
    /// Whether schedules and queues are asked for.
    fn records(&self) -> bool {
        self.perfetto.is_some() || self.schedules
    }

    /// What the simulator is asked for, on `jobs` threads.
    pub(super) fn options(&self, jobs: usize) -> RunOptions {
        let watch = Watch {
            links: self.link.clone(),
            frames: self.pcap.as_ref().map_or(0, |_| self.pcap_frames as usize),
            queues: self.records(),
        };
        RunOptions {
            seed: self.seed,
            seeds: self.seeds,
            jobs,
            full: self.full,
            record: if self.records() { RECORDS } else { 0 },
            cases: self.case.clone(),
            watch,
            completions: self.completions.is_some() || self.parquet.is_some(),
            blame: self.blame,
        }
    }
}

/// Processors that this process may use, one if that cannot be found out.
pub(super) fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// What `--scheduler` is.
fn scheduler_help() -> String {
    format!("Scheduler of the host for --domain-xml [default: {SCHEDULER}]")
}
