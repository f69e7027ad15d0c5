//! Factories of databases, and the engine interface of [`Cairn`].

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use cairn_db::{Family, FamilyDescriptor, Iter, OpenRequest, PreparePolicy, open_of_policy};
use cairn_observe::{BackgroundErrorReason, EventListener};
use cairn_options::{
    CompactRangeOptions, DbOptions, FamilyOptions, InfoLogLevel, Options, ReadOptions,
    WriteOptions, merge_operators,
};
use cairn_platform::sync::{AtomicU64, Ordering};
use cairn_platform::{CtrProvider, World};
use cairn_sim::SampleCipher;
use cairn_types::{Error, Result};

use crate::cairn::{Cairn, ReadPoint};
use crate::engine::{Engine, Factory};
use crate::merge_kind::MergeKind;
use crate::model::DEFAULT;
use crate::options::OptionSet;
use crate::scan::Entries;
use crate::scan::{Direction, Scan};
use crate::write_entry::Write;

/// Factory of databases.
pub struct CairnFactory;

impl Factory for CairnFactory {
    fn name(&self) -> &str {
        "cairn"
    }

    fn open(&self, world: &World, dir: &Path, options: &OptionSet) -> Result<Box<dyn Engine>> {
        let family = family_options(options)?;
        let mut db = DbOptions {
            create_if_missing: true,
            // Log lines would add irrelevant file operations.
            info_log_level: InfoLogLevel::Fatal,
            ..DbOptions::default()
        };
        db.update_from(&options.db)?;
        let errors = count_background_errors(&mut db);
        // Options in text form have no write policy: that of this option's users in RocksDB.
        let policy = match db.two_write_queues {
            true => PreparePolicy::WritePrepared,
            false => PreparePolicy::WriteCommitted,
        };
        let request = OpenRequest {
            path: dir,
            options: &db,
            families: &[FamilyDescriptor::new(DEFAULT, family.clone())],
            others: Some(&family),
            read_only: false,
            world: world.clone(),
        };
        let db = open_of_policy(&request, policy)?;
        Ok(Box::new(Cairn {
            db,
            world: world.clone(),
            dir: dir.to_owned(),
            family,
            unlogged: options.unlogged,
            errors,
            snapshots: BTreeMap::new(),
            next_snapshot: 1,
            staged: BTreeMap::new(),
            moment: 0,
        }))
    }
}

/// Counts the background errors that a database opened with `options` reports to listeners.
pub(crate) fn count_background_errors(options: &mut DbOptions) -> Arc<AtomicU64> {
    let errors: Arc<AtomicU64> = Arc::default();
    options
        .listeners
        .push(Arc::new(ErrorCounter(errors.clone())));
    errors
}

/// A listener that counts background errors.
struct ErrorCounter(Arc<AtomicU64>);

