//! Guests that are made once and play one scenario after the other.

use std::path::PathBuf;
use std::thread::{self, sleep};

use lowtail_engine::{Duration, Hist, Rng};
use lowtail_host::{Config, VmConfig, Workload};
use lowtail_xen::{Domain, NewDomain, Store, Toolstack, VcpuClock};

use super::client::{self, Client};
use super::guest::{ANSWER, ORDER, READY, realtime_ns_now};
use super::message::{Answer, Job, Order, receive, send, xen};
use super::pool::{self, Pool};
use super::suit::suits;
use crate::Options;
use crate::measured::{Measured, VmMeasured};
use crate::plan::{self, Player};
use crate::work::Window;
use lowtail_kernel::clock::Instant;
use lowtail_kernel::error::Error;

/// From when all guests have their orders to when they start.
const RUN_UP: Duration = Duration::from_ms(300);
/// How long after the measured time guests go on, so that it ends the same for all, and for dom0, which reads what they have got: what it
/// shares its pCPU with may have it late.
const OVERTIME: Duration = Duration::from_ms(500);
/// How long guests may take to boot, or to answer.
const PATIENCE: Duration = Duration::from_s(120);
/// From one look whether they have, to the next.
const LOOK: std::time::Duration = std::time::Duration::from_millis(50);
/// Where xenconsoled keeps what guests say, if it is told to.
const CONSOLES: &str = "/var/log/xen/console";
/// So many lines of it say why a guest ended.
const LAST_LINES: usize = 2;
/// Memory of a guest: a kernel of a distribution, and this program, which is there twice while it is unpacked. A test build of it is 40 MB, and
/// 160 MiB did not hold it.
const MEMORY_MIB: u32 = 256;
/// The command line of a guest's kernel, before what it is to run. Without the last its threads test ciphers for seconds.
const COMMAND_LINE: &str = "console=hvc0 quiet rdinit=/init cryptomgr.notests=1 ipv6.disable=1";

/// What guests consist of.
#[derive(Debug, Clone)]
pub struct Images {
    /// Their kernel, not packed.
    pub kernel: PathBuf,
    /// Their first file system; its `/init` runs this program with the arguments that it gets.
    pub ramdisk: PathBuf,
    /// The arguments with which this program calls [`serve()`](super::serve()).
    pub arguments: Vec<String>,
}

/// Guests, and pCPUs for them; all are destroyed when this is dropped.
#[derive(Debug)]
pub struct Guests {
    toolstack: Toolstack,
    store: Store,
    clock: VcpuClock,
    /// With so many vCPUs each.
    domains: Vec<(Domain, u16)>,
    pool: Pool,
    first_pcpu: u16,
    pcpus: u16,
    /// Number of the last order.
    orders: u32,
}

/// What was measured of a VM.
#[derive(Debug)]
pub(super) struct Played {
    /// CPU time of its vCPUs, as Xen says.
    pub(super) cpu: Vec<Duration>,
    /// What it says itself.
    pub(super) answer: Answer,
    /// Of a request server, the round trips of its client.
    pub(super) trips: Option<Hist>,
}

impl Guests {
    /// Takes the pCPUs from `first_pcpu` on from dom0's pool, `pcpus` of them, and makes a guest for each of `vcpus`, with so
    /// many vCPUs.
    ///
    /// # Errors
    /// If this is not dom0 of a Xen host, or Xen refuses something.
    pub fn new(
        images: &Images,
        (first_pcpu, pcpus): (u16, u16),
        vcpus: &[u16],
        progress: &dyn Fn(),
    ) -> Result<Self, Error> {
        let (toolstack, store) = (Toolstack, Store::open().map_err(xen)?);
        let clock = VcpuClock::open().map_err(xen)?;
        pool::free(&toolstack, first_pcpu, pcpus)?;
        let mut guests = Guests {
            toolstack,
            store,
            clock,
            domains: Vec::new(),
            pool: Pool::default(),
            first_pcpu,
            pcpus,
            orders: 0,
        };
        for (number, &vcpus) in vcpus.iter().enumerate() {
            let new = NewDomain {
                name: format!("lowtail{number}"),
                kernel: images.kernel.clone(),
                ramdisk: images.ramdisk.clone(),
                memory_mib: MEMORY_MIB,
                vcpus,
                command_line: format!(
                    "{COMMAND_LINE} lowtail_net={} -- {}",
                    client::network(number),
                    images.arguments.join(" ")
                ),
                mac: Some(client::mac(number)),
            };
            let domain = guests.toolstack.create(&new).map_err(xen)?;
            let interface = guests.toolstack.connect(&mut guests.store, &domain);
            client::set_up(number, &interface.map_err(xen)?)?;
            guests.domains.push((domain, vcpus));
            progress();
        }
        for number in 0..guests.domains.len() {
            let ready = guests.path(number, READY);
            guests.wait(number, |store| {
                Ok(store.read(&ready).map_err(xen)?.filter(|text| !text.is_empty()))
            })?;
            progress();
        }
        for number in 0..guests.domains.len() {
            guests.measure(number)?;
        }
        Ok(guests)
    }

