//! The levels below the output of a job, searched for older entries of a key.

use std::ops::Range;

use cairn_format::key;
use cairn_platform::sync::Arc;
use cairn_types::KeyOrder;
use cairn_version::{FileMeta, Version, bounds};

/// The files below the output of a job. Keys are looked up in ascending order.
#[derive(Clone, Debug, Default)]
pub struct LowerLevels {
    /// The files of each level below, with the index of the first file that may hold the key.
    /// `None` if nothing can be excluded.
    levels: Option<Vec<(Vec<Arc<FileMeta>>, usize)>>,
}

impl LowerLevels {
    /// No key can be excluded: the output goes to level 0, or older files may still be ingested below
    /// it.
    #[must_use]
    pub fn anything() -> LowerLevels {
        LowerLevels { levels: None }
    }

    /// The files of `version` below `output_level`.
    #[must_use]
    pub fn level(version: &Version, output_level: usize) -> LowerLevels {
        if output_level == 0 {
            return LowerLevels::anything();
        }
        let levels = version.levels()[output_level + 1..].iter();
        let levels = levels.filter(|level| !level.is_empty());
        LowerLevels {
            levels: Some(levels.map(|level| (level.files().to_vec(), 0)).collect()),
        }
    }

    /// True if there may be an older entry of `user_key` below.
    #[must_use]
    pub fn may_hold(&mut self, order: &KeyOrder, user_key: &[u8]) -> bool {
        let Some(levels) = &mut self.levels else {
            return true;
        };
        levels.iter_mut().any(|(files, at)| {
            while files.get(*at).is_some_and(|file| {
                order
                    .compare_without_timestamp(file.largest.user_key(), user_key)
                    .is_lt()
            }) {
                *at += 1;
            }
            files.get(*at).is_some_and(|file| {
                order
                    .compare_without_timestamp(file.smallest.user_key(), user_key)
                    .is_le()
            })
        })
    }

    /// True if any file below overlaps the user keys of `range`, which have no timestamps, excluding its end. Independent
    /// of the position reached by `may_hold`.
    #[must_use]
    pub fn may_touch(&self, order: &KeyOrder, range: Range<&[u8]>) -> bool {
        let Some(levels) = &self.levels else {
            return true;
        };
        let size = order.timestamp_size();
        levels.iter().any(|(files, _)| {
            let first = files.partition_point(|file| {
                let largest = file.largest.as_bytes();
                match key::compare_plain(
                    order,
                    key::strip_timestamp(file.largest.user_key(), size),
                    range.start,
                ) {
                    std::cmp::Ordering::Equal => bounds::is_sentinel(largest),
                    standing => standing.is_lt(),
                }
            });
            files.get(first).is_some_and(|file| {
                key::compare_plain(
                    order,
                    key::strip_timestamp(file.smallest.user_key(), size),
                    range.end,
                )
                .is_lt()
            })
        })
    }
}
