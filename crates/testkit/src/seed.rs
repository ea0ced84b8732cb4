//! Where random tests begin.

/// `LOWTAIL_SEED`, or 1; what is printed is shown when the test fails.
pub fn seed() -> u64 {
    let seed = std::env::var("LOWTAIL_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    println!("LOWTAIL_SEED={seed} repeats it");
    seed
}
