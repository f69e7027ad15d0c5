//! An open database of the engine under test.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use cairn_db::{Db, Family, Snapshot, WriteBatch};
use cairn_format::names::FileName;
use cairn_options::{FamilyOptions, FlushOptions, ReadOptions};
use cairn_platform::World;
use cairn_platform::sync::AtomicU64;
use cairn_types::{Error, KeyOrder, Result};
use cairn_version::manifest;

use crate::external_tables::Staged;
use crate::write_entry::Write;

/// An open database, for operations that only the real engine supports.
pub struct Cairn {
    /// The database.
    pub db: Db,
    /// Its world.
    pub world: World,
    /// Its directory.
    pub dir: PathBuf,
    /// Options of new families.
    pub family: FamilyOptions,
    pub(crate) unlogged: bool,
    /// Number of background errors.
    pub(crate) errors: Arc<AtomicU64>,
    pub(crate) snapshots: BTreeMap<u64, ReadPoint>,
    pub(crate) next_snapshot: u64,
    /// Prepared ingestions of a script.
    pub(crate) staged: BTreeMap<u64, Staged>,
    /// The moment that further writes lead to: their timestamp, in families with timestamps.
    pub(crate) moment: u64,
}

/// The state that reads of a snapshot of a script see.
pub(crate) enum ReadPoint {
    /// That of a snapshot.
    Snapshot(Snapshot),
    /// That at a timestamp, without a snapshot.
    Timestamp(u64),
}

impl Cairn {
    /// Returns the family of this name.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if it does not exist.
    pub fn family(&self, name: &str) -> Result<Family> {
        let family = self.db.family(name);
        family.ok_or_else(|| Error::invalid_argument(format!("no family {name}")))
    }

    /// Flushes the memtables of families together, and waits.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if a family does not exist; the error that made the database read-only.
    pub fn flush_forced(&self, families: &[String]) -> Result<()> {
        let names = families.iter();
        let families = names.map(|name| self.family(name));
        let families = families.collect::<Result<Vec<Family>>>()?;
        let options = FlushOptions {
            force_atomic_flush: true,
            ..FlushOptions::default()
        };
        let families: Vec<&Family> = families.iter().collect();
        self.db.flush_families_with(&families, &options)
    }

    /// Builds a batch of `writes`.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if a family does not exist.
    pub fn batch(&self, writes: &[Write]) -> Result<WriteBatch> {
        let mut batch = WriteBatch::new();
        for write in writes {
            let family = self.family(&write.family)?;
            write.change.add_to(&mut batch, &family, &write.key);
        }
        if self.has_timestamps() && !writes.is_empty() {
            batch.update_timestamps(&stamp(self.moment), |_| Some(TIMESTAMP_LEN))?;
        }
        Ok(batch)
    }

    /// True if the keys of all families have timestamps: the moments of their writes.
    #[must_use]
    pub fn has_timestamps(&self) -> bool {
        self.family.comparator.timestamp_size() > 0
    }

    /// True if tables store no timestamps. The entries of an external table then have the oldest timestamp.
    #[must_use]
    pub fn strips_timestamps(&self) -> bool {
        self.has_timestamps() && !self.family.persist_user_defined_timestamps
    }

    /// Returns the timestamp of the next writes.
    #[must_use]
    pub fn now(&self) -> [u8; TIMESTAMP_LEN] {
        stamp(self.moment)
    }

    /// Returns the oldest moment whose state can be read in `family`.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if the family does not exist or has no timestamps.
    pub fn oldest_moment(&self, family: &str) -> Result<usize> {
        let low = self.family(family)?.full_history_ts_low()?;
        let low = low.first_chunk().map_or(0, |low| u64::from_le_bytes(*low));
        Ok(usize::try_from(low).unwrap_or(usize::MAX))
    }

