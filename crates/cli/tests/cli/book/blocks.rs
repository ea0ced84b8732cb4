//! What is to be done with each block of a page.

use super::pages::{Block, Page};

/// How a block of commands is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    Here,
    Host,
    Make,
}

/// An exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    Code(u8),
    /// 0 or 1: what is found depends on the host.
    Any,
}

/// A block of commands.
#[derive(Debug)]
pub(crate) struct Commands {
    pub(crate) class: Class,
    /// Only its options are checked.
    pub(crate) slow: bool,
    /// How the last command ends.
    pub(crate) exit: Exit,
    pub(crate) line: usize,
    pub(crate) text: String,
}

/// Part of a page that its run needs.
#[derive(Debug)]
pub(crate) enum Step {
    Write { name: String, text: String },
    Run(Commands),
}

/// A block that nobody would run, or why it is marked wrongly.
pub(crate) type Wrong = String;

/// The steps of a page, in its order.
pub(crate) fn steps(page: &Page) -> Result<Vec<Step>, Wrong> {
    let mut steps = Vec::new();
    for block in page.blocks() {
        let step = step(&block).map_err(|why| format!("{}:{}: {why}", page.name, block.line))?;
        steps.extend(step);
    }
    Ok(steps)
}

fn step(block: &Block) -> Result<Option<Step>, Wrong> {
    let mut words = block.fence.as_deref().unwrap_or("").split_whitespace();
    match words.next() {
        Some("sh") => commands(block, words).map(|commands| Some(Step::Run(commands))),
        Some("toml") => {
            Ok(file(&block.text).map(|name| Step::Write { name, text: block.text.clone() }))
        }
        Some("bash" | "shell" | "console" | "zsh") => Err("commands are marked `sh`".to_string()),
        Some("text") if block.text.lines().any(|line| line.starts_with("$ ")) => {
            Err("`text` is what commands print; commands are marked `sh`, without a prompt"
                .to_string())
        }
        None if block.text.lines().any(is_command) => {
            Err("commands are in a block that is marked `sh`, which a test runs".to_string())
        }
        _ => Ok(None),
    }
}

fn is_command(line: &str) -> bool {
    ["lowtail ", "$ ", "make "].iter().any(|start| line.trim_start().starts_with(start))
}

fn commands<'a>(block: &Block, words: impl Iterator<Item = &'a str>) -> Result<Commands, Wrong> {
    let mut commands = Commands {
        class: Class::Here,
        slow: false,
        exit: Exit::Code(0),
        line: block.line,
        text: block.text.clone(),
    };
    for word in words {
        match (word, word.strip_prefix("exit=")) {
            ("host", _) => commands.class = Class::Host,
            ("make", _) => commands.class = Class::Make,
            ("slow", _) => commands.slow = true,
            (_, Some("any")) => commands.exit = Exit::Any,
            (_, Some(code)) => {
                commands.exit = Exit::Code(code.parse().map_err(|_| format!("`{word}`"))?);
            }
            _ => {
                return Err(format!(
                    "`sh {word}`: there are host, make, slow, exit=N and exit=any"
                ));
            }
        }
    }
    Ok(commands)
}

/// `policy.toml`, if the first line is `# policy.toml`, perhaps with more words.
fn file(text: &str) -> Option<String> {
    let name = text.lines().next()?.strip_prefix("# ")?.split([' ', ':']).next()?;
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    (name.ends_with(".toml") && name.chars().all(plain)).then(|| name.to_string())
}

impl Commands {
    /// Its commands: a line each, those that end in a backslash joined with the next one, without comments of whole lines.
    pub(crate) fn lines(&self) -> Vec<String> {
        let joined = self.text.replace("\\\n", " ");
        let lines = joined.lines().map(str::trim).filter(|line| !line.is_empty());
        lines.filter(|line| !line.starts_with('#')).map(str::to_string).collect()
    }
}

#[test]
fn fences_say_how_blocks_are_checked() {
    let page = |text: &str| Page { name: "a.md".to_string(), text: text.to_string() };
    let text = "```sh host exit=1\na \\\n  b\n# c\n```\n\n```toml\n# x.toml: a file\n```\n\n```toml\n# Not one.\n```\n";
    let steps = steps(&page(text)).expect("all is right");
    let [Step::Run(run), Step::Write { name, .. }] = &steps[..] else { panic!("{steps:?}") };
    assert_eq!((run.class, run.slow, run.exit, run.line), (Class::Host, false, Exit::Code(1), 2));
    assert_eq!(run.lines(), ["a    b"]);
    assert_eq!(name, "x.toml");
    for wrong in [
        "    lowtail x\n",
        "```\nmake x\n```\n",
        "```sh hots\n```\n",
        "```console\n```\n",
        "```text\n$ x\n```\n",
    ] {
        assert!(self::steps(&page(wrong)).is_err(), "{wrong}");
    }
}
