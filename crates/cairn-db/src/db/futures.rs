//! Reads and writes of an open database as futures.
//!
//! A future borrows the handle that made it, and a task that owns a clone of the handle can run on any executor.
//! A read takes its view at the first poll and keeps it until it ends or is dropped.

use std::borrow::Cow;
use std::sync::Arc;

use cairn_options::{ReadOptions, WriteOptions};
use cairn_platform::io::promise;
use cairn_read::{Columns, Found, Value, View, get_async, try_get};
use cairn_types::Result;

use crate::catalog::release::check_held;
use crate::db::Db;
use crate::db::handle::Family;
use crate::read::get::{lookup, tier_of};
use crate::shared::Shared;
use crate::write::awaited_writes::AwaitedWrites;
use crate::write::batch::WriteBatch;

/// The view of a read in flight. Files that only it has kept are deleted after its end, by a background thread.
#[derive(Clone)]
pub(crate) struct AwaitedView {
    /// `None` only while it is dropped.
    view: Option<Arc<View>>,
    shared: Arc<Shared>,
}

impl AwaitedView {
    pub(crate) fn new(view: Arc<View>, shared: &Arc<Shared>) -> AwaitedView {
        AwaitedView {
            view: Some(view),
            shared: shared.clone(),
        }
    }

    /// Returns the view.
    pub(crate) fn shared_view(&self) -> &Arc<View> {
        self.view.as_ref().expect("present until dropped")
    }
}

impl std::ops::Deref for AwaitedView {
    type Target = View;
    fn deref(&self) -> &View {
        self.shared_view()
    }
}

impl Drop for AwaitedView {
    fn drop(&mut self) {
        if self.shared.context.is_forked() {
            // Releasing blocks and files acquires locks.
            std::mem::forget(self.view.take());
            return;
        }
        self.view = None;
        self.shared.purge_in_background();
    }
}

impl Family {
    /// [`Family::find`] as a future, with `convert` applied to its result: a future that wraps another one stores the
    /// arguments of both. A key in memory is returned at the first poll, without an allocation.
    async fn found_async<T>(
        &self,
        key: &[u8],
        options: &ReadOptions,
        convert: impl FnOnce(Found) -> Result<T> + Send,
    ) -> Result<T> {
        if let Some(found) = self.found_by(key, options, try_get)? {
            return convert(found);
        }
        let shared = &self.db.shared;
        let (view, seq) = shared.newest(&self.state);
        let view = AwaitedView::new(view, shared);
        check_held(&view)?;
        let seq = options.snapshot.unwrap_or(seq);
        let lookup = lookup(&view, key, seq, options)?;
        // Boxed: a future has room for the rare case, too.
        let of_tier = match tier_of(shared, options) {
            Cow::Borrowed(_) => None,
            Cow::Owned(options) => Some(Box::new(options)),
        };
        convert(get_async(&view, &lookup, of_tier.as_deref().unwrap_or(options)).await?)
    }

    /// [`Family::get_with`] if it needs no file; `None` if it may.
    ///
    /// # Errors
    ///
    /// Those of [`Family::get_with`].
    pub fn get_in_memory(
        &self,
        key: &[u8],
        options: &ReadOptions,
    ) -> Result<Option<Option<Value>>> {
        let found = self.found_untraced(key, options, try_get)?;
        // Otherwise the caller repeats the get.
        if found.is_some() && self.db.shared.trace.is_on() {
            self.db.shared.trace_get(self.id(), key);
        }
        found.map(Found::into_value).transpose()
    }

    /// [`Family::get_with`] as a future.
    ///
    /// # Errors
    ///
    /// Those of [`Family::get_with`].
    pub fn get_async<'a>(
        &'a self,
        key: &'a [u8],
        options: &'a ReadOptions,
    ) -> impl Future<Output = Result<Option<Value>>> + Send + use<'a> {
        self.found_async(key, options, Found::into_value)
    }

    /// [`Family::get_entity`] as a future.
    ///
    /// # Errors
    ///
    /// Those of [`Family::get_with`].
    pub fn get_entity_async<'a>(
        &'a self,
        key: &'a [u8],
        options: &'a ReadOptions,
    ) -> impl Future<Output = Result<Option<Columns>>> + Send + use<'a> {
        self.found_async(key, options, Found::into_columns)
    }
}

impl Db {
    /// [`Db::write_with`] as a future. The write is executed by another thread once the future has been polled,
    /// also if it is dropped then. Writes that are synced form groups with one sync each.
    ///
    /// # Errors
    ///
    /// Those of [`Db::write_with`].
    pub async fn write_async(&self, batch: WriteBatch, options: &WriteOptions) -> Result<()> {
        let shared = self.shared();
        shared.context.check_process()?;
        if !shared.context.world.clock.is_real() {
            return shared.write(&batch, options);
        }
        let (written, result) = promise();
        let (writer, options) = (shared.clone(), options.clone());
        let sync = options.sync;
        let write = move || written.keep(writer.write(&batch, &options));
        AwaitedWrites::start(&shared.awaited, sync, Box::new(write));
        result.await
    }
}
