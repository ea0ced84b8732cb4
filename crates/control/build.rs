//! Compiles the BPF programs of this crate.

fn main() {
    lowtail_bpf_build::compile(&["flow", "vcpu"]);
}
