//! Checksums of whole files that exist.

use std::path::Path;

use cairn_options::file_checksum::{NamedChecksum, RunningChecksum};
use cairn_platform::FileSystem;
use cairn_platform::fs::FileMode;
use cairn_types::{Error, Result};

/// The number of bytes per read.
const PIECE: usize = 1 << 20;

/// Returns the checksum of the whole file at `path`, which `running` computes, and the name of the function; both are empty
/// if it computes none.
///
/// # Errors
///
/// `IoError`; `Corruption` if the file is shorter than its reported length.
pub fn of_file(
    fs: &dyn FileSystem,
    path: &Path,
    mut running: RunningChecksum,
) -> Result<NamedChecksum> {
    let file = fs.open(path, FileMode::default())?;
    let len = file.len()?;
    let mut piece = vec![0; PIECE.min(usize::try_from(len).unwrap_or(PIECE)).max(1)];
    let mut at = 0;
    while at < len {
        let got = file.read_at(at, &mut piece)?;
        if got == 0 {
            return Err(Error::corruption(format!(
                "length of {}: expected {len}, found {at}",
                path.display()
            )));
        }
        running.update(&piece[..got]);
        at += got as u64;
    }
    Ok(running.finish().unwrap_or_default())
}
