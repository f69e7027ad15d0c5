//! Decides which part of a memory budget should grow, as a pure function of observations.
//!
//! The cost of a split is the storage time that reads and merges take under it. The model predicts the cost
//! of splits near the current one; the best of them is chosen if its advantage is large enough.
//!
//! **Reads.** The reuse distance `x` of a block is the number of bytes evicted between its own eviction and
//! its next read. It determines the layer that serves that read
//!
//! ```text
//!   0          block cache           compressed tier          page cache
//!   |- hit ... |- 0 .. growth -----|- .. tier / share ------|- .. page / share ---|- device ->
//! ```
//!
//! and thereby its cost: a decompression, a read from the page cache, or a read from the device. Distances
//! are measured with ghost entries ([`ReuseCurve`]). The end of the page cache is inferred from the measured
//! share of slow reads, which accounts for other users of the page cache.
//!
//! **Merges.** A compaction of level 0 rewrites the data of the base level that overlaps with it. Larger
//! memtables need fewer of these compactions, each of which rewrites the same data: this part is inversely
//! proportional to the memory of memtables. The rest falls with its logarithm: with `D` bytes of data and `M`
//! bytes of memtables there are `ln(D/M) / ln(T)` levels, and each entry is merged once per level. The
//! derivative of the rest is therefore `-merges / (M * ln(D/M))` (Luo and Carey, "Breaking Down Memory Walls
//! in LSM-based Storage Systems").
//!
//! Steps are bounded. A step that reverses the last one requires a larger advantage and is half as large, so
//! that the split converges.

use super::reuse::ReuseCurve;
use super::split::{MemoryRegion, MemorySplit};
use MemoryRegion::{BlockCache, Compressed, Memtables, PageCache};

/// The largest step, as a divisor of the budget; halved after each reversal, up to [`MAX_HALVINGS`] times.
const STEP_DIVISOR: usize = 16;
const MAX_HALVINGS: u32 = 4;
/// The smallest step, in bytes.
const MIN_STEP: usize = 64 << 10;
/// The number of moves in one direction after which steps grow again.
const STEADY: u32 = 3;
/// The required ratio of saving to cost, for a move and for a reversal of the last move.
const ADVANTAGE: f64 = 1.25;
const ADVANTAGE_BACK: f64 = 2.0;
/// The least saving, in nanoseconds of storage time per second.
const LEAST_SAVING: f64 = 500_000.0;
/// The minimum number of storage reads for their times to be significant.
const LEAST_READS: u64 = 32;

/// Reads of blocks from files, by where they were served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadTimes {
    /// Reads fast enough to be from the page cache.
    pub fast: u64,
    /// Their nanoseconds.
    pub fast_nanos: u64,
    /// Other reads.
    pub slow: u64,
    /// Their nanoseconds.
    pub slow_nanos: u64,
    /// Bytes read.
    pub bytes: u64,
}

impl ReadTimes {
    /// Reads slower than this, in nanoseconds, are from the device.
    pub const SLOW: u64 = 30_000;

    /// Adds the times of `other`.
    pub fn add(&mut self, other: &ReadTimes) {
        self.fast += other.fast;
        self.fast_nanos += other.fast_nanos;
        self.slow += other.slow;
        self.slow_nanos += other.slow_nanos;
        self.bytes += other.bytes;
    }

    /// The times since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &ReadTimes) -> ReadTimes {
        ReadTimes {
            fast: self.fast.saturating_sub(earlier.fast),
            fast_nanos: self.fast_nanos.saturating_sub(earlier.fast_nanos),
            slow: self.slow.saturating_sub(earlier.slow),
            slow_nanos: self.slow_nanos.saturating_sub(earlier.slow_nanos),
            bytes: self.bytes.saturating_sub(earlier.bytes),
        }
    }

    /// Returns the mean nanoseconds of a read from the page cache and from the device, or typical values for
    /// those that did not occur.
    fn each(&self) -> (f64, f64) {
        let mean = |nanos: u64, reads: u64, usual: f64| match reads {
            0 => usual,
            reads => nanos as f64 / reads as f64,
        };
        let fast = mean(self.fast_nanos, self.fast, 4_000.0);
        (fast, mean(self.slow_nanos, self.slow, 100_000.0).max(fast))
    }
}

