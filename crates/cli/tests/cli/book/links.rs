//! Links lead somewhere, and every page is in the book.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use super::pages::{Page, all};
use crate::tree::root;

/// `docs/reference` and `../glossary.md` are `docs/glossary.md`. `None` if it leads out of the tree.
fn resolve(from: &Path, to: &str) -> Option<PathBuf> {
    let mut path = from.to_path_buf();
    for part in Path::new(to).components() {
        match part {
            Component::ParentDir => path.pop().then_some(())?,
            Component::Normal(name) => path.push(name),
            Component::CurDir => {}
            _ => return None,
        }
    }
    Some(path)
}

/// What is wrong with a link of `page`.
fn wrong(page: &Page, to: &str, anchors: &BTreeMap<&str, Vec<String>>) -> Option<String> {
    // Addresses of other hosts; nothing is asked of the network here.
    if to.contains("://") || to.starts_with("mailto:") {
        return None;
    }
    let (file, anchor) = to.split_once('#').unwrap_or((to, ""));
    let from = Path::new(&page.name).parent().expect("a page is in a directory");
    let path = if file.is_empty() {
        PathBuf::from(&page.name)
    } else {
        match resolve(from, file) {
            Some(path) => path,
            None => return Some("leads out of the tree".to_string()),
        }
    };
    if !root().join(&path).exists() {
        return Some(format!("there is no {}", path.display()));
    }
    if anchor.is_empty() {
        return None;
    }
    let name = path.to_str().expect("a name in UTF-8");
    match anchors.get(name) {
        Some(known) if known.iter().any(|known| known == anchor) => None,
        Some(_) => Some(format!("{name} has no heading #{anchor}")),
        None => Some(format!("{name} is no page, and has no headings")),
    }
}

#[test]
fn links_lead_to_files_and_headings() {
    let pages = all();
    let anchors: BTreeMap<_, _> =
        pages.iter().map(|page| (page.name.as_str(), page.anchors())).collect();
    let (mut count, mut dead) = (0, Vec::new());
    for page in &pages {
        for link in page.links() {
            count += 1;
            if let Some(why) = wrong(page, &link.to, &anchors) {
                dead.push(format!("{}:{}: {}: {why}", page.name, link.line, link.to));
            }
        }
    }
    assert!(count > 100, "{count} links");
    assert!(dead.is_empty(), "{}", dead.join("\n"));
}

#[test]
fn dead_links_are_found() {
    let page = |name: &str, text: &str| Page { name: name.to_string(), text: text.to_string() };
    let from = page("docs/reference/apply.md", "# A b, `c`\n\n## A\n\n## A\n");
    let anchors = BTreeMap::from([("docs/reference/apply.md", from.anchors())]);
    let wrong = |to| wrong(&from, to, &anchors);
    for to in ["#a-b-c", "#a", "#a-1", "../../README.md", "../pictures", "https://xenproject.org"] {
        assert_eq!(wrong(to), None, "{to}");
    }
    for to in ["#a-2", "none.md", "../../../README.md/..", "../../../x", "/etc", "../pictures#a"] {
        assert!(wrong(to).is_some(), "{to}");
    }
}

#[test]
fn every_page_is_in_the_book_once() {
    let pages = all();
    let summary = pages.iter().find(|page| page.name == "docs/SUMMARY.md").expect("a summary");
    let mut listed: Vec<_> =
        summary.links().into_iter().map(|link| format!("docs/{}", link.to)).collect();
    listed.sort();
    let of_book = |name: &&str| name.starts_with("docs/") && *name != "docs/SUMMARY.md";
    let pages: Vec<_> = pages.iter().map(|page| page.name.as_str()).filter(of_book).collect();
    assert_eq!(listed, pages, "left: docs/SUMMARY.md; right: the pages that there are");
}