    /// Returns read options for the state at `moment` in families with timestamps.
    #[must_use]
    pub fn read_options_at(&self, moment: u64) -> ReadOptions {
        ReadOptions {
            timestamp: self.has_timestamps().then(|| stamp(moment).to_vec()),
            // The model has no prefixes.
            total_order_seek: true,
            ..ReadOptions::default()
        }
    }

    /// Returns read options for the current state or a snapshot.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if the snapshot does not exist.
    pub fn read_options(&self, snapshot: Option<u64>) -> Result<ReadOptions> {
        let snapshot = snapshot.map(|name| self.snapshots.get(&name));
        let now = self.read_options_at(u64::MAX);
        Ok(match snapshot {
            None => now,
            Some(None) => return Err(Error::invalid_argument("no such snapshot")),
            Some(Some(ReadPoint::Timestamp(moment))) => self.read_options_at(*moment),
            Some(Some(ReadPoint::Snapshot(snapshot))) => ReadOptions {
                snapshot: Some(snapshot.sequence()),
                ..now
            },
        })
    }
}

/// The length of timestamps in bytes.
const TIMESTAMP_LEN: usize = 8;

/// The timestamp of a moment.
pub(crate) fn stamp(moment: u64) -> [u8; TIMESTAMP_LEN] {
    moment.to_le_bytes()
}

impl Cairn {
    /// Checks that the directory contains exactly the tables and blob files of the tree, and no
    /// obsolete log or MANIFEST unless `leftovers`, nor others unless ingestions are prepared. No background job may
    /// be running.
    pub(crate) fn check_files(&self, leftovers: bool) -> Result<()> {
        let fs = &*self.world.fs;
        let number = manifest::current(fs, &self.dir)?;
        let number = number.ok_or_else(|| Error::corruption("no CURRENT"))?;
        let order = |_: &str, name: &str| Ok(KeyOrder::from_name(name).unwrap_or_default());
        let recovered = manifest::replay(fs, &self.dir, number, &order)?;
        let (mut live, mut live_blobs) = (BTreeSet::new(), BTreeSet::new());
        for family in &recovered.families {
            live.extend(family.version.files().map(|(_, file)| file.number));
            live_blobs.extend(family.version.blob_files().keys().copied());
        }
        let needed = recovered.families.iter().map(|family| family.log_number);
        // No family needs a log of empty batches, but it is kept until a version edit releases it.
        let oldest_log = needed.min().unwrap_or_default();
        let oldest_log = oldest_log.min(recovered.min_log_to_keep);
        let (mut found, mut found_blobs) = (BTreeSet::new(), BTreeSet::new());
        // Obsolete logs may be kept for recycling.
        let recycles = self.db.options().recycle_log_file_num > 0;
        let of_memtables = self.db.memtable_blob_files();
        let mut unneeded = Vec::new();
        for name in fs.list(&self.dir)? {
            let unneeded_here = match FileName::parse(&name) {
                Some(FileName::Table(table)) => {
                    found.insert(table);
                    !live.contains(&table)
                }
                Some(FileName::Blob(blob)) => {
                    found_blobs.insert(blob);
                    !live_blobs.contains(&blob) && !of_memtables.contains(&blob)
                }
                Some(FileName::Wal(log)) => log < oldest_log && !recycles,
                Some(FileName::Manifest(other)) => other != number,
                Some(FileName::Temp(_) | FileName::OptionsTemp(_)) => true,
                _ => false,
            };
            if unneeded_here {
                unneeded.push(name);
            }
        }
        if let Some(missing) = live.difference(&found).next() {
            return Err(Error::corruption(format!("table {missing} is missing")));
        }
        if let Some(missing) = live_blobs.difference(&found_blobs).next() {
            return Err(Error::corruption(format!("blob file {missing} is missing")));
        }
        if !leftovers && self.staged.is_empty() && !unneeded.is_empty() {
            let names = unneeded.join(", ");
            return Err(Error::corruption(format!("obsolete files: {names}")));
        }
        Ok(())
    }
}
