//! What can be typed.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};

use crate::host::Host;
use crate::{domains, exit};

/// Finds, predicts and removes tail latency of virtual machines on shared hosts.
#[derive(Debug, Parser)]
#[command(name = "lowtail", version, propagate_version = true, after_help = exit::help())]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Options of every command.
#[derive(Debug, ClapArgs)]
#[command(next_help_heading = "Output")]
pub(crate) struct Global {
    /// Print JSON instead of tables
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Print nothing but JSON that is asked for, and errors; the exit code tells
    #[arg(long, short, global = true)]
    pub(crate) quiet: bool,
    /// Colours: auto (on a terminal, unless NO_COLOR is set), always or never
    #[arg(long, global = true, value_enum, default_value_t = Color::Auto, value_name = "WHEN")]
    #[arg(hide_possible_values = true)]
    pub(crate) color: Color,
}

/// When to use colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// Where a scenario is played.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum On {
    /// By the simulator
    Simulator,
    /// By this host's kernel, too
    Kernel,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// The simulator: published experiments and your own scenarios
    #[command(subcommand)]
    Lab(Lab),
    /// Schedules recorded on real hosts: who waited for whom, and why
    #[command(subcommand)]
    Trace(Trace),
    /// A live Linux host: what it offers, its machines, who waits for whom
    #[command(subcommand)]
    Host(Host),
    /// Print completions for a shell, to be put where the shell looks for them
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the man page, or write a page for each command into a directory
    Man {
        /// Directory for the pages; made if need be
        dir: Option<PathBuf>,
    },
}

/// `lowtail lab`.
#[derive(Debug, Subcommand)]
pub(crate) enum Lab {
    /// List the experiments
    List,
    /// Show what an experiment is about: source, notes, cases, claims
    Show {
        /// Name of an experiment, or path of a scenario file (ends in .toml)
        experiment: String,
        /// Print the scenario file itself, to start one of your own from
        #[arg(long)]
        toml: bool,
    },
    /// Run experiments; prints published figures beside ours and writes a report
    #[command(after_help = exit::help())]
    Run(LabRun),
    /// Search for guests that take more than their share, or make others wait
    #[command(after_help = exit::help())]
    Attack(LabAttack),
    /// Print the JSON Schema of scenario files
    Schema,
}

