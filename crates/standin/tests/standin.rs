//! Stand-ins are what they say, by the host's own word.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::time::Duration;

use lowtail_standin::start;

fn comm(pid: u32, tid: u32) -> String {
    let name = fs::read_to_string(format!("/proc/{pid}/task/{tid}/comm")).expect("a thread");
    name.trim_end().to_string()
}

/// Names of threads as the hypervisors' sources have them.
#[test]
fn threads_are_named_as_the_hypervisor_does() {
    for (like, main, vcpu, io) in [
        ("qemu", "qemu-system-x86", "CPU 1/KVM", "IO iothread1"),
        ("firecracker", "firecracker", "fc_vcpu 1", "fc_api"),
        ("cloud-hypervisor", "cloud-hyperviso", "vcpu1", "_net0_qp0"),
    ] {
        let standin = start(&format!("--as {like} --vcpus 2 --io 1")).expect("it begins");
        let begun = &standin.begun;
        assert_eq!(comm(begun.pid, begun.pid), main);
        let names = [vcpu, io];
        for ((tid, told), name) in begun.threads[1..].iter().zip(names) {
            assert_eq!((told.as_str(), comm(begun.pid, *tid).as_str()), (name, name));
        }
        let program = fs::read_link(format!("/proc/{}/exe", begun.pid)).expect("a program");
        let program = program.to_string_lossy().into_owned();
        assert!(program.contains(&main[..10]), "{program}");
    }
}

/// A timer of a millisecond for a second, a second of computing: the kernel's accounts agree.
#[test]
fn it_measures_itself() {
    let standin = start("--vcpus 3 --do serve,burn,sleep --seconds 1").expect("it begins");
    let report = { standin }.report().expect("a report");
    let [serve, burn, sleep] = &report.threads[..] else { panic!("{report:?}") };
    assert!(report.elapsed_ns >= 1_000_000_000, "{report:?}");
    let instants = report.elapsed_ns / 1_000_000;
    assert!(serve.count + serve.missed <= instants, "{report:?}");
    assert!(serve.count + serve.missed + 250 >= instants, "{report:?}");
    assert!(serve.p50_ns > 0 && serve.p50_ns <= serve.p99_ns && serve.p99_ns <= serve.max_ns);
    assert!(burn.cpu_ns > report.elapsed_ns / 10 && burn.cpu_ns < report.elapsed_ns * 11 / 10);
    assert!(sleep.cpu_ns < 50_000_000, "{report:?}");
}

#[test]
fn it_echoes() {
    let free = TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = free.local_addr().expect("an address");
    drop(free);
    let standin = start(&format!("--listen {at}")).expect("it begins");
    let patience = Some(Duration::from_secs(5));
    let udp = UdpSocket::bind("127.0.0.1:0").expect("a port");
    udp.set_read_timeout(patience).expect("a timeout");
    udp.send_to(b"datagram", at).expect("sent");
    let mut bytes = [0; 64];
    assert_eq!(udp.recv(&mut bytes).expect("an answer"), 8);
    let mut tcp = TcpStream::connect(at).expect("a service");
    tcp.set_read_timeout(patience).expect("a timeout");
    tcp.write_all(b"stream").expect("sent");
    let mut answer = [0; 6];
    tcp.read_exact(&mut answer).expect("an answer");
    assert_eq!(&answer, b"stream");
    let report = standin.end().expect("a report");
    assert_eq!(report.threads[0].count, 2);
}

/// Its groups hold its threads, and go with it.
#[test]
fn control_groups_are_removed() {
    let root = nix::unistd::geteuid().is_root();
    if !root || lowtail_kernel::cgroup::Hierarchy::find().is_err() {
        assert!(std::env::var_os("CI").is_none(), "not root, or no control groups, but in CI");
        return println!("skipped: not root, or no control groups");
    }
    for layout in ["scope", "machine", "old"] {
        let args = format!("--as libvirt --name gone-{layout} --layout {layout} --vcpus 1 --io 1");
        let standin = start(&args).expect("it begins");
        let begun = standin.begun.clone();
        let group = begun.cgroup.expect("a group");
        let vcpu =
            fs::read_to_string(format!("/proc/{}/task/{}/cgroup", begun.pid, begun.threads[0].0));
        assert!(vcpu.expect("a thread").contains("/vcpu0\n"));
        standin.end().expect("a report");
        assert!(!Path::new(&group).exists(), "{group}");
    }
}
