//! Reading the MANIFEST back into families and their trees.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use cairn_format::key::InternalKey;
use cairn_format::log::{Event, LogReader};
use cairn_format::manifest::{FamilyChange, LogReach, VersionEdit};
use cairn_format::names::FileName;
use cairn_platform::FileSystem;
use cairn_platform::fs::FileMode;
use cairn_platform::sync::Arc;
use cairn_types::{Error, FileNumber, KeyOrder, Result, SequenceNumber};

use crate::builder::Builder;
use crate::edit::TreeEdit;
use crate::file_meta::FileMeta;
use crate::manifest::writer::most_bytes;
use crate::manifest::{damaged, torn};
use crate::version::Version;

/// The name of the family that every database has.
pub(super) const DEFAULT_FAMILY: &str = "default";

/// The comparator of families for which none is recorded.
const DEFAULT_COMPARATOR: &str = "leveldb.BytewiseComparator";

/// The state that a MANIFEST describes.
#[derive(Clone, Debug)]
pub struct Recovered {
    /// The MANIFEST.
    pub manifest: FileNumber,
    /// Its length in bytes, up to the last whole record.
    pub manifest_bytes: u64,
    /// The families that exist, by id; the default family first.
    pub families: Vec<RecoveredFamily>,
    /// The next free file number, above every number that the MANIFEST mentions.
    pub next_file: FileNumber,
    /// The last sequence number.
    pub last_sequence: SequenceNumber,
    /// No WAL with a smaller number is needed by anybody.
    pub min_log_to_keep: FileNumber,
    /// The largest family id ever given.
    pub max_family: u32,
    /// The database's id, if recorded.
    pub db_id: Option<String>,
    /// WALs that the MANIFEST vouches for, with their synced sizes.
    pub wals: BTreeMap<FileNumber, Option<u64>>,
    /// The log that tables are newer than, and how far.
    pub log_reach: Option<LogReach>,
    /// Families whose newest states are not whole: what is here is older.
    pub set_back: Vec<String>,
    /// The end of the MANIFEST that nothing was made of, where damage is no reason to give up.
    pub unread: Option<UnreadTail>,
    /// The last record, if it is such a one and nothing here is more than the records say.
    pub ending: Option<CleanEnd>,
}

/// The end of a MANIFEST, from the first record that is not right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadTail {
    /// Where it begins.
    pub offset: u64,
    /// Its length in bytes.
    pub bytes: u64,
    /// The reason.
    pub reason: String,
}

/// The last record of a MANIFEST that may be gone on with.
///
/// It is written when a database is closed whose syncs of the MANIFEST, and of CURRENT that names it, all
/// succeeded. So everything before it is durable. It may not be so itself, and what is not durable must
/// not have anything behind it: it has to go first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CleanEnd {
    /// Where the record begins.
    pub offset: u64,
    /// The bytes that the MANIFEST had when it was fresh.
    pub fresh_bytes: u64,
}

impl CleanEnd {
    /// The bytes that the MANIFEST may have before a fresh one should replace it; see
    /// [`crate::manifest::Manifest::wants_rotation`].
    #[must_use]
    pub fn limit(self, limit: u64, percent: u32) -> u64 {
        most_bytes(self.fresh_bytes, limit, percent)
    }

    /// The ending that the record of `edit` at `offset` is, if it is one.
    fn of(edit: &VersionEdit, offset: u64) -> Option<CleanEnd> {
        let fresh_bytes = edit.compacted_manifest_bytes?;
        (*edit == VersionEdit::of_end(fresh_bytes)).then_some(CleanEnd {
            offset,
            fresh_bytes,
        })
    }
}

/// The state of one family in a MANIFEST.
#[derive(Clone, Debug)]
pub struct RecoveredFamily {
    /// Its id.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// Its files, in as many levels as hold any. Every file has an epoch.
    pub version: Version,
    /// The oldest WAL that may hold unflushed data of it.
    pub log_number: FileNumber,
    /// Timestamps below this one may be gone; empty if never set.
    pub full_history_ts_low: Vec<u8>,
    /// True if its tables store user-defined timestamps.
    pub persist_timestamps: bool,
}

/// Replays MANIFEST `number` of `dir`. An append that a power cut cut short is left out in
/// silence, as is an atomic group that is not complete.
///
/// `order` gives the order of a family's keys by the names of family and comparator.
///
/// # Errors
///
/// `Corruption` that names file and offset, for damage inside the file and for edits that
/// contradict those before them; errors of `order`; `IoError`.
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

/// The names of the families that the MANIFEST with this number describes, in the order of their ids.
/// Their trees are not built: nothing needs to be known of their comparators.
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

