//! What a test needs and a machine may not have: root, tools, its turn.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Whether something is missing, so that the test is skipped; if so it says why. In CI nothing may be skipped.
pub fn skip(missing: Option<&str>) -> bool {
    let Some(missing) = missing else { return false };
    assert!(std::env::var_os("CI").is_none(), "{missing}, but in CI nothing may be skipped");
    eprintln!("skipped: {missing}");
    true
}

/// Whether the program is there.
pub fn has(tool: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(tool).is_file())
}

/// Waits until no other test of this program has its turn; one that has failed is none.
pub fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether this is root.
pub fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// Its turn, if this is root: who may load programs and make namespaces.
pub fn root() -> Option<MutexGuard<'static, ()>> {
    (!skip((!is_root()).then_some("not root"))).then(turn)
}
