//! What can be typed.

use std::net::SocketAddr;

use clap::{Parser, ValueEnum};

use crate::load::Load;
use crate::nic::Ask;

/// Looks and behaves like a VM to its host, until SIGTERM or SIGINT
#[derive(Debug, Clone, Parser)]
#[command(name = "lowtail-standin", version)]
pub(crate) struct Args {
    /// Whose VM to look like
    #[arg(long = "as", value_enum, default_value_t = As::Qemu)]
    pub(crate) like: As,
    /// The VM's name
    #[arg(long, default_value = "standin")]
    pub(crate) name: String,
    /// vCPUs
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u16).range(0..=4096))]
    pub(crate) vcpus: u16,
    /// What the vCPUs do; the first one the first, and so on, the others the last
    #[arg(
        long = "do",
        value_name = "WHAT",
        value_enum,
        value_delimiter = ',',
        default_value = "sleep"
    )]
    pub(crate) what: Vec<Do>,
    /// serve: from one wake-up to the next, in microseconds
    #[arg(long, value_name = "US", default_value_t = 1000)]
    #[arg(value_parser = clap::value_parser!(u64).range(10..=10_000_000))]
    pub(crate) every: u64,
    /// serve: processor time for each wake-up, in microseconds
    #[arg(long, value_name = "US", default_value_t = 0)]
    #[arg(value_parser = clap::value_parser!(u64).range(0..=10_000_000))]
    pub(crate) work: u64,
    /// What the vCPUs do, the first one the first, and so on, in place of --do: burn, every:PERIOD:WORK, serve:INTERVAL:WORK,
    /// sleep:SLEEP:WORK, stage:WORK (when the one before has worked), in microseconds; ~500 is 500 on average
    #[arg(long, value_name = "LOAD", value_delimiter = ',')]
    pub(crate) load: Vec<Load>,
    /// What is by chance in loads
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// vCPU 0 echoes what comes here by UDP and TCP, instead of anything else
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) listen: Option<SocketAddr>,
    /// Pins vCPUs: the first one to the first CPU here, and so on, the others to the last
    #[arg(long, value_name = "CPU", value_delimiter = ',')]
    pub(crate) cpu: Vec<usize>,
    /// Control groups as libvirt makes them; `--as libvirt` has them anyhow. Needs root
    #[arg(long)]
    pub(crate) cgroup: bool,
    /// Which generation of libvirt's control groups
    #[arg(long, value_enum, default_value_t = Layout::Scope)]
    pub(crate) layout: Layout,
    /// Run time for the whole VM in each period, in microseconds; means --cgroup
    #[arg(long, value_name = "US")]
    pub(crate) quota: Option<u64>,
    /// Run time for each vCPU in each period, in microseconds; means --cgroup
    #[arg(long, value_name = "US")]
    pub(crate) vcpu_quota: Option<u64>,
    /// Period of the quotas, in microseconds
    #[arg(long, value_name = "US", default_value_t = 100_000)]
    pub(crate) period: u64,
    /// I/O threads; they sleep
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) io: u16,
    /// Threads that are called like vhost's; they sleep
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) vhost: u16,
    /// Workers of vhost, of the kernel's own; needs root and /dev/vhost-net
    #[arg(long, value_name = "N", default_value_t = 0)]
    #[arg(value_parser = clap::value_parser!(u16).range(0..=64))]
    pub(crate) vhost_net: u16,
    /// vCPUs of a real VM of KVM's, which halt; needs /dev/kvm. Their threads have names that say nothing
    #[arg(long, value_name = "N", default_value_t = 0)]
    #[arg(value_parser = clap::value_parser!(u16).range(0..=64))]
    pub(crate) kvm: u16,
    /// Other threads; they sleep
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) workers: u16,
    /// Threads have no names of their own, as with QEMU's debug-threads=off
    #[arg(long)]
    pub(crate) nameless: bool,
    /// Names of I/O threads end in the middle of a character, as where QEMU cuts a long one
    #[arg(long)]
    pub(crate) cut_names: bool,
    /// Holds this tap; one that does not exist is created, and goes with the process. Needs root
    #[arg(long, value_name = "INTERFACE")]
    pub(crate) tap: Vec<String>,
    /// vCPU 0 has a NIC on this tap that a worker of the kernel's vhost serves, and answers what stand-ins ask it, instead of anything
    /// else; a tap that does not exist is created. Needs root and /dev/vhost-net
    #[arg(long, value_name = "INTERFACE")]
    pub(crate) nic: Option<String>,
    /// It asks by its NIC instead: the stand-in on the tap TAP of the same bridge, each INTERVAL microseconds (~500 is 500 on
    /// average), BYTES of payload, so many at once (1). Its report has how long answers took
    #[arg(long, value_name = "TAP:INTERVAL:BYTES[:NUMBER]", requires = "nic")]
    pub(crate) ask: Option<Ask>,
    /// Ends by itself
    #[arg(long, value_name = "S")]
    pub(crate) seconds: Option<f64>,
    /// Ends when the process that has started it does
    #[arg(long)]
    pub(crate) with_parent: bool,
}

/// Whose VM it looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum As {
    /// QEMU with KVM
    Qemu,
    /// The same in libvirt's control groups
    Libvirt,
    /// Firecracker
    Firecracker,
    /// Cloud Hypervisor
    CloudHypervisor,
}

/// What a vCPU does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Do {
    /// Wakes by a timer, and notes how late it was
    Serve,
    /// Computes
    Burn,
    /// Nothing
    Sleep,
}

/// Which control groups libvirt makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Layout {
    /// machine.slice/machine-qemu\x2d1\x2dNAME.scope, with systemd
    Scope,
    /// machine/qemu-1-NAME.libvirt-qemu, without
    Machine,
    /// libvirt/qemu/NAME, before libvirt 1.0.5
    Old,
}
