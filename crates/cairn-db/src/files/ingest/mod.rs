//! Ingestion: external tables become part of the tree without being rewritten.
//!
//! ```text
//! prepare   look at each file, link or copy it under a number of its own, sync names
//! lead      writers wait; the log is synced; memtables that overlap the files are flushed
//! place     levels and sequence numbers, with compactions kept away from the places
//! commit    one MANIFEST record group for all families, then what readers see
//! ```
//!
//! After a crash or an error, either all files of all families are part of the database, or none. The
//! caller's files are unchanged, except those that are moved: their old names are removed once the files are
//! durable in the MANIFEST. Every write before the ingestion is durable when the ingestion is.

mod commit;
mod prepare;

use std::path::PathBuf;
use std::sync::Arc;

use cairn_observe::statistics::Histogram;
use cairn_options::IngestExternalFileOptions;
use cairn_types::{Error, Result};

use crate::db::Db;
use crate::handle::Family;
use crate::shared::Shared;

/// The part of a family that an ingestion replaces.
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
    /// The range that is removed from the family when the files are added. It must contain all of them, and
    /// no table may cross its boundaries.
    pub replace: Option<ReplaceRange>,
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
        self.shared().ingest(ingestions)
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
        self.db
            .shared
            .ingest(&[Ingestion::new(self, files, options)])
    }
}

impl Shared {
    fn ingest(self: &Arc<Self>, ingestions: &[Ingestion]) -> Result<()> {
        self.check_writable()?;
        self.check_ingestions(ingestions)?;
        let began = self.telemetry.began();
        let mut prepared = Vec::with_capacity(ingestions.len());
        for ingestion in ingestions {
            match self.prepare(ingestion) {
                Ok(files) => prepared.push(files),
                Err(error) => {
                    self.abandon(&prepared);
                    return Err(error);
                }
            }
        }
        self.telemetry
            .time_since(began, Histogram::IngestExternalFilePrepareTime);
        let began = self.telemetry.began();
        let result = match self.lead_alone() {
            Ok(_lead) => self.ingest_led(&prepared),
            Err(error) => Err(commit::Failed::Nothing(error)),
        };
        self.telemetry.deliver();
        match result {
            Ok(()) => {}
            Err(commit::Failed::Nothing(error)) => {
                self.abandon(&prepared);
                return Err(error);
            }
            // The files may be part of the database: they are kept.
            Err(commit::Failed::InDoubt(error)) => return Err(error),
        }
        for job in &prepared {
            self.log_ingested(job);
            if job.ingestion.options.move_files {
                self.remove_external_names(job);
            }
        }
        self.purge();
        self.telemetry
            .time_since(began, Histogram::IngestExternalFileRunTime);
        Ok(())
    }

    /// Rejects invalid arguments before any file is touched.
    fn check_ingestions(&self, ingestions: &[Ingestion]) -> Result<()> {
        let refuse = |text: String| Err(Error::invalid_argument(text));
        if ingestions.is_empty() {
            return refuse("nothing to ingest: the list of families is empty".to_owned());
        }
        for (at, ingestion) in ingestions.iter().enumerate() {
            let name = ingestion.family.name();
            ingestion.options.validate()?;
            if ingestion.files.is_empty() {
                return refuse(format!("no file is given for column family {name:?}"));
            }
            let again = ingestions[..at]
                .iter()
                .any(|other| other.family.id() == ingestion.family.id());
            if again {
                return refuse(format!("column family {name:?} is listed twice"));
            }
            let options = ingestion.family.state.options();
            if ingestion.options.ingest_behind && !options.allows_ingest_behind(&self.options()) {
                return refuse(format!(
                    "ingest_behind needs a column family that has had cf_allow_ingest_behind from \
                     its beginning; {name:?} has not"
                ));
            }
            if ingestion.options.ingest_behind
                && ingestion.family.state.order().timestamp_size() > 0
            {
                return Err(Error::not_supported(
                    "files cannot be ingested behind in a family whose keys have timestamps",
                ));
            }
            if ingestion.options.ingest_behind && ingestion.replace.is_some() {
                return refuse("ingest_behind replaces nothing".to_owned());
            }
            if ingestion.options.fill_cache != ingestions[0].options.fill_cache {
                return refuse("fill_cache must be the same for all families".to_owned());
            }
        }
        Ok(())
    }

    /// Deletes the links or copies of files that did not become part of the tree.
    fn abandon(&self, prepared: &[prepare::Prepared<'_>]) {
        for job in prepared {
            let version = job.family().view().version.clone();
            for file in &job.files {
                assert!(
                    version.files().all(|(_, live)| live.number != file.number),
                    "table {}, which is deleted, is in no version",
                    file.number
                );
                self.catalog.delete(&file.inside);
            }
        }
    }

    /// Removes the old names of moved files. If that fails, no harm is done.
    fn remove_external_names(&self, job: &prepare::Prepared<'_>) {
        for file in &job.files {
            if let Err(error) = self.context.world.fs.remove(&file.outside) {
                self.context.info.warn(format_args!(
                    "an ingested file keeps its old name too: {error}"
                ));
            }
        }
    }
}
