//! The part of an ingestion during which writers wait: flush, placement, MANIFEST, publication.

use std::sync::Arc;

use cairn_format::key::InternalKey;
use cairn_jobs::checksum as file_checksum;
use cairn_jobs::ingest::{self, AssignedLevel, Incoming, Rules};
use cairn_jobs::pick::{InProgress, PickOptions};
use cairn_observe::FlushReason;
use cairn_observe::callback::{self, Within};
use cairn_observe::listener::ExternalFileIngestionInfo;
use cairn_options::CompactionStyle;
use cairn_read::View;
use cairn_types::{Error, FileNumber, Result, SequenceNumber};
use cairn_version::compaction_score;
use cairn_version::{FileMeta, TableRef, TreeEdit, Version};

use super::clear;
use super::prepare::{Prepared, PreparedFile, Replaced};
use super::reservations::{Range, Reservations};
use crate::catalog::family::FamilyState;
use crate::catalog::install::{Change, Ingested};
use crate::files::copy;
use crate::files::host::{Components, Host, LogEnd};
use crate::jobs::background::guarded;
use crate::locks::Rank;

/// The state after a failed ingestion.
pub(super) enum Failed {
    /// None of it is in the database.
    Nothing(Error),
    /// The MANIFEST may contain it.
    InDoubt(Error),
}

impl From<Error> for Failed {
    fn from(error: Error) -> Failed {
        Failed::Nothing(error)
    }
}

/// Adds the prepared files to the database. The caller leads.
pub(super) fn ingest_led<H: Host>(host: &Arc<H>, prepared: &mut [Prepared]) -> Result<(), Failed> {
    let Components {
        context, catalog, ..
    } = host.components();
    debug_assert!(context.locks.is_held(Rank::Lead), "the caller leads");
    host.wait_for_log()?;
    host.check_writable()?;
    if let Some(job) = prepared.iter().find(|job| job.family().is_dropped()) {
        return Err(Failed::Nothing(job.family().dropped_error()));
    }
    // Twice: a flush switches memtables. Iterators with views from before the ingestion do not see the files.
    stop_derived_ranges(prepared);
    flush_overlapped(host, prepared)?;
    stop_derived_ranges(prepared);
    // An opening that finds the files after a power failure also finds every earlier write.
    host.flush_wal(true)?;
    let end = host.log_end();
    let mut reserved = Reservations::new(host);
    // Data added without a number must not become visible to an older snapshot.
    let _pause = catalog.snapshots.pause();
    let had_snapshots = catalog.snapshots.count() > 0;
    let editor = catalog.edit();
    guarded("clearing ranges", || {
        comparing(host, || {
            prepared
                .iter_mut()
                .try_for_each(|job| clear::clear(host.components(), job, &mut reserved))
        })
    })?;
    let mut changes = Vec::new();
    let entering = guarded("placing files", || {
        comparing(host, || {
            changes = enter(host.components(), prepared, &end, &mut reserved)?;
            let families = prepared.iter().map(|job| &**job.family());
            editor.prepare(&**host, families.zip(&changes).collect())
        })
    })?;
    check_snapshots(host.components(), prepared, had_snapshots)?;
    let committed = editor.commit(&**host, &entering);
    let doubt = match committed {
        Ok(()) => None,
        Err(failed) if failed.in_doubt => Some(failed.error),
        Err(failed) => return Err(Failed::Nothing(failed.error)),
    };
    // Under the lead, which closing takes before it deletes staged files. In doubt the files are kept.
    for file in prepared.iter().flat_map(|job| &job.files) {
        let path = catalog.staged.take(file.number);
        if let Some(path) = path.filter(|_| doubt.is_some()) {
            catalog.deletions.keep_in_doubt(path);
        }
    }
    doubt.map_or(Ok(()), |error| Err(Failed::InDoubt(error)))
}

/// Runs `work`, which compares keys while the thread leads: comparators must not write or wait.
fn comparing<H: Host, T>(host: &Arc<H>, work: impl FnOnce() -> T) -> T {
    callback::within(&host.components().context.info, Within::Picking, work)
}

/// Rejects a snapshot that a comparator took after the files got their sequence numbers, which it might see.
fn check_snapshots(
    database: Components<'_>,
    prepared: &[Prepared],
    had_snapshots: bool,
) -> Result<()> {
    let is_consistent = |job: &Prepared| job.input.options.snapshot_consistency;
    if had_snapshots
        || database.catalog.snapshots.count() == 0
        || !prepared.iter().any(is_consistent)
    {
        return Ok(());
    }
    Err(Error::busy(
        "a comparator that is called for an ingestion may not take a snapshot that outlives the call",
    ))
}

