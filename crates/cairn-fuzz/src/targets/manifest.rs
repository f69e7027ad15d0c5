//! Version edits, what a MANIFEST is made of.
//!
//! The first byte chooses between one edit and a whole MANIFEST.

use cairn_format::log::{Bytes, Event, LogReader};
use cairn_format::manifest::VersionEdit;

use crate::fix_checksums;

/// What is written of an edit is read and written the same again.
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

/// Mends the records of a whole MANIFEST.
pub fn repair(data: &mut [u8]) {
    if data.first().is_some_and(|&choice| choice != 0) {
        fix_checksums::log_behind_a_byte(data);
    }
}

fn edit(data: &[u8]) {
    let Ok(edit) = VersionEdit::decode(data) else {
        return;
    };
    let again = VersionEdit::decode(&edit.to_bytes()).expect("what we write we read");
    // Not every edit is: a checksum without a function is not written.
    assert_eq!(again.to_bytes(), edit.to_bytes());
}
