//! Replays the MANIFEST into column families and their versions.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

use cairn_format::key::InternalKey;
use cairn_format::log::{Event, LogReader};
use cairn_format::manifest::{FamilyChange, LogReach, VersionEdit};
use cairn_format::names::FileName;
use cairn_platform::fs::FileMode;
use cairn_platform::sync::Arc;
use cairn_platform::{FileSystem, RandomAccessFile};
use cairn_types::{Error, FileNumber, KeyOrder, Result, SequenceNumber, Subcode};

use crate::builder::Builder;
use crate::edit::TreeEdit;
use crate::file_meta::FileMeta;
use crate::level::check_bounds;
use crate::manifest::writer::rotation_size;
use crate::manifest::{damaged, torn};
use crate::version::Version;

/// The name of the default column family.
pub(super) const DEFAULT_FAMILY: &str = "default";

/// The comparator of column families for which none is recorded.
const DEFAULT_COMPARATOR: &str = "leveldb.BytewiseComparator";

/// The state that a MANIFEST describes.
#[derive(Clone, Debug)]
pub struct Recovered {
    /// MANIFEST number.
    pub manifest: FileNumber,
    /// Size of its valid part in bytes.
    pub manifest_bytes: u64,
    /// Live families in id order, starting with the default family.
    pub families: Vec<RecoveredFamily>,
    /// Next file number, larger than every number in the MANIFEST.
    pub next_file: FileNumber,
    /// The last sequence number.
    pub last_sequence: SequenceNumber,
    /// The smallest WAL number that is still needed.
    pub min_log_to_keep: FileNumber,
    /// The largest family id ever allocated.
    pub max_family: u32,
    /// Database id, if recorded.
    pub db_id: Option<String>,
    /// Tracked WALs with their synced sizes.
    pub wals: BTreeMap<FileNumber, Option<u64>>,
    /// The WAL position up to which all data is in tables.
    pub log_reach: Option<LogReach>,
    /// The families recovered to a state older than their last one.
    pub set_back: Vec<String>,
    /// The unread end of the MANIFEST, if recovery continues despite damage.
    pub unread: Option<UnreadTail>,
    /// The clean end, if the last record is one and replay has assigned nothing that is not
    /// recorded.
    pub ending: Option<CleanEnd>,
}

/// The part of a MANIFEST that starts at its first damage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadTail {
    /// Its offset.
    pub offset: u64,
    /// Its size in bytes.
    pub bytes: u64,
    /// The reason.
    pub reason: String,
}

/// A final record that allows the MANIFEST to be continued.
///
/// It is written on close, if every sync of the MANIFEST and of CURRENT succeeded. Everything
/// before it is durable. The record itself may not be, and nothing may follow a record that is not
/// durable, so it is truncated before the MANIFEST is continued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CleanEnd {
    /// Offset of the record.
    pub offset: u64,
    /// Size of the MANIFEST after its initial snapshot, in bytes.
    pub fresh_bytes: u64,
}

impl CleanEnd {
    /// Returns the size at which the MANIFEST is rotated; see
    /// [`crate::manifest::Manifest::wants_rotation`].
    #[must_use]
    pub fn limit(self, limit: u64, percent: u32) -> u64 {
        rotation_size(self.fresh_bytes, limit, percent)
    }

    /// Returns the clean end if `edit` at `offset` is one.
    pub(super) fn of(edit: &VersionEdit, offset: u64) -> Option<CleanEnd> {
        let fresh_bytes = edit.compacted_manifest_bytes?;
        (*edit == VersionEdit::of_end(fresh_bytes)).then_some(CleanEnd {
            offset,
            fresh_bytes,
        })
    }
}

/// The recovered state of one column family.
#[derive(Clone, Debug)]
pub struct RecoveredFamily {
    /// Column family id.
    pub id: u32,
    /// Column family name.
    pub name: String,
    /// Its version, with just enough levels for its files. Every file has an epoch.
    pub version: Version,
    /// The oldest WAL that may hold unflushed data.
    pub log_number: FileNumber,
    /// History below this timestamp may have been dropped; empty if never set.
    pub full_history_ts_low: Vec<u8>,
    /// True if its tables store user-defined timestamps.
    pub persist_timestamps: bool,
}

