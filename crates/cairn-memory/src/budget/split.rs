//! The regions that a budget is divided into, and the part of a budget that can be divided.

use cairn_types::{Error, Result};

const MIB: usize = 1 << 20;

/// Memory of the process that is not charged: the code and data of the program and its libraries, stacks, the
/// allocator's metadata and the objects of an open database. In the command line tool 12 MiB of code are resident,
/// which the kernel can drop, and 2 MiB of the rest.
pub(super) const BASE: usize = 14 * MIB;

/// The share of a budget left to the allocators, as a divisor: memory that was freed and not returned to the
/// operating system.
pub(super) const SLACK_DIVISOR: usize = 16;

/// The smallest limit of memtables.
pub(super) const MIN_MEMTABLES: usize = MIB;

/// The smallest block cache: a flush and a compaction with small inputs, the log and a few readers are charged 4 to 6
/// MiB.
pub(super) const MIN_CACHE: usize = 7 * MIB;

/// The largest initial limit of memtables: two of the default size for each of four families.
const MAX_INITIAL_MEMTABLES: usize = 512 * MIB;

/// A part of a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MemoryRegion {
    /// Memtables. Memory that they do not use is available to the block cache.
    Memtables,
    /// Blocks, blobs, and all other memory that is charged to the block cache.
    BlockCache,
    /// The compressed tier below the block cache.
    Compressed,
    /// Memory left to the page cache of the operating system.
    PageCache,
}

impl MemoryRegion {
    /// Every region.
    pub const ALL: [MemoryRegion; 4] = [
        MemoryRegion::Memtables,
        MemoryRegion::BlockCache,
        MemoryRegion::Compressed,
        MemoryRegion::PageCache,
    ];

    /// A name for logs and reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            MemoryRegion::Memtables => "memtables",
            MemoryRegion::BlockCache => "block_cache",
            MemoryRegion::Compressed => "compressed_tier",
            MemoryRegion::PageCache => "page_cache",
        }
    }
}

/// The bytes of each region.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemorySplit([usize; MemoryRegion::ALL.len()]);

impl MemorySplit {
    /// The bytes of `region`.
    #[must_use]
    pub fn get(&self, region: MemoryRegion) -> usize {
        self.0[region as usize]
    }

    /// The bytes of all regions.
    #[must_use]
    pub fn sum(&self) -> usize {
        self.0.iter().sum()
    }

    /// This split with `bytes` for `region`.
    #[must_use]
    pub fn with(mut self, region: MemoryRegion, bytes: usize) -> MemorySplit {
        self.0[region as usize] = bytes;
        self
    }

    /// Returns this split with `bytes` moved from `from` to `to`.
    ///
    /// # Panics
    ///
    /// If `from` has less.
    #[must_use]
    pub fn moved(self, from: MemoryRegion, to: MemoryRegion, bytes: usize) -> MemorySplit {
        assert!(self.get(from) >= bytes, "{from:?} has {bytes} bytes");
        self.with(from, self.get(from) - bytes)
            .with(to, self.get(to) + bytes)
    }
}

/// The smallest budget.
pub(super) const fn smallest() -> usize {
    let divided = MIN_MEMTABLES + MIN_CACHE;
    BASE + divided + divided.div_ceil(SLACK_DIVISOR - 1)
}

/// The part of a budget of `bytes` that regions share: without [`BASE`] and the allocator's part.
///
/// # Errors
///
/// `InvalidArgument` names the smallest budget if `bytes` is less.
pub(super) fn divided(bytes: usize) -> Result<usize> {
    let Some(rest) = bytes.checked_sub(BASE).filter(|_| bytes >= smallest()) else {
        return Err(Error::invalid_argument(format!(
            "a memory budget of {bytes} bytes is too small; the smallest is {} bytes",
            smallest()
        )));
    };
    Ok(rest - slack(bytes))
}

/// The part of a budget of `bytes` that is kept for free memory of the allocators.
pub(super) fn slack(bytes: usize) -> usize {
    bytes.saturating_sub(BASE) / SLACK_DIVISOR
}

/// The data of the databases when a budget is first divided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DataSize {
    /// Bytes in files.
    pub stored: u64,
    /// Bytes of the same blocks in a block cache.
    pub uncompressed: u64,
    /// True if reads bypass the page cache.
    pub direct_reads: bool,
}

