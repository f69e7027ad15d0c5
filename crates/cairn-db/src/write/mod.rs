//! Writes: from a batch to visible, logged entries.
//!
//! ```text
//! batch -> [held back while its families are behind] -> queue -> [make room] -> sequence numbers -> one log append (and sync) for the group
//!       -> hand over the lead -> every member inserts its own batch -> visible once all before it are
//! ```
//!
//! The next group is logged while this one inserts. Who needs memtables to himself (to switch them, to read what
//! earlier writes left before merging early) waits, with the lead, for those that still insert.
//!
//! Cost of an uncontended write: two swaps of the queue's lead, the writer's lock, one append, the insertions,
//! one swap.

pub(crate) mod archive;
pub(crate) mod buffers;
mod conditions;
pub(crate) mod early;
pub(crate) mod entry;
pub(crate) mod guards;
pub(crate) mod hold;
pub(crate) mod insert;
pub(crate) mod log;
pub(crate) mod log_set;
pub(crate) mod order;
pub(crate) mod pace;
pub(crate) mod queue;
pub(crate) mod room;
pub(crate) mod signals;
pub(crate) mod stall;
pub(crate) mod steps;
pub(crate) mod successive;
pub(crate) mod wal_control;
pub(crate) mod wal_locks;

use std::sync::Arc;

use cairn_format::dated;
use cairn_observe::BackgroundErrorReason;
use cairn_observe::perf::PerfMetric;
use cairn_observe::statistics::Histogram;
use cairn_options::WriteOptions;
use cairn_types::{Error, Result, SequenceNumber};

use crate::batch::WriteBatch;
use crate::family::FamilyState;
use crate::locks::Rank;
use crate::shared::{Shared, Writer};
use crate::telemetry::GroupCounts;
use guards::{Lead, Untold};
use insert::Company;
use log::CurrentLog;
use queue::{Group, Kind, Turn, Waiter};

/// A write that takes so many microseconds is written to the LOG.
const LONG_MICROS: u64 = 50_000;

impl Shared {
    /// Writes `batch`.
    #[inline]
    pub(crate) fn write(
        self: &Arc<Self>,
        batch: &WriteBatch,
        options: &WriteOptions,
    ) -> Result<()> {
        match self.context.dated {
            false => self.write_stored(batch, options),
            true => self.write_dated(batch, options),
        }
    }

    /// Writes `batch` with a date behind each value.
    #[cold]
    fn write_dated(self: &Arc<Self>, batch: &WriteBatch, options: &WriteOptions) -> Result<()> {
        let now = self.context.world.clock.wall_seconds();
        if !dated::is_date(now) {
            return Err(Error::aborted(format!(
                "the clock is wrong: values cannot be dated {now} seconds after 1970"
            )));
        }
        let dated = batch.dated(now)?;
        self.write_stored(&dated, options)
    }

    /// Writes `batch` as it is stored.
    fn write_stored(self: &Arc<Self>, batch: &WriteBatch, options: &WriteOptions) -> Result<()> {
        self.context.check_process()?;
        if options.sync && options.disable_wal {
            return Err(Error::invalid_argument(
                "a synced write needs the WAL: sync and disableWAL are both set",
            ));
        }
        // Later numbers in logs would not follow those before them, by which what a recycled log has
        // left of its former life is told.
        if options.disable_wal && self.options().recycle_log_file_num > 0 {
            return Err(Error::invalid_argument(
                "WriteOptions::disableWAL option is not supported if \
                 DBOptions::recycle_log_file_num > 0",
            ));
        }
        batch.check()?;
        cairn_wal::check_record(batch.data().len() as u64)?;
        if !options.ignore_missing_column_families {
            self.check_families(batch)?;
        }
        // Relaxed: a batch that names a family comes after the creation of the family.
        if self.signals.has_timestamps() {
            self.refuse_timestamps(batch)?;
        }
        options.check_supported()?;
        if options.low_pri {
            self.let_others_first(batch.data().len(), options.no_slowdown)?;
        }
        let began = self.telemetry.began();
        let written = self.write_checked(batch, options);
        let micros = self.telemetry.time_since(began, Histogram::DbWrite);
        if let Some(micros) = micros.filter(|micros| *micros >= LONG_MICROS) {
            self.tell_of_long_write(batch.data().len(), micros);
        }
        written
    }

