//! Which VMs an entry is for.

use std::collections::BTreeMap;

use lowtail_config_text::KeyError;
use lowtail_libvirt::labels::Label;

use super::patterns::Patterns;
use lowtail_discover::{Kind, NamedBy, Users, Vm};

/// The namespace in libvirt's metadata whose attributes are labels:
/// `virsh metadata web urn:lowtail:labels --key lowtail --set '<labels tier="front"/>'`.
pub(super) const LABELS: &str = "urn:lowtail:labels";

/// What has to fit, all of it.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Selector {
    pub(super) name: Option<Patterns>,
    pub(super) kind: Option<Kind>,
    pub(super) label: Option<BTreeMap<String, Patterns>>,
    pub(super) title: Option<Patterns>,
    pub(super) metadata: Option<BTreeMap<String, Patterns>>,
    pub(super) cgroup: Option<Patterns>,
}

impl Selector {
    /// Itself, if it can fit anything.
    pub(super) fn checked(self) -> Result<Self, KeyError> {
        for (key, table) in [("label", &self.label), ("metadata", &self.metadata)] {
            if table.as_ref().is_some_and(BTreeMap::is_empty) {
                let message = format!("an empty `{key}` says nothing of VMs; take it out");
                return Err(KeyError::new(key, message));
            }
        }
        for path in self.metadata.iter().flat_map(BTreeMap::keys) {
            let (namespace, path) = split(path);
            if path.is_empty() || path.starts_with('{') || namespace == Some("") {
                let message = "a path in libvirt's metadata is written `instance/owner/project`, `instance/flavor@name` \
                               for an attribute, or `{NAMESPACE}instance/flavor@name`";
                return Err(KeyError::new("metadata", message.to_string()));
            }
        }
        Ok(self)
    }

    pub(super) fn fits_all(&self) -> bool {
        *self == Selector::default()
    }

    /// A key in use that nobody but libvirt can answer.
    pub(super) fn needs_libvirt(&self) -> Option<&'static str> {
        let keys = [("title", self.title.is_some()), ("metadata", self.metadata.is_some())];
        keys.iter().find_map(|(key, used)| used.then_some(*key))
    }

    pub(super) fn by_label(&self) -> bool {
        self.label.is_some()
    }

    /// Whether it chooses VMs by something that whoever runs a VM cannot choose.
    pub(super) fn is_explicit(&self) -> bool {
        *self != Selector { kind: self.kind, ..Selector::default() }
    }

    /// Whether this is the VM `vm`, of which libvirt says what `words` are. A name counts if somebody has chosen it who
    /// may: libvirt, root, one of these `users`. So does a control group that root alone fills.
    pub(super) fn fits(&self, vm: &Vm, words: &[Label], users: &Users) -> bool {
        let fit = |patterns: &Option<Patterns>, text: Option<&str>| {
            patterns.as_ref().is_none_or(|patterns| text.is_some_and(|text| patterns.fit(text)))
        };
        let name = is_named(vm, users).then(|| vm.name.as_given());
        let cgroup = vm.cgroup.as_ref().filter(|_| vm.origin.root_cgroup);
        let cgroup = cgroup.map(|group| group.to_string_lossy());
        let title = words.iter().find(|word| word.namespace.is_none() && word.path == "title");
        fit(&self.name, name)
            && self.kind.is_none_or(|kind| kind == vm.kind)
            && fit(&self.title, title.map(|title| title.value.as_str()))
            && fit(&self.cgroup, cgroup.as_deref())
            && all(&self.label, |name, patterns| {
                // The host's word on the group goes before what stands in a file.
                match vm.labels.get(name) {
                    Some(own) => patterns.fit(own),
                    None => words
                        .iter()
                        .any(|word| label(word) == Some(name) && patterns.fit(&word.value)),
                }
            })
            && all(&self.metadata, |path, patterns| {
                words.iter().any(|word| is_at(word, path) && patterns.fit(&word.value))
            })
    }
}

/// Whether somebody has named the VM who may.
pub(super) fn is_named(vm: &Vm, users: &Users) -> bool {
    match vm.origin.named_by {
        NamedBy::Libvirt | NamedBy::Declared | NamedBy::Root | NamedBy::Cgroup => true,
        NamedBy::User(uid) => users.contains(uid),
        NamedBy::Unknown => false,
    }
}

/// Whether somebody decides on the VM who may: how many vCPUs it has, and which threads serve it.
pub(crate) fn is_trusted(vm: &Vm, users: &Users) -> bool {
    match vm.origin.named_by {
        NamedBy::Libvirt | NamedBy::Declared | NamedBy::Root => true,
        NamedBy::Cgroup | NamedBy::User(_) | NamedBy::Unknown => {
            vm.origin.uid.is_some_and(|uid| users.contains(uid))
        }
    }
}

/// Whether `fits` holds for each entry, if there are any.
fn all(table: &Option<BTreeMap<String, Patterns>>, fits: impl Fn(&str, &Patterns) -> bool) -> bool {
    table.iter().flatten().all(|(key, patterns)| fits(key, patterns))
}

/// The name of the label that this is: an attribute of the element in our namespace.
fn label(word: &Label) -> Option<&str> {
    let own = word.namespace.as_deref() == Some(LABELS);
    word.path
        .split_once('@')
        .filter(|(element, _)| own && !element.contains('/'))
        .map(|(_, name)| name)
}

/// Whether it stands in the metadata at this path.
fn is_at(word: &Label, path: &str) -> bool {
    let (namespace, path) = split(path);
    // Title and description have no namespace, and are no metadata.
    let there = word.namespace.as_deref();
    there.is_some()
        && word.path == path
        && namespace.is_none_or(|namespace| there == Some(namespace))
}

/// `{NAMESPACE}path`, as James Clark writes names of XML.
fn split(path: &str) -> (Option<&str>, &str) {
    match path.strip_prefix('{').and_then(|rest| rest.split_once('}')) {
        Some((namespace, path)) => (Some(namespace), path),
        None => (None, path),
    }
}
