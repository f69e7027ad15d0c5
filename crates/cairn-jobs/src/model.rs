//! A reference model for tests: entries and range tombstones in plain lists, and the values that
//! readers see.

use cairn_format::key::{self, InternalKey};
use cairn_format::range_del::{Fragments, Tombstone};
use cairn_observe::statistics::Meter;
use cairn_platform::sync::Arc;
use cairn_types::{KeyOrder, MergeInput, MergeOperator, Result, SequenceNumber, ValueKind};
use proptest::prelude::*;

use crate::compaction_iterator::{CompactionIterator, Rules};
use crate::context::Cancel;
use crate::filter::Filter;
use crate::history::TimestampRules;
use crate::lower_levels::LowerLevels;
use crate::range_tombstones;
use crate::sorted_runs::{Merge, Run};

/// One write.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Write {
    Put(u8, u8),
    Delete(u8),
    SingleDelete(u8),
    Merge(u8, u8),
    DeleteRange(u8, u8),
}

/// A point entry: internal key and value.
pub(crate) type Point = (Vec<u8>, Vec<u8>);

/// Entries and tombstones, unordered.
#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    pub(crate) points: Vec<Point>,
    pub(crate) tombstones: Vec<Tombstone>,
}

/// A merge operator that joins operands with commas.
pub(crate) struct Join {
    /// True if operands can be combined without a base value.
    pub(crate) partial: bool,
}

impl MergeOperator for Join {
    fn name(&self) -> &str {
        "join"
    }

    fn full_merge(&self, input: &MergeInput<'_>) -> Option<Vec<u8>> {
        let mut all: Vec<&[u8]> = input.existing.into_iter().collect();
        all.extend(input.operands);
        Some(all.join(&b','))
    }

    fn partial_merge(&self, _: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
        self.partial.then(|| operands.join(&b','))
    }
}

pub(crate) fn user(key: u8) -> Vec<u8> {
    format!("key{key:03}").into_bytes()
}

pub(crate) fn writes(count: usize) -> impl Strategy<Value = Vec<Write>> {
    let key = 0..12_u8;
    let write = prop_oneof![
        5 => (key.clone(), any::<u8>()).prop_map(|(key, value)| Write::Put(key, value)),
        2 => key.clone().prop_map(Write::Delete),
        2 => key.clone().prop_map(Write::SingleDelete),
        4 => (key.clone(), any::<u8>()).prop_map(|(key, value)| Write::Merge(key, value)),
        2 => (key, 1..6_u8).prop_map(|(from, len)| Write::DeleteRange(from, from + len)),
    ];
    proptest::collection::vec(write, 1..count)
}

/// Returns `writes` with each single deletion that breaks its contract replaced with a deletion: a
/// key that is deleted by single deletions may only be put, once between two of them.
pub(crate) fn with_valid_single_deletions(writes: Vec<Write>) -> Vec<Write> {
    const BROKEN: u8 = 99;
    let mut puts = [0_u8; 256];
    let mut with_valid_single_deletions = Vec::new();
    for write in writes {
        let write = match write {
            Write::SingleDelete(key) if puts[usize::from(key)] != 1 => Write::Delete(key),
            other => other,
        };
        match write {
            Write::Put(key, _) if puts[usize::from(key)] == 0 => puts[usize::from(key)] = 1,
            Write::SingleDelete(key) => puts[usize::from(key)] = 0,
            Write::Put(key, _) | Write::Delete(key) | Write::Merge(key, _) => {
                puts[usize::from(key)] = BROKEN;
            }
            Write::DeleteRange(from, to) => {
                (from..to).for_each(|key| puts[usize::from(key)] = BROKEN);
            }
        }
        with_valid_single_deletions.push(write);
    }
    with_valid_single_deletions
}

impl State {
    /// Adds writes with consecutive sequence numbers from `first`.
    pub(crate) fn write(&mut self, writes: &[Write], first: u64) {
        for (write, seq) in writes.iter().zip(first..) {
            let mut point = |key: u8, kind: ValueKind, value: Vec<u8>| {
                let key = InternalKey::new(&user(key), SequenceNumber(seq), kind);
                self.points.push((key.into_bytes(), value));
            };
            match *write {
                Write::Put(key, value) => point(key, ValueKind::Value, vec![b'a' + value % 26]),
                Write::Delete(key) => point(key, ValueKind::Deletion, vec![]),
                Write::SingleDelete(key) => point(key, ValueKind::SingleDeletion, vec![]),
                Write::Merge(key, value) => point(key, ValueKind::Merge, vec![b'A' + value % 26]),
                Write::DeleteRange(from, to) => self.tombstones.push(Tombstone {
                    start: user(from),
                    end: user(to),
                    seq: SequenceNumber(seq),
                    ts: Vec::new(),
                }),
            }
        }
    }

