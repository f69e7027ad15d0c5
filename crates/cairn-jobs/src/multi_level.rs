//! Chooses the key range of a compaction that is written one level deeper than the rest, from the
//! candidates of [`crate::pick::SkipLevelCandidates`].
//!
//! Writing a range one level deeper pays off where much data overlaps little: it saves one rewrite
//! of the incoming data, and the next compaction would have rewritten the files below anyway. The
//! chosen files are therefore adjacent, small compared with the incoming data that overlaps them,
//! and just enough to absorb the excess.

use std::ops::Range;

use cairn_platform::sync::Arc;
use cairn_types::Result;
use cairn_version::bounds;

use crate::context::JobContext;
use crate::inputs::{InputRun, InputTable, MAX_HELD};
use crate::pick::{LevelInputs, Pick, SkipLevelCandidates, SkipLevelOutput};
use crate::subcompaction_split;

/// Returns `pick` with its skip-level range if one pays off. Reads the indexes of the inputs. If a
/// table cannot be read, no range is chosen, and the compaction itself reports the error.
#[must_use]
pub fn with_skip_level(context: &JobContext, pick: &Arc<Pick>) -> Arc<Pick> {
    let Some(offer) = &pick.offer else {
        return pick.clone();
    };
    let sizes: Vec<u64> = offer.files.iter().map(|file| file.size).collect();
    let range = bytes_before(context, pick, offer).ok().and_then(|before| {
        cheapest(&sizes, offer.excess, &before, |at| {
            is_border(context, offer, at)
        })
    });
    match range {
        Some(range) => {
            debug_assert!(is_border(context, offer, range.start));
            debug_assert!(is_border(context, offer, range.end));
            Arc::new(with_part(pick, offer, range))
        }
        None => pick.clone(),
    }
}

/// Returns the bytes of the inputs before each candidate file, and before the key that follows the
/// last.
fn bytes_before(
    context: &JobContext,
    pick: &Pick,
    offer: &SkipLevelCandidates,
) -> Result<Vec<u64>> {
    let held = pick.files().count() <= MAX_HELD;
    let open = |(level, file)| InputTable::open(&context.open, file, level, held);
    let runs = [pick.files().map(open).collect::<Result<InputRun>>()?];
    let mut before = vec![0];
    for file in &offer.files[1..] {
        let border = file.smallest.user_key();
        before.push(subcompaction_split::bytes_before(
            &runs,
            &context.family.order,
            border,
            &context.io,
        )?);
    }
    before.push(pick.input_bytes());
    Ok(before)
}

/// True if a range may start at or end before candidate `at`: that file shares no user key with its
/// predecessor.
pub(crate) fn is_border(context: &JobContext, offer: &SkipLevelCandidates, at: usize) -> bool {
    if at == 0 || at == offer.files.len() {
        return true;
    }
    let (left, right) = (&offer.files[at - 1], &offer.files[at]);
    bounds::compare(
        &context.family.order,
        left.largest.as_bytes(),
        right.smallest.as_bytes(),
    )
    .is_lt()
}

/// Returns `pick` with the candidate files of `range` as inputs. If the range reaches either end of
/// the candidates, it extends to all keys beyond.
pub(crate) fn with_part(pick: &Pick, offer: &SkipLevelCandidates, range: Range<usize>) -> Pick {
    assert!(range.start < range.end && range.end <= offer.files.len());
    assert!(
        pick.skip_level.is_none(),
        "the skip-level range is chosen once"
    );
    let border = |at: usize| {
        offer
            .files
            .get(at)
            .map(|file| file.smallest.user_key().to_vec())
    };
    let skip_level = SkipLevelOutput {
        from: border(range.start).filter(|_| range.start > 0),
        until: border(range.end),
        ..offer.whole.clone()
    };
    assert_eq!(skip_level.output.level, pick.output.level + 1);
    let mut pick = pick.clone();
    pick.inputs.push(LevelInputs {
        level: skip_level.output.level,
        files: offer.files[range].to_vec(),
    });
    pick.skip_level = Some(skip_level);
    pick
}

/// Returns the range of files with the lowest cost per incoming byte, of a size of at most one and
/// a half times the incoming bytes. `before` has the input bytes before each file.
fn cheapest(
    sizes: &[u64],
    excess: u64,
    before: &[u64],
    is_border: impl Fn(usize) -> bool,
) -> Option<Range<usize>> {
    debug_assert_eq!(before.len(), sizes.len() + 1);
    let most = SkipLevelCandidates::most_chosen(*before.last()?);
    let mut best: Option<(f64, Range<usize>)> = None;
    for start in (0..sizes.len()).filter(|&at| is_border(at)) {
        let mut below = 0_u64;
        for (at, size) in sizes.iter().enumerate().skip(start) {
            below = below.saturating_add(*size);
            if below > most {
                break;
            }
            let above = before[at + 1].saturating_sub(before[start]);
            if above < excess || !is_border(at + 1) {
                continue;
            }
            let cost = below as f64 / above.max(1) as f64;
            if cost <= 1.5 && best.as_ref().is_none_or(|(least, _)| cost < *least) {
                best = Some((cost, start..at + 1));
            }
            break;
        }
    }
    best.map(|(_, range)| range)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(sizes: &[u64], excess: u64, above: &[u64], joined: &[usize]) -> Option<Range<usize>> {
        let mut before = vec![0];
        before.extend(above.iter().scan(0, |sum, bytes| {
            *sum += bytes;
            Some(*sum)
        }));
        cheapest(sizes, excess, &before, |at| !joined.contains(&at))
    }

    #[test]
    fn the_files_with_most_incoming_bytes_are_chosen() {
        let (sizes, above) = ([60, 60, 60, 60], [50, 90, 120, 40]);
        assert_eq!(chosen(&sizes, 80, &above, &[]), Some(2..3));
        // The excess is larger than any single file can absorb.
        assert_eq!(chosen(&sizes, 130, &above, &[]), Some(1..3));
        // Files that share a user key are chosen together or not at all.
        assert_eq!(chosen(&sizes, 80, &above, &[3]), Some(1..2));
        assert_eq!(chosen(&[60, 20, 20], 80, &[10, 60, 100], &[2]), Some(1..3));
    }

    #[test]
    fn no_range_is_chosen_if_it_costs_more_than_it_saves() {
        assert_eq!(
            chosen(&[160, 160], 80, &[100, 100], &[]),
            None,
            "too much data below"
        );
        assert_eq!(chosen(&[90, 90], 80, &[50, 500], &[]), Some(1..2));
        assert_eq!(
            chosen(&[90, 90], 80, &[50, 50], &[]),
            None,
            "more than half of the inputs"
        );
        assert_eq!(chosen(&[], 80, &[], &[]), None);
    }
}
