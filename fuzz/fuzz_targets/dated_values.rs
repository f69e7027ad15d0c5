#![no_main]
//! libFuzzer's door to the target `dated_values`.

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| cairn_fuzz::check_named("dated_values", data));
