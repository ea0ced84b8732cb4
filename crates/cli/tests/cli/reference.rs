//! Pages of docs/reference that are written from the program: they say what it does now. `make reference` writes them.

mod keys;
mod tables;

use std::fs;

use crate::Place;
use crate::tree::root;
use keys::Keys;

/// Set by `make reference`: pages are written instead of compared.
const WRITE: &str = "LOWTAIL_WRITE_REFERENCE";

/// `page` of docs/reference is `text`.
fn is_now(page: &str, text: &str) {
    let path = root().join("docs/reference").join(page);
    if std::env::var_os(WRITE).is_some() {
        fs::write(&path, text).expect("a page");
    }
    let there = fs::read_to_string(&path).unwrap_or_default();
    let line = there.lines().zip(text.lines()).position(|(there, now)| there != now);
    assert!(
        there == text,
        "docs/reference/{page}, line {}: `make reference` writes it anew",
        line.unwrap_or_else(|| there.lines().count().min(text.lines().count())) + 1
    );
}

#[test]
fn command_line() {
    let page = Place::new().line("man --markdown").expect(0, &[]).out.clone();
    assert!(page.contains("\n## lowtail host observe\n"), "{page}");
    is_now("cli.md", &page);
}

#[test]
fn policy_keys() {
    let schema = Place::new().line("host schema").expect(0, &[]).json();
    let page = Keys::new(&schema).page(
        "Policy keys",
        "This page lists every key of a policy file. [The policy file](policy.md) explains them, with examples.",
    );
    assert!(page.contains("| `weight` |"), "{page}");
    is_now("policy-keys.md", &page);
}

#[test]
fn scenario_keys() {
    let schema = Place::new().line("lab schema").expect(0, &[]).json();
    let page = Keys::new(&schema).page(
        "Scenario keys",
        "This page lists every key of a scenario file. [Scenario files](scenario.md) explains them, with examples.",
    );
    assert!(page.contains("| `pcpus` |"), "{page}");
    is_now("scenario-keys.md", &page);
}

#[test]
fn parquet() {
    let page = tables::page();
    assert!(page.contains("| `p99_seconds` |"), "{page}");
    is_now("parquet.md", &page);
}

/// The page of exit codes, which somebody writes, has each code that `--help` has.
#[test]
fn exit_codes() {
    let help = Place::new().line("--help").expect(0, &[]).out.clone();
    let (_, codes) = help.split_once("Exit codes:\n").expect("exit codes");
    let codes: Vec<&str> =
        codes.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(codes, ["0", "1", "2", "3", "4"]);
    let text = fs::read_to_string(root().join("docs/reference/exit-codes.md")).expect("the page");
    let rows = text.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    let rows: Vec<&str> = rows.filter(|cell| cell.parse::<u8>().is_ok()).collect();
    assert_eq!(rows, codes);
}
