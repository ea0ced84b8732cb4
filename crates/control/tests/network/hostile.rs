//! A VM that asks little, beside VMs that send whatever they like: what it sees is what it sees beside idle ones, or nearly.

use std::net::UdpSocket;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use lowtail_kernel::tc::{Bands, Outer, Queue, Shape, Wanted};
use lowtail_policy::FlowParams;
use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

use crate::kernel;
use crate::net::Namespace;
use crate::packets::sum;
use crate::traffic::Figures;
use crate::uplink::{Net, THERE};

/// VMs 1 and 3 on are hostile, 2 asks.
const HOSTILE: [usize; 3] = [0, 2, 3];
/// The hostile VMs together send so many times what the uplink can.
const OVERLOAD: f64 = 2.0;

/// What a hostile VM sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attack {
    /// Each datagram to another address.
    Spray,
    /// The same with the shortest frames.
    Short,
    /// To the address of whom the victim asks, from the victim's own, by ever new ports.
    Ports,
    /// Fragments.
    Fragments,
    /// Segments that open connections.
    Syn,
    /// Pings.
    Icmp,
    /// Behind a VLAN tag.
    Vlan,
    /// Packets in packets.
    Tunnel,
    /// Each to another address of one /64.
    Ipv6,
    /// No IP.
    Other,
    /// A spray that is off half of the time, so that buckets fill.
    Bursts,
}

impl Attack {
    pub(crate) const ALL: [Attack; 11] = [
        Attack::Spray,
        Attack::Short,
        Attack::Ports,
        Attack::Fragments,
        Attack::Syn,
        Attack::Icmp,
        Attack::Vlan,
        Attack::Tunnel,
        Attack::Ipv6,
        Attack::Other,
        Attack::Bursts,
    ];

    /// A frame to this MAC.
    fn frame(self, gateway: [u8; 6], random: &mut Xoshiro256PlusPlus) -> Vec<u8> {
        let mut frame = gateway.to_vec();
        frame.extend([2, 0, 0, 0, 0, 66]);
        if self == Attack::Vlan {
            frame.extend([0x81, 0, 0, 7]);
        }
        let spoofed = [10, random.random(), random.random(), random.random()];
        let elsewhere = [10, 80 + (random.random::<u8>() & 1), random.random(), random.random()];
        let (source, target) = match self {
            Attack::Ports => ([10, 78, 0, 2], THERE.octets()),
            _ => (spoofed, elsewhere),
        };
        let ports: [u8; 4] = random.random();
        let payload = match self {
            Attack::Short | Attack::Syn => 18,
            _ => 1_180,
        };
        match self {
            Attack::Ipv6 => {
                frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 4, 0xa4, 17, 64]);
                frame.extend([0xfd, 0x78, 0, 0, 0, 0, 0, 0]);
                frame.extend(random.random::<[u8; 8]>());
                frame.extend([0xfd, 0x79, 0, 0, 0, 0, 0, 0]);
                frame.extend(random.random::<[u8; 8]>());
                frame.extend(ports);
            }
            Attack::Other => frame.extend([0x88, 0xb5]),
            _ => {
                let length = (20 + 8 + payload as u16).to_be_bytes();
                let fragment = if self == Attack::Fragments { 0x20 } else { 0 };
                let protocol = match self {
                    Attack::Syn => 6,
                    Attack::Icmp => 1,
                    Attack::Tunnel => 4,
                    _ => 17,
                };
                let mut header =
                    vec![0x45, 0, length[0], length[1], 0, 0, fragment, 0, 64, protocol, 0, 0];
                header.extend(source);
                header.extend(target);
                let sum = !sum(&header);
                header[10..12].copy_from_slice(&sum.to_be_bytes());
                frame.extend([8, 0]);
                frame.extend(header);
                frame.extend(ports);
            }
        }
        let rest = 4 + payload;
        frame.resize(frame.len() + rest, 0);
        frame
    }
}