/// Replays MANIFEST `number` of `dir`. A torn append at the end and an incomplete atomic group are
/// ignored.
///
/// `order` returns the key order of a family by the names of the family and of its comparator.
///
/// # Errors
///
/// `Corruption` with file and offset, for damage inside the file and for contradictory edits; errors of
/// `order`; `IoError`.
pub fn replay(
    fs: &dyn FileSystem,
    dir: &Path,
    number: FileNumber,
    order: &dyn Fn(&str, &str) -> Result<KeyOrder>,
) -> Result<Recovered> {
    let path = dir.join(FileName::Manifest(number).to_string());
    let mut replay = Replay::new(number);
    let end = read(fs, &path, &mut |edit, offset| {
        replay.ending = CleanEnd::of(&edit, offset);
        replay.take(edit)
    })?;
    replay
        .finish(order, end)
        .map_err(|error| match error.is_corruption() {
            true => damaged(&path, end, error.text()),
            false => error,
        })
}

/// Returns the names of the live families in id order. No trees are built, so comparators need not
/// be known.
///
/// # Errors
///
/// As [`replay`].
pub fn families(fs: &dyn FileSystem, dir: &Path, number: FileNumber) -> Result<Vec<String>> {
    let path = dir.join(FileName::Manifest(number).to_string());
    let mut replay = Replay::new(number);
    read(fs, &path, &mut |edit, _| replay.take(edit))?;
    let families = replay.families.into_values();
    Ok(families.map(|family| family.name).collect())
}

/// Passes the edits of the MANIFEST at `path`, with their offsets, to `take`, up to the end or a
/// torn append. Returns the end of the last valid record.
pub(super) fn read(
    fs: &dyn FileSystem,
    path: &Path,
    take: &mut dyn FnMut(VersionEdit, u64) -> Result<()>,
) -> Result<u64> {
    let file = fs.open(path, FileMode::default())?;
    read_from(&*file, path, 0, take)
}

/// Like [`read`], of the open `file` at `path` from `offset` on, where a record begins.
pub(super) fn read_from(
    file: &dyn RandomAccessFile,
    path: &Path,
    offset: u64,
    take: &mut dyn FnMut(VersionEdit, u64) -> Result<()>,
) -> Result<u64> {
    match read_file_up_to_damage(file, path, offset, take)? {
        (end, None) => Ok(end),
        (_, Some((_, damage))) => Err(damage),
    }
}

/// Like [`read`], but stops at damage or at an edit that `take` rejects: its offset and error are
/// returned with the end of the last valid record.
pub(super) fn read_up_to_damage(
    fs: &dyn FileSystem,
    path: &Path,
    take: &mut dyn FnMut(VersionEdit, u64) -> Result<()>,
) -> Result<(u64, Option<(u64, Error)>)> {
    let file = fs.open(path, FileMode::default())?;
    read_file_up_to_damage(&*file, path, 0, take)
}

/// Like [`read_up_to_damage`], of the open `file` at `path` from the offset `from` on.
fn read_file_up_to_damage(
    file: &dyn RandomAccessFile,
    path: &Path,
    from: u64,
    take: &mut dyn FnMut(VersionEdit, u64) -> Result<()>,
) -> Result<(u64, Option<(u64, Error)>)> {
    let source = |at: u64, buf: &mut [u8]| file.read_up_to_end(at, buf);
    let mut reader = LogReader::starting_at(source, 0, from);
    let damage = loop {
        let (at, taken) = match reader.next()? {
            Event::Record { offset, payload } => {
                let edit = VersionEdit::decode(payload)
                    .map_err(|malformed| malformed.in_file(path.display(), offset));
                let take = |edit| {
                    take(edit, offset).map_err(|error| match error.is_corruption() {
                        true => damaged(path, offset, error.text()),
                        false => error,
                    })
                };
                (offset, edit.and_then(take))
            }
            Event::Dropped(dropped) => {
                if torn::is_torn_append(file, dropped.offset, dropped.reason.is_torn())? {
                    break None;
                }
                let error = damaged(path, dropped.offset, dropped.reason);
                (dropped.offset, Err(error))
            }
            Event::End(_) => break None,
            // Record types of WALs; no RocksDB writes them to a MANIFEST.
            Event::Compression(_) | Event::TimestampSizes(_) | Event::Predecessor(_) => {
                let at = reader.whole_up_to();
                let error = damaged(path, at, "record type that is valid in WALs only");
                (at, Err(error))
            }
        };
        match taken {
            Err(error) if error.is_corruption() => break Some((at, error)),
            taken => taken?,
        }
    };
    Ok((reader.whole_up_to(), damage))
}

