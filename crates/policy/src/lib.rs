//! The rule, *small first at every queue*, as Rust sees it.
//!
//! The rule itself is C: `policy/bucket.h` and `policy/vcpu.h` say what each function means,
//! in which units and ranges. Here are its structs, with the same layout, and its functions as
//! methods; nothing else. All times and amounts are nanoseconds.

mod bucket;
mod params;
mod vcpu;

pub use bucket::{Bucket, NEVER, RATE_MAX, RATE_ONE};
pub use params::Params;
pub use vcpu::{Class, Pcpu, Vcpu, Vm, entitled, served};

#[cfg(test)]
mod tests {
    use super::*;

    unsafe extern "C" {
        fn lowtail_sizes(sizes: *mut u32);
    }

    #[test]
    fn structs_have_the_sizes_of_c() {
        let mut sizes = [0u32; 5];
        // SAFETY: C writes five numbers.
        unsafe { lowtail_sizes(sizes.as_mut_ptr()) };
        let ours = [
            size_of::<Bucket>(),
            size_of::<Params>(),
            size_of::<Pcpu>(),
            size_of::<Vm>(),
            size_of::<Vcpu>(),
        ];
        assert_eq!(sizes.map(|size| size as usize), ours);
    }
}
