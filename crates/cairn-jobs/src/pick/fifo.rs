//! Picks of a FIFO tree, which deletes its oldest files.
//!
//! All files are in level 0, unless the tree previously had another compaction style; then the
//! files of the lowest level are deleted first, in key order. One compaction runs at a time; it
//! deletes files, merges small ones, or rewrites one at another temperature. Damaged files are
//! deleted like all others, but not read: a merge takes none of them, nor files on both sides of one.

use cairn_options::{FileTemperatureAge, Temperature};
use cairn_platform::sync::Arc;
use cairn_version::FileMeta;

use super::description::{LevelInputs, Pick, Reason};
use super::expand;
use super::tree::Tree;

/// Chooses the next compaction of a FIFO tree.
pub(super) fn pick(tree: &Tree) -> Option<Pick> {
    if !tree.busy.is_empty() || tree.version.num_non_empty_levels() == 0 {
        return None;
    }
    expired(tree)
        .or_else(|| too_much(tree))
        .or_else(|| merged(tree))
        .or_else(|| another_temperature(tree))
}

/// Returns the bytes counted against the size limit: tables, and blob files if they are limited too.
fn bytes(tree: &Tree) -> u64 {
    table_bytes(tree).saturating_add(blob_bytes(tree))
}

fn table_bytes(tree: &Tree) -> u64 {
    let levels = tree.version.levels().iter();
    levels.fold(0, |sum, level| sum.saturating_add(level.bytes()))
}

fn blob_bytes(tree: &Tree) -> u64 {
    match tree.options.fifo.max_data_files_size {
        0 => 0,
        _ => {
            let blobs = tree.version.blob_files().values();
            blobs.fold(0, |sum, blob| sum.saturating_add(blob.file_size()))
        }
    }
}

fn limit(tree: &Tree) -> u64 {
    let fifo = &tree.options.fifo;
    match fifo.max_data_files_size {
        0 => fifo.max_table_files_size,
        limit => limit,
    }
}

/// Returns the deletion of `files` of `level`.
fn dropped(tree: &Tree, reason: Reason, level: usize, files: Vec<Arc<FileMeta>>) -> Option<Pick> {
    if files.is_empty() {
        return None;
    }
    let inputs = vec![LevelInputs { level, files }];
    Some(Pick {
        drops: true,
        bottommost: false,
        cursor: None,
        ..expand::described(tree, reason, inputs, level)
    })
}

/// Returns the deletion of expired files if the remaining files are within the size limit;
/// otherwise the size limit decides.
fn expired(tree: &Tree) -> Option<Pick> {
    let ttl = tree.options.shape.ttl;
    let before = (ttl > 0).then(|| tree.limits.now.checked_sub(ttl))??;
    let oldest_first = tree.version.level(0).files().iter().rev();
    let is_old = |file: &&Arc<FileMeta>| {
        let time = file.newest_time();
        time > 0 && time < before
    };
    let files: Vec<_> = oldest_first.take_while(is_old).cloned().collect();
    let gone: u64 = files
        .iter()
        .map(|file| file.size)
        .fold(0, u64::saturating_add);
    debug_assert!(
        gone <= table_bytes(tree),
        "expired files are part of the tree"
    );
    let left = table_bytes(tree) - gone;
    // Blob bytes are attributed to files in proportion to their size.
    let share = left as f64 / table_bytes(tree).max(1) as f64;
    let left = left.saturating_add((blob_bytes(tree) as f64 * share) as u64);
    match left <= limit(tree) {
        true => dropped(tree, Reason::FifoTtl, 0, files),
        false => None,
    }
}

/// Returns the deletion of the oldest files until the rest is within the size limit.
fn too_much(tree: &Tree) -> Option<Pick> {
    let mut left = bytes(tree);
    if left <= limit(tree) {
        return None;
    }
    let level = tree.version.num_non_empty_levels() - 1;
    let files = tree.version.level(level).files();
    let each = match tree.options.fifo.max_data_files_size {
        0 => None,
        _ => Some((left / files.len() as u64).max(1)),
    };
    let mut order: Vec<_> = files.to_vec();
    if level == 0 {
        order.reverse();
    }
    let mut taken = Vec::new();
    for file in order {
        if left <= limit(tree) {
            break;
        }
        left = left.saturating_sub(each.unwrap_or(file.size));
        taken.push(file);
    }
    dropped(tree, Reason::FifoMaxSize, level, taken)
}

/// Returns a merge of small files, if enabled.
fn merged(tree: &Tree) -> Option<Pick> {
    let fifo = &tree.options.fifo;
    let limits_all = fifo.max_data_files_size >= fifo.max_table_files_size.max(1);
    match fifo.allow_compaction {
        false => None,
        true if fifo.use_kv_ratio_compaction && limits_all => tiers(tree),
        true => small_files(tree),
    }
}

/// Size of the lowest tier, in bytes.
const LEAST_TIER: u64 = 10 << 10;

