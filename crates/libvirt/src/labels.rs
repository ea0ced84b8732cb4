//! `<title>`, `<description>` and `<metadata>`: what users and management software have written on a VM.

use roxmltree::Node;

use crate::domain::{document, domain_of};
use crate::element::{elements, text};
use crate::error::{DomainError, XmlError};

/// Most labels of a VM that are kept. Management software writes some twenty (OpenStack's `nova:instance`).
pub const LABELS_MAX: usize = 256;
/// Longest value that is kept, in bytes; longer ones are left out, as no selector would name them.
pub const VALUE_BYTES_MAX: usize = 1024;

/// Deepest element that is looked at, below `<metadata>`.
const DEPTH_MAX: usize = 32;

/// One word on a VM. All of it is chosen by users: to be compared, never to be obeyed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Label {
    /// The namespace of its element, a URI; none for title and description.
    pub namespace: Option<String>,
    /// Names of the elements below `<metadata>`, without prefixes: `instance/flavor`, and `instance/flavor@name` for
    /// an attribute. `title` and `description` are themselves.
    pub path: String,
    /// Its text, without blanks around it.
    pub value: String,
}

/// The labels of the VM that `xml`, called `file` in errors, describes: in the order of the file, without
/// empty ones.
///
/// # Errors
/// If it is no description of a VM.
pub fn labels(file: &str, xml: &str) -> Result<Vec<Label>, DomainError> {
    read(xml).map_err(|fault| fault.within(file, xml))
}

fn read(xml: &str) -> Result<Vec<Label>, XmlError> {
    let document = document(xml)?;
    let domain = domain_of(&document)?;
    let mut labels = Vec::new();
    for name in ["title", "description"] {
        if let Some(node) = elements(domain, name).next() {
            add(&mut labels, None, name.to_string(), &text(node));
        }
    }
    let below = elements(domain, "metadata").flat_map(|metadata| metadata.children());
    for node in below.filter(Node::is_element) {
        walk(&mut labels, node, node.tag_name().name(), 1);
    }
    Ok(labels)
}

/// Adds what `node`, called `path`, and all below it say.
fn walk(labels: &mut Vec<Label>, node: Node<'_, '_>, path: &str, depth: usize) {
    // Below a path that is too long all are, and copying it for each would take the file's length squared.
    if depth > DEPTH_MAX || labels.len() >= LABELS_MAX || path.len() > VALUE_BYTES_MAX {
        return;
    }
    let namespace = node.tag_name().namespace();
    for attribute in node.attributes() {
        add(labels, namespace, format!("{path}@{}", attribute.name()), attribute.value());
    }
    add(labels, namespace, path.to_string(), &text(node));
    for below in node.children().filter(Node::is_element) {
        walk(labels, below, &format!("{path}/{}", below.tag_name().name()), depth + 1);
    }
}

fn add(labels: &mut Vec<Label>, namespace: Option<&str>, path: String, value: &str) {
    let value = value.trim();
    let fits = value.len() <= VALUE_BYTES_MAX && path.len() <= VALUE_BYTES_MAX;
    if !value.is_empty() && fits && labels.len() < LABELS_MAX {
        let namespace = namespace.map(str::to_string);
        labels.push(Label { namespace, path, value: value.to_string() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<(Option<String>, String, String)> {
        let labels = labels("a.xml", text).expect("a VM");
        labels.into_iter().map(|label| (label.namespace, label.path, label.value)).collect()
    }

    /// The example of libvirt's docs/formatdomain.rst, and elements as OpenStack writes them.
    #[test]
    fn title_description_and_metadata() {
        let text = r#"<domain><name>web</name><title> A short one </title>
            <description>Some human readable description</description>
            <metadata>
              <app1:foo xmlns:app1="http://app1.org/app1/">..</app1:foo>
              <nova:instance xmlns:nova="http://openstack.org/xmlns/libvirt/nova/1.1">
                <nova:flavor name="m1.small"><nova:vcpus>1</nova:vcpus></nova:flavor>
              </nova:instance>
            </metadata></domain>"#;
        let some = |namespace: &str, path: &str, value: &str| {
            let namespace = (!namespace.is_empty()).then(|| namespace.to_string());
            (namespace, path.to_string(), value.to_string())
        };
        let nova = "http://openstack.org/xmlns/libvirt/nova/1.1";
        let expected = [
            some("", "title", "A short one"),
            some("", "description", "Some human readable description"),
            some("http://app1.org/app1/", "foo", ".."),
            some(nova, "instance/flavor@name", "m1.small"),
            some(nova, "instance/flavor/vcpus", "1"),
        ];
        assert_eq!(read(text), expected);
        assert_eq!(read("<domain><name>a</name></domain>"), []);
    }

    #[test]
    fn what_is_hostile_is_bounded() {
        let many: String = (0..10_000).map(|n| format!("<a b='{n}'>x</a>")).collect();
        let text = format!("<domain><metadata>{many}</metadata></domain>");
        assert_eq!(read(&text).len(), LABELS_MAX);
        let long = "x".repeat(VALUE_BYTES_MAX + 1);
        let text = format!("<domain><metadata><a>{long}</a><b>c</b></metadata></domain>");
        assert_eq!(read(&text), [(None, "b".to_string(), "c".to_string())]);
        // As deep as the parser goes, or an error; the stack holds.
        for deep in [100, 1_000, 100_000] {
            let (open, close) = ("<a>".repeat(deep), "</a>".repeat(deep));
            let text = format!("<domain><metadata>{open}x{close}</metadata></domain>");
            if let Ok(labels) = labels("a.xml", &text) {
                assert!(labels.iter().all(|label| label.path.len() <= VALUE_BYTES_MAX));
            }
        }
        let error = labels("a.xml", "<volume/>").expect_err("no VM");
        assert!(error.to_string().starts_with("a.xml:1:1: "), "{error}");
    }
}