/// Verifies the length of MANIFEST `number` of `dir`, of which `bytes` were written, and its records if `reads_it`.
///
/// # Errors
///
/// `Corruption` with file and offset, also if it is missing; `IoError`.
pub fn verify(
    fs: &dyn FileSystem,
    dir: &Path,
    number: FileNumber,
    bytes: u64,
    reads_it: bool,
) -> Result<()> {
    let path = dir.join(FileName::Manifest(number).to_string());
    let found = match fs.status(&path) {
        Err(error) if error.subcode() == Subcode::PathNotFound => {
            return Err(damaged(&path, 0, "the file is missing"));
        }
        status => status?.len,
    };
    let end = match reads_it && found == bytes {
        true => read(fs, &path, &mut |_, _| Ok(()))?,
        false => bytes.min(found),
    };
    match end == bytes && found == bytes {
        true => Ok(()),
        false => Err(damaged(
            &path,
            end,
            format_args!(
                "end of the records of a file of {found} bytes, of which {bytes} were written"
            ),
        )),
    }
}

/// Buffers the edits of an atomic group until the group is complete.
#[derive(Default)]
pub(super) struct Groups {
    waiting: Vec<VersionEdit>,
}

impl Groups {
    /// Adds `edit` and returns the edits that take effect; `None` while the group is incomplete.
    pub(super) fn complete(&mut self, edit: VersionEdit) -> Result<Option<Vec<VersionEdit>>> {
        let remaining =
            |edit: &VersionEdit| edit.atomic_group_remaining.or(edit.family_group_remaining);
        let expected = self.waiting.last().and_then(remaining);
        match (expected, remaining(&edit)) {
            (None, None) => {
                debug_assert!(self.waiting.is_empty(), "buffered edits belong to a group");
                Ok(Some(vec![edit]))
            }
            (Some(before), Some(remaining)) if before.checked_sub(1) != Some(remaining) => {
                Err(Error::corruption(format!(
                    "remaining edits of an atomic group: expected {}, found {remaining}",
                    before.saturating_sub(1)
                )))
            }
            (Some(_), None) => Err(Error::corruption(
                "edit inside an atomic group that it does not belong to",
            )),
            (_, Some(remaining)) => {
                self.waiting.push(edit);
                Ok((remaining == 0).then(|| std::mem::take(&mut self.waiting)))
            }
        }
    }
}

/// A family under construction.
struct Family {
    name: String,
    comparator: Option<String>,
    tree: Builder,
    log_number: FileNumber,
    /// The recorded values of `full_history_ts_low`, of which the newest timestamp applies.
    history_lows: Vec<Vec<u8>>,
    persist_timestamps: bool,
    /// True if tables are recorded as without timestamps.
    has_stripped: bool,
    /// The version that was built last, whose files have their final bounds.
    built: Option<Version>,
}

impl Family {
    fn new(name: &str) -> Family {
        Family {
            name: name.to_owned(),
            comparator: None,
            tree: Version::empty(KeyOrder::Bytewise, 1).builder(),
            log_number: FileNumber(0),
            history_lows: Vec::new(),
            persist_timestamps: true,
            has_stripped: false,
            built: None,
        }
    }

    /// The newest recorded value of `full_history_ts_low` for keys in `order`; empty if there is none.
    fn history_low(&self, order: &KeyOrder) -> Vec<u8> {
        let lows = self.history_lows.iter();
        let lows = lows.filter(|low| low.len() == order.timestamp_size());
        // Keys that differ only in their timestamps are ordered newest first.
        lows.min_by(|a, b| order.compare(a, b))
            .cloned()
            .unwrap_or_default()
    }

