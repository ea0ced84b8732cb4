//! Every key of JSON, column and key of a file has a line in the glossary.
//!
//! Keys are read from the source, where they stand all, also those that are printed on some hosts only: fields of types that
//! serialise, `json!`, and what is inserted by name. What commands print is compared, too.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::str::FromStr;

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use serde_json::Value;

use crate::tree::{files, root};
use crate::{Place, TINY, capture};

/// Sources whose types are not printed, and why.
const NOT_PRINTED: [(&str, &str); 8] = [
    ("control/src/manage/ledger.rs", "the ledger's file"),
    ("control/src/guard/audit.rs", "the audit log's file"),
    ("control/src/flow/tagger_config.rs", "the value of a setting, a text"),
    ("control/src/flow/tap_tagger.rs", "the value of a setting, a text"),
    ("kernel/src/tc/tree.rs", "the value of a setting, a text"),
    ("play/src/plan.rs", "part of a message in xenstore"),
    ("play/src/xen/message.rs", "messages in xenstore"),
    ("tune/src/scenario_file.rs", "a scenario, as TOML"),
];

/// All `code` in the first columns of the glossary's tables, and of the tables of keys of files.
fn known() -> BTreeSet<String> {
    let glossary = fs::read_to_string(root().join("docs/glossary.md")).expect("the glossary");
    let (glossary, _) = glossary.split_once("## Words to avoid").expect("words to avoid");
    let cells = glossary.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    let code = |cell: &str| {
        let parts = cell.split('`').skip(1).step_by(2).map(str::to_string);
        parts.collect::<Vec<_>>()
    };
    cells.flat_map(code).collect()
}

/// What JSON has as keys, by where it stands.
#[derive(Default)]
struct Keys(BTreeMap<String, String>);

impl Keys {
    /// All in a file of Rust.
    fn read(&mut self, path: &Path) {
        let text = fs::read_to_string(path).expect("a source");
        let tokens = TokenStream::from_str(&text).expect("it is Rust");
        self.walk(tokens, &path.display().to_string());
    }

