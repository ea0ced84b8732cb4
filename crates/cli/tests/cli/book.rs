//! The book of docs/ and the documents of the root: links lead somewhere, and every block of commands runs.
//!
//! What is behind a fence says how its block is checked:
//!
//! | fence | check |
//! |---|---|
//! | `sh` | runs here, by bash, in a directory of its page's own that has `crates`, `docs` and `experiments` in it |
//! | `sh host` | runs as root in a guest with two stand-ins for VMs, `web` and `batch` (unless the page starts its own) |
//! | `sh make` | names targets of the Makefile, packages, tests, examples and scripts that exist |
//!
//! With `slow` the options of the commands are checked, and nothing runs; `exit=1` is the exit code of a block's last command, `exit=any` 0 or 1. A `toml`
//! block whose first line is `# NAME.toml` is that file for the blocks below it. A page is one run: its blocks share
//! variables and jobs. `text` is what a command prints.

mod blocks;
mod commands;
mod guest;
mod here;
mod links;
mod pages;
