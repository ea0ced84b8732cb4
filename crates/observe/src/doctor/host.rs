//! The host that is looked at: files, and two questions that no file answers.

use std::path::{Path, PathBuf};

use libbpf_rs::{ObjectBuilder, PrintLevel};

use super::qdisc::{self, Qdisc};
use lowtail_kernel::Roots;
use lowtail_kernel::file;
use lowtail_kernel::marks::{Survey, survey};
use lowtail_kernel::release;
use lowtail_kernel::tool;

/// The compiled programs.
const PROGRAMS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/doctor.bpf.o"));

/// A kind of BPF program that lowtail needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// At a tracepoint, with the kernel's types.
    Tracing,
    /// Classifies packets.
    Classifier,
}

/// A host. Tests make one of files of their own.
#[derive(Clone, Debug)]
pub struct Host {
    /// `/proc` and `/sys`.
    pub roots: Roots,
    /// Where modules are that could be loaded, in a directory for each kernel.
    pub modules: PathBuf,
    /// Whether the kernel takes such a program; if not, what it says.
    pub load: fn(Program) -> Result<(), String>,
    /// All queueing disciplines of interfaces.
    pub qdiscs: fn() -> Result<Vec<Qdisc>, String>,
    /// Who uses packet mark bits.
    pub marks: fn() -> Survey,
    /// What the toolstack says of a host of Xen's.
    pub xen: fn() -> Result<lowtail_xen::Survey, lowtail_xen::Error>,
    /// Whether this program is installed.
    pub installed: fn(&str) -> bool,
}

impl Default for Host {
    fn default() -> Self {
        Host {
            roots: Roots::default(),
            modules: PathBuf::from("/lib/modules"),
            load,
            qdiscs: qdisc::all,
            marks: survey,
            xen: lowtail_xen::Survey::read,
            installed: |program| tool::find(program).is_some(),
        }
    }
}

impl Host {
    /// A small file below `/proc`, without blanks around.
    pub(super) fn proc(&self, path: &str) -> Option<String> {
        trimmed(&self.roots.proc.join(path))
    }

    /// A small file below `/sys`, without blanks around.
    pub(super) fn sys(&self, path: &str) -> Option<String> {
        trimmed(&self.roots.sys.join(path))
    }

    /// Whether there is something below `/sys`.
    pub(super) fn has_sys(&self, path: &str) -> bool {
        self.roots.sys.join(path).exists()
    }

    /// The entries of a directory below `/sys`, in order; none if it is not there.
    pub(super) fn list_sys(&self, path: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.roots.sys.join(path)).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        names
    }

    /// The kernel's version: two numbers of `6.12.48+deb13-amd64`.
    pub(super) fn version(&self) -> Option<(u32, u32)> {
        release::version(&self.proc("sys/kernel/osrelease")?)
    }
}

fn trimmed(path: &Path) -> Option<String> {
    Some(file::text(path, 64 << 10).ok()?.trim().to_string())
}

/// Loads a program that does nothing, and lets it go.
fn load(program: Program) -> Result<(), String> {
    libbpf_rs::set_print(None::<(PrintLevel, fn(PrintLevel, String))>);
    let wanted = match program {
        Program::Tracing => "tracing",
        Program::Classifier => "classifier",
    };
    let open = ObjectBuilder::default().open_memory(PROGRAMS);
    let loaded = open.and_then(|mut open| {
        for mut program in open.progs_mut() {
            program.set_autoload(program.name() == wanted);
        }
        open.load()
    });
    loaded.map(drop).map_err(|error| error.to_string())
}
