//! Splitting a compaction into parts of about the same size.

use cairn_format::key::{self, InternalKey};
use cairn_platform::Io;
use cairn_types::{KeyOrder, Result, SequenceNumber, ValueKind};

use crate::inputs::InputTable;
use crate::pick::{Pick, Reason};

/// Keys that are tried as borders, at most.
const MAX_CANDIDATES: usize = 64;

/// Whether `pick` may be split. Parts of a compaction into level 0 would be files that overlap
/// nothing and yet have one age; keys with timestamps are not cut apart.
pub(crate) fn may_split(pick: &Pick, order: &KeyOrder) -> bool {
    pick.max_subcompactions > 1
        && pick.output.level > 0
        && order.timestamp_size() == 0
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

/// User keys that divide the inputs into parts of about the same size, none of them smaller than
/// one output.
pub(crate) fn borders(
    runs: &[Vec<InputTable>],
    order: &KeyOrder,
    pick: &Pick,
    io: &Io,
) -> Result<Vec<Vec<u8>>> {
    let total = pick.input_bytes();
    let parts = u64::from(pick.max_subcompactions).min(total / pick.output.target_bytes.max(1));
    if parts < 2 {
        return Ok(Vec::new());
    }
    let mut borders = Vec::new();
    for candidate in candidates(runs, order) {
        let before = bytes_before(runs, order, &candidate, io)?;
        let done = borders.len() as u64 + 1;
        if before >= total / parts * done && before < total && done < parts {
            borders.push(candidate);
        }
    }
    Ok(borders)
}

/// The first user keys of the inputs, ascending, each once, but the smallest.
fn candidates(runs: &[Vec<InputTable>], order: &KeyOrder) -> Vec<Vec<u8>> {
    let tables = runs.iter().flatten();
    let mut keys: Vec<Vec<u8>> = tables
        .flat_map(|input| [&input.file.smallest, &input.file.largest])
        .map(|bound| bound.user_key().to_vec())
        .collect();
    keys.sort_by(|a, b| order.compare(a, b));
    keys.dedup_by(|a, b| order.compare(a, b).is_eq());
    let step = keys.len().div_ceil(MAX_CANDIDATES).max(1);
    keys.into_iter().skip(1).step_by(step).collect()
}

/// About how many bytes of the inputs lie before `user_key`.
fn bytes_before(
    runs: &[Vec<InputTable>],
    order: &KeyOrder,
    user_key: &[u8],
    io: &Io,
) -> Result<u64> {
    let target = InternalKey::new(user_key, SequenceNumber::MAX, ValueKind::FOR_SEEK);
    let mut bytes = 0_u64;
    for input in runs.iter().flatten() {
        let before =
            |bound: &InternalKey| key::compare(order, bound.as_bytes(), target.as_bytes()).is_lt();
        bytes = bytes.saturating_add(
            match (before(&input.file.smallest), before(&input.file.largest)) {
                (false, _) => 0,
                (true, true) => input.file.size,
                (true, false) => input.table.approximate_offset_of(target.as_bytes(), io)?,
            },
        );
    }
    Ok(bytes)
}
