//! Ingestion: chooses the level and the sequence number of external files.
//!
//! A file goes to the lowest level such that nothing in it or above it overlaps the file:
//! everything below is older regardless of its sequence number, so the file may keep sequence
//! number 0. If something overlaps, the file goes above it and all its entries get one new sequence
//! number, newer than everything in the tree. Overlapping files of one ingestion are placed batch
//! by batch, later batches above earlier ones.
//!
//! [`place`] is a pure function of the version, the running compactions, and the result of
//! [`first_overlap`], which reads tables.

use cairn_format::key::{self, InternalKey};
use cairn_format::trace::block_cache::CacheCaller;
use cairn_memtable::Memtable;
use cairn_options::CompactionStyle;
use cairn_platform::Io;
use cairn_platform::sync::Arc;
use cairn_table::{IterOptions, Table, TableIter};
use cairn_types::{Code, Error, KeyOrder, Result, SequenceNumber, Subcode, ValueKind};
use cairn_version::{Version, bounds};

use crate::context::OpenTable;
use crate::pick::InProgress;

/// A file to ingest.
#[derive(Clone, Debug)]
pub struct Incoming {
    /// Lower bound of its keys and range tombstones.
    pub smallest: InternalKey,
    /// Upper bound of its keys and range tombstones.
    pub largest: InternalKey,
    /// The first level with data within its bounds; see [`first_overlap`].
    pub first_overlap: Option<usize>,
}

/// Options that apply to all files of one ingestion into one family.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// The compaction style.
    pub style: CompactionStyle,
    /// The base level of level-0 compactions; the levels above it are empty.
    pub base_level: usize,
    /// True if snapshots require a new sequence number even without overlap.
    pub new_sequence: bool,
    /// True if files of the ingestion overlap each other.
    pub files_overlap: bool,
    /// True if the files keep their sequence numbers.
    pub keep_sequences: bool,
    /// True if the files must go to the last level.
    pub last_level_only: bool,
    /// True for `ingest_behind`: the files go below all existing data.
    pub behind: bool,
}

/// The level and sequence number that an ingested file is assigned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AssignedLevel {
    /// The level.
    pub level: usize,
    /// The sequence number assigned to its entries; zero if they keep theirs.
    pub seq: SequenceNumber,
}

/// Returns the upper bound of `file` as a key that includes all versions of its user key.
fn inclusive(largest: &InternalKey) -> InternalKey {
    InternalKey::new(largest.user_key(), SequenceNumber::ZERO, ValueKind::Value)
}

/// True if the bounds of `a` and `b` overlap.
#[must_use]
pub fn overlap(order: &KeyOrder, a: &Incoming, b: &Incoming) -> bool {
    bounds::compare(order, a.smallest.as_bytes(), b.largest.as_bytes()).is_le()
        && bounds::compare(order, b.smallest.as_bytes(), a.largest.as_bytes()).is_le()
}

/// Divides `files`, in order, into batches of consecutive files that do not overlap. If no two
/// files overlap, there is a single batch.
#[must_use]
pub fn batches(order: &KeyOrder, files: &[Incoming]) -> Vec<Vec<usize>> {
    let mut sorted: Vec<&Incoming> = files.iter().collect();
    sorted.sort_by(|a, b| key::compare(order, a.smallest.as_bytes(), b.smallest.as_bytes()));
    let any = sorted
        .windows(2)
        .any(|pair| overlap(order, pair[0], pair[1]));
    if !any {
        return vec![(0..files.len()).collect()];
    }
    let mut batches: Vec<Vec<usize>> = vec![Vec::new()];
    for (at, file) in files.iter().enumerate() {
        let last = batches.last_mut().expect("there is always a batch");
        // As in RocksDB, the range of the whole batch counts: a file in a gap of the batch starts
        // the next batch, which is always correct.
        let touches = last
            .iter()
            .any(|&other| overlap(order, &files[other], file))
            || spans(order, last.iter().map(|&at| &files[at]), file);
        if touches {
            batches.push(vec![at]);
        } else {
            last.push(at);
        }
    }
    debug_assert_eq!(batches.iter().map(Vec::len).sum::<usize>(), files.len());
    batches
}