    /// Has a guest measure what computing takes in it, while nobody else does anything.
    fn measure(&mut self, guest: usize) -> Result<(), Error> {
        self.orders += 1;
        let (number, zero) = (self.orders, Duration::ZERO);
        let order = Order {
            jobs: Vec::new(),
            vm: String::new(),
            seed: 0,
            start_ns: 0,
            from: zero,
            to: zero,
            last: zero,
        };
        let (path, answer) = (self.path(guest, ORDER), self.path(guest, ANSWER));
        send(&mut self.store, &path, number, &order)?;
        self.wait(guest, |store| receive::<Answer>(store, &answer, number)).map(|_| ())
    }

    /// Plays `config`, as [`run()`](crate::run()) does.
    ///
    /// # Errors
    /// If Xen has no such scheduler, or there are too few guests, or Xen refuses something.
    pub fn run(&mut self, config: &Config, options: &Options) -> Result<Measured, Error> {
        suits(config)?;
        let jobs = config.vms.iter().map(|vm| {
            let player = Player::XenGuests;
            let tasks = plan::tasks(&vm.workload, vm.vcpus.into(), &vm.name, player)?;
            Ok(tasks.into_iter().map(Job::Play).collect())
        });
        let jobs = jobs.collect::<Result<_, Error>>()?;
        let (wall, played) = self.play(config, jobs, options)?;
        let vms = config.vms.iter().zip(played).map(|(vm, played)| VmMeasured {
            name: vm.name.clone(),
            cpu: played.cpu,
            latency: played.answer.hist().or(played.trips),
        });
        Ok(Measured { wall, vms: vms.collect(), groups: Vec::new(), others: None })
    }

    /// Has the VMs of `config` do `jobs`; gives how long it was measured, and what each VM has got and measured.
    pub(super) fn play(
        &mut self,
        config: &Config,
        jobs: Vec<Vec<Job>>,
        options: &Options,
    ) -> Result<(Duration, Vec<Played>), Error> {
        let chosen = self.choose(&config.vms)?;
        let names: Vec<&str> = chosen.iter().map(|&i| self.domains[i].0.name.as_str()).collect();
        let stay = self.pool.enter(&self.toolstack, config, self.first_pcpu, &names)?;
        self.orders += 1;
        let number = self.orders;
        let (real, own) = (realtime_ns_now(), Instant::now());
        let run_up = RUN_UP + Duration::from_ms(20) * chosen.len() as u64;
        let (from, to) = (options.warm_up, options.warm_up + options.duration);
        for ((&guest, vm), jobs) in chosen.iter().zip(&config.vms).zip(jobs) {
            let order = Order {
                jobs,
                vm: vm.name.clone(),
                seed: options.seed,
                start_ns: real + run_up.as_ns(),
                from,
                to,
                last: to + OVERTIME,
            };
            let path = path(&self.domains[guest].0, ORDER);
            send(&mut self.store, &path, number, &order)?;
        }
        let start = own.after(run_up);
        let window = Window {
            start,
            from: start.after(from),
            to: start.after(to),
            last: start.after(to + OVERTIME),
        };
        let clients = chosen.iter().zip(&config.vms).map(|(&guest, vm)| {
            let Workload::RequestServer(server) = &vm.workload else { return Ok(None) };
            let rng = Rng::new(options.seed, &format!("{}: client", vm.name));
            Client::new(guest, server.load, rng).map(Some)
        });
        let clients: Vec<Option<Client>> = clients.collect::<Result<_, Error>>()?;
        let (clock, domains) = (&mut self.clock, &self.domains);
        let (before, after, trips) = thread::scope(|scope| {
            let ask = |client: Option<Client>| {
                client.map(|client| scope.spawn(move || client.run(window)))
            };
            let asking: Vec<_> = clients.into_iter().map(ask).collect();
            window.from.sleep();
            let before = sample(clock, domains, &chosen)?;
            window.to.sleep();
            let after = sample(clock, domains, &chosen)?;
            let trips = asking.into_iter().map(|asking| {
                let panicked = |_| Err(Error::Xen("a client has panicked".into()));
                asking.map(|asking| asking.join().unwrap_or_else(panicked)).transpose()
            });
            Ok::<_, Error>((before, after, trips.collect::<Result<Vec<_>, Error>>()?))
        })?;
        let mut played = Vec::new();
        for (((&guest, vm), trips), (before, after)) in
            chosen.iter().zip(&config.vms).zip(trips).zip(before.1.iter().zip(&after.1))
        {
            let path = path(&self.domains[guest].0, ANSWER);
            let own = (&mut self.store, &mut self.clock);
            let answer: Answer =
                wait(own, &self.domains[guest], |store| receive(store, &path, number))?;
            if let Some(why) = answer.failed {
                return Err(Error::Xen(format!("VM `{}`: {why}", vm.name)));
            }
            let cpu = after.iter().zip(before).map(|(after, before)| after.saturating_sub(*before));
            played.push(Played { cpu: cpu.take(vm.vcpus.into()).collect(), answer, trips });
        }
        drop(stay);
        Ok((after.0.since(before.0), played))
    }

