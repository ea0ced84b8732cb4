//! A client of request servers on the same host: it waits for a pCPU like any other VM, before it sends and before it has the answer.
//!
//! When it sends is the server's to say ([`RequestServerConfig::client`]); here is only the work of it. Servers hand in jobs and are told
//! when they are begun and done, in no time: what the packets take on their way is the server's path.
//!
//! [`RequestServerConfig::client`]: crate::guest::request_server::RequestServerConfig::client

use std::collections::VecDeque;

use lowtail_config_text::{DurationText, KeyError, field};
use lowtail_engine::Duration;
use schemars::JsonSchema;
use serde::Deserialize;

use super::check::at_least_1us;
use super::context::GuestContext;
use super::model::{Guest, Step};
use crate::ids::Dom;
use crate::notification::Origin;

/// Parameters of a `client`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClientConfig {
    /// Processor work to send a request, at least 1us.
    #[serde(deserialize_with = "field::duration")]
    #[schemars(with = "DurationText")]
    pub send: Duration,
    /// Processor work to take in an answer, at least 1us.
    #[serde(deserialize_with = "field::duration")]
    #[schemars(with = "DurationText")]
    pub receive: Duration,
}

impl ClientConfig {
    /// Refuses parameters with which the guest makes no sense.
    ///
    /// # Errors
    /// Which parameter, and what would be right.
    pub fn check(&self) -> Result<(), KeyError> {
        at_least_1us("send", self.send)?;
        at_least_1us("receive", self.receive)
    }
}

/// What a server has its client do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Job {
    /// Send a request.
    Send,
    /// Take in an answer.
    Receive,
}

/// What a client tells a server, as tokens that servers do not use for themselves: it has begun to send, ...
pub(super) const SENDING: u32 = 3;
/// ... it has sent, ...
pub(super) const SENT: u32 = 4;
/// ... it has the answer.
pub(super) const RECEIVED: u32 = 5;
/// The first token that is a server's own again.
pub(super) const FREE: u32 = 6;

/// Bit of a client's token that says which job; the others say whose.
const RECEIVE: u32 = 1;

/// The token that hands in a job of `server`.
pub(super) fn token(server: Dom, job: Job) -> u32 {
    u32::from(server.0) << 1 | if job == Job::Receive { RECEIVE } else { 0 }
}

/// Does its servers' jobs, one after the other, on its first vCPU.
#[derive(Debug)]
pub struct Client {
    config: ClientConfig,
    jobs: VecDeque<(Dom, Job)>,
    doing: Option<(Dom, Job)>,
}

impl Client {
    /// A client with nothing to do.
    pub fn new(config: ClientConfig) -> Self {
        Client { config, jobs: VecDeque::with_capacity(64), doing: None }
    }
}

impl Guest for Client {
    fn start(&mut self, _cx: &mut GuestContext<'_>) {}

    fn step(&mut self, cx: &mut GuestContext<'_>, vcpu: usize) -> Step {
        if vcpu > 0 {
            return Step::Block;
        }
        match self.doing.take() {
            Some((server, Job::Send)) => cx.signal(server, SENT),
            Some((server, Job::Receive)) => cx.signal(server, RECEIVED),
            None => {}
        }
        self.doing = self.jobs.pop_front();
        match self.doing {
            Some((server, Job::Send)) => {
                cx.signal(server, SENDING);
                Step::Compute(self.config.send)
            }
            Some((_, Job::Receive)) => Step::Compute(self.config.receive),
            None => Step::Block,
        }
    }

    fn timer(&mut self, cx: &mut GuestContext<'_>, token: u32) {
        let server = Dom((token >> 1) as u16);
        let job = if token & RECEIVE == 0 { Job::Send } else { Job::Receive };
        self.jobs.push_back((server, job));
        // Its own timer says when to send; the answer is the server's event.
        let origin = match job {
            Job::Send => Origin::OwnProcessor,
            Job::Receive => cx.origin_from(server),
        };
        cx.notify(0, origin);
    }
}