    /// Refuses a batch with a write to a family whose keys have timestamps: the last bytes of the key would be
    /// read as one.
    #[cold]
    fn refuse_timestamps(&self, batch: &WriteBatch) -> Result<()> {
        let families = self.families.load();
        let stamped = |family: &&Arc<FamilyState>| {
            family.order().timestamp_size() > 0 && batch.writes_to(family.id())
        };
        match families.iter().find(stamped) {
            Some(family) => Err(Error::not_supported(format!(
                "writes to column family {:?}, whose keys have timestamps",
                family.name()
            ))),
            None => Ok(()),
        }
    }

    /// Writes to the LOG that a write took long, at most one in a second: what it waited for is written by the code that
    /// knows, and what is not, it waited for memory, for its turn or for a core.
    #[cold]
    fn tell_of_long_write(&self, bytes: usize, micros: u64) {
        let now = self.context.world.clock.monotonic_nanos();
        if !self.telemetry.may_log_long_write(now) {
            return;
        }
        let slow = {
            let writer = self.writes.writer.lock();
            writer.log.as_ref().and_then(CurrentLog::slow_append)
        };
        let millis = micros / 1000;
        match slow.filter(|(ended, _)| *ended >= now.saturating_sub(micros * 1000)) {
            Some((_, nanos)) => self.context.info.info(format_args!(
                "a write of {bytes} bytes took {millis} ms: {} of them an append to the log",
                nanos / 1_000_000
            )),
            None => self.context.info.info(format_args!(
                "a write of {bytes} bytes took {millis} ms, and no append to the log is known to have"
            )),
        }
    }

    /// Writes a batch that may be written.
    fn write_checked(self: &Arc<Self>, batch: &WriteBatch, options: &WriteOptions) -> Result<()> {
        self.hold_back(batch, options.no_slowdown)?;
        let kind = Kind::Batch {
            sync: options.sync,
            disable_wal: options.disable_wal,
            no_slowdown: options.no_slowdown,
        };
        self.may_write()?;
        let waiter = match self
            .writes
            .queue
            .join(|| Waiter::new(kind, batch.data().to_vec()))
        {
            None => return self.lead(batch.data(), kind),
            Some(waiter) => waiter,
        };
        match waiter.wait() {
            Turn::Lead => self.lead(batch.data(), kind),
            Turn::Insert(seq, group) => {
                let inserted = self.insert_guarded(&waiter.batch, seq, Company::Group);
                self.end_insertion(&group, inserted)
            }
            Turn::Finished(result) => result,
        }
    }

    /// Refuses a batch for families that do not exist any more, before any of it is logged.
    fn check_families(&self, batch: &WriteBatch) -> Result<()> {
        if batch.families().is_empty() {
            return Ok(());
        }
        let families = self.families.load();
        for id in batch.families() {
            if families.get(*id).is_none() {
                return Err(Error::invalid_argument(format!(
                    "the batch writes to column family {id}, which does not exist or was dropped"
                )));
            }
        }
        Ok(())
    }

    /// Writes the caller's batch and those of its group. The caller leads.
    fn lead(self: &Arc<Self>, batch: &[u8], kind: Kind) -> Result<()> {
        let mut tells = false;
        let written = self.write_group(batch, kind, &mut tells);
        if tells {
            // Without the lead, and with the write visible: a listener may write too.
            self.telemetry.deliver();
        }
        written
    }

