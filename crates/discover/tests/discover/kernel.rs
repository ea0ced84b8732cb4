//! The real kernel: stand-ins of each kind, thousands of threads, a QEMU.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use lowtail_discover::{Found, Kind, Role, Scanner, Vm, scan};
use lowtail_kernel::Roots;
use lowtail_kernel::cgroup::Hierarchy;
use lowtail_standin::{Standin, start};
use lowtail_testkit::switches::reads;
use serde_json::Value;

use super::{has, is_root, roles, skip, vm};

fn look() -> Found {
    scan(&Roots::default(), &[])
}

fn of(found: &Found, pid: u32) -> &Vm {
    let vm = found.vms.iter().find(|vm| vm.pid == pid);
    vm.unwrap_or_else(|| panic!("no VM of process {pid}: {found:#?}"))
}

/// What each thread does, by the numbers that the stand-in gives.
#[test]
fn stand_ins_of_each_kind() {
    for (like, kind, name, io) in [
        ("qemu", Kind::Qemu, "s-1", Role::IoThread(1)),
        ("firecracker", Kind::Firecracker, "s-2", Role::Worker),
        ("cloud-hypervisor", Kind::CloudHypervisor, "s-3", Role::IoThread(0)),
    ] {
        let args = format!("--as {like} --name {name} --vcpus 2 --io 1 --vhost 1 --workers 1");
        let standin = start(&args).expect("it begins");
        let found = look();
        let vm = of(&found, standin.begun.pid);
        assert_eq!((vm.kind, vm.name.as_given()), (kind, name));
        let own: Vec<u32> = standin.begun.threads.iter().map(|(tid, _)| *tid).collect();
        let does = [Role::Vcpu(0), Role::Vcpu(1), io, Role::Vhost(0), Role::Worker];
        let main = (standin.begun.pid, Role::Emulator);
        let mut wanted: Vec<(u32, Role)> = own.into_iter().zip(does).chain([main]).collect();
        wanted.sort_unstable_by_key(|(tid, _)| *tid);
        assert_eq!(roles(vm), wanted, "{like}");
    }
}

/// The real kernel's control groups, in each of libvirt's layouts; each group's files are where it is said.
#[test]
fn libvirt_groups() {
    if skip((!is_root() || Hierarchy::find().is_err()).then_some("not root, or no control groups"))
    {
        return;
    }
    for layout in ["scope", "machine", "old"] {
        let args = format!(
            "--as libvirt --layout {layout} --name g_{layout} --vcpus 2 --io 1 --quota 90000 --vcpu-quota 50000"
        );
        let standin = start(&args).expect("it begins");
        let found = look();
        let vm = of(&found, standin.begun.pid);
        assert_eq!((vm.kind, vm.name.as_given()), (Kind::Libvirt, format!("g_{layout}").as_str()));
        let root = &found.hierarchy.as_ref().expect("one").root;
        let cgroup = root.join(vm.cgroup.as_ref().expect("one"));
        assert_eq!(Some(cgroup.display().to_string()), standin.begun.cgroup);
        for label in ["all", "vcpu0", "vcpu1", "emulator", "iothread1"] {
            let group = vm.groups.iter().find(|group| group.label.as_given() == label);
            let group = group.unwrap_or_else(|| panic!("no {label}: {:?}", vm.groups));
            assert!(!group.shared);
            let stat = std::fs::read_to_string(root.join(&group.path).join("cpu.stat"));
            assert!(stat.expect("it is there").contains("nr_throttled"));
        }
        // xattr(7): `trusted` is root's; what is there under other names is no label.
        let long = "x".repeat(2_000);
        for (name, value) in [
            ("trusted.lowtail.tier", " front "),
            ("trusted.lowtail.long", &long),
            ("trusted.other", "no"),
            ("trusted.lowtail.", "no"),
        ] {
            let flags = rustix::fs::XattrFlags::empty();
            rustix::fs::setxattr(&cgroup, name, value.as_bytes(), flags).expect("we are root");
        }
        let found = look();
        let labels = &of(&found, standin.begun.pid).labels;
        assert_eq!(labels.iter().collect::<Vec<_>>(), [(&"tier".into(), &"front".into())]);
        let vcpu = vm.threads.iter().find(|thread| thread.role == Role::Vcpu(1)).expect("one");
        assert_eq!(vcpu.tid, standin.begun.threads[1].0);
        assert!(vcpu.cgroup.as_ref().expect("its own").ends_with("vcpu1"));
    }
}