    /// Builds the version of the edits so far, in which `order` is the order of the keys. Later edits continue it.
    fn build(&mut self, order: KeyOrder) -> Result<Version> {
        let timestamp = order.timestamp_size();
        let empty = Version::empty(KeyOrder::Bytewise, 1).builder();
        let mut tree = std::mem::replace(&mut self.tree, empty).with_order(order);
        if self.has_stripped {
            let built = self.built.iter().flat_map(Version::files);
            let final_bounds: HashSet<_> = built.map(|(_, file)| Arc::as_ptr(file)).collect();
            tree.map_files(|file| match final_bounds.contains(&Arc::as_ptr(file)) {
                true => file.clone(),
                false => with_bounds_of_order(file, timestamp),
            });
        }
        let version = tree.build()?;
        check_bounds(version.order(), 0, version.level(0).files())?;
        self.tree = version.builder();
        self.built = Some(version.clone());
        Ok(version)
    }
}

/// State of a replay.
pub(super) struct Replay {
    manifest: FileNumber,
    families: BTreeMap<u32, Family>,
    /// The family and the level of each table, also of dropped families.
    tables: HashMap<FileNumber, (u32, usize)>,
    /// The family of each blob file, also of dropped families.
    blobs: HashMap<FileNumber, u32>,
    groups: Groups,
    /// Number of edits and whole groups applied.
    units: usize,
    /// The last unit to apply for each family; `None` applies all of them.
    states: Option<BTreeMap<u32, usize>>,
    log_number_seen: bool,
    next_file: Option<FileNumber>,
    last_sequence: Option<SequenceNumber>,
    /// The largest file number in any edit.
    largest_number: FileNumber,
    min_log_to_keep: FileNumber,
    max_family: u32,
    db_id: Option<String>,
    wals: BTreeMap<FileNumber, Option<u64>>,
    log_reach: Option<LogReach>,
    pub(super) ending: Option<CleanEnd>,
    /// Files of an earlier replay. Those that are added again keep their metadata and open tables.
    pub(super) known: HashMap<FileNumber, Arc<FileMeta>>,
}

impl Replay {
    pub(super) fn new(manifest: FileNumber) -> Replay {
        Replay {
            manifest,
            families: BTreeMap::from([(0, Family::new(DEFAULT_FAMILY))]),
            tables: HashMap::new(),
            blobs: HashMap::new(),
            groups: Groups::default(),
            units: 0,
            states: None,
            log_number_seen: false,
            next_file: None,
            last_sequence: None,
            largest_number: manifest,
            min_log_to_keep: FileNumber(0),
            max_family: 0,
            db_id: None,
            wals: BTreeMap::new(),
            log_reach: None,
            ending: None,
            known: HashMap::new(),
        }
    }

    /// Limits each family to the given unit.
    pub(super) fn up_to(mut self, states: BTreeMap<u32, usize>) -> Replay {
        self.states = Some(states);
        self
    }

    /// Returns the number of edits and whole groups applied.
    pub(super) fn units(&self) -> usize {
        self.units
    }

    /// Applies the next edit; edits of a group are buffered until it is complete.
    pub(super) fn take(&mut self, edit: VersionEdit) -> Result<()> {
        let Some(unit) = self.groups.complete(edit)? else {
            return Ok(());
        };
        self.units += 1;
        unit.into_iter().try_for_each(|edit| self.apply(edit))
    }

    fn apply(&mut self, edit: VersionEdit) -> Result<()> {
        self.apply_global(&edit);
        match &edit.family_change {
            Some(FamilyChange::Add { name }) => self.add_family(edit.family, name)?,
            Some(FamilyChange::Drop) => return self.drop_family(edit.family),
            None => {}
        }
        let last = self.states.as_ref().map(|states| states.get(&edit.family));
        if last.is_some_and(|last| last.is_none_or(|last| *last < self.units)) {
            return Ok(());
        }
        let Some(family) = self.families.get_mut(&edit.family) else {
            return Err(Error::corruption(format!(
                "version edit of column family {}, which does not exist",
                edit.family
            )));
        };
        debug_assert!(
            edit.family <= self.max_family,
            "the largest family id is tracked"
        );
        let mut tree = TreeEdit::from(edit.tree);
        for (_, file) in &mut tree.added {
            if let Some(known) = self.known.get(&file.number).filter(|it| is_same(it, file)) {
                *file = known.clone();
            }
        }
        if let Some(comparator) = edit.comparator {
            family.comparator = Some(comparator);
        }
        if let Some(log) = edit.log_number {
            self.log_number_seen = true;
            family.log_number = family.log_number.max(log);
        }
        if let Some(low) = edit.full_history_ts_low {
            family.history_lows.push(low);
        }
        if let Some(persist) = edit.persist_timestamps {
            family.persist_timestamps = persist;
        }
        let mut added = tree.added.iter();
        family.has_stripped |= added.any(|(_, file)| !file.timestamps.persisted);
        family.tree.apply(&tree)?;
        self.track_files(edit.family, &tree)
    }

