//! Conflict checks of transactions: is there a write to a key after a sequence number or a timestamp?

use cairn_format::key::{self, LookupKey};
use cairn_options::ReadOptions;
use cairn_table::TableGet;
use cairn_types::{Result, SequenceNumber};

use super::PointGet;
use crate::view::View;

/// True if `view` holds a write to the key of `lookup` that is newer than `since`. Range tombstones
/// over the key count.
///
/// # Errors
///
/// Those of [`get`](super::get()), except for those of a merge.
pub fn is_written_since(
    view: &View,
    lookup: &LookupKey,
    since: SequenceNumber,
    options: &ReadOptions,
) -> Result<bool> {
    let mut get = PointGet::new(view, lookup, options, TableGet::default());
    get.versions.records_newest = true;
    get.run_counted()?;
    Ok(get.versions.newest_seq.max(get.versions.covered_by) > since)
}

/// True if `view` holds a write to the key of `lookup`, which has the greatest timestamp, that is newer than `since` or
/// has a newer timestamp than `timestamp`. Range tombstones over the key count.
///
/// # Errors
///
/// Those of [`get`](super::get()), except for those of a merge.
pub fn is_written_after(
    view: &View,
    lookup: &LookupKey,
    since: SequenceNumber,
    timestamp: Option<u64>,
) -> Result<bool> {
    let options = ReadOptions::default();
    let mut get = PointGet::new(view, lookup, &options, TableGet::default());
    get.versions.records_newest = true;
    get.run_counted()?;
    let order = &view.family.order;
    let plain = key::strip_timestamp(lookup.user(), order.timestamp_size());
    let at = |timestamp: u64| {
        [
            plain,
            &timestamp.to_le_bytes()[..order.timestamp_size().min(8)],
        ]
        .concat()
    };
    // The newest tombstone that covers versions at this timestamp.
    let covering = |timestamp: u64| {
        let sources = get.versions.timed.iter().flat_map(|timed| &timed.sources);
        let key = at(timestamp);
        let each = sources.map(|source| source.covering_at(order, &key, lookup.seq(), None));
        each.max().unwrap_or(SequenceNumber::ZERO)
    };
    if get.versions.newest_seq.max(covering(0)) > since {
        return Ok(true);
    }
    let Some(timestamp) = timestamp else {
        return Ok(false);
    };
    let newest = get.versions.key();
    // Keys that differ only in their timestamps are ordered newest first.
    let is_newer = !newest.is_empty() && order.compare(newest, &at(timestamp)).is_lt();
    let next = timestamp.checked_add(1);
    Ok(is_newer || next.is_some_and(|next| covering(next) > SequenceNumber::ZERO))
}
