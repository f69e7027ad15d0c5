//! The versions of a key as they are stored, for callers that store them again.

use cairn_format::key::LookupKey;
use cairn_options::ReadOptions;
use cairn_table::TableGet;
use cairn_types::Result;

use super::{Found, PointGet};
use crate::view::View;

/// The versions that determine the value of a key: with TTL timestamps, and with merge operands that are not applied.
#[derive(Debug)]
pub struct StoredVersions {
    /// The newest version that is not a merge operand. Values in blob files have been read.
    pub base: Found,
    /// The merge operands on top, oldest first.
    pub operands: Vec<Vec<u8>>,
}

/// Returns the versions of the key that determine its value for `lookup`. The merge operator is not called.
///
/// # Errors
///
/// Those of [`get`](super::get()), except for those of a merge.
pub fn stored_versions(view: &View, lookup: &LookupKey) -> Result<StoredVersions> {
    let options = ReadOptions::default();
    let mut get = PointGet::new(view, lookup, &options, TableGet::default());
    get.run_counted()?;
    let base = get.stored()?;
    let operands = get.versions.operands.take();
    let operands = operands.iter().flat_map(|all| all.oldest_first());
    Ok(StoredVersions {
        base,
        operands: operands.map(<[u8]>::to_vec).collect(),
    })
}
