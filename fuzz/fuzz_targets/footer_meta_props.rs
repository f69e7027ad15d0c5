#![no_main]
//! libFuzzer's door to the target `footer_meta_props`.

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| cairn_fuzz::check_named("footer_meta_props", data));
