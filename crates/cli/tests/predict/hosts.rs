//! Random hosts, and what is changed on them.

use lowtail_control::policy::Policy;
use lowtail_engine::Rng;

/// A VM with the loads of its vCPUs.
#[derive(Debug, Clone)]
pub(crate) struct Vm {
    pub(crate) name: String,
    pub(crate) loads: Vec<String>,
}

/// What is changed.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    /// In words, with the VM.
    pub(crate) name: String,
    pub(crate) what: What,
}

/// How.
#[derive(Debug, Clone)]
pub(crate) enum What {
    /// A policy of the fair class, set once.
    Policy(String),
    /// The policy of small-first, which stays in force.
    SmallFirst,
    /// A policy that stays in force.
    Watched(String),
    /// A VM is stopped.
    Without(String),
    /// A VM's threads run on this CPU only.
    Pin(String, u16),
}

/// A host.
#[derive(Debug, Clone)]
pub(crate) struct Host {
    pub(crate) seed: u64,
    pub(crate) vms: Vec<Vm>,
    pub(crate) changes: Vec<Change>,
}

fn pick<'a, T>(rng: &mut Rng, from: &'a [T]) -> &'a T {
    &from[rng.below(from.len() as u64) as usize]
}

/// A number between these, as often small as large.
fn between(rng: &mut Rng, low: u64, high: u64) -> u64 {
    let (low, high) = (low as f64, high as f64);
    (low * (high / low).powf(rng.unit())) as u64
}

/// A span, by chance or not.
fn span(rng: &mut Rng, us: u64) -> String {
    if rng.below(2) == 0 { format!("~{us}") } else { us.to_string() }
}

/// Loads of a VM that uses about `percent` of a CPU.
fn loads(rng: &mut Rng, kind: &str, percent: u64) -> Vec<String> {
    let work = between(rng, 100, 2_000);
    let every = work * 100 / percent.max(1);
    match kind {
        "server" => vec![format!("serve:~{every}:{}", span(rng, work))],
        "timer" => vec![format!("every:{every}:{}", span(rng, work))],
        "sleeper" => {
            let sleep = every - work.min(every - 10);
            vec![format!("sleep:{}:{}", span(rng, sleep.max(50)), span(rng, work))]
        }
        "pipeline" => {
            let stages = 1 + rng.below(3);
            let part = (work / (1 + stages)).max(30);
            let mut all = vec![format!("serve:~{every}:{}", span(rng, part))];
            all.extend((0..stages).map(|_| format!("stage:{}", span(rng, part))));
            all
        }
        _ => vec!["burn".to_owned(); 1 + rng.below(2) as usize],
    }
}

impl Host {
    /// The host of this seed, with so many CPUs.
    pub(crate) fn new(seed: u64, cpus: u16) -> Self {
        let mut rng = Rng::new(seed, "host");
        let count = 2 + rng.below(5);
        let kinds = ["server", "timer", "sleeper", "pipeline", "batch"];
        // All that sleeps uses at most two thirds of the host.
        let each = 65 * u64::from(cpus) / count;
        let vms = (0..count).map(|n| {
            let kind = if n == 0 { "server" } else { pick(&mut rng, &kinds) };
            let percent = between(&mut rng, 3, each.max(4));
            Vm { name: format!("{kind}{n}"), loads: loads(&mut rng, kind, percent) }
        });
        let vms: Vec<Vm> = vms.collect();
        let changes = changes(&mut rng, &vms, cpus);
        Host { seed, vms, changes }
    }

    /// Its VMs, as one could type them.
    pub(crate) fn vms_text(&self) -> String {
        let vm = |vm: &Vm| format!("{} `{}`", vm.name, vm.loads.join(","));
        self.vms.iter().map(vm).collect::<Vec<_>>().join("; ")
    }
}

fn changes(rng: &mut Rng, vms: &[Vm], cpus: u16) -> Vec<Change> {
    let fair = |vm: &str, keys: &str| {
        What::Policy(format!("scheduler = \"fair\"\n[[vm]]\nname = \"{vm}\"\n{keys}\n"))
    };
    let mut name = || pick(rng, vms).name.clone();
    let [weighted, capped, sliced, other] = [name(), name(), name(), name()];
    let weight = *pick(rng, &[20, 50, 200, 400, 800]);
    let cap = *pick(rng, &[10, 20, 30, 50]);
    let slice = *pick(rng, &["200us", "500us", "5ms", "20ms"]);
    let last = if cpus == 1 {
        Change { name: format!("without {other}"), what: What::Without(other) }
    } else {
        let cpu = rng.below(cpus.into()) as u16;
        Change { name: format!("{other} on CPU {cpu}"), what: What::Pin(other, cpu) }
    };
    vec![
        Change {
            name: format!("weight {weight} for {weighted}"),
            what: fair(&weighted, &format!("weight = {weight}")),
        },
        Change {
            name: format!("cap {cap}% for {capped}"),
            what: fair(&capped, &format!("cap = \"{cap}%\"")),
        },
        Change {
            name: format!("slice {slice} for {sliced}"),
            what: fair(&sliced, &format!("slice = \"{slice}\"")),
        },
        Change { name: "small-first".to_owned(), what: What::SmallFirst },
        last,
    ]
}

impl What {
    /// The text of the policy that it puts in force.
    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            What::Policy(text) | What::Watched(text) => Some(text),
            What::SmallFirst => Some(""),
            What::Without(_) | What::Pin(..) => None,
        }
    }

    /// The policy that it puts in force.
    pub(crate) fn policy(&self) -> Option<Policy> {
        Some(Policy::parse("change", self.text()?).expect("a policy"))
    }
}
