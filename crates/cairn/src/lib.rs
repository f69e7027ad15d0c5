//! Cairn: a persistent key-value engine that reads and writes RocksDB's files.
//!
//! A database is a directory. It maps keys to values, both arbitrary byte strings, and keeps them
//! ordered by key.
//!
//! ```
//! # let dir = tempfile::tempdir().unwrap();
//! # let path = dir.path().join("db");
//! use cairn::{Db, Options, WriteBatch};
//!
//! let db = Db::open(&path, &Options::default().create_if_missing(true))?;
//! db.put(b"granite", b"igneous")?;
//! db.put(b"slate", b"metamorphic")?;
//! assert_eq!(db.get(b"granite")?.as_deref(), Some(&b"igneous"[..]));
//!
//! // Several writes, applied atomically.
//! let mut batch = WriteBatch::new();
//! batch.delete(b"granite");
//! batch.put(b"chalk", b"sedimentary");
//! db.write(&batch)?;
//!
//! // A snapshot reads the state at its creation, unaffected by later writes.
//! let snapshot = db.snapshot();
//! db.delete(b"chalk")?;
//! assert!(snapshot.get(b"chalk")?.is_some());
//!
//! // A scan in key order.
//! for entry in db.iter() {
//!     let (key, value) = entry?;
//!     println!("{key:?} = {value:?}");
//! }
//! # drop(snapshot);
//! db.close()?;
//! # Ok::<(), cairn::Error>(())
//! ```
//!
//! # Lifetimes
//!
//! Iterators, snapshots and column families borrow the database, so the compiler rejects a program
//! that closes it while they are in use:
//!
//! ```compile_fail
//! # let path = std::path::PathBuf::new();
//! let db = cairn::Db::open(&path, &cairn::Options::default()).unwrap();
//! let iter = db.iter();
//! db.close().unwrap(); // error: `db` is borrowed
//! drop(iter);
//! ```
//!
//! # Errors
//!
//! A key that does not exist is `Ok(None)`. An [`Error`] has RocksDB's [`Code`] and [`Subcode`] to
//! match on, a message with the file and the reason, and, if a system call failed, its
//! [`std::io::Error`] as the source:
//!
//! ```
//! use cairn::{Code, Error, Subcode};
//!
//! fn retry_later(error: &Error) -> bool {
//!     match (error.code(), error.subcode()) {
//!         (Code::IoError, Subcode::NoSpace) => true, // writes resume once there is space
//!         (Code::Busy | Code::TryAgain | Code::TimedOut, _) => true,
//!         _ => false,
//!     }
//! }
//! # assert!(!retry_later(&Error::corruption("bad block")));
//! ```
//!
//! # Durability
//!
//! A write that has returned survives the death of the process. With [`WriteOptions::sync`], it and
//! all earlier writes survive a power failure as well; without it, a power failure may lose the
//! last writes, but never one from the middle. [`Db::sync_wal`] and [`Db::close`] make all writes
//! durable.
//!
//! # Features
//!
//! | feature | codec | without it |
//! |---|---|---|
//! | `lz4` | LZ4 and LZ4HC | tables, blob files and options with `kLZ4Compression` or `kLZ4HCCompression` are rejected |
//! | `zstd` | Zstandard, and dictionaries trained by it | tables, blob files, WALs and options with `kZSTD` are rejected |
//!
//! Both are enabled by default and compile a C library. With `default-features = false`, the build
//! is pure Rust and needs no C compiler; Snappy (then the default compression), zlib and bzip2 are
//! always available. A database can be opened even if the codec of some of its tables is missing,
//! as long as no option names that codec; reads of such a table fail with [`Code::NotSupported`],
//! and the error names the file, the codec and the feature.

#![deny(missing_docs, missing_debug_implementations)]

mod assertions;
pub mod backup;
mod batch;
pub mod blobs;
mod builder;
pub mod caches;
pub mod compaction;
mod db;
pub mod encryption;
pub mod entity;
mod entries;
mod errors;
mod family;
pub mod files;
mod flush;
pub mod futures;
mod indexed;
mod iter;
pub mod limits;
mod multi_scan;
pub mod observe;
mod open;
pub mod options;
pub mod properties;
mod reads;
pub mod repair;
pub mod secondary_index;
mod set_options;
mod snapshot;
mod tables;
mod timestamps;
pub mod trace;
pub mod transactions;
pub mod ttl;
mod wal;
pub mod world;

pub use cairn_db::{
    Column, Columns, ContinueCallback, Dropped, FamilyDescriptor, GetMergeOperandsOptions, Operand,
    Operands, OperandsIter, Record, Value, WalFile, WalFileType, WriteCallback,
};
pub use cairn_memory::{MemoryBudget, WriteBufferManager};
pub use cairn_options::{
    CompactRangeOptions, DbOptions, FamilyOptions, FlushOptions, ReadOptions, TableOptions,
    WriteOptions,
};
pub use cairn_platform::{SstFileManager, World};
pub use cairn_types::{
    Code, Comparator, Error, KeyOrder, MergeInput, MergeOperator, PrefixExtractor, Result,
    SequenceNumber, Subcode, WalDecision, WalFilter,
};

pub use backup::BackupEngine;
pub use batch::WriteBatch;
pub use builder::DbBuilder;
pub use cairn_db::{
    MayExist, MultiScanArgs, Range, ScanRange, SizeApproximationOptions, TimestampedValue,
};
pub use cairn_indexed::{BatchIter, WriteEntry, WriteKind};
pub use db::Db;
pub use entries::{Cursor, Entries, KeyRange, KeyValue, Keys};
pub use errors::{BackgroundError, Damaged};
pub use family::Family;
pub use files::{
    ColumnFamilyMetaData, ColumnFamilyMetaDataOptions, ExportImportFilesMetaData,
    ExternalSstFileInfo, FileIngestionHandle, ImportColumnFamilyOptions, IngestExternalFileOptions,
    Ingestion, LiveFileMetaData, LiveFileStorageInfo, LiveFilesStorageInfoOptions, ReplaceRange,
    SortedRunBuilder, SstFileReader, SstFileWriter, SstIter,
};
pub use indexed::{BaseDeltaIter, IndexedBatch};
pub use iter::{CoalescingIter, Iter};
pub use limits::RateLimiter;
pub use multi_scan::{MultiScan, RangeEntries};
pub use open::Options;
pub use snapshot::Snapshot;
pub use transactions::{OptimisticTransactionDb, Transaction, TransactionDb};
pub use wal::WalIterator;
