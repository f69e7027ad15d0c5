//! Large values in files of their own.
//!
//! With `enable_blob_files`, values of at least `min_blob_size` bytes go to *blob files* when a
//! flush or compaction writes them; tables keep references. Compactions then move references
//! instead of values, which saves most of the writing where values are large. Reads and iterators
//! show the values as ever, and hand them out without a copy.
//!
//! A value that is overwritten or deleted stays in its blob file as garbage until the file is
//! emptied. `enable_blob_garbage_collection` lets compactions move live values out of the oldest
//! files (`blob_garbage_collection_age_cutoff` says how many), and with
//! `blob_garbage_collection_force_threshold` compacts tables for that alone. `blob_space_target`
//! is simpler, and Cairn's own: with 1.5, blob files take at most about one and a half times the
//! bytes of the live values in them, as far as compactions have seen that the others are garbage.
//!
//! ```
//! # let dir = tempfile::tempdir().unwrap();
//! # use cairn::{CompactRangeOptions, Db, Options};
//! let options = Options::default()
//!     .create_if_missing(true)
//!     .text("enable_blob_files=true;min_blob_size=1000;blob_space_target=1.5")?;
//! let db = Db::open(dir.path().join("db"), &options)?;
//! db.put(b"small", b"stays in the tables")?;
//! db.put(b"large", &[7; 5000])?;
//! db.flush()?;
//! assert_eq!(db.property("rocksdb.num-blob-files").as_deref(), Some("1"));
//! assert_eq!(db.get(b"large")?.unwrap().len(), 5000);
//!
//! // The file goes with its last value.
//! db.delete(b"large")?;
//! db.compact_range(None, None, &CompactRangeOptions::default())?;
//! assert_eq!(db.property("rocksdb.num-blob-files").as_deref(), Some("0"));
//! # Ok::<(), cairn::Error>(())
//! ```
//!
//! # A cache of blobs
//!
//! Blobs are cached only if the family has a `blob_cache`. It may be the cache of blocks: blobs are
//! then the first to leave it.
//!
//! ```
//! # let dir = tempfile::tempdir().unwrap();
//! # use cairn::{Db, Options};
//! use std::sync::Arc;
//! use cairn::options::{BlockCache, CacheOptions};
//!
//! let cache = Arc::new(BlockCache::new(8 << 20, CacheOptions::default()));
//! let mut options = Options::default().create_if_missing(true).text("enable_blob_files=true")?;
//! options.family.blob_cache = Some(cache.clone());
//! let db = Db::open(dir.path().join("db"), &options)?;
//! db.put(b"k", &[1; 3000])?;
//! db.flush()?;
//! db.get(b"k")?;
//! assert!(cache.usage() > 3000);
//! # Ok::<(), cairn::Error>(())
//! ```
