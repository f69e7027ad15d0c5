//! The command `backup`: creates, lists, verifies, restores and deletes backups.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use cairn::backup::{
    BackupEngineOptions, BackupEngineReadOnly, BackupInfo, CreateBackupOptions, Progress as Copied,
    RestoreMode, RestoreOptions,
};
use cairn::{BackupEngine, World};
use cairn_types::{Error, Result};
use serde_json::json;

use crate::args::{
    Backup, BackupCreate, BackupDelete, BackupList, BackupRestore, BackupVerify, RestoreKeep,
};
use crate::progress::Progress;
use crate::show::escaped;
use crate::target::{self, Use};

/// The number of copied bytes between updates of the progress bar.
const UPDATE_BYTES: u64 = 1 << 20;

/// Runs the command. Returns false if a backup is not intact.
pub fn run(command: &Backup, out: &mut dyn Write) -> Result<bool> {
    match command {
        Backup::Create(flags) => create(flags, out).map(|()| true),
        Backup::List(flags) => list(flags, out),
        Backup::Verify(flags) => verify(flags, out),
        Backup::Restore(flags) => restore(flags, out).map(|()| true),
        Backup::Delete(flags) => delete(flags).map(|()| true),
    }
}

fn options(dir: &Path, threads: usize) -> BackupEngineOptions {
    BackupEngineOptions {
        max_background_operations: threads,
        callback_trigger_interval_size: UPDATE_BYTES,
        ..BackupEngineOptions::new(dir)
    }
}

/// Opens backups that exist, without changing them.
fn reader(dir: &Path, threads: usize) -> Result<BackupEngineReadOnly> {
    BackupEngineReadOnly::open(&World::posix(), &options(dir, threads))
}

/// Returns a progress bar and a callback that updates it.
fn bar(what: &str) -> (Arc<Progress>, Arc<dyn Fn(Copied) + Send + Sync>) {
    let bar = Arc::new(Progress::bytes(what));
    let shown = bar.clone();
    let update = move |copied: Copied| {
        shown.set_total(copied.total_bytes);
        shown.reach(copied.copied_bytes);
    };
    (bar, Arc::new(update))
}

fn create(flags: &BackupCreate, out: &mut dyn Write) -> Result<()> {
    let db = target::open(&flags.target, Use::Write)?;
    let engine = BackupEngine::open(&BackupEngineOptions {
        backup_rate_limit: flags.rate_limit,
        ..options(&flags.backups, flags.threads)
    })?;
    let (bar, progress) = bar("backup");
    let id = engine.create(
        &db,
        &CreateBackupOptions {
            flush_before_backup: flags.flush,
            app_metadata: flags.metadata.clone().into_bytes(),
            progress: Some(progress),
            ..CreateBackupOptions::default()
        },
    );
    bar.finish();
    print(out, &described(&engine.backup(id?)?))?;
    if let Some(keep) = flags.keep {
        engine.purge_old_backups(keep)?;
    }
    db.close()
}

fn list(flags: &BackupList, out: &mut dyn Write) -> Result<bool> {
    let engine = reader(&flags.backups, 1)?;
    let damaged = engine.corrupted_backups();
    if flags.json {
        let rows: Vec<_> = engine.backups().iter().map(row).collect();
        let damaged: Vec<_> = damaged
            .iter()
            .map(|(id, error)| json!({"id": id, "error": error.to_string()}))
            .collect();
        let all = json!({"backups": rows, "damaged": damaged});
        print(out, &all.to_string())?;
        return Ok(damaged.is_empty());
    }
    for info in engine.backups() {
        print(out, &described(&info))?;
    }
    for (id, error) in &damaged {
        print(out, &format!("backup {id} is damaged: {error}"))?;
    }
    Ok(damaged.is_empty())
}

fn verify(flags: &BackupVerify, out: &mut dyn Write) -> Result<bool> {
    let engine = reader(&flags.backups, flags.threads)?;
    let mut results: Vec<(u32, Result<()>)> = Vec::new();
    let ids = match flags.ids.is_empty() {
        false => flags.ids.clone(),
        true => {
            let damaged = engine.corrupted_backups();
            results.extend(damaged.into_iter().map(|(id, error)| (id, Err(error))));
            engine.backups().iter().map(|info| info.backup_id).collect()
        }
    };
    let bar = Progress::items("verify", Some(ids.len() as u64));
    for id in ids {
        results.push((id, engine.verify_backup(id, !flags.quick)));
        bar.advance(1);
    }
    bar.finish();
    let mut intact = true;
    for (id, result) in results {
        match result {
            Ok(()) => print(out, &format!("backup {id}: ok"))?,
            Err(error) => {
                intact = false;
                print(out, &format!("backup {id}: {error}"))?;
            }
        }
    }
    Ok(intact)
}

fn restore(flags: &BackupRestore, out: &mut dyn Write) -> Result<()> {
    let engine = BackupEngineReadOnly::open(
        &World::posix(),
        &BackupEngineOptions {
            restore_rate_limit: flags.rate_limit,
            ..options(&flags.backups, flags.threads)
        },
    )?;
    let id = match flags.id {
        Some(id) => id,
        None => engine.latest_backup()?.backup_id,
    };
    let wal_dir = flags.wal_dir.as_ref().unwrap_or(&flags.db);
    let (bar, progress) = bar("restore");
    let restored = engine.restore_db_from_backup(
        id,
        &flags.db,
        wal_dir,
        &RestoreOptions {
            keep_log_files: flags.keep_logs,
            mode: match flags.keep {
                RestoreKeep::Nothing => RestoreMode::PurgeAllFiles,
                RestoreKeep::SameSession => RestoreMode::KeepLatestDbSessionIdFiles,
                RestoreKeep::SameChecksum => RestoreMode::VerifyChecksum,
            },
            progress: Some(progress),
            ..RestoreOptions::default()
        },
    );
    bar.finish();
    restored?;
    print(out, &format!("{} has backup {id}", flags.db.display()))
}

fn delete(flags: &BackupDelete) -> Result<()> {
    // The opening of a missing directory would create it.
    reader(&flags.backups, 1)?;
    let engine = BackupEngine::open(&options(&flags.backups, 1))?;
    for id in &flags.ids {
        let deleted = engine.delete_backup(*id);
        deleted.map_err(|error| error.context(format_args!("backup {id}")))?;
    }
    match flags.keep {
        Some(keep) => engine.purge_old_backups(keep),
        None => Ok(()),
    }
}

fn described(info: &BackupInfo) -> String {
    let metadata = match info.app_metadata.is_empty() {
        true => String::new(),
        false => format!(", {}", escaped(&info.app_metadata)),
    };
    format!(
        "backup {}: time {}, {} files, {} bytes, sequence number {}{metadata}",
        info.backup_id, info.timestamp, info.number_files, info.size, info.sequence_number
    )
}

fn row(info: &BackupInfo) -> serde_json::Value {
    json!({
        "id": info.backup_id,
        "timestamp": info.timestamp,
        "files": info.number_files,
        "bytes": info.size,
        "sequence": info.sequence_number,
        "metadata": escaped(&info.app_metadata),
    })
}

fn print(out: &mut dyn Write, line: &str) -> Result<()> {
    writeln!(out, "{line}").map_err(|error| Error::io_text(format!("print: {error}")))
}
