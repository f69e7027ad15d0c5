//! Table files: building, opening, lookups and iteration.
//!
//! A [`Table`] is an open file with its properties and range tombstones. Its index and filter are
//! held by the table or looked up in the block cache, depending on the options. It does no I/O once
//! it is open: [`Table::get`] and [`TableIter`] work on blocks in memory and report a missing block
//! to the caller (see `cairn_types::iter`). A [`TableBuilder`] writes a table from sorted entries.
//!
//! Versions, visibility, merging and the interpretation of values are left to other crates.

mod block_stats;
pub mod builder;
mod metadata;
pub mod reader;

use cairn_format::key;
use cairn_types::{Error, KeyOrder, Result};

pub use builder::{
    BuildParams, TableBuilder, TableIdentity, TablePlace, TableStats, TableTimes, WarmBlocks,
};
pub use reader::{
    Background, GetOptions, IterOptions, OpenParams, PlanOptions, PlannedReads, ReadAhead,
    ReadaheadSize, ScanPlan, ScanRange, SuspendedGet, Table, TableGet, TableIter, TracedRead,
    UnopenedTable, ValueRef, count_lookup_below,
};

/// Returns the key order in a file: `order`, without timestamps if they are stripped.
pub(crate) fn stripped_order(order: &KeyOrder, stripped: bool) -> Result<KeyOrder> {
    match order {
        _ if !stripped => Ok(order.clone()),
        KeyOrder::BytewiseU64Ts => Ok(KeyOrder::Bytewise),
        KeyOrder::ReverseBytewiseU64Ts => Ok(KeyOrder::ReverseBytewise),
        other if other.timestamp_size() == 0 => Ok(other.clone()),
        other => Err(Error::not_supported(format!(
            "a table without timestamps under the user's key order {}",
            other.name()
        ))),
    }
}

/// Appends `internal` without the `strip` bytes of timestamp before its suffix.
pub(crate) fn strip_internal(internal: &[u8], strip: usize, out: &mut Vec<u8>) {
    let user = key::user_key(internal);
    out.extend_from_slice(&user[..user.len().saturating_sub(strip)]);
    out.extend_from_slice(&internal[user.len()..]);
}

/// Appends `internal` with `pad` bytes of the minimum timestamp before its suffix.
pub(crate) fn pad_internal(internal: &[u8], pad: usize, out: &mut Vec<u8>) {
    let user = key::user_key(internal);
    out.extend_from_slice(user);
    out.resize(out.len() + pad, 0);
    out.extend_from_slice(&internal[user.len()..]);
}