/// Bounds of the size of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionBounds {
    /// The smallest size in bytes.
    pub least: usize,
    /// The largest size in bytes.
    pub most: usize,
}

/// The observations of an interval.
#[derive(Clone, Debug)]
pub struct Observations {
    /// The length of the interval in nanoseconds.
    pub nanos: u64,
    /// The current split.
    pub split: MemorySplit,
    /// The bounds by region. A region whose size is explicit, or that does not exist, has equal bounds.
    pub bounds: [RegionBounds; MemoryRegion::ALL.len()],
    /// Insertions into the block cache by distance.
    pub reuse: ReuseCurve,
    /// Reads from files.
    pub reads: ReadTimes,
    /// The ratio of the size of a block in files to its size in the block cache.
    pub stored_share: f64,
    /// Nanoseconds of a hit in the compressed tier.
    pub unpack_nanos: f64,
    /// Nanoseconds of merges (flushes and compactions).
    pub merge_nanos: u64,
    /// The part of them in which compactions of level 0 rewrote data of sorted levels.
    pub overlap_nanos: u64,
    /// Bytes of the data.
    pub data_bytes: u64,
    /// True if memtables were flushed because of their common limit, and not by their own sizes.
    pub limit_flushes: bool,
    /// Peak memory of the memtables, in bytes.
    pub memtables_used: usize,
}

/// A move of memory from one region to another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Move {
    /// The region that shrinks.
    pub from: MemoryRegion,
    /// The region that grows.
    pub to: MemoryRegion,
    /// The bytes moved.
    pub bytes: usize,
    /// Predicted storage time that the growth saves, in nanoseconds per second.
    pub saved: f64,
    /// Predicted storage time that the loss costs, in nanoseconds per second.
    pub lost: f64,
}

impl std::fmt::Display for Move {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} bytes from {} to {}: saves {:.1} ms of storage time per second and costs {:.1} ms",
            self.bytes,
            self.from.name(),
            self.to.name(),
            self.saved / 1e6,
            self.lost / 1e6
        )
    }
}

/// The damping of steps: the last move, and how often the direction was reversed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Damping {
    last: Option<(MemoryRegion, MemoryRegion)>,
    halvings: u32,
    steady: u32,
}

impl Damping {
    /// The damping after a move.
    #[must_use]
    pub fn after(self, made: &Move) -> Damping {
        let direction = Some((made.from, made.to));
        let (halvings, steady) = match self.last {
            _ if self.is_back(made.from, made.to) => ((self.halvings + 1).min(MAX_HALVINGS), 0),
            last if last == direction && self.steady + 1 >= STEADY => {
                (self.halvings.saturating_sub(1), 0)
            }
            last if last == direction => (self.halvings, self.steady + 1),
            _ => (self.halvings, 0),
        };
        Damping {
            last: direction,
            halvings,
            steady,
        }
    }

    /// True if a move in this direction reverses the last one.
    fn is_back(&self, from: MemoryRegion, to: MemoryRegion) -> bool {
        self.last == Some((to, from))
    }

    /// The bytes of the next move within `budget` bytes.
    fn step(&self, budget: usize) -> usize {
        ((budget / STEP_DIVISOR) >> self.halvings).max(MIN_STEP)
    }
}