/// One that starts, and one that stops, between scans.
#[test]
fn start_and_stop() {
    let mut scanner = Scanner::new(Roots::default(), Vec::new());
    let first = start("--name first").expect("it begins");
    vm(&scanner.scan(), "first");
    let second = start("--name second --as firecracker").expect("it begins");
    let found = scanner.scan();
    vm(&found, "first");
    vm(&found, "second");
    first.end().expect("a report");
    let found = scanner.scan();
    vm(&found, "second");
    assert!(!found.vms.iter().any(|vm| vm.name.as_given() == "first"));
    drop(second);
    assert!(!scanner.scan().vms.iter().any(|vm| vm.name.as_given() == "second"));
}

/// VMs that come and go as fast as they can, while others look: no panic, and none that never was.
#[test]
fn machines_that_vanish_while_one_looks() {
    let until = Instant::now() + Duration::from_secs(2);
    let churn = std::thread::spawn(move || {
        while Instant::now() < until {
            drop(start("--name brief --vcpus 20 --workers 20"));
        }
    });
    let mut scanner = Scanner::new(Roots::default(), Vec::new());
    let mut seen = 0;
    while Instant::now() < until {
        let found = scanner.scan();
        for vm in found.vms.iter().filter(|vm| vm.name.as_given() == "brief") {
            seen += 1;
            assert!(vm.threads.len() <= 41, "{vm:?}");
        }
    }
    churn.join().expect("no panic");
    assert!(seen > 0);
}

/// 2,000 threads are found with one look, and looking again is much cheaper: it reads less than half as many files. How long it
/// takes is printed, and is no claim.
#[test]
fn two_thousand_threads() {
    let standin = start("--name big --vcpus 64 --workers 1936").expect("it begins");
    let mut scanner = Scanner::new(Roots::default(), Vec::new());
    let mut counted = || {
        let (began, before) = (Instant::now(), reads());
        let found = scanner.scan();
        let (took, reads) = (began.elapsed(), reads() - before);
        let vm = of(&found, standin.begun.pid);
        assert_eq!(vm.threads.len(), 2001);
        let vcpus = vm.threads.iter().filter(|thread| matches!(thread.role, Role::Vcpu(_)));
        assert_eq!(vcpus.count(), 64);
        (reads, took)
    };
    // Three times in full, then an eighth each.
    let full = [counted(), counted(), counted()];
    let known: Vec<_> = (0..16).map(|_| counted()).collect();
    println!("2,000 threads, reads and time in full: {full:?}");
    println!("when known: {known:?}");
    // At least a read a thread, or nothing is shown.
    assert!(full.iter().all(|(reads, _)| *reads > 2000), "{full:?}");
    assert!(known.iter().all(|(reads, _)| *reads < full[2].0 / 2), "{known:?} of {full:?}");
}

/// A tap in a network namespace of its own, by the number that it has there.
#[test]
fn a_tap_elsewhere() {
    let tools =
        !is_root() || !Path::new("/dev/net/tun").exists() || !has("unshare") || !has("nsenter");
    if skip(tools.then_some("not root, or no /dev/net/tun, unshare, nsenter")) {
        return;
    }
    let mut command = Command::new("unshare");
    command.arg("--net").arg(lowtail_standin::binary()).args(["--name", "net", "--tap", "lt-t0"]);
    let standin = Standin::spawn(command).expect("it begins");
    let pid = standin.begun.pid;
    let found = look();
    let vm = of(&found, pid);
    let [tap] = &vm.taps[..] else { panic!("{vm:?}") };
    assert_eq!((tap.name.as_given(), tap.ifindex), ("lt-t0", index_in(pid, "lt-t0")));
    let netns = std::fs::read_link(format!("/proc/{pid}/ns/net")).expect("a namespace");
    assert_eq!(format!("net:[{}]", tap.netns.expect("not ours")), netns.display().to_string());
}

