//! Backups: incremental copies of databases in a directory that RocksDB's `BackupEngine` reads and writes, too.
//!
//! ```text
//! meta/<id>                                        one text per backup, the list of its files
//! private/<id>/  CURRENT MANIFEST-* OPTIONS-* *.log
//! shared_checksum/<number>_s<session>_<size>.sst   tables, shared by all backups that list them
//! shared_checksum/<number>_<crc32c>_<size>.blob    blob files, and tables without a session id
//! shared/<number>.sst                              with `share_files_with_checksum` off
//! BACKUP_LOCK                                      held during each change; RocksDB ignores it
//! ```
//!
//! A [`BackupEngine`] creates, verifies, restores and deletes backups; a [`BackupEngineReadOnly`] only reads and needs
//! no write access. The crate owns the directory of backups and the files of a database that is being restored. It
//! uses only public functions of the database: a list of live files, and a guard that keeps them.
//!
//! # Invariants
//!
//! B1. A backup exists from the moment when its metadata file has its name. All files that it lists, and their names,
//!     are durable before (with `sync`). A crash or an error at any operation leaves the backup complete or not listed.
//! B2. A file of a valid backup is never written, and is removed only after all metadata files that list it are durably
//!     removed. Thus no operation on one backup changes another one, whatever crash interrupts it.
//! B3. Only files with names that a backup can have are removed. As long as there is a corrupt backup, a shared file is
//!     removed only if a backup that is being deleted lists it and no other metadata file that can be read does.
//! B4. Changes of one directory are serialized, by a mutex within an engine and by the file BACKUP_LOCK between engines and
//!     processes. An engine notices the changes of others before its own.
//! B5. A restore removes CURRENT durably before anything else, and creates it last: an interrupted restore is not a
//!     database that opens. It holds the LOCK of the database, and fails if the database is open.
//!
//! # Cost
//!
//! A backup reads the new tables once, computing their checksums while it copies them, and of each old table a few
//! kilobytes with the session id. Blob files have no session id: those that an earlier backup may have are read to
//! compute their checksums, unless the MANIFEST has them (`file_checksum_gen_factory`) or this engine has seen the
//! file before. Memory is proportional to the number of files of all backups; each thread has a buffer of 1 MiB.
//! Copies run on the caller's thread and on up to `max_background_operations - 1` threads of the executor.
//!
//! # Concurrency
//!
//! All types may be shared between threads. Restores and verifications run concurrently with each other and with the
//! creation of a backup; the deletion of backups by the same engine waits for them. A callback may call functions that return information,
//! and [`BackupEngine::stop`]; other functions of the same engine fail with `Busy` in a callback.

mod callback;
mod catalog;
mod copy;
mod create;
mod delete;
mod engine;
mod naming;
mod options;
mod restore;
mod tasks;
mod verify;

pub use callback::Progress;
pub use catalog::BackupInfo;
pub use engine::{BackupEngine, BackupEngineReadOnly};
pub use options::{
    BackupEngineOptions, CreateBackupOptions, ExcludeFiles, RestoreMode, RestoreOptions,
    ShareFilesNaming,
};
