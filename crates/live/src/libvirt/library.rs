//! libvirt's C library: the few functions that are needed, each made safe.
//!
//! Names, arguments and numbers are those of libvirt's public headers, `libvirt-common.h`, `libvirt-host.h`,
//! `libvirt-domain.h` and `virterror.h`, <https://libvirt.org/html/index.html>. All functions that are used are there
//! since libvirt 1.2.14 (2015), and none may change: the library has been `libvirt.so.0` ever since.

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::ptr::{self, NonNull};
use std::sync::OnceLock;

use libloading::Library;

/// `VIR_DOMAIN_AFFECT_LIVE`: the machine that runs, not its file.
const LIVE: c_uint = 1;
/// `VIR_DOMAIN_AFFECT_CURRENT`: the machine if it runs, else its file. The test driver knows nothing else.
const CURRENT: c_uint = 0;
/// `VIR_CONNECT_LIST_DOMAINS_ACTIVE`.
const ACTIVE: c_uint = 1;
/// `VIR_UUID_STRING_BUFLEN`.
const UUID_BYTES: usize = 37;
/// `VIR_TYPED_PARAM_FIELD_LENGTH`.
const NAME_BYTES: usize = 80;
/// `VIR_ERR_NO_DOMAIN`.
const NO_DOMAIN: c_int = 42;

/// An object of libvirt's that only it looks into: `virConnectPtr`, `virDomainPtr`.
type Object = *mut c_void;

/// What libvirt says when it does not do something.
#[derive(Debug)]
pub(super) struct Fail {
    code: c_int,
    /// Its words. They may hold names that others have chosen.
    pub(super) message: String,
}

/// `virTypedParameter`. The value is a union of at most eight bytes at the place of a `long long`.
#[repr(C)]
#[derive(Clone, Copy)]
struct TypedParameter {
    field: [c_char; NAME_BYTES],
    kind: c_int,
    value: u64,
}

/// `virDomainIOThreadInfo`.
#[repr(C)]
struct IoThreadInfo {
    id: c_uint,
    cpumap: *mut u8,
    cpumaplen: c_int,
}

/// A number with its type, as libvirt asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Number {
    Int(i32),
    UInt(u32),
    LLong(i64),
    ULLong(u64),
}

macro_rules! functions {
    ($($name:ident = $symbol:literal ($($arg:ty),*) $(-> $ret:ty)?;)*) => {
        /// Addresses of functions in the library, which stays loaded to the end: libvirt has no way to be unloaded.
        struct Functions { $($name: unsafe extern "C" fn($($arg),*) $(-> $ret)?,)* }

        impl Functions {
            fn of(library: &Library) -> Result<Self, libloading::Error> {
                // SAFETY: each symbol is a function of libvirt's with the type that its header gives it.
                Ok(Functions { $($name: *unsafe { library.get($symbol) }?,)* })
            }
        }
    };
}

functions! {
    set_error_func = b"virSetErrorFunc\0" (*mut c_void, extern "C" fn(*mut c_void, *mut c_void));
    last_error_code = b"virGetLastErrorCode\0" () -> c_int;
    last_error_message = b"virGetLastErrorMessage\0" () -> *const c_char;
    connect_open = b"virConnectOpen\0" (*const c_char) -> Object;
    connect_close = b"virConnectClose\0" (Object) -> c_int;
    connect_alive = b"virConnectIsAlive\0" (Object) -> c_int;
    node_cpus = b"virNodeGetCPUMap\0" (Object, *mut *mut u8, *mut c_uint, c_uint) -> c_int;
    list_domains = b"virConnectListAllDomains\0" (Object, *mut *mut Object, c_uint) -> c_int;
    lookup_uuid = b"virDomainLookupByUUIDString\0" (Object, *const c_char) -> Object;
    domain_free = b"virDomainFree\0" (Object) -> c_int;
    domain_name = b"virDomainGetName\0" (Object) -> *const c_char;
    domain_uuid = b"virDomainGetUUIDString\0" (Object, *mut c_char) -> c_int;
    domain_id = b"virDomainGetID\0" (Object) -> c_uint;
    domain_xml = b"virDomainGetXMLDesc\0" (Object, c_uint) -> *mut c_char;
    scheduler_type = b"virDomainGetSchedulerType\0" (Object, *mut c_int) -> *mut c_char;
    scheduler_get = b"virDomainGetSchedulerParametersFlags\0" (Object, *mut TypedParameter, *mut c_int, c_uint) -> c_int;
    scheduler_set = b"virDomainSetSchedulerParametersFlags\0" (Object, *mut TypedParameter, c_int, c_uint) -> c_int;
    parameters_clear = b"virTypedParamsClear\0" (*mut TypedParameter, c_int);
    vcpu_pins = b"virDomainGetVcpuPinInfo\0" (Object, c_int, *mut u8, c_int, c_uint) -> c_int;
    vcpu_pin = b"virDomainPinVcpuFlags\0" (Object, c_uint, *mut u8, c_int, c_uint) -> c_int;
    emulator_get = b"virDomainGetEmulatorPinInfo\0" (Object, *mut u8, c_int, c_uint) -> c_int;
    emulator_pin = b"virDomainPinEmulator\0" (Object, *mut u8, c_int, c_uint) -> c_int;
    iothreads = b"virDomainGetIOThreadInfo\0" (Object, *mut *mut *mut IoThreadInfo, c_uint) -> c_int;
    iothread_free = b"virDomainIOThreadInfoFree\0" (*mut IoThreadInfo);
    iothread_pin = b"virDomainPinIOThread\0" (Object, c_uint, *mut u8, c_int, c_uint) -> c_int;
}

