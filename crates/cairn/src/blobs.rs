//! Large values in separate files.
//!
//! With `enable_blob_files`, flushes and compactions write values of at least `min_blob_size` bytes
//! to *blob files*, and tables store references to them. Compactions then rewrite references
//! instead of values, which eliminates most of the write amplification of large values. Reads and
//! iterators return the values as usual, without a copy.
//!
//! An overwritten or deleted value stays in its blob file as garbage until the file has no live
//! values left. With `enable_blob_garbage_collection`, compactions relocate live values out of the
//! oldest files (`blob_garbage_collection_age_cutoff` sets the fraction), and
//! `blob_garbage_collection_force_threshold` triggers compactions for this purpose.
//! `blob_space_target` is a simpler option of Cairn's own: with 1.5, blob files take at most about
//! one and a half times the space of their live values, as far as compactions have discovered the
//! garbage.
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
//! // The file is deleted with its last value.
//! db.delete(b"large")?;
//! db.compact_range(None, None, &CompactRangeOptions::default())?;
//! assert_eq!(db.property("rocksdb.num-blob-files").as_deref(), Some("0"));
//! # Ok::<(), cairn::Error>(())
//! ```
//!
//! # Blob cache
//!
//! Blobs are cached only if the family has a `blob_cache`. It may be the block cache, in which case
//! blobs are evicted first.
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
