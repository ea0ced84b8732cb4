//! No module of a crate names one that names it.
//!
//! The sources are read as tokens, macros' arguments too. A path goes to the module that defines what it names: what another
//! module re-exports is followed. A parent may declare and re-export its children; what it uses of them itself is an arrow.
//! Tests inside of modules may use what they like.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use crate::tree::{files, root};

/// Names of a module from the crate's root on.
type Module = Vec<String>;

/// What a `use` brings in.
#[derive(Clone, Debug)]
struct Import {
    path: Vec<String>,
    /// Its name here, `*` for all.
    name: String,
    public: bool,
}

/// What is in a module, without its children.
#[derive(Debug, Default)]
struct Content {
    /// The module of the file that it is in.
    file: Module,
    imports: Vec<Import>,
    paths: Vec<Vec<String>>,
    /// All names outside of `use`.
    names: BTreeSet<String>,
    /// Names of what is defined here.
    items: BTreeSet<String>,
}

/// The modules of a crate.
type Modules = BTreeMap<Module, Content>;

/// Files of a crate by their paths below `src`, with `/`.
type Files = BTreeMap<String, String>;

/// The crate whose root is this file.
fn modules(files: &Files, root: &str) -> Modules {
    let mut modules = Modules::new();
    read_file(files, root, &Module::new(), "", &mut modules);
    modules
}

/// Reads the file of `module`, whose children's files are in `dir`.
fn read_file(files: &Files, file: &str, module: &Module, dir: &str, modules: &mut Modules) {
    let tokens: TokenStream = files[file].parse().unwrap_or_else(|e| panic!("{file}: {e}"));
    modules.insert(module.clone(), Content { file: module.clone(), ..Content::default() });
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let children = read(&tokens, module, modules);
    for child in children {
        let name = child.last().expect("a name");
        let mut below = dir.to_string();
        for inline in &child[module.len()..child.len() - 1] {
            below += &format!("{inline}/");
        }
        let [alone, with] = [format!("{below}{name}.rs"), format!("{below}{name}/mod.rs")];
        let file = if files.contains_key(&alone) { alone } else { with };
        assert!(files.contains_key(&file), "no file of {child:?}");
        read_file(files, &file, &child, &format!("{below}{name}/"), modules);
    }
}

fn is(token: Option<&TokenTree>, punct: char) -> bool {
    matches!(token, Some(TokenTree::Punct(found)) if found.as_char() == punct)
}

/// Whether a path goes on at `at`.
fn is_double_colon(tokens: &[TokenTree], at: usize) -> bool {
    is(tokens.get(at), ':') && is(tokens.get(at + 1), ':')
}

fn word(token: Option<&TokenTree>) -> Option<String> {
    match token {
        Some(TokenTree::Ident(ident)) => Some(ident.to_string()),
        _ => None,
    }
}

/// Whether an attribute's text is that of what only tests have.
fn is_of_tests(attribute: &TokenTree) -> bool {
    let text: String = attribute.to_string().split_whitespace().collect();
    text == "[cfg(test)]" || text.starts_with("[cfg(all(test,")
}

/// Reads what `module` has in these tokens; returns children that are in files of their own.
fn read(tokens: &[TokenTree], module: &Module, modules: &mut Modules) -> Vec<Module> {
    let mut children = Vec::new();
    let mut public = false;
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        at += 1;
        let content = modules.get_mut(module).expect("it is there");
        match token {
            TokenTree::Punct(_) if is(Some(token), '#') => {
                // `#[…]` or `#![…]`.
                at += usize::from(is(tokens.get(at), '!'));
                let of_tests = tokens.get(at).is_some_and(is_of_tests);
                at += usize::from(matches!(tokens.get(at), Some(TokenTree::Group(_))));
                if of_tests {
                    let ends = |token: &TokenTree| match token {
                        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
                        token => is(Some(token), ';'),
                    };
                    at += tokens[at..].iter().position(ends).map_or(0, |end| end + 1);
                }
            }
            TokenTree::Punct(_) => {
                public &= !is(Some(token), ';');
                // `::std` or `<T>::name` begins no path of this crate.
                if is_double_colon(tokens, at - 1) {
                    at += 2;
                }
            }
            TokenTree::Group(group) => {
                // `pub(crate)` has no end of an item in it.
                public &= group.delimiter() == Delimiter::Parenthesis;
                let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                children.extend(read(&inner, module, modules));
            }
            TokenTree::Literal(_) => {}
            TokenTree::Ident(ident) => match ident.to_string().as_str() {
                "pub" => public = true,
                "use" => {
                    let end = (at..tokens.len()).find(|&end| is(tokens.get(end), ';'));
                    let end = end.unwrap_or(tokens.len());
                    for (path, name) in uses(&tokens[at..end]) {
                        content.imports.push(Import { path, name, public });
                    }
                    at = end;
                }
                "mod" => {
                    let Some(name) = word(tokens.get(at)) else { continue };
                    at += 1;
                    let child: Module = module.iter().cloned().chain([name]).collect();
                    match tokens.get(at) {
                        Some(TokenTree::Group(group)) => {
                            let file = content.file.clone();
                            modules.insert(child.clone(), Content { file, ..Content::default() });
                            let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                            children.extend(read(&inner, &child, modules));
                            at += 1;
                        }
                        _ => children.push(child),
                    }
                }
                first => {
                    let mut path = vec![first.to_string()];
                    while is_double_colon(tokens, at)
                        && let Some(next) = word(tokens.get(at + 2))
                    {
                        path.push(next);
                        at += 3;
                    }
                    let defines =
                        ["fn", "struct", "enum", "union", "trait", "type", "const", "static"];
                    if defines.contains(&first)
                        && let Some(name) = word(tokens.get(at))
                    {
                        content.items.insert(name);
                    }
                    content.names.insert(first.to_string());
                    if path.len() > 1 {
                        content.paths.push(path);
                    }
                }
            },
        }
    }
    children
}

