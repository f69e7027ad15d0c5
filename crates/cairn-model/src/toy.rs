//! An engine that is correct by inspection: an in-memory map and one log file. The checkers must
//! detect its optional bugs.
//!
//! ```text
//! log     = record*
//! record  = length of the payload (4) | checksum of the payload (4) | payload
//! payload = operations as text, one per line: one batch, or one change of families
//! ```

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cairn_platform::fs::{FileLock, FileMode};
use cairn_platform::{FileSystem, World, WritableFile};
use cairn_types::{Error, Result};

use crate::engine::{Engine, Factory};
use crate::merge_kind::MergeKind;
use crate::model::DEFAULT;
use crate::operation::Operation;
use crate::ops::write::Batch;
use crate::options::OptionSet;
use crate::scan::Entries;
use crate::scan::{Direction, Scan};
use crate::write_entry::{Change, Write, bytes_of};

/// A bug of the toy engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// A synced write is not synced.
    SyncOmitted,
    /// A sync error is ignored.
    SyncErrorIgnored,
    /// The directory is not synced after the log was created.
    DirectoryNotSynced,
    /// Replay continues after a damaged record.
    ReplayIgnoresDamage,
    /// Each write of a batch is logged as a separate record.
    BatchSplit,
    /// Replay ignores the last record.
    ReplayStopsEarly,
    /// A snapshot sees later writes.
    SnapshotSeesLater,
    /// A backward iterator skips its first entry.
    BackwardSkipsFirst,
    /// A merge ignores the existing value.
    MergeIgnoresBase,
}

/// Factory of toy engines.
pub struct ToyFactory {
    bug: Option<Bug>,
}

impl ToyFactory {
    /// Returns a factory of correct engines.
    #[must_use]
    pub fn correct() -> ToyFactory {
        ToyFactory { bug: None }
    }

    /// Returns a factory of engines with this bug.
    #[must_use]
    pub fn with_bug(bug: Bug) -> ToyFactory {
        ToyFactory { bug: Some(bug) }
    }
}

impl Factory for ToyFactory {
    fn name(&self) -> &str {
        "toy"
    }

    fn open(&self, world: &World, dir: &Path, options: &OptionSet) -> Result<Box<dyn Engine>> {
        Toy::open(self.bug, &world.fs, dir, options.merge).map(|toy| Box::new(toy) as _)
    }
}

type Families = BTreeMap<String, BTreeMap<Vec<u8>, Vec<u8>>>;

struct Toy {
    bug: Option<Bug>,
    merge: MergeKind,
    families: Families,
    snapshots: BTreeMap<u64, Families>,
    next_snapshot: u64,
    log: Arc<dyn WritableFile>,
    /// The log error that stopped all writes.
    stopped: Option<Error>,
    _lock: Box<dyn FileLock>,
}

/// Size of a record header.
const HEADER: usize = 8;

fn checksum(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| {
        (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    })
}

/// Returns the payload of the first record of `log`, if it is complete.
fn record(log: &[u8]) -> Option<&[u8]> {
    let len = u32::from_le_bytes(*log.first_chunk()?) as usize;
    let sum = u32::from_le_bytes(*log.get(4..)?.first_chunk()?);
    let payload = log.get(HEADER..HEADER.checked_add(len)?)?;
    (len > 0 && checksum(payload) == sum).then_some(payload)
}

fn read(fs: &Arc<dyn FileSystem>, path: &Path) -> Result<Vec<u8>> {
    let file = fs.open(path, FileMode::default())?;
    let mut bytes = vec![0; file.len()? as usize];
    let got = file.read_at(0, &mut bytes)?;
    bytes.truncate(got);
    Ok(bytes)
}

