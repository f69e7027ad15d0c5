//! The order in which the files of a level are considered for compaction (`compaction_pri`).

use cairn_format::key;
use cairn_options::CompactionPri;
use cairn_platform::sync::Arc;
use cairn_types::KeyOrder;
use cairn_version::FileMeta;
use cairn_version::compaction_score;

use super::tree::Tree;

/// Returns the indexes of the files of `level` in compaction order.
pub(super) fn by_priority(tree: &Tree, level: usize) -> Vec<usize> {
    let files = tree.version.level(level).files();
    let positions = match tree.options.pri {
        CompactionPri::ByCompensatedSize => {
            let average = compaction_score::average_value_bytes(tree.version);
            sorted(files, |file| {
                std::cmp::Reverse(compaction_score::compensated_bytes(file, average))
            })
        }
        CompactionPri::OldestLargestSeqFirst => sorted(files, |file| file.seqs.largest),
        CompactionPri::OldestSmallestSeqFirst => sorted(files, |file| file.seqs.smallest),
        CompactionPri::MinOverlappingRatio => by_overlap(tree, level),
        CompactionPri::RoundRobin => round_robin(tree, level),
    };
    debug_assert_eq!(positions.len(), files.len(), "every file has a position");
    positions
}

/// Returns indexes sorted by a key of each file; the sort is stable.
fn sorted<K: Ord>(files: &[Arc<FileMeta>], key: impl Fn(&FileMeta) -> K) -> Vec<usize> {
    let mut positions: Vec<usize> = (0..files.len()).collect();
    positions.sort_by_cached_key(|&at| key(&files[at]));
    positions
}

/// Orders files by overlapping bytes of the next level relative to their own size. Marked files come
/// first, and files close to their expiry are boosted.
fn by_overlap(tree: &Tree, level: usize) -> Vec<usize> {
    let order = tree.order();
    let average = compaction_score::average_value_bytes(tree.version);
    let boost = TtlBoost::new(tree, level);
    let files = tree.version.level(level).files();
    let next = tree
        .version
        .level((level + 1).min(tree.version.num_levels() - 1))
        .files();
    let mut from = 0;
    let rank: Vec<(bool, u64)> = files
        .iter()
        .map(|file| {
            let overlap = match level {
                0 => overlap_with(order, file, next, &mut 0),
                _ => overlap_with(order, file, next, &mut from),
            };
            let size = compaction_score::compensated_bytes(file, average).max(1);
            (
                !file.is_marked(),
                overlap.saturating_mul(1024) / size / boost.of(file),
            )
        })
        .collect();
    let mut positions: Vec<usize> = (0..files.len()).collect();
    positions.sort_by(|&a, &b| {
        let smallest = |at: usize| files[at].smallest.as_bytes();
        rank[a]
            .cmp(&rank[b])
            .then_with(|| key::compare(order, smallest(a), smallest(b)))
    });
    positions
}

/// Returns the bytes of `next` that overlap `file`. `from` is the first file of `next` that may overlap
/// this file or a later one, and is advanced.
fn overlap_with(
    order: &KeyOrder,
    file: &FileMeta,
    next: &[Arc<FileMeta>],
    from: &mut usize,
) -> u64 {
    let before = |a: &[u8], b: &[u8]| key::compare(order, a, b).is_lt();
    while *from < next.len() && before(next[*from].largest.as_bytes(), file.smallest.as_bytes()) {
        *from += 1;
    }
    next[*from..]
        .iter()
        .take_while(|next| before(next.smallest.as_bytes(), file.largest.as_bytes()))
        .fold(0_u64, |bytes, next| bytes.saturating_add(next.size))
}

/// Boosts the priority of a file by age, so that data reaches the last level before its expiry
/// forces it there. Lower levels start earlier.
struct TtlBoost {
    now: u64,
    /// The age at which the boost starts and the seconds per step; `None` for no boost.
    start_and_step: Option<(u64, u64)>,
}

impl TtlBoost {
    fn new(tree: &Tree, level: usize) -> TtlBoost {
        let ttl = tree.options.shape.ttl;
        let below = tree
            .version
            .num_non_empty_levels()
            .saturating_sub(level + 1);
        let start_and_step = (ttl > 0 && level > 0 && below > 0).then(|| {
            let start = ttl / 2;
            let range = (ttl / 32 * 31).saturating_sub(start) >> below.min(63);
            (start + range, (range / 16).max(1))
        });
        TtlBoost {
            now: tree.limits.now,
            start_and_step,
        }
    }

    fn of(&self, file: &FileMeta) -> u64 {
        let age = self.now.saturating_sub(file.oldest_time());
        match self.start_and_step {
            Some((start, step)) if age > start => (age - start) / step + 1,
            _ => 1,
        }
    }
}

/// Orders files by key, starting where the last compaction of the level ended.
fn round_robin(tree: &Tree, level: usize) -> Vec<usize> {
    let files = tree.version.level(level).files();
    if level == 0 {
        return sorted(files, |file| file.seqs.smallest);
    }
    let first = tree.version.cursor(level).map_or(0, |cursor| {
        files.partition_point(|file| {
            key::compare(tree.order(), file.smallest.as_bytes(), cursor.as_bytes()).is_lt()
        })
    });
    (first..files.len())
        .chain(0..first.min(files.len()))
        .collect()
}
