//! A worker: random operations on its own keys, each answer compared with its model.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use cairn::{
    CompactRangeOptions, Db, Family, IngestExternalFileOptions, Iter, Options, ReadOptions,
    Snapshot, SstFileWriter, WriteBatch, WriteOptions,
};
use cairn_types::Error;

use crate::faults::mix;
use crate::model::{Bytes, Change, Model};
use crate::options::{DB_CHANGES, FAMILIES, FAMILY_CHANGES, family_options};
use crate::shared::Shared;

/// Keys that a worker writes in each family.
const KEYS: u64 = 1000;

/// Maximum number of operands before a put.
const MAX_MERGED: usize = 2000;

/// Maximum number of keys awaiting their single delete.
const MAX_ONCE: usize = 200;

/// Maximum number of views held at once.
const MAX_VIEWS: usize = 4;

/// The reason why an operation failed.
pub enum Trouble {
    /// An error of the engine, expected while faults are enabled.
    Error(Error),
    /// A wrong answer.
    Wrong(String),
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Trouble {
        Trouble::Error(error)
    }
}

type Done = Result<(), Trouble>;

/// The state of a worker, which is kept across reopens.
pub struct Worker {
    id: usize,
    /// Directory of external tables and checkpoints.
    folder: PathBuf,
    random: u64,
    /// The expected rows.
    pub model: Model,
    /// Keys that were put once and await their single delete, oldest first.
    once: VecDeque<(usize, Vec<u8>)>,
    /// Source of unique keys and file names.
    counter: u64,
    /// Number of finished operations.
    pub operations: u64,
    /// Minimum interval between the starts of two operations.
    interval: Duration,
}

/// Maximum delay that a worker catches up.
const CATCH_UP: Duration = Duration::from_millis(100);

/// Waits until `due` and returns the due time of the next operation.
fn wait(due: Instant, interval: Duration) -> Instant {
    if interval.is_zero() {
        return due;
    }
    let now = Instant::now();
    std::thread::sleep(due.saturating_duration_since(now));
    let oldest = now.checked_sub(CATCH_UP).unwrap_or(now);
    due.max(oldest) + interval
}

