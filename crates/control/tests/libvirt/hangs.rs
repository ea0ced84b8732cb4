//! A libvirtd that takes a connection and then says nothing.

use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

use lowtail_control::libvirt::{Connection, Error, Options};

use super::{alone, no_library, skip};

/// As in `connection.rs`.
const HANGING_MAX: usize = 4;
const DEADLINE: Duration = Duration::from_millis(200);

fn open(dir: &tempfile::TempDir) -> Error {
    let socket = dir.path().join("sock");
    let uri = format!("qemu+unix:///system?socket={}", socket.display());
    let since = Instant::now();
    let options = Options { uri, deadline: DEADLINE, ..Options::default() };
    let error = Connection::open(options).err().expect("nobody answers");
    // libvirt itself would wait for ever. On a busy host a thread wakes late.
    assert!(since.elapsed() < Duration::from_secs(10), "{:?}: {error}", since.elapsed());
    error
}

#[test]
fn who_asks_does_not_hang() {
    let _alone = alone();
    if skip(no_library()) {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let silent = UnixListener::bind(dir.path().join("sock")).expect("a socket");
    for _ in 0..HANGING_MAX {
        let error = open(&dir);
        assert!(matches!(error, Error::Hangs { .. }), "{error}");
    }
    // No more threads that hang.
    let error = open(&dir);
    assert_eq!(error, Error::Stuck(HANGING_MAX));
    // Once the other side ends, so do they.
    let waiting: Vec<UnixStream> =
        (0..HANGING_MAX).map(|_| silent.accept().expect("one").0).collect();
    drop((waiting, silent));
    let until = Instant::now() + Duration::from_secs(10);
    loop {
        match open(&dir) {
            Error::Stuck(_) if Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(10));
            }
            error => break assert!(matches!(error, Error::Open { .. }), "{error}"),
        }
    }
}