    /// Applies a change of `family` that no MANIFEST records.
    pub(super) fn change(&mut self, family: u32, change: &TreeEdit) -> Result<()> {
        let Some(changed) = self.families.get_mut(&family) else {
            return Ok(());
        };
        changed.tree.apply(change)?;
        self.track_files(family, change)
    }

    /// Checks that the tables that `change` adds to `family` are in no other level, and that they and the blob files are in
    /// no other family. A compaction or a purge would otherwise delete one that is in use.
    fn track_files(&mut self, family: u32, change: &TreeEdit) -> Result<()> {
        for (_, number) in &change.deleted {
            self.tables.remove(number);
        }
        let name = |id: u32| self.families.get(&id).map(|family| family.name.as_str());
        let into = name(family).unwrap_or_default();
        for (level, file) in &change.added {
            let before = self.tables.insert(file.number, (family, *level));
            let before = before.and_then(|(owner, level)| Some((name(owner)?, level)));
            if let Some((owner, in_level)) = before {
                return Err(Error::corruption(format!(
                    "version edit adds table {} to level {level} of column family {into:?}, but it is in level {in_level} \
                     of column family {owner:?}",
                    file.number
                )));
            }
        }
        for blob in &change.added_blobs {
            let before = self.blobs.insert(blob.number, family);
            let before = before.filter(|owner| *owner != family).and_then(name);
            if let Some(owner) = before {
                return Err(Error::corruption(format!(
                    "version edit adds blob file {} to column family {into:?}, but it is in column family {owner:?}",
                    blob.number
                )));
            }
        }
        Ok(())
    }

    /// Returns the first log that is needed. Old MANIFESTs have it for each family only.
    pub(super) fn first_log(&self) -> FileNumber {
        let unflushed = self.families.values().map(|family| family.log_number).min();
        match self.min_log_to_keep {
            FileNumber(0) => unflushed.unwrap_or_default(),
            kept => kept,
        }
    }

    /// Takes the files of the versions that were built last, by number.
    pub(super) fn into_files(self) -> HashMap<FileNumber, Arc<FileMeta>> {
        let versions = self.families.values().filter_map(|it| it.built.as_ref());
        let files = versions.flat_map(Version::files);
        files.map(|(_, file)| (file.number, file.clone())).collect()
    }

    /// Applies the database-wide fields of an edit.
    fn apply_global(&mut self, edit: &VersionEdit) {
        if let Some(id) = &edit.db_id {
            self.db_id = Some(id.clone());
        }
        self.next_file = self.next_file.max(edit.next_file_number);
        self.last_sequence = self.last_sequence.max(edit.last_sequence);
        if let Some(log) = edit.min_log_number_to_keep {
            self.min_log_to_keep = self.min_log_to_keep.max(log);
        }
        self.max_family = self
            .max_family
            .max(edit.max_family.unwrap_or(0))
            .max(edit.family);
        for wal in &edit.wals.additions {
            let size = self.wals.entry(wal.number).or_default();
            *size = (*size).max(wal.synced_bytes);
        }
        self.log_reach = self.log_reach.max(edit.log_reach);
        if let Some(before) = edit.wals.deleted_before {
            self.wals.retain(|&number, _| number >= before);
        }
        let files = edit.tree.new_files.iter().map(|file| file.number);
        let blobs = edit.tree.blob_additions.iter().map(|blob| blob.number);
        let logs = edit.log_number.into_iter();
        let logs = logs.chain(edit.min_log_number_to_keep);
        for number in files.chain(blobs).chain(logs) {
            self.largest_number = self.largest_number.max(number);
        }
    }

    fn add_family(&mut self, id: u32, name: &str) -> Result<()> {
        if id == 0 && name == DEFAULT_FAMILY {
            return Ok(());
        }
        let taken = self.families.contains_key(&id)
            || self.families.values().any(|family| family.name == name);
        if taken {
            return Err(Error::corruption(format!(
                "version edit adds column family {name:?} with id {id}, but the name or the id exists"
            )));
        }
        self.families.insert(id, Family::new(name));
        Ok(())
    }

