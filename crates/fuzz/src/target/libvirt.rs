//! What libvirt says of a machine.

use lowtail_libvirt::labels::{LABELS_MAX, VALUE_BYTES_MAX};
use lowtail_libvirt::name::{escape, machine, scope, shown};
use lowtail_libvirt::{Cpus, Domain, labels};

use crate::reader::{Most, Target, text};

const WORDS: &[&str] = &[
    "<domain>",
    "</domain>",
    "<name>",
    "</name>",
    "<vcpu>",
    "</vcpu>",
    "<vcpu cpuset='0-3,^2'>",
    "<vcpus>",
    "<vcpu id='0' enabled='yes'/>",
    "<iothreads>",
    "<iothreadids>",
    "<iothread id='1'/>",
    "<cputune>",
    "</cputune>",
    "<shares>",
    "<quota>",
    "<period>",
    "<emulatorpin cpuset='0'/>",
    "<vcpupin vcpu='0' cpuset='1'/>",
    "<vcpusched vcpus='0' scheduler='fifo' priority='1'/>",
    "<metadata>",
    "</metadata>",
    "<title>",
    "<a:b xmlns:a='c'>",
    "</a:b>",
    "<!--",
    "-->",
    "<![CDATA[",
    "]]>",
    "&amp;",
    "&#x1b;",
    "<!DOCTYPE a [<!ENTITY b 'c'>]>",
    "xmlns=''",
];
/// A tree of the document, and texts of it.
const MOST: Most = Most { held: (1 << 20, 1024), taken: (4 << 20, 16 << 10) };

/// Paths of a kilobyte for attributes of five bytes, with what is parsed.
const LABELS_MOST: Most = Most { held: (1 << 20, 1024), taken: (4 << 20, 1024) };

pub(super) const DOMAIN: Target =
    Target { name: "domain", read: domain, bytes_max: 16 << 10, most: MOST, words: WORDS };
pub(super) const LABELS: Target =
    Target { name: "labels", read: label, bytes_max: 64 << 10, most: LABELS_MOST, words: WORDS };
pub(super) const CPUS: Target = text("cpus", cpus, &["^", "-", ",", "16383", "16384", "+1", " "]);
pub(super) const NAMES: Target = text("names", names, &["\u{202e}", "\u{1b}[2J", "..", "--", "é"]);

/// A machine has vCPUs and a name that can be shown and be part of a path; an error has a place.
fn domain(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    match Domain::parse("fuzz.xml", &text) {
        Ok(domain) => {
            assert!(!shown(&domain.name).contains(char::is_control));
            assert!(!scope(1, &domain.name).contains('/'));
            assert!(!domain.vcpus.is_empty());
            assert!(domain.vcpus.is_sorted() && domain.iothreads.is_sorted());
        }
        Err(error) => {
            assert!(error.line >= 1 && error.column >= 1);
            assert!(error.line as usize <= text.split('\n').count(), "{error:?}");
            assert!(!error.to_string().contains(char::is_control), "{error:?}");
        }
    }
}

/// Labels are few and short, and one that is none has a place.
fn label(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    match labels("fuzz.xml", &text) {
        Ok(labels) => {
            assert!(labels.len() <= LABELS_MAX);
            for label in labels {
                assert!(
                    label.path.len() <= VALUE_BYTES_MAX && label.value.len() <= VALUE_BYTES_MAX
                );
                assert!(!label.value.is_empty());
            }
        }
        Err(error) => assert!(!error.to_string().contains(char::is_control), "{error:?}"),
    }
}

/// A list is written as one text, and read again the same.
fn cpus(bytes: &[u8]) {
    match Cpus::parse(&String::from_utf8_lossy(bytes)) {
        Ok(cpus) => {
            let one = cpus.to_string();
            assert_eq!(Cpus::parse(&one), Ok(cpus), "{one}");
        }
        Err(error) => assert!(!error.contains(char::is_control), "{error:?}"),
    }
}

/// A name becomes a part of a path and a word for a terminal.
fn names(bytes: &[u8]) {
    let name = String::from_utf8_lossy(bytes);
    let machine = machine(1, &name);
    assert!(machine.len() <= 64 && machine.starts_with("qemu-1"), "{machine}");
    assert!(machine.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'.'));
    let escaped = escape(&name);
    assert!(!escaped.contains('/') && !escaped.starts_with('.'), "{escaped}");
    assert!(!shown(&name).contains(char::is_control));
}