    fn add(&mut self, key: String, place: &str) {
        if !key.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "_-".contains(c)) {
            return;
        }
        self.0.entry(key).or_insert_with(|| place.to_string());
    }

    fn walk(&mut self, tokens: TokenStream, place: &str) {
        let trees: Vec<TokenTree> = tokens.into_iter().collect();
        let (mut serialises, mut attributes) = (false, String::new());
        for (at, tree) in trees.iter().enumerate() {
            let next = |n: usize| trees.get(at + n);
            match tree {
                TokenTree::Group(group) if is(at.checked_sub(1).map(|at| &trees[at]), "#") => {
                    let text = group.stream().to_string();
                    serialises |=
                        text.starts_with("derive") && words(&text).any(|w| w == "Serialize");
                    attributes += &text;
                }
                TokenTree::Ident(ident) if ident == "struct" || ident == "enum" => {
                    // One without fields, or with fields without names, ends before any braces.
                    let head = trees[at..].iter().take_while(|tree| !is(Some(tree), ";"));
                    let body = head.into_iter().find_map(braces);
                    match body.filter(|_| serialises && !attributes.contains("untagged")) {
                        Some(body) if ident == "struct" => self.fields(body, place),
                        Some(body) => self.variants(body, &attributes, place),
                        None => {}
                    }
                    (serialises, attributes) = (false, String::new());
                }
                TokenTree::Ident(ident) if ident == "json" && is(next(1), "!") => {
                    if let Some(TokenTree::Group(group)) = next(2) {
                        self.json(group.stream(), place);
                    }
                }
                TokenTree::Ident(ident) if ident == "insert" || ident == "serialize_field" => {
                    if let Some(TokenTree::Group(group)) = next(1) {
                        let mut inner = group.stream().into_iter();
                        let (first, second) = (inner.next(), inner.next());
                        let by_name = is(second.as_ref(), ".") || ident == "serialize_field";
                        if let Some(key) = first.as_ref().and_then(literal).filter(|_| by_name) {
                            self.add(key, place);
                        }
                    }
                }
                TokenTree::Ident(ident) if ident == "mod" && is(next(1), "tests") => return,
                TokenTree::Group(group) => self.walk(group.stream(), place),
                _ => {}
            }
        }
    }

    /// `{ "key": value, … }`
    fn json(&mut self, tokens: TokenStream, place: &str) {
        let trees: Vec<TokenTree> = tokens.into_iter().collect();
        for (at, tree) in trees.iter().enumerate() {
            if let TokenTree::Group(group) = tree {
                self.json(group.stream(), place);
            } else if let Some(key) = literal(tree).filter(|_| is(trees.get(at + 1), ":")) {
                self.add(key, place);
            }
        }
    }

    /// Names of fields, or what they are renamed to.
    fn fields(&mut self, body: TokenStream, place: &str) {
        for field in split(body) {
            let attributes = attributes(&field);
            let name = field.windows(2).find_map(|pair| match (&pair[0], &pair[1]) {
                (TokenTree::Ident(ident), colon) if is(Some(colon), ":") => Some(ident.to_string()),
                _ => None,
            });
            let Some(name) = name else { continue };
            if !attributes.contains("flatten") && !attributes.contains("serde (skip)") {
                let name = name.trim_start_matches("r#").to_string();
                self.add(renamed(&attributes).unwrap_or(name), place);
            }
        }
    }

    /// A variant that has something in it is a key, and so are its fields.
    fn variants(&mut self, body: TokenStream, of: &str, place: &str) {
        // With a tag, names are values.
        let tagged = of.contains("tag =");
        for tag in ["tag", "content"] {
            let name =
                of.split_once(&format!("{tag} = \"")).and_then(|(_, rest)| rest.split('"').next());
            name.into_iter().for_each(|name| self.add(name.to_string(), place));
        }
        for variant in split(body) {
            let Some(TokenTree::Group(group)) = variant.last() else { continue };
            let name = variant.iter().rev().find_map(|tree| match tree {
                TokenTree::Ident(ident) => Some(ident.to_string()),
                _ => None,
            });
            if group.delimiter() == Delimiter::Brace {
                self.fields(group.stream(), place);
            }
            let separator = if of.contains("snake_case") { '_' } else { '-' };
            if let Some(name) = name.filter(|_| !tagged) {
                let name =
                    renamed(&attributes(&variant)).unwrap_or_else(|| cased(&name, separator));
                self.add(name, place);
            }
        }
    }
}

/// Names of columns in the tables that commands print.
fn columns(tokens: TokenStream, found: &mut BTreeSet<String>) {
    let trees: Vec<TokenTree> = tokens.into_iter().collect();
    let names = ["COLUMNS", "HEAD", "head", "header", "titles"];
    for (at, tree) in trees.iter().enumerate() {
        let TokenTree::Group(group) = tree else { continue };
        let before = |n: usize| at.checked_sub(n).map(|at| trees[at].to_string());
        // `const HEAD: [&str; 10] = [`, `let head = [`
        let assigned = || {
            let named = (2..=4).filter_map(before).any(|word| names.contains(&word.as_str()));
            before(1).is_some_and(|word| word == "=") && named
        };
        // `columns([`, `Table::new(&[`
        let called = before(1).is_some_and(|word| word == "columns" || word == "new");
        if group.delimiter() == Delimiter::Bracket && assigned() {
            found.extend(split(group.stream()).iter().filter_map(|item| literal(item.first()?)));
        } else if called {
            let list = group.stream().into_iter().find(|tree| !is(Some(tree), "&"));
            if let Some(TokenTree::Group(list)) =
                list.filter(|list| list.to_string().starts_with('['))
            {
                found.extend(split(list.stream()).iter().filter_map(|item| literal(item.first()?)));
            }
        }
        columns(group.stream(), found);
    }
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric())
}

fn is(tree: Option<&TokenTree>, what: &str) -> bool {
    tree.is_some_and(|tree| tree.to_string() == what)
}

fn braces(tree: &TokenTree) -> Option<TokenStream> {
    match tree {
        TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => Some(group.stream()),
        _ => None,
    }
}

/// A text as it is meant, if it is one.
fn literal(tree: &TokenTree) -> Option<String> {
    let text = tree.to_string();
    Some(text.strip_prefix('"')?.strip_suffix('"')?.to_string())
}

