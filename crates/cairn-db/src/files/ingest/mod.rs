//! Ingestion: external tables become part of the tree without being rewritten.
//!
//! ```text
//! prepare   look at each file, link or copy it under a number of its own, sync names
//! lead      writers wait; the log is synced; memtables that overlap the files are flushed
//! place     levels and sequence numbers, with compactions kept away from the places
//! commit    one MANIFEST record group for all families, then what readers see
//! ```
//!
//! The first step can be done in advance ([`Db::prepare_file_ingestion`]); its files are deleted unless they are
//! committed.
//!
//! After a crash or an error, either all files of all families are part of the database, or none. The
//! caller's files are unchanged, except those that are moved: their old names are removed once the files are
//! durable in the MANIFEST. Every write before the ingestion is durable when the ingestion is.

mod clear;
mod commit;
mod handle;
mod prepare;
mod reservations;

use std::path::PathBuf;
use std::sync::Arc;

use cairn_observe::statistics::Histogram;
use cairn_options::IngestExternalFileOptions;
use cairn_types::{Error, Result};

use super::host::{Components, Host};
use super::prepared_info::PreparedFileInfo;
use crate::catalog::family::FamilyState;
use crate::db::Db;
use crate::db::handle::Family;
pub use handle::FileIngestionHandle;
use prepare::Prepared;

/// The part of a family that an ingestion replaces. Tables inside of it leave the tree.
///
/// Tables that have other keys, too, or that a compaction reads, or that snapshots need (`snapshot_consistency`), stay
/// below a table with a range tombstone. That takes sequence numbers (`allow_global_seqno`), so it is not possible for
/// families with timestamps, for tables that keep their sequence numbers (`allow_db_generated_files`), and for the entire
/// family.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReplaceRange {
    /// The entire family.
    All,
    /// The keys from the first (inclusive) to the second (exclusive).
    Keys(Vec<u8>, Vec<u8>),
}

/// External tables for one family.
pub struct Ingestion {
    /// The family.
    pub family: Family,
    /// The tables. If they overlap, later ones are newer.
    pub files: Vec<PathBuf>,
    /// The options of the ingestion.
    pub options: IngestExternalFileOptions,
    /// Checksums of the whole files, one for each; empty for none.
    pub checksums: Vec<Vec<u8>>,
    /// The checksum functions used, one for each.
    pub checksum_functions: Vec<String>,
    /// The range that is removed from the family when the files are added. It must contain all of them.
    pub replace: Option<ReplaceRange>,
    /// The descriptions of the files, one for each; empty for none. A file with a description is not opened, unless
    /// `verify_checksums_before_ingest` is set: its bounds and properties are trusted. Not with `write_global_seqno`.
    pub file_infos: Vec<PreparedFileInfo>,
}

impl Ingestion {
    /// Creates an ingestion of the tables `files` into `family`, with `options`.
    #[must_use]
    pub fn new(
        family: &Family,
        files: impl IntoIterator<Item = impl Into<PathBuf>>,
        options: &IngestExternalFileOptions,
    ) -> Ingestion {
        Ingestion {
            family: family.clone(),
            files: files.into_iter().map(Into::into).collect(),
            options: options.clone(),
            checksums: Vec::new(),
            checksum_functions: Vec::new(),
            replace: None,
            file_infos: Vec::new(),
        }
    }
}

impl Db {
    /// Ingests tables into several families, atomically.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for options and files that are incompatible with the family or each other,
    /// `Corruption` of a file, `TryAgain` with `fail_if_not_bottommost_level`; nothing has changed then.
    /// After an `IoError` of the MANIFEST, the database is read-only and it is unknown whether the files are
    /// part of it.
    pub fn ingest_external_files(&self, ingestions: &[Ingestion]) -> Result<()> {
        self.check_families(ingestions.iter().map(|one| &one.family))?;
        ingest(self.shared(), inputs(ingestions))
    }
}

impl Family {
    /// Ingests the tables `files`, atomically.
    ///
    /// # Errors
    ///
    /// Those of [`Db::ingest_external_files`].
    pub fn ingest_external_file(
        &self,
        files: impl IntoIterator<Item = impl Into<PathBuf>>,
        options: &IngestExternalFileOptions,
    ) -> Result<()> {
        let ingestion = Ingestion::new(self, files, options);
        ingest(&self.db.shared, inputs(&[ingestion]))
    }
}

/// The files for one family.
pub(super) struct Input {
    pub(super) family: Arc<FamilyState>,
    pub(super) files: Vec<PathBuf>,
    pub(super) options: IngestExternalFileOptions,
    pub(super) checksums: Vec<Vec<u8>>,
    pub(super) checksum_functions: Vec<String>,
    pub(super) replace: Option<ReplaceRange>,
    pub(super) file_infos: Vec<PreparedFileInfo>,
}

/// Returns the inputs of `ingestions`, one for each.
fn inputs(ingestions: &[Ingestion]) -> Vec<Input> {
    let inputs = ingestions.iter().map(|ingestion| Input {
        family: ingestion.family.state.clone(),
        files: ingestion.files.clone(),
        options: ingestion.options.clone(),
        checksums: ingestion.checksums.clone(),
        checksum_functions: ingestion.checksum_functions.clone(),
        replace: ingestion.replace.clone(),
        file_infos: ingestion.file_infos.clone(),
    });
    inputs.collect()
}

