//! The handles by which a program keeps a database open.

use std::sync::Arc;

use cairn_options::FamilyOptions;
use cairn_platform::Priority;

use crate::catalog::family::FamilyState;
use crate::shared::Shared;

/// The state that all handles of a database share. Dropped with the last of them, it closes the database.
pub(crate) struct Handle {
    pub(crate) shared: Arc<Shared>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.shared.context.is_forked() {
            // Kept for ever: nothing of the parent's is given up.
            std::mem::forget(self.shared.clone());
            return;
        }
        let shared = &self.shared;
        if shared.may_wait().is_err() {
            // A callback let go of the last handle. What it is called by ends before the closing does.
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
    /// Closes the database where no caller learns how that ended.
    fn close_unwatched(self: &Arc<Self>) {
        if let Err(error) = self.close() {
            // No caller is left to report to; `Db::close` reports its error.
            self.context
                .info
                .error(format_args!("closing the database failed: {error}"));
        }
    }
}

/// A column family of an open database: a keyspace of its own with options of its own, sharing
/// the WAL with the others. Cheap to clone; keeps the database open while it lives.
#[derive(Clone)]
pub struct Family {
    pub(crate) state: Arc<FamilyState>,
    pub(crate) db: Arc<Handle>,
}

impl Family {
    /// The number by which logs and MANIFEST know the family; 0 is the default family.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.state.id()
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.state.name()
    }

    /// The options in effect.
    #[must_use]
    pub fn options(&self) -> Arc<FamilyOptions> {
        Arc::clone(&self.state.options())
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
        // The last handle of a dropped family keeps its tables. It lets go of them first, by
        // standing for another family for a moment, and then they are deleted.
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
