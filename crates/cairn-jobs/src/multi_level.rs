//! Choosing the part of a compaction that goes a level deeper than the rest, where
//! [`crate::pick::SkipLevelCandidates`] says that it may.
//!
//! A part is worth it where much comes down upon little: it spares what comes down one rewriting, and
//! the files below are rewritten as they would be in the compaction that follows. So the files are
//! chosen that are small against what comes down on them, next to each other, and as few as carry what
//! is too much.

use std::ops::Range;

use cairn_platform::sync::Arc;
use cairn_types::Result;
use cairn_version::bounds;

use crate::context::JobContext;
use crate::inputs::InputTable;
use crate::pick::{LevelInputs, Pick, SkipLevelCandidates, SkipLevelOutput};
use crate::subcompaction_split;

/// `pick` with the part of it that goes deeper, if one is worth it. Looks into the indexes of the
/// inputs. A table that cannot be read decides for none: the compaction will say what is wrong with it.
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
        Some(range) => Arc::new(with_part(pick, offer, range)),
        None => pick.clone(),
    }
}

/// How many bytes of the inputs lie before each of the offered files, and before what follows the last.
fn bytes_before(
    context: &JobContext,
    pick: &Pick,
    offer: &SkipLevelCandidates,
) -> Result<Vec<u64>> {
    let tables = pick.files().map(|(level, file)| {
        let table = (context.open)(file, level)?;
        Ok(InputTable {
            file: file.clone(),
            table,
        })
    });
    let runs = [tables.collect::<Result<Vec<InputTable>>>()?];
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

/// True if a part may begin with the offered file at `at`, or end before it: it shares no key with the
/// one before.
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

/// `pick` with the offered files of `range` among its inputs. The keys beyond the first and the last
/// of all that are offered go with these.
pub(crate) fn with_part(pick: &Pick, offer: &SkipLevelCandidates, range: Range<usize>) -> Pick {
    let border = |at: usize| {
        offer
            .files
            .get(at)
            .map(|file| file.smallest.user_key().to_vec())
    };
    let deeper = SkipLevelOutput {
        from: border(range.start).filter(|_| range.start > 0),
        until: border(range.end),
        ..offer.whole.clone()
    };
    let mut pick = pick.clone();
    pick.inputs.push(LevelInputs {
        level: deeper.output.level,
        files: offer.files[range].to_vec(),
    });
    pick.deeper = Some(deeper);
    pick
}

/// The files that cost least for what comes down on them: at most half as large again as that. `before` has the bytes of the inputs before each file.
fn cheapest(
    sizes: &[u64],
    excess: u64,
    before: &[u64],
    is_border: impl Fn(usize) -> bool,
) -> Option<Range<usize>> {
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
    fn the_files_on_which_most_comes_down_are_chosen() {
        let (sizes, above) = ([60, 60, 60, 60], [50, 90, 120, 40]);
        assert_eq!(chosen(&sizes, 80, &above, &[]), Some(2..3));
        // More than any of them carries alone.
        assert_eq!(chosen(&sizes, 130, &above, &[]), Some(1..3));
        // Two that share a key go together or not at all.
        assert_eq!(chosen(&sizes, 80, &above, &[3]), Some(1..2));
        assert_eq!(chosen(&[60, 20, 20], 80, &[10, 60, 100], &[2]), Some(1..3));
    }

    #[test]
    fn none_is_chosen_where_it_costs_more_than_it_spares() {
        assert_eq!(
            chosen(&[160, 160], 80, &[100, 100], &[]),
            None,
            "too much below"
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
