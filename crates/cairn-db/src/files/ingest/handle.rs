//! Ingestion in two phases: files are prepared in advance, and committed or dropped later.

use std::sync::Arc;

use cairn_options::{IngestExternalFileOptions, Options as _};
use cairn_types::{Error, Result};

use super::prepare::{Prepared, divide};
use super::{Ingestion, commit_all, inputs, prepare_all, roll_back};
use crate::db::Db;
use crate::db::handle::Handle;

/// Files that are ready for their ingestion ([`Db::prepare_file_ingestion`]). Unless they are committed, they are deleted
/// when this is dropped, when the database is closed, or after a crash when it is opened. Keeps the database open.
#[must_use = "the prepared files are deleted when the handle is dropped"]
pub struct FileIngestionHandle {
    prepared: Vec<Prepared>,
    db: Arc<Handle>,
}

impl Db {
    /// Prepares an ingestion of tables into several families: all the work that does not block writers. Each file is
    /// examined, and linked or copied, so the caller's file is no longer read unless it is to be moved. Reads are not
    /// affected.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for options and files that are incompatible with the family or each other, `Corruption` of a
    /// file, `IoError`. No file is left in the directories of the database then.
    pub fn prepare_file_ingestion(&self, ingestions: &[Ingestion]) -> Result<FileIngestionHandle> {
        self.check_families(ingestions.iter().map(|one| &one.family))?;
        Ok(FileIngestionHandle {
            prepared: prepare_all(self.shared(), inputs(ingestions))?,
            db: self.handle.clone(),
        })
    }

    /// Ingests the prepared files; see [`Db::commit_file_ingestion_handles`].
    ///
    /// # Errors
    ///
    /// Those of [`Db::commit_file_ingestion_handles`].
    pub fn commit_file_ingestion_handle(&self, handle: FileIngestionHandle) -> Result<()> {
        self.commit_file_ingestion_handles(vec![handle])
    }

    /// Ingests the prepared files of all `handles`, atomically. Files for the same family are ingested as if they had
    /// been prepared together, in the order of the handles: where they overlap, later ones are newer.
    ///
    /// # Errors
    ///
    /// Those of [`Db::ingest_external_files`]. `InvalidArgument` if there are no handles, if one is of another database,
    /// or if handles for one family have different options; `NotSupported` if one of them replaces a range. The files are
    /// deleted then, except after an `IoError` of the MANIFEST.
    pub fn commit_file_ingestion_handles(&self, handles: Vec<FileIngestionHandle>) -> Result<()> {
        if handles.is_empty() {
            return Err(Error::invalid_argument("no file ingestion to commit"));
        }
        let foreign = |one: &FileIngestionHandle| !Arc::ptr_eq(&one.db, &self.handle);
        if handles.iter().any(foreign) {
            return Err(Error::invalid_argument(
                "a file ingestion was prepared by another database",
            ));
        }
        let jobs = handles
            .into_iter()
            .flat_map(|mut handle| std::mem::take(&mut handle.prepared));
        let (merged, refused) = merge(jobs);
        if let Some(error) = refused {
            roll_back(self.shared(), &merged);
            return Err(error);
        }
        commit_all(self.shared(), merged)
    }
}

impl FileIngestionHandle {
    /// Deletes the prepared files.
    pub fn abort(mut self) {
        self.roll_back();
    }

    fn roll_back(&mut self) {
        let prepared = std::mem::take(&mut self.prepared);
        if !prepared.is_empty() && !self.db.shared.context.is_forked() {
            roll_back(&self.db.shared, &prepared);
        }
    }
}

impl Drop for FileIngestionHandle {
    fn drop(&mut self) {
        if !self.prepared.is_empty() {
            self.db.shared.context.info.warn(format_args!(
                "an ingestion was prepared and neither committed nor aborted: its files are deleted"
            ));
        }
        self.roll_back();
    }
}

impl std::fmt::Debug for FileIngestionHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let files = self.prepared.iter().flat_map(|job| &job.files);
        write!(f, "FileIngestionHandle({} files)", files.count())
    }
}

/// Returns `jobs` with those for the same family combined, and the reason if that is not possible.
fn merge(jobs: impl Iterator<Item = Prepared>) -> (Vec<Prepared>, Option<Error>) {
    let mut merged: Vec<Prepared> = Vec::new();
    let mut refused = None;
    for job in jobs {
        if let Some(first) = merged.first()
            && first.input.options.fill_cache != job.input.options.fill_cache
        {
            refused = refused.or(Some(Error::invalid_argument(
                "fill_cache must be the same for all families",
            )));
        }
        let same = |one: &&mut Prepared| one.family().id() == job.family().id();
        match merged.iter_mut().find(same) {
            Some(one) => {
                let error = add(one, job).err();
                refused = refused.or(error);
            }
            None => merged.push(job),
        }
    }
    (merged, refused)
}

/// Adds the files of `other` to `job`, of the same family. After an error `job` has them all the same.
fn add(job: &mut Prepared, other: Prepared) -> Result<()> {
    let (one, two) = (&job.input, &other.input);
    let checked = if one.replace.is_some() || two.replace.is_some() {
        Err(Error::not_supported(
            "several ingestions for one family, of which one replaces a range",
        ))
    } else if !are_same(&one.options, &two.options) {
        Err(Error::invalid_argument(
            "ingestions for one family need the same options",
        ))
    } else {
        Ok(())
    };
    job.files.extend(other.files);
    checked?;
    divide(job)
}

fn are_same(a: &IngestExternalFileOptions, b: &IngestExternalFileOptions) -> bool {
    a.to_text() == b.to_text()
}
