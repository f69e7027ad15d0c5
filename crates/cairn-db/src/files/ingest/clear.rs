//! Clearing the key range that an ingestion replaces.
//!
//! Tables inside of the range leave the tree with the edit that adds the new ones. If some cannot leave, a table with one
//! range tombstone is ingested below the new tables, like an older one that they overlap.

use cairn_jobs::ingest::Incoming;
use cairn_jobs::pick::InProgress;
use cairn_types::{Error, FileNumber, KeyOrder, Result};
use cairn_version::{FileMeta, Version};

use super::prepare::{Prepared, Replaced, contains, write_tombstone};
use super::reservations::Reservations;
use crate::files::host::{Components, Host};

/// The tables of the range.
struct Found {
    /// Those that can leave, with their levels.
    leaving: Vec<(usize, FileNumber)>,
    /// The reason why others stay, as a clause, if there are any.
    obstacle: Option<String>,
}

/// Decides which tables leave the tree, keeps compactions away from them, and writes a range tombstone if others stay. The
/// caller leads and holds the lock of the MANIFEST.
pub(super) fn clear<H: Host>(
    database: Components<'_>,
    job: &mut Prepared,
    reserved: &mut Reservations<'_, H>,
) -> Result<()> {
    let replaced = job.replaced.clone();
    let family = job.family().clone();
    let version = family.view().version.clone();
    let kept = job.input.options.snapshot_consistency && database.catalog.snapshots.count() > 0;
    let mut obstacle = None;
    reserved.hold(&family, |busy| {
        let found = match &replaced {
            Replaced::Range(range) => within(&version, busy, range, kept),
            Replaced::Everything => everything(&version, busy, kept)?,
            Replaced::Nothing => return Ok(Vec::new()),
        };
        obstacle = found.obstacle;
        job.leaving = found.leaving;
        Ok(job.leaving.iter().map(|(_, number)| *number).collect())
    })?;
    let (Replaced::Range(range), Some(obstacle)) = (replaced, obstacle) else {
        return Ok(());
    };
    check_tombstone(job, &obstacle)?;
    let staged = &database.catalog.staged;
    let number = database.catalog.numbers.take();
    let path = &family.tables().paths[0];
    staged.add(number, &path.join(cairn_format::names::table(number)));
    match write_tombstone(database, &job.input, number, &range) {
        Ok(file) => {
            job.tombstone = Some(job.files.len());
            job.batches.insert(0, vec![job.files.len()]);
            job.files.push(file);
            Ok(())
        }
        Err(error) => {
            if let Some(path) = staged.take(number) {
                database.catalog.deletions.delete(&path);
            }
            Err(error.context("a range tombstone over the range to be replaced"))
        }
    }
}

/// Finds the tables of `version` that reach into `range`. None of them leaves if they are `kept` for snapshots.
fn within(version: &Version, busy: &InProgress, range: &Incoming, kept: bool) -> Found {
    let order = version.order();
    let mut found = Found {
        leaving: Vec::new(),
        obstacle: None,
    };
    for (level, file) in version.files() {
        if !reaches_into(order, range, file) {
            continue;
        }
        let number = file.number;
        let bounds = Incoming {
            smallest: file.smallest.clone(),
            largest: file.largest.clone(),
            first_overlap: None,
        };
        let obstacle = if kept {
            "snapshots need its data".to_owned()
        } else if !contains(order, range, &bounds) {
            format!("it cuts through table {number} of level {level}")
        } else if busy.is_input(number) {
            "it overlaps a running compaction".to_owned()
        } else {
            found.leaving.push((level, number));
            continue;
        };
        found.obstacle.get_or_insert(obstacle);
    }
    found
}

/// Finds all tables of `version`.
///
/// # Errors
///
/// `InvalidArgument` if some cannot leave.
fn everything(version: &Version, busy: &InProgress, kept: bool) -> Result<Found> {
    if !busy.is_empty() {
        return Err(Error::invalid_argument(
            "the range to be replaced overlaps a running compaction",
        ));
    }
    let files = version.files();
    let leaving: Vec<_> = files.map(|(level, file)| (level, file.number)).collect();
    if kept && !leaving.is_empty() {
        return Err(Error::invalid_argument(
            "the entire family cannot be replaced while snapshots need its data: give a range, or set \
             snapshot_consistency to false",
        ));
    }
    Ok(Found {
        leaving,
        obstacle: None,
    })
}

/// Rejects a range tombstone that cannot get a sequence number below that of the new files.
fn check_tombstone(job: &Prepared, obstacle: &str) -> Result<()> {
    let options = &job.input.options;
    let reason = if job.family().order().timestamp_size() > 0 {
        "keys have timestamps"
    } else if options.allow_db_generated_files {
        "the files keep their sequence numbers (allow_db_generated_files)"
    } else if !options.allow_global_seqno {
        "allow_global_seqno is false"
    } else {
        return Ok(());
    };
    Err(Error::invalid_argument(format!(
        "the range to be replaced cannot be cleared: {obstacle}, and {reason}"
    )))
}

/// True if a table overlaps `range`, whose end is exclusive.
fn reaches_into(order: &KeyOrder, range: &Incoming, file: &FileMeta) -> bool {
    let compare = |a: &[u8], b: &[u8]| order.compare_without_timestamp(a, b);
    let end = compare(file.largest.user_key(), range.smallest.user_key());
    compare(file.smallest.user_key(), range.largest.user_key()).is_lt()
        && (end.is_gt() || end.is_eq() && !file.largest.is_exclusive_bound())
}
