#![no_main]
//! libFuzzer's door to the target `trace`.

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| cairn_fuzz::check_named("trace", data));
