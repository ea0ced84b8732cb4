//! Questions to the kernel about its network, and orders: rtnetlink(7).
//!
//! Attributes are passed on as they are, byte for byte: what is not understood here can still be put back.

use std::io;

use netlink_packet_core::{
    DefaultNla, Emitable, NLM_F_ACK, NLM_F_ACK_TLVS, NLM_F_CAPPED, NLM_F_DUMP, NLM_F_DUMP_INTR,
    NLM_F_REQUEST, NLMSG_DONE, NLMSG_ERROR, NetlinkBuffer, NetlinkHeader, NlasIterator,
};
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};
use nix::sys::socket::{setsockopt, sockopt};

/// Bytes of `struct nlmsghdr`.
const HEADER: usize = 16;
/// `NLMSGERR_ATTR_MSG` of `linux/netlink.h`.
const ERROR_TEXT: u16 = 1;
/// A dump that changes while it is read is read again; so often.
const TRIES: usize = 10;
/// An answer is no longer than this, since the kernel writes dumps into at most 32 KB (`netlink_dump`).
const ANSWER_MAX: usize = 64 << 10;

/// Bytes of answers that may wait: the kernel counts nearly 1 KB for an answer, however short it is (`truesize`).
const ANSWERS_MAX: usize = 2 << 20;

/// An attribute: its number and its bytes.
pub(super) type Attribute = (u16, Vec<u8>);
/// What the kernel tells: the fixed part and attributes.
pub(super) type Answer = (Vec<u8>, Vec<Attribute>);

/// A message to the kernel or from it: what kind, its fixed part, and attributes.
#[derive(Clone, Debug)]
pub(super) struct Message {
    pub(super) kind: u16,
    pub(super) flags: u16,
    pub(super) fixed: Vec<u8>,
    pub(super) attributes: Vec<Attribute>,
    /// What it is for, for who reads an error.
    pub(super) what: String,
}

impl Message {
    fn bytes(&self, sequence: u32, flags: u16) -> Vec<u8> {
        let mut content = self.fixed.clone();
        content.extend(nest(&self.attributes));
        let mut header = NetlinkHeader::default();
        header.length = (HEADER + content.len()) as u32;
        header.message_type = self.kind;
        header.flags = self.flags | flags | NLM_F_REQUEST;
        header.sequence_number = sequence;
        let mut bytes = vec![0; HEADER];
        header.emit(&mut bytes);
        bytes.extend(content);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }
}

/// Attributes as bytes, as they are in a message or in another attribute.
pub(super) fn nest(attributes: &[Attribute]) -> Vec<u8> {
    let all: Vec<DefaultNla> =
        attributes.iter().map(|(kind, value)| DefaultNla::new(*kind, value.clone())).collect();
    let mut bytes = vec![0; all.as_slice().buffer_len()];
    all.as_slice().emit(&mut bytes);
    bytes
}

/// The attributes in bytes; of what is broken, those in front.
pub(super) fn attributes(bytes: &[u8]) -> Vec<Attribute> {
    let whole = NlasIterator::new(bytes).map_while(Result::ok);
    whole.map(|attribute| (attribute.kind(), attribute.value().to_vec())).collect()
}

/// The bytes of an attribute.
pub(super) fn find(attributes: &[Attribute], kind: u16) -> Option<&[u8]> {
    attributes.iter().find(|(own, _)| *own == kind).map(|(_, value)| value.as_slice())
}

/// A number at a place.
pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// A name as the kernel writes it, with a 0 behind it.
pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes.split(|b| *b == 0).next().unwrap_or_default()).into_owned()
}

/// A name as the kernel wants it.
pub(super) fn name(text: &str) -> Vec<u8> {
    [text.as_bytes(), &[0]].concat()
}

/// Why the kernel refuses.
#[derive(Debug)]
pub(super) struct Refused {
    pub(super) what: String,
    pub(super) error: io::Error,
    /// What it says about it, if it does.
    pub(super) message: Option<String>,
}

impl From<Refused> for crate::Error {
    fn from(refused: Refused) -> Self {
        let Refused { what, error, message } = refused;
        match message {
            Some(message) => crate::Error::network(what, format!("{error} ({message})")),
            None => crate::Error::network(what, error),
        }
    }
}

/// A connection to the kernel, in the network namespace of the thread that opens it.
pub(super) struct Session {
    socket: Socket,
    sequence: u32,
}

