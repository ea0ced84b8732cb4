//! ARCHITECTURE.md says what the manifests say.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::tree::root;

type Arrows = BTreeMap<String, BTreeSet<String>>;

/// What each crate of the workspace builds on, by its manifest; what only tests need is left out.
fn manifests(root: &Path) -> Arrows {
    let mut arrows = Arrows::new();
    for entry in fs::read_dir(root.join("crates")).expect("crates").flatten() {
        let text = fs::read_to_string(entry.path().join("Cargo.toml")).expect("a manifest");
        let manifest: toml::Table = text.parse().expect("TOML");
        let needs = ["dependencies", "build-dependencies"].into_iter();
        let needs = needs.filter_map(|section| manifest.get(section)?.as_table());
        let needs = needs.flat_map(|table| table.keys());
        let own = needs.filter_map(|name| name.strip_prefix("lowtail-")).map(String::from);
        arrows.insert(entry.file_name().into_string().expect("a name"), own.collect());
    }
    arrows
}

/// Crates that `from` reaches, if the arrow `without` is not taken.
fn reached(arrows: &Arrows, from: &str, without: (&str, &str)) -> BTreeSet<String> {
    let (mut found, mut next) = (BTreeSet::new(), vec![from.to_string()]);
    while let Some(at) = next.pop() {
        for to in &arrows[&at] {
            if (at.as_str(), to.as_str()) != without && found.insert(to.clone()) {
                next.push(to.clone());
            }
        }
    }
    found
}

#[test]
fn the_diagram_is_what_the_manifests_say() {
    let root = root();
    let arrows = manifests(&root);
    let mut expected = BTreeSet::new();
    for (from, needs) in &arrows {
        for to in needs {
            assert!(!reached(&arrows, to, ("", "")).contains(from), "a circle: {from}, {to}");
            if !reached(&arrows, from, (from, to)).contains(to) {
                expected.insert(format!("{from} --> {to}"));
            }
        }
    }
    let text = fs::read_to_string(root.join("ARCHITECTURE.md")).expect("it is there");
    let drawn: BTreeSet<String> = text
        .lines()
        .map(str::trim)
        .filter(|line| line.contains(" --> "))
        .map(String::from)
        .collect();
    assert_eq!(drawn, expected);
    for (a, b) in [("observe", "control"), ("control", "observe"), ("net", "host")] {
        assert!(!reached(&arrows, a, ("", "")).contains(b), "{a} knows {b}");
    }
}
