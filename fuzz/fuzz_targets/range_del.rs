#![no_main]
//! libFuzzer's door to the target `range_del`.

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| cairn_fuzz::check_named("range_del", data));