/// The parts between commas; those within `<…>` separate none.
fn split(tokens: TokenStream) -> Vec<Vec<TokenTree>> {
    let (mut parts, mut depth) = (vec![Vec::new()], 0);
    for tree in tokens {
        match tree.to_string().as_str() {
            "<" => depth += 1,
            ">" => depth -= 1,
            "," if depth == 0 => {
                parts.push(Vec::new());
                continue;
            }
            _ => {}
        }
        parts.last_mut().expect("one").push(tree);
    }
    parts.retain(|part| !part.is_empty());
    parts
}

fn attributes(trees: &[TokenTree]) -> String {
    let of = trees.windows(2).filter(|pair| is(Some(&pair[0]), "#"));
    let serde = of.map(|pair| pair[1].to_string()).filter(|text| text.contains("serde"));
    serde.collect::<Vec<_>>().join(" ")
}

fn renamed(attributes: &str) -> Option<String> {
    let (_, rest) = attributes.split_once("rename = \"")?;
    Some(rest.split('"').next()?.to_string())
}

fn cased(name: &str, separator: char) -> String {
    let mut out = String::new();
    for (at, c) in name.char_indices() {
        if c.is_uppercase() && at > 0 {
            out.push(separator);
        }
        out.extend(c.to_lowercase());
    }
    out
}

/// The keys that the source has.
fn keys() -> BTreeMap<String, String> {
    let crates = root().join("crates");
    let mut keys = Keys::default();
    for name in [
        "cli", "control", "discover", "kernel", "libvirt", "observe", "predict", "trace", "lab",
        "play", "tune", "xen",
    ] {
        let mut sources = files(&crates.join(name).join("src"), &[".rs"]);
        sources.retain(|path| NOT_PRINTED.iter().all(|(file, _)| !path.ends_with(file)));
        sources.iter().for_each(|path| keys.read(path));
    }
    keys.0
}

#[test]
fn every_key_of_json_has_a_line_in_the_glossary() {
    let (known, keys) = (known(), keys());
    assert!(keys.len() > 200, "{keys:?}");
    let unknown = keys.iter().filter(|(key, _)| !known.contains(*key));
    let unknown: Vec<String> = unknown.map(|(key, place)| format!("`{key}` ({place})")).collect();
    assert!(unknown.is_empty(), "docs/glossary.md has no line for\n{}", unknown.join("\n"));
}

#[test]
fn every_column_has_a_line_in_the_glossary() {
    let crates = root().join("crates");
    let mut sources = files(&crates.join("cli/src/host"), &[".rs"]);
    sources.extend(
        [
            "trace/src/table.rs",
            "lab/src/table.rs",
            "lab/src/blame_table.rs",
            "lab/src/kvm/table.rs",
        ]
        .map(|at| crates.join(at)),
    );
    let mut found = BTreeSet::new();
    for path in sources {
        let text = fs::read_to_string(&path).expect("a source");
        let text = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
        columns(TokenStream::from_str(text).expect("it is Rust"), &mut found);
    }
    for one in
        ["ready %", "found by", "setting", "blame", "verdict", "who waits", "wake-up p99 us before"]
    {
        assert!(found.contains(one), "{one}: {found:?}");
    }
    let known = known();
    let unknown: Vec<&String> = found.iter().filter(|name| !known.contains(*name)).collect();
    assert!(unknown.is_empty(), "docs/glossary.md has no line for {unknown:?}");
}

/// A line that nothing needs any more misleads.
#[test]
fn every_key_of_the_glossary_is_printed() {
    let glossary = include_str!("../../../../docs/glossary.md");
    let (_, tables) = glossary.split_once("## JSON keys").expect("the keys");
    let (tables, _) = tables.split_once("## Words to avoid").expect("words to avoid");
    let mut keys: BTreeSet<String> = keys().into_keys().collect();
    keys.extend(figures());
    let cells = tables.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    let named = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    let stale: Vec<&str> = named.filter(|name| !keys.contains(*name)).collect();
    assert!(stale.is_empty(), "nothing prints {stale:?}");
}

