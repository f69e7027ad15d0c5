//! Version edits, what a MANIFEST is made of.
//!
//! The first byte chooses between one edit and a whole MANIFEST.

use cairn_format::manifest::VersionEdit;

/// What is written of an edit is read and written the same again.
pub fn run(data: &[u8]) {
    let Some((&choice, data)) = data.split_first() else {
        return;
    };
    if choice == 0 {
        edit(data);
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