/// Keeps scans from adding range tombstones above the files.
fn stop_derived_ranges(prepared: &[Prepared]) {
    for job in prepared {
        job.family().view().memtable.stop_derived_ranges();
    }
}

/// Flushes the families whose memtables overlap the files.
fn flush_overlapped<H: Host>(host: &Arc<H>, prepared: &[Prepared]) -> Result<()> {
    let mut overlapped = Vec::new();
    for job in prepared {
        let family = job.family();
        if !comparing(host, || job.overlaps_memtables(&family.view())) {
            continue;
        }
        if !job.input.options.allow_blocking_flush {
            return Err(Error::invalid_argument(format!(
                "a file overlaps the memtable of column family {:?}, and allow_blocking_flush \
                 is false",
                family.name()
            )));
        }
        if family.order().timestamp_size() > 0 {
            return Err(Error::invalid_argument(format!(
                "a file overlaps the memtable of column family {:?}, whose keys have \
                 timestamps: the order of the two could not be told",
                family.name()
            )));
        }
        overlapped.push(family.clone());
    }
    if overlapped.is_empty() {
        return Ok(());
    }
    host.flush_led(&overlapped, FlushReason::ExternalFileIngestion)
}

/// Finds and reserves a place for every file. Returns the changes that add the files there, one for each
/// family.
fn enter<H: Host>(
    database: Components<'_>,
    prepared: &[Prepared],
    end: &LogEnd,
    reserved: &mut Reservations<'_, H>,
) -> Result<Vec<Change>> {
    let before = end.last;
    let limit = database.catalog.numbers.next();
    let mut last = before;
    let mut all = Vec::with_capacity(prepared.len());
    for job in prepared {
        let view = job.family().view();
        let base = without(&view.version, &job.leaving)?;
        let rules = rules(database, job, &view);
        let places = places(database, job, &base, &rules, before, reserved)?;
        let in_batches = job.batches.iter().flatten().count();
        assert_eq!(
            (in_batches, places.len()),
            (job.files.len(), job.files.len()),
            "each file is in one batch and has a place"
        );
        let mut edit = TreeEdit {
            deleted: job.leaving.clone(),
            ..TreeEdit::default()
        };
        for (&at, place) in job.batches.iter().flatten().zip(&places) {
            let file = &job.files[at];
            assert!(
                file.number < limit,
                "ingested table {} has an allocated number",
                file.number
            );
            assert!(
                place.seq == SequenceNumber::ZERO || place.seq > before,
                "ingested table {} gets number {}, but {before} is already visible",
                file.number,
                place.seq
            );
            let checksum = write_seqno(database, job, file, *place)?;
            let meta = meta(database, job, &base, file, *place, checksum);
            last = last.max(meta.seqs.largest);
            edit.added.push((place.level, Arc::new(meta)));
        }
        all.push(edit);
    }
    assert!(
        before <= last,
        "an ingestion takes numbers that follow those assigned"
    );
    let ingested = Ingested {
        last_sequence: last,
        // Log numbers do not order the files after the logged data.
        log_reach: end.reach,
    };
    let changes = all.into_iter().map(|edit| Change {
        edit,
        ingested: Some(ingested),
        ..Change::default()
    });
    Ok(changes.collect())
}

/// Returns `version` without the files `leaving`, with their levels.
fn without(version: &Arc<Version>, leaving: &[(usize, FileNumber)]) -> Result<Arc<Version>> {
    if leaving.is_empty() {
        return Ok(version.clone());
    }
    let edit = TreeEdit {
        deleted: leaving.to_vec(),
        ..TreeEdit::default()
    };
    version.with_edit(&edit).map(Arc::new)
}

/// Returns the rules for placing the files of `job` in the tree of `view`.
fn rules(database: Components<'_>, job: &Prepared, view: &View) -> Rules {
    let family = job.family();
    let options = &job.input.options;
    let style = family.options().compaction_style;
    Rules {
        style,
        base_level: match style {
            CompactionStyle::Level => base_level(database, family, view),
            _ => 1,
        },
        new_sequence: options.snapshot_consistency && database.catalog.snapshots.count() > 0,
        files_overlap: job.batches.len() > 1,
        keep_sequences: options.allow_db_generated_files,
        last_level_only: options.fail_if_not_bottommost_level,
        behind: options.ingest_behind,
    }
}

