//! The keys of records, as locks see them.

use cairn_db::{Family, Record};
use cairn_format::key::strip_timestamp;

/// The family and the key of a record; for a range, its first key. `None` for a record that is not a write.
pub(crate) fn key_of<'a>(record: &Record<'a>) -> Option<(u32, &'a [u8])> {
    let key = match *record {
        Record::Put { key, .. }
        | Record::TimedPut { key, .. }
        | Record::Delete { key, .. }
        | Record::SingleDelete { key, .. }
        | Record::Merge { key, .. }
        | Record::PutEntity { key, .. }
        | Record::PutBlobIndex { key, .. } => key,
        Record::DeleteRange { begin, .. } => begin,
        _ => return None,
    };
    Some((record.family()?, key))
}

/// Returns `key`, of a record of the family with the id `family`, without its timestamp. Locks have no timestamps.
pub(crate) fn without_timestamp<'k>(families: &[Family], family: u32, key: &'k [u8]) -> &'k [u8] {
    let found = families.iter().find(|found| found.id() == family);
    strip_timestamp(key, found.map_or(0, Family::timestamp_size))
}