impl Session {
    pub(super) fn open() -> Result<Self, Refused> {
        let opened = Socket::new(NETLINK_ROUTE).and_then(|mut socket| {
            socket.bind_auto()?;
            socket.connect(&SocketAddr::new(0, 0))?;
            // Older kernels have no words for an error; that is no reason to stop.
            let _ = socket.set_ext_ack(true);
            let _ = socket.set_cap_ack(true);
            Ok(socket)
        });
        let what = || "cannot open rtnetlink".to_string();
        let socket = opened.map_err(|error| Refused { what: what(), error, message: None })?;
        Ok(Session { socket, sequence: 0 })
    }

    /// Gives orders, all in one system call, so that the kernel carries out all of them even if this process is
    /// killed meanwhile: it looks at signals only when it returns (`netlink_rcv_skb`).
    ///
    /// # Errors
    /// The first that it refuses. Those behind it are tried nevertheless.
    pub(super) fn execute(&mut self, orders: &[Message]) -> Result<(), Refused> {
        let Some(last) = orders.last() else { return Ok(()) };
        let first = self.sequence.wrapping_add(1);
        let mut bytes = Vec::new();
        for message in orders {
            self.sequence = self.sequence.wrapping_add(1);
            bytes.extend(message.bytes(self.sequence, NLM_F_ACK));
        }
        let lost = |error| Refused { what: last.what.clone(), error, message: None };
        // Answers to as many orders as a tree for 64 VMs takes are more than what fits by default. Who may give orders may ask for
        // more room.
        let _ = setsockopt(&self.socket, sockopt::RcvBufForce, &ANSWERS_MAX);
        self.socket.send(&bytes, 0).map_err(lost)?;
        let mut refused: Option<(u32, Refused)> = None;
        let mut answered = 0;
        while answered < orders.len() {
            let answer = self.receive().map_err(lost)?;
            for (header, content) in messages(&answer) {
                let index = header.sequence_number.wrapping_sub(first);
                let order = orders.get(index as usize);
                let (NLMSG_ERROR, Some(order)) = (header.message_type, order) else { continue };
                answered += 1;
                if let Some((error, message)) = verdict(header.flags, content) {
                    let what = order.what.clone();
                    if refused.as_ref().is_none_or(|(earlier, _)| index < *earlier) {
                        refused = Some((index, Refused { what, error, message }));
                    }
                }
            }
        }
        refused.map_or(Ok(()), |(_, refused)| Err(refused))
    }

    /// All answers to a question: their fixed parts, of `fixed` bytes, and attributes.
    pub(super) fn dump(
        &mut self,
        question: &Message,
        fixed: usize,
    ) -> Result<Vec<Answer>, Refused> {
        for _ in 0..TRIES {
            if let Some(answers) = self.request(question, NLM_F_DUMP, fixed)? {
                return Ok(answers);
            }
        }
        let error = io::Error::other("it changes all the time");
        Err(Refused { what: question.what.clone(), error, message: None })
    }

    /// The answer to a question about one thing, which costs the same however many there are; `None` if there is no such
    /// thing.
    pub(super) fn get(
        &mut self,
        question: &Message,
        fixed: usize,
    ) -> Result<Option<Answer>, Refused> {
        match self.request(question, NLM_F_ACK, fixed) {
            Ok(answers) => Ok(answers.and_then(|mut answers| answers.pop())),
            Err(refused) => match refused.error.raw_os_error() {
                Some(libc::ENODEV | libc::ENOENT) => Ok(None),
                _ => Err(refused),
            },
        }
    }

    /// `None` if it changed meanwhile.
    fn request(
        &mut self,
        question: &Message,
        flags: u16,
        fixed: usize,
    ) -> Result<Option<Vec<Answer>>, Refused> {
        self.sequence = self.sequence.wrapping_add(1);
        let lost = |error| Refused { what: question.what.clone(), error, message: None };
        let bytes = question.bytes(self.sequence, flags);
        self.socket.send(&bytes, 0).map_err(lost)?;
        let (mut answers, mut changed) = (Vec::new(), false);
        loop {
            let answer = self.receive().map_err(lost)?;
            for (header, content) in messages(&answer) {
                if header.sequence_number != self.sequence {
                    continue;
                }
                changed |= header.flags & NLM_F_DUMP_INTR != 0;
                match header.message_type {
                    NLMSG_DONE => return Ok((!changed).then_some(answers)),
                    NLMSG_ERROR => {
                        let what = question.what.clone();
                        return match verdict(header.flags, content) {
                            Some((error, message)) => Err(Refused { what, error, message }),
                            None => Ok(Some(answers)),
                        };
                    }
                    _ => {
                        if let Some((head, rest)) = content.split_at_checked(fixed) {
                            answers.push((head.to_vec(), attributes(rest)));
                        }
                    }
                }
            }
        }
    }