    /// The rest of [`Shared::lead`]; sets `tells` if listeners may have to be notified.
    #[inline]
    fn write_group(self: &Arc<Self>, batch: &[u8], kind: Kind, tells: &mut bool) -> Result<()> {
        let Kind::Batch { no_slowdown, .. } = kind else {
            unreachable!("a batch is written");
        };
        let held = self.context.locks.hold(Rank::Lead);
        let lead = Lead::new(&self.writes.queue, held);
        self.make_room(no_slowdown, tells)?;
        let limit = || {
            let limit = self.options().max_write_batch_group_size_bytes;
            let limit = usize::try_from(limit).unwrap_or(usize::MAX);
            // A small write is not made to wait for a large group.
            match batch.len() <= limit / 8 {
                true => batch.len() + limit / 8,
                false => limit,
            }
        };
        let followers = self.writes.queue.followers(kind, limit);
        let untold = Untold(&followers);
        let result = match self.log_group(batch, kind, &followers) {
            Ok(before) if self.inserts_in_turn() => self.insert_in_turn(batch, before, &followers),
            Ok(before) => {
                std::mem::forget(untold);
                drop(lead);
                return match followers.is_empty() {
                    true => self.insert_alone(batch, before),
                    false => self.insert_group(batch, before, &followers),
                };
            }
            Err(error) => Err(error),
        };
        std::mem::forget(untold);
        for follower in &followers {
            follower.finish(result.clone());
        }
        drop(lead);
        result
    }

    /// Gives a group its sequence numbers and logs it; returns the last number before them. After a failure
    /// the group is in doubt and the database read-only.
    fn log_group(
        &self,
        batch: &[u8],
        kind: Kind,
        followers: &[Arc<Waiter>],
    ) -> Result<SequenceNumber> {
        let Kind::Batch {
            sync, disable_wal, ..
        } = kind
        else {
            unreachable!("a batch is written");
        };
        let bytes: usize = followers.iter().map(|follower| follower.batch.len()).sum();
        let keys = u64::from(count_of(batch))
            + followers
                .iter()
                .map(|follower| follower.count())
                .sum::<u64>();
        self.telemetry.record_group(&GroupCounts {
            batches: 1 + followers.len(),
            keys,
            bytes: batch.len() + bytes,
            logged: !disable_wal,
        });
        if disable_wal {
            self.signals.note_unlogged();
        }
        let mut writer = self.writes.writer.lock();
        let before = writer.allocated;
        if !disable_wal {
            let first = before.plus(1);
            let logged = if followers.is_empty() {
                self.append(&mut writer, &[(first, batch)], sync)
            } else {
                let mut next = first.plus(u64::from(count_of(batch)));
                let mut batches = vec![(first, batch)];
                for follower in followers {
                    batches.push((next, &follower.batch));
                    next = next.plus(follower.count());
                }
                self.append(&mut writer, &batches, sync)
            };
            if let Err(error) = logged {
                self.log_failed(&error);
                return Err(error);
            }
        }
        self.telemetry.record_keys(keys);
        writer.allocated = before.plus(keys);
        Ok(before)
    }

    /// Inserts a batch that is a group of its own, and waits until it is visible.
    fn insert_alone(&self, batch: &[u8], before: SequenceNumber) -> Result<()> {
        let inserted = self
            .telemetry
            .perf_timed(PerfMetric::WriteMemtableTime, || {
                self.insert_guarded(batch, before.plus(1), Company::OtherGroups)
            });
        self.show_group(before, before.plus(u64::from(count_of(batch))), inserted)
    }

    /// Inserts the batches of a group beside each other, and waits until they are visible.
    fn insert_group(
        &self,
        batch: &[u8],
        before: SequenceNumber,
        followers: &[Arc<Waiter>],
    ) -> Result<()> {
        let first = before.plus(1);
        let mut next = first.plus(u64::from(count_of(batch)));
        let mut placed = Vec::with_capacity(followers.len());
        for follower in followers {
            placed.push((next, follower));
            next = next.plus(follower.count());
        }
        // Sleeping waiters are not woken twice.
        let (looking, carried): (Vec<_>, Vec<_>) = placed
            .into_iter()
            .partition(|(_, follower)| follower.is_looking());
        let group = Group::new(1 + looking.len(), before, SequenceNumber(next.0 - 1));
        for (seq, follower) in looking {
            follower.insert_at(seq, &group);
        }
        let inserted = self
            .telemetry
            .perf_timed(PerfMetric::WriteMemtableTime, || {
                self.insert_guarded(batch, first, Company::Group)?;
                carried.iter().try_for_each(|(seq, follower)| {
                    self.insert_guarded(&follower.batch, *seq, Company::Group)
                })
            });
        let result = self.end_insertion(&group, inserted);
        for (_, follower) in carried {
            follower.finish(result.clone());
        }
        result
    }

