//! File names, and the content of CURRENT and IDENTITY.

use cairn_format::names::{self, FileName};

/// Parses the input as a file name, as CURRENT and as IDENTITY.
pub fn run(data: &[u8]) {
    if let Ok(name) = std::str::from_utf8(data) {
        if let Some(parsed) = FileName::parse(name) {
            assert!(!name.contains('/') && !name.contains("..") && !name.contains('\0'));
            assert_eq!(FileName::parse(&parsed.to_string()), Some(parsed));
        }
        assert!(!names::info_log_prefix(name).contains('/'));
    }
    if let Ok(number) = names::decode_current(data) {
        assert_eq!(names::encode_current(number).as_bytes(), data);
    }
    let _ = names::decode_identity(data);
}
