//! Recordings of simulated hosts.

use lowtail_engine::{Duration, Time};
use lowtail_host::{Config, Host};
use lowtail_predict::{Named, ScheduleWriter};
use lowtail_trace::Role;

/// Runs a host for so long, and gives its recording: each vCPU is the only one of its VM.
pub(crate) fn recorded(config: &Config, span: Duration) -> Vec<u8> {
    let named = config.vms.iter().map(|vm| Named {
        comm: "CPU 0/KVM".to_owned(),
        vm: Some((vm.name.clone(), Role::Vcpu(0))),
    });
    let named: Vec<Named> = named.collect();
    let mut writer = ScheduleWriter::new(Vec::new(), config.pcpus, "6.12.0", &named).unwrap();
    let config = Config { records: 1 << 14, ..config.clone() };
    let mut host = Host::new(&config, 1).unwrap();
    let end = Time::ZERO + span;
    while host.step(end) {
        host.recorder_mut().drain(|record| writer.record(record).unwrap());
    }
    writer.finish(span.as_ns()).unwrap()
}
