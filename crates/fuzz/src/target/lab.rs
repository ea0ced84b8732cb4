//! Scenarios.

use lowtail_lab::Experiment;
use lowtail_lab::kvm::import::{HostOptions, scenario};
use lowtail_lab::topology::TopologyFile;
use lowtail_libvirt::Domain;
use lowtail_libvirt::range::CgroupVersion;

use crate::reader::{Most, Target};

/// Each case has a copy of the tree: `CASE_BYTES_MAX` of the crate's `case`.
const MOST: Most = Most { held: (1 << 30, 64 << 10), taken: (4 << 30, 1 << 20) };

pub(super) const SCENARIO: Target = Target {
    name: "scenario",
    read: experiment,
    bytes_max: 16 << 10,
    most: MOST,
    words: &[
        "[[case]]\n",
        "[[claim]]\n",
        "[host]\n",
        "[vm.a]\n",
        "[network]\n",
        "[full]\n",
        "{x}",
        "kind = ",
        "for = { x = [1, 2] }\n",
        "set = { vm = 1 }\n",
        "workload = { kind = \"cpu-loop\" }\n",
        "vcpus = ",
        "count = ",
        "pcpus = ",
        "duration = ",
        "scheduler = ",
        "\"1us\"",
        "\"1000s\"",
        "1e308",
        "nan",
        "[",
        "]",
        "{",
        "}",
        "\"",
    ],
};
pub(super) const TOPOLOGY: Target = Target {
    name: "topology",
    read: topology,
    bytes_max: 16 << 10,
    most: MOST,
    words: &[
        "<capabilities>",
        "</capabilities>",
        "<host>",
        "</host>",
        "<topology>",
        "<cells>",
        "<cell id='0'>",
        "<cpus>",
        "<cpu id='0' socket_id='0' core_id='0' siblings='0'/>",
        "<cpu id='65535'/>",
        "siblings='0-16383'",
        "<cache>",
        "<bank level='3' cpus='0-1'/>",
        "processor\t: 1\n",
        "physical id\t: 1\n",
        "core id\t\t: 0\n",
        "\n\n",
        "65535",
        "-1",
    ],
};
pub(super) const MACHINES: Target = Target {
    name: "machines",
    read: machines,
    bytes_max: 16 << 10,
    most: MOST,
    words: &[
        "<domain>",
        "</domain>",
        "<name>",
        "</name>",
        "<cputune>",
        "</cputune>",
        "\"",
        "'",
        "\n[",
    ],
};

/// A scenario is refused with a place, or all its cases are made; none is run.
fn experiment(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    match Experiment::parse("x.toml", &text, None) {
        Ok(experiment) => {
            for full in [false, true] {
                for case in experiment.cases(full) {
                    assert!(!case.describe().contains(char::is_control));
                }
            }
        }
        Err(error) => {
            assert!(!matches!(error, lowtail_lab::Error::Simulator { .. }), "{error}");
            let error = error.to_string();
            assert!(error.starts_with("x.toml:"), "{error}");
            assert!(!error.contains(char::is_control), "{error:?}");
        }
    }
}

/// Machines of libvirt's become a scenario that can be read: no word of theirs ends a string or begins a table.
fn machines(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let Ok(domain) = Domain::parse("a.xml", &text) else { return };
    for version in [CgroupVersion::V1, CgroupVersion::V2] {
        let scheduler = "eevdf-6.12".to_string();
        let host = HostOptions { pcpus: 4, topology: None, scheduler, version };
        let one = ("a.xml".to_string(), domain.clone());
        if let Ok(scenario) = scenario(&[one.clone(), one], &host) {
            match Experiment::parse("x.toml", &scenario, None) {
                Ok(experiment) => assert_eq!(experiment.file.vm.len(), 2, "{scenario}"),
                // More vCPUs or threads than a host can have; a text that is no scenario would be the import's fault.
                Err(error) => {
                    let error = error.to_string();
                    let syntax = ["expected", "unknown", "invalid", "duplicate"];
                    assert!(!syntax.iter().any(|word| error.contains(word)), "{error}\n{scenario}");
                }
            }
        }
    }
}

/// What pCPUs share becomes a table of a scenario that can be read: its lists are right or refused, and no word ends a string.
fn topology(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    match TopologyFile::parse("fuzz.xml", &text) {
        Ok(lists) => {
            let scenario = format!(
                "title = \"x\"\n[host]\nscheduler = {{ kind = \"eevdf\", version = \"6.12\" }}\n{}[vm.a]\nworkload = {{ kind = \"cpu-loop\" }}\n",
                lists.toml()
            );
            if let Err(error) = Experiment::parse("x.toml", &scenario, None) {
                let error = error.to_string();
                let syntax = ["expected", "unknown", "invalid", "duplicate"];
                assert!(!syntax.iter().any(|word| error.contains(word)), "{error}\n{scenario}");
            }
        }
        Err(error) => assert!(!error.to_string().contains(char::is_control), "{error:?}"),
    }
}
