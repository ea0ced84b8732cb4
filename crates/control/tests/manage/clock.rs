//! A clock that jumps decides nothing.

use std::fs;
use std::path::Path;

/// What keeps and changes goes by the monotonic clock, which nobody can set: no file of it asks for another one.
#[test]
fn nobody_asks_for_the_time_of_day() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let cli = Path::new(env!("CARGO_MANIFEST_DIR")).join("../cli/src/host");
    let kernel = Path::new(env!("CARGO_MANIFEST_DIR")).join("../kernel/src");
    let mut files: Vec<_> = [src, kernel].iter().flat_map(|crate_| all(crate_)).collect();
    files.extend(["log.rs", "apply.rs", "plan.rs"].map(|file| cli.join(file)));
    assert!(files.len() > 60, "{}", files.len());
    for file in files {
        let text = fs::read_to_string(&file).expect("a source");
        for clock in ["SystemTime", "UNIX_EPOCH", "CLOCK_REALTIME", ".modified()"] {
            assert!(!text.contains(clock), "{}: {clock}", file.display());
        }
    }
}

fn all(dir: &Path) -> Vec<std::path::PathBuf> {
    let below = fs::read_dir(dir).expect("a directory").flatten().map(|entry| entry.path());
    below.flat_map(|path| if path.is_dir() { all(&path) } else { vec![path] }).collect()
}