/// Returns the move that saves the most storage time, or `None` if none saves enough.
#[must_use]
pub fn decide(observed: &Observations, damping: &Damping) -> Option<Move> {
    let seconds = observed.nanos as f64 / 1e9;
    if seconds <= 0.0 {
        return None;
    }
    let model = Model::new(observed);
    let step = damping.step(observed.split.sum());
    let mut best: Option<Move> = None;
    for from in MemoryRegion::ALL {
        for to in MemoryRegion::ALL {
            let Some(bytes) = room(observed, from, to, step) else {
                continue;
            };
            let saved = model.change(to, bytes as f64).min(0.0).abs() / seconds;
            let lost = model.change(from, -(bytes as f64)).max(0.0) / seconds;
            let advantage = match damping.is_back(from, to) {
                true => ADVANTAGE_BACK,
                false => ADVANTAGE,
            };
            let gain = saved - lost;
            let is_enough = gain >= LEAST_SAVING && saved >= advantage * lost;
            let is_better = best.is_none_or(|best| gain > best.saved - best.lost);
            if is_enough && is_better {
                best = Some(Move {
                    from,
                    to,
                    bytes,
                    saved,
                    lost,
                });
            }
        }
    }
    best
}

/// Returns the number of bytes, up to one step, that can move between two regions within their bounds.
fn room(
    observed: &Observations,
    from: MemoryRegion,
    to: MemoryRegion,
    step: usize,
) -> Option<usize> {
    let spare = observed.split.get(from);
    let spare = spare.saturating_sub(observed.bounds[from as usize].least);
    let room = observed.bounds[to as usize].most;
    let room = room.saturating_sub(observed.split.get(to));
    let bytes = step.min(spare).min(room);
    (from != to && bytes >= MIN_STEP.min(step)).then_some(bytes)
}

/// The predicted cost, in nanoseconds of the interval.
struct Model<'o> {
    observed: &'o Observations,
    /// Nanoseconds of a hit in each layer below the block cache.
    unpack: f64,
    fast: f64,
    slow: f64,
    /// The distance at which the compressed tier ends.
    tier_end: f64,
    /// The distance at which the page cache ends.
    page_end: f64,
}

impl Model<'_> {
    fn new(observed: &Observations) -> Model<'_> {
        let (fast, slow) = observed.reads.each();
        let share = observed.stored_share.clamp(0.01, 1.0);
        let tier_end = observed.split.get(Compressed) as f64 / share;
        Model {
            observed,
            unpack: observed.unpack_nanos,
            fast,
            slow,
            tier_end,
            page_end: page_end(observed, share, tier_end),
        }
    }

    /// The cost of `bytes` more for `region`.
    fn change(&self, region: MemoryRegion, bytes: f64) -> f64 {
        let share = self.observed.stored_share.clamp(0.01, 1.0);
        let now = self.reads(0.0, self.tier_end, self.page_end);
        match region {
            Memtables => self.merges(bytes) - self.merges(0.0),
            BlockCache => self.reads(bytes, self.tier_end + bytes, self.page_end) - now,
            Compressed => self.reads(0.0, self.tier_end + bytes / share, self.page_end) - now,
            PageCache => self.reads(0.0, self.tier_end, self.page_end + bytes / share) - now,
        }
    }

    /// The cost of reads if the block cache, the compressed tier and the page cache end at these distances.
    fn reads(&self, cache: f64, tier: f64, page: f64) -> f64 {
        let reads = self.observed.reads;
        if reads.fast + reads.slow < LEAST_READS {
            return 0.0;
        }
        let reuse = &self.observed.reuse;
        let below = |distance: f64| reuse.below(distance);
        let (tier, page) = (tier.max(cache), page.max(tier).max(cache));
        let unpacked = below(tier) - below(cache);
        let fast = below(page) - below(tier);
        let slow = reuse.known() - below(page) + reuse.cold();
        unpacked * self.unpack + fast * self.fast + slow * self.slow
    }

    /// The cost of merges with `more` bytes of memtables.
    fn merges(&self, more: f64) -> f64 {
        let observed = self.observed;
        let limit = observed.split.get(Memtables) as f64;
        // A limit that is not reached does not affect merges.
        let used = |limit: f64| match observed.limit_flushes {
            true => limit,
            false => limit.min(observed.memtables_used as f64),
        };
        let (now, then) = (used(limit).max(1.0), used(limit + more).max(1.0));
        let levels = (observed.data_bytes as f64 / now).ln().max(2f64.ln());
        let factor = 1.0 - (then / now).ln() / levels;
        let overlap = observed.overlap_nanos.min(observed.merge_nanos) as f64;
        overlap * now / then + (observed.merge_nanos as f64 - overlap) * factor.max(0.0)
    }
}

