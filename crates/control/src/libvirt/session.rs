//! What is asked of libvirt, in the thread that holds the connection.

use std::fmt::Display;

use lowtail_libvirt::{Cpus, labels};

use super::library::{Fail, Guest, Host, Number, c_text};
use super::{Domain, Error, Key, Part, Running, Thread};
use lowtail_kernel::Name;

/// A connection, and where it goes.
pub(super) struct Session {
    host: Host,
    uri: String,
}

impl Session {
    pub(super) fn open(uri: &str) -> Result<Self, Error> {
        let failed = |why: String| Error::Open { uri: uri.to_string(), why: shown(&why) };
        let text = c_text(uri).ok_or_else(|| failed("there is a zero in the URI".to_string()))?;
        let host = Host::open(&text).map_err(|fail| failed(fail.message))?;
        Ok(Session { host, uri: uri.to_string() })
    }

    pub(super) fn running(&self) -> Result<Vec<Running>, Error> {
        let all = || -> Result<Vec<Running>, Fail> {
            let guests = self.host.running()?;
            guests.iter().filter_map(|guest| running(guest).transpose()).collect()
        };
        all().map_err(|fail| self.refused("list VMs", fail))
    }

    pub(super) fn read(&self, domain: &Domain, key: Key) -> Result<Option<String>, Error> {
        self.with(domain, &format!("read {key}"), |guest| read(guest, domain, key))
    }

    pub(super) fn write(&self, domain: &Domain, key: Key, value: &str) -> Result<bool, Error> {
        let wanted = key.canonical(value).map_err(Error::Value)?;
        let done = self.with(domain, &format!("set {key} to {wanted}"), |guest| {
            // What is so already is not said again: libvirt would write it into the VM's description.
            let was = read(guest, domain, key)?;
            if was == wanted {
                return Ok(());
            }
            set(guest, key, &wanted)?;
            let is = read(guest, domain, key)?;
            if is == wanted {
                return Ok(());
            }
            Err(Cause::Error(Error::NotTaken {
                domain: domain.clone(),
                key,
                wanted: wanted.clone(),
                is,
            }))
        });
        Ok(done?.is_some())
    }

    /// Does it with the VM, if it runs. What fails because the VM has just ended has not failed.
    fn with<T>(
        &self,
        domain: &Domain,
        what: &str,
        action: impl FnOnce(&Guest<'_>) -> Result<T, Cause>,
    ) -> Result<Option<T>, Error> {
        let refused = |fail: Fail| self.refused(&format!("{domain}, {what}"), fail);
        let Some(guest) = self.find(domain).map_err(refused)? else { return Ok(None) };
        match action(&guest) {
            Ok(done) => Ok(Some(done)),
            Err(_) if self.find(domain).map_err(refused)?.is_none() => Ok(None),
            Err(Cause::Fail(fail)) => Err(refused(fail)),
            Err(Cause::Error(error)) => Err(error),
        }
    }

    fn refused(&self, what: &str, fail: Fail) -> Error {
        let what = what.to_string();
        match self.host.is_alive() {
            true => Error::Refused { what, why: shown(&fail.message) },
            false => Error::Closed { uri: self.uri.clone(), what },
        }
    }

    /// The VM, if it still runs, and has not been started again.
    fn find(&self, domain: &Domain) -> Result<Option<Guest<'_>>, Fail> {
        let Some(uuid) = c_text(&domain.uuid) else { return Ok(None) };
        let guest = self.host.guest(&uuid)?;
        Ok(guest.filter(|guest| guest.id() == Some(domain.id)))
    }
}

/// Why it was not done.
enum Cause {
    Fail(Fail),
    Error(Error),
}

impl From<Fail> for Cause {
    fn from(fail: Fail) -> Self {
        Cause::Fail(fail)
    }
}

/// libvirt's words, in which there are names, on one line.
fn shown(message: &str) -> String {
    Name::new(message).to_string()
}

