//! The entries in the logs, by family, and up to which of them a family is in its tables.
//!
//! Memtables are flushed in order, so that a logged entry is in the tables if a later one is. A later one shows by its key: a
//! table has the key with at least its sequence number. An entry that was not flushed has no newer version in a table, not even
//! an ingested one, since ingestions flush memtables that they overlap. The largest number of a table alone tells nothing:
//! ingested tables take newer numbers than entries that are still in a memtable, and a compaction merges them with others.
//!
//! Entries whose versions have left the tables (by single deletions, or compactions into the last level) do not show. If no
//! later one shows either, they are replayed, as RocksDB replays all.
//!
//! Cost: one pass over the logs, 16 bytes for each of their entries, and a binary search for each entry of a table of a family
//! that has logged entries.

use std::collections::BTreeMap;

use cairn_format::hash::hash64;
use cairn_platform::FileSystem;
use cairn_platform::fs::FileMode;
use cairn_types::{FileNumber, KeyOrder, Result, SequenceNumber, ValueKind};
use cairn_wal::{WalEvent, WalFile, WalReader};

use crate::open::replay::{RecordedSizes, Replay, Sink};

/// The logged entries.
#[derive(Default)]
pub(super) struct Logged {
    /// The hash of the user key of each entry, without its timestamp, and its number; sorted.
    families: BTreeMap<u32, Vec<(u64, SequenceNumber)>>,
}

impl Logged {
    /// Reads `logs`. Damaged parts are left out, as they are by the replay of a repair.
    pub(super) fn read(fs: &dyn FileSystem, logs: &[WalFile]) -> Result<Logged> {
        let mut logged = Logged::default();
        let mut replay = Replay::new(SequenceNumber::ZERO);
        for log in logs {
            let mut sizes = RecordedSizes::new();
            let mut reader = WalReader::open(fs, &log.path, log.number, FileMode::default())?;
            loop {
                reader.advance()?;
                match reader.event() {
                    WalEvent::Record { payload, .. } => {
                        // The opening that follows reports a batch that cannot be read.
                        let _applied = replay.apply(payload, log.number, &sizes, &mut logged);
                    }
                    WalEvent::TimestampSizes(recorded) => {
                        let recorded = recorded.iter();
                        sizes.extend(recorded.map(|(family, size)| (family, usize::from(size))));
                    }
                    WalEvent::Predecessor(_) | WalEvent::Dropped(_) => {}
                    WalEvent::End(_) => break,
                }
            }
        }
        for entries in logged.families.values_mut() {
            entries.sort_unstable();
        }
        Ok(logged)
    }

    /// Returns the number of the last logged entry of `family` that is not newer than a version `seq` of the same key, which
    /// is in a table. The key has no timestamp.
    pub(super) fn last_not_after(
        &self,
        family: u32,
        key: &[u8],
        seq: SequenceNumber,
    ) -> Option<SequenceNumber> {
        let entries = self.families.get(&family)?;
        let version = (hash64(key), seq);
        let before = entries.partition_point(|entry| *entry <= version);
        let (hash, found) = entries[..before].last()?;
        (*hash == version.0).then_some(*found)
    }

    /// True if the logs have an entry of `family` above `floor` and up to `largest`.
    pub(super) fn has_within(
        &self,
        family: u32,
        floor: SequenceNumber,
        largest: SequenceNumber,
    ) -> bool {
        let mut entries = self.families.get(&family).into_iter().flatten();
        entries.any(|(_, seq)| floor < *seq && *seq <= largest)
    }
}

impl Sink for Logged {
    /// Keys are not compared, and have no timestamps.
    fn order(&self, _family: u32) -> Option<KeyOrder> {
        Some(KeyOrder::Bytewise)
    }

    fn log_number(&self, _family: u32) -> FileNumber {
        FileNumber(0)
    }

    fn add(&mut self, family: u32, seq: SequenceNumber, _: ValueKind, key: &[u8], _: &[u8]) {
        self.families
            .entry(family)
            .or_default()
            .push((hash64(key), seq));
    }

    fn batch_done(&mut self) -> Result<()> {
        Ok(())
    }
}
