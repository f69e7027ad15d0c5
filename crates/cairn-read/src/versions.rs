//! The versions of a key that a point lookup has found so far, newest first, and whether older ones are needed.
//!
//! A version is pinned if it is the result or a merge operand.

use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use cairn_format::range_del::Fragments;
use cairn_memtable::{Entry, Memtable};
use cairn_platform::Buffer;
use cairn_types::{KeyOrder, SequenceNumber, ValueKind};

use crate::operands::{Gathered, OnOperand};
use crate::value::Value;

/// The newest version of a key that is not a merge operand, as stored.
pub(crate) enum Newest {
    Missing,
    Value(Value),
    Entity(Value),
    /// An encoded blob index.
    Blob(Value),
}

/// The state of the search for older versions.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum SearchState {
    /// All older versions are needed.
    Open,
    /// Versions in older sources are hidden by a range tombstone; the current source may hold a
    /// newer version.
    Covered,
    /// No older versions are needed.
    Finished,
}

/// The place of a stored value found by a search, not pinned.
pub(crate) enum Stored<'a> {
    Memtable(&'a Arc<Memtable>, Entry<'a>),
    Block(&'a Buffer, Range<usize>),
}

impl Stored<'_> {
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Stored::Memtable(_, entry) => entry.value(),
            Stored::Block(buffer, range) => &buffer[range.clone()],
        }
    }

    #[inline]
    pub(crate) fn pin(self) -> Value {
        match self {
            Stored::Memtable(memtable, entry) => Value::in_memtable(memtable.pin(entry)),
            Stored::Block(buffer, range) => Value::in_block(buffer.clone(), range),
        }
    }
}

/// The versions found so far.
pub(crate) struct Versions<'a> {
    /// Merge operands; `None` if there are none.
    pub(crate) operands: Option<Box<Gathered>>,
    pub(crate) newest: Newest,
    /// User keys with timestamps: [`Versions::key`], and [`Versions::base_key`] if that is another.
    keys: Vec<u8>,
    /// The start of the second key; 0 if there is none.
    base_at: usize,
    /// The sequence number of the newest version; zero if not recorded.
    pub(crate) newest_seq: SequenceNumber,
    /// True if keys have timestamps. The keys of versions that need them to be evaluated are then recorded.
    pub(crate) has_timestamps: bool,
    /// True if `newest_seq` and, if keys have timestamps, `key` are recorded for all versions: if the caller needs them.
    pub(crate) records_newest: bool,
    /// The newest range tombstone over the key in the sources searched so far. If keys have
    /// timestamps, each version is checked against `timed` instead, and this is the maximum
    /// sequence number.
    pub(crate) covered_by: SequenceNumber,
    pub(crate) timed: Option<Box<TimestampedTombstones<'a>>>,
    pub(crate) state: SearchState,
}

/// The range tombstones of the sources searched so far. Used if keys have timestamps, because the
/// tombstones that hide a version then depend on its timestamp.
pub(crate) struct TimestampedTombstones<'a> {
    pub(crate) order: &'a KeyOrder,
    pub(crate) visible: SequenceNumber,
    pub(crate) read_ts: Option<&'a [u8]>,
    pub(crate) sources: Vec<Arc<Fragments>>,
}

/// True if a version is evaluated with its key: it is a merge operand, or refers to a blob file.
#[inline]
fn needs_key(kind: ValueKind) -> bool {
    matches!(
        kind,
        ValueKind::Merge | ValueKind::BlobIndex | ValueKind::WideColumnEntity
    )
}

impl<'a> Versions<'a> {
    /// True if a range tombstone hides the version; called only if `seq` is less than `covered_by`.
    #[cold]
    fn is_hidden(&self, user_key: &[u8], seq: SequenceNumber) -> bool {
        self.timed.as_ref().is_none_or(|timed| {
            timed.sources.iter().any(|fragments| {
                let (visible, read_ts) = (timed.visible, timed.read_ts);
                seq < fragments.covering_at(timed.order, user_key, visible, read_ts)
            })
        })
    }

