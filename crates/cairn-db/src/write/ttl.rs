//! Databases whose values have a time to live: RocksDB's `DBWithTTL`, with its files.
//!
//! Each value and merge operand is followed by its write time in storage ([`cairn_format::dated`]). The times
//! are added to batches here, before they are logged; reads strip them (`cairn-read`), and compactions drop
//! expired values and merge dated ones (`cairn-jobs`). Everything else that copies values (logs, the change
//! stream, checkpoints, ingested tables) leaves them unchanged. The option `value_ttl` of the default family
//! applies to the whole database.

use cairn_format::batch::Record;
use cairn_format::dated::{self, DATE_LEN};
use cairn_options::FamilyOptions;
use cairn_types::{Error, Result};

use crate::open::OpenRequest;
use crate::report::stats_family::STATS_FAMILY;
use crate::write::batch::WriteBatch;

/// Makes the values of a family dated or not, as in the rest of the database. A family without a time to live
/// in a database of dated values keeps its values forever. The history of statistics has no dates.
///
/// # Errors
///
/// `InvalidArgument` for a family with a time to live in a database without dates.
pub(crate) fn apply_to_options(
    dated: bool,
    family: &str,
    options: &mut FamilyOptions,
) -> Result<()> {
    if family == STATS_FAMILY {
        options.value_ttl = None;
        return Ok(());
    }
    if dated {
        options.value_ttl.get_or_insert(0);
        return Ok(());
    }
    match options.value_ttl {
        None => Ok(()),
        Some(ttl) => Err(Error::invalid_argument(format!(
            "value_ttl={ttl} of column family {family:?}: the values of this database have no times \
             of their writing; the default family decides, when the database is opened"
        ))),
    }
}

/// True if values in the database opened by `request` are dated.
pub(crate) fn is_dated(request: &OpenRequest<'_>) -> bool {
    let mut families = request.families.iter();
    let default = families.find(|family| family.name == "default");
    let default = default.map(|family| &family.options).or(request.others);
    default.is_some_and(|options| options.value_ttl.is_some())
}

impl WriteBatch {
    /// Returns the batch with the date `unix_seconds` appended to each value and operand. Entities have none.
    pub(crate) fn dated(&self, unix_seconds: u64) -> Result<WriteBatch> {
        self.check()?;
        let date: [u8; DATE_LEN] = dated::encode(unix_seconds);
        let mut dated = WriteBatch::new();
        for record in self.records() {
            let record = record?;
            let family = record.family().unwrap_or(0);
            dated.add(family, |batch| match record {
                Record::Put { family, key, value } => {
                    batch.put_parts(family, &[key], &[value, &date])
                }
                Record::Merge {
                    family,
                    key,
                    operand,
                } => batch.merge_parts(family, &[key], &[operand, &date]),
                Record::TimedPut {
                    family,
                    key,
                    value,
                    unix_seconds,
                } => batch.timed_put(family, key, &[value, &date].concat(), unix_seconds),
                Record::Delete { family, key } => batch.delete(family, key),
                Record::SingleDelete { family, key } => batch.single_delete(family, key),
                Record::DeleteRange { family, begin, end } => {
                    batch.delete_range(family, begin, end)
                }
                Record::PutEntity {
                    family,
                    key,
                    entity,
                } => batch.put_entity(family, key, entity),
                Record::LogData(data) => batch.put_log_data(data),
                Record::Noop => Ok(()),
                other => Err(Error::not_supported(format!(
                    "in a database with a time to live: {other:?}"
                ))),
            });
        }
        dated.check()?;
        dated.set_protected(self.is_protected())?;
        dated.stamp_like(self);
        debug_assert_eq!(
            dated.count(),
            self.count(),
            "dates do not change the number of writes"
        );
        Ok(dated)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_800_000_000;
    const DATE: &[u8] = b"\x00\xd2\x49\x6b";

    #[test]
    fn only_values_and_operands_get_dates() {
        let mut batch = WriteBatch::new();
        batch.put(b"granite", b"igneous");
        batch.put_log_data(b"from the north");
        batch.merge(b"layers", b"");
        batch.timed_put(b"chalk", b"sedimentary", 7);
        batch.delete(b"a");
        batch.single_delete(b"b");
        batch.delete_range(b"c", b"d");
        batch.put_entity(b"slate", &[(b"", b"grey")]);
        let mut expected = WriteBatch::new();
        expected.put(b"granite", &[b"igneous", DATE].concat());
        expected.put_log_data(b"from the north");
        expected.merge(b"layers", DATE);
        expected.timed_put(b"chalk", &[b"sedimentary", DATE].concat(), 7);
        expected.delete(b"a");
        expected.single_delete(b"b");
        expected.delete_range(b"c", b"d");
        expected.put_entity(b"slate", &[(b"", b"grey")]);
        let dated = batch.dated(NOW).unwrap();
        assert_eq!(dated.data(), expected.data());
        assert!(dated.writes_to(0));
    }

    #[test]
    fn a_batch_that_was_refused_is_still_refused() {
        let mut batch = WriteBatch::with_max_bytes(20);
        batch.put(b"granite", b"igneous, and quite hard");
        assert!(batch.dated(NOW).is_err());
    }
}
