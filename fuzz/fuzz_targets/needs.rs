#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| headtime_fuzz::run("needs", input));
