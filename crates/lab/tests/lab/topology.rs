//! What the pCPUs of a host share, by lists and by files.

use std::path::Path;

use lowtail_host::{CpuSet, Pcpu, Topology};
use lowtail_lab::Experiment;

fn set(pcpus: &[u16]) -> CpuSet {
    pcpus.iter().map(|&p| Pcpu(p)).collect()
}

fn scenario(host: &str) -> String {
    format!(
        "title = \"x\"\nduration = \"1s\"\n[host]\nscheduler = {{ kind = \"eevdf\", version = \"6.12\" }}\n{host}\n[vm.a]\n\
         workload = {{ kind = \"cpu-loop\" }}\n"
    )
}

/// pCPUs and topology of the host, or what is wrong.
fn read(host: &str, dir: Option<&Path>) -> Result<(u16, Topology), String> {
    let parsed = Experiment::parse("x.toml", &scenario(host), dir).map_err(|e| e.to_string())?;
    let config = &parsed.cases(false)[0].hosts[0].config;
    Ok((config.pcpus, config.topology.clone().expect("a topology")))
}

/// Two sockets of two cores with two threads, numbered as firmware usually does.
fn two_sockets() -> Topology {
    let sockets = vec![set(&[0, 1, 4, 5]), set(&[2, 3, 6, 7])];
    Topology {
        cores: vec![set(&[0, 4]), set(&[1, 5]), set(&[2, 6]), set(&[3, 7])],
        caches: sockets.clone(),
        sockets: sockets.clone(),
        nodes: sockets,
    }
}

#[test]
fn lists_say_what_is_not_the_usual() {
    let cores = "cores = [\"0,4\", \"1,5\", \"2,6\", \"3,7\"]";
    let sockets = "[\"0-1,4-5\", \"2-3,6-7\"]";
    for said in ["sockets", "nodes"] {
        let host = format!("topology = {{ {cores}, {said} = {sockets} }}");
        assert_eq!(read(&host, None), Ok((8, two_sockets())), "{said}");
    }
    let (pcpus, flat) = read("topology = { cores = [\"0\", \"1\", \"2\"] }", None).expect("flat");
    assert_eq!((pcpus, flat), (3, Topology::flat(3)));
    // A cache that reaches beyond a node is none for Linux: a part of it in each.
    let host = "topology = { nodes = [\"0-1\", \"2-3\"], caches = [\"0-3\"], sockets = [\"0-3\"] }";
    let (_, split) = read(host, None).expect("nodes within a socket");
    assert_eq!(split.caches, [set(&[0, 1]), set(&[2, 3])]);
    assert_eq!(split.sockets, [set(&[0, 1, 2, 3])]);
}

/// `/proc/cpuinfo` of such a host, in short.
#[test]
fn a_copy_of_cpuinfo() {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let cpu = |p: u16| {
        let (socket, core) = (p % 4 / 2, p % 2);
        format!(
            "processor\t: {p}\nvendor_id\t: x\nphysical id\t: {socket}\nsiblings\t: 4\ncore id\t\t: {core}\nflags\t\t: a b\n\n"
        )
    };
    let text: String = (0..8).map(cpu).collect();
    std::fs::write(dir.join("cpuinfo"), &text).expect("written");
    let host = "topology = { file = \"cpuinfo\" }";
    assert_eq!(read(host, Some(dir)), Ok((8, two_sockets())));
    let broken = text.replacen("core id\t\t: 1", "core id\t\t: one", 1);
    std::fs::write(dir.join("cpuinfo"), broken).expect("written");
    let error = read(host, Some(dir)).expect_err("no number");
    assert!(error.contains("cpuinfo:12: core id `one`: a number"), "{error}");
}

#[test]
fn what_is_wrong_has_a_place() {
    for (host, wanted) in [
        ("pcpus = 4\ntopology = { nodes = [\"0-7\"] }", "x.toml:5:9: 4, but the topology has 8"),
        ("sockets = 2\ntopology = { nodes = [\"0-7\"] }", "x.toml:5:11: the topology says it"),
        (
            "topology = { nodes = [\"0-3\", \"5\"] }",
            "x.toml:5:12: nodes: pCPU 4 is in none of them",
        ),
        ("topology = { nodes = [\"0-3\", \"4-\"] }", "x.toml:5:30: ``: numbers from 0"),
        ("topology = { nodes = [\"0-1024\"] }", "x.toml:5:23: pCPU 1024: a host has 1 to 1024"),
        (
            "topology = { file = \"a\", nodes = [\"0\"] }",
            "x.toml:5:21: the file, or lists: not both",
        ),
        ("topology = { file = \"a\" }", "x.toml:5:21: there are no files here"),
        ("topology = {}", "x.toml:"),
    ] {
        let error = read(host, None).expect_err(host);
        assert!(error.contains(wanted), "{host}: {error}");
    }
}
