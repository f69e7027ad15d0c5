//! Inserting the entries of a batch into memtables.

use std::cell::OnceCell;

use cairn_format::batch::{BatchRef, PreparePolicy, Record};
use cairn_memtable::{INSERT_BATCH, Memtable, Point, SORTED_BATCH};
use cairn_types::{FileNumber, Result, SequenceNumber, ValueKind};

use super::commit::Company;
use super::entry::{Entry, entry};
use crate::catalog::family::FamilyState;
use crate::shared::Shared;
use crate::write::successive_merges::merge_on_write;

/// The number of records from which a batch is added in groups of up to [`SORTED_BATCH`].
const LARGE: usize = 64;

/// A point that is not used.
const UNUSED: Point<'_> = Point {
    seq: SequenceNumber::ZERO,
    kind: ValueKind::Value,
    key: &[],
    value: &[],
};

/// The point entries of a batch that are to be added together.
struct Waiting<'a, 'p> {
    points: &'p mut [Point<'a>],
    len: usize,
}

impl<'a, 'p> Waiting<'a, 'p> {
    fn new(points: &'p mut [Point<'a>]) -> Waiting<'a, 'p> {
        Waiting { points, len: 0 }
    }

    /// Adds an entry for `memtable`.
    fn push(&mut self, seq: SequenceNumber, entry: &Entry<'a>, memtable: &Memtable) {
        let (kind, key, value) = (entry.kind, entry.key, entry.value);
        self.points[self.len] = Point {
            seq,
            kind,
            key,
            value,
        };
        self.len += 1;
        if self.len == self.points.len() {
            self.add_to(memtable);
        }
    }

    /// Inserts the collected entries into `memtable`, for which they were collected.
    #[inline(never)]
    fn add_to(&mut self, memtable: &Memtable) {
        debug_assert!(
            self.points[..self.len].is_sorted_by(|a, b| a.seq < b.seq),
            "records of a batch ascend"
        );
        memtable.add_points(&self.points[..self.len]);
        self.len = 0;
    }
}

#[inline]
fn add_waiting(waiting: &mut Option<Waiting<'_, '_>>, memtable: &Memtable) {
    if let Some(waiting) = waiting {
        waiting.add_to(memtable);
    }
}

impl Shared {
    /// Inserts the entries of `batch`, whose first gets the sequence number `first`. The families of a prepared section
    /// hold its log.
    pub(crate) fn insert(
        &self,
        batch: &[u8],
        first: SequenceNumber,
        company: Company,
    ) -> Result<()> {
        let batch = BatchRef::parse(batch).map_err(|e| e.in_file("the write batch", 0))?;
        // Loaded at the first record of a non-default family.
        let all = OnceCell::new();
        let (mut few, mut many);
        let mut waiting = match batch.count() as usize {
            // A single record, the most common case, does not wait.
            0 | 1 => None,
            count if count < LARGE => {
                few = [UNUSED; INSERT_BATCH];
                Some(Waiting::new(&mut few))
            }
            count => {
                many = vec![UNUSED; count.min(SORTED_BATCH)];
                Some(Waiting::new(&mut many))
            }
        };
        let mut seq = first;
        let mut last: Option<(&FamilyState, std::sync::Arc<Memtable>)> = None;
        let mut section_log = None;
        let mut records = batch.records();
        loop {
            let (id, entry) = match records.next_put() {
                Some((key, value)) => (0, Entry::put(key, value)),
                None => {
                    let Some(record) = records.next() else { break };
                    let record = record.map_err(|e| e.in_file("the write batch", 0))?;
                    match entry(&record)? {
                        Some(found) => found,
                        None => {
                            self.note_marker(&record, batch.sequence(), &mut section_log);
                            // A family that was written to before the section holds the log of the section, too.
                            self.leave_family(last.take(), &mut waiting);
                            continue;
                        }
                    }
                }
            };
            if last.as_ref().is_none_or(|(family, _)| family.id() != id) {
                self.leave_family(last.take(), &mut waiting);
                // If a family was dropped since the check, its entries are dropped as well.
                let family = match (id, self.catalog.default_family()) {
                    (0, Some(family)) => Some(family),
                    _ => all.get_or_init(|| self.catalog.families()).get(id),
                };
                last = family.map(|family| (&**family, family.memtable()));
                if let (Some(log), Some((family, _))) = (section_log, &last) {
                    family.writes.hold_log(log);
                }
            }
            // An empty range needs no entry, but takes a sequence number.
            let empty = entry.kind == ValueKind::RangeDeletion && entry.key == entry.value;
            if let Some((family, memtable)) = last.as_ref().filter(|_| !empty) {
                let early = match entry.kind {
                    ValueKind::Merge if company == Company::None => {
                        add_waiting(&mut waiting, memtable);
                        merge_on_write(family, memtable, entry.key, entry.value, seq)
                    }
                    _ => None,
                };
                if let Some((kind, value)) = early {
                    memtable.add(seq, kind, entry.key, &value);
                } else if let Some(waiting) = waiting.as_mut().filter(|_| entry.kind.is_point()) {
                    waiting.push(seq, &entry, memtable);
                } else if company == Company::OtherGroups {
                    memtable.add_deferred(seq, entry.kind, entry.key, entry.value);
                } else {
                    memtable.add(seq, entry.kind, entry.key, entry.value);
                }
            }
            seq = seq.plus(1);
        }
        debug_assert!(
            seq.0 - first.0 <= u64::from(batch.count()),
            "a batch takes no more numbers than its header says"
        );
        self.leave_family(last, &mut waiting);
        Ok(())
    }

    /// Adds the entries that wait for a memtable, before records of another family.
    #[inline]
    fn leave_family(
        &self,
        last: Option<(&FamilyState, std::sync::Arc<Memtable>)>,
        waiting: &mut Option<Waiting<'_, '_>>,
    ) {
        if let Some((family, memtable)) = last {
            add_waiting(waiting, &memtable);
            self.note_growth(family, &memtable);
        }
    }

    /// Handles a record without an entry; `section` is the sequence number in the header of its batch.
    #[cold]
    fn note_marker(
        &self,
        record: &Record<'_>,
        section: SequenceNumber,
        section_log: &mut Option<FileNumber>,
    ) {
        match *record {
            Record::BeginPrepare(PreparePolicy::WriteCommitted) => {
                *section_log = Some(FileNumber(section.0));
            }
            // Its section is in no log that is older than the memtable (P5).
            Record::BeginPrepare(_) => *section_log = Some(FileNumber(u64::MAX)),
            Record::EndPrepare { name } => match section_log {
                Some(_) => self.writes.sections.committed(name),
                // The insertion of a prepare has the end alone.
                None => self.writes.sections.logged(name),
            },
            _ => {}
        }
    }

    /// Requests attention from the next leader for a memtable that has reached its limit, or nearly so.
    #[inline]
    fn note_growth(&self, family: &FamilyState, memtable: &Memtable) {
        if family.writes.wants_attention(memtable.memory_usage())
            || self
                .writes
                .buffers
                .as_ref()
                .is_some_and(|buffers| buffers.should_flush() || buffers.should_stall())
            || (memtable.has_range_tombstones() && family.has_too_many_ranges(memtable))
            || memtable.is_marked_for_flush()
        {
            self.signals.request_attention();
        }
    }
}
