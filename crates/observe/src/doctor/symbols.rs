//! Which parts of the kernel there are: built in or loaded by a symbol, else by the list of modules.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use super::Host;

/// Longer lists are not read to their end.
const LIST_MAX: u64 = 256 << 20;

/// Where a part is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// In the running kernel.
    There,
    /// In a module that is loaded when it is asked for.
    Loadable,
    /// Nowhere.
    Absent,
    /// The kernel does not tell.
    Unknown,
}

/// The symbols and modules that were asked for and are there.
#[derive(Debug)]
pub(super) struct Symbols {
    symbols: Option<BTreeSet<String>>,
    modules: BTreeSet<String>,
}

impl Symbols {
    /// Looks for pairs of a symbol that the part has, and its module. Names of symbols are told to everybody, only
    /// their addresses are not (`kptr_restrict` in the kernel's `admin-guide/sysctl/kernel.rst`).
    pub(super) fn find(host: &Host, wanted: &[(&str, &str)]) -> Self {
        let symbols = words(&host.roots.proc.join("kallsyms"), |line| {
            // ffffffff81ef3810 t clsact_init [sch_ingress]
            let name = line.split_ascii_whitespace().nth(2)?;
            wanted.iter().any(|(symbol, _)| *symbol == name).then(|| name.to_string())
        });
        let release = host.proc("sys/kernel/osrelease").unwrap_or_default();
        // It is a file's name only if it is one.
        let release = if release.contains('/') { String::new() } else { release };
        let modules = words(&host.modules.join(release).join("modules.dep"), |line| {
            // kernel/net/sched/sch_ingress.ko.xz: …
            let file = line.split(':').next()?.rsplit('/').next()?;
            let name = file.split('.').next()?.replace('-', "_");
            wanted.iter().any(|(_, module)| *module == name).then_some(name)
        });
        Symbols { symbols, modules: modules.unwrap_or_default() }
    }

    /// Where the part with this symbol, in this module, is.
    pub(super) fn part(&self, symbol: &str, module: &str) -> Part {
        match &self.symbols {
            Some(symbols) if symbols.contains(symbol) => Part::There,
            _ if self.modules.contains(module) => Part::Loadable,
            Some(_) => Part::Absent,
            None => Part::Unknown,
        }
    }
}

/// What `pick` takes from each line; nothing if the file cannot be read or has no lines.
fn words(path: &Path, pick: impl Fn(&str) -> Option<String>) -> Option<BTreeSet<String>> {
    let mut lines = BufReader::new(File::open(path).ok()?.take(LIST_MAX));
    let mut found = BTreeSet::new();
    let mut line = Vec::new();
    let mut any = false;
    loop {
        any |= !line.is_empty();
        line.clear();
        match lines.read_until(b'\n', &mut line) {
            Ok(0) => return any.then_some(found),
            Ok(_) => found.extend(std::str::from_utf8(&line).ok().and_then(&pick)),
            Err(_) => return None,
        }
    }
}
