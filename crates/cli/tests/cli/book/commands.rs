//! Commands that do not run in a test: what can be said of them nevertheless.

use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use super::blocks::{Class, Commands, Step, Wrong, steps};
use super::pages::all;
use crate::Place;
use crate::tree::root;

/// The program of a command, behind what sets variables.
fn program(line: &str) -> &str {
    let set = |word: &&str| word.split_once('=').is_some_and(|(name, _)| is_variable(name));
    line.split_whitespace().find(|word| !set(word)).unwrap_or("")
}

fn is_variable(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_uppercase() || c == '_')
}

/// A command of the tree: what it names has to exist.
fn of_the_tree(line: &str) -> Result<(), Wrong> {
    let line = line.split(" #").next().unwrap_or(line);
    let words: Vec<&str> =
        line.split_whitespace().skip_while(|word| *word != program(line)).collect();
    match words[0] {
        "make" => {
            let targets = words[1..].iter().filter(|word| !word.contains('='));
            targets.map(|target| has_target(target)).collect::<Result<Vec<()>, _>>().map(|_| ())
        }
        "cargo" => cargo(&words),
        script if script.starts_with("scripts/") || script.starts_with(".ci/") => {
            exists(script.into())
        }
        program => Err(format!("`{program}` is not of the tree")),
    }
}

fn exists(path: PathBuf) -> Result<(), Wrong> {
    root()
        .join(&path)
        .exists()
        .then_some(())
        .ok_or_else(|| format!("there is no {}", path.display()))
}

fn has_target(target: &str) -> Result<(), Wrong> {
    let makefile = fs::read_to_string(root().join("Makefile")).expect("the Makefile");
    let is = |line: &str| line.split_once(':').is_some_and(|(name, _)| name == target);
    makefile.lines().any(is).then_some(()).ok_or_else(|| format!("the Makefile has no `{target}`"))
}

/// The package, and its tests, examples and benchmarks.
fn cargo(words: &[&str]) -> Result<(), Wrong> {
    let package = words.windows(2).find(|pair| matches!(pair[0], "-p" | "--package"));
    let name = package.map_or("lowtail", |pair| pair[1]);
    let dir = match name.strip_prefix("lowtail-") {
        Some(dir) => PathBuf::from("crates").join(dir),
        None => PathBuf::from("crates/cli"),
    };
    exists(dir.join("Cargo.toml"))?;
    for pair in words.windows(2) {
        let below = match pair[0] {
            "--test" => "tests",
            "--example" => "examples",
            "--bench" => "benches",
            _ => continue,
        };
        let at = dir.join(below);
        exists(at.join(format!("{}.rs", pair[1])))
            .or_else(|_| exists(at.join(pair[1]).join("main.rs")))?;
    }
    Ok(())
}

/// What `lab list` lists.
static EXPERIMENTS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let list = Place::new().line("lab list").out;
    list.lines().filter_map(|line| Some(line.split_whitespace().next()?.to_string())).collect()
});

/// A command of lowtail's that takes long: its options are right, and it names an experiment.
fn parses(line: &str) -> Result<(), Wrong> {
    let line = line.split(" #").next().unwrap_or(line);
    let words: Vec<&str> = line.split_whitespace().collect();
    let ["lowtail" | "target/release/lowtail", args @ ..] = &words[..] else {
        return Err("`slow` is for commands of lowtail's".to_string());
    };
    let ran = Place::new().run(args.iter().chain(&["--help"]));
    if ran.code != 0 {
        return Err(ran.err);
    }
    let known = |word: &&str| EXPERIMENTS.iter().any(|name| name == word);
    let names = |word: &&str| *word == "--all" || word.ends_with(".toml") || known(word);
    if args.starts_with(&["lab", "run"]) && !args.iter().any(names) {
        return Err("no such experiment".to_string());
    }
    Ok(())
}

fn check(commands: &Commands) -> Result<(), Wrong> {
    for line in commands.lines() {
        let result = match commands.class {
            _ if commands.slow => parses(&line),
            Class::Make => of_the_tree(&line),
            Class::Here | Class::Host => Ok(()),
        };
        result.map_err(|why| format!("{line}: {why}"))?;
    }
    Ok(())
}

#[test]
fn blocks_are_marked_and_what_they_name_exists() {
    let (mut count, mut wrong) = (0, Vec::new());
    for page in all() {
        // Other documents may have blocks that nobody runs.
        let of_book = page.name == "README.md" || page.name.starts_with("docs/");
        match steps(&page) {
            Ok(steps) => {
                for step in steps {
                    let Step::Run(commands) = step else { continue };
                    count += 1;
                    if let Err(why) = check(&commands) {
                        wrong.push(format!("{}:{}: {why}", page.name, commands.line));
                    }
                }
            }
            Err(why) if of_book => wrong.push(why),
            Err(_) => {}
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count > 20, "{count} blocks");
}

#[test]
fn commands_that_cannot_work_are_found() {
    for right in [
        "make lab",
        "CI=true make soak SECONDS=60 # long",
        "cargo test -p lowtail --test cli",
        "A=b scripts/guest run x",
    ] {
        assert_eq!(of_the_tree(right), Ok(()), "{right}");
    }
    for wrong in [
        "make lap",
        "cargo test -p lowtail --test clii",
        "cargo run -p lowtail-x",
        "scripts/x",
        "ls",
        "git clone x",
    ] {
        assert!(of_the_tree(wrong).is_err(), "{wrong}");
    }
    assert_eq!(parses("lowtail lab run bobtail --seed 7 --full # longer"), Ok(()));
    for wrong in ["lowtail lab run bobtail --sed 7", "lowtail lab run bobtial", "ls"] {
        assert!(parses(wrong).is_err(), "{wrong}");
    }
}
