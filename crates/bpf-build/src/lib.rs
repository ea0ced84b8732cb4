//! Compiles the programs of `bpf/` that go into the kernel, in the build script of the crate that loads them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// Compilers to try when `LOWTAIL_CLANG` names none.
const CLANGS: [&str; 3] = ["clang-16", "clang-19", "clang"];

/// Compiles `bpf/NAME.bpf.c` of the workspace into `NAME.bpf.o` in the output directory of the crate whose build script calls it.
///
/// # Panics
/// If there is no clang, or a program does not compile: cargo shows what the compiler says.
pub fn compile(programs: &[&str]) {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    println!("cargo:rerun-if-env-changed=LOWTAIL_CLANG");
    for dir in ["bpf", "policy"] {
        watch(&root.join(dir));
    }
    let clang = env::var("LOWTAIL_CLANG").ok().or_else(|| {
        let runs = |name: &&str| Command::new(name).arg("--version").output().is_ok();
        CLANGS.iter().find(|name| runs(name)).map(ToString::to_string)
    });
    let Some(clang) = clang else {
        panic!(
            "no clang for the BPF programs: install the Debian packages clang-16 and libbpf-dev, \
             or name one in LOWTAIL_CLANG"
        );
    };
    let arch = env::var("CARGO_CFG_TARGET_ARCH").expect("cargo sets it");
    for program in programs {
        let source = root.join(format!("bpf/{program}.bpf.c"));
        let status = Command::new(&clang)
            .args(["-O2", "-g", "-Wall", "-Werror", "-target", "bpf", "-mcpu=v3"])
            .arg(format!("-I/usr/include/{arch}-linux-gnu"))
            .arg("-I")
            .arg(root.join("policy"))
            .arg("-c")
            .arg(&source)
            .arg("-o")
            .arg(out.join(format!("{program}.bpf.o")))
            .status();
        let compiled = status.is_ok_and(|status| status.success());
        assert!(compiled, "{clang} does not compile {}; is libbpf-dev there?", source.display());
    }
}

/// Compiles again when a file in `dir` changes.
fn watch(dir: &Path) {
    println!("cargo:rerun-if-changed={}", dir.display());
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        println!("cargo:rerun-if-changed={}", entry.path().display());
    }
}
