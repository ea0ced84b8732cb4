//! What is printed around results: help, man pages, completions, notes; and who reads it.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::{Place, TINY, installed, tiny_short};

#[test]
fn exit_codes_are_in_the_help_and_the_man_page() {
    let place = Place::new();
    let page = place.line("man").expect(0, &[]).out.clone();
    for line in ["--help", "lab run --help", "lab run -h", "trace latency --help"] {
        let help = place.line(line).expect(0, &[]).out.clone();
        let (_, table) = help.split_once("Exit codes:\n").expect(line);
        let codes: Vec<(&str, &str)> =
            table.lines().map(|line| line.trim().split_once("  ").expect(line)).collect();
        let numbers: Vec<&str> = codes.iter().map(|(code, _)| *code).collect();
        assert_eq!(numbers, ["0", "1", "2", "3", "4"]);
        for (code, meaning) in codes {
            assert!(page.contains(&format!("\n{code}\n{meaning}\n")), "{code}: {page}");
        }
    }
}

#[test]
fn help_fits_a_terminal() {
    let place = Place::new();
    for line in
        ["--help", "lab --help", "lab run --help", "lab attack --help", "trace export --help"]
    {
        let help = place.line(line).expect(0, &[]).out.clone();
        let widest = help.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(widest <= 100, "{line}: {widest} columns");
    }
}

#[test]
fn man_pages_for_every_command() {
    let place = Place::new();
    place.line("man pages").expect(0, &[]);
    let pages = crate::names(&place.path("pages"));
    for page in
        ["lowtail.1", "lowtail-lab-run.1", "lowtail-lab-attack.1", "lowtail-trace-latency.1"]
    {
        assert!(pages.iter().any(|name| name == page), "{pages:?}");
    }
    let Some(groff) = installed(&["groff"]) else { return println!("groff is not installed") };
    for page in &pages {
        let mut command = Command::new(&groff);
        command.args(["-man", "-ww", "-Tutf8"]).arg(place.path("pages").join(page));
        let output = command.output().unwrap();
        let warnings = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && warnings.is_empty(), "{page}: {warnings}");
        let text = String::from_utf8_lossy(&output.stdout);
        // Lines are filled with spaces.
        let words: Vec<&str> = text.split_whitespace().collect();
        assert!(words.join(" ").contains("the host lacks something"), "{page}: {text}");
    }
}

#[test]
fn completions() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = place.run(["completions", shell]).expect(0, &[]).out.clone();
        for word in ["lab", "no-report", "latency"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
        place.write(shell, &script);
        if let Some(program) = installed(&[shell]) {
            let check = Command::new(program).arg("-n").arg(place.path(shell)).output().unwrap();
            assert!(check.status.success(), "{}", String::from_utf8_lossy(&check.stderr));
        }
    }
}

#[test]
fn quiet_is_quiet() {
    let place = Place::new();
    place.write("tiny.toml", TINY).write("short.toml", tiny_short());
    std::fs::copy(crate::capture(), place.path("c.bin")).unwrap();
    for (line, code) in [
        ("lab run tiny.toml --quiet", 0),
        ("lab run -q short.toml --perfetto schedules", 1),
        ("lab list -q", 0),
        ("lab attack -q --budget 1 --save found", 0),
        ("lab show -q bobtail", 0),
        ("trace info -q c.bin", 0),
        ("trace latency -q c.bin", 0),
        ("trace export -q c.bin --perfetto x.pftrace", 0),
    ] {
        let ran = place.line(line);
        ran.expect(code, &[]);
        assert_eq!((ran.out.as_str(), ran.err.as_str()), ("", ""), "{line}");
    }
    // Errors are told all the same, and so is JSON that is asked for.
    assert_ne!(place.line("lab run -q no.toml").expect(3, &[]).err, "");
    let ran = place.line("lab run -q tiny.toml --json");
    assert_eq!(ran.err, "");
    ran.json();
}

#[test]
fn several_experiments_are_summed_up_by_name() {
    let place = Place::new();
    place.write("tiny.toml", TINY).write("short.toml", tiny_short());
    let ran = place.line("lab run tiny.toml short.toml --no-report");
    let wanted = "\n\ntiny   all 2 claims hold\nshort  1 of 2 claims hold, 1 fall";
    assert!(ran.out.contains(wanted), "{}", ran.out);
    assert!(ran.out.ends_with('\n') && !ran.out.ends_with("\n\n"));
    // A single one is summed up below its table already.
    let one = place.line("lab run tiny.toml --no-report").out;
    assert_eq!(one.matches("all 2 claims hold").count(), 1, "{one}");
}

/// Standard output is no terminal here; `always` colours it all the same.
#[test]
fn colours_only_where_wanted() {
    let place = Place::new();
    place.write("tiny.toml", TINY);
    let run = |color: &str| place.line(&format!("lab run tiny.toml --no-report {color}")).out;
    let (auto, always) = (run(""), run("--color always"));
    assert!(!auto.contains('\x1b') && always.contains("\x1b[32mholds"));
    assert_eq!(run("--color never"), auto);
    let mut plain = String::new();
    for (i, part) in always.split("\x1b[").enumerate() {
        plain += if i == 0 { part } else { part.split_once('m').expect("a colour").1 };
    }
    assert_eq!(plain, auto, "colours change nothing else");
}

/// `lowtail … | head -1`, also with `2>&1`: the reader is gone before the first byte is
/// written, which is nobody's mistake. Rust's own `println!` would panic.
#[test]
fn a_closed_pipe_is_no_error() {
    let place = Place::new();
    place.write("tiny.toml", TINY);
    for (line, code) in [
        ("lab run tiny.toml", 0),
        ("lab run tiny.toml --json", 0),
        ("lab run no.toml", 3),
        ("lab list", 0),
        ("lab schema", 0),
        ("completions bash", 0),
        ("man", 0),
    ] {
        let mut command = place.command();
        command.args(line.split_whitespace());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        drop((child.stdout.take(), child.stderr.take()));
        assert_eq!(child.wait().unwrap().code(), Some(code), "{line}");
    }
}

/// The example in the guide to scenario files runs as it stands.
#[test]
fn the_guide_tells_the_truth() {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/scenario.md");
    let guide = std::fs::read_to_string(guide).unwrap();
    let example = guide.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next());
    let place = Place::new();
    place.write("example.toml", example.unwrap());
    let ran = place.line("lab run example.toml --no-report");
    assert!(ran.expect(0, &[]).out.contains("its one claim holds"), "{}", ran.out);
}
