//! Any sequence of policies, troubles, reverts and what others do, against a short model.

use std::collections::BTreeSet;

use lowtail_engine::Rng;
use lowtail_testkit::seed;

use super::fake::{Host, Trouble};
use super::{World, apply, revert};

struct Draw(Rng);

impl Draw {
    fn below(&mut self, n: u64) -> u64 {
        self.0.below(n)
    }

    fn of<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[self.below(all.len() as u64) as usize]
    }
}

fn policy(draw: &mut Draw) -> String {
    let mut text = String::new();
    let limit = draw.of(&["", "ratelimit = '0us'", "ratelimit = '300us'", "ratelimit = 'keep'"]);
    text += &format!("[xen]\n{limit}\n{}\n", draw.of(&["", "slice = '3ms'", "slice = '40ms'"]));
    for name in ["web", "batch", "old"] {
        if draw.below(4) == 0 {
            continue;
        }
        text += &format!("[[vm]]\nname = '{name}'\n");
        for keys in [
            ["", "weight = 'keep'", "weight = 7", "weight = 900"],
            ["", "cap = 'none'", "cap = '35%'", "cap = '80%'"],
            ["", "pcpus = 'all'", "pcpus = '1'", "pcpus = '0-2'"],
            ["", "preferred_pcpus = 'all'", "preferred_pcpus = '2'", "preferred_pcpus = '0,3'"],
        ] {
            text += draw.of(&keys);
            text.push('\n');
        }
    }
    text
}

/// What nobody of us has touched, and what others have touched last, is what is there when all is reverted.
#[test]
fn sequences() {
    let mut base = Host::usual();
    let world = World::new(&base);
    let mut draw = Draw(Rng::new(seed::seed(), "xen"));
    let (mut foreign, mut hung) = (0, 0);
    for step in 0..400 {
        match draw.below(8) {
            0 => {
                revert(world.dir());
                assert_eq!(world.fake.host(), base, "step {step}");
            }
            // Values that no policy here has.
            1 => {
                let name = draw.of(&["web", "batch", "old"]);
                let (weight, cap, pcpu) =
                    (5_000 + draw.below(9) as u32, 90 + draw.below(9) as u32, draw.below(4) as u32);
                let pins: [BTreeSet<u32>; 2] = [[pcpu, (pcpu + 1) % 4].into(), [pcpu].into()];
                let what = draw.below(4);
                let change = |host: &mut Host| match what {
                    0 => host.named(name).weight = weight,
                    1 => host.named(name).cap = cap,
                    2 => host.named(name).vcpus[0].clone_from(&pins),
                    _ => host.pool("Pool-0").ratelimit_us = weight,
                };
                world.fake.change(change);
                change(&mut base);
                foreign += 1;
            }
            2 => {
                world.fake.trouble(&Trouble {
                    write: Some((draw.below(6) as usize, draw.below(2) == 0)),
                    ..Trouble::default()
                });
                let (_, applied) = apply(world.dir(), &policy(&mut draw));
                hung += applied.failed.len();
                world.fake.trouble(&Trouble::default());
            }
            _ => {
                let policy = policy(&mut draw);
                let (_, applied) = apply(world.dir(), &policy);
                assert_eq!(applied.failed, [], "step {step}: {policy}");
            }
        }
    }
    revert(world.dir());
    assert_eq!(world.fake.host(), base);
    assert!(foreign > 20 && hung > 10, "{foreign} changes by others, {hung} commands that hung");
}