/// True if `file` overlaps the range from the first to the last key of `batch`.
fn spans<'a>(
    order: &KeyOrder,
    batch: impl Iterator<Item = &'a Incoming> + Clone,
    file: &Incoming,
) -> bool {
    let starts_before = batch.clone().any(|other| {
        bounds::compare(order, other.smallest.as_bytes(), file.largest.as_bytes()).is_le()
    });
    let ends_behind = batch.clone().any(|other| {
        bounds::compare(order, other.largest.as_bytes(), file.smallest.as_bytes()).is_ge()
    });
    starts_before && ends_behind
}

/// Returns the place of `file`. `last` is the last allocated sequence number, including earlier files
/// of this ingestion; `previous` is the uppermost level of the previous batch, if any.
///
/// # Errors
///
/// `TryAgain` if the file must go to the last level but cannot; `InvalidArgument` if a rule forbids
/// the placement.
pub fn place(
    version: &Version,
    busy: &InProgress,
    rules: &Rules,
    file: &Incoming,
    last: SequenceNumber,
    previous: Option<usize>,
) -> Result<AssignedLevel> {
    if rules.behind {
        return behind(version, file);
    }
    if rules.keep_sequences && rules.new_sequence {
        return Err(Error::invalid_argument(
            "snapshots exist, and files that keep their sequence numbers (allow_db_generated_files) would change what \
             they see: ingest them without snapshot_consistency, or release the snapshots",
        ));
    }
    let next = last.plus(1);
    let top_only = previous == Some(0) || rules.style == CompactionStyle::Fifo;
    let numbered = rules.new_sequence || rules.files_overlap || top_only;
    let renumbered = numbered && !rules.keep_sequences;
    if renumbered && top_only {
        if rules.last_level_only && version.num_levels() > 1 {
            return Err(not_at_the_bottom());
        }
        return Ok(AssignedLevel {
            level: 0,
            seq: next,
        });
    }
    let end = match previous {
        _ if top_only => 0,
        Some(level) => level,
        None => version.num_levels(),
    };
    let lowest = lowest_level(version, busy, rules, file, end);
    if rules.last_level_only && lowest.level + 1 < version.num_levels() {
        return Err(not_at_the_bottom());
    }
    if lowest.overlaps {
        refuse_overlap(version, rules)?;
    }
    assert!(
        lowest.level < version.num_levels(),
        "the place is a level of the tree"
    );
    assert!(
        lowest.level == 0 || previous.is_none_or(|previous| lowest.level < previous),
        "a batch goes above the previous one"
    );
    let seq = match lowest.overlaps || renumbered {
        true => next,
        false => SequenceNumber::ZERO,
    };
    Ok(AssignedLevel {
        level: lowest.level,
        seq,
    })
}

/// The lowest level that a file can enter.
struct Lowest {
    level: usize,
    /// True if the file overlaps older entries.
    overlaps: bool,
}

/// Finds the lowest level before `end` that `file` can enter.
fn lowest_level(
    version: &Version,
    busy: &InProgress,
    rules: &Rules,
    file: &Incoming,
    end: usize,
) -> Lowest {
    let order = version.order();
    let largest = inclusive(&file.largest);
    let (from, to) = (file.smallest.as_bytes(), largest.as_bytes());
    let looked_at = match rules.keep_sequences {
        true => version.num_levels(),
        false => end,
    };
    let mut level = 0;
    for at in 0..looked_at {
        if busy.writes(order, at, from, to) || file.first_overlap == Some(at) {
            return Lowest {
                level,
                overlaps: true,
            };
        }
        let usable = at == 0 || at >= rules.base_level;
        if at < end && usable && (at == 0 || !version.overlaps(at, Some(from), Some(to))) {
            level = at;
        }
    }
    Lowest {
        level,
        overlaps: false,
    }
}

