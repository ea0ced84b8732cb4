//! One connection: a head, an answer, the end.

use std::convert::Infallible;
use std::future::ready;
use std::sync::Arc;

use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;

use crate::answer::answer;
use crate::guarded::Guarded;
use crate::limits::{HEAD_BYTES, Limits};
use crate::seats::Seat;
use crate::texts::Texts;

/// Serves whoever is at the other end. What a client does wrong ends its own connection, and is nobody
/// else's trouble, so that there is no error.
pub(crate) async fn connection<S>(stream: S, texts: Arc<Texts>, seat: Seat, limits: Limits)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let io = TokioIo::new(Guarded::new(stream, seat.clone(), limits.stall));
    let service = service_fn(move |request: Request<Incoming>| {
        seat.write();
        ready(Ok::<_, Infallible>(answer(&request, &texts)))
    });
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head)
        .max_buf_size(HEAD_BYTES)
        // One answer for each connection: nobody keeps a seat by asking again.
        .keep_alive(false)
        // Who has said all that it has to say still gets an answer.
        .half_close(true);
    let _ = timeout(limits.whole, builder.serve_connection(io, service)).await;
}