/// Ingests the files of `inputs`, all of them or none; see [`Db::ingest_external_files`].
pub(super) fn ingest<H: Host>(host: &Arc<H>, inputs: Vec<Input>) -> Result<()> {
    let prepared = prepare_all(host, inputs)?;
    commit_all(host, prepared)
}

/// Examines the files of `inputs`, and links or copies them. After an error, none of them is left in the database's
/// directories.
fn prepare_all<H: Host>(host: &Arc<H>, inputs: Vec<Input>) -> Result<Vec<Prepared>> {
    let database = host.components();
    let telemetry = database.telemetry;
    host.check_writable()?;
    check(database, &inputs)?;
    let began = telemetry.began();
    let prepared = host.while_open(|| {
        let mut prepared = Vec::with_capacity(inputs.len());
        for input in inputs {
            match prepare::prepare(database, input) {
                Ok(files) => prepared.push(files),
                Err(error) => {
                    abandon(database, &prepared);
                    return Err(error);
                }
            }
        }
        Ok(prepared)
    });
    let prepared = prepared.unwrap_or_else(|| Err(Error::shutdown("the database is closed")))?;
    telemetry.time_since(began, Histogram::IngestExternalFilePrepareTime);
    Ok(prepared)
}

/// Adds the prepared files to the database, all of them or none.
fn commit_all<H: Host>(host: &Arc<H>, mut prepared: Vec<Prepared>) -> Result<()> {
    let database = host.components();
    let telemetry = database.telemetry;
    let began = telemetry.began();
    let result = match host.lead_alone() {
        Ok(_lead) => commit::ingest_led(host, &mut prepared),
        Err(error) => Err(commit::Failed::Nothing(error)),
    };
    telemetry.deliver();
    match result {
        Ok(()) => {}
        Err(commit::Failed::Nothing(error)) => {
            roll_back(host, &prepared);
            return Err(error);
        }
        // The files may be part of the database: they are kept.
        Err(commit::Failed::InDoubt(error)) => return Err(error),
    }
    for job in &prepared {
        commit::log_ingested(database, job);
        if job.input.options.move_files {
            remove_external_names(database, job);
        }
    }
    host.purge();
    telemetry.time_since(began, Histogram::IngestExternalFileRunTime);
    Ok(())
}

/// Deletes the files of ingestions that are not committed.
fn roll_back<H: Host>(host: &Arc<H>, prepared: &[Prepared]) {
    // Once the directory is released, closing has deleted them.
    let _deleted = host.while_open(|| abandon(host.components(), prepared));
}

/// Rejects invalid arguments before any file is touched.
fn check(database: Components<'_>, inputs: &[Input]) -> Result<()> {
    let refuse = |text: String| Err(Error::invalid_argument(text));
    if inputs.is_empty() {
        return refuse("nothing to ingest: the list of families is empty".to_owned());
    }
    for (at, input) in inputs.iter().enumerate() {
        let name = input.family.name();
        input.options.validate()?;
        if input.files.is_empty() {
            return refuse(format!("no file is given for column family {name:?}"));
        }
        let again = inputs[..at]
            .iter()
            .any(|other| other.family.id() == input.family.id());
        if again {
            return refuse(format!("column family {name:?} is listed twice"));
        }
        let options = input.family.options();
        if input.options.ingest_behind && !options.allows_ingest_behind(&database.settings.get()) {
            return refuse(format!(
                "ingest_behind needs a column family that has had cf_allow_ingest_behind from \
                 its beginning; {name:?} has not"
            ));
        }
        if input.options.ingest_behind && input.family.order().timestamp_size() > 0 {
            return Err(Error::not_supported(
                "files cannot be ingested behind in a family whose keys have timestamps",
            ));
        }
        if input.options.ingest_behind && input.replace.is_some() {
            return refuse("ingest_behind replaces nothing".to_owned());
        }
        let (infos, files) = (input.file_infos.len(), input.files.len());
        if infos > 0 && infos != files {
            return refuse(format!(
                "descriptions of {files} files for column family {name:?}: found {infos}"
            ));
        }
        if infos > 0 && input.options.write_global_seqno {
            return refuse(
                "write_global_seqno needs the content of the files, which are not opened if their \
                 descriptions are given"
                    .to_owned(),
            );
        }
        if input.options.fill_cache != inputs[0].options.fill_cache {
            return refuse("fill_cache must be the same for all families".to_owned());
        }
    }
    Ok(())
}

/// Deletes the links or copies of files that did not become part of the tree. The directory is not released meanwhile.
fn abandon(database: Components<'_>, prepared: &[Prepared]) {
    for job in prepared {
        let version = job.family().view().version.clone();
        for file in &job.files {
            assert!(
                version.files().all(|(_, live)| live.number != file.number),
                "table {}, which is deleted, is in no version",
                file.number
            );
            if let Some(path) = database.catalog.staged.take(file.number) {
                database.catalog.deletions.delete(&path);
            }
        }
    }
}

/// Removes the old names of moved files. If that fails, no harm is done.
fn remove_external_names(database: Components<'_>, job: &Prepared) {
    let context = database.context;
    for (at, file) in job.files.iter().enumerate() {
        if job.tombstone == Some(at) {
            continue;
        }
        if let Err(error) = context.world.fs.remove(&file.outside) {
            context.info.warn(format_args!(
                "an ingested file keeps its old name too: {error}"
            ));
        }
    }
}