/// Hands the edits of the MANIFEST at `path`, with their offsets, to `take`, up to its end or an append that a power cut
/// cut short. The offset behind the last whole record.
pub(super) fn read(
    fs: &dyn FileSystem,
    path: &Path,
    take: &mut dyn FnMut(VersionEdit, u64) -> Result<()>,
) -> Result<u64> {
    match read_up_to_damage(fs, path, take)? {
        (end, None) => Ok(end),
        (_, Some((_, damage))) => Err(damage),
    }
}

/// [`read`], where damage, or an edit that `take` finds to contradict others, is an end too: its offset, and
/// what it is, come with that of the last whole record.
pub(super) fn read_up_to_damage(
    fs: &dyn FileSystem,
    path: &Path,
    take: &mut dyn FnMut(VersionEdit, u64) -> Result<()>,
) -> Result<(u64, Option<(u64, Error)>)> {
    let file = fs.open(path, FileMode::default())?;
    let mut reader = LogReader::new(|at: u64, buf: &mut [u8]| file.read_up_to_end(at, buf), 0);
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
                if torn::is_cut_short(&*file, dropped.offset, dropped.reason.is_torn())? {
                    break None;
                }
                let error = damaged(path, dropped.offset, dropped.reason);
                (dropped.offset, Err(error))
            }
            Event::End(_) => break None,
            // Only WALs have these; a MANIFEST with one was not written by any RocksDB.
            Event::Compression(_) | Event::TimestampSizes(_) | Event::Predecessor(_) => {
                let at = reader.whole_up_to();
                let error = damaged(path, at, "record that only a WAL may have");
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

/// Reads MANIFEST `number` of `dir`, of which `bytes` were written, without making anything of it.
///
/// # Errors
///
/// `Corruption` that names file and offset for whatever is not as it was written; `IoError`.
pub fn verify(fs: &dyn FileSystem, dir: &Path, number: FileNumber, bytes: u64) -> Result<()> {
    let path = dir.join(FileName::Manifest(number).to_string());
    let end = read(fs, &path, &mut |_, _| Ok(()))?;
    let found = fs.status(&path)?.len;
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

/// The edits of atomic groups, held until the last of a group is there.
#[derive(Default)]
pub(super) struct Groups {
    waiting: Vec<VersionEdit>,
}

impl Groups {
    /// The edits that take effect with `edit`; none while its group is not complete.
    pub(super) fn complete(&mut self, edit: VersionEdit) -> Result<Option<Vec<VersionEdit>>> {
        let remaining =
            |edit: &VersionEdit| edit.atomic_group_remaining.or(edit.family_group_remaining);
        let expected = self.waiting.last().and_then(remaining);
        match (expected, remaining(&edit)) {
            (None, None) => Ok(Some(vec![edit])),
            (Some(before), Some(remaining)) if before.checked_sub(1) != Some(remaining) => {
                Err(Error::corruption(format!(
                    "edits that remain of an atomic group: expected {}, found {remaining}",
                    before.saturating_sub(1)
                )))
            }
            (Some(_), None) => Err(Error::corruption(
                "edit outside of the atomic group around it",
            )),
            (_, Some(remaining)) => {
                self.waiting.push(edit);
                Ok((remaining == 0).then(|| std::mem::take(&mut self.waiting)))
            }
        }
    }
}

/// A family in the making.
struct Family {
    name: String,
    comparator: Option<String>,
    tree: Builder,
    log_number: FileNumber,
    full_history_ts_low: Vec<u8>,
    persist_timestamps: bool,
}

impl Family {
    fn new(name: &str) -> Family {
        Family {
            name: name.to_owned(),
            comparator: None,
            tree: Version::empty(KeyOrder::Bytewise, 1).builder(),
            log_number: FileNumber(0),
            full_history_ts_low: Vec::new(),
            persist_timestamps: true,
        }
    }
}

/// Edits taken so far.
pub(super) struct Replay {
    manifest: FileNumber,
    families: BTreeMap<u32, Family>,
    dropped: HashSet<u32>,
    groups: Groups,
    /// Edits and whole groups taken.
    units: usize,
    /// The last of them that each family follows, if not all do.
    states: Option<BTreeMap<u32, usize>>,
    log_number_seen: bool,
    next_file: Option<FileNumber>,
    last_sequence: Option<SequenceNumber>,
    /// The largest file number that any edit mentions.
    largest_number: FileNumber,
    min_log_to_keep: FileNumber,
    max_family: u32,
    db_id: Option<String>,
    wals: BTreeMap<FileNumber, Option<u64>>,
    log_reach: Option<LogReach>,
    ending: Option<CleanEnd>,
}

impl Replay {
    pub(super) fn new(manifest: FileNumber) -> Replay {
        Replay {
            manifest,
            families: BTreeMap::from([(0, Family::new(DEFAULT_FAMILY))]),
            dropped: HashSet::new(),
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
        }
    }

    /// The same, with each family no later than at the given one of the edits and groups.
    pub(super) fn up_to(mut self, states: &BTreeMap<u32, usize>) -> Replay {
        self.states = Some(states.clone());
        self
    }

    /// Edits and whole groups taken.
    pub(super) fn units(&self) -> usize {
        self.units
    }

    /// Takes the next edit; one of a group waits for the last of it.
    pub(super) fn take(&mut self, edit: VersionEdit) -> Result<()> {
        let Some(unit) = self.groups.complete(edit)? else {
            return Ok(());
        };
        self.units += 1;
        unit.into_iter().try_for_each(|edit| self.apply(edit))
    }

    fn apply(&mut self, mut edit: VersionEdit) -> Result<()> {
        self.apply_global(&edit);
        match &edit.family_change {
            Some(FamilyChange::Add { name }) => self.add_family(edit.family, name)?,
            Some(FamilyChange::Drop) => return self.drop_family(edit.family),
            None => {}
        }
        if self.dropped.contains(&edit.family) {
            return Ok(());
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
        let tree = TreeEdit::take(&mut edit);
        if let Some(comparator) = edit.comparator {
            family.comparator = Some(comparator);
        }
        if let Some(log) = edit.log_number {
            self.log_number_seen = true;
            family.log_number = family.log_number.max(log);
        }
        if let Some(low) = edit.full_history_ts_low {
            family.full_history_ts_low = low;
        }
        if let Some(persist) = edit.persist_timestamps {
            family.persist_timestamps = persist;
        }
        family.tree.apply(&tree)
    }

    /// Takes what an edit says about the database as a whole.
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
        for wal in &edit.wal_additions {
            let size = self.wals.entry(wal.number).or_default();
            *size = (*size).max(wal.synced_bytes);
        }
        self.log_reach = self.log_reach.max(edit.log_reach);
        if let Some(before) = edit.wals_deleted_before {
            self.wals.retain(|&number, _| number >= before);
        }
        let files = edit.new_files.iter().map(|file| file.number);
        let blobs = edit.blob_additions.iter().map(|blob| blob.number);
        let logs = edit.log_number.into_iter();
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
                "version edit adds column family {name:?} with id {id}, one of which exists"
            )));
        }
        self.dropped.remove(&id);
        self.families.insert(id, Family::new(name));
        Ok(())
    }

    fn drop_family(&mut self, id: u32) -> Result<()> {
        if self.dropped.insert(id) && (id == 0 || self.families.remove(&id).is_none()) {
            return Err(Error::corruption(format!(
                "version edit drops column family {id}, which cannot be dropped"
            )));
        }
        Ok(())
    }

    /// Builds the trees. `end` is the offset behind the last whole record.
    pub(super) fn finish(
        self,
        order: &dyn Fn(&str, &str) -> Result<KeyOrder>,
        end: u64,
    ) -> Result<Recovered> {
        let missing =
            |what: &str| Error::corruption(format!("no {what} is recorded up to the end"));
        let next_file = self.next_file.ok_or_else(|| missing("next file number"))?;
        let last_sequence = self
            .last_sequence
            .ok_or_else(|| missing("last sequence number"))?;
        if !self.log_number_seen {
            return Err(missing("log number"));
        }
        let mut families = Vec::with_capacity(self.families.len());
        // Epochs that are given here stand in no record: files that join would not fit among them.
        let mut ending = self.ending;
        for (id, family) in self.families {
            let comparator = family.comparator.as_deref().unwrap_or(DEFAULT_COMPARATOR);
            let order = order(&family.name, comparator)?;
            let timestamp = order.timestamp_size();
            let mut tree = family.tree.with_order(order);
            if timestamp > 0 {
                tree.map_files(|file| with_bounds_padded(file, timestamp));
            }
            let version = tree
                .build()
                .map_err(|error| error.context(format_args!("column family {:?}", family.name)))?;
            if version.files().any(|(_, file)| file.epoch == 0) {
                ending = None;
            }
            families.push(RecoveredFamily {
                id,
                name: family.name,
                version: version.with_epochs(false),
                log_number: family.log_number,
                full_history_ts_low: family.full_history_ts_low,
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
            db_id: self.db_id,
            wals: self.wals,
            log_reach: self.log_reach,
            set_back: Vec::new(),
            unread: None,
            ending,
        })
    }
}

/// `file` with the smallest timestamp, which is all zeros, at the end of the user keys of its
/// bounds, if they are recorded without one.
fn with_bounds_padded(file: &Arc<FileMeta>, timestamp_size: usize) -> Arc<FileMeta> {
    if file.timestamps_persisted {
        return file.clone();
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