/// Rejects a file that overlaps older entries if it cannot get a newer sequence number.
fn refuse_overlap(version: &Version, rules: &Rules) -> Result<()> {
    if version.order().timestamp_size() > 0 {
        return Err(Error::invalid_argument(
            "an external file overlaps keys of the family, whose keys have timestamps: the \
             order of the two could not be told",
        ));
    }
    if rules.keep_sequences {
        return Err(Error::invalid_argument(
            "an external file overlaps keys of the family, and with allow_db_generated_files \
             it keeps its own sequence numbers",
        ));
    }
    Ok(())
}

/// Returns the last level if the file fits into it and all data above it has non-zero sequence
/// numbers.
fn behind(version: &Version, file: &Incoming) -> Result<AssignedLevel> {
    let level = version.num_levels() - 1;
    let largest = inclusive(&file.largest);
    if version.overlaps(
        level,
        Some(file.smallest.as_bytes()),
        Some(largest.as_bytes()),
    ) {
        return Err(Error::invalid_argument(
            "a file cannot be ingested behind: it overlaps tables of the last level",
        ));
    }
    let zero = version
        .files()
        .find(|(at, file)| *at < level && file.seqs.smallest == SequenceNumber::ZERO);
    if let Some((at, file)) = zero {
        return Err(Error::invalid_argument(format!(
            "a file cannot be ingested behind: table {} of level {at} has entries without sequence \
             number, so the family was not written with cf_allow_ingest_behind from the beginning",
            file.number
        )));
    }
    Ok(AssignedLevel {
        level,
        seq: SequenceNumber::ZERO,
    })
}

#[cold]
fn not_at_the_bottom() -> Error {
    Error::new(
        Code::TryAgain,
        Subcode::None,
        "a file cannot go to the last level: tables, running compactions or other files of the \
         ingestion overlap it (fail_if_not_bottommost_level is set)",
    )
}

/// Returns the first level of `version` with a key or range tombstone between the two bounds.
///
/// # Errors
///
/// Read errors of the tables.
pub fn first_overlap(
    version: &Version,
    smallest: &InternalKey,
    largest: &InternalKey,
    open: &OpenTable,
    io: &Io,
) -> Result<Option<usize>> {
    let to = inclusive(largest);
    for level in 0..version.num_levels() {
        let files = version.overlapping(level, Some(smallest.as_bytes()), Some(to.as_bytes()));
        for file in files {
            if holds(&open(&file, level)?, smallest, largest, io)? {
                return Ok(Some(level));
            }
        }
    }
    Ok(None)
}

/// True if `table` has a key or range tombstone between the two bounds, both inclusive.
fn holds(
    table: &Arc<Table>,
    smallest: &InternalKey,
    largest: &InternalKey,
    io: &Io,
) -> Result<bool> {
    let order = table.order().clone();
    if let Some(tombstones) = table.range_tombstones() {
        let size = order.timestamp_size();
        let from = key::strip_timestamp(smallest.user_key(), size);
        let to = key::strip_timestamp(largest.user_key(), size);
        if tombstones.touch(&order, from, to) {
            return Ok(true);
        }
    }
    let options = IterOptions {
        fill_cache: false,
        caller: CacheCaller::Ingestion,
        ..IterOptions::default()
    };
    let mut iter = TableIter::new(table.clone(), options);
    let target = first_of(&order, smallest.user_key());
    let progress = iter.seek(target.as_bytes());
    iter.complete(progress, io);
    iter.status()?;
    Ok(iter.valid()
        && order
            .compare_without_timestamp(key::user_key(iter.key()), largest.user_key())
            .is_le())
}