    /// Inserts the batches of a group one after the other, each of which sees those before it, and shows them.
    /// The caller leads.
    fn insert_in_turn(
        &self,
        batch: &[u8],
        before: SequenceNumber,
        followers: &[Arc<Waiter>],
    ) -> Result<()> {
        self.writes.order.wait_for(before);
        let mut inserted = Ok(());
        let mut next = before.plus(1);
        let batches = followers.iter().map(|follower| &*follower.batch);
        for batch in std::iter::once(batch).chain(batches) {
            inserted = inserted.and_then(|()| self.insert_guarded(batch, next, Company::None));
            next = next.plus(u64::from(count_of(batch)));
        }
        self.show_group(before, SequenceNumber(next.0 - 1), inserted)
    }

    /// Ends the part of a member of `group`: the last one shows the group, and the others wait for that.
    fn end_insertion(&self, group: &Group, inserted: Result<()>) -> Result<()> {
        if group.inserted(inserted) {
            return self.show_group(group.before, group.last, group.outcome());
        }
        self.writes.order.wait_for(group.last);
        group.outcome()
    }

    /// Shows the group of the numbers after `before` up to `last`, which ended as `inserted` says. One that
    /// was logged and could not be inserted is in doubt, and nothing more is written; it is passed like any
    /// other, so that nobody waits for it.
    fn show_group(
        &self,
        before: SequenceNumber,
        last: SequenceNumber,
        inserted: Result<()>,
    ) -> Result<()> {
        if let Err(error) = &inserted {
            self.background_error(BackgroundErrorReason::MemTable, error);
        }
        self.writes.order.show(before, last);
        inserted
    }

    /// Takes the lead for something that no other write may share, with all earlier writes inserted and
    /// visible, until the result is dropped.
    ///
    /// # Errors
    ///
    /// `Busy` in a callback that may not write.
    pub(crate) fn lead_alone(&self) -> Result<Lead<'_>> {
        self.may_write()?;
        let held = self.context.locks.hold(Rank::Lead);
        self.writes.queue.lead_alone();
        let lead = Lead::new(&self.writes.queue, held);
        self.wait_for_insertions();
        Ok(lead)
    }

    /// Waits until all that was logged is inserted. The caller leads.
    pub(crate) fn wait_for_insertions(&self) {
        let last = self.writes.writer.lock().allocated;
        self.writes.order.wait_for(last);
    }

    /// Appends `batches` to the log, and syncs it if `sync` asks for it.
    fn append(
        &self,
        writer: &mut Writer,
        batches: &[(SequenceNumber, &[u8])],
        sync: bool,
    ) -> Result<()> {
        let log = writer
            .log
            .as_mut()
            .ok_or_else(|| Error::shutdown("the database is closed"))?;
        self.telemetry
            .perf_timed(PerfMetric::WriteWalTime, || log.append(batches, sync))?;
        writer.unflushed_log_bytes = log.len();
        if sync {
            let began = self.telemetry.wal_sync_begins();
            log.file().sync(&*self.context.world.fs)?;
            self.telemetry.record_wal_sync(began);
            Ok(())
        } else {
            Ok(())
        }
    }
}

impl Waiter {
    /// How many sequence numbers its batch takes.
    fn count(&self) -> u64 {
        u64::from(count_of(&self.batch))
    }
}

/// How many sequence numbers the batch `bytes` takes.
fn count_of(bytes: &[u8]) -> u32 {
    let count = bytes.get(8..12).and_then(<[u8]>::first_chunk);
    u32::from_le_bytes(*count.expect("a batch has its header"))
}
