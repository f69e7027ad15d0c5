//! Inserting the entries of a protected batch into memtables, with checks before and after.

use std::ops::ControlFlow;

use cairn_format::key::LookupKey;
use cairn_format::protection::EntryChecksum;
use cairn_types::{Result, SequenceNumber, ValueKind};

use super::commit::Company;
use super::entry::{Entry, entry};
use super::protection::{Protection, damaged, parsed, verify};
use crate::shared::Shared;

impl Shared {
    /// Inserts the entries of `batch`, which has `protection`.
    #[cold]
    pub(crate) fn insert_protected(
        &self,
        batch: &[u8],
        protection: &Protection,
        first: SequenceNumber,
        company: Company,
    ) -> Result<()> {
        verify(batch, protection.inserted())?;
        self.insert_guarded(batch, first, company)?;
        self.verify_inserted(batch, protection.inserted(), first, company)
    }

    /// Verifies that the memtables have the point entries of `batch`, whose checksums are `expected`. An operand that may
    /// have been merged with the value below it is left out.
    fn verify_inserted(
        &self,
        batch: &[u8],
        expected: &[EntryChecksum],
        first: SequenceNumber,
        company: Company,
    ) -> Result<()> {
        let families = self.catalog.families();
        let records = parsed(batch)?;
        let mut nth = 0;
        for record in records.records() {
            let record = record.map_err(|malformed| malformed.in_file("the write batch", 0))?;
            let Some((id, written)) = entry(&record)? else {
                continue;
            };
            let (seq, sum) = (first.plus(nth as u64), expected.get(nth));
            nth += 1;
            let skipped = !written.kind.is_point()
                || (written.kind == ValueKind::Merge && company == Company::None);
            if let Some(family) = families.get(id).filter(|_| !skipped) {
                let memtable = family.memtable();
                let mut matches = false;
                memtable.find(&LookupKey::new(written.key, seq), |found| {
                    matches = found.seq() == seq && sum == Some(&stored(&found, &written, id));
                    ControlFlow::Break(())
                });
                if !matches {
                    return Err(damaged(nth - 1));
                }
            }
        }
        Ok(())
    }
}

/// The checksum of the entry `found`, which should be `written`.
fn stored(found: &cairn_memtable::Entry<'_>, written: &Entry<'_>, id: u32) -> EntryChecksum {
    let kind = match (found.kind(), written.kind) {
        // The memtable's kind of a deletion whose key has a timestamp.
        (ValueKind::DeletionWithTimestamp, ValueKind::Deletion) => ValueKind::Deletion,
        (kind, _) => kind,
    };
    EntryChecksum::new(found.user_key(), found.value())
        .with_kind(kind)
        .with_family(id)
}
