//! Man pages: one for each command.

use std::io::{self, Write};
use std::path::Path;

use clap::{Command, CommandFactory};
use clap_mangen::Man;
use lowtail_out::{Access, Output};

use crate::args::Args;
use crate::exit;

/// The whole command, with subcommands that know what they are called.
pub(crate) fn command() -> Command {
    let mut command = Args::command().disable_help_subcommand(true);
    command.build();
    command
}

/// The page of the command itself.
pub(crate) fn page() -> io::Result<Vec<u8>> {
    render(&command())
}

/// Writes the page of each command into `dir`; creates that.
pub(crate) fn pages(dir: &Path) -> io::Result<()> {
    std::fs::create_dir_all(dir)?;
    write(&command(), dir)
}

fn write(command: &Command, dir: &Path) -> io::Result<()> {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name());
    let mut file = Output::create(&dir.join(format!("{name}.1")), Access::Usual)?;
    file.write_all(&render(command)?)?;
    file.commit()?;
    command.get_subcommands().try_for_each(|command| write(command, dir))
}

fn render(command: &Command) -> io::Result<Vec<u8>> {
    let version = concat!("lowtail ", env!("CARGO_PKG_VERSION"));
    let man = Man::new(command.clone()).source(version).manual("lowtail");
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    writeln!(page, ".SH \"EXIT STATUS\"")?;
    for (code, meaning) in exit::CODES {
        writeln!(page, ".TP 4\n{code}\n{meaning}")?;
    }
    Ok(page)
}