/// By default libvirt prints its errors; they are in what the functions here give.
extern "C" fn quiet(_data: *mut c_void, _error: *mut c_void) {}

/// The library, loaded when it is first asked for.
fn functions() -> Result<&'static Functions, String> {
    static LOADED: OnceLock<Result<Functions, String>> = OnceLock::new();
    let loaded = LOADED.get_or_init(|| {
        // SAFETY: what libvirt does when it is loaded harms nobody; it is found where the linker finds libraries.
        let library = unsafe { Library::new("libvirt.so.0") }.map_err(|error| error.to_string())?;
        let functions = Functions::of(&library).map_err(|error| error.to_string())?;
        std::mem::forget(library);
        // SAFETY: `quiet` has the type `virErrorFunc`.
        unsafe { (functions.set_error_func)(ptr::null_mut(), quiet) };
        Ok(functions)
    });
    loaded.as_ref().map_err(String::clone)
}

impl Functions {
    /// What this thread was told last.
    fn fail(&self) -> Fail {
        // SAFETY: both look at this thread's last error; the text is there until the next call, and copied before.
        let (code, message) =
            unsafe { ((self.last_error_code)(), text((self.last_error_message)())) };
        Fail { code, message: message.unwrap_or_else(|| "it does not say why".to_string()) }
    }

    /// A number of things that is negative when it was not done.
    fn count(&self, result: c_int) -> Result<usize, Fail> {
        usize::try_from(result).map_err(|_| self.fail())
    }
}

/// A copy of a text, if it is one.
///
/// # Safety
/// It is null or ends with a zero.
unsafe fn text(at: *const c_char) -> Option<String> {
    // SAFETY: as the caller says.
    (!at.is_null()).then(|| unsafe { CStr::from_ptr(at) }.to_string_lossy().into_owned())
}

/// A copy of a text that the caller of libvirt has to free.
///
/// # Safety
/// It is null or ends with a zero, and nobody else frees it.
unsafe fn owned_text(at: *mut c_char) -> Option<String> {
    // SAFETY: as the caller says; libvirt's texts are freed by free(3).
    unsafe {
        let copy = text(at);
        libc::free(at.cast());
        copy
    }
}

/// Loads the library.
pub(super) fn load() -> Result<(), String> {
    functions().map(|_| ())
}

/// A connection. It stays in the thread that has made it.
pub(super) struct Host {
    to: NonNull<c_void>,
    library: &'static Functions,
    /// CPUs that the host can have.
    cpus: usize,
    /// Which of a machine's values are meant.
    impact: c_uint,
}

impl Host {
    /// Connects to a libvirtd, or the test driver in this process.
    pub(super) fn open(uri: &CStr) -> Result<Self, Fail> {
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
    pub(super) fn is_alive(&self) -> bool {
        // SAFETY: of a connection. It is 0 if it is not, -1 if that cannot be said.
        unsafe { (self.library.connect_alive)(self.to.as_ptr()) == 1 }
    }

    /// Bytes of a set of CPUs: `VIR_CPU_MAPLEN`.
    fn cpumap(&self) -> Vec<u8> {
        vec![0; self.cpus.div_ceil(8)]
    }

    /// The machines that run.
    pub(super) fn running(&self) -> Result<Vec<Guest<'_>>, Fail> {
        let mut list: *mut Object = ptr::null_mut();
        // SAFETY: libvirt puts the address of a list there, which has as many machines as it says, and a null.
        let found = unsafe { (self.library.list_domains)(self.to.as_ptr(), &raw mut list, ACTIVE) };
        let found = self.library.count(found)?;
        // SAFETY: as above; each machine is ours to free, and so is the list.
        let guests = unsafe {
            let all = (0..found).filter_map(|i| NonNull::new(*list.add(i)));
            let guests = all.map(|at| Guest { at, host: self }).collect();
            libc::free(list.cast());
            guests
        };
        Ok(guests)
    }

