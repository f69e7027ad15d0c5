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
//! # Threads
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
//! - An iterator in memory moves at the first poll. If it needs a file, a helper thread reads on, first 4 KiB, then
//!   more, and its next moves are complete at the first poll again.
//!
//! A waiting [`Db::get_async`] takes less than 2 KB besides the block that is read: its future, of 656 bytes, its position
//! in a table, and the state of the read.
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

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};

use cairn_db::{AsyncIter, Columns, Motion, Value};
use cairn_options::{ReadOptions, WriteOptions};
use cairn_types::Result;
use futures_core::Stream;
use futures_core::stream::FusedStream;

use crate::batch::WriteBatch;
use crate::db::Db;
use crate::entries::{KeyRange, KeyValue, range_options};
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
    #[expect(
        clippy::manual_async_fn,
        reason = "that it is `Send` is part of the interface"
    )]
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
    #[expect(
        clippy::manual_async_fn,
        reason = "that it is `Send` is part of the interface"
    )]
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
        let checked = self.inner.check_batch(&batch.inner);
        async move {
            checked?;
            self.inner.write_async(batch.inner, options).await
        }
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

/// A bidirectional cursor over the keys of one family whose moves are futures. It shows the state at its creation (or
/// that of a snapshot), unaffected by later writes. Created by [`Db::iter_async`].
///
/// The position changes when the future of a move is complete; a move whose future was dropped leaves it as it was.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = cairn::Db::open(dir.path().join("db"), &cairn::Options::default().create_if_missing(true))?;
/// # for key in [b"a", b"b", b"c"] { db.put(key, b"1")?; }
/// # pollster::block_on(async {
/// let mut iter = db.iter_async(&cairn::ReadOptions::default())?;
/// let mut entry = iter.seek(b"b").await?;
/// while let Some((key, value)) = entry {
///     println!("{key:?} = {value:?}");
///     entry = iter.next().await?;
/// }
/// # Ok::<(), cairn::Error>(()) })?;
/// # Ok::<(), cairn::Error>(())
/// ```
pub struct AsyncIterator<'db> {
    inner: AsyncIter,
    /// Of an iterator that is not bound to a reference.
    owner: Option<Arc<Db>>,
    db: PhantomData<&'db Db>,
}

/// Defines the moves of an iterator.
macro_rules! moves {
    ($($(#[$doc:meta])* $name:ident($($target:ident)?) => $motion:expr;)*) => {$(
        $(#[$doc])*
        ///
        /// # Errors
        ///
        /// Those of a file, of a merge or of the options; `Incomplete` if `read_tier` or
        /// `max_skippable_internal_keys` ended the move. The iterator is then not positioned.
        pub fn $name<'a>(
            &'a mut self $(, $target: &'a [u8])?
        ) -> impl Future<Output = Result<Option<(&'a [u8], &'a [u8])>>> + Send + use<'a, 'db> {
            async move {
                Ok(match self.inner.go($motion).await? {
                    true => self.inner.entry(),
                    false => None,
                })
            }
        }
    )*};
}

impl<'db> AsyncIterator<'db> {
    moves! {
        /// Moves to the first key at or after `target`, and returns the entry there, if any.
        seek(target) => Motion::Seek(target.to_vec());
        /// Moves to the last key at or before `target`.
        seek_for_prev(target) => Motion::SeekForPrev(target.to_vec());
        /// Moves to the first key.
        seek_to_first() => Motion::First;
        /// Moves to the last key.
        seek_to_last() => Motion::Last;
        /// Moves to the next key. Returns `None` unless the iterator is positioned.
        next() => Motion::Next;
        /// Moves to the previous key. Returns `None` unless the iterator is positioned.
        prev() => Motion::Prev;
    }

    /// The current key and value; `None` if the iterator is not positioned, or after a move whose future was dropped.
    #[must_use]
    pub fn entry(&self) -> Option<(&[u8], &[u8])> {
        self.inner.entry()
    }

    /// The entries from the first key on, as owned keys and values.
    #[must_use]
    pub fn into_stream(self) -> EntryStream<'db> {
        EntryStream(Streamed::Iter(Box::new(self), Motion::First))
    }
}

