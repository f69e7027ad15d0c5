//! Writes: from a batch to visible, logged entries.
//!
//! ```text
//! batch -> [held back while its families are behind] -> queue -> [make room] -> sequence numbers -> one log append (and sync) for the group
//!       -> every member inserts its own batch -> publish -> wake
//! ```
//!
//! Cost of an uncontended write: two swaps of the queue's lead, the writer's lock, one append, the insertions,
//! one store.

pub(crate) mod archive;
pub(crate) mod buffers;
pub(crate) mod hold;
pub(crate) mod insert;
pub(crate) mod log;
pub(crate) mod queue;
pub(crate) mod room;
pub(crate) mod stall;
pub(crate) mod successive;
pub(crate) mod wal_control;

use std::sync::Arc;

use cairn_observe::BackgroundErrorReason;
use cairn_observe::perf::PerfMetric;
use cairn_observe::statistics::Histogram;
use cairn_options::WriteOptions;
use cairn_platform::sync::Ordering;
use cairn_types::{Error, Result, SequenceNumber};

use crate::batch::WriteBatch;
use crate::shared::{Shared, Writer};
use crate::tally::GroupCounts;
use queue::{Group, Kind, Next, Waiter};

impl Shared {
    /// Writes `batch`.
    pub(crate) fn write(
        self: &Arc<Self>,
        batch: &WriteBatch,
        options: &WriteOptions,
    ) -> Result<()> {
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
        if !options.ignore_missing_column_families {
            self.check_families(batch)?;
        }
        options.check_supported()?;
        if options.low_pri {
            self.let_others_first(batch.data().len(), options.no_slowdown)?;
        }
        let began = self.began();
        let written = self.write_checked(batch, options);
        self.time_since(began, Histogram::DbWrite);
        written
    }

    /// Writes a batch that may be written.
    fn write_checked(self: &Arc<Self>, batch: &WriteBatch, options: &WriteOptions) -> Result<()> {
        self.hold_back(batch, options.no_slowdown)?;
        let kind = Kind::Batch {
            sync: options.sync,
            disable_wal: options.disable_wal,
            no_slowdown: options.no_slowdown,
        };
        let waiter = match self.queue.join(|| Waiter::new(kind, batch.data().to_vec())) {
            None => return self.lead(batch.data(), kind),
            Some(waiter) => waiter,
        };
        loop {
            match waiter.next() {
                Next::Lead => return self.lead(batch.data(), kind),
                Next::Insert(seq, group) => group.inserted(self.insert(&waiter.batch, seq)),
                Next::Finished(result) => return result,
            }
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
        let Kind::Batch { no_slowdown, .. } = kind else {
            unreachable!("a batch is written");
        };
        if let Err(error) = self.make_room(no_slowdown) {
            self.queue.hand_over();
            return Err(error);
        }
        let limit =
            usize::try_from(self.options().max_write_batch_group_size_bytes).unwrap_or(usize::MAX);
        // A small write is not made to wait for a large group.
        let limit = if batch.len() <= limit / 8 {
            batch.len() + limit / 8
        } else {
            limit
        };
        let followers = self.queue.followers(kind, limit);
        let result = self.write_group(batch, kind, &followers);
        for follower in &followers {
            follower.finish(result.clone());
        }
        self.queue.hand_over();
        result
    }

    /// Logs, inserts and publishes a group. A failure after the append leaves the group in doubt
    /// and the database read-only.
    fn write_group(&self, batch: &[u8], kind: Kind, followers: &[Arc<Waiter>]) -> Result<()> {
        let Kind::Batch {
            sync, disable_wal, ..
        } = kind
        else {
            unreachable!("a batch is written");
        };
        let bytes: usize = followers.iter().map(|follower| follower.batch.len()).sum();
        self.counters
            .note_group(1 + followers.len(), batch.len() + bytes, !disable_wal);
        let keys = |follower: &Arc<Waiter>| u64::from(count_of(&follower.batch));
        self.tally_group(&GroupCounts {
            batches: 1 + followers.len(),
            keys: u64::from(count_of(batch)) + followers.iter().map(keys).sum::<u64>(),
            bytes: batch.len() + bytes,
            logged: !disable_wal,
        });
        let mut writer = self.writer.lock();
        let first = writer.allocated.plus(1);
        let count = |bytes: &[u8]| u64::from(count_of(bytes));
        if disable_wal {
            self.unlogged.store(true, Ordering::Release);
        }
        if !disable_wal {
            let logged = if followers.is_empty() {
                self.append(&mut writer, &[(first, batch)], sync)
            } else {
                let mut next = first.plus(count(batch));
                let mut batches = vec![(first, batch)];
                for follower in followers {
                    batches.push((next, &follower.batch));
                    next = next.plus(count(&follower.batch));
                }
                self.append(&mut writer, &batches, sync)
            };
            if let Err(error) = logged {
                self.log_failed(&error);
                return Err(error);
            }
        }

        let mut next = first.plus(count(batch));
        let in_turn = !followers.is_empty() && self.inserts_in_turn();
        if in_turn {
            let mut result = self.insert(batch, first);
            for follower in followers {
                result = result.and_then(|()| self.insert(&follower.batch, next));
                next = next.plus(count(&follower.batch));
            }
            return self.publish(&mut writer, SequenceNumber(next.0 - 1), result);
        }
        let group = (!followers.is_empty()).then(|| Group::new(followers.len()));
        for follower in followers {
            let group = group.as_ref().expect("a group with followers exists");
            follower.insert_at(next, group);
            next = next.plus(count(&follower.batch));
        }
        let own = self.perf_timed(PerfMetric::WriteMemtableTime, || self.insert(batch, first));
        let others = group.map_or(Ok(()), |group| group.wait());
        self.publish(&mut writer, SequenceNumber(next.0 - 1), own.and(others))
    }

    /// Shows readers all entries up to `last`, which were inserted with this result.
    fn publish(
        &self,
        writer: &mut Writer,
        last: SequenceNumber,
        inserted: Result<()>,
    ) -> Result<()> {
        self.counters.keys_written.add(last.0 - writer.allocated.0);
        writer.allocated = last;
        if let Err(error) = inserted {
            self.background_error(BackgroundErrorReason::MemTable, &error);
            return Err(error);
        }
        // Release: a reader that sees the number sees the entries up to it.
        self.published.store(writer.allocated.0, Ordering::Release);
        Ok(())
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
        self.perf_timed(PerfMetric::WriteWalTime, || log.append(batches, sync))?;
        writer.unflushed_log_bytes = log.len();
        if sync {
            self.counters.wal_syncs.add(1);
            let began = self.began();
            log.syncer().sync(&*self.world.fs)?;
            self.tally_wal_sync(began);
            Ok(())
        } else {
            Ok(())
        }
    }
}

/// How many sequence numbers the batch `bytes` takes.
fn count_of(bytes: &[u8]) -> u32 {
    let count = bytes.get(8..12).and_then(<[u8]>::first_chunk);
    u32::from_le_bytes(*count.expect("a batch has its header"))
}
