//! Flows: one direction of a conversation, with the state of both its ends.

use std::collections::VecDeque;

use lowtail_engine::Time;

use crate::packet::End;
use crate::tcp::{Receiver, Sender};

/// What the bytes of a message are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// A message that is measured when it is there.
    OneWay,
    /// A request.
    Request,
    /// A reply; `start` is that of the request.
    Reply,
    /// A transfer of a list, by its place there.
    Listed(u32),
}

/// Whether a connection is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// It is.
    Open,
    /// It has been asked for so often; the answer is not there.
    Opening {
        /// Times.
        asked: u32,
    },
    /// It is not.
    Closed,
}

/// A message on a TCP stream.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Message {
    /// One behind its last byte.
    pub(crate) end: u64,
    pub(crate) bytes: u64,
    pub(crate) start: Time,
    pub(crate) role: Role,
}

/// One direction of a conversation.
#[derive(Debug)]
pub struct Flow {
    /// Who sends.
    pub src: End,
    /// Who receives.
    pub dst: End,
    /// Where the ways of its packets, and of their acknowledgements, begin in the table of routes.
    pub(crate) forth: u32,
    pub(crate) back: u32,
    pub(crate) traffic: u32,
    pub(crate) channel: u32,
    /// Its connection.
    pub(crate) state: State,
    /// Which of the connections that have followed each other here it is.
    pub(crate) generation: u16,
    /// The flow for which what is delivered counts: itself, or that of its pair.
    pub(crate) counts_for: u32,
    /// The sending end; of TCP only.
    pub sender: Sender,
    /// The receiving end; of TCP only.
    pub receiver: Receiver,
    /// When the sender's next timer is, if there is one under way; and the receiver's.
    /// Of a ping that waits for its answer: when it is lost; and when that is looked at.
    pub(crate) timer: Time,
    pub(crate) ack_timer: Time,
    pub(crate) messages: VecDeque<Message>,
    /// Payload that has been delivered in order since the warm-up.
    pub delivered_bytes: u64,
    /// Datagrams that have been sent.
    pub(crate) number: u64,
}

/// A conversation: a flow there and perhaps one back.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Channel {
    pub(crate) forth: u32,
    pub(crate) back: u32,
    pub(crate) source: u32,
}
