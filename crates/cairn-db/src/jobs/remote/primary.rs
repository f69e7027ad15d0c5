//! Prepares compactions of an open database for a compaction service.

use std::path::Path;
use std::sync::Arc;

use cairn_jobs::RemoteCompactor;
use cairn_jobs::pick::Pick;
use cairn_observe::listener::CompactionJobInfo;
use cairn_options::{CompactionService, CompactionServiceJobInfo};
use cairn_platform::FileSystem;
use cairn_types::{FileNumber, Result};

use crate::catalog::family::FamilyState;
use crate::shared::Shared;

/// The directory in that of the database for the outputs of remote compactions, with
/// `use_session_tmp_dir_for_remote_compaction`.
pub(super) const SESSION_TMP: &str = "session_tmp";

/// The files from which a worker opens the database.
pub(crate) struct FilesForWorker {
    options_file: FileNumber,
    /// The number of the MANIFEST, and its size, of which the worker has to read at least as much.
    manifest: (FileNumber, u64),
}

impl Shared {
    /// Creates the directory for the outputs of remote compactions, and deletes those of the previous session, if the
    /// options require it. Errors are logged.
    pub(crate) fn prepare_session_dir(&self) {
        if !self.options().use_session_tmp_dir_for_remote_compaction {
            return;
        }
        let fs = &*self.context.world.fs;
        let dir = self.context.dir.join(SESSION_TMP);
        let emptied = fs.create_dir_all(&dir).and_then(|()| empty(fs, &dir));
        if let Err(error) = emptied {
            self.context.info.warn(format_args!(
                "outputs of remote compactions in {} were not deleted: {error}",
                dir.display()
            ));
        }
    }

    /// Returns the files that a worker would open. `None` if the database has no OPTIONS file or no MANIFEST.
    pub(crate) fn files_for_worker(&self) -> Result<Option<FilesForWorker>> {
        let Some(manifest) = self.catalog.manifest_position() else {
            return Ok(None);
        };
        let newest = self.catalog.options_files.newest()?;
        Ok(newest.map(|(options_file, _)| FilesForWorker {
            options_file,
            manifest,
        }))
    }

    /// Returns the means to run `pick` by `service`.
    pub(crate) fn remote_compactor(
        &self,
        service: Arc<dyn CompactionService>,
        files: FilesForWorker,
        family: &FamilyState,
        info: &CompactionJobInfo,
        pick: &Pick,
    ) -> RemoteCompactor {
        let context = &self.context;
        let mut database_dirs = family.tables().paths.clone();
        database_dirs.extend([context.dir.clone(), context.wal_dir.clone()]);
        RemoteCompactor {
            service,
            info: CompactionServiceJobInfo {
                db_name: info.db_name.clone(),
                db_id: context.db_id.clone(),
                db_session_id: context.session_id.clone(),
                family_id: info.family_id,
                family_name: info.family_name.clone(),
                job_id: info.job_id,
                compaction_reason: info.compaction_reason,
                is_full_compaction: info.stats.is_full_compaction,
                is_manual_compaction: info.stats.is_manual_compaction,
                bottommost_level: pick.bottommost,
                base_input_level: info.base_input_level,
                output_level: info.output_level,
            },
            options_file: files.options_file,
            manifest: self
                .options()
                .remote_compaction_manifest_floor
                .then_some(files.manifest),
            database_dirs,
            log: context.info.clone(),
            waiting: self.telemetry.waiting_remotely().clone(),
        }
    }

    /// Makes calls that wait for workers return soon.
    pub(crate) fn cancel_remote_compactions(&self) {
        if let Some(service) = &self.options().compaction_service {
            service.cancel_awaiting_jobs();
        }
    }
}

/// Deletes the files in `dir` and in the directories in it, and these directories.
fn empty(fs: &dyn FileSystem, dir: &Path) -> Result<()> {
    for name in fs.list(dir)? {
        let path = dir.join(name);
        let Ok(files) = fs.list(&path) else {
            fs.remove(&path)?;
            continue;
        };
        for file in files {
            fs.remove(&path.join(file))?;
        }
        fs.remove_dir(&path)?;
    }
    Ok(())
}
