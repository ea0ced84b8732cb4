//! Blocks that run on any machine, and the script of a page.

use std::fmt::Write;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};

use lowtail_standin::binary;

use super::blocks::{Class, Commands, Exit, Step, steps};
use super::pages::{Page, all};
use crate::tree::root;

/// A page may take so many seconds.
const SECONDS: &str = "120";

/// What the blocks of `class` on a page are as a shell script. It prints each command, and before each block `@@ LINE`. `None` if
/// there are none.
pub(crate) fn script(page: &Page, class: Class) -> Option<String> {
    let mut script = "set -eu\n".to_string();
    let mut runs = false;
    // Documents of developers may have other blocks; `commands` says which pages may not.
    for step in steps(page).unwrap_or_default() {
        match step {
            Step::Write { name, text } => {
                let _ = write!(script, "cat >{name} <<'END-OF-BLOCK'\n{text}END-OF-BLOCK\n");
            }
            Step::Run(commands) if commands.class == class && !commands.slow => {
                runs = true;
                let _ = writeln!(script, "echo '@@ {}'", commands.line);
                block(&mut script, &commands);
            }
            Step::Run(_) => {}
        }
    }
    runs.then_some(script)
}

fn block(script: &mut String, commands: &Commands) {
    let lines: Vec<_> = commands.lines().iter().map(|line| command(line)).collect();
    let lines = lines.join("\n");
    let (test, wanted) = match commands.exit {
        Exit::Code(0) => {
            let _ = writeln!(script, "set -x\n{lines}\n{{ set +x; }} 2>/dev/null");
            return;
        }
        Exit::Code(exit) => (format!("[ $code = {exit} ]"), exit.to_string()),
        Exit::Any => ("[ $code -le 1 ]".to_string(), "0 or 1".to_string()),
    };
    // In a shell of its own, so that the page goes on.
    let _ = writeln!(
        script,
        "set +e\n(\nset -ex\n{lines}\n)\ncode=$?\nset -e\n\
         {test} || {{ echo \"exit code $code instead of {wanted}\"; exit 1; }}"
    );
}

/// A command that ends by itself. A screen that the reader leaves with a key is shown for two seconds.
fn command(line: &str) -> String {
    let (command, _) = line.split_once(" #").unwrap_or((line, ""));
    let command = command.trim_end();
    let endless = ["lowtail host observe", "lowtail host record"]
        .iter()
        .any(|start| command.starts_with(start));
    let ends =
        ["--once", "--duration", "--on-delay", "&"].iter().any(|word| command.contains(word));
    if endless && !ends { format!("{command} --duration 2s") } else { command.to_string() }
}

/// Runs the blocks of a page, and returns what was said from the block on that fails.
fn run(page: &Page, script: &str) -> Result<(), String> {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = |name: &str| dir.path().join(name);
    for name in ["crates", "docs", "experiments"] {
        symlink(root().join(name), path(name)).expect("a link");
    }
    fs::create_dir_all(path("target/release")).expect("a directory");
    symlink("release", path("target/debug")).expect("a link");
    for (name, program) in
        [("lowtail", Path::new(env!("CARGO_BIN_EXE_lowtail"))), ("lowtail-standin", &binary())]
    {
        symlink(program, path("target/release").join(name)).expect("a link");
    }
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    // Both streams in one, and no terminal anywhere.
    fs::write(file.path(), format!("exec 2>&1\n{script}")).expect("a temporary file");
    let search = std::env::var("PATH").expect("a path for commands");
    let ran = Command::new("timeout")
        .args(["-k", "5", SECONDS, "bash"])
        .arg(file.path())
        .current_dir(dir.path())
        .env("PATH", format!("{}:{search}", path("target/release").display()))
        .stdin(Stdio::null())
        .output()
        .expect("timeout starts");
    let said = String::from_utf8_lossy(&ran.stdout);
    if ran.status.success() { Ok(()) } else { Err(failed(&page.name, ran.status.code(), &said)) }
}

/// The last block that began, its commands and what they printed.
pub(crate) fn failed(page: &str, code: Option<i32>, said: &str) -> String {
    let (line, said) =
        said.rsplit_once("@@ ").and_then(|(_, last)| last.split_once('\n')).unwrap_or(("?", said));
    let code = code.map_or_else(|| "a signal".to_string(), |code| format!("exit code {code}"));
    format!("{page}:{line}: the last of these commands ended with {code}:\n{said}")
}

#[test]
fn commands_of_any_machine_run() {
    let pages = all();
    let scripts: Vec<_> =
        pages.iter().filter_map(|page| Some((page, script(page, Class::Here)?))).collect();
    let failed: Vec<String> = std::thread::scope(|scope| {
        let runs: Vec<_> =
            scripts.iter().map(|(page, script)| scope.spawn(move || run(page, script))).collect();
        runs.into_iter().filter_map(|run| run.join().expect("a page").err()).collect()
    });
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    assert!(scripts.len() > 3, "{} pages", scripts.len());
}

#[test]
fn a_block_that_fails_is_named() {
    let page = |text: &str| Page { name: "a.md".to_string(), text: text.to_string() };
    let ran = |text: &str| {
        let page = page(text);
        run(&page, &script(&page, Class::Here).expect("commands"))
    };
    assert_eq!(
        ran("```toml\n# a.toml\n```\n\n```sh exit=1\nls a.toml\nfalse\n```\n\n```sh\ntrue\n```\n"),
        Ok(())
    );
    let why = ran("# A\n\n```sh\ntrue\n```\n\n```sh\nlowtail lab shw # a\ntrue\n```\n")
        .expect_err("no such");
    assert!(why.starts_with("a.md:8: "), "{why}");
    assert!(why.contains("+ lowtail lab shw\n") && why.contains("exit code 2"), "{why}");
    assert!(ran("```sh exit=1\ntrue\n```\n").expect_err("0").contains("0 instead of 1"));
    assert_eq!(ran("```sh exit=any\nfalse\n```\n\n```sh exit=any\ntrue\n```\n"), Ok(()));
    assert!(
        ran("```sh exit=any\nlowtail x\n```\n").expect_err("2").contains("2 instead of 0 or 1")
    );
}
