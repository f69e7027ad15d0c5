//! The handles with which a program keeps a database open.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use cairn_options::FamilyOptions;
use cairn_platform::Priority;
use cairn_platform::sync::Mutex;
use cairn_types::{Error, Result};

use crate::catalog::family::FamilyState;
use crate::db::Db;
use crate::shared::Shared;
use crate::write::batch::{Origin, WriteBatch};

/// The open databases of the process, by number.
static OPEN: Mutex<BTreeMap<u64, OpenDb>> = Mutex::new(BTreeMap::new());

/// An open database of the process.
struct OpenDb {
    dir: PathBuf,
    session_id: String,
    handle: Weak<Handle>,
}

/// The state shared by all handles of a database. Dropping the last handle closes the database.
pub(crate) struct Handle {
    pub(crate) shared: Arc<Shared>,
    /// The number of this opening: that of its context.
    pub(crate) number: u64,
}

impl Handle {
    /// Creates the first handle of an opened database.
    pub(crate) fn new(shared: Arc<Shared>) -> Arc<Handle> {
        let number = shared.context.number;
        let handle = Arc::new(Handle { shared, number });
        let context = &handle.shared.context;
        let open = OpenDb {
            dir: context.dir.clone(),
            session_id: context.session_id.clone(),
            handle: Arc::downgrade(&handle),
        };
        OPEN.lock().insert(number, open);
        handle
    }

    /// Returns the handle of the open database with this session.
    pub(crate) fn in_session(session_id: &str) -> Option<Arc<Handle>> {
        let open = OPEN.lock();
        let mut all = open.values();
        let found = all.find(|open| open.session_id == session_id)?;
        // Upgraded under the lock, but not dropped under it.
        found.handle.upgrade()
    }
}

/// The error for the use of `subject`, of the database with the number `other`, in `shared`.
#[cold]
pub(crate) fn foreign(shared: &Shared, subject: &str, other: u64) -> Error {
    let other = match OPEN.lock().get(&other) {
        Some(open) => format!("the database {}", open.dir.display()),
        None => "a database that is closed".to_owned(),
    };
    let own = shared.context.dir.display();
    Error::invalid_argument(format!("{subject} belongs to {other}, not to {own}"))
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.shared.context.is_forked() {
            // Leaked: nothing that belongs to the parent may be released.
            std::mem::forget(self.shared.clone());
            return;
        }
        OPEN.lock().remove(&self.number);
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

impl Db {
    /// Checks that each of `families` is one of this database.
    ///
    /// # Errors
    ///
    /// `InvalidArgument`, with the directories of both databases.
    #[inline]
    pub fn check_families<'f>(&self, families: impl IntoIterator<Item = &'f Family>) -> Result<()> {
        let own = self.handle.number;
        let foreign = families.into_iter().find(|family| family.db.number != own);
        foreign.map_or(Ok(()), |family| Err(family.foreign_to(self.shared())))
    }

    /// Checks that the families to which `batch` writes were those of this database when its writes were added. A batch
    /// has only their ids, with which [`Db::write_with`] writes to any database.
    ///
    /// # Errors
    ///
    /// `InvalidArgument`, with the directories of both databases.
    #[inline]
    pub fn check_batch(&self, batch: &WriteBatch) -> Result<()> {
        let Origin { first, other } = batch.origin();
        let other = [first, other]
            .into_iter()
            .find(|number| *number != 0 && *number != self.handle.number);
        other.map_or(Ok(()), |number| {
            let subject = "a column family of the batch";
            Err(foreign(self.shared(), subject, number))
        })
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
    /// The error for the use of the family in another database.
    #[cold]
    pub(crate) fn foreign_to(&self, shared: &Shared) -> Error {
        let subject = format!("column family {:?}", self.name());
        foreign(shared, &subject, self.db.number)
    }

    /// Returns the default family of the same database.
    #[must_use]
    pub fn default_family(&self) -> Family {
        // The default family is never dropped.
        let state = self.db.shared.catalog.default_family();
        Family {
            state: state.unwrap_or(&self.state).clone(),
            db: self.db.clone(),
        }
    }

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

    /// A number of the open database that is unique among openings while a handle of this one exists.
    #[must_use]
    pub fn opening(&self) -> usize {
        Arc::as_ptr(&self.db) as usize
    }

    /// Returns the directory of the database.
    #[must_use]
    pub fn db_path(&self) -> &Path {
        &self.db.shared.context.dir
    }

    /// Checks that the family takes writes, and not only ingested files.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` with `disallow_memtable_writes`.
    #[inline]
    pub fn check_takes_writes(&self) -> Result<()> {
        self.state.check_takes_writes()
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
