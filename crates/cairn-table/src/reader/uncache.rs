//! Erases the cached blocks of an obsolete table (`uncache_aggressiveness`).
//!
//! The cached blocks of a table are not recorded. The handles of its blocks are read from the index, as far as the
//! index is in memory, and erased one after the other, until too few of them turn out to be cached.

use cairn_format::block::{BlockKind, BlockLayout, IndexCursor, IndexForm};
use cairn_format::table::Handle;
use cairn_memory::CacheRole;
use cairn_platform::Buffer;

use super::table::{Blocks, MetaBlock, Table};

/// Decides when erasing more blocks is not worth the time, as RocksDB does: once the share of blocks that were
/// cached is below 0.99 to the power of the aggressiveness less one. A few failures are allowed before that.
struct Advisor {
    allowance: u32,
    threshold: f64,
    erased: u32,
    missing: u32,
}

/// Maximum number of blocks not cached before the share decides.
const MAX_ALLOWANCE: u32 = 3;
/// The share per step of aggressiveness.
const STEP: f64 = 0.99;

impl Advisor {
    fn new(aggressiveness: u32) -> Advisor {
        Advisor {
            allowance: aggressiveness.min(MAX_ALLOWANCE),
            threshold: STEP.powf(f64::from(aggressiveness.saturating_sub(1))),
            erased: 0,
            missing: 0,
        }
    }

    fn report(&mut self, erased: bool) {
        match erased {
            true => self.erased += 1,
            false => self.missing += 1,
        }
    }

    fn continues(&self) -> bool {
        let Some(beyond) = self.missing.checked_sub(self.allowance) else {
            return true;
        };
        let (erased, beyond) = (f64::from(self.erased), f64::from(beyond));
        (erased + 1.0) / (erased + beyond + 1.5) >= self.threshold
    }
}

impl Table {
    /// Erases blocks of the table from the block cache, and returns their number. For tables that are about to be
    /// deleted; readers of the blocks are not affected. `aggressiveness` is that of `uncache_aggressiveness`: 0 erases
    /// nothing, 1 stops at the first data block that is not cached, 10000 tries all. Reads no file, so blocks
    /// under an index partition that is not in memory stay.
    pub fn uncache(&self, aggressiveness: u32) -> usize {
        if aggressiveness == 0 || self.params.cache.is_none() {
            return 0;
        }
        let mut erased = 0;
        if let Some(filter) = &self.filter {
            let role = match filter.partitioned {
                true => CacheRole::FilterMeta,
                false => CacheRole::Filter,
            };
            if filter.partitioned {
                let root = self.in_memory(&filter.root, role);
                let partitions = root.map_or_else(Vec::new, |root| handles(&root, filter.form));
                erased += self.erase_all(&partitions, &mut Advisor::new(aggressiveness));
            }
            erased += usize::from(self.erase(filter.root.handle));
        }
        let index = &self.index;
        if let Some(root) = self.in_memory(&index.root, CacheRole::Index) {
            let below_root = handles(&root, index.form);
            let mut advisor = Advisor::new(aggressiveness);
            if index.two_level {
                for &handle in &below_root {
                    if !advisor.continues() {
                        break;
                    }
                    if let Some(partition) = self.partition(handle, &index.partitions) {
                        erased += self.erase_all(&handles(&partition, index.form), &mut advisor);
                    }
                }
                advisor = Advisor::new(aggressiveness);
            }
            erased += self.erase_all(&below_root, &mut advisor);
        }
        erased + usize::from(self.erase(index.root.handle))
    }

    /// Erases blocks until the advisor ends it. Returns the number of erased ones.
    fn erase_all(&self, handles: &[Handle], advisor: &mut Advisor) -> usize {
        let before = advisor.erased;
        for &handle in handles {
            if !advisor.continues() {
                break;
            }
            advisor.report(self.erase(handle));
        }
        (advisor.erased - before) as usize
    }

    fn erase(&self, handle: Handle) -> bool {
        let cache = self.params.cache.as_ref();
        cache.is_some_and(|cache| cache.erase(&self.cache_key(handle)))
    }

    /// Returns a metadata block if it is in memory.
    fn in_memory(&self, part: &MetaBlock, role: CacheRole) -> Option<Buffer> {
        let handle = part.handle;
        match &part.held {
            Some(held) => Some(held.clone()),
            None => self.peek(handle, role),
        }
    }

    /// Returns a partition of the index if it is in memory.
    fn partition(&self, handle: Handle, pinned: &Blocks) -> Option<Buffer> {
        let role = CacheRole::Index;
        match pinned.iter().find(|(offset, _)| *offset == handle.offset) {
            Some((_, block)) => Some(block.clone()),
            None => self.peek(handle, role),
        }
    }
}

/// Returns the handles in an index block, up to the first malformed entry.
fn handles(block: &Buffer, form: IndexForm) -> Vec<Handle> {
    let mut handles = Vec::new();
    let Ok(layout) = BlockLayout::parse(block, BlockKind::Index) else {
        return handles;
    };
    let mut cursor = IndexCursor::new(form);
    let mut moved = cursor.first(block, &layout);
    while moved.is_ok() && cursor.valid() {
        handles.push(cursor.handle());
        moved = cursor.next(block, &layout);
    }
    handles
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of blocks tried of a table in which every `nth` is cached.
    fn tried(aggressiveness: u32, cached: impl Fn(u32) -> bool) -> u32 {
        let mut advisor = Advisor::new(aggressiveness);
        (0..2000)
            .take_while(|&n| {
                let continues = advisor.continues();
                advisor.report(cached(n));
                continues
            })
            .count() as u32
    }

    #[test]
    fn erasing_ends_when_too_few_blocks_are_cached() {
        assert_eq!(tried(1, |n| n != 5), 6, "one block that is not cached");
        assert_eq!(tried(2, |_| false), 2);
        assert_eq!(tried(10_000, |_| false), 2000);
        assert_eq!(tried(69, |n| n % 4 != 0), 2000, "more than half is cached");
        assert!(tried(69, |n| n % 4 == 0) < 20, "less than half is cached");
        for aggressiveness in [1, 2, 11, 460] {
            assert_eq!(tried(aggressiveness, |_| true), 2000);
        }
    }
}
