//! One connection over bytes in memory.

use std::io;
use std::panic::resume_unwind;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex, split};
use tokio::runtime::{Builder, Runtime};

use crate::connection::connection;
use crate::limits::Limits;
use crate::notices::Notices;
use crate::seats::Seats;
use crate::texts::{Site, Texts};

/// Bytes on their way in each direction.
const PIPE_BYTES: usize = 4096;

/// A server without sockets and threads, for tests and for fuzzing. It serves a connection with the same code as
/// [`serve`](crate::serve()).
///
/// ```
/// use lowtail_serve::{InMemory, Limits, Site, Source};
///
/// struct Fixed;
/// impl Source for Fixed {
///     fn version(&self) -> u64 {
///         0
///     }
///     fn text(&self) -> Result<String, String> {
///         Ok("up 1\n# EOF\n".to_string())
///     }
/// }
///
/// let site = Site { path: "/metrics", content_type: "text/plain", source: Box::new(Fixed) };
/// let server = InMemory::new(site, Limits::default()).unwrap();
/// let answer = server.answer(b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n");
/// assert!(answer.starts_with(b"HTTP/1.1 200 OK\r\n") && answer.ends_with(b"# EOF\n"));
/// ```
pub struct InMemory {
    runtime: Runtime,
    texts: Arc<Texts>,
    seats: Arc<Seats>,
    limits: Limits,
}

impl InMemory {
    /// A server of this site.
    ///
    /// # Errors
    /// If the system has no room for it.
    pub fn new(site: Site, limits: Limits) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_time().build()?;
        let texts = Arc::new(Texts::new(site, Arc::new(Notices::new(|_| ()))));
        Ok(InMemory { runtime, texts, seats: Seats::new(limits), limits })
    }

    /// All that a client gets that sends these bytes, any bytes, and then no more. Waits for no deadline.
    ///
    /// # Panics
    /// If serving panics: that is a bug, and what a fuzzer looks for.
    pub fn answer(&self, bytes: &[u8]) -> Vec<u8> {
        let sent = bytes.to_vec();
        self.runtime.block_on(async {
            let (client, server) = duplex(PIPE_BYTES);
            let served = connection(server, Arc::clone(&self.texts), self.seats.sit(), self.limits);
            let served = tokio::spawn(served);
            let (mut from, mut to) = split(client);
            // A server that closes before it has read everything is within its rights.
            let sending = tokio::spawn(async move {
                let _ = to.write_all(&sent).await;
                let _ = to.shutdown().await;
            });
            let mut answer = Vec::new();
            let _ = from.read_to_end(&mut answer).await;
            drop(from);
            for done in [served.await, sending.await] {
                if let Err(error) = done {
                    resume_unwind(error.into_panic());
                }
            }
            answer
        })
    }
}
