//! Chooses the directory for the tables of a level, for column families with several (`db_paths`).
//!
//! The first directories hold the upper levels: levels are assigned in order while their target
//! sizes fit into the target size of the directory, then to the next one. The last directory takes
//! the remaining levels. In a universal tree, the output size decides.

use super::options::PickOptions;

/// Returns the path id of `level`.
pub(super) fn of_level(options: &PickOptions, level: usize) -> u32 {
    let targets = &options.path_targets;
    let Some(last) = targets.len().checked_sub(1) else {
        return 0;
    };
    let shape = &options.shape;
    // Level 0 is assumed to be as large as level 1.
    let (mut level_bytes, mut at_level) = (shape.base_bytes as f64, 0);
    let (mut path, mut left) = (0, targets[0] as f64);
    while path < last {
        if level_bytes > left {
            path += 1;
            left = targets[path] as f64;
            continue;
        }
        if at_level == level {
            break;
        }
        left -= level_bytes;
        if at_level > 0 {
            let additional = shape.additional.get(at_level).copied().unwrap_or(1);
            level_bytes *= shape.multiplier * f64::from(additional.max(1));
        }
        at_level += 1;
    }
    u32::try_from(path).unwrap_or(u32::MAX)
}

/// Returns the path id for an output of `bytes` of a universal compaction: the first directory that
/// fits it and, together with the preceding ones, the data written until it is compacted again.
pub(super) fn of_run(options: &PickOptions, bytes: u64) -> u32 {
    let ratio = 100_u64.saturating_sub(u64::from(options.universal.size_ratio));
    let future = u128::from(bytes) * u128::from(ratio) / 100;
    let targets = options.path_targets.split_last();
    let (mut path, mut before) = (0, 0);
    for &target in targets.map_or(&[][..], |(_, others)| others) {
        if target > bytes && before + u128::from(target - bytes) > future {
            break;
        }
        before += u128::from(target);
        path += 1;
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;
    use cairn_options::{DbOptions, DbPath, FamilyOptions};

    #[test]
    fn levels_fill_the_directories_in_order() {
        let place = |target_size| DbPath {
            path: "/p".into(),
            target_size,
        };
        let family = FamilyOptions {
            max_bytes_for_level_base: 100,
            cf_paths: vec![place(250), place(1000), place(0)],
            ..FamilyOptions::default()
        };
        let options = PickOptions::new(&DbOptions::default(), &family);
        let paths: Vec<u32> = (0..5).map(|level| of_level(&options, level)).collect();
        assert_eq!(paths, [0, 0, 1, 2, 2]);
        // Another 99 bytes are expected to be written after a run of 100.
        let of = |bytes| of_run(&options, bytes);
        assert_eq!(
            [1, 100, 130, 250, 620, 640, 5000].map(of),
            [0, 0, 1, 1, 1, 2, 2]
        );
        let single = PickOptions::new(&DbOptions::default(), &FamilyOptions::default());
        assert_eq!((of_level(&single, 6), of_run(&single, 1 << 40)), (0, 0));
    }
}
