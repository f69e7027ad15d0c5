//! Checksums of whole files, as MANIFESTs record them: a CRC-32C and its name.

use std::path::Path;

use cairn_format::checksum::crc32c_extend;
use cairn_platform::FileSystem;
use cairn_platform::fs::FileMode;
use cairn_types::{Error, Result};

/// The name of the function in MANIFESTs.
pub const NAME: &str = "FileChecksumCrc32c";

/// Bytes that are read at once.
const PIECE: usize = 1 << 20;

/// The record in a MANIFEST of a file whose CRC-32C is `crc`: the checksum, with its most significant
/// byte first, and the name of the function.
#[must_use]
pub fn recorded(crc: u32) -> (Vec<u8>, String) {
    (crc.to_be_bytes().to_vec(), NAME.to_owned())
}

/// The checksum of the file at `path`, read from its first byte to its last.
///
/// # Errors
///
/// `IoError`; `Corruption` if the file ends before its length.
pub fn of_file(fs: &dyn FileSystem, path: &Path) -> Result<Vec<u8>> {
    let file = fs.open(path, FileMode::default())?;
    let len = file.len()?;
    let mut piece = vec![0; PIECE.min(usize::try_from(len).unwrap_or(PIECE)).max(1)];
    let (mut at, mut crc) = (0, 0);
    while at < len {
        let got = file.read_at(at, &mut piece)?;
        if got == 0 {
            return Err(Error::corruption(format!(
                "length of {}: expected {len}, found {at}",
                path.display()
            )));
        }
        crc = crc32c_extend(crc, &piece[..got]);
        at += got as u64;
    }
    Ok(recorded(crc).0)
}
