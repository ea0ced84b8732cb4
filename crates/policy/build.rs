//! Compiles the policy headers for this machine.

fn main() {
    let policy = "../../policy";
    for file in ["bucket.h", "cap.h", "vcpu.h", "line.h", "vif.h", "flow.h"] {
        println!("cargo::rerun-if-changed={policy}/{file}");
    }
    println!("cargo::rerun-if-changed=src/face.c");
    cc::Build::new()
        .file("src/face.c")
        .include(policy)
        .opt_level(2)
        .flag("-std=gnu11")
        .warnings(true)
        .extra_warnings(true)
        .compile("lowtail_policy");
}
