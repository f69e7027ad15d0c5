#![no_main]
//! libFuzzer's door to the target `blob_file`.

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| cairn_fuzz::check_named("blob_file", data));
