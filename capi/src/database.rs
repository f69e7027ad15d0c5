//! The handles of databases, column families and snapshots, and the list of open databases.

use cairn_db::{Db, Family, Snapshot};
use cairn_platform::sync::Mutex;
use cairn_types::{Result, SequenceNumber};

use crate::handle::{create, destroy, maybe, of};

/// An open database.
pub struct Database {
    /// The engine's handle.
    pub db: Db,
}

/// The object of a snapshot handle.
pub enum ReadPoint {
    /// A snapshot that the program releases.
    Snapshot(Snapshot),
    /// The snapshot of a transaction; `None` if it has none. In memory that the program frees without destroying the
    /// object, which has no destructor.
    Transaction(Option<SequenceNumber>),
}

impl ReadPoint {
    /// The last sequence number that reads see; `None` for the latest.
    pub(crate) fn sequence(&self) -> Option<SequenceNumber> {
        match self {
            ReadPoint::Snapshot(snapshot) => Some(snapshot.sequence()),
            ReadPoint::Transaction(sequence) => *sequence,
        }
    }
}

/// Releases a snapshot.
///
/// # Safety
///
/// The handle is valid as `c.h` requires.
pub(crate) unsafe fn release_snapshot(snapshot: *const rocksdb_snapshot_t) {
    // SAFETY: guaranteed by the caller; the snapshot of a transaction is in memory from `malloc`.
    unsafe {
        match maybe(snapshot) {
            Some(ReadPoint::Transaction(_)) => libc::free(snapshot.cast_mut().cast()),
            _ => crate::handle::destroy(snapshot.cast_mut()),
        }
    }
}

/// The family behind `column_family`.
///
/// # Errors
///
/// `InvalidArgument` if it is a family of another database than `db`, which may be null.
///
/// # Safety
///
/// The handles are valid as `c.h` requires.
pub(crate) unsafe fn family_of<'a>(
    db: *const rocksdb_t,
    column_family: *const rocksdb_column_family_handle_t,
) -> Result<&'a Family> {
    // SAFETY: guaranteed by the caller.
    let (db, family): (Option<&Database>, &Family) = unsafe { (maybe(db), of(column_family)) };
    if let Some(db) = db {
        db.db.check_families([family])?;
    }
    Ok(family)
}

handles! {
    /// An open database.
    rocksdb_t = Database;
    /// A column family of an open database.
    rocksdb_column_family_handle_t = Family;
    /// A consistent view of the database for reads.
    rocksdb_snapshot_t = ReadPoint;
}

/// The open databases and the addresses of their handles, for listeners, which receive a
/// handle.
static OPEN: Mutex<Vec<(Db, usize)>> = Mutex::new(Vec::new());

/// Passes the handle of the database with this session to `call`. If the program has none yet, the handle exists only
/// during the call. Null if the database is not open.
pub(crate) fn with_handle_of(session_id: &str, call: impl FnOnce(*mut rocksdb_t)) {
    let known = {
        let open = OPEN.lock();
        let mut open = open.iter();
        open.find(|(db, _)| db.session_id() == session_id)
            .map(|(_, handle)| *handle as *mut rocksdb_t)
    };
    if let Some(known) = known {
        return call(known);
    }
    let Some(db) = Db::in_session(session_id) else {
        return call(std::ptr::null_mut());
    };
    let handle = create(Database { db });
    call(handle);
    // SAFETY: the handle was created above, and the program does not destroy it.
    unsafe { destroy::<rocksdb_t>(handle) };
}

/// Creates the handle of an open database.
pub(crate) fn hold(db: Db) -> *mut rocksdb_t {
    let shared = db.clone();
    let handle = create(Database { db });
    OPEN.lock().push((shared, handle as usize));
    handle
}

/// Removes `db`, whose handle is about to be destroyed, from the list of open databases.
pub(crate) fn release(db: &Db) {
    OPEN.lock().retain(|(open, _)| !open.is_same(db));
}
