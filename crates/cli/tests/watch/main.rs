//! `host apply --watch` where it has all that it can have, sched_ext and control groups of version 2: in the guest of
//! `scripts/guest`. Killed at moments all over its life; as the unit `dist/lowtail.service` under systemd. Needs QEMU and
//! Debian's archive: without them the tests say so and pass, unless `CI` is set.

mod crowded;
mod kill;
mod life;
mod unit;
mod vm;

use std::path::{Path, PathBuf};

use lowtail_testkit::guest::Guest;

/// What this test is to do inside the guest.
const DO: &str = "LOWTAIL_TEST_DO";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Not a test: what runs inside the guest.
#[test]
fn inside() {
    match std::env::var(DO).as_deref() {
        Ok("ends") => kill::ends_inside(),
        Ok("moments") => kill::moments_inside(),
        Ok("unit") => unit::inside(),
        Ok("crowded") => crowded::inside(),
        Ok(other) => panic!("`{other}`?"),
        Err(_) => {}
    }
}

/// Runs this test again inside the guest, with that to do and these programs besides; what it says. `None` if there can be
/// no guest here.
fn guest(what: &str, programs: &[&str], set: impl FnOnce(Guest) -> Guest) -> Option<String> {
    let own = std::env::current_exe().expect("this test");
    let name = own.file_name().and_then(|name| name.to_str()).expect("a name of cargo's");
    // A stand-in is looked for beside the directory of the test.
    let inside = format!(
        "ln -s /bin/lowtail-standin /lowtail-standin; CI=true {DO}={what} {name} inside --exact --nocapture"
    );
    let guest = Guest::new(env!("CARGO_BIN_EXE_lowtail")).command(["sh", "-c", &inside]);
    let guest = guest.also(lowtail_standin::binary()).also(own);
    let guest = programs.iter().fold(guest, Guest::also);
    set(guest.set("MEMORY", 768)).run()
}
