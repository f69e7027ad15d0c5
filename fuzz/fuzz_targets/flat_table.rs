#![no_main]
//! libFuzzer's door to the target `flat_table`.

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| cairn_fuzz::check_named("flat_table", data));
