#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| lowtail_fuzz::run_named("xl", bytes));