/// Finds and reserves the places of one family's files, in the order of the batches.
fn places<H: Host>(
    database: Components<'_>,
    job: &Prepared,
    base: &Version,
    rules: &Rules,
    before: SequenceNumber,
    reserved: &mut Reservations<'_, H>,
) -> Result<Vec<AssignedLevel>> {
    let family = job.family();
    let io = database.context.io.clone();
    let open = {
        let (tables, io) = (family.tables().clone(), io.clone());
        move |file: &Arc<FileMeta>, level| tables.open(file, level, &io).map(TableRef::into_arc)
    };
    // Tables are read before the tree is locked; the lock of the MANIFEST keeps the version unchanged.
    let mut incoming = Vec::with_capacity(job.files.len());
    for file in &job.files {
        let mut bounds = file.bounds.clone();
        if !rules.behind {
            bounds.first_overlap =
                ingest::first_overlap(base, &bounds.smallest, &bounds.largest, &open, &io)?;
        }
        incoming.push(bounds);
    }
    reserved.reserve(family, |busy| {
        let places = places_beside(job, base, busy, rules, before, &incoming)?;
        let ranges = job.batches.iter().flatten().zip(&places);
        let ranges = ranges.map(|(&at, place)| Range {
            level: place.level,
            smallest: incoming[at].smallest.clone(),
            largest: incoming[at].largest.clone(),
        });
        let ranges = ranges.collect();
        Ok((places, ranges))
    })
}

/// Writes the sequence number into the file if `write_global_seqno` is set. Returns the checksum of the
/// file, which that changes.
fn write_seqno(
    database: Components<'_>,
    job: &Prepared,
    file: &PreparedFile,
    place: AssignedLevel,
) -> Result<(Vec<u8>, String)> {
    let Some(at) = file.seqno_at.filter(|_| place.seq > SequenceNumber::ZERO) else {
        return Ok(file.checksum.clone());
    };
    let options = database.settings.get();
    let fs = &*database.context.world.fs;
    // The file may be a link to one that must not be changed, so it is replaced by a changed copy.
    let number = database.catalog.numbers.take();
    let name = cairn_format::names::FileName::Temp(number).to_string();
    let changed = file.inside.with_file_name(name);
    let seq = place.seq.0.to_le_bytes();
    let mut offset = 0;
    copy::create_with(fs, &changed, options.use_fsync, |target| {
        copy::for_each_piece(fs, &file.inside, None, |piece| {
            let mut piece = piece.to_vec();
            for (byte, position) in seq.iter().zip(at..) {
                let within = position
                    .checked_sub(offset)
                    .and_then(|n| usize::try_from(n).ok());
                if let Some(place) = within.and_then(|within| piece.get_mut(within)) {
                    *place = *byte;
                }
            }
            offset += piece.len() as u64;
            target.append(&piece)
        })
        .map(|_| ())
    })?;
    fs.rename(&changed, &file.inside).inspect_err(|_| {
        // As in `create_with`.
        let _ = fs.remove(&changed);
    })?;
    fs.sync_dir(&job.family().tables().paths[file.path_id as usize])?;
    match &options.file_checksum_gen_factory {
        None => Ok(file.checksum.clone()),
        Some(factory) => file_checksum::of_file(fs, &file.inside, factory.start(&file.inside)),
    }
}

/// Returns the metadata of a file in its place.
fn meta(
    database: Components<'_>,
    job: &Prepared,
    base: &Version,
    file: &PreparedFile,
    place: AssignedLevel,
    checksum: (Vec<u8>, String),
) -> FileMeta {
    let numbered = |bound: &InternalKey| match bound.seq() {
        SequenceNumber::ZERO if place.seq > SequenceNumber::ZERO => {
            InternalKey::new(bound.user_key(), place.seq, bound.kind())
        }
        _ => bound.clone(),
    };
    let now = database.context.world.clock.wall_seconds();
    let mut meta = FileMeta::new(
        file.number,
        file.size,
        numbered(&file.bounds.smallest),
        numbered(&file.bounds.largest),
    );
    (meta.seqs.smallest, meta.seqs.largest) = match job.input.options.allow_db_generated_files {
        true => file.own_seqs,
        false => (place.seq, place.seq),
    };
    meta.path_id = file.path_id;
    meta.epoch = match job.input.options.ingest_behind {
        true => BEHIND_EPOCH,
        false => job.family().next_epoch(base),
    };
    meta.times.oldest_ancester = now;
    meta.times.file = now;
    (meta.checksum.value, meta.checksum.function) = (checksum.0, checksum.1.into());
    meta.unique_id = file.unique_id;
    meta.tail_size = file.tail_size;
    meta.timestamps.persisted = file.timestamps_persisted;
    if let Some((least, most)) = &file.timestamps {
        (meta.timestamps.min, meta.timestamps.max) = (least.clone(), most.clone());
    }
    // It has a single range deletion and nothing else: it is to be compacted away.
    meta.hints.marked = file.counts.range_deletions == 1 && file.counts.entries == 1;
    assert!(meta.counts.set(file.counts).is_ok(), "the metadata is new");
    meta
}