/// `None` if it has just ended.
fn running(guest: &Guest<'_>) -> Result<Option<Running>, Fail> {
    let Some(id) = guest.id() else { return Ok(None) };
    let domain = Domain { uuid: guest.uuid()?, id };
    let name = Name::new(guest.name()?);
    let (labels, odd) = match guest.xml() {
        Ok(xml) => match labels(&name.to_string(), &xml) {
            Ok(labels) => (labels, None),
            Err(error) => (Vec::new(), Some(error.to_string())),
        },
        Err(fail) => (Vec::new(), Some(shown(&fail.message))),
    };
    Ok(Some(Running { domain, name, labels, odd }))
}

/// The value, as [`Key::canonical`] has it.
fn read(guest: &Guest<'_>, domain: &Domain, key: Key) -> Result<String, Cause> {
    let none = |why: String| Err(Cause::Error(Error::NoSuch { domain: domain.clone(), key, why }));
    let text = match key {
        // libvirt says something, takes another value, and says the same as before.
        Key::Period(Part::IoThread) | Key::Quota(Part::IoThread)
            if guest.iothread_pins()?.is_empty() =>
        {
            return none("it has no I/O threads".to_string());
        }
        Key::CpuShares | Key::Period(_) | Key::Quota(_) => {
            let parameters = guest.parameters()?;
            let name = key.to_string();
            match parameters.iter().find(|(found, _)| *found == name) {
                Some((_, number)) => plain(*number),
                None => {
                    let names: Vec<&str> =
                        parameters.iter().map(|(name, _)| name.as_str()).collect();
                    return none(format!("libvirt's driver has {}", or_nothing(&names.join(", "))));
                }
            }
        }
        Key::Pin(Thread::Vcpu(n)) => match guest.vcpu_pins(n)?.get(n as usize) {
            Some(cpus) => list(cpus),
            None => return none("it has fewer vCPUs".to_string()),
        },
        Key::Pin(Thread::Emulator) => list(&guest.emulator_pin()?),
        Key::Pin(Thread::IoThread(n)) => {
            let pins = guest.iothread_pins()?;
            match pins.iter().find(|(id, _)| *id == n) {
                Some((_, cpus)) => list(cpus),
                None => {
                    let ids: Vec<String> = pins.iter().map(|(id, _)| id.to_string()).collect();
                    return none(format!("its I/O threads are {}", or_nothing(&ids.join(", "))));
                }
            }
        }
    };
    key.canonical(&text).or_else(|why| none(format!("libvirt says what is no value: {why}")))
}

fn set(guest: &Guest<'_>, key: Key, value: &str) -> Result<(), Cause> {
    let wrong = |why: &dyn Display| Cause::Error(Error::Value(format!("{key} {value}: {why}")));
    match key {
        // libvirt takes quotas with a sign and all else without, and nothing else.
        Key::Quota(_) => {
            let us = value.parse().map_err(|error| wrong(&error))?;
            guest.set_parameter(&key.to_string(), Number::LLong(us))?;
        }
        Key::CpuShares | Key::Period(_) => {
            let number = value.parse().map_err(|error| wrong(&error))?;
            guest.set_parameter(&key.to_string(), Number::ULLong(number))?;
        }
        Key::Pin(thread) => {
            let cpus = Cpus::parse(value).map_err(|error| wrong(&error))?;
            let cpus: Vec<u16> = cpus.iter().collect();
            match thread {
                Thread::Vcpu(n) => guest.pin_vcpu(n, &cpus)?,
                Thread::Emulator => guest.pin_emulator(&cpus)?,
                Thread::IoThread(n) => guest.pin_iothread(n, &cpus)?,
            }
        }
    }
    Ok(())
}

fn plain(number: Number) -> String {
    match number {
        Number::Int(n) => n.to_string(),
        Number::UInt(n) => n.to_string(),
        Number::LLong(n) => n.to_string(),
        Number::ULLong(n) => n.to_string(),
    }
}

/// CPUs as text, for [`Key::canonical`].
fn list(cpus: &[u16]) -> String {
    cpus.iter().map(u16::to_string).collect::<Vec<_>>().join(",")
}

fn or_nothing(names: &str) -> &str {
    if names.is_empty() { "none" } else { names }
}
