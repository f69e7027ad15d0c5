#![no_main]
//! libFuzzer's door to the target `compaction_service`.

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| cairn_fuzz::check_named("compaction_service", data));
