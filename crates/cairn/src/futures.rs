//! Reads and writes as futures, on any executor.
//!
//! A program that serves thousands of requests at a time cannot have a thread wait for each read. Its tasks
//! call [`Db::get_async`], [`Db::multi_get_async`] and [`Db::write_async`] instead:
//!
//! ```
//! # let dir = tempfile::tempdir().unwrap();
//! use std::sync::Arc;
//! use cairn::{Db, Options, WriteBatch, WriteOptions};
//!
//! let db = Arc::new(Db::open(dir.path().join("db"), &Options::default().create_if_missing(true))?);
//! let task = async move {
//!     let mut batch = WriteBatch::new();
//!     batch.put(b"granite", b"igneous");
//!     db.write_async(batch, &WriteOptions { sync: true, ..WriteOptions::default() }).await?;
//!     db.get_async(b"granite").await
//! };
//! let found = pollster::block_on(task)?; // or tokio::spawn(task), or smol::spawn(task)
//! assert_eq!(found.as_deref(), Some(&b"igneous"[..]));
//! # Ok::<(), cairn::Error>(())
//! ```
//!
//! The futures are `Send` and borrow the database; a task that owns an `Arc<Db>` is `'static`. The crate depends on no
//! executor.
//!
//! # What waits where
//!
//! - A key in memory is returned at the first poll, as fast as by [`Db::get`], and without an allocation. A block
//!   in the page cache is read at the first poll, too.
//! - Other reads are executed by a thread of the process that has them all in flight, with io_uring. Where the
//!   kernel refuses that, or with `io_mode=kThreads`, by threads: as many as the largest
//!   `read_io_executor_threads` of the databases opened, by default one. With `io_mode=kBlocking`, each read
//!   blocks the thread that polls.
//! - Tables and blob files are opened on helper threads, of which the process has up to 64.
//! - Writes are executed by up to 32 threads of the database, so that those with [`WriteOptions::sync`] share syncs.
//!   With write stalls, a future waits as long as the write does.
//!
//! A waiting [`Db::get_async`] takes less than 2 KiB besides the block that is read.
//!
//! # Dropping a future
//!
//! A future can be dropped at any time. It releases what it holds: its view of the database, blocks, and reads in
//! flight, of which those that have not started are cancelled. A write that has been polled takes place all the same,
//! unless the database is closed first.
//!
//! # Limits
//!
//! - Comparators, merge operators and decompression run on the thread that polls.
//! - `deadline` and `io_timeout` of [`ReadOptions`] are checked when a read has ended.
//! - [Perf counters](crate::observe) belong to a thread: they count the steps of a future that ran on it.
//! - In a forked child, futures of the parent fail or panic.

use std::future::Future;
use std::sync::OnceLock;

use cairn_db::{Columns, Value};
use cairn_options::{ReadOptions, WriteOptions};
use cairn_types::Result;

use crate::batch::WriteBatch;
use crate::db::Db;
use crate::family::Family;

/// Default options that a future can borrow.
fn default_options() -> &'static ReadOptions {
    static OPTIONS: OnceLock<ReadOptions> = OnceLock::new();
    OPTIONS.get_or_init(ReadOptions::default)
}

impl Db {
    /// [`Db::get`] as a future; see [`futures`](crate::futures).
    ///
    /// # Errors
    ///
    /// Those of [`Db::get`].
    pub fn get_async<'a>(
        &'a self,
        key: &'a [u8],
    ) -> impl Future<Output = Result<Option<Value>>> + Send + use<'a> {
        self.inner.get_async(key, default_options())
    }

    /// [`Db::get_with`] as a future.
    ///
    /// # Errors
    ///
    /// Those of [`Db::get_with`].
    pub fn get_with_async<'a>(
        &'a self,
        key: &'a [u8],
        options: &'a ReadOptions,
    ) -> impl Future<Output = Result<Option<Value>>> + Send + use<'a> {
        self.inner.get_async(key, options)
    }

    /// [`Db::multi_get`] as a future. The missing blocks of all files and levels are in flight together, unless
    /// [`ReadOptions::optimize_multiget_for_io`] is false.
    ///
    /// # Errors
    ///
    /// Those of [`Db::multi_get`].
    pub fn multi_get_async<'a, K: AsRef<[u8]> + Sync>(
        &'a self,
        keys: &'a [K],
        options: &'a ReadOptions,
    ) -> impl Future<Output = Vec<Result<Option<Value>>>> + Send + use<'a, K> {
        async move {
            let default = self.inner.default_family();
            let keys: Vec<_> = keys.iter().map(|key| (default, key.as_ref())).collect();
            self.inner.multi_get_async(&keys, options, false).await
        }
    }

    /// [`Db::multi_get_in`] as a future.
    ///
    /// # Errors
    ///
    /// Those of [`Db::multi_get_in`].
    pub fn multi_get_in_async<'a>(
        &'a self,
        keys: &'a [(&'a Family<'a>, &'a [u8])],
        options: &'a ReadOptions,
        sorted: bool,
    ) -> impl Future<Output = Vec<Result<Option<Value>>>> + Send + use<'a> {
        async move {
            let keys: Vec<_> = keys.iter().map(|(of, key)| (&of.inner, *key)).collect();
            self.inner.multi_get_async(&keys, options, sorted).await
        }
    }

    /// [`Db::write_with`] as a future. Once it has been polled, the batch is written even if the future is dropped,
    /// unless the database is closed first. Futures that wait for a sync share it.
    ///
    /// # Errors
    ///
    /// Those of [`Db::write_with`].
    pub fn write_async<'a>(
        &'a self,
        batch: WriteBatch,
        options: &'a WriteOptions,
    ) -> impl Future<Output = Result<()>> + Send + use<'a> {
        self.inner.write_async(batch.inner, options)
    }
}

impl Family<'_> {
    /// [`Family::get`] as a future; see [`futures`](crate::futures).
    ///
    /// # Errors
    ///
    /// Those of [`Db::get`].
    pub fn get_async<'a>(
        &'a self,
        key: &'a [u8],
    ) -> impl Future<Output = Result<Option<Value>>> + Send + use<'a> {
        self.inner.get_async(key, default_options())
    }

    /// [`Family::get_with`] as a future.
    ///
    /// # Errors
    ///
    /// Those of [`Db::get_with`].
    pub fn get_with_async<'a>(
        &'a self,
        key: &'a [u8],
        options: &'a ReadOptions,
    ) -> impl Future<Output = Result<Option<Value>>> + Send + use<'a> {
        self.inner.get_async(key, options)
    }

    /// [`Family::get_entity`] as a future.
    ///
    /// # Errors
    ///
    /// Those of [`Db::get_with`].
    pub fn get_entity_async<'a>(
        &'a self,
        key: &'a [u8],
        options: &'a ReadOptions,
    ) -> impl Future<Output = Result<Option<Columns>>> + Send + use<'a> {
        self.inner.get_entity_async(key, options)
    }
}
