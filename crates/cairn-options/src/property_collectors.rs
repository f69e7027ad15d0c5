//! The option for property collectors, and the built-in collector that marks tables with many
//! deletions for compaction.

use std::sync::Arc;

use cairn_types::{
    CollectorContext, Result, SequenceNumber, TablePropertiesCollector,
    TablePropertiesCollectorFactory, ValueKind,
};

use crate::text::{NULL, Refusal, Text, object, unbraced};

/// The collector factories of a family.
#[derive(Clone, Default)]
pub struct Collectors(Vec<Arc<dyn TablePropertiesCollectorFactory>>);

impl Collectors {
    /// Appends `factory`.
    pub fn push(&mut self, factory: Arc<dyn TablePropertiesCollectorFactory>) {
        self.0.push(factory);
    }

    /// Returns the factories.
    #[must_use]
    pub fn all(&self) -> &[Arc<dyn TablePropertiesCollectorFactory>] {
        &self.0
    }
}

/// The built-in factory can be set by a text, as RocksDB writes it; others only in code.
impl Text for Collectors {
    fn parse(text: &str) -> Result<Collectors, Refusal> {
        let mut collectors = Collectors::default();
        let list = match text.starts_with("{{") {
            true => unbraced(text),
            false => text,
        };
        if [NULL, "", "{}"].contains(&list) {
            return Ok(collectors);
        }
        for factory in list.split(':') {
            collectors.push(Arc::new(CompactOnDeletion::parse(factory)?));
        }
        Ok(collectors)
    }

    fn print(&self) -> String {
        NULL.to_owned()
    }
}

/// RocksDB's name of the built-in factory.
const COLLECTOR: &str = "CompactOnDeletionCollector";
/// Number of buckets of the sliding window over the entries of a table.
const BUCKETS: usize = 128;

/// Marks tables with many deletions for compaction: `deletion_trigger` deletions among `window_size`
/// consecutive entries, or a fraction of `deletion_ratio` of all entries. Such tables slow down scans
/// and hold reclaimable space.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CompactOnDeletion {
    /// Size of the window, in entries; 0 disables it.
    pub window_size: usize,
    /// Number of deletions in the window that marks the table.
    pub deletion_trigger: usize,
    /// Fraction of deletions among all entries that marks the table; disabled outside of 0 to 1.
    pub deletion_ratio: f64,
    /// Minimum size of a table to be marked, in bytes.
    pub min_file_size: u64,
}

impl CompactOnDeletion {
    /// Marks tables with `deletion_trigger` deletions among `window_size` entries.
    #[must_use]
    pub fn new(window_size: usize, deletion_trigger: usize) -> CompactOnDeletion {
        CompactOnDeletion {
            window_size,
            deletion_trigger,
            deletion_ratio: 0.0,
            min_file_size: 0,
        }
    }

    /// Parses `{id=CompactOnDeletionCollector;window_size=N;...}`.
    fn parse(text: &str) -> Result<CompactOnDeletion, Refusal> {
        let (COLLECTOR, properties) = object(text)? else {
            return Err(format!(
                "expected {COLLECTOR}; other collectors can only be set in code"
            ));
        };
        let mut rule = CompactOnDeletion::new(0, 0);
        for (name, value) in properties {
            match name {
                "window_size" => rule.window_size = usize::parse(value)?,
                "deletion_trigger" => rule.deletion_trigger = usize::parse(value)?,
                "deletion_ratio" => rule.deletion_ratio = f64::parse(value)?,
                "min_file_size" => rule.min_file_size = u64::parse(value)?,
                _ => return Err(format!("{COLLECTOR} has no option {name}")),
            }
        }
        Ok(rule)
    }

    /// The collector of `deletion_triggered_compaction`, which marks a table if half of several
    /// thousand consecutive entries are deletions. A scan skips fewer than that in well under a
    /// millisecond.
    #[must_use]
    pub fn by_default() -> CompactOnDeletion {
        CompactOnDeletion::new(8192, 4096)
    }

    /// Creates the collector of a table.
    #[must_use]
    pub fn collector(&self) -> DeletionDensity {
        DeletionDensity {
            rule: *self,
            bucket_size: self.window_size.div_ceil(BUCKETS),
            buckets: [0; BUCKETS],
            bucket: 0,
            in_bucket: 0,
            in_window: 0,
            entries: 0,
            deletions: 0,
            file_size: 0,
            dense: false,
        }
    }
}

