//! A connection to a libvirtd, or to the test driver.

use std::ffi::{CStr, c_uint, c_void};
use std::ptr::{self, NonNull};

use super::{Fail, Functions, functions};

/// `VIR_DOMAIN_AFFECT_LIVE`: the VM that runs, not its file.
const LIVE: c_uint = 1;
/// `VIR_DOMAIN_AFFECT_CURRENT`: the VM if it runs, else its file. The test driver knows nothing else.
const CURRENT: c_uint = 0;

/// A connection. It stays in the thread that has made it.
pub(crate) struct Host {
    pub(super) to: NonNull<c_void>,
    pub(super) library: &'static Functions,
    /// CPUs that the host can have.
    pub(super) cpus: usize,
    /// Which of a VM's values are meant.
    pub(super) impact: c_uint,
}

impl Host {
    /// Connects to a libvirtd, or the test driver in this process.
    pub(crate) fn open(uri: &CStr) -> Result<Self, Fail> {
        let library = functions().map_err(|message| Fail { code: 0, message })?;
        // SAFETY: the text ends with a zero, and is only looked at.
        let to = unsafe { (library.connect_open)(uri.as_ptr()) };
        let to = NonNull::new(to).ok_or_else(|| library.fail())?;
        let impact = if uri.to_bytes().starts_with(b"test:") { CURRENT } else { LIVE };
        let mut host = Host { to, library, cpus: 0, impact };
        // SAFETY: of a connection; neither the map nor the number of those that are on is asked for.
        let cpus = unsafe { (library.node_cpus)(to.as_ptr(), ptr::null_mut(), ptr::null_mut(), 0) };
        host.cpus = library.count(cpus)?;
        Ok(host)
    }

    /// Whether the other side is there.
    pub(crate) fn is_alive(&self) -> bool {
        // SAFETY: of a connection. It is 0 if it is not, -1 if that cannot be said.
        unsafe { (self.library.connect_alive)(self.to.as_ptr()) == 1 }
    }

    /// Bytes of a set of CPUs: `VIR_CPU_MAPLEN`.
    pub(super) fn cpumap(&self) -> Vec<u8> {
        vec![0; self.cpus.div_ceil(8)]
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // SAFETY: the connection is ours, and no VM of it is left: they borrow it.
        unsafe { (self.library.connect_close)(self.to.as_ptr()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::libvirt::library::{Number, load};

    /// The test driver's own VM (libvirt's `test_driver.c`): it is called `test`, runs as number 1, and has a weight
    /// that is an unsigned number. It cannot be read: the driver refuses a flag that libvirt itself adds.
    #[test]
    fn the_test_drivers_vm() {
        if load().is_err() && std::env::var_os("CI").is_none() {
            eprintln!("skipped: no libvirt");
            return;
        }
        let host = Host::open(c"test:///default").unwrap_or_else(|fail| panic!("{}", fail.message));
        let running = host.running().unwrap_or_else(|fail| panic!("{}", fail.message));
        let [test] = running.as_slice() else { panic!("{} VMs", running.len()) };
        let said = |fail: Fail| -> String { panic!("{}", fail.message) };
        assert_eq!((test.name().unwrap_or_else(said).as_str(), test.id()), ("test", Some(1)));
        let right = test.set_parameter("weight", Number::UInt(70));
        right.unwrap_or_else(|fail| panic!("{}", fail.message));
        let wrong = test.set_parameter("weight", Number::ULLong(70));
        let wrong = wrong.expect_err("another type");
        assert!(wrong.message.contains("weight"), "{}", wrong.message);
    }
}