    /// Adds the next older version. Returns `Break` if no older versions are needed.
    #[inline]
    pub(crate) fn add<'s>(
        &mut self,
        user_key: &[u8],
        seq: SequenceNumber,
        kind: ValueKind,
        on_operand: &mut impl OnOperand,
        stored: impl FnOnce() -> Stored<'s>,
    ) -> ControlFlow<()> {
        self.state = SearchState::Finished;
        if seq < self.covered_by && self.is_hidden(user_key, seq) {
            return ControlFlow::Break(());
        }
        if self.records_newest || self.has_timestamps && needs_key(kind) {
            self.record(user_key, seq, kind);
        }
        match kind {
            ValueKind::Value => self.newest = Newest::Value(stored().pin()),
            ValueKind::WideColumnEntity => self.newest = Newest::Entity(stored().pin()),
            ValueKind::BlobIndex => self.newest = Newest::Blob(stored().pin()),
            ValueKind::ValuePreferredSeqno => {
                let value = stored().pin();
                let len = value.len().saturating_sub(size_of::<u64>());
                self.newest = Newest::Value(value.slice(0..len));
            }
            ValueKind::Merge => {
                return self.add_operand(&stored(), on_operand);
            }
            _ => {}
        }
        ControlFlow::Break(())
    }

    /// No versions.
    #[inline(always)]
    pub(crate) fn new(has_timestamps: bool) -> Versions<'a> {
        Versions {
            operands: None,
            newest: Newest::Missing,
            keys: Vec::new(),
            base_at: 0,
            newest_seq: SequenceNumber::ZERO,
            has_timestamps,
            records_newest: false,
            covered_by: SequenceNumber::ZERO,
            timed: None,
            state: SearchState::Open,
        }
    }

    /// The user key of the newest version with its timestamp; empty if not recorded.
    pub(crate) fn key(&self) -> &[u8] {
        match self.base_at {
            0 => &self.keys,
            end => &self.keys[..end],
        }
    }

    /// Takes [`Versions::key`].
    pub(crate) fn take_key(&mut self) -> Vec<u8> {
        if self.base_at > 0 {
            self.keys.truncate(self.base_at);
        }
        std::mem::take(&mut self.keys)
    }

    /// The user key of `newest` with its timestamp, which its values in blob files have; empty if not recorded.
    pub(crate) fn base_key(&self) -> &[u8] {
        &self.keys[self.base_at..]
    }

    /// Records the key of a version if it is the newest or has the base value.
    #[inline(never)]
    fn record(&mut self, user_key: &[u8], seq: SequenceNumber, kind: ValueKind) {
        if self.operands.is_none() {
            self.keys.extend_from_slice(user_key);
            self.newest_seq = seq;
        } else if matches!(kind, ValueKind::BlobIndex | ValueKind::WideColumnEntity) {
            self.base_at = self.keys.len();
            self.keys.extend_from_slice(user_key);
        }
    }

    /// Adds the next older merge operand. Returns `Break` if `on_operand` ends the lookup.
    #[inline]
    fn add_operand(
        &mut self,
        stored: &Stored<'_>,
        on_operand: &mut impl OnOperand,
    ) -> ControlFlow<()> {
        let goes_on = on_operand.found(stored.bytes());
        let operands = self.operands.get_or_insert_default();
        if on_operand.keeps() {
            operands.push(stored);
        }
        if !goes_on {
            return ControlFlow::Break(());
        }
        self.state = SearchState::Open;
        ControlFlow::Continue(())
    }

    /// Adds the operands after the operand `first` in `memtable`. Returns the next older version there, which is not
    /// an operand or is hidden. Faster than [`Versions::add`] for each; for keys without timestamps.
    #[inline(never)]
    pub(crate) fn add_operands_after<'m>(
        &mut self,
        memtable: &'m Arc<Memtable>,
        first: Entry<'m>,
        on_operand: &mut impl OnOperand,
    ) -> Option<Entry<'m>> {
        let values = self.operands.get_or_insert_default().values_of(memtable);
        let mut goes_on = true;
        let next = memtable.operands_after(first, self.covered_by, |entry| {
            goes_on = on_operand.found(entry.value());
            if on_operand.keeps() {
                values.push(entry);
            }
            goes_on
        });
        if !goes_on {
            self.state = SearchState::Finished;
        }
        next
    }
}
