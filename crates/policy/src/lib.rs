//! The rule, *small first at every queue*, as Rust sees it.
//!
//! The rule itself is C: `policy/bucket.h`, `policy/vcpu.h`, `policy/vif.h` and `policy/flow.h` say
//! what each function means, in which units and ranges. Here are its structs, with the same layout,
//! and its functions as methods; and [`FlowTable`], which owns what flows need. All times and
//! amounts are nanoseconds, but for packets, which are bytes.

mod bucket;
mod cap;
mod flow;
mod flow_table;
mod params;
mod vcpu;
mod vif;

pub use bucket::{Bucket, NEVER, RATE_MAX, RATE_ONE};
pub use cap::Cap;
pub use flow::{
    FLOW_BANDS, FLOW_VM_MAX, FlowParams, FlowRule, FlowSeed, FlowSet, FlowVm, flow_index,
    flow_ports, part_of_line, vm_burst_ns,
};
pub use flow_table::{FlowTable, Verdict};
pub use params::{Params, WAIT_MAX_NS};
pub use vcpu::{Class, LtPcpu, LtVcpu, LtVm, entitled, share_at};
pub use vif::{VIF_BURST_NS, VIF_RATE, Vif};

#[cfg(test)]
mod tests {
    use super::*;

    unsafe extern "C" {
        fn lowtail_sizes(sizes: *mut u32);
    }

    #[test]
    fn structs_have_the_sizes_of_c() {
        let mut sizes = [0u32; 12];
        // SAFETY: C writes twelve numbers.
        unsafe { lowtail_sizes(sizes.as_mut_ptr()) };
        let ours = [
            size_of::<Bucket>(),
            size_of::<Params>(),
            size_of::<LtPcpu>(),
            size_of::<LtVm>(),
            size_of::<LtVcpu>(),
            size_of::<Vif>(),
            size_of::<FlowParams>(),
            size_of::<FlowRule>(),
            size_of::<FlowSet>(),
            size_of::<FlowVm>(),
            size_of::<FlowSeed>(),
            size_of::<Cap>(),
        ];
        assert_eq!(sizes.map(|size| size as usize), ours);
    }
}