/// Notifies listeners of an ingested file. Not inlined, so that it appears in stack traces.
#[inline(never)]
fn notify_ingested(
    database: Components<'_>,
    job: &Prepared,
    file: &PreparedFile,
    level: usize,
    meta: &Arc<FileMeta>,
) {
    if !database.telemetry.has_listeners() {
        return;
    }
    let family = job.family();
    let tables = family.tables();
    let table = tables.open(meta, level, &database.context.io);
    let info = ExternalFileIngestionInfo {
        session_id: database.context.session_id.clone(),
        family_name: family.name().to_owned(),
        external_file_path: file.outside.to_string_lossy().into_owned(),
        internal_file_path: file.inside.to_string_lossy().into_owned(),
        global_seqno: meta.seqs.largest,
        // The error of a table that cannot be opened is returned when it is read.
        table_properties: table
            .map(|table| Arc::new(table.properties().clone()))
            .unwrap_or_default(),
    };
    database
        .telemetry
        .notify(|listener| listener.on_external_file_ingested(&info));
}

/// Reports ingested files to the info log and to listeners. The caller holds no lock.
pub(super) fn log_ingested(database: Components<'_>, job: &Prepared) {
    let family = job.family();
    let version = family.view().version.clone();
    for (at, file) in job.files.iter().enumerate() {
        let found = version.files().find(|(_, meta)| meta.number == file.number);
        let Some((level, meta)) = found else { continue };
        if job.tombstone == Some(at) {
            database.context.info.info(format_args!(
                "[{}] cleared the replaced range by table {} of level {level}",
                family.name(),
                file.number
            ));
            continue;
        }
        database.context.info.info(format_args!(
            "[{}] ingested {} as table {} of level {level}, {} bytes, sequence number {}",
            family.name(),
            file.outside.display(),
            file.number,
            file.size,
            meta.seqs.largest
        ));
        family.stats.ingested(level, file.size, file.counts.entries);
        notify_ingested(database, job, file, level, meta);
    }
}

/// Returns the level into which level 0 of `family` is compacted.
fn base_level(database: Components<'_>, family: &FamilyState, view: &View) -> usize {
    let options = PickOptions::new(&database.settings.get(), &family.options());
    compaction_score::targets(&view.version, &options.shape).base_level
}

/// The epoch of files ingested behind existing data: older than any other.
const BEHIND_EPOCH: u64 = 1;

/// Returns the places of one family's files, in the order of the batches, given the running compactions.
fn places_beside(
    job: &Prepared,
    base: &Version,
    busy: &InProgress,
    rules: &Rules,
    before: SequenceNumber,
    incoming: &[Incoming],
) -> Result<Vec<AssignedLevel>> {
    let mut last = before;
    let mut previous = None;
    let mut places = Vec::with_capacity(job.files.len());
    for batch in &job.batches {
        let mut uppermost = usize::MAX;
        for &at in batch {
            let place = ingest::place(base, busy, rules, &incoming[at], last, previous)?;
            let needs_number = place.seq > SequenceNumber::ZERO;
            if needs_number && !job.input.options.allow_global_seqno {
                return Err(Error::invalid_argument(
                    "a file needs a sequence number (it overlaps the database, or snapshots \
                     exist), and allow_global_seqno is false",
                ));
            }
            last = last.max(place.seq);
            uppermost = uppermost.min(place.level);
            places.push(place);
        }
        previous = Some(uppermost);
    }
    Ok(places)
}

impl Prepared {
    pub(super) fn family(&self) -> &Arc<FamilyState> {
        &self.input.family
    }

    /// True if a memtable of `view` has entries within the bounds of a file, or of the range to be replaced.
    fn overlaps_memtables(&self, view: &View) -> bool {
        let memtables = || view.memtables().filter(|memtable| !memtable.is_empty());
        let ranges: Vec<_> = match &self.replaced {
            Replaced::Everything => return memtables().next().is_some(),
            // It contains all files.
            Replaced::Range(range) => vec![(&range.smallest, &range.largest)],
            Replaced::Nothing => {
                let bounds = self.files.iter().map(|file| &file.bounds);
                bounds.map(|one| (&one.smallest, &one.largest)).collect()
            }
        };
        memtables().any(|memtable| {
            ranges
                .iter()
                .any(|(smallest, largest)| ingest::memtable_holds(memtable, smallest, largest))
        })
    }
}
