#![no_main]
//! libFuzzer's door to the target `cache_segment`.

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| cairn_fuzz::check_named("cache_segment", data));
