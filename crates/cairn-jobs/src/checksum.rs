//! Whole-file checksums as the MANIFEST records them: a CRC-32C and the name of the function.

use std::path::Path;

use cairn_format::checksum::crc32c_extend;
use cairn_platform::FileSystem;
use cairn_platform::fs::FileMode;
use cairn_types::{Error, Result};

/// The name of the checksum function in the MANIFEST.
pub const NAME: &str = "FileChecksumCrc32c";

/// The number of bytes per read.
const PIECE: usize = 1 << 20;

/// Returns the MANIFEST record of a file whose CRC-32C is `crc`: the checksum in big-endian order, and
/// the function name.
#[must_use]
pub fn recorded(crc: u32) -> (Vec<u8>, String) {
    (crc.to_be_bytes().to_vec(), NAME.to_owned())
}

/// Returns the checksum of the whole file at `path`.
///
/// # Errors
///
/// `IoError`; `Corruption` if the file is shorter than its reported length.
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