impl fmt::Debug for AsyncIterator<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsyncIterator")
            .field("is_owned", &self.owner.is_some())
            .finish_non_exhaustive()
    }
}

/// The entries of a range, as owned keys and values in key order: a [`Stream`]. An error is the last item. Created by
/// [`Db::stream`].
pub struct EntryStream<'db>(Streamed<'db>);

enum Streamed<'db> {
    Iter(Box<AsyncIterator<'db>>, Motion),
    Failed(cairn_types::Error),
    Ended,
}

impl EntryStream<'_> {
    fn end(&mut self, last: Option<cairn_types::Error>) -> Poll<Option<Result<KeyValue>>> {
        self.0 = Streamed::Ended;
        Poll::Ready(last.map(Err))
    }
}

impl Stream for EntryStream<'_> {
    type Item = Result<KeyValue>;

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<KeyValue>>> {
        match &mut self.0 {
            Streamed::Iter(iter, motion) => match ready!(iter.inner.poll_go(motion, context)) {
                Ok(true) => {
                    *motion = Motion::Next;
                    let entry = iter.inner.entry();
                    Poll::Ready(entry.map(|(key, value)| Ok((key.into(), value.into()))))
                }
                Ok(false) => self.end(None),
                Err(error) => self.end(Some(error)),
            },
            Streamed::Failed(error) => {
                let error = error.clone();
                self.end(Some(error))
            }
            Streamed::Ended => Poll::Ready(None),
        }
    }
}

impl FusedStream for EntryStream<'_> {
    fn is_terminated(&self) -> bool {
        matches!(self.0, Streamed::Ended)
    }
}

impl fmt::Debug for EntryStream<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EntryStream").finish_non_exhaustive()
    }
}

fn iterator<'db>(
    family: &cairn_db::Family,
    options: &ReadOptions,
    owner: Option<Arc<Db>>,
) -> Result<AsyncIterator<'db>> {
    Ok(AsyncIterator {
        inner: family.iter_async(options)?,
        owner,
        db: PhantomData,
    })
}

fn stream<'db>(iter: Result<AsyncIterator<'db>>) -> EntryStream<'db> {
    match iter {
        Ok(iter) => iter.into_stream(),
        Err(error) => EntryStream(Streamed::Failed(error)),
    }
}

impl Db {
    /// An iterator over the default family whose moves are futures, not yet positioned.
    ///
    /// # Errors
    ///
    /// `NotSupported` with `tailing` or `auto_refresh_iterator_with_snapshot`.
    pub fn iter_async(&self, options: &ReadOptions) -> Result<AsyncIterator<'_>> {
        iterator(self.inner.default_family(), options, None)
    }

    /// [`Db::iter_async`] for a task of its own: the iterator keeps the database open.
    ///
    /// # Errors
    ///
    /// Those of [`Db::iter_async`].
    pub fn iter_async_owned(
        self: &Arc<Db>,
        options: &ReadOptions,
    ) -> Result<AsyncIterator<'static>> {
        iterator(self.inner.default_family(), options, Some(self.clone()))
    }

    /// The entries of the default family in `range`, as a [`Stream`].
    #[must_use]
    pub fn stream(&self, range: impl KeyRange) -> EntryStream<'_> {
        stream(self.iter_async(&range_options(range)))
    }

    /// [`Db::stream`] for a task of its own: the stream keeps the database open.
    #[must_use]
    pub fn stream_owned(self: &Arc<Db>, range: impl KeyRange) -> EntryStream<'static> {
        stream(self.iter_async_owned(&range_options(range)))
    }
}

impl<'db> Family<'db> {
    /// An iterator whose moves are futures; see [`Db::iter_async`].
    ///
    /// # Errors
    ///
    /// Those of [`Db::iter_async`].
    pub fn iter_async(&self, options: &ReadOptions) -> Result<AsyncIterator<'db>> {
        iterator(&self.inner, options, None)
    }

    /// The entries in `range`, as a [`Stream`].
    #[must_use]
    pub fn stream(&self, range: impl KeyRange) -> EntryStream<'db> {
        stream(self.iter_async(&range_options(range)))
    }
}
