//! Separation of values on write: with `enable_blob_direct_write`, large values are appended to blob files before the
//! batch joins the write queue, which gets a batch with blob indexes in their place. [`crate::write::direct_blobs`] has the
//! files.
//!
//! Only plain puts are separated. Other large values are logged as they are and separated by the flush: those of entities,
//! of puts with a write time, and of writes by other paths (prepared transactions, writes with callbacks, batches that
//! bypass the memtable).

use std::sync::Arc;

use cairn_compress::Compression;
use cairn_format::batch::Record;
use cairn_format::blob::BlobIndex;
use cairn_options::{PrepopulateBlobCache, WriteOptions};
use cairn_types::Result;

use super::Check;
use super::queue::Batch;
use crate::catalog::family::{Families, FamilyState};
use crate::shared::Shared;
use crate::write::batch::WriteBatch;
use crate::write::direct_blobs::{AppendEnv, Ticket};

/// The large values of a batch, by family, in their order.
type Large<'a> = Vec<(&'a FamilyState, Vec<(&'a [u8], &'a [u8])>)>;

/// The minimum size and the codec of the values that each family writes directly, read once for a batch: options may
/// change.
struct Limits<'a>(Vec<(&'a FamilyState, u64, Compression)>);

impl<'a> Limits<'a> {
    fn of(families: &'a Families, batch: &WriteBatch) -> Limits<'a> {
        let limits = [0].iter().chain(batch.families()).filter_map(|id| {
            let family = families.get(*id)?;
            let (least, compression) = family.direct.limits(&family.options())?;
            Some((&**family, least, compression))
        });
        Limits(limits.collect())
    }

    /// The family of `record`, a large value that is written directly.
    fn family_of(&self, record: &Record<'_>) -> Option<&'a FamilyState> {
        let Record::Put { family, key, value } = record else {
            return None;
        };
        let (family, least, compression) = self.0.iter().find(|(it, _, _)| it.id() == *family)?;
        let is_large = value.len() as u64 >= *least;
        (is_large && cairn_blob::fits(*compression, key.len(), value.len())).then_some(family)
    }
}

impl Shared {
    /// Writes `batch`, which has passed the checks, with its large values in blob files.
    #[inline(never)]
    pub(super) fn write_separated(
        self: &Arc<Self>,
        batch: &WriteBatch,
        options: &WriteOptions,
        check: Option<Check<'_>>,
    ) -> Result<()> {
        self.delay_write(batch, options.no_slowdown)?;
        self.may_write()?;
        self.check_writable()?;
        let families = self.catalog.families().clone();
        // The files are kept until the write has ended.
        let mut tickets = Vec::new();
        let stored = self.separate(batch, &Limits::of(&families, batch), &mut tickets)?;
        let stored = stored.as_ref().unwrap_or(batch);
        let protection = stored.protection();
        let parts = Batch {
            protection: protection.as_ref(),
            ..Batch::whole(stored.data())
        };
        self.write_parts(parts, options, check)
    }

    /// Appends the large values of `batch` to blob files. Returns the batch with indexes in their place; `None` if it has
    /// no such value.
    fn separate(
        &self,
        batch: &WriteBatch,
        limits: &Limits<'_>,
        tickets: &mut Vec<Ticket>,
    ) -> Result<Option<WriteBatch>> {
        let mut large: Large<'_> = Vec::new();
        for record in batch.records() {
            let record = record?;
            let (Some(family), Record::Put { key, value, .. }) =
                (limits.family_of(&record), record)
            else {
                continue;
            };
            match large.iter_mut().find(|(it, _)| it.id() == family.id()) {
                Some((_, values)) => values.push((key, value)),
                None => large.push((family, vec![(key, value)])),
            }
        }
        if large.is_empty() {
            return Ok(None);
        }
        batch.verify_checksums()?;
        let mut indexes = Vec::with_capacity(large.len());
        for (family, values) in &large {
            let appended = self.append_blobs(family, values, tickets)?;
            indexes.push((family.id(), appended.into_iter()));
        }
        with_indexes(batch, limits, &mut indexes).map(Some)
    }

    /// Appends `values` to a blob file of `family`.
    fn append_blobs(
        &self,
        family: &FamilyState,
        values: &[(&[u8], &[u8])],
        tickets: &mut Vec<Ticket>,
    ) -> Result<Vec<BlobIndex>> {
        let (options, view) = (family.options(), family.view());
        let env = AppendEnv {
            fs: &*self.context.world.fs,
            blobs: &view.family.blobs,
            unsynced: &self.context.unsynced_blobs,
            new_number: &|| self.catalog.numbers.take(),
            meter: self.telemetry.meter(),
            db: &self.options(),
            family: &options,
            family_id: family.id(),
        };
        let mut indexes = Vec::with_capacity(values.len());
        family.direct.append(&env, values, &mut indexes, tickets)?;
        assert_eq!(indexes.len(), values.len(), "each value has an index");
        if options.prepopulate_blob_cache == PrepopulateBlobCache::FlushOnly {
            for (index, (key, value)) in indexes.iter().zip(values) {
                view.family.blobs.warm(index, key, value);
            }
        }
        Ok(indexes)
    }

    /// Ends the blob files of the active memtable of `family`, which is about to become immutable. The caller leads, and
    /// no insertion is in progress.
    pub(super) fn switch_blobs(&self, family: &FamilyState) {
        if !family.direct.is_on() {
            return;
        }
        let memtable = family.memtable();
        match memtable.is_empty() {
            false => family.direct.switch(&memtable),
            // Otherwise no log could be synced until the next flush of the family.
            true => {
                let failed = family.direct.take_failed();
                self.catalog.deletions.retire_direct(family, failed);
            }
        }
    }
}

/// Returns `batch` with `indexes` in place of its large values.
fn with_indexes(
    batch: &WriteBatch,
    limits: &Limits<'_>,
    indexes: &mut [(u32, std::vec::IntoIter<BlobIndex>)],
) -> Result<WriteBatch> {
    let mut stored = WriteBatch::new();
    let mut encoded = Vec::new();
    for record in batch.records() {
        let record = record?;
        let id = record.family().unwrap_or(0);
        let is_large = limits.family_of(&record).is_some();
        let of_family = indexes
            .iter_mut()
            .find(|(family, _)| is_large && *family == id);
        let index = of_family.and_then(|(_, indexes)| indexes.next());
        stored.add(id, |out| match (record, index) {
            (Record::Put { family, key, .. }, Some(index)) => {
                encoded.clear();
                index.encode(&mut encoded);
                out.put_blob_index(family, key, &encoded)
            }
            (Record::Noop, _) => {
                out.put_noop();
                Ok(())
            }
            (record, _) => out.push(&record),
        });
    }
    stored.check()?;
    stored.set_protected(batch.is_protected())?;
    stored.stamp_like(batch);
    debug_assert_eq!(stored.count(), batch.count(), "values move, writes stay");
    Ok(stored)
}
