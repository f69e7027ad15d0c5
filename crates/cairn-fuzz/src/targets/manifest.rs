//! Version edits and MANIFESTs.
//!
//! The first byte selects one edit or a whole MANIFEST.

use cairn_format::log::{Bytes, Event, LogReader};
use cairn_format::manifest::VersionEdit;

use crate::fix_checksums;

/// Checks that an edit round-trips.
pub fn run(data: &[u8]) {
    let Some((&choice, data)) = data.split_first() else {
        return;
    };
    if choice == 0 {
        edit(data);
        return;
    }
    let mut reader = LogReader::new(Bytes(data), 0);
    loop {
        match reader.next().expect("bytes in memory can always be read") {
            Event::Record { payload, .. } => edit(payload),
            Event::End(_) => break,
            _ => {}
        }
    }
}

/// Fixes the records of a whole MANIFEST.
pub fn repair(data: &mut [u8]) {
    if data.first().is_some_and(|&choice| choice != 0) {
        fix_checksums::log_behind_a_byte(data);
    }
}

fn edit(data: &[u8]) {
    let Ok(edit) = VersionEdit::decode(data) else {
        return;
    };
    let again = VersionEdit::decode(&edit.to_bytes()).expect("an encoded edit can be decoded");
    // Bytes are compared, since a checksum without a function is not encoded.
    assert_eq!(again.to_bytes(), edit.to_bytes());
}
