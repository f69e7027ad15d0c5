//! A soak cycle: open, work, inject faults, compare with the models, and close.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use cairn::{Code, Db, Options, World};

use crate::Arguments;
use crate::faults::{Faults, FaultyFileSystem, MODES};
use crate::options::{database_options, descriptors};
use crate::resources;
use crate::shared::Shared;
use crate::worker::{Trouble, Worker, families};

/// Time after which a database that does not resume is reopened.
const RESUME_LIMIT: Duration = Duration::from_secs(30);

/// The database under test and its workers.
pub struct Soak {
    path: PathBuf,
    world: World,
    faults: Arc<Faults>,
    shared: Arc<Shared>,
    workers: Vec<Worker>,
    /// Cycles started.
    pub cycles: usize,
    /// Number of reopens because a database did not resume.
    pub reopened: u64,
}

impl Soak {
    /// Creates a new database in the empty directory `folder`.
    pub fn new(folder: &Path, arguments: &Arguments, shared: Arc<Shared>) -> Soak {
        let faults = Arc::new(Faults::default());
        Soak {
            path: folder.join("db"),
            world: World {
                fs: Arc::new(FaultyFileSystem::new(Arc::clone(&faults))),
                ..World::posix()
            },
            faults,
            shared,
            workers: (0..arguments.workers)
                .map(|id| Worker::new(id, arguments.seed, folder).paced(arguments.interval()))
                .collect(),
            cycles: 0,
            reopened: 0,
        }
    }

    /// Runs a cycle of about `length`.
    ///
    /// # Errors
    ///
    /// The failure.
    pub fn cycle(&mut self, length: Duration) -> Result<(), String> {
        let number = self.cycles;
        self.cycles += 1;
        let before = resources::descriptors()?;
        let options = database_options(number)?;
        if number % 3 == 2 {
            self.read_only(&options)?;
        }
        let db = self.open(&options, false)?;
        self.check(&db, "after opening")?;
        drop_leftovers(&db)?;
        let resumed = self.work(&db, length, number % MODES.len())?;
        if resumed {
            self.settle(&db)?;
            if let Some(damaged) = db.damaged_tables().first() {
                return Err(format!("a table is called damaged: {damaged:?}"));
            }
        }
        self.check(&db, "before closing")?;
        match (db.close(), resumed) {
            (Err(error), true) => return Err(format!("close: {error}")),
            (_, false) => self.reopened += 1,
            _ => {}
        }
        self.check_descriptors(before)
    }

    fn open(&self, options: &Options, read_only: bool) -> Result<Db, String> {
        Db::builder(&self.path)
            .options(options.clone())
            .families(descriptors())
            .world(self.world.clone())
            .read_only(read_only)
            .open()
            .map_err(|error| format!("open: {error}"))
    }

    fn read_only(&self, options: &Options) -> Result<(), String> {
        let db = self.open(options, true)?;
        self.check(&db, "opened for reading only")?;
        db.close().map_err(|error| format!("close: {error}"))
    }

    /// Runs the workers, with the faults of `mode` in the middle. Returns false if the database did not
    /// resume.
    fn work(&mut self, db: &Db, length: Duration, mode: usize) -> Result<bool, String> {
        let (shared, faults) = (&self.shared, &self.faults);
        shared.set_stop(false);
        std::thread::scope(|scope| {
            let mut threads = Vec::new();
            for worker in &mut self.workers {
                threads.push(scope.spawn(|| {
                    let done = worker.run(db, shared);
                    if done.is_err() {
                        shared.set_stop(true);
                    }
                    done
                }));
            }
            pause(shared, length.mul_f64(0.4));
            let mut resumed = true;
            if mode > 0 {
                shared.set_disturbed(true);
                faults.set(mode);
                pause(shared, length.mul_f64(0.1));
                faults.set(0);
                resumed = resume(db);
                if resumed {
                    // Jobs that met a late fault report it within this time.
                    pause(shared, Duration::from_millis(500));
                    resumed = resume(db);
                }
                shared.set_disturbed(!resumed);
            }
            if resumed {
                pause(shared, length.mul_f64(0.4));
            }
            shared.set_stop(true);
            for thread in threads {
                let joined = thread.join();
                joined.map_err(|_| "a worker panicked".to_owned())??;
            }
            shared.set_disturbed(false);
            Ok(resumed)
        })
    }

    /// Resolves keys in doubt, once the database accepts writes again.
    fn settle(&mut self, db: &Db) -> Result<(), String> {
        let families = families(db)?;
        for worker in &mut self.workers {
            if !worker.model.doubt.is_empty() {
                worker.settle(db, &families).map_err(text)?;
            }
        }
        Ok(())
    }

    fn check(&self, db: &Db, moment: &str) -> Result<(), String> {
        for worker in &self.workers {
            worker.check_rows(db, moment).map_err(text)?;
        }
        Ok(())
    }

    /// Checks that all files of the database are closed, once background threads have released them.
    fn check_descriptors(&self, before: u64) -> Result<(), String> {
        let begun = Instant::now();
        loop {
            let now = resources::descriptors()?;
            if now <= before {
                return Ok(());
            }
            if begun.elapsed() > Duration::from_secs(20) {
                return Err(format!(
                    "{now} descriptors are open after close, {before} were before open: {:?}",
                    open_files(&self.path)
                ));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Returns a summary line.
    pub fn summary(&self) -> String {
        let operations: u64 = self.workers.iter().map(|worker| worker.operations).sum();
        format!(
            "{} cycles, {operations} operations, {} calls failed, {} times opened again to leave an error",
            self.cycles,
            self.faults.failed(),
            self.reopened
        )
    }
}

fn text(trouble: Trouble) -> String {
    match trouble {
        Trouble::Error(error) => error.to_string(),
        Trouble::Wrong(what) => what,
    }
}

/// Waits for `length`, or until the workers stop.
fn pause(shared: &Shared, length: Duration) {
    let begun = Instant::now();
    while begun.elapsed() < length && !shared.stops() {
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until the database has resumed, automatically or by request. Returns false if it does not.
fn resume(db: &Db) -> bool {
    let begun = Instant::now();
    while db.background_error().is_some() {
        let refused = match db.resume() {
            Ok(()) => false,
            Err(error) => error.code() != Code::Busy,
        };
        if begun.elapsed() > RESUME_LIMIT {
            return false;
        }
        if refused {
            std::thread::sleep(Duration::from_millis(200));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    true
}

/// Drops families left by operations that failed.
fn drop_leftovers(db: &Db) -> Result<(), String> {
    for family in db.families() {
        if family.name().starts_with('t') {
            let dropped = db.drop_family(&family);
            dropped.map_err(|error| format!("drop {}: {error}", family.name()))?;
        }
    }
    Ok(())
}

/// Returns the open files of this process below `path`.
fn open_files(path: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir("/proc/self/fd").into_iter().flatten();
    let links = entries
        .flatten()
        .map(|entry| std::fs::read_link(entry.path()));
    let mut open: Vec<PathBuf> = links.flatten().filter(|f| f.starts_with(path)).collect();
    open.sort();
    open
}
