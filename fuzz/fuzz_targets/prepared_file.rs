#![no_main]
//! libFuzzer's door to the target `prepared_file`.

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| cairn_fuzz::check_named("prepared_file", data));