/// A socket that sends frames as they are by the interface `end` of the namespace.
#[allow(unsafe_code, reason = "no wrapper that we have knows sockets of packets")]
fn raw(vm: &Namespace) -> (OwnedFd, libc::sockaddr_ll) {
    let ifindex = vm.ifindex("end");
    vm.within(|| {
        // SAFETY: it takes numbers, and gives a descriptor that is nobody else's.
        let socket = unsafe {
            let fd = libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0);
            assert!(fd >= 0, "{}", std::io::Error::last_os_error());
            OwnedFd::from_raw_fd(fd)
        };
        let to = libc::sockaddr_ll {
            sll_family: libc::AF_PACKET as u16,
            sll_protocol: 0,
            sll_ifindex: ifindex as i32,
            sll_hatype: 0,
            sll_pkttype: 0,
            sll_halen: 6,
            sll_addr: [0; 8],
        };
        (socket, to)
    })
}

/// Sends such frames at this rate until it is over.
#[allow(unsafe_code, reason = "no wrapper that we have knows sockets of packets")]
fn attack(
    vm: &Namespace,
    gateway: [u8; 6],
    attack: Attack,
    bits_per_s: f64,
    seed: u64,
    over: &AtomicBool,
) {
    let (socket, to) = raw(vm);
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    // Frames are ready before, so that to make them costs no time.
    let frames: Vec<Vec<u8>> = (0..20_000).map(|_| attack.frame(gateway, &mut random)).collect();
    let (begin, mut sent) = (Instant::now(), 0.0);
    for frame in frames.iter().cycle() {
        if over.load(Ordering::Relaxed) {
            break;
        }
        // SAFETY: it reads so many bytes of the frame, and of the address.
        unsafe {
            libc::sendto(
                socket.as_raw_fd(),
                frame.as_ptr().cast(),
                frame.len(),
                libc::MSG_DONTWAIT,
                (&raw const to).cast(),
                size_of::<libc::sockaddr_ll>() as u32,
            );
        }
        sent += frame.len() as f64 * 8.0;
        let due = Duration::from_secs_f64(sent / bits_per_s);
        // In portions of a millisecond: to sleep for each frame would take longer than that.
        if let Some(early) = due.checked_sub(begin.elapsed())
            && early > Duration::from_millis(1)
        {
            thread::sleep(early);
        }
        if attack == Attack::Bursts && begin.elapsed().as_millis() % 60 >= 30 {
            thread::sleep(Duration::from_millis(30));
            sent = begin.elapsed().as_secs_f64() * bits_per_s;
        }
    }
}

/// What VM 2 sees while the hostile ones send.
pub(crate) fn beside(net: &Net, kind: Attack, rate: u64, seed: u64) -> Figures {
    let said = net.router.ip("-o link show dev end");
    let mac = said.split("link/ether ").nth(1).expect("ip prints it");
    let mut gateway = [0; 6];
    for (byte, digits) in gateway.iter_mut().zip(mac.split([':', ' '])) {
        *byte = u8::from_str_radix(digits, 16).expect("two digits");
    }
    let over = Arc::new(AtomicBool::new(false));
    let each = rate as f64 * OVERLOAD / HOSTILE.len() as f64;
    let threads: Vec<_> = HOSTILE
        .into_iter()
        .map(|n| {
            let (vm, over) = (net.vms[n].clone(), Arc::clone(&over));
            thread::spawn(move || attack(&vm, gateway, kind, each, seed + n as u64, &over))
        })
        .collect();
    let figures = net.measure_questions(true);
    over.store(true, Ordering::Relaxed);
    for thread in threads {
        thread.join().expect("it does not panic");
    }
    figures
}

/// Hostile VMs beside idle ones, and beside the rest, at an uplink of this rate.
fn hosts(rate: u64) -> Net {
    let net = Net::with_vms(rate, 4);
    net.router.ip("route add 10.80.0.0/15 via 10.79.0.1");
    net
}

