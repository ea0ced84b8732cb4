//! libvirt's C library: the few functions that are needed, each made safe.
//!
//! Names, arguments and numbers are those of libvirt's public headers, `libvirt-common.h`, `libvirt-host.h`,
//! `libvirt-domain.h` and `virterror.h`, <https://libvirt.org/html/index.html>. All functions that are used are there
//! since libvirt 1.2.14 (2015), and none may change: the library has been `libvirt.so.0` ever since.

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::ptr;
use std::sync::OnceLock;

use libloading::Library;

mod guest;
mod host;
mod parameter;

pub(super) use guest::Guest;
pub(super) use host::Host;
pub(super) use parameter::Number;
use parameter::TypedParameter;

/// An object of libvirt's that only it looks into: `virConnectPtr`, `virDomainPtr`.
type Object = *mut c_void;

/// What libvirt says when it does not do something.
#[derive(Debug)]
pub(super) struct Fail {
    code: c_int,
    /// Its words. They may hold names that others have chosen.
    pub(super) message: String,
}

/// `virDomainIOThreadInfo`.
#[repr(C)]
struct IoThreadInfo {
    id: c_uint,
    cpumap: *mut u8,
    cpumaplen: c_int,
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

/// A text for libvirt; none if it has a zero in it.
pub(super) fn c_text(text: &str) -> Option<CString> {
    CString::new(text).ok()
}
