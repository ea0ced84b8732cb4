//! What it looks like: program, command line, names of threads.

use std::convert::Infallible;
use std::ffi::CString;
use std::fs::File;
use std::io;

use nix::errno::Errno;
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::unistd::fexecve;

use crate::args::{Args, As};

/// What was typed, for the program that comes after `exec`; zero bytes cannot be in it.
const ARGS: &str = "LOWTAIL_STANDIN_ARGS";
/// Between arguments.
const BETWEEN: &str = "\u{1f}";

/// The arguments as they were typed, if this is the process with the other face already.
pub(crate) fn worn() -> Option<Vec<String>> {
    let typed = std::env::var(ARGS).ok()?;
    Some(typed.split(BETWEEN).map(String::from).collect())
}

/// Begins this process again with the program's name and the command line of a machine. The program is a copy in
/// memory, so that nothing is left whatever happens. Comes back only with an error.
pub(crate) fn wear(args: &Args) -> io::Error {
    let worn = || -> io::Result<Infallible> {
        let program = program(args);
        let copy = memfd_create(program, MFdFlags::MFD_CLOEXEC)?;
        let mut copy = File::from(copy);
        io::copy(&mut File::open("/proc/self/exe")?, &mut copy)?;
        let typed: Vec<String> = std::env::args().collect();
        let all = std::env::vars().filter(|(name, _)| name != ARGS);
        let all = all.map(|(name, value)| format!("{name}={value}"));
        let environment = all.chain([format!("{ARGS}={}", typed.join(BETWEEN))]);
        let strings = |list: Vec<String>| -> Result<Vec<CString>, _> {
            list.into_iter().map(|text| CString::new(text).map_err(|_| Errno::EINVAL)).collect()
        };
        Ok(fexecve(&copy, &strings(command_line(args))?, &strings(environment.collect())?)?)
    };
    match worn() {
        Err(error) => error,
        Ok(never) => match never {},
    }
}

/// The file's name.
pub(crate) fn program(args: &Args) -> &'static str {
    match args.like {
        As::Qemu | As::Libvirt => "qemu-system-x86_64",
        As::Firecracker => "firecracker",
        As::CloudHypervisor => "cloud-hypervisor",
    }
}

fn command_line(args: &Args) -> Vec<String> {
    let words = |text: String| text.split('\n').map(String::from).collect();
    let (program, name) = (program(args), &args.name);
    match args.like {
        As::Qemu | As::Libvirt => {
            let threads = if args.nameless { "off" } else { "on" };
            let name = name.replace(',', ",,");
            let mut line: Vec<String> = words(format!("{program}\n-S\n-name"));
            line.push(format!("guest={name},debug-threads={threads}"));
            line.extend(words(format!("-smp\n{}", args.vcpus)));
            line
        }
        As::Firecracker => vec![program.into(), "--id".into(), name.clone()],
        As::CloudHypervisor => {
            vec![program.into(), "--api-socket".into(), format!("/run/{name}.sock")]
        }
    }
}

/// A thread of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Vcpu(u16),
    Io(u16),
    Vhost,
    Worker,
}

/// The name that such a thread has with this kind of VM.
pub(crate) fn thread_name(args: &Args, part: Part) -> Option<String> {
    if let Part::Vhost = part {
        return Some(format!("vhost-{}", std::process::id()));
    }
    if args.nameless {
        return None;
    }
    let name = match (args.like, part) {
        (As::Qemu | As::Libvirt, Part::Vcpu(n)) => format!("CPU {n}/KVM"),
        // libvirt counts them from 1.
        (As::Qemu | As::Libvirt, Part::Io(n)) => format!("IO iothread{}", n + 1),
        (As::Qemu | As::Libvirt, _) => "worker".to_string(),
        (As::Firecracker, Part::Vcpu(n)) => format!("fc_vcpu {n}"),
        (As::Firecracker, _) => "fc_api".to_string(),
        (As::CloudHypervisor, Part::Vcpu(n)) => format!("vcpu{n}"),
        (As::CloudHypervisor, Part::Io(n)) => format!("_net0_qp{n}"),
        (As::CloudHypervisor, _) => "http-server".to_string(),
    };
    Some(name)
}
