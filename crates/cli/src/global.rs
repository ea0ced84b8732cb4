//! Options that every command has.

use clap::{Args, ValueEnum};

/// Options of every command.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct Global {
    /// Print JSON instead of tables
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Print only errors, and JSON if --json is given; the exit code says the result
    #[arg(long, short, global = true)]
    pub(crate) quiet: bool,
    /// Colours: auto (on a terminal, unless NO_COLOR is set), always or never
    #[arg(long, global = true, value_enum, default_value_t = Color::Auto, value_name = "WHEN")]
    #[arg(hide_possible_values = true)]
    pub(crate) color: Color,
}

/// When to use colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}
