//! Lists the experiments and cost files, so that a new file needs no registration.

use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR").expect("set by cargo"));
    let mut code = String::new();
    for (constant, dir) in [("EXPERIMENTS", "../../experiments"), ("COSTS", "../../costs")] {
        let dir = root.join(dir);
        println!("cargo:rerun-if-changed={}", dir.display());
        code += &list(constant, &dir);
    }
    let out = PathBuf::from(env::var("OUT_DIR").expect("set by cargo"));
    fs::write(out.join("catalogue.rs"), code).expect("the build directory is writable");
}

/// A constant with the name and text of each TOML file in `dir`, sorted by name.
fn list(constant: &str, dir: &Path) -> String {
    let entries = fs::read_dir(dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.retain(|path| path.extension().is_some_and(|ext| ext == "toml"));
    paths.sort();
    let mut code = format!("const {constant}: &[Embedded] = &[\n");
    for path in paths {
        let path = path.canonicalize().expect("it was listed just now");
        let name = path.file_stem().expect("it has an extension").to_string_lossy();
        println!("cargo:rerun-if-changed={}", path.display());
        code += &format!("    Embedded {{ name: {name:?}, text: include_str!({path:?}) }},\n");
    }
    code + "];\n"
}
