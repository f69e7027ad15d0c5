//! The SST file manager: limits on the space taken by tables and blob files, and on the rate of their
//! deletion.
//!
//! Databases that share an [`SstFileManager`] report the files they create and delete. Once a space limit is
//! reached, the databases stop writes, and start no compaction that would exceed it. With a deletion rate,
//! obsolete files are renamed to `NAME.trash` and deleted one at a time, each followed by a pause according
//! to its length. Trash that remains when the manager is dropped is deleted when its database is next opened.
//!
//! The lock is a leaf, held for bookkeeping only. A file costs one map entry.
//!
//! ```
//! use std::sync::Arc;
//! use cairn_platform::SstFileManager;
//!
//! // Set as `DbOptions::sst_file_manager` of each database.
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

/// The suffix of files that await deletion.
pub const TRASH_SUFFIX: &str = ".trash";

/// The fraction of trash above which files are deleted immediately.
const DEFAULT_MAX_TRASH_DB_RATIO: f64 = 0.25;

/// Tracks the space taken by databases. Shared by `Arc` as their `DbOptions::sst_file_manager`.
pub struct SstFileManager {
    state: Mutex<State>,
}

struct State {
    /// File lengths by database.
    files: HashMap<u64, HashMap<PathBuf, u64>>,
    /// The total length.
    live_bytes: u64,
    next_database: u64,
    /// Bytes reserved for running compactions.
    reserved: u64,
    /// The limit; 0 for none.
    max_allowed: u64,
    compaction_buffer: u64,
    /// Bytes per second; 0 or less to delete immediately.
    delete_rate: i64,
    max_trash_db_ratio: f64,
    trash: VecDeque<Trash>,
    trash_bytes: u64,
    /// True if a job that deletes trash is scheduled or running.
    empties: bool,
}

/// A file that awaits deletion.
struct Trash {
    path: PathBuf,
    bytes: u64,
    world: World,
    /// Called after the deletion.
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
    /// Creates a manager without a limit that deletes files immediately.
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

    /// Sets the limit for the total size of all files; 0 for none. Databases that reach it stop writes until
    /// space is available again.
    pub fn set_max_allowed_space_usage(&self, bytes: u64) {
        self.state.lock().max_allowed = bytes;
    }

    /// Sets the number of bytes below the limit that compactions leave free for WALs and flushes.
    pub fn set_compaction_buffer_size(&self, bytes: u64) {
        self.state.lock().compaction_buffer = bytes;
    }

    /// True if the total size has reached the limit.
    #[must_use]
    pub fn is_max_allowed_space_reached(&self) -> bool {
        let state = self.state.lock();
        state.max_allowed > 0 && state.total() >= state.max_allowed
    }

    /// True if the total size and the output of running compactions may reach the limit.
    #[must_use]
    pub fn is_max_allowed_space_reached_including_compactions(&self) -> bool {
        let state = self.state.lock();
        state.max_allowed > 0 && state.total() + state.reserved >= state.max_allowed
    }

    /// The tracked tables and blob files with their lengths, without trash.
    #[must_use]
    pub fn tracked_files(&self) -> Vec<(PathBuf, u64)> {
        let state = self.state.lock();
        let files = state.files.values().flatten();
        files.map(|(path, bytes)| (path.clone(), *bytes)).collect()
    }

    /// The total size of all tables and blob files, including trash.
    #[must_use]
    pub fn total_size(&self) -> u64 {
        self.state.lock().total()
    }

    /// The total size of the trash.
    #[must_use]
    pub fn total_trash_size(&self) -> u64 {
        self.state.lock().trash_bytes
    }

    /// The deletion rate in bytes per second; 0 or less if files are deleted immediately.
    #[must_use]
    pub fn delete_rate_bytes_per_second(&self) -> i64 {
        self.state.lock().delete_rate
    }

    /// Changes the deletion rate.
    pub fn set_delete_rate_bytes_per_second(&self, rate: i64) {
        self.state.lock().delete_rate = rate;
    }

    /// The maximum fraction of trash. Files beyond it are deleted immediately.
    #[must_use]
    pub fn max_trash_db_ratio(&self) -> f64 {
        self.state.lock().max_trash_db_ratio
    }

    /// Changes the maximum fraction of trash.
    pub fn set_max_trash_db_ratio(&self, ratio: f64) {
        self.state.lock().max_trash_db_ratio = ratio;
    }

    /// Deletes the oldest trash, and reschedules itself after the pause for it.
    fn empty_trash(self: Arc<Self>, mut turn: Turn) {
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
                    turn.0 = None;
                    return;
                }
            }
        };
        // A file that cannot be deleted is left to the next opening: it wastes space, but does no damage.
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
        turn.pass_on(&world, pause);
    }
}

