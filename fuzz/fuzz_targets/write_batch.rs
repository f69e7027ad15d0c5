#![no_main]
//! libFuzzer's door to the target `write_batch`.

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| cairn_fuzz::check_named("write_batch", data));