    /// The machine of this number, running or not, if there is one.
    pub(super) fn guest(&self, uuid: &CStr) -> Result<Option<Guest<'_>>, Fail> {
        // SAFETY: of a connection; the text ends with a zero.
        let at = unsafe { (self.library.lookup_uuid)(self.to.as_ptr(), uuid.as_ptr()) };
        match NonNull::new(at) {
            Some(at) => Ok(Some(Guest { at, host: self })),
            None => match self.library.fail() {
                Fail { code: NO_DOMAIN, .. } => Ok(None),
                fail => Err(fail),
            },
        }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // SAFETY: the connection is ours, and no machine of it is left: they borrow it.
        unsafe { (self.library.connect_close)(self.to.as_ptr()) };
    }
}

/// A machine of a connection.
pub(super) struct Guest<'a> {
    at: NonNull<c_void>,
    host: &'a Host,
}

impl Drop for Guest<'_> {
    fn drop(&mut self) {
        // SAFETY: this reference is ours.
        unsafe { (self.host.library.domain_free)(self.at.as_ptr()) };
    }
}

// In all of the following `at` is a machine of a connection that is open, as long as `self` lives.
impl Guest<'_> {
    fn library(&self) -> &'static Functions {
        self.host.library
    }

    fn done(&self, result: c_int) -> Result<(), Fail> {
        self.library().count(result).map(|_| ())
    }

    /// Its name.
    pub(super) fn name(&self) -> Result<String, Fail> {
        // SAFETY: the text belongs to the machine, and is copied.
        unsafe { text((self.library().domain_name)(self.at.as_ptr())) }
            .ok_or_else(|| self.library().fail())
    }

    /// Its number for ever.
    pub(super) fn uuid(&self) -> Result<String, Fail> {
        let mut bytes: [c_char; UUID_BYTES] = [0; UUID_BYTES];
        // SAFETY: libvirt writes this many bytes, the last of them a zero.
        unsafe {
            self.done((self.library().domain_uuid)(self.at.as_ptr(), bytes.as_mut_ptr()))?;
            Ok(text(bytes.as_ptr()).unwrap_or_default())
        }
    }

    /// Its number while it runs, as it was when libvirt was asked for the machine.
    pub(super) fn id(&self) -> Option<u32> {
        // SAFETY: of a machine. What does not run has -1.
        let id = unsafe { (self.library().domain_id)(self.at.as_ptr()) };
        (id != c_uint::MAX).then_some(id)
    }

    /// Its description, of the machine as it runs.
    pub(super) fn xml(&self) -> Result<String, Fail> {
        // SAFETY: the text is ours to free.
        unsafe { owned_text((self.library().domain_xml)(self.at.as_ptr(), 0)) }
            .ok_or_else(|| self.library().fail())
    }

    /// Scheduler parameters that are numbers, by name.
    pub(super) fn parameters(&self) -> Result<Vec<(String, Number)>, Fail> {
        let mut most: c_int = 0;
        // SAFETY: the number goes to a place of our own; the scheduler's name is ours to free.
        let name =
            unsafe { owned_text((self.library().scheduler_type)(self.at.as_ptr(), &raw mut most)) };
        name.ok_or_else(|| self.library().fail())?;
        let empty = TypedParameter { field: [0; NAME_BYTES], kind: 0, value: 0 };
        let mut raw = vec![empty; self.library().count(most)?];
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
    pub(super) fn set_parameter(&self, name: &str, number: Number) -> Result<(), Fail> {
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
    pub(super) fn vcpu_pins(&self, last: u32) -> Result<Vec<Vec<u16>>, Fail> {
        let one = self.host.cpumap();
        // No machine has more vCPUs than CPUs that libvirt counts.
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
    pub(super) fn emulator_pin(&self) -> Result<Vec<u16>, Fail> {
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
    pub(super) fn iothread_pins(&self) -> Result<Vec<(u32, Vec<u16>)>, Fail> {
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
    pub(super) fn pin_vcpu(&self, vcpu: u32, cpus: &[u16]) -> Result<(), Fail> {
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
    pub(super) fn pin_emulator(&self, cpus: &[u16]) -> Result<(), Fail> {
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
    pub(super) fn pin_iothread(&self, id: u32, cpus: &[u16]) -> Result<(), Fail> {
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

impl TypedParameter {
    fn new(name: &str, number: Number) -> Self {
        let mut field = [0; NAME_BYTES];
        // The last byte stays a zero.
        for (to, from) in field[..NAME_BYTES - 1].iter_mut().zip(name.bytes()) {
            *to = from as c_char;
        }
        // `virTypedParameterType`. A shorter number is at the beginning of the union.
        let low = |bytes: [u8; 4]| {
            let mut all = [0; 8];
            all[..4].copy_from_slice(&bytes);
            u64::from_ne_bytes(all)
        };
        let (kind, value) = match number {
            Number::Int(n) => (1, low(n.to_ne_bytes())),
            Number::UInt(n) => (2, low(n.to_ne_bytes())),
            Number::LLong(n) => (3, u64::from_ne_bytes(n.to_ne_bytes())),
            Number::ULLong(n) => (4, n),
        };
        TypedParameter { field, kind, value }
    }

    /// Name and number, if it is a number.
    fn named(&self) -> Option<(String, Number)> {
        let [a, b, c, d, ..] = self.value.to_ne_bytes();
        let number = match self.kind {
            1 => Number::Int(i32::from_ne_bytes([a, b, c, d])),
            2 => Number::UInt(u32::from_ne_bytes([a, b, c, d])),
            3 => Number::LLong(i64::from_ne_bytes(self.value.to_ne_bytes())),
            4 => Number::ULLong(self.value),
            _ => return None,
        };
        let name: Vec<u8> = self.field.iter().map(|&c| c as u8).take_while(|&c| c != 0).collect();
        Some((String::from_utf8_lossy(&name).into_owned(), number))
    }
}

/// A text for libvirt; none if it has a zero in it.
pub(super) fn c_text(text: &str) -> Option<CString> {
    CString::new(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `virTypedParameter` of `libvirt-common.h`: 80 characters, an `int`, a union with a `long long`.
    #[test]
    fn parameters_are_laid_out_as_in_c() {
        assert_eq!(std::mem::offset_of!(TypedParameter, kind), 80);
        assert_eq!(
            std::mem::offset_of!(TypedParameter, value),
            84_usize.next_multiple_of(align_of::<u64>())
        );
        for number in
            [Number::Int(-7), Number::UInt(u32::MAX), Number::LLong(-1), Number::ULLong(u64::MAX)]
        {
            assert_eq!(TypedParameter::new("a", number).named(), Some(("a".to_string(), number)));
        }
        let long = "x".repeat(100);
        let (name, _) = TypedParameter::new(&long, Number::Int(0)).named().expect("a number");
        assert_eq!(name.len(), NAME_BYTES - 1);
        assert_eq!(
            TypedParameter { kind: 7, ..TypedParameter::new("s", Number::Int(0)) }.named(),
            None
        );
    }

    /// The test driver's own machine (libvirt's `test_driver.c`): it is called `test`, runs as number 1, and has a weight
    /// that is an unsigned number. It cannot be read: the driver refuses a flag that libvirt itself adds.
    #[test]
    fn the_test_drivers_machine() {
        if load().is_err() && std::env::var_os("CI").is_none() {
            eprintln!("skipped: no libvirt");
            return;
        }
        let host = Host::open(c"test:///default").unwrap_or_else(|fail| panic!("{}", fail.message));
        let running = host.running().unwrap_or_else(|fail| panic!("{}", fail.message));
        let [test] = running.as_slice() else { panic!("{} machines", running.len()) };
        let said = |fail: Fail| -> String { panic!("{}", fail.message) };
        assert_eq!((test.name().unwrap_or_else(said).as_str(), test.id()), ("test", Some(1)));
        let right = test.set_parameter("weight", Number::UInt(70));
        right.unwrap_or_else(|fail| panic!("{}", fail.message));
        let wrong = test.set_parameter("weight", Number::ULLong(70));
        let wrong = wrong.expect_err("another type");
        assert!(wrong.message.contains("weight"), "{}", wrong.message);
    }
}