/// Returns the oldest adjacent files that fill a tier, for the lowest tier that can be filled.
///
/// If values are in blob files, tables are much smaller than memtables, and they are merged in
/// tiers. In the uppermost tier, the number of tables that triggers a compaction, together with
/// their blobs, makes up the size limit; each lower tier is smaller by a constant factor. An entry
/// is written once per tier, and tables of the uppermost tier stay until they are deleted.
fn tiers(tree: &Tree) -> Option<Pick> {
    let files = tree.version.level(0).files();
    let trigger = tree.options.shape.level0_trigger;
    let is_flat = tree.version.num_non_empty_levels() < 2;
    if !is_flat || trigger < 2 || files.len() < trigger {
        return None;
    }
    let uppermost = match tree.options.max_compaction_bytes {
        0 => table_share_of_limit(tree)? / trigger as u64,
        asked => asked,
    };
    if uppermost == 0 {
        return None;
    }
    let mut tiers: Vec<u64> = std::iter::successors(Some(uppermost), |tier| {
        Some(tier / trigger as u64).filter(|tier| *tier >= LEAST_TIER)
    })
    .collect();
    tiers.reverse();
    let files = tiers
        .into_iter()
        .find_map(|tier| filling(tree, files, tier))?;
    let inputs = vec![LevelInputs { level: 0, files }];
    expand::assemble(tree, Reason::FifoReduceNumFiles, 0.0, inputs, 0)
}

/// Returns the table bytes within the combined limit of tables and blob files.
fn table_share_of_limit(tree: &Tree) -> Option<u64> {
    let (tables, blobs) = (table_bytes(tree), blob_bytes(tree));
    if tables == 0 {
        return None;
    }
    let share = tables as f64 / tables.saturating_add(blobs) as f64;
    Some((tree.options.fifo.max_data_files_size as f64 * share) as u64)
}

/// Returns the oldest adjacent files, at least two, that are each smaller than `tier` and together
/// between `tier` and twice `tier`. `files` is ordered from newest to oldest.
fn filling(tree: &Tree, files: &[Arc<FileMeta>], tier: u64) -> Option<Vec<Arc<FileMeta>>> {
    let mut batch: Vec<Arc<FileMeta>> = Vec::new();
    let mut bytes = 0_u64;
    for file in files.iter().rev() {
        let is_full = bytes >= tier;
        let is_border = file.size >= tier || tree.busy.is_busy(file.number);
        if is_full && (is_border || bytes.saturating_add(file.size) > tier.saturating_mul(2)) {
            break;
        }
        if is_border {
            batch.clear();
            bytes = 0;
            continue;
        }
        bytes = bytes.saturating_add(file.size);
        batch.push(file.clone());
    }
    batch.reverse();
    (bytes >= tier).then_some(batch)
}

/// Returns the newest files, or the newest of those that are older than a damaged file, if there are
/// many and none is larger than a memtable. Larger files are results of earlier merges; merging them
/// again would keep their entries from expiring.
fn small_files(tree: &Tree) -> Option<Pick> {
    let files = tree.version.level(0).files();
    let mut parts = files.split(|file| tree.busy.is_busy(file.number));
    parts.find_map(|files| newest_small(tree, files))
}

/// Returns a merge of the first of `files`, which are adjacent and ordered from newest to oldest.
fn newest_small(tree: &Tree, files: &[Arc<FileMeta>]) -> Option<Pick> {
    let least = tree.options.shape.level0_trigger.max(2);
    if files.len() < least {
        return None;
    }
    let most_each = tree.options.write_buffer_bytes / 10 * 11;
    let mut bytes = files.first()?.size;
    let mut best = u64::MAX;
    let mut count = 1;
    for file in &files[1..] {
        bytes = bytes.saturating_add(file.size);
        let each = bytes / count as u64;
        if each > best || bytes > tree.options.max_compaction_bytes {
            break;
        }
        best = each;
        count += 1;
    }
    if count < least || best > most_each {
        return None;
    }
    let inputs = vec![LevelInputs {
        level: 0,
        files: files[..count].to_vec(),
    }];
    let reason = Reason::FifoReduceNumFiles;
    expand::assemble(tree, reason, 0.0, inputs, 0)
}

/// Returns the rewriting of the oldest file whose temperature is not that of its age.
fn another_temperature(tree: &Tree) -> Option<Pick> {
    let ages = &tree.options.fifo.file_temperature_age_thresholds.0;
    if ages.is_empty() || tree.version.num_levels() > 1 {
        return None;
    }
    let files = tree.version.level(0).files();
    let mut oldest_first = files.iter().rev();
    let (file, wanted) = oldest_first.find_map(|file| {
        if tree.busy.is_busy(file.number) {
            return None;
        }
        let wanted = temperature_of_age(ages, file, tree.limits.now)?;
        Some((file, wanted))
    })?;
    let inputs = vec![LevelInputs {
        level: 0,
        files: vec![file.clone()],
    }];
    let reason = Reason::ChangeTemperature;
    let mut pick = expand::assemble(tree, reason, 0.0, inputs, 0)?;
    pick.output.temperature = Some(wanted);
    Some(pick)
}

/// Returns the temperature of the age of `file`, if the file has another one.
fn temperature_of_age(
    ages: &[FileTemperatureAge],
    file: &FileMeta,
    now: u64,
) -> Option<Temperature> {
    let age = match file.newest_time() {
        0 => return None,
        newest => now.saturating_sub(newest),
    };
    let reached = ages.partition_point(|threshold| threshold.age <= age);
    let wanted = ages[..reached].last()?.temperature;
    let has = |threshold: &FileTemperatureAge| threshold.temperature.number() == file.temperature;
    // The data may be older than the file, and have reached a later threshold before it was rewritten.
    let is_ahead = !file.knows_newest_time() && ages[reached..].iter().any(has);
    (file.temperature != wanted.number() && !is_ahead).then_some(wanted)
}
