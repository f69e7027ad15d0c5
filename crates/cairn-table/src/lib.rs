//! One table file: building it, opening it, finding and walking its entries.
//!
//! A [`Table`] is an open file with what every read of it needs: properties, range tombstones,
//! and index and filter, held or found through the block cache as the options say. It does no I/O
//! after it was opened: [`Table::get`] and [`TableIter`] run over what is in memory and name the
//! block that they lack (see `cairn_types::iter`). A [`TableBuilder`] makes a table of sorted
//! entries.
//!
//! Left to other crates: which tables there are, visibility, merge operands, and the
//! meaning of values.

pub mod builder;
pub mod reader;

use cairn_format::key;
use cairn_types::{Error, KeyOrder, Result};

pub use builder::{BuildParams, TableBuilder, TableIdentity, TableStats, TableTimes};
pub use reader::{GetOptions, IterOptions, OpenParams, Table, TableGet, TableIter, ValueRef};

/// The order of keys in a file: `order`, or what is left of it when timestamps are cut off.
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

/// Appends `internal` with `pad` bytes of the smallest timestamp before its suffix.
pub(crate) fn pad_internal(internal: &[u8], pad: usize, out: &mut Vec<u8>) {
    let user = key::user_key(internal);
    out.extend_from_slice(user);
    out.resize(out.len() + pad, 0);
    out.extend_from_slice(&internal[user.len()..]);
}
