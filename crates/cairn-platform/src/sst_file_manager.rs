//! How much room the tables and blob files of databases take, and how fast they are deleted.
//!
//! Databases that share an [`SstFileManager`] tell it what files they gain and lose. With a limit,
//! a database that finds it reached stops writing, and starts no compaction that would pass it.
//! With a deletion rate, files that are needed no more are renamed to `NAME.trash` and deleted one
//! by one, each followed by a pause as long as its length takes at that rate. Trash that is left
//! when the manager goes is deleted by the next opening of its database.
//!
//! The one lock is a leaf: nothing is done under it but counting. A file costs one entry of a map.
//!
//! ```
//! use std::sync::Arc;
//! use cairn_platform::SstFileManager;
//!
//! // Put into `DbOptions::sst_file_manager` of each database.
//! let manager = Arc::new(SstFileManager::new());
//! manager.set_max_allowed_space_usage(100 << 30);
//! manager.set_delete_rate_bytes_per_second(64 << 20);
//! assert!(!manager.is_max_allowed_space_reached());
//! ```

use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::time::Duration;

use cairn_types::{Result, Subcode};

use crate::executor::Priority;
use crate::fs::FileSystem;
use crate::sync::{Arc, Mutex, Weak};
use crate::world::World;

/// What is put behind the name of a file that waits for its deletion.
pub const TRASH_SUFFIX: &str = ".trash";

/// The share of trash above which files are deleted at once.
const DEFAULT_MAX_TRASH_DB_RATIO: f64 = 0.25;

/// Watches the room that databases take. Share it by `Arc` between them, as
/// `DbOptions::sst_file_manager`.
pub struct SstFileManager {
    state: Mutex<State>,
}

struct State {
    /// Lengths of files, by database.
    files: HashMap<u64, HashMap<PathBuf, u64>>,
    /// Bytes of all of them.
    live_bytes: u64,
    next_database: u64,
    /// Bytes that running compactions may write.
    reserved: u64,
    /// 0 for no limit.
    max_allowed: u64,
    compaction_buffer: u64,
    /// Bytes a second; 0 or less to delete at once.
    delete_rate: i64,
    max_trash_db_ratio: f64,
    trash: VecDeque<Trash>,
    trash_bytes: u64,
    /// A job deletes trash, or waits to.
    empties: bool,
}

/// A file that waits for its deletion.
struct Trash {
    path: PathBuf,
    bytes: u64,
    world: World,
    /// Called once it is deleted.
    deleted: Box<dyn FnOnce() + Send>,
}

impl State {
    fn total(&self) -> u64 {
        self.live_bytes + self.trash_bytes
    }

    fn remove(&mut self, database: u64, path: &Path) -> Option<u64> {
        let bytes = self.files.get_mut(&database)?.remove(path)?;
        self.live_bytes -= bytes;
        Some(bytes)
    }
}

impl Default for SstFileManager {
    fn default() -> SstFileManager {
        SstFileManager::new()
    }
}

impl SstFileManager {
    /// A manager without a limit that deletes files at once.
    #[must_use]
    pub fn new() -> SstFileManager {
        SstFileManager {
            state: Mutex::new(State {
                files: HashMap::new(),
                live_bytes: 0,
                next_database: 0,
                reserved: 0,
                max_allowed: 0,
                compaction_buffer: 0,
                delete_rate: 0,
                max_trash_db_ratio: DEFAULT_MAX_TRASH_DB_RATIO,
                trash: VecDeque::new(),
                trash_bytes: 0,
                empties: false,
            }),
        }
    }

    /// Sets the bytes that all files together may take; 0 for no limit. Databases that have reached
    /// it stop writing, and go on by themselves when there is room again.
    pub fn set_max_allowed_space_usage(&self, bytes: u64) {
        self.state.lock().max_allowed = bytes;
    }

    /// Sets the bytes that compactions leave free below the limit, for logs and flushes.
    pub fn set_compaction_buffer_size(&self, bytes: u64) {
        self.state.lock().compaction_buffer = bytes;
    }

    /// True if the files have reached the limit.
    #[must_use]
    pub fn is_max_allowed_space_reached(&self) -> bool {
        let state = self.state.lock();
        state.max_allowed > 0 && state.total() >= state.max_allowed
    }