/// `lowtail lab run`.
#[derive(Debug, ClapArgs)]
pub(crate) struct LabRun {
    /// Names of experiments, or paths of scenario files (end in .toml)
    #[arg(required_unless_present_any = ["all", "domain_xml"], conflicts_with = "all")]
    #[arg(value_name = "NAME|PATH")]
    pub(crate) experiments: Vec<String>,
    /// Run every experiment of the catalogue
    #[arg(long)]
    pub(crate) all: bool,
    /// Machines of libvirt's (what `virsh dumpxml` prints) on a host, instead of experiments; all
    /// their vCPUs compute
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with_all = ["experiments", "all"])]
    pub(crate) domain_xml: Vec<PathBuf>,
    /// pCPUs of the host for --domain-xml [default: as many as here]
    #[arg(long, value_name = "N", requires = "domain_xml")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=128))]
    pub(crate) pcpus: Option<u16>,
    #[arg(long, value_name = "NAME", requires = "domain_xml", help = domains::scheduler_help())]
    pub(crate) scheduler: Option<String>,
    /// Version of the host's control groups for --domain-xml: with 1 `shares` are cpu.shares,
    /// with 2 cpu.weight [default: 2]
    #[arg(long, value_name = "1|2", requires = "domain_xml")]
    #[arg(value_parser = clap::value_parser!(u8).range(1..=2))]
    pub(crate) cgroup_version: Option<u8>,
    /// Print the scenario that --domain-xml comes to, to go on from, and run nothing
    #[arg(long, requires = "domain_xml")]
    pub(crate) print_toml: bool,
    /// Seed in place of the one in the file
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// Where: simulator; or kernel, the same scenario with threads in control groups of this host,
    /// beside the simulated one. Needs root; writes no report
    #[arg(long, value_enum, default_value_t = On::Simulator, value_name = "WHERE")]
    #[arg(hide_possible_values = true)]
    pub(crate) on: On,
    /// With --on kernel: seconds to measure each case at most
    #[arg(long, value_name = "N", default_value_t = 10)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub(crate) seconds: u32,
    /// With --on kernel: latencies are claimed, too, since the clock of this host counts
    /// instructions and nobody else is on it
    #[arg(long)]
    pub(crate) exact_clock: bool,
    /// Cases to run at the same time [default: one per processor]; results do not depend on it
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) jobs: Option<u16>,
    /// The longer form: more samples, steadier tails
    #[arg(long)]
    pub(crate) full: bool,
    /// Where to write the HTML report
    #[arg(long, value_name = "FILE", default_value = "lowtail-report.html")]
    pub(crate) report: PathBuf,
    /// Write no report
    #[arg(long, conflicts_with = "report")]
    pub(crate) no_report: bool,
    /// Run only this case; may be given several times. Claims about others are not judged
    #[arg(long, value_name = "NAME", conflicts_with = "all")]
    pub(crate) case: Vec<String>,
    /// Also write the end of each case's schedule, and how much waited at the ports of its
    /// network, into this file, for ui.perfetto.dev
    #[arg(long, value_name = "FILE")]
    pub(crate) perfetto: Option<PathBuf>,
    /// Also write the frames on links of one case's network into this file, for Wireshark
    #[arg(long, value_name = "FILE")]
    pub(crate) pcap: Option<PathBuf>,
    /// Which link: A is that from the NIC of machine A, to:A that from its switch; up:0, down:0
    /// and so on are those between switches. May be given several times [default for --pcap: both
    /// of the first machine; for --perfetto: both of the first 32]
    #[arg(long, value_name = "LINK")]
    pub(crate) link: Vec<String>,
    /// Frames of each link to write at most, the first ones
    #[arg(long, value_name = "N", default_value_t = 1_000_000, requires = "pcap")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    pub(crate) pcap_frames: u32,
}

/// `lowtail lab attack`.
#[derive(Debug, ClapArgs)]
pub(crate) struct LabAttack {
    /// Scheduler to attack, such as credit2-4.21, or all of a kind, such as credit2 [default: all]
    #[arg(long, value_name = "NAME")]
    pub(crate) scheduler: Option<String>,
    /// Seed of all random choices
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// How many random hosts to try
    #[arg(long, value_name = "RUNS", default_value_t = 200)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) budget: u32,
    /// Runs at the same time [default: one per processor]; results do not depend on it
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) jobs: Option<u16>,
    /// Also write the scenarios of what was found into this directory; made if need be
    #[arg(long, value_name = "DIR")]
    pub(crate) save: Option<PathBuf>,
}

/// `lowtail trace`.
#[derive(Debug, Subcommand)]
pub(crate) enum Trace {
    /// What is in a trace: span, pCPUs, domains, records by class, losses
    #[command(after_help = exit::help())]
    Info(TraceInput),
    /// How long each vCPU waited and ran, and who ran while it waited
    #[command(after_help = exit::help())]
    Latency(TraceInput),
    /// Write a trace in another format
    #[command(after_help = exit::help())]
    Export {
        #[command(flatten)]
        input: TraceInput,
        /// Write a Perfetto trace into this file (open it at ui.perfetto.dev)
        #[arg(long, value_name = "FILE")]
        perfetto: PathBuf,
    },
}

/// A recorded schedule.
#[derive(Debug, ClapArgs)]
pub(crate) struct TraceInput {
    /// What xentrace, `lowtail host record` or `perf sched record` wrote; `-` for standard input
    /// (not for export)
    pub(crate) file: PathBuf,
    /// Ticks per second of xentrace's time stamp counter [default: measured in the trace]; files
    /// of Linux hosts have nanoseconds
    #[arg(long, value_name = "HZ", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) cpu_hz: Option<u64>,
    /// Count a wake-up that came while its vCPU was being switched out as a preemption, as
    /// tools do that go by run states alone
    #[arg(long)]
    pub(crate) by_run_state: bool,
}
