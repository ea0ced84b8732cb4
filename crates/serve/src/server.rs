//! The thread that serves.

use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use nix::sys::socket::{setsockopt, sockopt};
use tokio::runtime::Builder;
use tokio::time::sleep;

use crate::connection::connection;
use crate::limits::Limits;
use crate::notices::Notices;
use crate::seats::Seats;
use crate::supervise::supervise;
use crate::texts::{Site, Texts};

/// Bytes of an answer that the kernel keeps for a connection. Without a bound it keeps megabytes.
const SEND_BYTES: usize = 256 << 10;
/// The pause after a connection could not be accepted; it doubles up to [`PAUSE_MAX`].
const PAUSE: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Serves `site` to those who connect to `listener`, in a thread of its own, for as long as the process lives. `say` is
/// told what goes wrong, at most once a minute for each subject.
///
/// # Errors
/// If the listener cannot be made ready, or there can be no thread.
pub fn serve(
    listener: TcpListener,
    site: Site,
    limits: Limits,
    say: impl Fn(&str) + Send + Sync + 'static,
) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    // Connections have these from their listener. The kernel drops what a client does not fetch after
    // its connection was closed.
    setsockopt(&listener, sockopt::SndBuf, &SEND_BYTES)?;
    let unfetched_ms = u32::try_from(limits.whole.as_millis()).unwrap_or(u32::MAX);
    setsockopt(&listener, sockopt::TcpUserTimeout, &unfetched_ms)?;
    let notices = Arc::new(Notices::new(say));
    let texts = Arc::new(Texts::new(site, Arc::clone(&notices)));
    thread::Builder::new().name("http".to_string()).spawn(move || {
        supervise(&notices, || run(&listener, &texts, limits, &notices));
    })?;
    Ok(())
}

/// Serves until something unforeseen happens. What is open then is closed.
fn run(
    listener: &TcpListener,
    texts: &Arc<Texts>,
    limits: Limits,
    notices: &Notices,
) -> io::Result<()> {
    let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener.try_clone()?)?;
        let seats = Seats::new(limits);
        let mut pause = PAUSE;
        loop {
            match listener.accept().await {
                Ok((stream, _)) => {
                    pause = PAUSE;
                    let seat = seats.sit();
                    let number = seat.number();
                    let served = connection(stream, Arc::clone(texts), seat, limits);
                    seats.ends_with(number, tokio::spawn(served).abort_handle());
                }
                // The client has gone again: that costs the others no time.
                Err(error) if gone(&error) => {}
                // There is no file or memory left: later there is.
                Err(error) => {
                    notices.say("HTTP accept", &error.to_string());
                    sleep(pause).await;
                    pause = (2 * pause).min(PAUSE_MAX);
                }
            }
            // Each connection gets its turn before the next is accepted, and may then be
            // thrown out for others: a head that is there is read first.
            tokio::task::yield_now().await;
        }
    })
}

/// Whether only this one connection could not be accepted. Linux passes on what is wrong with a connection that waits
/// (accept(2)).
fn gone(error: &io::Error) -> bool {
    use io::ErrorKind::{
        ConnectionAborted, ConnectionReset, HostUnreachable, Interrupted, NetworkDown,
        NetworkUnreachable,
    };
    matches!(
        error.kind(),
        ConnectionAborted
            | ConnectionReset
            | HostUnreachable
            | Interrupted
            | NetworkDown
            | NetworkUnreachable
    )
}
