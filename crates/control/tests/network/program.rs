//! The tagger with a clock of the test's: `bpf/flow_many.bpf.c`, compiled, loaded and run by the kernel on packets
//! that nobody sends.

use std::path::PathBuf;
use std::process::Command;

use libbpf_rs::{MapCore, MapFlags, Object, ObjectBuilder, ProgramInput};
use lowtail_control::flow::{Counts, KEEP};
use lowtail_kernel::marks::Mask;
use lowtail_policy::{FlowParams, FlowRule, FlowSeed};

pub(crate) const SETS: u32 = 64;
pub(crate) const VMS: u32 = 64;
/// The uplink of a run is the namespace's `lo`, which is number 1 in each.
const LO: u32 = 1;
/// Where `struct __sk_buff` has the mark and the priority, and how long it is.
const MARK_AT: usize = 8;
const PRIORITY_AT: usize = 32;
const CONTEXT: usize = 192;

/// The loaded programs.
pub(crate) struct Kernel(Object);

/// The variables of the test: as in `bpf/flow_many.bpf.c`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Test {
    pub(crate) state: u64,
    pub(crate) now: u64,
    pub(crate) digest: u64,
    pub(crate) source_at: u32,
    pub(crate) header_at: u32,
    pub(crate) words: [u64; 2],
    pub(crate) vms: u32,
}

/// The bytes of a value made of numbers.
#[allow(unsafe_code, reason = "the layouts are C's")]
pub(crate) fn bytes<T: Copy>(value: &T) -> &[u8] {
    // SAFETY: any T is size_of::<T>() bytes; those used here have no implicit padding.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast(), size_of::<T>()) }
}

/// `struct uplink` of `bpf/flow.bpf.c`: the first classes of its bands are 100 and so on, with so many classes for VMs in each, 16 from one to
/// the next.
fn uplink(dscp: [u8; 5], vm_classes: u32) -> Vec<u8> {
    let step = if vm_classes == 1 { 1 } else { 16 * vm_classes };
    let numbers: [u32; 5] = std::array::from_fn(|band| 100 + band as u32 * step);
    [bytes(&numbers), bytes(&[vm_classes, 16]), &dscp[..], &[0; 3]].concat()
}

impl Kernel {
    /// With empty tables, these parameters and this seed. Bands have priorities 100 to 104.
    pub(crate) fn load(params: &FlowParams, seed: u64, dscp: [u8; 5]) -> Self {
        Self::load_marked(params, seed, dscp, Mask::UPPER)
    }

    /// The same, with VMs noted in these bits of marks.
    pub(crate) fn load_marked(params: &FlowParams, seed: u64, dscp: [u8; 5], marks: Mask) -> Self {
        let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
        let dir = tempfile::tempdir().expect("a directory");
        let output = dir.path().join("flow_many.o");
        let headers = format!("-I/usr/include/{}-linux-gnu", std::env::consts::ARCH);
        let compiled = Command::new("clang-16")
            .args(["-O2", "-g", "-Wall", "-target", "bpf", "-mcpu=v3", &headers, "-I"])
            .arg(root.join("policy"))
            .arg("-c")
            .arg(root.join("bpf/flow_many.bpf.c"))
            .arg("-o")
            .arg(&output)
            .status();
        assert!(compiled.expect("clang-16 is there").success());
        let mut open = ObjectBuilder::default().open_file(&output).expect("an object");
        for mut map in open.maps_mut() {
            let size = match map.name().to_str() {
                Some("sets") => SETS,
                Some("vms") => VMS,
                _ => continue,
            };
            map.set_max_entries(size).expect("it is not loaded yet");
        }
        let kernel = Kernel(open.load().expect("root may"));
        let rule: FlowRule = params.rule().expect("in range");
        let seed = FlowSeed::new(seed);
        let [a, b, c, d, e] = marks.steps();
        let numbers = [SETS - 1, marks.0, a, b, c, d, e, 0];
        let shared = [bytes(&rule), bytes(&seed), bytes(params), bytes(&numbers)].concat();
        kernel.put(".bss", 0, &shared);
        kernel.put("uplinks", LO, &uplink(dscp, 1));
        kernel
    }

