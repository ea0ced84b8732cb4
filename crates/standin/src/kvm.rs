//! A real VM of KVM's, with vCPUs that halt: what a kernel says of one is tested against a kernel.

use std::io;
use std::sync::mpsc::channel;
use std::thread;

use kvm_bindings::kvm_userspace_memory_region;
use kvm_ioctls::{Kvm, VcpuFd, VmFd};
use nix::unistd::gettid;

/// Where the vCPUs begin, within the machine.
const BEGIN: usize = 0x1000;
/// A page, of which the VM has two.
const PAGE: usize = 4096;
/// `hlt`, and back to it.
const CODE: [u8; 3] = [0xf4, 0xeb, 0xfd];

/// A VM, as long as this process lives.
pub(crate) struct Vm {
    _vm: VmFd,
    /// The threads that run its vCPUs, with their names, which say nothing of that.
    pub(crate) threads: Vec<(u32, String)>,
}

/// Starts one with so many vCPUs.
pub(crate) fn start(vcpus: u16) -> io::Result<Vm> {
    let vm = Kvm::new()?.create_vm()?;
    // With interrupts in the kernel a vCPU that halts waits there.
    vm.create_irq_chip()?;
    give_memory(&vm)?;
    let mut threads = Vec::new();
    for number in 0..vcpus {
        let vcpu = vm.create_vcpu(number.into())?;
        prepare(&vcpu)?;
        let name = format!("runner-{number}");
        let (tell, tid) = channel();
        let body = move || {
            let _ = tell.send(gettid().as_raw() as u32);
            run(vcpu);
        };
        thread::Builder::new().name(name.clone()).spawn(body)?;
        threads.push((tid.recv().map_err(io::Error::other)?, name));
    }
    Ok(Vm { _vm: vm, threads })
}

/// Two pages at the beginning, with the code in the second one. They are the VM's until this process ends.
#[allow(unsafe_code, reason = "the machine is given memory of this process")]
fn give_memory(vm: &VmFd) -> io::Result<()> {
    let room: &'static mut [u8] = Box::leak(vec![0; 3 * PAGE].into_boxed_slice());
    let first = room.as_ptr().align_offset(PAGE);
    let pages = &mut room[first..first + 2 * PAGE];
    pages[BEGIN..BEGIN + CODE.len()].copy_from_slice(&CODE);
    let region = kvm_userspace_memory_region {
        slot: 0,
        flags: 0,
        guest_phys_addr: 0,
        memory_size: 2 * PAGE as u64,
        userspace_addr: pages.as_mut_ptr() as u64,
    };
    // SAFETY: the pages are nobody else's, and are never freed.
    Ok(unsafe { vm.set_user_memory_region(region) }?)
}

/// Real mode, from the code on. All vCPUs run: they wait for no other to start them.
fn prepare(vcpu: &VcpuFd) -> io::Result<()> {
    let mut sregs = vcpu.get_sregs()?;
    (sregs.cs.base, sregs.cs.selector) = (0, 0);
    vcpu.set_sregs(&sregs)?;
    let mut regs = vcpu.get_regs()?;
    (regs.rip, regs.rflags) = (BEGIN as u64, 2);
    vcpu.set_regs(&regs)?;
    let mut state = vcpu.get_mp_state()?;
    state.mp_state = kvm_bindings::KVM_MP_STATE_RUNNABLE;
    Ok(vcpu.set_mp_state(state)?)
}

/// Runs it until something ends it but a signal.
fn run(mut vcpu: VcpuFd) {
    loop {
        match vcpu.run() {
            Ok(_) => {}
            Err(error) if error.errno() == libc::EINTR || error.errno() == libc::EAGAIN => {}
            Err(_) => return,
        }
    }
}
