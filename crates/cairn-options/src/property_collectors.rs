//! Collectors of table properties as an option, and the built-in one: tables dense with deletions
//! ask for a compaction.

use std::sync::Arc;

use cairn_types::{
    CollectorContext, Result, SequenceNumber, TablePropertiesCollector,
    TablePropertiesCollectorFactory, ValueKind,
};

use crate::text::{NULL, Refusal, Text};

/// The factories of collectors of a family.
#[derive(Clone, Default)]
pub struct Collectors(Vec<Arc<dyn TablePropertiesCollectorFactory>>);

impl Collectors {
    /// Adds `factory` behind the others.
    pub fn push(&mut self, factory: Arc<dyn TablePropertiesCollectorFactory>) {
        self.0.push(factory);
    }

    /// The factories.
    #[must_use]
    pub fn all(&self) -> &[Arc<dyn TablePropertiesCollectorFactory>] {
        &self.0
    }
}

/// They are given in code only; a text can take them away.
impl Text for Collectors {
    fn parse(text: &str) -> Result<Collectors, Refusal> {
        match text {
            NULL | "" => Ok(Collectors::default()),
            _ => Err("collectors are given in code".to_owned()),
        }
    }

    fn print(&self) -> String {
        NULL.to_owned()
    }
}

/// Parts of the window that slides over the entries of a table.
const BUCKETS: usize = 128;

/// Marks tables for compaction that are dense with deletions: `deletion_trigger` of them among
/// `window_size` entries in a row, or a share of `deletion_ratio` of all. Such tables make scans
/// slow and hold space that a compaction would free.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CompactOnDeletion {
    /// Entries in a row that are looked at together; 0 to leave windows aside.
    pub window_size: usize,
    /// Deletions among them at which the table is marked.
    pub deletion_trigger: usize,
    /// Share of deletions among all entries at which it is; none outside of 0 to 1.
    pub deletion_ratio: f64,
    /// Smaller tables are left alone, in bytes.
    pub min_file_size: u64,
}

impl CompactOnDeletion {
    /// A table is marked for `deletion_trigger` deletions among `window_size` entries.
    #[must_use]
    pub fn new(window_size: usize, deletion_trigger: usize) -> CompactOnDeletion {
        CompactOnDeletion {
            window_size,
            deletion_trigger,
            deletion_ratio: 0.0,
            min_file_size: 0,
        }
    }

    /// What tables get whose family says `deletion_triggered_compaction`: half of some thousand
    /// entries in a row deleted. What a scan can pass in well under a millisecond is left alone.
    #[must_use]
    pub fn by_default() -> CompactOnDeletion {
        CompactOnDeletion::new(8192, 4096)
    }
}

impl TablePropertiesCollectorFactory for CompactOnDeletion {
    fn name(&self) -> &str {
        "CompactOnDeletionCollector"
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
        Some(Box::new(Density {
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
        }))
    }
}

/// How many deletions the last entries of a table hold.
struct Density {
    rule: CompactOnDeletion,
    bucket_size: usize,
    /// Deletions in each part of the window, as a ring.
    buckets: [usize; BUCKETS],
    bucket: usize,
    /// Entries in the current part.
    in_bucket: usize,
    /// Deletions in the window.
    in_window: usize,
    entries: u64,
    deletions: u64,
    file_size: u64,
    dense: bool,
}

impl TablePropertiesCollector for Density {
    #[inline]
    fn add(
        &mut self,
        _: &[u8],
        _: &[u8],
        kind: ValueKind,
        _: SequenceNumber,
        file_size: u64,
    ) -> Result<()> {
        let deletes = kind.is_deletion();
        self.entries += 1;
        self.deletions += u64::from(deletes);
        self.file_size = file_size;
        if self.dense || self.bucket_size == 0 {
            return Ok(());
        }
        if self.in_bucket == self.bucket_size {
            self.bucket = (self.bucket + 1) % BUCKETS;
            self.in_window -= std::mem::take(&mut self.buckets[self.bucket]);
            self.in_bucket = 0;
        }
        self.in_bucket += 1;
        self.in_window += usize::from(deletes);
        self.buckets[self.bucket] += usize::from(deletes);
        self.dense = self.in_window >= self.rule.deletion_trigger.max(1)
            && file_size >= self.rule.min_file_size;
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

    /// True if a table of these entries (true: a deletion) is marked.
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
    fn deletions_close_together_mark_a_table() {
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
    fn a_share_of_deletions_marks_a_table() {
        let rule = CompactOnDeletion {
            deletion_ratio: 0.5,
            ..CompactOnDeletion::new(0, 0)
        };
        assert!(is_marked(rule, &[true, false]));
        assert!(!is_marked(rule, &[true, false, false]));
        assert!(!is_marked(rule, &[]));
    }
}