    fn map(&self, end: &str) -> libbpf_rs::Map<'_> {
        let mut maps = self.0.maps();
        maps.find(|map| map.name().to_string_lossy().ends_with(end)).expect("there is such a map")
    }

    pub(crate) fn put(&self, map: &str, key: u32, value: &[u8]) {
        self.map(map).update(&key.to_ne_bytes(), value, MapFlags::ANY).expect("it is written");
    }

    pub(crate) fn get(&self, map: &str, key: u32) -> Vec<u8> {
        let value = self.map(map).lookup(&key.to_ne_bytes(), MapFlags::ANY);
        value.expect("it is read").expect("there is one")
    }

    pub(crate) fn set_test(&self, test: &Test) {
        let t = test;
        let places = u64::from(t.header_at) << 32 | u64::from(t.source_at);
        let all = [t.state, t.now, t.digest, places, t.words[0], t.words[1], t.vms.into()];
        self.put(".data.test", 0, bytes(&all));
    }

    /// What `tag` takes for the time, ns.
    pub(crate) fn set_clock(&self, now: u64) {
        let all = [0, now, 0, 0, 0, 0, 1];
        self.put(".data.test", 0, bytes::<[u64; 7]>(&all));
    }

    /// Clock and digest after a run.
    pub(crate) fn test(&self) -> (u64, u64) {
        let bytes = self.get(".data.test", 0);
        let word = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight"));
        (word(8), word(16))
    }

    /// What was counted, summed over CPUs, as numbers: packets, bytes of each band, and the rest.
    pub(crate) fn counts(&self) -> [u64; 16] {
        let each = self.map("counts").lookup_percpu(&0u32.to_ne_bytes(), MapFlags::ANY);
        let mut sum = [0; 16];
        for cpu in each.expect("it is read").expect("there is one") {
            for (n, word) in cpu.as_chunks::<8>().0.iter().enumerate() {
                sum[n] += u64::from_ne_bytes(*word);
            }
        }
        sum
    }

    /// Runs a program so often on one packet; the mean time of a run, ns.
    pub(crate) fn repeat(&self, program: &str, packet: &[u8], repeat: u32) -> u128 {
        let input = ProgramInput { repeat, data_in: Some(packet), ..ProgramInput::default() };
        let mut programs = self.0.progs_mut();
        let program = programs.find(|own| own.name() == program).expect("there is such a program");
        program.test_run(input).expect("it runs").duration.as_nanos()
    }

    /// Sends one packet through `tag`: what that returned, the packet after it, its priority.
    pub(crate) fn send(&self, packet: &[u8]) -> (i32, Vec<u8>, u32) {
        let (returned, packet, priority, _) = self.send_marked(packet, 0);
        (returned, packet, priority)
    }

    /// The same for a packet with a mark, and its mark after it.
    pub(crate) fn send_marked(&self, packet: &[u8], mark: u32) -> (i32, Vec<u8>, u32, u32) {
        let (mut given, mut after) = ([0; CONTEXT], [0; CONTEXT]);
        given[PRIORITY_AT..PRIORITY_AT + 4].copy_from_slice(&7u32.to_ne_bytes());
        given[MARK_AT..MARK_AT + 4].copy_from_slice(&mark.to_ne_bytes());
        let mut data = vec![0; packet.len() + 64];
        let input = ProgramInput {
            data_in: Some(packet),
            data_out: Some(&mut data),
            context_in: Some(&mut given),
            context_out: Some(&mut after),
            ..ProgramInput::default()
        };
        let mut programs = self.0.progs_mut();
        let tag = programs.find(|own| own.name() == "tag").expect("there is such a program");
        let output = tag.test_run(input).expect("it runs");
        let returned = output.return_value as i32;
        let packet = output.data.expect("the packet comes back").to_vec();
        let word =
            |at: usize| u32::from_ne_bytes(after[at..at + 4].try_into().expect("four bytes"));
        (returned, packet, word(PRIORITY_AT), word(MARK_AT))
    }

    /// Makes it no uplink, and the tap of a VM or of nobody; or an uplink again.
    pub(crate) fn become_tap(&self, machine: Option<u32>) {
        // One of them is not there.
        let _ = self.map("uplinks").delete(&LO.to_ne_bytes());
        let _ = self.map("owners").delete(&LO.to_ne_bytes());
        if let Some(machine) = machine {
            self.put("owners", LO, &machine.to_ne_bytes());
        }
    }

    /// Gives each VM a class of its own in each band, of so many.
    pub(crate) fn set_vm_classes(&self, dscp: [u8; 5], vm_classes: u32) {
        self.put("uplinks", LO, &uplink(dscp, vm_classes));
    }

    /// Makes it an uplink that gives these priorities.
    pub(crate) fn become_uplink(&self) {
        self.become_tap(None);
        self.put("uplinks", LO, &uplink([KEEP; 5], 1));
    }

    /// Makes its uplink the tap of a VM.
    pub(crate) fn make_tap(&self, machine: u32) {
        self.map("uplinks").delete(&LO.to_ne_bytes()).expect("it is one");
        self.put("owners", LO, &machine.to_ne_bytes());
    }
}

/// The layout of `Counts` is what the test takes it for.
const _: () = assert!(size_of::<Counts>() == 16 * 8 && KEEP == 0xff);