/// True if `memtable` has a key or range tombstone between the two bounds. They are inclusive, unless `largest` is the end
/// of a range tombstone.
#[must_use]
pub fn memtable_holds(
    memtable: &Arc<Memtable>,
    smallest: &InternalKey,
    largest: &InternalKey,
) -> bool {
    let order = memtable.order();
    let size = order.timestamp_size();
    if memtable.has_range_tombstones() {
        let from = key::strip_timestamp(smallest.user_key(), size);
        let to = key::strip_timestamp(largest.user_key(), size);
        let groups = memtable.range_tombstones();
        let is_exclusive = largest.is_exclusive_bound();
        if groups.iter().any(|group| match is_exclusive {
            true => group.clipped(order, Some(from), Some(to)).next().is_some(),
            false => group.touch(order, from, to),
        }) {
            return true;
        }
    }
    let mut iter = memtable.iter();
    iter.seek(first_of(order, smallest.user_key()).as_bytes());
    // The flush of a damaged memtable reports the damage.
    if iter.status().is_err() {
        return true;
    }
    if !iter.valid() {
        return false;
    }
    let end = order.compare_without_timestamp(key::user_key(iter.key()), largest.user_key());
    end.is_lt() || end.is_eq() && !largest.is_exclusive_bound()
}

/// Returns the internal key before all entries of `user_key`, whatever their timestamp.
#[must_use]
pub fn first_of(order: &KeyOrder, user_key: &[u8]) -> InternalKey {
    let size = order.timestamp_size();
    let mut first = key::strip_timestamp(user_key, size).to_vec();
    first.resize(first.len() + size, 0xff);
    InternalKey::new(&first, SequenceNumber::MAX, ValueKind::FOR_SEEK)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cairn_types::FileNumber;
    use cairn_version::{FileMeta, TreeEdit};

    fn bound(text: &str) -> InternalKey {
        InternalKey::new(text.as_bytes(), SequenceNumber::ZERO, ValueKind::Value)
    }

    fn incoming(from: &str, to: &str, first_overlap: Option<usize>) -> Incoming {
        Incoming {
            smallest: bound(from),
            largest: bound(to),
            first_overlap,
        }
    }

    fn tree(files: &[(usize, u64, &str, &str)]) -> Version {
        let added = files.iter().map(|&(level, number, from, to)| {
            let mut file = FileMeta::new(FileNumber(number), 10, bound(from), bound(to));
            (file.seqs.smallest, file.seqs.largest) = (SequenceNumber(3), SequenceNumber(9));
            file.epoch = number;
            (level, Arc::new(file))
        });
        let edit = TreeEdit {
            added: added.collect(),
            ..TreeEdit::default()
        };
        Version::empty(KeyOrder::Bytewise, 4)
            .with_edit(&edit)
            .unwrap()
    }

    fn rules() -> Rules {
        Rules {
            style: CompactionStyle::Level,
            base_level: 1,
            new_sequence: false,
            files_overlap: false,
            keep_sequences: false,
            last_level_only: false,
            behind: false,
        }
    }

    const LAST: SequenceNumber = SequenceNumber(10);

    fn placed(version: &Version, rules: &Rules, file: &Incoming) -> Result<(usize, u64)> {
        place(version, &InProgress::default(), rules, file, LAST, None)
            .map(|place| (place.level, place.seq.0))
    }

    #[test]
    fn a_file_that_nothing_overlaps_goes_to_the_bottom_without_a_number() {
        let version = tree(&[(0, 1, "a", "b"), (3, 2, "x", "z")]);
        assert_eq!(
            placed(&version, &rules(), &incoming("c", "d", None)).unwrap(),
            (3, 0)
        );
    }

    #[test]
    fn a_file_in_a_gap_between_keys_of_a_table_stays_above_that_table() {
        // The bounds overlap table 2, but the entries do not.
        let version = tree(&[(3, 2, "a", "z")]);
        assert_eq!(
            placed(&version, &rules(), &incoming("c", "d", None)).unwrap(),
            (2, 0)
        );
        assert_eq!(
            placed(&version, &rules(), &incoming("c", "d", Some(3))).unwrap(),
            (2, 11)
        );
        let bottom = Rules {
            last_level_only: true,
            ..rules()
        };
        let refused = placed(&version, &bottom, &incoming("c", "d", None)).unwrap_err();
        assert_eq!(refused.code(), Code::TryAgain);
    }

    #[test]
    fn the_output_range_of_a_running_compaction_counts_as_data() {
        let version = tree(&[]);
        let mut busy = InProgress::default();
        let id = busy.reserve(2, &bound("a"), &bound("m"));
        let file = incoming("c", "d", None);
        let place_now =
            |busy: &InProgress| place(&version, busy, &rules(), &file, LAST, None).unwrap();
        assert_eq!(
            place_now(&busy),
            AssignedLevel {
                level: 1,
                seq: SequenceNumber(11)
            }
        );
        busy.remove(id);
        assert_eq!(
            place_now(&busy),
            AssignedLevel {
                level: 3,
                seq: SequenceNumber::ZERO
            }
        );
    }

    #[test]
    fn snapshots_require_a_number_and_fifo_requires_level_0() {
        let version = tree(&[]);
        let forced = Rules {
            new_sequence: true,
            ..rules()
        };
        assert_eq!(
            placed(&version, &forced, &incoming("c", "d", None)).unwrap(),
            (3, 11)
        );
        let fifo = Rules {
            style: CompactionStyle::Fifo,
            ..rules()
        };
        assert_eq!(
            placed(&version, &fifo, &incoming("c", "d", None)).unwrap(),
            (0, 11)
        );
    }

    #[test]
    fn files_that_keep_their_numbers_must_not_overlap() {
        let version = tree(&[(1, 2, "a", "z")]);
        let keep = Rules {
            keep_sequences: true,
            ..rules()
        };
        assert!(placed(&version, &keep, &incoming("c", "d", Some(1))).is_err());
        assert_eq!(
            placed(&version, &keep, &incoming("c", "d", None)).unwrap(),
            (3, 0)
        );
        let seen = Rules {
            new_sequence: true,
            ..keep
        };
        assert!(placed(&version, &seen, &incoming("c", "d", None)).is_err());
    }

    #[test]
    fn ingest_behind_uses_the_last_level_below_numbered_data() {
        let rules = Rules {
            behind: true,
            ..rules()
        };
        let version = tree(&[(0, 1, "a", "z")]);
        assert_eq!(
            placed(&version, &rules, &incoming("c", "d", Some(0))).unwrap(),
            (3, 0)
        );
        let version = tree(&[(3, 1, "a", "z")]);
        assert!(placed(&version, &rules, &incoming("c", "d", None)).is_err());
    }

    #[test]
    fn later_files_go_above_earlier_ones_that_they_overlap() {
        let order = KeyOrder::Bytewise;
        let files = [
            incoming("a", "c", None),
            incoming("d", "f", None),
            incoming("b", "e", None),
            incoming("x", "z", None),
        ];
        assert_eq!(batches(&order, &files), [vec![0, 1], vec![2, 3]]);
        assert_eq!(batches(&order, &files[..2]), [vec![0, 1]]);
        let version = tree(&[]);
        let overlapping = Rules {
            files_overlap: true,
            ..rules()
        };
        let above = place(
            &version,
            &InProgress::default(),
            &overlapping,
            &files[2],
            LAST,
            Some(3),
        );
        assert_eq!(
            above.unwrap(),
            AssignedLevel {
                level: 2,
                seq: SequenceNumber(11)
            }
        );
        let top = place(
            &version,
            &InProgress::default(),
            &overlapping,
            &files[2],
            LAST,
            Some(0),
        );
        assert_eq!(
            top.unwrap(),
            AssignedLevel {
                level: 0,
                seq: SequenceNumber(11)
            }
        );
    }
}
