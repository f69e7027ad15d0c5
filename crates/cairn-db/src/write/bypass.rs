//! Writes past the memtable: the records of a large prepared transaction, or of an ingested batch without a log, become
//! immutable memtables of their own.
//!
//! ```text
//! without the lead   sort the records of each family into a memtable, with relative sequence numbers
//! with the lead      log the marker -> begin another log -> seal the active memtables -> add those of the transaction
//! without the lead   change the sequence numbers to the assigned ones, unless a read has done so -> schedule flushes
//! ```
//!
//! An ingested batch has no marker. The log is switched nevertheless, unless it is empty, since it also has records of
//! the sealed memtables.
//!
//! The lead is held for a time that depends on the number of families, but not on that of the records. The new memtables
//! have all records, with the sequence numbers that an insertion would give them and that a recovery gives them.
//!
//! Invariants:
//!
//! B1. The log with the marker is needed until the memtables of the transaction are flushed, which release only logs
//! before the next one. A memtable that was sealed for them has earlier entries in that log, and is flushed together with
//! them ([`Immutable::shares_log`]).
//! B2. The memtables of the transaction hold the log of its prepared section (`held_log`).
//! B3. Between their addition and the publication of their numbers, they are in the views, but no flush takes them
//! ([`crate::shared::FamilyTree::flushable`]): it could drop entries that are still visible.
//! B4. If the next log cannot be created, the records are inserted as usual, and the commit succeeds: its marker is
//! logged, so that a recovery commits it in any case. The failure of the log is a background error. The same holds for an
//! ingested batch.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;

use cairn_format::batch::{BatchRef, Record};
use cairn_memory::CacheCharge;
use cairn_memtable::{Memtable, Point};
use cairn_observe::statistics::Ticker;
use cairn_options::WriteOptions;
use cairn_types::{Error, FileNumber, Result, SequenceNumber};

use super::commit::{CommitEnv, Company, LoggedGroup};
use super::entry::entry;
use super::queue::Batch;
use super::stopwatch::Stopwatch;
use super::{Check, DbEnv, mode_of};
use crate::jobs::background::guarded;
use crate::locks::Rank;
use crate::shared::{Immutable, Shared};
use crate::write::batch::WriteBatch;

/// The records of a transaction or of an ingested batch, sorted into memtables.
pub(crate) struct Bypass {
    /// The memtables by family, with sequence numbers relative to the last one assigned before the transaction.
    memtables: BTreeMap<u32, Memtable>,
    /// The log of the prepared section; `None` for an ingested batch.
    log: Option<FileNumber>,
    name: Vec<u8>,
}

/// Memtables of a transaction that were added to the database.
type Added = Vec<Arc<Memtable>>;

impl Shared {
    /// Sorts the records of a prepared section in `log` that is committed, or of a batch that is ingested, into
    /// memtables. `None` if they have to be inserted: if there are none for live families, if there is a range deletion,
    /// if each entry is to be checked against a checksum in the batch as it is inserted, or if transactions are written
    /// early (the switch of logs may have to log their sections again, at sequence numbers that are not assigned yet).
    pub(crate) fn bypass_of(
        &self,
        section: &BatchRef<'_>,
        log: Option<FileNumber>,
        options: &WriteOptions,
    ) -> Option<Bypass> {
        if options.protection_bytes_per_key > 0 || self.writes.sections.are_early() {
            return None;
        }
        // A comparator that panics does so again in the insertion, which handles that.
        guarded("sorting a transaction", || {
            Ok(self.sort_section(section, log))
        })
        .ok()?
    }

    fn sort_section(&self, section: &BatchRef<'_>, log: Option<FileNumber>) -> Option<Bypass> {
        let families = self.catalog.families();
        let mut points: BTreeMap<u32, Vec<Point<'_>>> = BTreeMap::new();
        let mut seq = SequenceNumber::ZERO;
        let mut name = &[][..];
        for record in section.records() {
            let record = record.ok()?;
            if let Record::EndPrepare { name: found } = record {
                name = found;
            }
            let Some((family, entry)) = entry(&record).ok()? else {
                continue;
            };
            seq = seq.plus(1);
            if !entry.kind.is_point() {
                return None;
            }
            points.entry(family).or_default().push(Point {
                seq,
                kind: entry.kind,
                key: entry.key,
                value: entry.value,
            });
        }
        let memtables: BTreeMap<u32, Memtable> = points
            .into_iter()
            .filter_map(|(id, points)| {
                let mut memtable = self.uncharged_memtable(&families.get(id)?.options());
                memtable.fill(&points);
                Some((id, memtable))
            })
            .collect();
        (!memtables.is_empty()).then(|| Bypass {
            memtables,
            log,
            name: name.to_vec(),
        })
    }

