//! The reference of the command line as Markdown: docs/reference/cli.md.

use std::fmt::Write;

use clap::{Arg, Command};

/// Says who writes the page; the first lines of it.
const HEAD: &str = "# Command line\n\n\
    <!-- `make reference` writes this page from what `--help` prints. -->\n\n\
    This page lists every command with its arguments and options. [Exit codes](exit-codes.md) has the codes.\n";

/// The whole page. `command` is built, and its subcommands know what they are called.
pub(crate) fn page(command: &Command) -> String {
    let mut page = HEAD.to_string();
    let _ = write!(page, "\n## Options of every command\n\n");
    table(&mut page, command.get_arguments().filter(|arg| arg.is_global_set()));
    commands(&mut page, command);
    page
}

/// A section for `command` if it does something itself, and those of its subcommands.
fn commands(page: &mut String, command: &Command) {
    for command in command.get_subcommands().filter(|command| !command.is_hide_set()) {
        if command.has_subcommands() {
            commands(page, command);
        } else {
            section(page, command);
        }
    }
}

fn section(page: &mut String, command: &Command) {
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name());
    let _ = write!(page, "\n## {name}\n\n");
    if let Some(about) = command.get_about() {
        let _ = write!(page, "{about}.\n\n");
    }
    let usage = command.clone().render_usage().to_string();
    let _ = write!(page, "```text\n{}\n```\n", usage.trim_start_matches("Usage: "));
    let own =
        |arg: &&Arg| !arg.is_global_set() && !matches!(arg.get_id().as_str(), "help" | "version");
    let mut args = command.get_arguments().filter(own).peekable();
    if args.peek().is_some() {
        page.push('\n');
        table(page, args);
    }
}

fn table<'a>(page: &mut String, args: impl Iterator<Item = &'a Arg>) {
    page.push_str("| option | meaning |\n|---|---|\n");
    for arg in args.filter(|arg| !arg.is_hide_set()) {
        let _ = writeln!(
            page,
            "| `{}` | {} |",
            cell(&spelling(arg)),
            cell(&meaning(arg)).replace('<', "&lt;")
        );
    }
}

/// As it is typed: `-o, --output <FILE>`.
fn spelling(arg: &Arg) -> String {
    let names = arg.get_value_names().unwrap_or_default();
    let mut values = names.iter().map(|name| format!("<{name}>")).collect::<Vec<_>>().join(" ");
    if arg.get_num_args().is_some_and(|count| count.max_values() > names.len().max(1)) {
        values.push_str("...");
    }
    let takes = arg.get_action().takes_values();
    let short = arg.get_short().map(|short| format!("-{short}"));
    let long = arg.get_long().map(|long| format!("--{long}"));
    let flags = short.into_iter().chain(long).collect::<Vec<_>>().join(", ");
    match (flags.is_empty(), takes) {
        (true, _) => values,
        (false, true) => format!("{flags} {values}"),
        (false, false) => flags,
    }
}

/// Its help, with the default and the values that it may have.
fn meaning(arg: &Arg) -> String {
    let help = arg.get_long_help().or_else(|| arg.get_help());
    let mut text = help.map(ToString::to_string).unwrap_or_default();
    if !arg.get_action().takes_values() {
        return text;
    }
    let values = arg.get_possible_values();
    let names: Vec<_> = values.iter().filter(|value| !value.is_hide_set()).collect();
    if !names.is_empty() && !arg.is_hide_possible_values_set() {
        let names = names.iter().map(|value| format!("`{}`", value.get_name()));
        let _ = write!(text, " [values: {}]", names.collect::<Vec<_>>().join(", "));
    }
    let defaults = arg.get_default_values();
    if !defaults.is_empty() && !arg.is_hide_default_value_set() {
        let defaults = defaults.iter().map(|value| value.to_string_lossy());
        let _ = write!(text, " [default: {}]", defaults.collect::<Vec<_>>().join(" "));
    }
    text
}

/// What may stand in a cell of a table: one line without bars, and nothing that Markdown takes for a tag.
fn cell(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}