impl TablePropertiesCollectorFactory for CompactOnDeletion {
    fn name(&self) -> &str {
        COLLECTOR
    }

    fn describe(&self) -> String {
        format!(
            "{} (Sliding window size = {} Deletion trigger = {} Deletion ratio = {})",
            self.name(),
            self.window_size,
            self.deletion_trigger,
            self.deletion_ratio
        )
    }

    fn create(&self, _: &CollectorContext) -> Option<Box<dyn TablePropertiesCollector>> {
        Some(Box::new(self.collector()))
    }
}

/// The collector of [`CompactOnDeletion`]: the deletions among the last entries of a table.
pub struct DeletionDensity {
    rule: CompactOnDeletion,
    bucket_size: usize,
    /// Deletions in each bucket of the window, as a ring buffer.
    buckets: [usize; BUCKETS],
    bucket: usize,
    /// Entries in the current bucket.
    in_bucket: usize,
    /// Deletions in the window.
    in_window: usize,
    entries: u64,
    deletions: u64,
    file_size: u64,
    dense: bool,
}

impl DeletionDensity {
    /// Adds an entry of `kind`; `file_size` is the size of the table so far, in bytes.
    #[inline]
    pub fn count(&mut self, kind: ValueKind, file_size: u64) {
        self.entries += 1;
        self.file_size = file_size;
        if self.dense || self.bucket_size == 0 {
            self.deletions += u64::from(kind.is_deletion());
            return;
        }
        if self.in_bucket == self.bucket_size {
            self.bucket = (self.bucket + 1) % BUCKETS;
            self.in_window -= std::mem::take(&mut self.buckets[self.bucket]);
            self.in_bucket = 0;
        }
        self.in_bucket += 1;
        if kind.is_deletion() {
            self.deletions += 1;
            self.in_window += 1;
            self.buckets[self.bucket] += 1;
        }
        self.dense = self.in_window >= self.rule.deletion_trigger.max(1)
            && file_size >= self.rule.min_file_size;
    }
}

impl TablePropertiesCollector for DeletionDensity {
    fn add(
        &mut self,
        _: &[u8],
        _: &[u8],
        kind: ValueKind,
        _: SequenceNumber,
        file_size: u64,
    ) -> Result<()> {
        self.count(kind, file_size);
        Ok(())
    }

    fn finish(&mut self) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let ratio = self.rule.deletion_ratio;
        let by_ratio = ratio > 0.0 && ratio <= 1.0 && self.entries > 0;
        self.dense |= by_ratio
            && self.file_size >= self.rule.min_file_size
            && self.deletions as f64 / self.entries as f64 >= ratio;
        Ok(Vec::new())
    }

    fn need_compact(&self) -> bool {
        self.dense
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// True if a table of these entries is marked; `true` stands for a deletion.
    fn is_marked(rule: CompactOnDeletion, entries: &[bool]) -> bool {
        let context = CollectorContext {
            family_id: 0,
            level_at_creation: 0,
            num_levels: 7,
        };
        let mut collector = rule.create(&context).unwrap();
        for (at, &deletes) in entries.iter().enumerate() {
            let kind = match deletes {
                true => ValueKind::Deletion,
                false => ValueKind::Value,
            };
            let size = at as u64 * 10;
            collector
                .add(b"k", b"", kind, SequenceNumber(1), size)
                .unwrap();
        }
        collector.finish().unwrap();
        collector.need_compact()
    }

    #[test]
    fn dense_deletions_mark_a_table() {
        let rule = CompactOnDeletion::new(256, 100);
        let spread: Vec<bool> = (0..10_000).map(|n| n % 4 == 0).collect();
        assert!(!is_marked(rule, &spread));
        let mut dense = spread.clone();
        dense[5000..5090].fill(true);
        assert!(is_marked(rule, &dense));
        let large_only = CompactOnDeletion {
            min_file_size: 1 << 20,
            ..rule
        };
        assert!(!is_marked(large_only, &dense));
    }

    #[test]
    fn a_fraction_of_deletions_marks_a_table() {
        let rule = CompactOnDeletion {
            deletion_ratio: 0.5,
            ..CompactOnDeletion::new(0, 0)
        };
        assert!(is_marked(rule, &[true, false]));
        assert!(!is_marked(rule, &[true, false, false]));
        assert!(!is_marked(rule, &[]));
    }
}
