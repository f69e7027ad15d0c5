//! An open database of the engine under test.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use cairn_db::{Db, Family, Snapshot, WriteBatch};
use cairn_format::names::FileName;
use cairn_options::{FamilyOptions, ReadOptions};
use cairn_platform::World;
use cairn_platform::sync::AtomicU64;
use cairn_types::{Error, KeyOrder, Result};
use cairn_version::manifest;

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
    pub(crate) snapshots: BTreeMap<u64, Snapshot>,
    pub(crate) next_snapshot: u64,
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
        Ok(batch)
    }

    /// Returns read options for the current state or a snapshot.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if the snapshot does not exist.
    pub fn read_options(&self, snapshot: Option<u64>) -> Result<ReadOptions> {
        let snapshot = snapshot.map(|name| self.snapshots.get(&name));
        let snapshot = match snapshot {
            Some(None) => return Err(Error::invalid_argument("no such snapshot")),
            Some(Some(snapshot)) => Some(snapshot.sequence()),
            None => None,
        };
        Ok(ReadOptions {
            snapshot,
            // The model has no prefixes.
            total_order_seek: true,
            ..ReadOptions::default()
        })
    }
}

impl Cairn {
    /// Checks that the directory contains exactly the tables and blob files of the tree, and no
    /// obsolete log or MANIFEST unless `leftovers`. No background job may be running.
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
        let mut unneeded = Vec::new();
        for name in fs.list(&self.dir)? {
            let unneeded_here = match FileName::parse(&name) {
                Some(FileName::Table(table)) => {
                    found.insert(table);
                    !live.contains(&table)
                }
                Some(FileName::Blob(blob)) => {
                    found_blobs.insert(blob);
                    !live_blobs.contains(&blob)
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
        if !leftovers && !unneeded.is_empty() {
            let names = unneeded.join(", ");
            return Err(Error::corruption(format!("obsolete files: {names}")));
        }
        Ok(())
    }
}
