//! Xenstore, by the device that dom0 and guests have for it.
//!
//! A request is a header of four 32-bit numbers (what, which request, which transaction, length) and so many bytes; an answer has the
//! same form. Texts in them end with a zero byte (Xen's `docs/misc/xenstore.txt`, numbers in `public/io/xs_wire.h`).

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::Path;

use crate::error::Error;

/// Linux has it in each domain.
const DEVICE: &str = "/dev/xen/xenbus";
/// `XENSTORE_PAYLOAD_MAX`.
const LONGEST_PAYLOAD: u32 = 4096;
/// The longest value that a guest may write, to be sure: xenstored's usual quota for a node is 2048 bytes, with who may use it.
pub const LONGEST_VALUE: usize = 1536;

const READ: u32 = 2;
const WATCH: u32 = 4;
const WRITE: u32 = 11;
const WATCH_EVENT: u32 = 15;
const ERROR: u32 = 16;

/// A connection to xenstore. Paths that do not begin with `/` are below the domain's own directory.
#[derive(Debug)]
pub struct Store {
    device: File,
}

impl Store {
    /// Connects.
    ///
    /// # Errors
    /// If this is no domain of Xen's, or not root.
    pub fn open() -> Result<Self, Error> {
        let opened = OpenOptions::new().read(true).write(true).open(DEVICE);
        Ok(Store { device: opened.map_err(failed("cannot open"))? })
    }

    /// What a node holds; `None` if there is no such node.
    ///
    /// # Errors
    /// If xenstore refuses, or it holds no text.
    pub fn read(&mut self, path: &str) -> Result<Option<String>, Error> {
        match self.ask(READ, &[path.as_bytes(), b"\0"].concat())? {
            Ok(value) => String::from_utf8(value)
                .map(Some)
                .map_err(|_| Error::Protocol(format!("{path} holds no text"))),
            Err(says) if says == "ENOENT" => Ok(None),
            Err(says) => Err(refused("reading", path, says)),
        }
    }

    /// Writes a node, and makes it if there is none. `value` has [`LONGEST_VALUE`] bytes at most.
    ///
    /// # Errors
    /// If xenstore refuses.
    pub fn write(&mut self, path: &str, value: &str) -> Result<(), Error> {
        let answer = self.ask(WRITE, &[path.as_bytes(), b"\0", value.as_bytes()].concat())?;
        answer.map(|_| ()).map_err(|says| refused("writing", path, says))
    }

    /// From now on [`changed`](Self::changed) tells of each change of this node.
    ///
    /// # Errors
    /// If xenstore refuses.
    pub fn watch(&mut self, path: &str) -> Result<(), Error> {
        let answer = self.ask(WATCH, &[path.as_bytes(), b"\0", path.as_bytes(), b"\0"].concat())?;
        answer.map(|_| ()).map_err(|says| refused("watching", path, says))
    }

    /// Sleeps until a node that is watched has changed, and once for each watch at its beginning.
    ///
    /// # Errors
    /// If the connection is lost.
    pub fn changed(&mut self) -> Result<(), Error> {
        while self.receive()?.0 != WATCH_EVENT {}
        Ok(())
    }

    /// Sends a request; gives what is answered, or xenstore's name of what was wrong.
    fn ask(&mut self, what: u32, payload: &[u8]) -> Result<Result<Vec<u8>, String>, Error> {
        let length = u32::try_from(payload.len()).unwrap_or(u32::MAX);
        if length > LONGEST_PAYLOAD {
            return Err(Error::Protocol(format!(
                "{length} bytes in a request; {LONGEST_PAYLOAD} at most"
            )));
        }
        let header = [what, 0, 0, length].map(u32::to_ne_bytes).concat();
        let sent = self.device.write_all(&[&header, payload].concat());
        sent.map_err(failed("cannot write to"))?;
        loop {
            match self.receive()? {
                // A change that nobody has asked for yet: who does looks at the node itself.
                (WATCH_EVENT, _) => {}
                (ERROR, says) => {
                    let says = String::from_utf8_lossy(&says).trim_end_matches('\0').to_string();
                    return Ok(Err(says));
                }
                (answered, value) if answered == what => return Ok(Ok(value)),
                (other, _) => {
                    return Err(Error::Protocol(format!("answer {other} to request {what}")));
                }
            }
        }
    }

    fn receive(&mut self) -> Result<(u32, Vec<u8>), Error> {
        let mut header = [0; 16];
        self.device.read_exact(&mut header).map_err(failed("cannot read from"))?;
        let number =
            |i: usize| u32::from_ne_bytes(header[4 * i..4 * i + 4].try_into().unwrap_or_default());
        let (what, length) = (number(0), number(3));
        if length > LONGEST_PAYLOAD {
            return Err(Error::Protocol(format!("{length} bytes in an answer")));
        }
        let mut value = vec![0; length as usize];
        self.device.read_exact(&mut value).map_err(failed("cannot read from"))?;
        Ok((what, value))
    }
}

fn failed(what: &'static str) -> impl Fn(io::Error) -> Error {
    move |source| Error::Device { what, path: Path::new(DEVICE).into(), source }
}

fn refused(what: &'static str, path: &str, says: String) -> Error {
    Error::Store { what, path: path.into(), says }
}