/// The paths of a `use`, and what they are called.
fn uses(tokens: &[TokenTree]) -> Vec<(Vec<String>, String)> {
    let (mut found, mut path) = (Vec::new(), Vec::<String>::new());
    let mut name = None;
    for (at, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Ident(ident)
                if word(tokens.get(at.wrapping_sub(1))).as_deref() == Some("as") =>
            {
                name = Some(ident.to_string());
            }
            TokenTree::Ident(ident) if ident == "as" => {}
            TokenTree::Ident(ident) => path.push(ident.to_string()),
            TokenTree::Punct(punct) if punct.as_char() == '*' => name = Some("*".to_string()),
            TokenTree::Group(group) => {
                let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                for part in inner.split(|token| is(Some(token), ',')) {
                    for (rest, name) in uses(part) {
                        found.push((path.iter().cloned().chain(rest).collect(), name));
                    }
                }
                return found;
            }
            _ => {}
        }
    }
    // `a::{self, b}` names `a`.
    if path.len() > 1 && path.last().is_some_and(|last| last == "self") {
        path.pop();
    }
    if let Some(last) = path.last().cloned() {
        found.push((path, name.unwrap_or(last)));
    }
    found
}

/// The module that has what `path` names in `from`, if it is of this crate. `depth` re-exports are followed.
fn resolve(modules: &Modules, from: &Module, path: &[String], depth: usize) -> Option<Module> {
    let (mut at, mut rest) = (from.clone(), path);
    match rest.first()?.as_str() {
        "crate" => {
            at = Module::new();
            rest = &rest[1..];
        }
        "self" => rest = &rest[1..],
        "super" => {}
        first => {
            let child: Module = from.iter().cloned().chain([first.to_string()]).collect();
            if !modules.contains_key(&child) {
                let import = modules[from].imports.iter().find(|import| import.name == first);
                let import = import.filter(|import| depth > 0 && import.path[..] != path[..1])?;
                let path: Vec<String> = import.path.iter().chain(&rest[1..]).cloned().collect();
                return resolve(modules, from, &path, depth - 1);
            }
        }
    }
    while let Some((next, after)) = rest.split_first() {
        if next == "super" {
            at.pop()?;
        } else {
            let child: Module = at.iter().cloned().chain([next.clone()]).collect();
            if modules.contains_key(&child) {
                at = child;
            } else {
                if modules[&at].items.contains(next) || depth == 0 {
                    return Some(at);
                }
                let import = modules[&at].imports.iter().find(|import| import.name == *next);
                if let Some(import) = import {
                    let path: Vec<String> = import.path.iter().chain(after).cloned().collect();
                    return resolve(modules, &at, &path, depth - 1);
                }
                let globs = modules[&at].imports.iter().filter(|import| import.name == "*");
                let globs = globs.filter_map(|all| resolve(modules, &at, &all.path, depth - 1));
                let found = globs.into_iter().find(|of| modules[of].items.contains(next));
                return Some(found.unwrap_or(at));
            }
        }
        rest = after;
    }
    Some(at)
}

/// Which modules each module of a file names.
fn arrows(modules: &Modules) -> BTreeMap<Module, BTreeSet<Module>> {
    let mut arrows: BTreeMap<Module, BTreeSet<Module>> = BTreeMap::new();
    for (module, content) in modules {
        let used = |import: &&Import| !import.public || content.names.contains(&import.name);
        let imports = content.imports.iter().filter(used).map(|import| &import.path);
        let of = arrows.entry(content.file.clone()).or_default();
        for path in imports.chain(&content.paths) {
            if let Some(to) = resolve(modules, module, path, 8) {
                of.insert(modules[&to].file.clone());
            }
        }
        of.remove(&content.file);
    }
    arrows
}