    /// A guest for each VM: a free one that has as many vCPUs, or the fewest of those that have more, which idle.
    fn choose(&self, vms: &[VmConfig]) -> Result<Vec<usize>, Error> {
        let mut chosen = vec![usize::MAX; vms.len()];
        // Who needs many chooses first.
        let mut order: Vec<usize> = (0..vms.len()).collect();
        order.sort_by_key(|&vm| std::cmp::Reverse(vms[vm].vcpus));
        for vm in order {
            let free = (0..self.domains.len()).filter(|guest| !chosen.contains(guest));
            let fits = free.filter(|&guest| self.domains[guest].1 >= vms[vm].vcpus);
            let Some(guest) = fits.min_by_key(|&guest| self.domains[guest].1) else {
                let VmConfig { vcpus, name, .. } = &vms[vm];
                let why = format!("no guest with {vcpus} vCPUs is left for VM `{name}`");
                return Err(Error::Scenario(why));
            };
            chosen[vm] = guest;
        }
        Ok(chosen)
    }

    fn path(&self, guest: usize, of: &str) -> String {
        path(&self.domains[guest].0, of)
    }

    fn wait<T>(
        &mut self,
        guest: usize,
        look: impl Fn(&mut Store) -> Result<Option<T>, Error>,
    ) -> Result<T, Error> {
        wait((&mut self.store, &mut self.clock), &self.domains[guest], look)
    }
}

impl Drop for Guests {
    fn drop(&mut self) {
        self.pool.destroy(&self.toolstack);
        pool::give_back(&self.toolstack, self.first_pcpu, self.pcpus);
    }
}

/// A node of a guest, as dom0 names it.
fn path(domain: &Domain, of: &str) -> String {
    format!("/local/domain/{}/{of}", domain.id)
}

/// Waits until a guest has what is looked for.
fn wait<T>(
    (store, clock): (&mut Store, &mut VcpuClock),
    guest: &(Domain, u16),
    look: impl Fn(&mut Store) -> Result<Option<T>, Error>,
) -> Result<T, Error> {
    let (domain, name) = (&guest.0, &guest.0.name);
    let until = Instant::now().after(PATIENCE);
    let before = ran(clock, guest);
    while Instant::now() < until {
        if let Some(found) = look(store)? {
            return Ok(found);
        }
        if store.read(&path(domain, "name")).map_err(xen)?.is_none() {
            return Err(Error::Xen(format!("guest `{name}` has ended{}", last_words(name))));
        }
        sleep(LOOK);
    }
    // One that computes is stuck, and one that sleeps has lost an interrupt.
    let ran = ran(clock, guest).saturating_sub(before);
    let words = last_words(name);
    Err(Error::Xen(format!("guest `{name}` says nothing for {PATIENCE}, and ran for {ran}{words}")))
}

/// CPU time of a guest, as far as Xen says it.
fn ran(clock: &mut VcpuClock, (domain, vcpus): &(Domain, u16)) -> Duration {
    let read = (0..u32::from(*vcpus)).filter_map(|vcpu| clock.read(domain.id, vcpu).ok());
    read.fold(Duration::ZERO, |all, one| all + one)
}

/// What a guest has said last on its console, if xenconsoled keeps that.
fn last_words(guest: &str) -> String {
    let log = std::fs::read(format!("{CONSOLES}/guest-{guest}.log")).unwrap_or_default();
    let text = String::from_utf8_lossy(&log);
    let plain = |line: &str| line.chars().filter(|c| !c.is_control()).collect::<String>();
    let lines: Vec<String> = text.lines().map(plain).filter(|line| !line.is_empty()).collect();
    let last = &lines[lines.len().saturating_sub(LAST_LINES)..];
    if last.is_empty() { String::new() } else { format!(", its last words: {}", last.join("; ")) }
}

/// CPU time of each vCPU of each guest that plays, and when.
fn sample(
    clock: &mut VcpuClock,
    domains: &[(Domain, u16)],
    chosen: &[usize],
) -> Result<(Instant, Vec<Vec<Duration>>), Error> {
    let at = Instant::now();
    let mut all = Vec::new();
    for &guest in chosen {
        let (domain, vcpus) = &domains[guest];
        let read = (0..u32::from(*vcpus)).map(|vcpu| clock.read(domain.id, vcpu));
        all.push(read.collect::<Result<_, _>>().map_err(xen)?);
    }
    Ok((at, all))
}