/// Returns the initial split of `bytes`, by a published rule of thumb. If the data fits in the block cache,
/// the block cache gets everything except the memtables. Otherwise, if the files fit in the page cache, the
/// page cache gets as much as they need; if not, the block cache gets a fifth. `outside` is memory beyond the
/// budget that the page cache may use: if it exceeds the budget, the share left to the page cache makes no
/// difference.
pub(super) fn initial(bytes: usize, outside: usize, data: &DataSize) -> MemorySplit {
    let memtables = (bytes / 4).clamp(MIN_MEMTABLES, MAX_INITIAL_MEMTABLES);
    let memtables = memtables.min(bytes - MIN_CACHE);
    let rest = bytes - memtables;
    let most = rest - (rest / 5).max(MIN_CACHE).min(rest);
    let wanted = usize::try_from(data.stored).unwrap_or(usize::MAX);
    let wanted = wanted.saturating_sub(outside);
    let page_cache = match data.uncompressed <= rest as u64 || data.direct_reads {
        true => 0,
        false if wanted <= most => wanted,
        false if outside >= bytes => 0,
        false => most,
    };
    MemorySplit::default()
        .with(MemoryRegion::Memtables, memtables)
        .with(MemoryRegion::BlockCache, rest - page_cache)
        .with(MemoryRegion::PageCache, page_cache)
}

/// Returns `split` scaled to a sum of `bytes`. The regions in `fixed` keep their sizes if possible.
pub(super) fn scaled(split: &MemorySplit, bytes: usize, fixed: &[MemoryRegion]) -> MemorySplit {
    let before = split.sum().max(1);
    let mut scaled = MemorySplit::default();
    for region in [
        MemoryRegion::Memtables,
        MemoryRegion::Compressed,
        MemoryRegion::PageCache,
    ] {
        let own = split.get(region);
        let own = match fixed.contains(&region) {
            true => own,
            // Through 128 bits: the product of two sizes may exceed 64.
            false => (own as u128 * bytes as u128 / before as u128) as usize,
        };
        let least = if region == MemoryRegion::Memtables {
            MIN_MEMTABLES
        } else {
            0
        };
        let room = (bytes - MIN_CACHE).saturating_sub(scaled.sum());
        scaled = scaled.with(region, own.max(least).min(room));
    }
    let rest = bytes - scaled.sum();
    scaled.with(MemoryRegion::BlockCache, rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use MemoryRegion::{BlockCache, Memtables, PageCache};

    #[test]
    fn the_smallest_budget_fits_the_minimum_of_each_region() {
        let least = divided(smallest()).unwrap();
        assert!(least >= MIN_MEMTABLES + MIN_CACHE, "{least}");
        let error = divided(smallest() - 1).unwrap_err().to_string();
        assert!(error.contains(&smallest().to_string()), "{error}");
        assert!(divided(0).is_err());
        let split = initial(least, 0, &DataSize::default());
        assert_eq!(split.sum(), least);
        assert!(split.get(Memtables) >= MIN_MEMTABLES && split.get(BlockCache) >= MIN_CACHE);
    }

    #[test]
    fn the_initial_split_follows_the_rule_of_thumb() {
        let gib = 1usize << 30;
        let data = |stored: usize, direct_reads| DataSize {
            stored: stored as u64,
            uncompressed: 2 * stored as u64,
            direct_reads,
        };
        let page = |outside, data| initial(gib, outside, &data).get(PageCache);
        assert_eq!(
            page(0, data(gib / 4, false)),
            0,
            "the data fits uncompressed"
        );
        assert_eq!(page(0, data(gib / 2, false)), gib / 2, "the files fit");
        let rest = gib / 4 * 3;
        assert_eq!(
            page(0, data(10 * gib, false)),
            rest - rest / 5,
            "neither fits"
        );
        assert_eq!(page(0, data(10 * gib, true)), 0, "there is no page cache");
        assert_eq!(
            page(20 * gib, data(10 * gib, false)),
            0,
            "the files fit outside"
        );
        assert_eq!(
            page(20 * gib, data(50 * gib, false)),
            0,
            "the budget is a small part"
        );
    }

    #[test]
    fn a_changed_budget_keeps_the_proportions() {
        let split = MemorySplit::default()
            .with(Memtables, 200 * MIB)
            .with(BlockCache, 500 * MIB)
            .with(PageCache, 300 * MIB);
        let half = scaled(&split, 500 * MIB, &[]);
        assert_eq!(half.get(Memtables), 100 * MIB);
        assert_eq!(half.get(BlockCache), 250 * MIB);
        assert_eq!(half.sum(), 500 * MIB);
        let fixed = scaled(&split, 500 * MIB, &[Memtables]);
        assert_eq!(fixed.get(Memtables), 200 * MIB);
        assert_eq!(fixed.sum(), 500 * MIB);
        let least = scaled(&split, 8 * MIB, &[Memtables, PageCache]);
        assert_eq!(
            (least.get(Memtables), least.get(BlockCache)),
            (MIB, MIN_CACHE)
        );
        assert_eq!(least.get(PageCache), 0);
    }
}
