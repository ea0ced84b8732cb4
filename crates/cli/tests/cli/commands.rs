//! Whole commands with damaged files and odd words: `scripts/fuzz-commands` has the list of what must never happen.

use std::path::Path;
use std::process::Command;

/// So many of them; `scripts/fuzz-commands --count 100000` is the full tier.
const COMMANDS: &str = "1500";

#[test]
fn damaged_commands_end_as_promised() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/fuzz-commands");
    let seed = std::env::var("LOWTAIL_SEED").unwrap_or_else(|_| "1".to_string());
    let ran = Command::new("python3")
        .arg(script)
        .args(["--binary", env!("CARGO_BIN_EXE_lowtail"), "--count", COMMANDS, "--seed", &seed])
        .output();
    let ran = match ran {
        Ok(ran) => ran,
        Err(error) => {
            assert!(std::env::var_os("CI").is_none(), "no python3: {error}");
            eprintln!("skipped: no python3: {error}");
            return;
        }
    };
    let said = String::from_utf8_lossy(&ran.stdout);
    println!("{said}");
    assert!(ran.status.success(), "{said}{}", String::from_utf8_lossy(&ran.stderr));
}