impl Toy {
    fn open(
        bug: Option<Bug>,
        fs: &Arc<dyn FileSystem>,
        dir: &Path,
        merge: MergeKind,
    ) -> Result<Toy> {
        fs.create_dir_all(dir)?;
        fs.sync_dir(dir.parent().unwrap_or(dir))?;
        let lock = fs.lock(&dir.join("LOCK"))?;
        let path: PathBuf = dir.join("LOG");
        let next = dir.join("LOG.next");
        if fs.exists(&next)? {
            fs.remove(&next)?;
        }
        let old = match fs.exists(&path)? {
            true => read(fs, &path)?,
            false => Vec::new(),
        };
        let mut toy = Toy {
            bug,
            merge,
            families: Families::from([(DEFAULT.to_owned(), BTreeMap::new())]),
            snapshots: BTreeMap::new(),
            next_snapshot: 1,
            log: fs.create(&next, FileMode::default())?,
            stopped: None,
            _lock: lock,
        };
        toy.replay(&old)?;
        // The recovered content is rewritten and synced first: the old log may end with a partial
        // record, or contain pages that a failed sync did not write.
        toy.log.sync(false)?;
        fs.rename(&next, &path)?;
        if bug != Some(Bug::DirectoryNotSynced) {
            fs.sync_dir(dir)?;
        }
        Ok(toy)
    }

    fn replay(&mut self, bytes: &[u8]) -> Result<()> {
        let mut payloads = Vec::new();
        let mut at = 0;
        while at < bytes.len() {
            match record(&bytes[at..]) {
                Some(payload) => {
                    payloads.push(payload);
                    at += HEADER + payload.len();
                }
                None if self.bug == Some(Bug::ReplayIgnoresDamage) => at += 1,
                None => break,
            }
        }
        if self.bug == Some(Bug::ReplayStopsEarly) {
            payloads.pop();
        }
        for payload in payloads {
            let lines = String::from_utf8_lossy(payload);
            self.append(&lines)?;
            for line in lines.lines() {
                self.apply(line)?;
            }
        }
        Ok(())
    }

    /// Stops all writes after a log error, which leaves the content of the log unknown.
    fn logged(&mut self, done: Result<()>) -> Result<()> {
        if let Err(error) = &done {
            self.stopped = Some(error.clone());
        }
        done
    }

    fn append(&mut self, payload: &str) -> Result<()> {
        if let Some(error) = &self.stopped {
            return Err(error.clone());
        }
        let payload = payload.as_bytes();
        let len =
            u32::try_from(payload.len()).map_err(|_| Error::invalid_argument("batch too large"))?;
        let header = [len.to_le_bytes(), checksum(payload).to_le_bytes()].concat();
        let done = self.log.append(&[&header, payload].concat());
        self.logged(done)
    }

    /// Applies a line of a payload.
    fn apply(&mut self, line: &str) -> Result<()> {
        match line.split_once(' ') {
            Some(("createfamily", name)) => {
                self.families.insert(name.to_owned(), BTreeMap::new());
                Ok(())
            }
            Some(("dropfamily", name)) => {
                self.families.remove(name);
                Ok(())
            }
            _ => {
                let batch: Batch = line.parse()?;
                batch.writes.iter().try_for_each(|write| self.put(write))
            }
        }
    }

    /// Logs and applies a line.
    fn log_and_apply(&mut self, line: &str) -> Result<()> {
        self.append(line)?;
        self.sync()?;
        self.apply(line)
    }