/// Figures of rows, as JSON names them.
fn figures() -> Vec<String> {
    use lowtail_lab::metric::{GENERAL, LATENCY, PER_VM, TimeUnit, in_base_unit};
    let names = LATENCY.iter().copied().chain(GENERAL.iter().chain(&PER_VM).map(|(name, _)| *name));
    names.map(|name| in_base_unit(name, 1.0, TimeUnit::Us).0).collect()
}

#[test]
fn every_figure_of_a_row_has_a_line_in_the_glossary() {
    let known = known();
    for name in figures() {
        assert!(known.contains(&name), "docs/glossary.md has no line for `{name}`");
    }
}

/// All keys of a value, also of what is in it.
fn keys_of(value: &Value, into: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => map.iter().for_each(|(key, value)| {
            // The figure of a VM: `cpus_used.web`. Names of commands and labels are the user's or the command line's.
            into.insert(key.split('.').next().unwrap_or_default().to_string());
            if !["labels", "capabilities"].contains(&key.as_str()) {
                keys_of(value, into);
            }
        }),
        Value::Array(list) => list.iter().for_each(|value| keys_of(value, into)),
        _ => {}
    }
}

/// What commands print has no key that the source does not show.
#[test]
fn what_is_printed_is_what_the_source_says() {
    let place = Place::new();
    place.write("tiny.toml", TINY).write("none.toml", "");
    let capture = capture();
    let capture = capture.to_str().expect("a path");
    let known = known();
    for line in [
        "lab list --json".to_string(),
        "lab show bobtail --json".to_string(),
        "lab run tiny.toml --json --no-report".to_string(),
        "lab run switch-queue --case idle --blame --json --no-report".to_string(),
        "lab attack --seed 5 --budget 2 --json".to_string(),
        "lab attack --queue all --seed 5 --budget 2 --json".to_string(),
        format!("trace info --json {capture}"),
        format!("trace latency --json {capture}"),
        format!("trace export --json --perfetto x.pftrace {capture}"),
        "host doctor --json".to_string(),
        "host vms --json".to_string(),
        "host status --state state --no-look --json".to_string(),
        "host revert --state state --json".to_string(),
        "host plan none.toml --state state --json".to_string(),
    ] {
        let ran = place.line(&line);
        let mut printed = BTreeSet::new();
        keys_of(&ran.json(), &mut printed);
        assert!(!printed.is_empty(), "{line}");
        let unknown: Vec<&String> = printed.iter().filter(|key| !known.contains(*key)).collect();
        assert!(unknown.is_empty(), "{line}: docs/glossary.md has no line for {unknown:?}");
    }
}

/// Each key of a policy and of a scenario says what it is, and the pages that are made of that have it.
#[test]
fn every_key_of_a_file_says_what_it_is() {
    let root = root();
    for (schema, page) in [("policy", "policy-keys"), ("scenario", "scenario-keys")] {
        let text =
            fs::read_to_string(root.join(format!("schema/{schema}.json"))).expect("a schema");
        let page =
            fs::read_to_string(root.join(format!("docs/reference/{page}.md"))).expect("a page");
        let mut all = BTreeMap::new();
        properties(&serde_json::from_str(&text).expect("JSON"), &mut all);
        assert!(all.len() > 40, "{all:?}");
        for (key, said) in all {
            assert!(said, "schema/{schema}.json does not say what `{key}` is");
            // `kind` is in the heading of each choice: `kind = "…"`.
            let there =
                [format!("`{key}`"), format!("`{key} = ")].iter().any(|one| page.contains(one));
            assert!(there, "{schema} keys: no line for `{key}`");
        }
    }
}

/// The properties of a schema, and whether each says somewhere what it is.
fn properties(value: &Value, all: &mut BTreeMap<String, bool>) {
    match value {
        Value::Object(map) => {
            if let Some(Value::Object(properties)) = map.get("properties") {
                // A variant of a choice says it for its tag.
                let above = map.contains_key("description");
                for (key, property) in properties {
                    let said = property.get("description").is_some()
                        || above
                        || property.get("const").is_some();
                    *all.entry(key.clone()).or_default() |= said;
                }
            }
            map.values().for_each(|value| properties(value, all));
        }
        Value::Array(list) => list.iter().for_each(|value| properties(value, all)),
        _ => {}
    }
}