/// A view of an earlier state.
enum View<'db> {
    Snapshot(Snapshot<'db>, Box<Model>),
    Iterator(Box<Iter<'db>>, std::vec::IntoIter<(Vec<u8>, Bytes)>),
}

impl Worker {
    /// Creates worker `id`, whose choices depend on `seed`.
    pub fn new(id: usize, seed: u64, folder: &Path) -> Worker {
        Worker {
            id,
            folder: folder.to_owned(),
            random: mix(seed ^ (id as u64) << 32),
            model: Model::new(FAMILIES.len()),
            once: VecDeque::new(),
            counter: 0,
            operations: 0,
            interval: Duration::ZERO,
        }
    }

    /// Sets the minimum interval between operations.
    pub fn paced(self, interval: Duration) -> Worker {
        Worker { interval, ..self }
    }

    /// Returns the prefix of its keys.
    pub fn prefix(&self) -> String {
        format!("w{}/", self.id)
    }

    fn next(&mut self, below: u64) -> u64 {
        self.random = self.random.wrapping_add(1);
        mix(self.random) % below
    }

    fn key(&mut self) -> Vec<u8> {
        let number = self.next(KEYS);
        format!("w{}/{number:05}", self.id).into_bytes()
    }

    fn value(&mut self) -> Bytes {
        let len = match self.next(1000) {
            0 => 100_000,
            1..=30 => 2000 + self.next(6000),
            _ => 20 + self.next(400),
        };
        let byte = self.next(256);
        let letters = (0..len).map(|n| (byte + n / 16) as u8);
        letters.collect::<Vec<u8>>().into()
    }

    fn unique(&mut self) -> u64 {
        self.counter += 1;
        self.counter
    }

    /// Returns read options bounded to its own keys.
    pub fn own_range(&self) -> ReadOptions {
        ReadOptions {
            iterate_lower_bound: Some(self.prefix().into_bytes()),
            iterate_upper_bound: Some(format!("w{}0", self.id).into_bytes()),
            // Scans leave the prefix of their seek key, so prefix filters must not be used.
            total_order_seek: true,
            ..ReadOptions::default()
        }
    }

    /// Runs operations until `shared` stops. Fails at the first wrong answer.
    pub fn run(&mut self, db: &Db, shared: &Shared) -> Result<(), String> {
        let families: Vec<Family<'_>> = families(db)?;
        let mut views = Vec::new();
        let mut due = Instant::now();
        while !shared.stops() {
            due = wait(due, self.interval);
            let disturbed = shared.disturbed();
            let done = match self.model.doubt.is_empty() {
                true => self.operation(db, &families, &mut views),
                false => self.settle(db, &families),
            };
            match done {
                Ok(()) => {}
                Err(Trouble::Error(_)) if disturbed || shared.disturbed() => {
                    std::thread::sleep(Duration::from_millis(2));
                }
                Err(Trouble::Error(error)) => {
                    return Err(format!("worker {}, without a fault: {error}", self.id));
                }
                Err(Trouble::Wrong(what)) => return Err(format!("worker {}: {what}", self.id)),
            }
            self.operations += 1;
            shared.progress();
        }
        Ok(())
    }

    /// Writes the model's value of every key in doubt.
    pub fn settle(&mut self, db: &Db, families: &[Family<'_>]) -> Done {
        let mut batch = WriteBatch::new();
        for (family, change) in self.model.settling() {
            add(&mut batch, &families[family], &change);
        }
        db.write(&batch)?;
        self.model.doubt.clear();
        Ok(())
    }

    fn operation<'db>(
        &mut self,
        db: &'db Db,
        families: &[Family<'db>],
        views: &mut Vec<View<'db>>,
    ) -> Done {
        let family = self.next(FAMILIES.len() as u64) as usize;
        match self.next(10_000) {
            0..3400 => self.write_one(db, families, family),
            3400..4400 => self.write_many(db, families),
            4400..4450 => self.put_once(db, families, family),
            4450..4500 => self.single_delete(db, families),
            4500..7500 => self.get(&families[family], family),
            7500..8200 => self.multi_get(&families[family], family),
            8200..8800 => self.scan(&families[family], family),
            8800..8820 => self.new_view(db, families, family, views),
            8820..9800 => self.look_at_a_view(families, views),
            9800..9860 => self.describe(db, &families[family]),
            9860..9875 => Ok(families[family].flush()?),
            9875..9880 => self.compact(&families[family]),
            9880..9900 => self.change_options(db, &families[family]),
            9900..9920 => self.short_lived_family(db),
            9920..9940 => self.ingest(families, family),
            9940..9944 => self.checkpoint(db),
            _ => self.delete_range(db, families, family),
        }
    }

    fn write(&mut self, db: &Db, families: &[Family<'_>], changes: &[(usize, Change)]) -> Done {
        let sync = self.next(200) == 0;
        let options = WriteOptions {
            sync,
            ..WriteOptions::default()
        };
        let mut batch = WriteBatch::new();
        for (family, change) in changes {
            add(&mut batch, &families[*family], change);
        }
        match db.write_with(&batch, &options) {
            Ok(()) => {
                for (family, change) in changes {
                    self.model.apply(*family, change);
                }
                Ok(())
            }
            Err(error) => {
                for (family, change) in changes {
                    self.model.put_in_doubt(*family, change);
                }
                Err(error.into())
            }
        }
    }

    fn change(&mut self, family: usize) -> Change {
        let key = self.key();
        let merged = self.model.rows[family].get(&key).map_or(0, |v| v.len());
        match self.next(10) {
            0..6 => Change::Put(key, self.value()),
            6 | 7 if merged < MAX_MERGED => Change::Merge(key, vec![b'm'; 8]),
            _ => Change::Delete(key),
        }
    }

    fn write_one(&mut self, db: &Db, families: &[Family<'_>], family: usize) -> Done {
        let change = self.change(family);
        self.write(db, families, &[(family, change)])
    }

    fn write_many(&mut self, db: &Db, families: &[Family<'_>]) -> Done {
        let count = 2 + self.next(12);
        let mut changes = Vec::new();
        for _ in 0..count {
            let family = self.next(FAMILIES.len() as u64) as usize;
            changes.push((family, self.change(family)));
        }
        self.write(db, families, &changes)
    }

    fn put_once(&mut self, db: &Db, families: &[Family<'_>], family: usize) -> Done {
        if self.once.len() >= MAX_ONCE {
            return self.single_delete(db, families);
        }
        let number = self.unique();
        let key = format!("w{}/s{number:09}", self.id).into_bytes();
        let change = Change::Put(key.clone(), self.value());
        self.write(db, families, &[(family, change)])?;
        self.once.push_back((family, key));
        Ok(())
    }

    fn single_delete(&mut self, db: &Db, families: &[Family<'_>]) -> Done {
        match self.once.pop_front() {
            Some((family, key)) => self.write(db, families, &[(family, Change::SingleDelete(key))]),
            None => Ok(()),
        }
    }

    fn delete_range(&mut self, db: &Db, families: &[Family<'_>], family: usize) -> Done {
        let first = self.next(KEYS);
        let end = first + 1 + self.next(20);
        let bound = |number: u64| format!("w{}/{number:05}", self.id).into_bytes();
        let change = Change::DeleteRange(bound(first), bound(end));
        self.write(db, families, &[(family, change)])
    }

    fn get(&mut self, handle: &Family<'_>, family: usize) -> Done {
        let key = self.key();
        let found = handle.get(&key)?;
        self.same(family, &key, found.as_deref(), "get")
    }

    fn multi_get(&mut self, handle: &Family<'_>, family: usize) -> Done {
        let count = 2 + self.next(30);
        let keys: Vec<Vec<u8>> = (0..count).map(|_| self.key()).collect();
        let found = handle.multi_get(&keys, &ReadOptions::default());
        for (key, found) in keys.iter().zip(found) {
            self.same(family, key, found?.as_deref(), "multi_get")?;
        }
        Ok(())
    }

    fn same(&self, family: usize, key: &[u8], found: Option<&[u8]>, call: &str) -> Done {
        let expected = self.model.rows[family].get(key).map(|value| &value[..]);
        match found == expected {
            true => Ok(()),
            false => Err(wrong(FAMILIES[family].0, key, expected, found, call)),
        }
    }

    /// Reads a few rows from a random key on, forwards or backwards.
    fn scan(&mut self, handle: &Family<'_>, family: usize) -> Done {
        let key = self.key();
        let (steps, forwards) = (1 + self.next(50) as usize, self.next(3) > 0);
        let mut iter = handle.iter_with(&self.own_range());
        let rows = &self.model.rows[family];
        let expected: Vec<_> = match forwards {
            true => rows.range(key.clone()..).take(steps).collect(),
            false => rows.range(..=key.clone()).rev().take(steps).collect(),
        };
        match forwards {
            true => iter.seek(&key),
            false => iter.seek_for_prev(&key),
        }
        for (key, value) in &expected {
            on_row(&iter, key, value, FAMILIES[family].0, "scan")?;
            match forwards {
                true => iter.next(),
                false => iter.prev(),
            }
        }
        if expected.len() < steps {
            at_end(&iter, FAMILIES[family].0, "scan")?;
        }
        Ok(())
    }

    /// Takes a snapshot, or creates an iterator that is used across writes.
    fn new_view<'db>(
        &mut self,
        db: &'db Db,
        families: &[Family<'db>],
        family: usize,
        views: &mut Vec<View<'db>>,
    ) -> Done {
        if views.len() >= MAX_VIEWS {
            let oldest = self.next(views.len() as u64) as usize;
            views.swap_remove(oldest);
        }
        if self.next(2) == 0 {
            let view = View::Snapshot(db.snapshot(), Box::new(self.model.clone()));
            views.push(view);
            return Ok(());
        }
        let mut iter = families[family].iter_with(&self.own_range());
        iter.seek_to_first();
        iter.status()?;
        let rows: Vec<_> = self.model.rows[family]
            .iter()
            .map(|(key, value)| (key.clone(), Arc::clone(value)))
            .collect();
        views.push(View::Iterator(Box::new(iter), rows.into_iter()));
        Ok(())
    }

    /// Compares a part of a view with the state at its creation.
    fn look_at_a_view(&mut self, families: &[Family<'_>], views: &mut Vec<View<'_>>) -> Done {
        if views.is_empty() {
            return Ok(());
        }
        let index = self.next(views.len() as u64) as usize;
        let (family, key) = (self.next(FAMILIES.len() as u64) as usize, self.key());
        let done = match &mut views[index] {
            View::Snapshot(snapshot, model) => {
                let found = snapshot.get_in(&families[family], &key)?;
                let expected = model.rows[family].get(&key).map(|value| &value[..]);
                match found.as_deref() == expected {
                    true => return Ok(()),
                    false => {
                        let name = FAMILIES[family].0;
                        return Err(wrong(name, &key, expected, found.as_deref(), "snapshot"));
                    }
                }
            }
            View::Iterator(iter, rows) => walk(iter, rows),
        };
        // An iterator that ended or failed is discarded.
        if !matches!(done, Ok(true)) {
            views.swap_remove(index);
        }
        done.map(|_| ())
    }

    /// Reads metadata without checking its content.
    fn describe(&mut self, db: &Db, handle: &Family<'_>) -> Done {
        match self.next(6) {
            0 => drop(db.property("rocksdb.stats")),
            1 => drop(handle.property("rocksdb.levelstats")),
            2 => drop(db.live_files_metadata()),
            3 => drop(db.thread_list()),
            4 => {
                db.disable_file_deletions()?;
                let files = db.live_files(false);
                db.enable_file_deletions()?;
                files?;
            }
            _ => drop(db.sorted_wal_files()?),
        }
        Ok(())
    }

    fn compact(&mut self, handle: &Family<'_>) -> Done {
        let (begin, end) = (self.key(), self.key());
        let (begin, end) = (begin.clone().min(end.clone()), begin.max(end));
        let options = CompactRangeOptions::default();
        handle.compact_range(Some(&begin), Some(&end), &options)?;
        Ok(())
    }

    fn change_options(&mut self, db: &Db, handle: &Family<'_>) -> Done {
        let pick = self.next((FAMILY_CHANGES.len() + DB_CHANGES.len()) as u64) as usize;
        match FAMILY_CHANGES.get(pick) {
            Some(change) => handle.set_options(&[*change])?,
            None => db.set_db_options(&[DB_CHANGES[pick - FAMILY_CHANGES.len()]])?,
        }
        Ok(())
    }

    /// Creates, fills, reads and drops a family, and reads it through an iterator after the drop.
    fn short_lived_family(&mut self, db: &Db) -> Done {
        let name = format!("t{}", self.id);
        if let Some(left) = db.family(&name) {
            // An earlier attempt failed after creating it.
            return Ok(db.drop_family(&left)?);
        }
        let handle = db.create_family(&name, &family_options(0))?;
        let rows: Vec<(Vec<u8>, Bytes)> = (0..200)
            .map(|number| (format!("{number:05}").into_bytes(), self.value()))
            .collect();
        for (key, value) in &rows {
            handle.put(key, value)?;
        }
        if self.next(2) == 0 {
            handle.flush()?;
        }
        let mut iter = handle.iter();
        iter.seek_to_first();
        for (number, (key, value)) in rows.iter().enumerate() {
            if number == 100 {
                db.drop_family(&handle)?;
            }
            on_row(&iter, key, value, &name, "dropped family")?;
            iter.next();
        }
        at_end(&iter, &name, "dropped family")
    }

    fn ingest(&mut self, families: &[Family<'_>], family: usize) -> Done {
        let number = self.unique();
        let file = self.folder.join(format!("{}-{number}.sst", self.id));
        let first = self.next(KEYS);
        let changes: Vec<Change> = (first..KEYS.min(first + 30))
            .map(|number| {
                let key = format!("w{}/{number:05}", self.id).into_bytes();
                Change::Put(key, self.value())
            })
            .collect();
        let move_files = self.next(2) == 0;
        let done = ingest(&families[family], &file, &changes, move_files);
        for change in &changes {
            match &done {
                Ok(()) => self.model.apply(family, change),
                Err(_) => self.model.put_in_doubt(family, change),
            }
        }
        // The file may have been moved, or never written.
        let _ = std::fs::remove_file(&file);
        Ok(done?)
    }

    /// Creates a checkpoint and finds its own rows in it.
    fn checkpoint(&mut self, db: &Db) -> Done {
        let folder = self.folder.join(format!("checkpoint-{}", self.id));
        // A fault may have prevented the cleanup of an earlier checkpoint.
        if folder.exists() {
            let removed = std::fs::remove_dir_all(&folder);
            removed.map_err(|error| Trouble::Wrong(format!("{}: {error}", folder.display())))?;
        }
        let log_size = [0, u64::MAX][self.next(2) as usize];
        db.create_checkpoint(&folder, log_size)?;
        let options = Options::default();
        let copy = Db::open(&folder, &options)?;
        let same = self.check_rows(&copy, "checkpoint");
        copy.close()?;
        Db::destroy(&folder, &options)?;
        same
    }

    /// Compares all its rows, except those in doubt, with those of `db`.
    pub fn check_rows(&self, db: &Db, place: &str) -> Done {
        for (family, handle) in families(db).map_err(Trouble::Wrong)?.iter().enumerate() {
            let mut iter = handle.iter_with(&self.own_range());
            iter.seek_to_first();
            let doubtful = |key: &[u8]| self.model.doubt.contains(&(family, key.to_vec()));
            for (key, value) in &self.model.rows[family] {
                while iter.valid() && doubtful(iter.key()) {
                    iter.next();
                }
                if !doubtful(key) {
                    on_row(&iter, key, value, handle.name(), place)?;
                    iter.next();
                }
            }
            while iter.valid() && doubtful(iter.key()) {
                iter.next();
            }
            at_end(&iter, handle.name(), place)?;
        }
        Ok(())
    }
}

/// Returns the shared families of `db` in the order of [`FAMILIES`].
pub fn families(db: &Db) -> Result<Vec<Family<'_>>, String> {
    let family = |(name, _): &(&'static str, &'static str)| {
        let found = db.family(name);
        found.ok_or_else(|| format!("the family {name} is gone"))
    };
    FAMILIES.iter().map(family).collect()
}

fn add(batch: &mut WriteBatch, family: &Family<'_>, change: &Change) {
    match change {
        Change::Put(key, value) => batch.put_in(family, key, value),
        Change::Merge(key, operand) => batch.merge_in(family, key, operand),
        Change::Delete(key) => batch.delete_in(family, key),
        Change::SingleDelete(key) => batch.single_delete_in(family, key),
        Change::DeleteRange(begin, end) => batch.delete_range_in(family, begin, end),
    }
}

fn ingest(
    family: &Family<'_>,
    file: &Path,
    changes: &[Change],
    move_files: bool,
) -> Result<(), Error> {
    let mut writer = SstFileWriter::for_family(family);
    writer.open(file)?;
    for change in changes {
        if let Change::Put(key, value) = change {
            writer.put(key, value)?;
        }
    }
    writer.finish()?;
    let options = IngestExternalFileOptions {
        move_files,
        ..IngestExternalFileOptions::default()
    };
    family.ingest_external_file([file], &options)
}

/// Advances an iterator some steps; returns false at its end.
fn walk(
    iter: &mut Iter<'_>,
    rows: &mut std::vec::IntoIter<(Vec<u8>, Bytes)>,
) -> Result<bool, Trouble> {
    for _ in 0..8 {
        let Some((key, value)) = rows.next() else {
            at_end(iter, "a walk", "old iterator")?;
            return Ok(false);
        };
        on_row(iter, &key, &value, "a walk", "old iterator")?;
        iter.next();
    }
    Ok(true)
}

fn on_row(iter: &Iter<'_>, key: &[u8], value: &[u8], family: &str, call: &str) -> Done {
    if !iter.valid() {
        iter.status()?;
        return Err(wrong(family, key, Some(value), None, call));
    }
    match iter.key() == key {
        true if iter.value() == value => Ok(()),
        true => Err(wrong(family, key, Some(value), Some(iter.value()), call)),
        false => Err(Trouble::Wrong(format!(
            "{call} of {family}: expected the key {}, found {}",
            shown(key),
            shown(iter.key())
        ))),
    }
}

fn at_end(iter: &Iter<'_>, family: &str, call: &str) -> Done {
    if iter.valid() {
        return Err(wrong(family, iter.key(), None, Some(iter.value()), call));
    }
    Ok(iter.status()?)
}

fn wrong(
    family: &str,
    key: &[u8],
    expected: Option<&[u8]>,
    found: Option<&[u8]>,
    call: &str,
) -> Trouble {
    let text = |value: Option<&[u8]>| match value {
        None => "nothing".to_owned(),
        Some(value) => format!("{} bytes {}", value.len(), shown(value)),
    };
    Trouble::Wrong(format!(
        "{call} of {} in {family}: expected {}, found {}",
        shown(key),
        text(expected),
        text(found)
    ))
}

/// Formats the first bytes as text.
fn shown(bytes: &[u8]) -> String {
    bytes[..bytes.len().min(24)].escape_ascii().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{database_options, descriptors};

    /// Returns a database with the rows of a worker after a short run.
    fn worked(folder: &Path) -> (Db, Worker) {
        let options = database_options(0).unwrap();
        let builder = Db::builder(folder.join("db")).options(options);
        let db = builder.families(descriptors()).open().unwrap();
        let mut worker = Worker::new(0, 7, folder);
        let handles = families(&db).unwrap();
        let mut views = Vec::new();
        for _ in 0..2000 {
            let done = worker.operation(&db, &handles, &mut views);
            assert!(done.is_ok());
        }
        assert!(worker.check_rows(&db, "at first").is_ok());
        drop((handles, views));
        (db, worker)
    }

    fn folder(name: &str) -> PathBuf {
        let name = format!("cairn-soak-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir(&folder).unwrap();
        folder
    }

    #[test]
    fn lost_added_and_changed_rows_are_detected() {
        let folder = folder("rows");
        let (db, mut worker) = worked(&folder);
        let handle = db.family("universal").unwrap();
        let (key, value) = worker.model.rows[1].first_key_value().unwrap();
        let (key, value) = (key.clone(), Arc::clone(value));

        handle.delete(&key).unwrap();
        assert!(worker.check_rows(&db, "lost").is_err());
        assert!(worker.same(1, &key, None, "get").is_err());
        handle.put(&key, b"other").unwrap();
        assert!(worker.check_rows(&db, "changed").is_err());
        handle.put(&key, &value).unwrap();
        assert!(worker.check_rows(&db, "mended").is_ok());
        handle.put(b"w0/zzz", b"").unwrap();
        assert!(worker.check_rows(&db, "added").is_err());

        // A row in doubt may have either value until it is resolved.
        worker.model.doubt.insert((1, b"w0/zzz".to_vec()));
        assert!(worker.check_rows(&db, "in doubt").is_ok());
        assert!(worker.settle(&db, &families(&db).unwrap()).is_ok());
        assert!(worker.model.doubt.is_empty() && handle.get(b"w0/zzz").unwrap().is_none());
        db.close().unwrap();
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn an_iterator_detects_an_unexpected_row() {
        let folder = folder("walk");
        let (db, worker) = worked(&folder);
        let mut rows = worker.model.rows[0].clone();
        let (missing, _) = rows.pop_first().unwrap();
        let mut iter = db.iter_with(&worker.own_range());
        iter.seek(&missing);
        let mut expected = rows.into_iter().collect::<Vec<_>>().into_iter();
        assert!(walk(&mut iter, &mut expected).is_err());
        drop(iter);
        db.close().unwrap();
        std::fs::remove_dir_all(folder).unwrap();
    }
}
