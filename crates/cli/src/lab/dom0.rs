//! The Xen of which this is dom0, as a judge of random scenarios.

use std::mem::discriminant;
use std::path::PathBuf;

use lowtail_host::{Config, SchedulerConfig};
use lowtail_play::Options;
use lowtail_play::xen::{Guests, Images, calibrate};

use super::args::LabCheck;
use super::checked::Found;
use super::drawn::{Judge, XEN_PCPUS, bar, draw, one};
use crate::exit::Fail;
use crate::global::Global;

/// The pCPU on which scenarios are played: the first is dom0's.
const FIRST_PCPU: u16 = 1;
/// vCPUs of the guests, of which each scenario needs some.
const VCPUS: [u16; 6] = [1, 1, 1, 1, 2, 2];

/// Checks scenarios `numbers` by guests of this Xen.
pub(super) fn check(args: &LabCheck, numbers: &[u32], global: &Global) -> Result<Found, Fail> {
    let release = release()?;
    let judge = Judge::xen(&release)?;
    let images = Images {
        kernel: PathBuf::from("/guest/vmlinux"),
        ramdisk: PathBuf::from("/guest/initrd"),
        arguments: ["lab", "xen-guest"].map(String::from).to_vec(),
    };
    let bar = bar(args, numbers, global);
    let failed = |error: lowtail_play::Error| Fail::Host(error.to_string());
    let mut guests =
        Guests::new(&images, (FIRST_PCPU, XEN_PCPUS), &VCPUS, &|| {}).map_err(failed)?;
    let drawn = numbers.iter().map(|&number| draw(args, judge, number));
    let mut drawn = drawn.collect::<Result<Vec<_>, _>>()?;
    // One scheduler after the other: each has a pool and costs of its own, which are made and measured once.
    drawn.sort_by_key(|drawn| matches!(drawn.config.scheduler, SchedulerConfig::Credit(_)));
    let (mut costs, mut scenarios) = (None, Vec::new());
    for drawn in drawn {
        let kind = discriminant(&drawn.config.scheduler);
        let costs = match costs {
            Some((of, costs)) if of == kind => costs,
            _ => {
                let measured = calibrate(&mut guests, &drawn.config.scheduler).map_err(failed)?;
                costs.insert((kind, measured)).1
            }
        };
        let play = |config: &Config, options: &Options| {
            let measured = guests.run(config, options);
            bar.step();
            measured
        };
        scenarios.push(one(args, drawn, costs, play)?);
    }
    scenarios.sort_by_key(|checked| checked.scenario);
    Ok(Found { kernel: release, scenarios })
}

/// What this Xen calls itself.
fn release() -> Result<String, Fail> {
    let read = |name: &str| std::fs::read_to_string(format!("/sys/hypervisor/version/{name}"));
    let all = ["major", "minor", "extra"].map(read);
    match all {
        [Ok(major), Ok(minor), Ok(extra)] => {
            Ok(format!("{}.{}{}", major.trim(), minor.trim(), extra.trim()))
        }
        _ => Err(Fail::Host("no /sys/hypervisor/version: this is no domain of a Xen host".into())),
    }
}