    /// Writes `batch` past the memtable, without a log.
    pub(crate) fn ingest_batch(
        self: &Arc<Self>,
        batch: &WriteBatch,
        options: &WriteOptions,
    ) -> Result<()> {
        if !options.disable_wal {
            return Err(Error::not_supported(
                "an ingested batch is not logged: disableWAL has to be set",
            ));
        }
        self.with_stored(batch, |batch| {
            self.check_write(batch, options)?;
            let write = |check: Option<Check<'_>>| {
                self.delay_write(batch, options.no_slowdown)?;
                let protection = batch.protection();
                let parts = Batch {
                    protection: protection.as_ref(),
                    ..Batch::whole(batch.data())
                };
                let bypass = match parts.protection {
                    None => self.bypass_of(&batch.encoded().view(), None, options),
                    Some(_) => None,
                };
                match bypass {
                    None => self.write_parts(parts, options, check),
                    Some(bypass) => self.write_bypass(parts, bypass, options, check),
                }
            };
            match self.trace.is_on() {
                false => write(None),
                true => self.trace_write(batch.data(), None, write),
            }
        })
    }

    /// Commits the section in `parts`, of which `bypass` was made, if `check` succeeds. It has passed the checks and was
    /// delayed.
    pub(crate) fn write_bypass(
        self: &Arc<Self>,
        parts: Batch<'_>,
        bypass: Bypass,
        options: &WriteOptions,
        check: Option<Check<'_>>,
    ) -> Result<()> {
        self.may_write()?;
        let env = BypassEnv {
            env: DbEnv::new(self),
            bypass: Cell::new(Some(bypass)),
            added: Cell::default(),
        };
        let check = || check.map_or(Ok(()), |check| check());
        let commits = &self.writes.commits;
        let committed = commits.commit_if(&env, parts, mode_of(options), check);
        let added = env.added.take();
        if !added.is_empty() {
            added.iter().for_each(|memtable| memtable.finish_shift());
            self.telemetry.tick(Ticker::NumberWbwiIngest, 1);
            // Not before the numbers are published (B3).
            self.schedule(&mut self.tree.lock());
        }
        if env.env.notifies.get() {
            self.telemetry.deliver();
        }
        committed
    }

    /// Adds the memtables of a transaction whose records have the sequence numbers after `before`, and whose marker is
    /// logged, or those of an ingested batch. The caller leads, and all earlier writes are visible.
    ///
    /// # Errors
    ///
    /// Those of starting another log. Nothing is added then.
    fn add_memtables(
        self: &Arc<Self>,
        mut bypass: Bypass,
        before: SequenceNumber,
    ) -> Result<Added> {
        debug_assert!(self.context.locks.is_held(Rank::Lead), "the caller leads");
        assert_eq!(self.published(), before, "no insertion is in progress");
        let marked = self.current_log()?;
        let mut steps = Stopwatch::start(&*self.context.world.clock);
        self.switch_log(&mut steps)
            .inspect_err(|error| self.log_failed(error))?;
        let current = self.current_log()?;
        assert!(
            marked < current || bypass.log.is_none(),
            "the log of the marker has ended (B1)"
        );
        let families: Vec<_> = {
            let all = self.catalog.families();
            let touched = bypass.memtables.keys();
            touched.filter_map(|id| all.get(*id).cloned()).collect()
        };
        let now = self.context.world.clock.monotonic_nanos();
        let mut added = Added::new();
        let families = self.flushed_with(&families);
        families.iter().for_each(|family| self.switch_blobs(family));
        let mut tree = self.tree.lock();
        for family in families {
            self.begin_memtable(&family, now);
            let Some(mut memtable) = bypass.memtables.remove(&family.id()) else {
                self.seal_active(&mut tree, &family, current, None);
                continue;
            };
            memtable.shift(before);
            let memtable = Arc::new(self.charged(memtable));
            let immutable = Immutable {
                memtable: memtable.clone(),
                next_log: current,
                held_log: bypass.log,
                shares_log: false,
            };
            self.seal_active(&mut tree, &family, marked, Some(immutable));
            added.push(memtable);
        }
        self.release_logs_of_idle_families(&mut tree, current);
        self.check_tree(&tree);
        self.update_conditions(&mut tree);
        drop(tree);
        self.telemetry.write_lines();
        if bypass.log.is_some() {
            // The memtables hold the log (B2).
            self.writes.sections.committed(&bypass.name);
        }
        if self
            .writes
            .buffers
            .as_ref()
            .is_some_and(|buffers| buffers.should_flush() || buffers.should_stall())
        {
            self.signals.request_attention();
        }
        steps.lap("adding memtables");
        steps.log_if_slow(&self.context.info, "a commit past the memtable");
        Ok(added)
    }
}

