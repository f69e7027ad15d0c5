//! The handles with which a program keeps a database open.

use std::path::Path;
use std::sync::Arc;

use cairn_options::FamilyOptions;
use cairn_platform::Priority;

use crate::catalog::family::FamilyState;
use crate::shared::Shared;

/// The state shared by all handles of a database. Dropping the last handle closes the database.
pub(crate) struct Handle {
    pub(crate) shared: Arc<Shared>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.shared.context.is_forked() {
            // Leaked: nothing that belongs to the parent may be released.
            std::mem::forget(self.shared.clone());
            return;
        }
        let shared = &self.shared;
        if shared.may_wait().is_err() {
            // A callback dropped the last handle. The call that runs it ends before closing does.
            let closed = shared.clone();
            let close = move || closed.close_unwatched();
            shared
                .context
                .world
                .executor
                .spawn(Priority::High, Box::new(close));
            return;
        }
        shared.close_unwatched();
    }
}

impl Shared {
    /// Closes the database when no caller receives the result, and releases its memory: the thread of a job
    /// that has just ended may hold a reference to the database for a moment longer.
    fn close_unwatched(self: &Arc<Self>) {
        if let Err(error) = self.close() {
            // There is no caller to return the error to; `Db::close` returns it.
            self.context
                .info
                .error(format_args!("closing the database failed: {error}"));
        }
        self.release_memory();
    }
}

/// A column family of an open database: a keyspace with its own options that shares the WAL with the others.
/// Cheap to clone; it keeps the database open.
#[derive(Clone)]
pub struct Family {
    pub(crate) state: Arc<FamilyState>,
    pub(crate) db: Arc<Handle>,
}

impl Family {
    /// Returns the id of the family in logs and in the MANIFEST; 0 is the default family.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.state.id()
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.state.name()
    }

    /// Returns the current options.
    #[must_use]
    pub fn options(&self) -> Arc<FamilyOptions> {
        Arc::clone(&self.state.options())
    }

    /// Returns the length in bytes of the user-defined timestamps of keys; 0 if keys have none.
    #[inline]
    #[must_use]
    pub fn timestamp_size(&self) -> usize {
        self.state.order().timestamp_size()
    }

    /// Returns the directory of the database.
    #[must_use]
    pub fn db_path(&self) -> &Path {
        &self.db.shared.context.dir
    }

    /// Writes an error to the database's LOG.
    pub fn log_error(&self, line: &str) {
        self.db
            .shared
            .context
            .info
            .error(format_args!("[{}] {line}", self.name()));
    }

    /// True if the family has been dropped. Its data stays readable through this handle.
    #[must_use]
    pub fn is_dropped(&self) -> bool {
        self.state.is_dropped()
    }
}

impl Drop for Family {
    fn drop(&mut self) {
        if !self.state.is_dropped() || self.db.shared.context.is_forked() {
            return;
        }
        // The last handle of a dropped family keeps its tables. To release them before the purge, it is
        // replaced by a handle of another family.
        let shared = self.db.shared.clone();
        if Arc::strong_count(&self.state) == 1 {
            let name = self.state.name();
            shared
                .telemetry
                .notify(|listener| listener.on_column_family_handle_deletion_started(name));
        }
        let default = shared.catalog.families().get(0).cloned();
        if let Some(default) = default {
            self.state = default;
            match shared.options().avoid_unnecessary_blocking_io {
                true => shared.purge_in_background(),
                false => shared.purge_after_reader(),
            }
        }
    }
}

impl std::fmt::Debug for Family {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Family({} {:?})", self.id(), self.name())
    }
}