    fn drop_family(&mut self, id: u32) -> Result<()> {
        if id == 0 || self.families.remove(&id).is_none() {
            let reason = match id {
                0 => "cannot be dropped",
                _ => "does not exist",
            };
            return Err(Error::corruption(format!(
                "version edit drops column family {id}, which {reason}"
            )));
        }
        Ok(())
    }

    /// Builds the versions. `end` is the end of the last valid record.
    pub(super) fn finish(
        mut self,
        order: &dyn Fn(&str, &str) -> Result<KeyOrder>,
        end: u64,
    ) -> Result<Recovered> {
        self.state(
            &|family, comparator| order(family, comparator).map(Some),
            end,
        )
    }

    /// Builds the versions of the state so far. `end` is the end of the last valid record. Families without a result
    /// of `order` are left out. After an error, the replay cannot be continued.
    pub(super) fn state(
        &mut self,
        order: &dyn Fn(&str, &str) -> Result<Option<KeyOrder>>,
        end: u64,
    ) -> Result<Recovered> {
        let missing = |what: &str| Error::corruption(format!("no {what} is recorded"));
        let next_file = self.next_file.ok_or_else(|| missing("next file number"))?;
        let last_sequence = self
            .last_sequence
            .ok_or_else(|| missing("last sequence number"))?;
        if !self.log_number_seen {
            return Err(missing("log number"));
        }
        assert!(
            self.families.contains_key(&0),
            "the default family cannot be dropped"
        );
        let mut families = Vec::with_capacity(self.families.len());
        // Epochs assigned here are not recorded, so the MANIFEST must not be continued.
        let mut ending = self.ending;
        for (&id, family) in &mut self.families {
            let comparator = family.comparator.as_deref().unwrap_or(DEFAULT_COMPARATOR);
            let Some(order) = order(&family.name, comparator)? else {
                continue;
            };
            let low = family.history_low(&order);
            let version = family
                .build(order)
                .map_err(|error| error.context(format_args!("column family {:?}", family.name)))?;
            if version.files().any(|(_, file)| file.epoch == 0) {
                ending = None;
            }
            families.push(RecoveredFamily {
                id,
                name: family.name.clone(),
                version: version.with_epochs(false).with_history_low(&low),
                log_number: family.log_number,
                full_history_ts_low: low,
                persist_timestamps: family.persist_timestamps,
            });
        }
        Ok(Recovered {
            manifest: self.manifest,
            manifest_bytes: end,
            families,
            next_file: next_file.max(FileNumber(self.largest_number.0.saturating_add(1))),
            last_sequence,
            min_log_to_keep: self.min_log_to_keep,
            max_family: self.max_family,
            db_id: self.db_id.clone(),
            wals: self.wals.clone(),
            log_reach: self.log_reach,
            set_back: Vec::new(),
            unread: None,
            ending,
        })
    }
}

/// True if two records describe the same table.
fn is_same(a: &FileMeta, b: &FileMeta) -> bool {
    a.size == b.size
        && a.path_id == b.path_id
        && a.smallest == b.smallest
        && a.largest == b.largest
        && a.seqs.largest == b.seqs.largest
        && a.epoch == b.epoch
        && a.unique_id == b.unique_id
        && a.oldest_blob == b.oldest_blob
}

/// Returns `file` with bounds of an order of keys with timestamps of `timestamp_size` bytes. If they are recorded without
/// timestamps, the minimum timestamp, all zeros, is appended to their user keys; in an order without timestamps they are
/// those of keys as they are.
fn with_bounds_of_order(file: &Arc<FileMeta>, timestamp_size: usize) -> Arc<FileMeta> {
    if file.timestamps.persisted {
        return file.clone();
    }
    if timestamp_size == 0 {
        let mut file = FileMeta::clone(file);
        file.timestamps.persisted = true;
        return Arc::new(file);
    }
    let padded = |bound: &InternalKey| {
        let user = [bound.user_key(), &vec![0; timestamp_size]].concat();
        InternalKey::new(&user, bound.seq(), bound.kind())
    };
    let mut file = FileMeta::clone(file);
    file.smallest = padded(&file.smallest);
    file.largest = padded(&file.largest);
    Arc::new(file)
}