    /// True if they have with what running compactions may write.
    #[must_use]
    pub fn is_max_allowed_space_reached_including_compactions(&self) -> bool {
        let state = self.state.lock();
        state.max_allowed > 0 && state.total() + state.reserved >= state.max_allowed
    }

    /// Bytes of all tables and blob files, those that wait for their deletion included.
    #[must_use]
    pub fn total_size(&self) -> u64 {
        self.state.lock().total()
    }

    /// Bytes of those that wait for their deletion.
    #[must_use]
    pub fn total_trash_size(&self) -> u64 {
        self.state.lock().trash_bytes
    }

    /// How many bytes are deleted a second; 0 or less if files are deleted at once.
    #[must_use]
    pub fn delete_rate_bytes_per_second(&self) -> i64 {
        self.state.lock().delete_rate
    }

    /// Changes how many bytes are deleted a second.
    pub fn set_delete_rate_bytes_per_second(&self, rate: i64) {
        self.state.lock().delete_rate = rate;
    }

    /// The share of all bytes that may wait for deletion; more is deleted at once.
    #[must_use]
    pub fn max_trash_db_ratio(&self) -> f64 {
        self.state.lock().max_trash_db_ratio
    }

    /// Changes that share.
    pub fn set_max_trash_db_ratio(&self, ratio: f64) {
        self.state.lock().max_trash_db_ratio = ratio;
    }

    /// Deletes the file that has waited longest, and comes again after the pause it is worth.
    fn empty_trash(self: Arc<Self>) {
        let Trash {
            path,
            bytes,
            world,
            deleted,
        } = {
            let mut state = self.state.lock();
            match state.trash.pop_front() {
                Some(trash) => trash,
                None => {
                    state.empties = false;
                    return;
                }
            }
        };
        // One that cannot be deleted is left to the next opening: it is dead weight, not damage.
        if remove(&*world.fs, &path).is_ok() {
            deleted();
        }
        let rate = {
            let mut state = self.state.lock();
            state.trash_bytes -= bytes;
            u64::try_from(state.delete_rate).unwrap_or(0)
        };
        let pause = match rate {
            0 => Duration::ZERO,
            rate => {
                Duration::from_secs(bytes / rate)
                    + Duration::from_secs_f64((bytes % rate) as f64 / rate as f64)
            }
        };
        self.empty_trash_after(&world, pause);
    }

    fn empty_trash_after(self: &Arc<Self>, world: &World, pause: Duration) {
        // Weak: a pause keeps no manager in memory that nobody uses any more.
        let weak: Weak<Self> = Arc::downgrade(self);
        let job = Box::new(move || {
            if let Some(manager) = weak.upgrade() {
                manager.empty_trash();
            }
        });
        match pause.is_zero() {
            true => world.executor.spawn(Priority::High, job),
            false => world.executor.spawn_after(pause, Priority::High, job),
        }
    }
}

impl std::fmt::Debug for SstFileManager {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = self.state.lock();
        write!(
            f,
            "SstFileManager({} bytes, {} of trash, limit {})",
            state.total(),
            state.trash_bytes,
            state.max_allowed
        )
    }
}

/// Removes a file; one that is gone already is no error.
fn remove(fs: &dyn FileSystem, path: &Path) -> Result<()> {
    match fs.remove(path) {
        Err(error) if error.subcode() == Subcode::PathNotFound => Ok(()),
        result => result,
    }
}

/// The files of one database, as its manager knows them. Dropping it forgets them, but not trash.
pub struct TrackedFiles {
    manager: Arc<SstFileManager>,
    database: u64,
}

impl TrackedFiles {
    /// A database without files.
    #[must_use]
    pub fn new(manager: Arc<SstFileManager>) -> TrackedFiles {
        let database = {
            let mut state = manager.state.lock();
            state.next_database += 1;
            state.next_database
        };
        TrackedFiles { manager, database }
    }

    /// Who is told.
    #[must_use]
    pub fn manager(&self) -> &SstFileManager {
        &self.manager
    }

    /// The database has the file `path`.
    pub fn add(&self, path: PathBuf, bytes: u64) {
        let mut state = self.manager.state.lock();
        let files = state.files.entry(self.database).or_default();
        let before = files.insert(path, bytes).unwrap_or(0);
        state.live_bytes = state.live_bytes + bytes - before;
    }

