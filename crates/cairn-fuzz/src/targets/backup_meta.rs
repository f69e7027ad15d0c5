//! Metadata files of backups, and the paths in them.

use cairn_format::backup::{BackupDir, BackupMeta, BackupPath};

/// Decodes the input as the metadata file of backup 2 and as a path.
pub fn run(data: &[u8]) {
    if let Ok(meta) = BackupMeta::decode(data, 2) {
        let paths = meta.files.iter().map(|file| &file.path);
        for path in paths.chain(&meta.excluded) {
            check(path);
            assert!(!matches!(path.dir(), BackupDir::Private(id) if id != 2));
        }
        let again = BackupMeta::decode(meta.encode().as_bytes(), 2);
        assert_eq!(again.expect("an encoded backup is decoded"), meta);
    }
    if let Ok(text) = std::str::from_utf8(data)
        && let Some(path) = BackupPath::parse(text)
    {
        assert_eq!(path.to_string(), text);
        check(&path);
    }
}

/// A path does not leave its directory.
fn check(path: &BackupPath) {
    for name in [path.name(), &path.database_name()] {
        assert!(!name.contains(['/', '\\', '\0', ' ', '\n']), "{path}");
        assert!(!name.is_empty() && name != "." && name != "..", "{path}");
    }
    let _ = path.kind();
}
