//! Backups.

use std::path::PathBuf;

use cairn::backup::{BackupEngineOptions, CreateBackupOptions, RestoreOptions};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::bytes::Bytes;
use crate::db::{Db, back_up};
use crate::errors::raise;

/// Incremental backups in a directory, which RocksDB's `BackupEngine` reads and writes, too.
#[pyclass(frozen, module = "cairn")]
pub struct BackupEngine(cairn::BackupEngine);

impl BackupEngine {
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&cairn::BackupEngine) -> cairn::Result<T> + Send,
    ) -> PyResult<T> {
        py.detach(|| work(&self.0))
            .map_err(|error| raise(py, error))
    }
}

#[pymethods]
impl BackupEngine {
    /// Opens the directory `path`, which is created if it is missing.
    #[new]
    #[pyo3(signature = (path, *, sync=true, share_table_files=true, max_background_operations=1, backup_rate_limit=0, restore_rate_limit=0))]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        sync: bool,
        share_table_files: bool,
        max_background_operations: usize,
        backup_rate_limit: u64,
        restore_rate_limit: u64,
    ) -> PyResult<BackupEngine> {
        let options = BackupEngineOptions {
            sync,
            share_table_files,
            max_background_operations,
            backup_rate_limit,
            restore_rate_limit,
            ..BackupEngineOptions::new(path)
        };
        let engine = py.detach(|| cairn::BackupEngine::open(&options));
        engine.map(BackupEngine).map_err(|error| raise(py, error))
    }

    /// Creates a backup of an open database and returns its id.
    #[pyo3(signature = (db, *, flush_before_backup=false, app_metadata=None))]
    fn create(
        &self,
        db: &Bound<'_, Db>,
        flush_before_backup: bool,
        app_metadata: Option<Bytes<'_>>,
    ) -> PyResult<u32> {
        let options = CreateBackupOptions {
            flush_before_backup,
            app_metadata: app_metadata.map(|data| data.to_vec()).unwrap_or_default(),
            ..CreateBackupOptions::default()
        };
        back_up(db, &self.0, &options)
    }

    /// The backups, oldest first, each as a dict.
    fn backups<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let backups = self.with(py, |engine| Ok(engine.backups()))?;
        let dicts = backups.iter().map(|backup| {
            let dict = PyDict::new(py);
            dict.set_item("id", backup.backup_id)?;
            dict.set_item("timestamp", backup.timestamp)?;
            dict.set_item("size", backup.size)?;
            dict.set_item("number_files", backup.number_files)?;
            dict.set_item("app_metadata", PyBytes::new(py, &backup.app_metadata))?;
            Ok(dict)
        });
        dicts.collect()
    }

    /// The ids of damaged backups, with the reasons.
    fn corrupted_backups(&self, py: Python<'_>) -> PyResult<Vec<(u32, String)>> {
        self.with(py, |engine| {
            let damaged = engine.corrupted_backups().into_iter();
            Ok(damaged.map(|(id, error)| (id, error.to_string())).collect())
        })
    }

    /// Checks the sizes of the files of a backup, and their checksums if `checksums` is true.
    #[pyo3(signature = (id, *, checksums=true))]
    fn verify(&self, py: Python<'_>, id: u32, checksums: bool) -> PyResult<()> {
        self.with(py, |engine| engine.verify_backup(id, checksums))
    }

    /// Replaces the database in `path`, which no process has open, by a backup, by default the latest.
    #[pyo3(signature = (path, id=None))]
    fn restore(&self, py: Python<'_>, path: PathBuf, id: Option<u32>) -> PyResult<()> {
        self.with(py, |engine| {
            let options = RestoreOptions::default();
            match id {
                Some(id) => engine.restore_db_from_backup(id, &path, &path, &options),
                None => engine.restore_db_from_latest_backup(&path, &path, &options),
            }
        })
    }

    /// Deletes a backup, which may be damaged.
    fn delete(&self, py: Python<'_>, id: u32) -> PyResult<()> {
        self.with(py, |engine| engine.delete_backup(id))
    }

    /// Deletes the oldest backups so that at most `keep` remain.
    fn purge(&self, py: Python<'_>, keep: usize) -> PyResult<()> {
        self.with(py, |engine| engine.purge_old_backups(keep))
    }
}
