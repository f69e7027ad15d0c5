//! Splits a compaction into subcompactions of similar size, before it starts and while it runs.

use cairn_format::key::{self, InternalKey};
use cairn_platform::Io;
use cairn_types::{KeyOrder, Result, SequenceNumber, ValueKind};

use crate::inputs::{InputRun, InputTable, inputs};
use crate::pick::{Pick, Reason, SkipLevelOutput};
use crate::subcompactions::SubcompactionRange;

/// Maximum number of candidate boundaries.
const MAX_CANDIDATES: usize = 64;

/// Number of key anchors sampled from the tables, per subcompaction.
const ANCHORS_PER_SUBCOMPACTION: u64 = 8;

/// True if a running subcompaction of `pick` may be split. False for output to level 0, whose files
/// would be disjoint but share an epoch, and for keys with timestamps, which must not be separated.
pub(crate) fn may_split_running(pick: &Pick, order: &KeyOrder) -> bool {
    pick.output.level > 0 && order.timestamp_size() == 0
}

/// True if `pick` may be split before it starts.
pub(crate) fn may_split(pick: &Pick, order: &KeyOrder) -> bool {
    pick.max_subcompactions > 1
        && may_split_running(pick, order)
        && (pick.start_level() == 0 || pick.reason == Reason::Manual || is_universal(pick.reason))
}

fn is_universal(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::UniversalSizeAmplification
            | Reason::UniversalSizeRatio
            | Reason::UniversalSortedRunNum
    )
}

/// Returns user keys that divide the inputs into ranges of similar size, none smaller than one output
/// file.
pub(crate) fn borders(
    runs: &[InputRun],
    order: &KeyOrder,
    pick: &Pick,
    io: &Io,
) -> Result<Vec<Vec<u8>>> {
    let total: u64 = inputs(runs).map(data_bytes).fold(0, u64::saturating_add);
    let outputs = pick.input_bytes() / pick.output.target_bytes.max(1);
    let subcompactions = u64::from(pick.max_subcompactions).min(outputs);
    if subcompactions < 2 {
        return Ok(Vec::new());
    }
    let mut borders = Vec::new();
    for candidate in candidates(runs, order, subcompactions, io)? {
        let before = bytes_before(runs, order, &candidate, io)?;
        let done = borders.len() as u64 + 1;
        if before >= total / subcompactions * done && before < total && done < subcompactions {
            borders.push(candidate);
        }
    }
    debug_assert!(
        (borders.len() as u64) < subcompactions,
        "there are at most `subcompactions` ranges"
    );
    debug_assert!(is_ascending(order, &borders));
    Ok(borders)
}

/// Returns the ranges between `borders` and the boundaries of the skip-level range.
pub(crate) fn spans(
    mut borders: Vec<Vec<u8>>,
    order: &KeyOrder,
    skip_level: Option<&SkipLevelOutput>,
) -> Vec<SubcompactionRange> {
    debug_assert!(is_ascending(order, &borders));
    let mut add = |key: &Vec<u8>| match borders.binary_search_by(|other| order.compare(other, key))
    {
        Ok(at) => at + 1,
        Err(at) => {
            borders.insert(at, key.clone());
            at + 1
        }
    };
    let skip_level = skip_level.map(|skip_level| {
        let first = skip_level.from.as_ref().map_or(0, &mut add);
        let end = skip_level.until.as_ref().map_or(usize::MAX, &mut add);
        debug_assert!(first < end, "the skip-level range is not empty");
        first..end
    });
    let count = borders.len() + 1;
    let mut borders = borders.into_iter();
    let mut lower = None;
    (0..count)
        .map(|range| {
            let upper = borders.next();
            SubcompactionRange {
                lower: std::mem::replace(&mut lower, upper.clone()),
                upper,
                skip_level: skip_level
                    .as_ref()
                    .is_some_and(|skip_level| skip_level.contains(&range)),
            }
        })
        .collect()
}