/// Returns the distance at which the page cache ends, derived from the share of slow reads. If none or all of
/// them were slow, the share gives only a bound, and the distance follows from the size of the page cache,
/// which also holds the blocks in the block cache.
fn page_end(observed: &Observations, share: f64, tier_end: f64) -> f64 {
    let split = &observed.split;
    let by_size = split.get(PageCache) as f64 / share - split.get(BlockCache) as f64;
    let reuse = &observed.reuse;
    let known = reuse.known() - reuse.below(tier_end);
    let (fast, slow) = (observed.reads.fast as f64, observed.reads.slow as f64);
    let slow_share = slow / (fast + slow).max(1.0);
    let slow = ((known + reuse.cold()) * slow_share - reuse.cold()).max(0.0);
    let inferred = reuse.distance_of(reuse.below(tier_end) + known - slow);
    match slow / known.max(1.0) {
        ..0.01 => by_size.max(inferred),
        0.99.. => by_size.min(tier_end),
        _ => inferred,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;
    const ANY: RegionBounds = RegionBounds {
        least: MIB,
        most: usize::MAX,
    };
    const NONE: RegionBounds = RegionBounds { least: 0, most: 0 };

    /// A simulated machine with a given number of misses for each cache size, and a load of merges. Times are
    /// per second.
    struct Machine {
        /// Reads per second that miss a cache of this size.
        misses: fn(f64) -> f64,
        /// Nanoseconds of merges if memtables have 1 MiB, without those in `overlap`.
        merges: f64,
        /// Nanoseconds in which compactions of level 0 rewrite the base level if memtables have 1 MiB.
        overlap: f64,
        data: f64,
        stored_share: f64,
        page: RegionBounds,
        tier: RegionBounds,
    }

    impl Machine {
        fn ends(&self, split: &MemorySplit) -> [f64; 3] {
            let cache = split.get(BlockCache) as f64;
            let tier = cache + split.get(Compressed) as f64 / self.stored_share;
            // Blocks in the block cache were read through the page cache, so it holds them too.
            let page = split.get(PageCache) as f64 / self.stored_share;
            [cache, tier, page.max(tier)]
        }

        fn levels(&self, memtables: f64) -> f64 {
            (self.data / memtables).ln().max(0.5)
        }

        fn merge_nanos(&self, split: &MemorySplit) -> f64 {
            let one = self.levels(MIB as f64);
            self.merges * self.levels(split.get(Memtables) as f64) / one + self.overlap_nanos(split)
        }

        fn overlap_nanos(&self, split: &MemorySplit) -> f64 {
            self.overlap * MIB as f64 / split.get(Memtables) as f64
        }

        fn cost(&self, split: &MemorySplit) -> f64 {
            let [cache, tier, page] = self.ends(split).map(self.misses);
            (cache - tier) * 8_000.0
                + (tier - page) * 5_000.0
                + page * 100_000.0
                + self.merge_nanos(split)
        }

        fn observe(&self, split: &MemorySplit) -> Observations {
            let [cache, tier, page] = self.ends(split);
            let mut reuse = ReuseCurve::default();
            let step = 64.0 * 1024.0_f64;
            let mut at = 0.0;
            while at < 4e9 {
                let width = step.max(at / 32.0);
                let count = (self.misses)(cache + at) - (self.misses)(cache + at + width);
                reuse.add((at + width / 2.0) as u64, count);
                at += width;
            }
            reuse.add_cold((self.misses)(cache + at));
            let [tier, page] = [tier, page].map(self.misses);
            let reads = ReadTimes {
                fast: (tier - page) as u64,
                fast_nanos: ((tier - page) * 5_000.0) as u64,
                slow: page as u64,
                slow_nanos: (page * 100_000.0) as u64,
                bytes: 0,
            };
            Observations {
                nanos: 1_000_000_000,
                split: *split,
                bounds: [ANY, ANY, self.tier, self.page],
                reuse,
                reads,
                stored_share: self.stored_share,
                unpack_nanos: 8_000.0,
                merge_nanos: self.merge_nanos(split) as u64,
                overlap_nanos: self.overlap_nanos(split) as u64,
                data_bytes: self.data as u64,
                limit_flushes: true,
                memtables_used: split.get(Memtables),
            }
        }

        /// Returns the split at which moves stop, and the number of moves.
        fn settle(&self, mut split: MemorySplit) -> (MemorySplit, usize) {
            let mut damping = Damping::default();
            for moves in 0..300 {
                let Some(made) = decide(&self.observe(&split), &damping) else {
                    return (split, moves);
                };
                assert!(made.bytes <= split.sum() / STEP_DIVISOR);
                split = split.moved(made.from, made.to, made.bytes);
                damping = damping.after(&made);
            }
            panic!("the split does not converge: {split:?}");
        }

        /// The lowest cost of all splits in steps of a 64th.
        fn best(&self, sum: usize) -> f64 {
            let parts = 64;
            let part = |n: usize| sum / parts * n;
            let mut best = f64::INFINITY;
            for memtables in 1..parts - 1 {
                for tier in 0..parts - memtables {
                    for page in 0..parts - memtables - tier {
                        if (tier > 0 && self.tier == NONE) || (page > 0 && self.page == NONE) {
                            continue;
                        }
                        let cache = parts - memtables - tier - page;
                        let split = MemorySplit::default()
                            .with(Memtables, part(memtables))
                            .with(BlockCache, part(cache))
                            .with(Compressed, part(tier))
                            .with(PageCache, part(page));
                        best = best.min(self.cost(&split));
                    }
                }
            }
            best
        }
    }

    /// Skewed reads: misses fall with the square root of the size, to zero at 1 GiB.
    fn skewed(bytes: f64) -> f64 {
        20_000.0 * (1.0 - (bytes / 1e9).sqrt()).max(0.0)
    }

    fn reading() -> Machine {
        Machine {
            misses: skewed,
            merges: 0.0,
            overlap: 0.0,
            data: 1e9,
            stored_share: 0.5,
            page: NONE,
            tier: NONE,
        }
    }

    fn halves() -> MemorySplit {
        MemorySplit::default()
            .with(Memtables, 32 * MIB)
            .with(BlockCache, 32 * MIB)
    }

    #[test]
    fn without_writes_memtables_shrink_to_the_least() {
        let (split, _) = reading().settle(halves());
        assert!(split.get(Memtables) <= 2 * MIB, "{split:?}");
    }

    #[test]
    fn without_reads_memtables_grow_at_the_expense_of_the_cache() {
        let machine = Machine {
            misses: |_| 0.0,
            merges: 9e8,
            ..reading()
        };
        let (split, _) = machine.settle(halves());
        assert!(split.get(BlockCache) <= 2 * MIB, "{split:?}");
    }

    #[test]
    fn nothing_moves_without_work() {
        let machine = Machine {
            misses: |_| 0.0,
            ..reading()
        };
        assert_eq!(machine.settle(halves()), (halves(), 0));
        let mut idle = machine.observe(&halves());
        idle.nanos = 0;
        assert_eq!(decide(&idle, &Damping::default()), None);
    }

    #[test]
    fn reads_and_merges_are_balanced_within_five_percent_of_the_best_split() {
        let loads = [1e7, 1e8, 5e8, 2e9].map(|merges| (merges, 0.0));
        for (merges, overlap) in loads.into_iter().chain([(1e8, 5e8), (1e8, 5e9)]) {
            let machine = Machine {
                merges,
                overlap,
                ..reading()
            };
            for memtables in [2, 32, 60] {
                let start = MemorySplit::default()
                    .with(Memtables, memtables * MIB)
                    .with(BlockCache, (64 - memtables) * MIB);
                let (split, moves) = machine.settle(start);
                let (cost, best) = (machine.cost(&split), machine.best(64 * MIB));
                assert!(
                    cost <= 1.05 * best,
                    "{merges} {overlap} {split:?}: {cost} of {best}"
                );
                assert!(moves < 100, "{moves}");
            }
        }
    }

    /// With buffered reads a small cache in front of the page cache is best where only the files fit into
    /// memory, and a large cache where nothing or everything does.
    #[test]
    fn the_page_cache_gets_its_share() {
        fn uniform(bytes: f64) -> f64 {
            20_000.0 * (1.0 - bytes / 1.6e8).max(0.0)
        }
        let machine = Machine {
            misses: uniform,
            page: RegionBounds {
                least: 0,
                most: usize::MAX,
            },
            ..reading()
        };
        // 160 MB of blocks are 80 MB in files.
        let start = MemorySplit::default()
            .with(Memtables, MIB)
            .with(BlockCache, 60 * MIB)
            .with(PageCache, 39 * MIB);
        let (split, _) = machine.settle(start);
        let (cost, best) = (machine.cost(&split), machine.best(100 * MIB));
        assert!(cost <= 1.10 * best, "{split:?}: {cost} of {best}");
        assert!(split.get(PageCache) > 70 * MIB, "{split:?}");
        let start = MemorySplit::default()
            .with(Memtables, MIB)
            .with(BlockCache, 40 * MIB)
            .with(PageCache, 159 * MIB);
        let (split, _) = machine.settle(start);
        let (cost, start) = (machine.cost(&split), machine.cost(&start));
        assert!(
            cost <= start && split.get(BlockCache) > 100 * MIB,
            "{split:?}: {cost} {start}"
        );
    }

    #[test]
    fn the_compressed_tier_takes_the_share_of_the_page_cache() {
        let machine = Machine {
            tier: RegionBounds {
                least: 0,
                most: usize::MAX,
            },
            ..reading()
        };
        let (split, _) = machine.settle(halves());
        let (cost, best) = (machine.cost(&split), machine.best(64 * MIB));
        assert!(cost <= 1.05 * best, "{split:?}: {cost} of {best}");
        assert!(split.get(Compressed) > 32 * MIB, "{split:?}");
    }

    #[test]
    fn a_limit_that_memtables_do_not_reach_has_no_value() {
        let machine = Machine {
            merges: 2e9,
            ..reading()
        };
        let mut observed = machine.observe(&halves());
        observed.limit_flushes = false;
        observed.memtables_used = 8 * MIB;
        let made = decide(&observed, &Damping::default()).expect("reads gain");
        assert_eq!(
            (made.from, made.to, made.lost),
            (Memtables, BlockCache, 0.0)
        );
        assert!(made.to_string().contains("from memtables to block_cache"));
    }

    #[test]
    fn explicit_sizes_do_not_change() {
        let mut observed = reading().observe(&halves());
        observed.bounds[Memtables as usize] = RegionBounds {
            least: 32 * MIB,
            most: 32 * MIB,
        };
        assert_eq!(decide(&observed, &Damping::default()), None);
    }

    #[test]
    fn a_step_back_is_half_as_large() {
        let made = |from, to| Move {
            from,
            to,
            bytes: MIB,
            saved: 1.0,
            lost: 0.0,
        };
        let there = Damping::default().after(&made(Memtables, BlockCache));
        assert_eq!(there.step(64 * MIB), 4 * MIB);
        let back = there.after(&made(BlockCache, Memtables));
        assert_eq!(back.step(64 * MIB), 2 * MIB);
        let steady = (0..STEADY).fold(back, |damping, _| {
            damping.after(&made(BlockCache, Memtables))
        });
        assert_eq!(steady.step(64 * MIB), 4 * MIB);
    }
}