    /// Returns the value of `key` at sequence number `seq`.
    pub(crate) fn read(&self, key: u8, seq: u64) -> Option<Vec<u8>> {
        let user = user(key);
        let covered = self.tombstones.iter().filter(|tombstone| {
            tombstone.seq.0 <= seq && tombstone.start <= user && user < tombstone.end
        });
        let covered = covered.map(|tombstone| tombstone.seq.0).max().unwrap_or(0);
        let mut versions: Vec<_> = self
            .points
            .iter()
            .filter(|(key, _)| key::user_key(key) == user)
            .map(|(key, value)| (key::parse(key).unwrap(), value))
            .filter(|(parsed, _)| parsed.seq.0 <= seq && parsed.seq.0 >= covered)
            .collect();
        versions.sort_by_key(|(parsed, _)| std::cmp::Reverse(parsed.seq));
        let mut operands: Vec<&[u8]> = Vec::new();
        let mut existing = None;
        for (parsed, value) in versions {
            match parsed.kind {
                ValueKind::Merge => operands.push(value),
                ValueKind::Value => {
                    existing = Some(value.as_slice());
                    break;
                }
                _ => break,
            }
        }
        operands.reverse();
        match (existing, operands.is_empty()) {
            (existing, true) => existing.map(<[u8]>::to_vec),
            (existing, false) => Join { partial: true }.full_merge(&MergeInput {
                key: &user,
                existing,
                operands: &operands,
            }),
        }
    }

    /// Returns the values of all keys at each of `seqs`.
    pub(crate) fn read_all(&self, seqs: &[u64]) -> Vec<Vec<Option<Vec<u8>>>> {
        let at = |&seq: &u64| (0..20).map(|key| self.read(key, seq)).collect();
        seqs.iter().map(at).collect()
    }

    /// Returns the union of both states.
    pub(crate) fn with(&self, other: &State) -> State {
        let mut both = self.clone();
        both.points.extend(other.points.iter().cloned());
        both.tombstones.extend(other.tombstones.iter().cloned());
        both
    }
}

/// A run in memory.
pub(crate) struct List {
    entries: Vec<Point>,
    at: usize,
}

impl List {
    pub(crate) fn new(mut entries: Vec<Point>) -> List {
        entries.sort_by(|a, b| key::compare(&KeyOrder::Bytewise, &a.0, &b.0));
        List::unsorted(entries)
    }

    /// A list of entries in the given order, as a damaged table may have it.
    pub(crate) fn unsorted(entries: Vec<Point>) -> List {
        List { entries, at: 0 }
    }
}

impl Run for List {
    fn start(&mut self, target: Option<&[u8]>) {
        self.at = target.map_or(0, |target| {
            self.entries.partition_point(|entry| {
                key::compare(&KeyOrder::Bytewise, &entry.0, target).is_lt()
            })
        });
    }
    fn next(&mut self) {
        self.at += 1;
    }
    fn valid(&self) -> bool {
        self.at < self.entries.len()
    }
    fn key(&self) -> &[u8] {
        &self.entries[self.at].0
    }
    fn value(&self) -> &[u8] {
        &self.entries[self.at].1
    }
    fn status(&self) -> Result<()> {
        Ok(())
    }
}

/// Compacts `state`, distributed over `runs` runs.
pub(crate) fn compact(
    state: &State,
    runs: usize,
    snapshots: &[u64],
    operator: Option<Join>,
    bottommost: bool,
    below: LowerLevels,
) -> State {
    compact_filtered(state, runs, snapshots, operator, bottommost, below, None)
}

/// Compacts `state` with a filter.
pub(crate) fn compact_filtered(
    state: &State,
    runs: usize,
    snapshots: &[u64],
    operator: Option<Join>,
    bottommost: bool,
    below: LowerLevels,
    filter: Option<Filter>,
) -> State {
    let order = KeyOrder::Bytewise;
    let snapshots: Vec<SequenceNumber> = snapshots.iter().copied().map(SequenceNumber).collect();
    let tombstones = Arc::new(Fragments::build(&order, state.tombstones.iter().cloned()));
    let written = range_tombstones::written(
        &order,
        &tombstones,
        &snapshots,
        bottommost,
        &below,
        &TimestampRules::default(),
    );
    let lists = (0..runs).map(|run| {
        let mine = state
            .points
            .iter()
            .enumerate()
            .filter(|(at, _)| at % runs == run);
        List::new(mine.map(|(_, point)| point.clone()).collect())
    });
    let mut merge = Merge::new(order.clone(), lists.collect());
    merge.start(None);
    let rules = Rules {
        order: order.clone(),
        snapshots,
        merge_operator: operator.map(|operator| Arc::new(operator) as Arc<dyn MergeOperator>),
        dated: false,
        tombstones,
        bottommost,
        below,
        filter,
        strict_single_deletions: false,
        zero_through: SequenceNumber::MAX,
        cancel: Cancel::default(),
        meter: Meter::default(),
        history: TimestampRules::default(),
    };
    let mut visible = CompactionIterator::new(merge, rules);
    let mut result = State::default();
    while let Some(entry) = visible.next(None).unwrap() {
        result
            .points
            .push((entry.key.to_vec(), entry.value.to_vec()));
    }
    assert!(
        visible.jumped() || visible.input().passed() == state.points.len() as u64,
        "every entry is read"
    );
    let sorted = result
        .points
        .windows(2)
        .all(|pair| key::compare(&order, &pair[0].0, &pair[1].0).is_lt());
    assert!(sorted, "entries are written in order: {:?}", result.points);
    result.tombstones = written
        .iter()
        .flat_map(|fragment| fragment.tombstones().collect::<Vec<_>>())
        .collect();
    result
}
