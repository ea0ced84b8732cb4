//! A VM of a connection: its names, its numbers, its CPUs.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr::{self, NonNull};

use super::host::Host;
use super::parameter::{Number, TypedParameter};
use super::{Fail, Functions, IoThreadInfo, Object, owned_text, text};

/// `VIR_UUID_STRING_BUFLEN`.
const UUID_BYTES: usize = 37;

/// `VIR_CONNECT_LIST_DOMAINS_ACTIVE`.
const ACTIVE: c_uint = 1;
/// `VIR_ERR_NO_DOMAIN`.
const NO_DOMAIN: c_int = 42;

impl Host {
    /// The VMs that run.
    pub(crate) fn running(&self) -> Result<Vec<Guest<'_>>, Fail> {
        let mut list: *mut Object = ptr::null_mut();
        // SAFETY: libvirt puts the address of a list there, which has as many VMs as it says, and a null.
        let found = unsafe { (self.library.list_domains)(self.to.as_ptr(), &raw mut list, ACTIVE) };
        let found = self.library.count(found)?;
        // SAFETY: as above; each VM is ours to free, and so is the list.
        let guests = unsafe {
            let all = (0..found).filter_map(|i| NonNull::new(*list.add(i)));
            let guests = all.map(|at| Guest::new(at, self)).collect();
            libc::free(list.cast());
            guests
        };
        Ok(guests)
    }

    /// The VM of this number, running or not, if there is one.
    pub(crate) fn guest(&self, uuid: &CStr) -> Result<Option<Guest<'_>>, Fail> {
        // SAFETY: of a connection; the text ends with a zero.
        let at = unsafe { (self.library.lookup_uuid)(self.to.as_ptr(), uuid.as_ptr()) };
        match NonNull::new(at) {
            // SAFETY: the VM is ours to free.
            Some(at) => Ok(Some(unsafe { Guest::new(at, self) })),
            None => match self.library.fail() {
                Fail { code: NO_DOMAIN, .. } => Ok(None),
                fail => Err(fail),
            },
        }
    }
}

/// A VM of a connection.
pub(crate) struct Guest<'a> {
    at: NonNull<c_void>,
    host: &'a Host,
}

impl Drop for Guest<'_> {
    fn drop(&mut self) {
        // SAFETY: this reference is ours.
        unsafe { (self.host.library.domain_free)(self.at.as_ptr()) };
    }
}

impl<'a> Guest<'a> {
    /// The VM at `at`.
    ///
    /// # Safety
    /// It is one of the connection `host`, a reference that nobody else frees.
    pub(super) unsafe fn new(at: NonNull<c_void>, host: &'a Host) -> Self {
        Guest { at, host }
    }
}