impl EventListener for ErrorCounter {
    fn on_background_error(&self, _: BackgroundErrorReason, _: &mut Option<Error>) {
        // Relaxed: a counter that orders no other memory access.
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Factory of encrypted databases, with RocksDB's sample cipher (ROT13), which is insecure but
/// changes every byte.
pub struct EncryptedFactory;

impl EncryptedFactory {
    /// Returns `world` with encrypted files.
    fn encrypted(world: &World) -> Result<World> {
        let provider = CtrProvider::new(Arc::new(SampleCipher))?.with_random(world.random.clone());
        Ok(world.clone().encrypted(Arc::new(provider)))
    }
}

impl Factory for EncryptedFactory {
    fn name(&self) -> &str {
        "encrypted"
    }

    fn open(&self, world: &World, dir: &Path, options: &OptionSet) -> Result<Box<dyn Engine>> {
        CairnFactory.open(&EncryptedFactory::encrypted(world)?, dir, options)
    }
}

fn family_options(options: &OptionSet) -> Result<FamilyOptions> {
    let mut family = FamilyOptions::from_text(&options.family)?;
    family.table.update_from(&options.table)?;
    family.merge_operator = match options.merge {
        MergeKind::None => None,
        kind => {
            let operator = merge_operators::from_text(&kind.to_string());
            Some(operator.map_err(Error::invalid_argument)?)
        }
    };
    Ok(family)
}

fn step(iter: &mut Iter, direction: Direction) {
    match direction {
        Direction::Forward => iter.next(),
        Direction::Backward => iter.prev(),
    }
}

/// Moves the iterator; if `short`, also moves back and forth twice, which must return to the same
/// entry.
fn step_on(iter: &mut Iter, direction: Direction, short: bool) -> Result<()> {
    let back = match direction {
        Direction::Forward => Direction::Backward,
        Direction::Backward => Direction::Forward,
    };
    let from = iter.key().to_vec();
    step(iter, direction);
    if !short || !iter.valid() {
        return Ok(());
    }
    let (key, value) = (iter.key().to_vec(), iter.value().to_vec());
    step(iter, back);
    if !iter.valid() || iter.key() != from {
        iter.status()?;
        return Err(Error::aborted(format!(
            "stepping back from {} does not return to {}",
            String::from_utf8_lossy(&key),
            String::from_utf8_lossy(&from)
        )));
    }
    step(iter, direction);
    if !iter.valid() || iter.key() != key || iter.value() != value {
        iter.status()?;
        return Err(Error::aborted(format!(
            "stepping back and forth from {} does not return to {}",
            String::from_utf8_lossy(&from),
            String::from_utf8_lossy(&key)
        )));
    }
    Ok(())
}

impl Cairn {
    /// Returns the entries of an iterator with these options.
    pub(crate) fn content_with(
        &self,
        family: &str,
        scan: &Scan,
        options: &ReadOptions,
    ) -> Result<Entries> {
        let options = ReadOptions {
            iterate_lower_bound: scan.lower.clone(),
            iterate_upper_bound: scan.upper.clone(),
            ..options.clone()
        };
        let mut iter = self.family(family)?.iter_with(&options);
        match (scan.direction, &scan.from) {
            (Direction::Forward, Some(from)) => iter.seek(from),
            (Direction::Forward, None) => iter.seek_to_first(),
            (Direction::Backward, Some(from)) => iter.seek_for_prev(from),
            (Direction::Backward, None) => iter.seek_to_last(),
        }
        let mut entries = Entries::new();
        while iter.valid() && entries.len() < scan.limit {
            entries.push((iter.key().to_vec(), iter.value().to_vec()));
            step_on(&mut iter, scan.direction, scan.limit < 10)?;
        }
        iter.status()?;
        Ok(entries)
    }
}

impl Engine for Cairn {
    fn write(&mut self, writes: &[Write], sync: bool) -> Result<()> {
        let batch = self.batch(writes)?;
        let options = WriteOptions {
            sync: sync && !self.unlogged,
            disable_wal: self.unlogged,
            ..WriteOptions::default()
        };
        self.db.write_with(&batch, &options)
    }

    fn get(&mut self, family: &str, key: &[u8], snapshot: Option<u64>) -> Result<Option<Vec<u8>>> {
        let options = self.read_options(snapshot)?;
        let value = self.family(family)?.get_with(key, &options)?;
        Ok(value.map(|value| value.to_vec()))
    }

    fn scan(&mut self, family: &str, scan: &Scan, snapshot: Option<u64>) -> Result<Entries> {
        self.content_with(family, scan, &self.read_options(snapshot)?)
    }
    fn snapshot(&mut self) -> Result<u64> {
        let name = self.next_snapshot;
        self.next_snapshot += 1;
        // Half of the reads in the past are by timestamp, if flushes keep it.
        let keeps = self.has_timestamps() && self.family.persist_user_defined_timestamps;
        let point = match keeps && name.is_multiple_of(2) {
            true => ReadPoint::Timestamp(self.moment.saturating_sub(1)),
            false => ReadPoint::Snapshot(self.db.snapshot()),
        };
        self.snapshots.insert(name, point);
        Ok(name)
    }

    fn release(&mut self, snapshot: u64) {
        self.snapshots.remove(&snapshot);
    }

    fn flush(&mut self, families: &[String]) -> Result<()> {
        let families: Vec<Family> = families
            .iter()
            .map(|family| self.family(family))
            .collect::<Result<_>>()?;
        self.db.flush_families(&families.iter().collect::<Vec<_>>())
    }

    fn compact(&mut self, family: &str, start: Option<&[u8]>, end: Option<&[u8]>) -> Result<()> {
        let options = CompactRangeOptions::default();
        self.family(family)?.compact_range(start, end, &options)
    }

    fn sync_wal(&mut self) -> Result<()> {
        self.db.sync_wal()
    }

    fn create_family(&mut self, name: &str) -> Result<()> {
        self.db.create_family(name, &self.family).map(drop)
    }

    fn drop_family(&mut self, name: &str) -> Result<()> {
        let family = self.family(name)?;
        self.db.drop_family(&family)
    }

    fn families(&self) -> Vec<String> {
        let families = self.db.families();
        families.iter().map(|f| f.name().to_owned()).collect()
    }

    fn check(&mut self, leftovers: bool) -> Result<()> {
        self.db.background_error().map_or(Ok(()), Err)?;
        self.db.wait_until_quiet()?;
        while self.world.executor.help() {}
        self.check_files(leftovers)
    }

    fn stopped(&self) -> Option<String> {
        self.db.background_error().map(|error| error.to_string())
    }

    fn background_errors(&self) -> Arc<AtomicU64> {
        self.errors.clone()
    }

    fn begin_moment(&mut self, moment: usize) {
        self.moment = moment as u64;
    }

    fn resume(&mut self) -> Result<()> {
        self.db.resume()
    }

    fn cairn(&mut self) -> Option<&mut Cairn> {
        Some(self)
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.db.close()
    }
}
