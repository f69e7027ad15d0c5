//! The sequence numbers of the entries in the logs, by family.
//!
//! A number belongs to one entry. If it is in a table of the family, that entry was flushed, and so were all older ones of the
//! family: memtables are flushed in order. The largest number of a table does not tell this, because ingested tables take newer
//! numbers than entries that are still in a memtable, and a compaction merges them with other tables.
//!
//! Cost: one pass over the logs, and 16 bytes for each run of consecutive numbers of a family.

use std::collections::BTreeMap;

use cairn_platform::FileSystem;
use cairn_platform::fs::FileMode;
use cairn_types::{FileNumber, KeyOrder, Result, SequenceNumber, ValueKind};
use cairn_wal::{WalEvent, WalFile, WalReader};

use crate::open::replay::{RecordedSizes, Replay, Sink};

/// The numbers of the logged entries.
#[derive(Default)]
pub(super) struct Logged {
    families: BTreeMap<u32, Numbers>,
}

/// Sequence numbers of one family: ranges, first and last, in ascending order.
#[derive(Default)]
struct Numbers(Vec<(u64, u64)>);

impl Numbers {
    fn push(&mut self, seq: u64) {
        match self.0.last_mut() {
            Some((_, last)) if seq.checked_sub(1) == Some(*last) => *last = seq,
            _ => self.0.push((seq, seq)),
        }
    }

    /// True if a number from `from` to `to` is among them.
    fn any_within(&self, from: u64, to: u64) -> bool {
        let at = self.0.partition_point(|&(_, last)| last < from);
        self.0.get(at).is_some_and(|&(first, _)| first <= to)
    }
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
        for numbers in logged.families.values_mut() {
            // A log may have the content of an older one at its end.
            numbers.0.sort_unstable();
        }
        Ok(logged)
    }

    /// True if the log has the entry `seq` of `family`.
    pub(super) fn has(&self, family: u32, seq: SequenceNumber) -> bool {
        let numbers = self.families.get(&family);
        numbers.is_some_and(|numbers| numbers.any_within(seq.0, seq.0))
    }

    /// True if the log has an entry of `family` above `floor` and up to `largest`.
    pub(super) fn has_within(
        &self,
        family: u32,
        floor: SequenceNumber,
        largest: SequenceNumber,
    ) -> bool {
        let numbers = self.families.get(&family);
        numbers.is_some_and(|numbers| numbers.any_within(floor.0 + 1, largest.0))
    }
}

impl Sink for Logged {
    /// Keys are not compared.
    fn order(&self, _family: u32) -> Option<KeyOrder> {
        Some(KeyOrder::Bytewise)
    }

    fn log_number(&self, _family: u32) -> FileNumber {
        FileNumber(0)
    }

    fn add(&mut self, family: u32, seq: SequenceNumber, _: ValueKind, _: &[u8], _: &[u8]) {
        self.families.entry(family).or_default().push(seq.0);
    }

    fn batch_done(&mut self) -> Result<()> {
        Ok(())
    }
}