    /// The file `path` was deleted.
    pub fn deleted(&self, path: &Path) {
        self.manager.state.lock().remove(self.database, path);
    }

    /// Forgets all files: the database is closed.
    pub fn forget(&self) {
        let mut state = self.manager.state.lock();
        let files = state.files.remove(&self.database).unwrap_or_default();
        state.live_bytes -= files.values().sum::<u64>();
    }

    /// Makes trash of the file `path`, which is needed no more; whether it did. If not, it is to be
    /// deleted at once. `deleted` is called when the trash is gone.
    #[must_use]
    pub fn discard(
        &self,
        world: &World,
        path: &Path,
        deleted: impl FnOnce() + Send + 'static,
    ) -> bool {
        let bytes = {
            let state = self.manager.state.lock();
            let most = state.total() as f64 * state.max_trash_db_ratio;
            let files = state.files.get(&self.database);
            match files.and_then(|files| files.get(path)) {
                Some(bytes) if state.delete_rate > 0 && state.trash_bytes as f64 <= most => *bytes,
                _ => return false,
            }
        };
        let mut name = path.as_os_str().to_owned();
        name.push(TRASH_SUFFIX);
        let trash = PathBuf::from(name);
        if world.fs.rename(path, &trash).is_err() {
            return false;
        }
        let starts = {
            let mut state = self.manager.state.lock();
            state.remove(self.database, path);
            state.trash_bytes += bytes;
            state.trash.push_back(Trash {
                path: trash,
                bytes,
                world: world.clone(),
                deleted: Box::new(deleted),
            });
            !std::mem::replace(&mut state.empties, true)
        };
        if starts {
            self.manager.empty_trash_after(world, Duration::ZERO);
        }
        true
    }

    /// Sets `bytes` aside for a compaction; `None` if there is no room for them.
    #[must_use]
    pub fn reserve(&self, bytes: u64) -> Option<Reservation> {
        let mut state = self.manager.state.lock();
        let needed = (state.total())
            .saturating_add(state.reserved)
            .saturating_add(bytes)
            .saturating_add(state.compaction_buffer);
        if state.max_allowed > 0 && needed > state.max_allowed {
            return None;
        }
        state.reserved += bytes;
        let manager = self.manager.clone();
        Some(Reservation { manager, bytes })
    }
}

impl Drop for TrackedFiles {
    fn drop(&mut self) {
        self.forget();
    }
}

/// Room that a compaction was given; given back when dropped.
pub struct Reservation {
    manager: Arc<SstFileManager>,
    bytes: u64,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.manager.state.lock().reserved -= self.bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_count_once_and_go_with_their_database() {
        let manager = Arc::new(SstFileManager::new());
        let one = TrackedFiles::new(manager.clone());
        let two = TrackedFiles::new(manager.clone());
        one.add("/db/000001.sst".into(), 100);
        one.add("/db/000001.sst".into(), 100);
        two.add("/db/000001.sst".into(), 50);
        assert_eq!(manager.total_size(), 150);
        one.deleted(Path::new("/db/000001.sst"));
        one.deleted(Path::new("/db/000002.log"));
        assert_eq!(manager.total_size(), 50);
        drop(two);
        assert_eq!(manager.total_size(), 0);
    }

    #[test]
    fn compactions_get_what_the_limit_leaves() {
        let manager = Arc::new(SstFileManager::new());
        let files = TrackedFiles::new(manager.clone());
        files.add("/db/000001.sst".into(), 100);
        manager.set_max_allowed_space_usage(200);
        manager.set_compaction_buffer_size(20);
        assert!(files.reserve(81).is_none());
        let room = files.reserve(80);
        assert!(room.is_some() && files.reserve(1).is_none());
        assert!(!manager.is_max_allowed_space_reached_including_compactions());
        files.add("/db/000002.sst".into(), 20);
        assert!(manager.is_max_allowed_space_reached_including_compactions());
        assert!(!manager.is_max_allowed_space_reached());
        drop(room);
        assert!(!manager.is_max_allowed_space_reached_including_compactions());
        manager.set_max_allowed_space_usage(120);
        assert!(manager.is_max_allowed_space_reached());
    }
}