/// The environment of the commit pipeline for a commit past the memtable. It is a group of its own.
struct BypassEnv<'a> {
    env: DbEnv<'a>,
    bypass: Cell<Option<Bypass>>,
    added: Cell<Added>,
}

impl CommitEnv for BypassEnv<'_> {
    fn charge_batch(&self, bytes: usize) -> Option<CacheCharge> {
        self.env.charge_batch(bytes)
    }

    fn may_wait(&self) -> Result<()> {
        self.env.may_wait()
    }

    fn prepare(&self, no_slowdown: bool) -> Result<()> {
        self.env.prepare(no_slowdown)
    }

    fn group_limit(&self, _: usize) -> usize {
        0
    }

    fn log(&self, group: &LoggedGroup<'_>) -> Result<()> {
        self.env.log(group)
    }

    /// The memtables are switched with the lead.
    fn inserts_in_turn(&self) -> bool {
        true
    }

    fn insert(&self, batch: Batch<'_>, first: SequenceNumber, company: Company) -> Result<()> {
        let shared = self.env.shared;
        let before = SequenceNumber(first.0 - 1);
        let bypass = self.bypass.take();
        match bypass.map(|bypass| shared.add_memtables(bypass, before)) {
            Some(Ok(added)) => {
                self.env.notifies.set(true);
                self.added.set(added);
                Ok(())
            }
            // B4.
            Some(Err(_)) | None => self.env.insert(batch, first, company),
        }
    }

    fn insertion_failed(&self, error: &Error) {
        self.env.insertion_failed(error);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use cairn_memtable::MemtableOptions;
    use cairn_types::{KeyOrder, ValueKind};

    use super::*;
    use crate::shared::FamilyTree;

    /// Returns an immutable memtable with entries of these numbers.
    fn immutable(seqs: std::ops::RangeInclusive<u64>, shares_log: bool) -> Immutable {
        let memtable = Memtable::new(KeyOrder::Bytewise, MemtableOptions::default());
        for seq in seqs {
            memtable.add(SequenceNumber(seq), ValueKind::Merge, b"k", b"1");
        }
        Immutable {
            memtable: Arc::new(memtable),
            next_log: FileNumber(7),
            held_log: None,
            shares_log,
        }
    }

    #[test]
    fn a_memtable_that_shares_its_log_with_the_next_is_not_flushed_alone() {
        let mut tree = FamilyTree::new(FileNumber(5));
        tree.immutables = vec![
            immutable(1..=2, false),
            immutable(3..=5, true),
            immutable(6..=9, false),
        ];
        let flushable = |tree: &FamilyTree, published| {
            let flushable = tree.flushable(SequenceNumber(published));
            flushable.map(|one| one.memtable.largest_seq().0).last()
        };
        // The transaction has the numbers from 6 to 9.
        for published in 5..9 {
            assert_eq!(flushable(&tree, published), Some(2), "{published}");
        }
        assert_eq!(flushable(&tree, 9), Some(9));
        tree.immutables.remove(0);
        assert_eq!(flushable(&tree, 5), None);
        assert_eq!(flushable(&tree, 9), Some(9));
    }
}
