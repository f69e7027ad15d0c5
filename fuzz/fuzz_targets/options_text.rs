#![no_main]
//! libFuzzer's door to the target `options_text`.

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| cairn_fuzz::check_named("options_text", data));
