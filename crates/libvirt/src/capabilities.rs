//! `<capabilities>`: which processors of a host share what, as `virsh capabilities` prints it.

use std::collections::BTreeMap;

use roxmltree::Node;

use crate::cpus::Cpus;
use crate::domain::document;
use crate::element::{attribute, elements, fault};
use crate::error::{DomainError, XmlError};
use crate::name::shown;

/// Which processors of a host share what; those that are switched off are in nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Capabilities {
    /// Threads of each core.
    pub cores: Vec<Cpus>,
    /// Processors of each last-level cache; none if the file does not say it.
    pub caches: Vec<Cpus>,
    /// Processors of each socket.
    pub sockets: Vec<Cpus>,
    /// Those of each NUMA node.
    pub nodes: Vec<Cpus>,
}

impl Capabilities {
    /// Reads `text`, called `file` in errors.
    ///
    /// # Errors
    /// If it does not say which processors a host has, or says something of them that cannot be.
    pub fn parse(file: &str, text: &str) -> Result<Self, DomainError> {
        read(text).map_err(|fault| fault.within(file, text))
    }
}

fn read(text: &str) -> Result<Capabilities, XmlError> {
    let document = document(text)?;
    let root = document.root_element();
    if root.tag_name().name() != "capabilities" {
        let name = shown(root.tag_name().name());
        let message =
            format!("no host of libvirt's: it begins with <{name}>, not with <capabilities>");
        return Err(XmlError::new(root.range().start, message));
    }
    let Some(host) = elements(root, "host").next() else {
        return Err(fault(root, "<host> is missing"));
    };
    let inside = |name| elements(host, name).next();
    let Some(cells) = inside("topology").and_then(|node| elements(node, "cells").next()) else {
        return Err(fault(host, "<topology> with <cells> is missing"));
    };
    let (mut sockets, mut cores) = (BTreeMap::new(), BTreeMap::new());
    let mut nodes: Vec<Vec<u16>> = Vec::new();
    for cell in elements(cells, "cell") {
        let all = elements(cell, "cpus").flat_map(|cpus| elements(cpus, "cpu"));
        let mut here = Vec::new();
        // One that is switched off has its number alone.
        for cpu in all.filter(|cpu| cpu.has_attribute("siblings")) {
            let id = number(cpu, "id")?;
            let siblings = list(cpu, "siblings")?;
            if !siblings.has(id) {
                return Err(fault(cpu, format!("{id} is not among its siblings, {siblings}")));
            }
            here.push(id);
            sockets.entry(number(cpu, "socket_id")?).or_insert_with(Vec::new).push(id);
            let first = siblings.iter().next();
            cores.entry(first).or_insert(siblings);
        }
        nodes.push(here);
    }
    let nodes: Vec<Cpus> = nodes.into_iter().filter_map(Cpus::of).collect();
    if nodes.is_empty() {
        return Err(fault(cells, "there are no processors"));
    }
    let banks = inside("cache").into_iter().flat_map(|cache| elements(cache, "bank"));
    // Levels with the processors of their banks, the last one the largest.
    let mut levels: BTreeMap<u16, Vec<Cpus>> = BTreeMap::new();
    for bank in banks.filter(|bank| bank.attribute("type") != Some("code")) {
        levels.entry(number(bank, "level")?).or_default().push(list(bank, "cpus")?);
    }
    Ok(Capabilities {
        cores: cores.into_values().collect(),
        caches: levels.pop_last().map(|(_, banks)| banks).unwrap_or_default(),
        sockets: sockets.into_values().filter_map(Cpus::of).collect(),
        nodes,
    })
}

fn number(node: Node<'_, '_>, key: &str) -> Result<u16, XmlError> {
    let n = attribute(node, key)?;
    u16::try_from(n).map_err(|_| fault(node, format!("{key} {n}: a number from 0 to {}", u16::MAX)))
}

fn list(node: Node<'_, '_>, key: &str) -> Result<Cpus, XmlError> {
    let text = node.attribute(key).unwrap_or_default();
    Cpus::parse(text).map_err(|message| fault(node, format!("{key}: {message}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two sockets of two cores with two threads each, of which one is switched off, a cache for each core.
    const TWO: &str = "<capabilities><host><topology><cells num='2'>
        <cell id='0'><memory unit='KiB'>1</memory><cpus num='4'>
        <cpu id='0' socket_id='0' die_id='0' core_id='0' siblings='0,4'/><cpu id='1' socket_id='0' die_id='0' core_id='1' siblings='1,5'/>
        <cpu id='4' socket_id='0' die_id='0' core_id='0' siblings='0,4'/><cpu id='5' socket_id='0' die_id='0' core_id='1' siblings='1,5'/>
        </cpus></cell>
        <cell id='1'><cpus num='4'>
        <cpu id='2' socket_id='1' die_id='0' core_id='0' siblings='2,6'/><cpu id='3' socket_id='1' die_id='0' core_id='1' siblings='3'/>
        <cpu id='6' socket_id='1' die_id='0' core_id='0' siblings='2,6'/><cpu id='7'/>
        </cpus></cell></cells></topology>
        <cache><bank id='0' level='2' type='both' size='1' unit='MiB' cpus='0,4'/>
        <bank id='0' level='3' type='both' size='16' unit='MiB' cpus='0-1,4-5'/><bank id='1' level='3' type='both' size='16' unit='MiB' cpus='2-3,6'/></cache>
        </host><guest/></capabilities>";

    fn texts(sets: &[Cpus]) -> Vec<String> {
        sets.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn who_shares_what() {
        let read = Capabilities::parse("c.xml", TWO).expect("capabilities");
        assert_eq!(texts(&read.cores), ["0,4", "1,5", "2,6", "3"]);
        assert_eq!(texts(&read.caches), ["0-1,4-5", "2-3,6"]);
        assert_eq!(texts(&read.sockets), ["0-1,4-5", "2-3,6"]);
        assert_eq!(texts(&read.nodes), ["0-1,4-5", "2-3,6"]);
    }

    #[test]
    fn what_is_wrong_has_a_place() {
        for (from, to, wanted) in [
            (
                "socket_id='1'",
                "socket_id='x'",
                "c.xml:7:9: <cpu>: socket_id: `x` is no whole number",
            ),
            ("siblings='3'", "siblings='2'", "<cpu>: 3 is not among its siblings, 2"),
            ("siblings='0,4'", "siblings='0-'", "<cpu>: siblings: ``: numbers from 0"),
            ("level='3'", "", "<bank>: `level` is missing"),
            ("<capabilities>", "<domain>", "no XML"),
            ("host>", "hosts>", "<capabilities>: <host> is missing"),
            ("cells", "cell", "<host>: <topology> with <cells> is missing"),
            ("siblings", "brothers", "<cells>: there are no processors"),
        ] {
            let error =
                Capabilities::parse("c.xml", &TWO.replace(from, to)).expect_err(to).to_string();
            assert!(error.contains(wanted), "{error}");
        }
        let error = Capabilities::parse("c.xml", "<domain/>").expect_err("a VM").to_string();
        assert!(error.contains("begins with <domain>, not with <capabilities>"), "{error}");
    }
}
