#![no_main]
//! libFuzzer's door to the target `wide_columns`.

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| cairn_fuzz::check_named("wide_columns", data));