/// Modules that name each other, directly or through others.
fn circles(arrows: &BTreeMap<Module, BTreeSet<Module>>) -> BTreeSet<Vec<String>> {
    let reached = |from: &Module| {
        let (mut found, mut next) = (BTreeSet::new(), vec![from]);
        while let Some(at) = next.pop() {
            for to in arrows.get(at).into_iter().flatten() {
                if found.insert(to) {
                    next.push(to);
                }
            }
        }
        found
    };
    let reached: BTreeMap<&Module, BTreeSet<&Module>> =
        arrows.keys().map(|from| (from, reached(from))).collect();
    let name = |module: &&Module| match module.is_empty() {
        true => "(root)".to_string(),
        false => module.join("/"),
    };
    let circle = |from: &Module| -> Vec<String> {
        let back = |to: &&&Module| reached.get(**to).is_some_and(|all| all.contains(from));
        reached[from].iter().filter(back).map(name).collect()
    };
    arrows.keys().map(circle).filter(|circle| !circle.is_empty()).collect()
}

/// All sources below a directory.
fn sources(dir: &Path) -> Files {
    let text = |path: PathBuf| {
        let name = path.strip_prefix(dir).ok().and_then(Path::to_str).expect("a name").to_string();
        (name, fs::read_to_string(path).expect("a source"))
    };
    files(dir, &[".rs"]).into_iter().map(text).collect()
}

/// The circles of a crate with these files.
fn circles_of(files: &Files, root: &str) -> BTreeSet<Vec<String>> {
    circles(&arrows(&modules(files, root)))
}

#[test]
fn no_modules_name_each_other() {
    let crates = root().join("crates");
    let (mut read, mut found) = (0, Vec::new());
    for entry in fs::read_dir(crates).expect("crates").flatten() {
        let name = entry.file_name().into_string().expect("a name");
        let sources = sources(&entry.path().join("src"));
        let roots = ["lib.rs", "main.rs"].into_iter().filter(|root| sources.contains_key(*root));
        for root in roots {
            read += modules(&sources, root).len();
            for circle in circles_of(&sources, root) {
                found.push(format!("{name}: {}", circle.join(", ")));
            }
        }
    }
    assert!(read > 400, "{read} modules");
    assert!(found.is_empty(), "modules name each other:\n{}", found.join("\n"));
}

/// A crate of these files.
fn made_up(files: &[(&str, &str)]) -> BTreeSet<Vec<String>> {
    let files = files.iter().map(|(path, text)| (path.to_string(), text.to_string())).collect();
    circles_of(&files, "lib.rs")
}

fn circle(modules: &[&str]) -> BTreeSet<Vec<String>> {
    BTreeSet::from([modules.iter().map(ToString::to_string).collect()])
}

const NONE: BTreeSet<Vec<String>> = BTreeSet::new();

#[test]
fn a_circle_is_found_whatever_names_it() {
    let a = ("a.rs", "use crate::b::B; pub struct A(B);");
    let forms = [
        "use super::a::A; pub struct B(Vec<A>);",
        "use crate::{a::{self}, c}; pub struct B;",
        "use crate::a as z; pub struct B;",
        "pub struct B; impl B { fn f(&self) -> Option<crate::a::A> { None } }",
        "pub struct B; fn f() { println!(\"{:?}\", super::a::A); }",
        "pub struct B; mod inner { use super::super::a::A; }",
        // By the name that the root re-exports.
        "use crate::A; pub struct B;",
    ];
    for b in forms {
        let files =
            [("lib.rs", "mod a; mod b; mod c; pub use a::A;"), a, ("b.rs", b), ("c.rs", "")];
        assert_eq!(made_up(&files), circle(&["a", "b"]), "{b}");
    }
    let three = [
        ("lib.rs", "mod a; mod b; mod c;"),
        ("a.rs", "use super::b::B;"),
        ("b.rs", "pub struct B; use super::c;"),
        ("c.rs", "fn f() { crate::a::g() }"),
    ];
    assert_eq!(made_up(&three), circle(&["a", "b", "c"]));
}

#[test]
fn a_child_that_names_its_parent_is_in_a_circle_if_the_parent_uses_it() {
    let child = ("a/b.rs", "use super::A; pub struct B(A);");
    let of = |a: &str| made_up(&[("lib.rs", "mod a;"), ("a/mod.rs", a), child]);
    assert_eq!(of("mod b; use b::B; pub struct A;"), circle(&["a", "a/b"]));
    assert_eq!(of("mod b; pub struct A; fn f() -> b::B { todo!() }"), circle(&["a", "a/b"]));
    assert_eq!(of("mod b; pub use b::B; pub struct A; fn f(_: B) {}"), circle(&["a", "a/b"]));
    assert_eq!(of("mod b; pub use b::B; pub struct A;"), NONE);
    assert_eq!(of("mod b; pub struct A; #[cfg(test)] mod tests { use super::b::B; }"), NONE);
}

#[test]
fn what_is_no_circle_is_none() {
    let facade = [
        ("lib.rs", "mod a; mod b; pub use a::A; pub use b::*; pub use std::fmt::Debug;"),
        ("a.rs", "// use crate::b::B;\npub struct A; const T: &str = \"crate::b::B\";"),
        ("b.rs", "use crate::{A, Debug}; pub struct B(A); impl B { const A: u8 = 1; }"),
    ];
    assert_eq!(made_up(&facade), NONE);
}