/// Returns a user key after `after` and before `until` that divides the data between them into
/// approximate halves. `None` if a half would be smaller than `least` bytes.
pub(crate) fn middle(
    runs: &[InputRun],
    order: &KeyOrder,
    least: u64,
    after: &[u8],
    until: Option<&[u8]>,
    io: &Io,
) -> Result<Option<Vec<u8>>> {
    let all = inputs(runs).map(data_bytes).fold(0, u64::saturating_add);
    let begin = bytes_before(runs, order, after, io)?;
    let end = until.map_or(Ok(all), |until| bytes_before(runs, order, until, io))?;
    let left = end.saturating_sub(begin);
    if left / 2 < least.max(1) {
        return Ok(None);
    }
    let mut best = None;
    for candidate in candidates(
        runs,
        order,
        MAX_CANDIDATES as u64 / ANCHORS_PER_SUBCOMPACTION,
        io,
    )? {
        let within = order.compare(&candidate, after).is_gt()
            && until.is_none_or(|until| order.compare(&candidate, until).is_lt());
        if !within {
            continue;
        }
        let before = bytes_before(runs, order, &candidate, io)?;
        let smaller = before.saturating_sub(begin).min(end.saturating_sub(before));
        if smaller >= least && best.as_ref().is_none_or(|(size, _)| smaller > *size) {
            best = Some((smaller, candidate));
        }
    }
    Ok(best.map(|(_, border)| border))
}

/// Returns candidate boundaries, ascending and distinct: file bounds, and anchors within files that are
/// large compared with a subcompaction. The smallest key is omitted.
fn candidates(
    runs: &[InputRun],
    order: &KeyOrder,
    subcompactions: u64,
    io: &Io,
) -> Result<Vec<Vec<u8>>> {
    let tables = || inputs(runs);
    let total: u64 = tables().map(data_bytes).fold(0, u64::saturating_add);
    let step = total / (subcompactions * ANCHORS_PER_SUBCOMPACTION) + 1;
    let mut keys: Vec<Vec<u8>> = Vec::new();
    for input in tables() {
        let bounds = [&input.file.smallest, &input.file.largest];
        keys.extend(bounds.map(|bound| bound.user_key().to_vec()));
        let within = usize::try_from(data_bytes(input) / step).unwrap_or(0);
        if within > 0 {
            keys.extend(input.table()?.anchors(within.min(MAX_CANDIDATES), io)?);
        }
    }
    keys.sort_by(|a, b| order.compare(a, b));
    keys.dedup_by(|a, b| order.compare(a, b).is_eq());
    debug_assert!(is_ascending(order, &keys));
    let step = keys.len().div_ceil(MAX_CANDIDATES).max(1);
    Ok(keys.into_iter().skip(1).step_by(step).collect())
}

/// True if `keys` are strictly ascending.
fn is_ascending(order: &KeyOrder, keys: &[Vec<u8>]) -> bool {
    keys.windows(2)
        .all(|pair| order.compare(&pair[0], &pair[1]).is_lt())
}

/// Returns the size of the entries of a table, without index and filter, in bytes.
fn data_bytes(input: &InputTable) -> u64 {
    match input.facts.data_bytes {
        0 => input.file.size,
        bytes => bytes.min(input.file.size),
    }
}

/// Returns the approximate input bytes before `user_key`.
pub(crate) fn bytes_before(
    runs: &[InputRun],
    order: &KeyOrder,
    user_key: &[u8],
    io: &Io,
) -> Result<u64> {
    let target = InternalKey::new(user_key, SequenceNumber::MAX, ValueKind::FOR_SEEK);
    let mut bytes = 0_u64;
    for input in inputs(runs) {
        let before =
            |bound: &InternalKey| key::compare(order, bound.as_bytes(), target.as_bytes()).is_lt();
        bytes = bytes.saturating_add(
            match (before(&input.file.smallest), before(&input.file.largest)) {
                (false, _) => 0,
                (true, true) => data_bytes(input),
                (true, false) => input
                    .table()?
                    .approximate_offset_of(target.as_bytes(), io)?,
            },
        );
    }
    Ok(bytes)
}