    fn receive(&self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(ANSWER_MAX);
        self.socket.recv(&mut bytes, 0)?;
        Ok(bytes)
    }
}

/// The messages in one datagram; of what is broken, those in front.
pub(super) fn messages(mut bytes: &[u8]) -> Vec<(NetlinkHeader, &[u8])> {
    let mut found = Vec::new();
    while let Ok(buffer) = NetlinkBuffer::new_checked(bytes) {
        let mut header = NetlinkHeader::default();
        header.length = buffer.length();
        header.message_type = buffer.message_type();
        header.flags = buffer.flags();
        header.sequence_number = buffer.sequence_number();
        let length = buffer.length() as usize;
        found.push((header, &bytes[HEADER..length]));
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    found
}

/// What an acknowledgement says: nothing, or an error and perhaps words.
pub(super) fn verdict(flags: u16, content: &[u8]) -> Option<(io::Error, Option<String>)> {
    let code = u32_at(content, 0)? as i32;
    if code == 0 {
        return None;
    }
    // The order's header is repeated; all of it, if the kernel does not know how to leave it out.
    let repeated = match flags & NLM_F_CAPPED {
        0 => u32_at(content, 4)? as usize,
        _ => HEADER,
    };
    let rest = content.get(4 + repeated.next_multiple_of(4)..).unwrap_or_default();
    let message = (flags & NLM_F_ACK_TLVS != 0).then(|| attributes(rest));
    let message = message.and_then(|all| find(&all, ERROR_TEXT).map(text));
    Some((io::Error::from_raw_os_error(code.wrapping_neg()), message))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `linux/netlink.h` lays them out.
    #[test]
    fn an_order_has_the_kernels_layout() {
        let order = Message {
            kind: 36,
            flags: 0x600,
            fixed: vec![7; 4],
            attributes: vec![(1, name("tbf")), (2, vec![9])],
            what: String::new(),
        };
        let bytes = order.bytes(5, NLM_F_ACK);
        let mut wanted = Vec::new();
        wanted.extend(36u32.to_ne_bytes());
        wanted.extend([36u16, 0x605].map(u16::to_ne_bytes).concat());
        wanted.extend([5u32, 0].map(u32::to_ne_bytes).concat());
        wanted.extend([7; 4]);
        wanted.extend([8u16, 1].map(u16::to_ne_bytes).concat());
        wanted.extend(b"tbf\0");
        wanted.extend([5u16, 2].map(u16::to_ne_bytes).concat());
        wanted.extend([9, 0, 0, 0]);
        assert_eq!(bytes, wanted);
    }

    /// Whatever a datagram is, and wherever it is cut: no panic, and nothing that is not there.
    #[test]
    fn answers_cut_anywhere() {
        let mut answer = Vec::new();
        answer.extend(44u32.to_ne_bytes());
        answer.extend([NLMSG_ERROR, NLM_F_CAPPED | NLM_F_ACK_TLVS].map(u16::to_ne_bytes).concat());
        answer.extend([1u32, 0].map(u32::to_ne_bytes).concat());
        answer.extend((-2i32).to_ne_bytes());
        answer.extend([0; 16]);
        answer.extend([8u16, ERROR_TEXT].map(u16::to_ne_bytes).concat());
        answer.extend(b"no!\0");
        let all = messages(&answer);
        let (error, message) = verdict(all[0].0.flags, all[0].1).expect("an error");
        assert_eq!((error.raw_os_error(), message.as_deref()), (Some(2), Some("no!")));
        for end in 0..answer.len() {
            assert!(messages(&answer[..end]).is_empty(), "{end}");
            let content = &answer[HEADER..];
            let _ = verdict(NLM_F_ACK_TLVS, &content[..end.min(content.len())]);
        }
        assert!(messages(&[0; 64]).is_empty());
    }
}