/// What p99 of the questions may be: 1.5 times what it is beside idle VMs, besides frames that nobody can overtake.
fn most_us(net: &Net, rate: u64) -> f64 {
    1.5 * net.measure_questions(true).p99_us + frames_us(rate)
}

/// The same hosts with the policy in force.
fn in_force(rate: u64) -> Net {
    let net = hosts(rate);
    net.apply(Wanted { rate: Some(rate), ..Wanted::default() });
    net
}

/// What cannot be overtaken: the frame that is being sent, at the uplink and at the link behind it, and one frame of each VM that
/// sends little, too, or has until now.
fn frames_us(rate: u64) -> f64 {
    (2 + HOSTILE.len()) as f64 * 1_514.0 * 8e6 / rate as f64
}

/// All attacks, with bands that VMs share and the same rule whatever the rate is, and as it is now.
#[test]
#[ignore = "figures for docs/explanation/flow.md"]
fn figures_of_attacks() {
    let Some(_kernel) = kernel() else { return };
    let shared = Shape { outer: Outer::Tbf, bands: Bands::Htb, queue: Queue::Fifo };
    for rate in [50_000_000, 200_000_000, 1_000_000_000] {
        for shape in [Some(shared), None] {
            let net = hosts(rate);
            let wanted = Wanted { rate: Some(rate), shape, ..Wanted::default() };
            let params = match shape {
                Some(_) => FlowParams::default(),
                None => FlowParams::of_uplink(rate),
            };
            println!("{}", net.apply_with(wanted, params));
            println!("{:>10} {:?}", "idle", net.measure_questions(true));
            for attack in Attack::ALL {
                println!("{:>10} {:?}", format!("{attack:?}"), beside(&net, attack, rate, 1));
            }
        }
    }
}

/// p99 beside each attack is what it may be. Noise of a busy host makes it worse, and can only do that: so each may be tried again, with what it is
/// beside idle VMs in the same seconds.
#[test]
fn no_attack_is_felt() {
    const RATE: u64 = 100_000_000;
    let Some(_kernel) = kernel() else { return };
    let net = in_force(RATE);
    let most_us = most_us(&net, RATE);
    // Those whose frames are shortest are for processors, of which two are few: `figures_of_attacks`.
    for attack in Attack::ALL.into_iter().filter(|a| !matches!(a, Attack::Short | Attack::Syn)) {
        let name = format!("{attack:?}");
        holds(&name, (&net, RATE, most_us), |seed| beside(&net, attack, RATE, seed));
    }
}

/// Within some tries: p99 is no more than it may be, and nothing is lost.
fn holds(what: &str, (net, rate, first_us): (&Net, u64, f64), measure: impl Fn(u64) -> Figures) {
    const TRIES: u64 = 6;
    let held = (0..TRIES).any(|seed| {
        let most_us = if seed == 0 { first_us } else { most_us(net, rate) };
        let figures = measure(seed);
        println!("{what}: {figures:?}, at most {most_us} us");
        figures.p99_us <= most_us && figures.lost == 0
    });
    assert!(held, "{what}: not in {TRIES} tries");
}

/// 16 Mbit/s of datagrams of the same VM to the same address, beside bulk of another: flows are told apart by their ports.
#[test]
fn own_datagrams_to_the_same_address_are_not_felt() {
    const RATE: u64 = 50_000_000;
    let Some(_kernel) = kernel() else { return };
    let net = in_force(RATE);
    holds("datagrams", (&net, RATE, most_us(&net, RATE)), |_| {
        let over = Arc::new(AtomicBool::new(false));
        let socket = net.vms[1].within(|| UdpSocket::bind("0.0.0.0:0").expect("a free port"));
        let sender = thread::spawn({
            let over = Arc::clone(&over);
            move || {
                while !over.load(Ordering::Relaxed) {
                    let _ = socket.send_to(&[0; 1_158], (THERE, 9));
                    thread::sleep(Duration::from_micros(600));
                }
            }
        });
        let figures = net.measure(true);
        over.store(true, Ordering::Relaxed);
        sender.join().expect("it does not panic");
        figures
    });
}