/// The number of an interface, by `ip`.
fn index_in(pid: u32, name: &str) -> u32 {
    let out = Command::new("nsenter")
        .args(["--net", "--target", &pid.to_string(), "ip", "-o", "link", "show", name])
        .output()
        .expect("nsenter and ip");
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let index = text.split(':').next().and_then(|index| index.parse().ok());
    index.unwrap_or_else(|| panic!("{text}"))
}

/// A QEMU that is killed when the test ends.
struct Qemu(Child);

impl Drop for Qemu {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A real QEMU, emulating: its own word (`query-cpus-fast` of QMP) says which threads are vCPUs. With a tap, where we
/// are root.
#[test]
fn a_real_qemu() {
    if skip((!has("qemu-system-x86_64")).then_some("no qemu-system-x86_64")) {
        return;
    }
    let net = is_root() && Path::new("/dev/net/tun").exists() && has("unshare") && has("nsenter");
    if !net {
        skip(Some("not root, or no /dev/net/tun, unshare, nsenter"));
    }
    let dir = tempfile::tempdir().expect("a directory");
    let socket = dir.path().join("qmp");
    let mut args: Vec<String> = "qemu-system-x86_64 -name guest=real,debug-threads=on -nodefaults \
        -accel tcg,thread=multi -smp 2 -m 32 -display none -S -object iothread,id=iothread5"
        .split_whitespace()
        .map(String::from)
        .collect();
    args.extend(["-qmp".into(), format!("unix:{},server=on,wait=off", socket.display())]);
    if net {
        let tap = "-netdev tap,id=n0,ifname=lt-q0,script=no,downscript=no -device virtio-net-pci,netdev=n0";
        args.extend(tap.split_whitespace().map(String::from));
        args.splice(0..0, ["unshare".to_string(), "--net".to_string()]);
    }
    let child = Command::new(&args[0]).args(&args[1..]).stdin(Stdio::null()).spawn();
    let qemu = Qemu(child.expect("it starts"));
    let mut truth = vcpus(&socket);
    truth.sort_unstable();
    let found = look();
    let vm = of(&found, qemu.0.id());
    assert_eq!((vm.kind, vm.name.as_given()), (Kind::Qemu, "real"));
    let mut seen: Vec<(u32, u16)> = vm
        .threads
        .iter()
        .filter_map(|thread| match thread.role {
            Role::Vcpu(n) => Some((thread.tid, n)),
            _ => None,
        })
        .collect();
    seen.sort_unstable();
    assert_eq!(seen, truth);
    assert!(vm.threads.iter().any(|thread| thread.role == Role::IoThread(5)), "{vm:?}");
    if net {
        let [tap] = &vm.taps[..] else { panic!("{vm:?}") };
        let index = index_in(qemu.0.id(), "lt-q0");
        assert_eq!((tap.name.as_given(), tap.ifindex), ("lt-q0", index));
    }
}

/// Threads and numbers of vCPUs, as QEMU itself says.
fn vcpus(socket: &Path) -> Vec<(u32, u16)> {
    let until = Instant::now() + Duration::from_secs(30);
    let mut stream = loop {
        match UnixStream::connect(socket) {
            Ok(stream) => break stream,
            Err(error) => assert!(Instant::now() < until, "{error}"),
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout");
    let commands = r#"{"execute":"qmp_capabilities"} {"execute":"query-cpus-fast"}"#;
    stream.write_all(commands.as_bytes()).expect("it listens");
    for line in BufReader::new(stream).lines() {
        let answer: Value = serde_json::from_str(&line.expect("an answer")).expect("JSON");
        if let Some(cpus) = answer["return"].as_array() {
            let number = |cpu: &Value, key: &str| cpu[key].as_u64().expect("a number");
            let of = |cpu| (number(cpu, "thread-id") as u32, number(cpu, "cpu-index") as u16);
            return cpus.iter().map(of).collect();
        }
    }
    panic!("no answer");
}