// In all of the following `at` is a VM of a connection that is open, as long as `self` lives.
impl Guest<'_> {
    fn library(&self) -> &'static Functions {
        self.host.library
    }

    fn done(&self, result: c_int) -> Result<(), Fail> {
        self.library().count(result).map(|_| ())
    }

    /// Its name.
    pub(crate) fn name(&self) -> Result<String, Fail> {
        // SAFETY: the text belongs to the VM, and is copied.
        unsafe { text((self.library().domain_name)(self.at.as_ptr())) }
            .ok_or_else(|| self.library().fail())
    }

    /// Its number for ever.
    pub(crate) fn uuid(&self) -> Result<String, Fail> {
        let mut bytes: [c_char; UUID_BYTES] = [0; UUID_BYTES];
        // SAFETY: libvirt writes this many bytes, the last of them a zero.
        unsafe {
            self.done((self.library().domain_uuid)(self.at.as_ptr(), bytes.as_mut_ptr()))?;
            Ok(text(bytes.as_ptr()).unwrap_or_default())
        }
    }

    /// Its number while it runs, as it was when libvirt was asked for the VM.
    pub(crate) fn id(&self) -> Option<u32> {
        // SAFETY: of a VM. What does not run has -1.
        let id = unsafe { (self.library().domain_id)(self.at.as_ptr()) };
        (id != c_uint::MAX).then_some(id)
    }

    /// Its description, of the VM as it runs.
    pub(crate) fn xml(&self) -> Result<String, Fail> {
        // SAFETY: the text is ours to free.
        unsafe { owned_text((self.library().domain_xml)(self.at.as_ptr(), 0)) }
            .ok_or_else(|| self.library().fail())
    }

    /// Scheduler parameters that are numbers, by name.
    pub(crate) fn parameters(&self) -> Result<Vec<(String, Number)>, Fail> {
        let mut most: c_int = 0;
        // SAFETY: the number goes to a place of our own; the scheduler's name is ours to free.
        let name =
            unsafe { owned_text((self.library().scheduler_type)(self.at.as_ptr(), &raw mut most)) };
        name.ok_or_else(|| self.library().fail())?;
        let mut raw = vec![TypedParameter::EMPTY; self.library().count(most)?];
        // SAFETY: libvirt writes at most `most` parameters, as many as there is room for, and how many it were.
        self.done(unsafe {
            let (at, room) = (raw.as_mut_ptr(), &raw mut most);
            (self.library().scheduler_get)(self.at.as_ptr(), at, room, self.host.impact)
        })?;
        raw.truncate(self.library().count(most)?);
        let parameters = raw.iter().filter_map(TypedParameter::named).collect();
        // SAFETY: what libvirt has written there, of which texts are ours to free.
        unsafe { (self.library().parameters_clear)(raw.as_mut_ptr(), raw.len() as c_int) };
        Ok(parameters)
    }

    /// Sets one scheduler parameter.
    pub(crate) fn set_parameter(&self, name: &str, number: Number) -> Result<(), Fail> {
        let mut parameter = TypedParameter::new(name, number);
        // SAFETY: one parameter, which is only looked at.
        self.done(unsafe {
            (self.library().scheduler_set)(
                self.at.as_ptr(),
                &raw mut parameter,
                1,
                self.host.impact,
            )
        })
    }

    /// On which CPUs each of the vCPUs up to `last` may run; fewer if there are fewer.
    pub(crate) fn vcpu_pins(&self, last: u32) -> Result<Vec<Vec<u16>>, Fail> {
        let one = self.host.cpumap();
        // No VM has more vCPUs than CPUs that libvirt counts.
        let vcpus = (last as usize).min(usize::from(lowtail_libvirt::cpus::CPUS_MAX)) + 1;
        let mut maps = vec![0; one.len() * vcpus];
        // SAFETY: there is room for `vcpus` sets of `one.len()` bytes each.
        let found = unsafe {
            let (vcpus, len) = (vcpus as c_int, one.len() as c_int);
            (self.library().vcpu_pins)(
                self.at.as_ptr(),
                vcpus,
                maps.as_mut_ptr(),
                len,
                self.host.impact,
            )
        };
        let found = self.library().count(found)?;
        Ok(maps.chunks(one.len().max(1)).take(found).map(cpus_of).collect())
    }

    /// On which CPUs the emulator's threads may run.
    pub(crate) fn emulator_pin(&self) -> Result<Vec<u16>, Fail> {
        let mut map = self.host.cpumap();
        // SAFETY: there is room for as many bytes as are said.
        let found = unsafe {
            (self.library().emulator_get)(
                self.at.as_ptr(),
                map.as_mut_ptr(),
                map.len() as c_int,
                self.host.impact,
            )
        };
        self.done(found)?;
        Ok(cpus_of(&map))
    }

    /// On which CPUs each I/O thread may run, by its number.
    pub(crate) fn iothread_pins(&self) -> Result<Vec<(u32, Vec<u16>)>, Fail> {
        let mut list: *mut *mut IoThreadInfo = ptr::null_mut();
        // SAFETY: libvirt puts the address of a list there, which has as many entries as it says.
        let found = unsafe {
            (self.library().iothreads)(self.at.as_ptr(), &raw mut list, self.host.impact)
        };
        let found = self.library().count(found)?;
        let mut pins = Vec::with_capacity(found);
        for i in 0..found {
            // SAFETY: as above; an entry has a set of as many bytes as it says, and is ours to free.
            unsafe {
                let entry = *list.add(i);
                let len = usize::try_from((*entry).cpumaplen).unwrap_or_default();
                let map = match (*entry).cpumap {
                    none if none.is_null() => &[],
                    at => std::slice::from_raw_parts(at, len),
                };
                pins.push(((*entry).id, cpus_of(map)));
                (self.library().iothread_free)(entry);
            }
        }
        // SAFETY: the list is ours to free, and null if there is none.
        unsafe { libc::free(list.cast()) };
        Ok(pins)
    }

    /// Puts a vCPU on these CPUs.
    pub(crate) fn pin_vcpu(&self, vcpu: u32, cpus: &[u16]) -> Result<(), Fail> {
        let mut map = self.map_of(cpus)?;
        // SAFETY: the set has as many bytes as are said, and is only looked at.
        self.done(unsafe {
            (self.library().vcpu_pin)(
                self.at.as_ptr(),
                vcpu,
                map.as_mut_ptr(),
                map.len() as c_int,
                self.host.impact,
            )
        })
    }

    /// Puts the emulator's threads on these CPUs.
    pub(crate) fn pin_emulator(&self, cpus: &[u16]) -> Result<(), Fail> {
        let mut map = self.map_of(cpus)?;
        // SAFETY: as above.
        self.done(unsafe {
            (self.library().emulator_pin)(
                self.at.as_ptr(),
                map.as_mut_ptr(),
                map.len() as c_int,
                self.host.impact,
            )
        })
    }

    /// Puts an I/O thread on these CPUs.
    pub(crate) fn pin_iothread(&self, id: u32, cpus: &[u16]) -> Result<(), Fail> {
        let mut map = self.map_of(cpus)?;
        // SAFETY: as above.
        self.done(unsafe {
            (self.library().iothread_pin)(
                self.at.as_ptr(),
                id,
                map.as_mut_ptr(),
                map.len() as c_int,
                self.host.impact,
            )
        })
    }

    /// The set of these CPUs, if the host can have them: libvirt would leave the others out in silence.
    fn map_of(&self, cpus: &[u16]) -> Result<Vec<u8>, Fail> {
        let mut map = self.host.cpumap();
        for &cpu in cpus {
            let cpu = usize::from(cpu);
            if cpu >= self.host.cpus {
                let message = format!(
                    "there is no CPU {cpu}, they are 0 to {}",
                    self.host.cpus.saturating_sub(1)
                );
                return Err(Fail { code: 0, message });
            }
            map[cpu / 8] |= 1 << (cpu % 8);
        }
        Ok(map)
    }
}

/// CPUs of a set: `VIR_CPU_USED`.
fn cpus_of(map: &[u8]) -> Vec<u16> {
    let most = map.len() * 8;
    let cpus = (0..most).filter(|cpu| map[cpu / 8] & (1 << (cpu % 8)) != 0);
    cpus.filter_map(|cpu| u16::try_from(cpu).ok()).collect()
}