/// The right of one job at a time to empty the trash.
struct Turn(Option<Weak<SstFileManager>>);

impl Turn {
    /// Starts a job on the executor of `world` after a pause.
    fn pass_on(self, world: &World, pause: Duration) {
        let job = Box::new(move || {
            // Weak, so that a pause does not keep an unused manager alive.
            let manager = self.0.as_ref().and_then(Weak::upgrade);
            if let Some(manager) = manager {
                manager.empty_trash(self);
            }
        });
        match pause.is_zero() {
            true => world.executor.spawn(Priority::High, job),
            false => world.executor.spawn_after(pause, Priority::High, job),
        }
    }
}

impl Drop for Turn {
    /// The executor has dropped the job: the next file that is discarded starts another.
    fn drop(&mut self) {
        let manager = self.0.take().as_ref().and_then(Weak::upgrade);
        if let Some(manager) = manager {
            manager.state.lock().empties = false;
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

/// Deletes a file. A missing file is not an error.
fn remove(fs: &dyn FileSystem, path: &Path) -> Result<()> {
    match fs.remove(path) {
        Err(error) if error.subcode() == Subcode::PathNotFound => Ok(()),
        result => result,
    }
}

/// The tracked files of one database. Dropping it stops tracking them, but not the trash.
pub struct TrackedFiles {
    manager: Arc<SstFileManager>,
    database: u64,
}

impl TrackedFiles {
    /// Registers a database without files.
    #[must_use]
    pub fn new(manager: Arc<SstFileManager>) -> TrackedFiles {
        let database = {
            let mut state = manager.state.lock();
            state.next_database += 1;
            state.next_database
        };
        TrackedFiles { manager, database }
    }

    /// The manager.
    #[must_use]
    pub fn manager(&self) -> &SstFileManager {
        &self.manager
    }

    /// Tracks the file `path`.
    pub fn add(&self, path: PathBuf, bytes: u64) {
        let mut state = self.manager.state.lock();
        let files = state.files.entry(self.database).or_default();
        let before = files.insert(path, bytes).unwrap_or(0);
        state.live_bytes = state.live_bytes + bytes - before;
    }

    /// Stops tracking the deleted file `path`.
    pub fn deleted(&self, path: &Path) {
        self.manager.state.lock().remove(self.database, path);
    }

    /// Stops tracking all files, when the database is closed.
    pub fn forget(&self) {
        let mut state = self.manager.state.lock();
        let files = state.files.remove(&self.database).unwrap_or_default();
        state.live_bytes -= files.values().sum::<u64>();
    }

    /// Turns the obsolete file `path` into trash. Returns false if the caller must delete it immediately.
    /// `deleted` is called after the deletion.
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
            let turn = Turn(Some(Arc::downgrade(&self.manager)));
            turn.pass_on(world, Duration::ZERO);
        }
        true
    }

    /// Reserves `bytes` for a compaction. Returns `None` if they exceed the limit.
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

/// A reservation for a compaction, released when dropped.
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
    fn files_are_tracked_once_per_database() {
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
        assert_eq!(
            manager.tracked_files(),
            [(PathBuf::from("/db/000001.sst"), 50)]
        );
        drop(two);
        assert_eq!(manager.total_size(), 0);
    }

    #[test]
    fn compactions_reserve_space_within_the_limit() {
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

    /// Regression: a job that its executor dropped, with the last database that used the executor, was never replaced.
    #[test]
    fn trash_is_emptied_after_an_executor_has_dropped_its_job() {
        let manager = Arc::new(SstFileManager::new());
        manager.set_delete_rate_bytes_per_second(1 << 20);
        manager.set_max_trash_db_ratio(10.0);
        let memory = World::in_memory();
        // The pause after the first one is an hour.
        for (name, bytes) in [("/a.sst", 3600 << 20), ("/b.sst", 1)] {
            let world = World {
                executor: Arc::new(crate::thread_pool::ThreadPool::new()),
                ..memory.clone()
            };
            let path = Path::new(name);
            let created = world.fs.create(path, Default::default());
            created.and_then(|file| file.close()).expect("a file");
            let files = TrackedFiles::new(manager.clone());
            files.add(path.to_owned(), bytes);
            assert!(files.discard(&world, path, || {}));
            for _ in 0..2000 {
                if manager.total_trash_size() == 0 {
                    break;
                }
                world.clock.sleep(Duration::from_millis(5));
            }
            assert_eq!(manager.total_trash_size(), 0, "{name}");
        }
    }
}