    fn put(&mut self, write: &Write) -> Result<()> {
        let ignores_base = self.bug == Some(Bug::MergeIgnoresBase);
        let merge = self.merge;
        let family = self
            .families
            .get_mut(&write.family)
            .ok_or_else(|| Error::invalid_argument(format!("no family {}", write.family)))?;
        match &write.change {
            Change::Put(value) => {
                family.insert(write.key.clone(), value.bytes());
            }
            // The toy engine keeps the default column only.
            Change::PutEntity(columns) => {
                let columns = bytes_of(columns);
                let default = columns.into_iter().find(|(name, _)| name.is_empty());
                let value = default.map(|(_, value)| value).unwrap_or_default();
                family.insert(write.key.clone(), value);
            }
            Change::Merge(operand) => {
                let existing = family.get(&write.key).filter(|_| !ignores_base);
                let merged = merge.apply(existing.map(Vec::as_slice), &operand.bytes());
                family.insert(write.key.clone(), merged);
            }
            Change::Delete | Change::SingleDelete => {
                family.remove(&write.key);
            }
            Change::DeleteRange(end) => family.retain(|key, _| *key < write.key || key >= end),
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        if let Some(error) = &self.stopped {
            return Err(error.clone());
        }
        match self.log.sync(false) {
            Err(_) if self.bug == Some(Bug::SyncErrorIgnored) => Ok(()),
            done => self.logged(done),
        }
    }

    fn seen(&self, snapshot: Option<u64>) -> &Families {
        match snapshot {
            Some(name) if self.bug != Some(Bug::SnapshotSeesLater) => {
                self.snapshots.get(&name).unwrap_or(&self.families)
            }
            _ => &self.families,
        }
    }
}

impl Engine for Toy {
    fn write(&mut self, writes: &[Write], sync: bool) -> Result<()> {
        for Write { family, .. } in writes {
            if !self.families.contains_key(family) {
                return Err(Error::invalid_argument(format!("no family {family}")));
            }
        }
        let batch = Batch {
            writes: writes.to_vec(),
            sync: false,
        };
        if self.bug == Some(Bug::BatchSplit) {
            for write in writes {
                self.append(&write.to_string())?;
            }
        } else {
            self.append(&batch.line())?;
        }
        if sync && self.bug != Some(Bug::SyncOmitted) {
            self.sync()?;
        }
        self.apply(&batch.line())
    }

    fn get(&mut self, family: &str, key: &[u8], snapshot: Option<u64>) -> Result<Option<Vec<u8>>> {
        let family = self.seen(snapshot).get(family);
        Ok(family.and_then(|family| family.get(key).cloned()))
    }

    fn scan(&mut self, family: &str, scan: &Scan, snapshot: Option<u64>) -> Result<Entries> {
        let Some(family) = self.seen(snapshot).get(family) else {
            return Ok(Entries::new());
        };
        let inside = |key: &Vec<u8>| {
            scan.lower.as_ref().is_none_or(|lower| key >= lower)
                && scan.upper.as_ref().is_none_or(|upper| key < upper)
        };
        let from = scan.from.as_ref();
        let entries = family.iter().filter(|(key, _)| inside(key));
        let owned = |(key, value): (&Vec<u8>, &Vec<u8>)| (key.clone(), value.clone());
        Ok(match scan.direction {
            Direction::Forward => entries
                .filter(|(key, _)| from.is_none_or(|from| *key >= from))
                .take(scan.limit)
                .map(owned)
                .collect(),
            Direction::Backward => entries
                .rev()
                .filter(|(key, _)| from.is_none_or(|from| *key <= from))
                .skip(usize::from(self.bug == Some(Bug::BackwardSkipsFirst)))
                .take(scan.limit)
                .map(owned)
                .collect(),
        })
    }

    fn snapshot(&mut self) -> Result<u64> {
        let name = self.next_snapshot;
        self.next_snapshot += 1;
        self.snapshots.insert(name, self.families.clone());
        Ok(name)
    }

    fn release(&mut self, snapshot: u64) {
        self.snapshots.remove(&snapshot);
    }

    fn flush(&mut self, _families: &[String]) -> Result<()> {
        self.sync()
    }

    fn compact(&mut self, _: &str, _: Option<&[u8]>, _: Option<&[u8]>) -> Result<()> {
        Ok(())
    }

    fn sync_wal(&mut self) -> Result<()> {
        self.sync()
    }

    fn create_family(&mut self, name: &str) -> Result<()> {
        self.log_and_apply(&format!("createfamily {name}"))
    }

    fn drop_family(&mut self, name: &str) -> Result<()> {
        self.log_and_apply(&format!("dropfamily {name}"))
    }

    fn families(&self) -> Vec<String> {
        self.families.keys().cloned().collect()
    }

    fn stopped(&self) -> Option<String> {
        self.stopped.as_ref().map(Error::to_string)
    }

    fn close(mut self: Box<Self>) -> Result<()> {
        self.sync()?;
        self.log.close()
    }
}
