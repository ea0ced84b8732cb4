//! Words that the glossary replaces are gone from documents, code and help.

use std::fs;

use crate::tree::{files, root};

/// The first column of the table below `## Words to avoid`.
fn avoided(glossary: &str) -> Vec<String> {
    let (_, table) = glossary.split_once("## Words to avoid").expect("the table");
    let rows = table.lines().filter_map(|line| line.strip_prefix("| "));
    let words = rows.filter_map(|row| row.split(" | ").next().map(str::to_lowercase));
    words.filter(|word| word != "not").collect()
}

/// Runs of white space and comment marks are one space: a phrase may be broken over two lines.
fn flat(text: &str) -> String {
    let lines =
        text.lines().map(|line| line.trim().trim_start_matches(['/', '!', '*', '#']).trim());
    lines.collect::<Vec<_>>().join(" ").to_lowercase()
}

#[test]
fn words_to_avoid_are_avoided() {
    let root = root();
    let glossary = fs::read_to_string(root.join("docs/glossary.md")).expect("the glossary");
    let avoided = avoided(&glossary);
    assert!(avoided.len() >= 10, "{avoided:?}");
    let mut all = Vec::new();
    for (below, endings) in [
        ("docs", &[".md", ".json"][..]),
        ("crates", &[".rs"]),
        ("bpf", &[".c", ".h"]),
        ("policy", &[".c", ".h"]),
        ("schema", &[".json"]),
        ("experiments", &[".toml"]),
    ] {
        all.extend(files(&root.join(below), endings));
    }
    for name in ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "LIMITATIONS.md"] {
        all.push(root.join(name));
    }
    all.retain(|path| !path.ends_with("docs/glossary.md"));
    assert!(all.len() > 300, "{} files", all.len());
    let mut wrong = Vec::new();
    for path in &all {
        let text = flat(&fs::read_to_string(path).expect("text"));
        for word in avoided.iter().filter(|word| text.contains(word.as_str())) {
            wrong.push(format!("{}: `{word}`", path.strip_prefix(&root).unwrap_or(path).display()));
        }
    }
    assert!(wrong.is_empty(), "docs/glossary.md says what to write instead:\n{}", wrong.join("\n"));
}
