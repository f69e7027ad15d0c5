//! Followers: instances with copies of the tables, which catch up periodically.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::Duration;

use cairn_db::{CatchUp, Db, Follows, OpenRequest};
use cairn_format::names::FileName;
use cairn_options::DbOptions;
use cairn_platform::sync::{Arc, Weak};
use cairn_platform::{Executor, FileSystem, Priority, World};
use cairn_types::{Error, Result};

use crate::copies::Copies;
use crate::instance::{Instance, open_instance};

/// Opens a follower in the directory `own` of the database at the path of `request`, the leader. Tables and blob
/// files of the leader are linked to or copied into `own` when they are first opened, and deleted there when they are
/// obsolete. It catches up every `follower_refresh_catchup_period_ms`; after a failure
/// `follower_catchup_retry_count` times, `follower_catchup_retry_wait_ms` apart.
///
/// # Errors
///
/// Those of [`crate::open_as_secondary`]; `InvalidArgument` if `own` has a database, whose tables would be deleted;
/// `IoError` if another follower is open there.
pub fn open_as_follower(request: &OpenRequest<'_>, own: &Path) -> Result<Db> {
    let fs = request.world.fs.clone();
    fs.create_dir_all(own)?;
    let own = fs.canonical(own)?;
    let leader = fs.canonical(request.path)?;
    // Not before the check: in the directory of the leader, the lock would be one of its files.
    check_has_no_database(&*fs, &own)?;
    let lock = fs.lock(&own.join(FileName::Lock.to_string()))?;
    let copies = Arc::new(Copies::new(fs, leader, own.clone()));
    copies.delete_temporaries()?;
    let world = World {
        fs: copies.clone(),
        ..request.world.clone()
    };
    let request = OpenRequest { world, ..*request };
    let (db, instance) = open_instance(&request, &own, Follows::Copies, Some(lock))?;
    copies.delete_others(&db)?;
    let options = db.options();
    let rounds = Rounds {
        instance: Arc::downgrade(&instance),
        executor: request.world.executor.clone(),
        options,
    };
    rounds.schedule(rounds.options.follower_refresh_catchup_period_ms, 0);
    Ok(db)
}

/// # Errors
///
/// `InvalidArgument` if `own` has a database.
fn check_has_no_database(fs: &dyn FileSystem, own: &Path) -> Result<()> {
    match fs.exists(&own.join(FileName::Current.to_string()))? {
        true => Err(Error::invalid_argument(format!(
            "{} has a database: a follower needs a directory of its own",
            own.display()
        ))),
        false => Ok(()),
    }
}

/// The periodic catch-ups of a follower.
#[derive(Clone)]
struct Rounds {
    /// Weak: a delayed job does not keep a closed database in memory.
    instance: Weak<Instance>,
    executor: Arc<dyn Executor>,
    options: Arc<DbOptions>,
}

impl Rounds {
    /// Schedules the next catch-up, after `failures` failed ones.
    fn schedule(&self, millis: u64, failures: u64) {
        let rounds = self.clone();
        let job = Box::new(move || rounds.run(failures));
        let delay = Duration::from_millis(millis);
        self.executor.spawn_at_leisure(delay, Priority::Low, job);
    }

    fn run(&self, failures: u64) {
        let Some(instance) = self.instance.upgrade() else {
            return;
        };
        // A panic of a comparator fails this catch-up only.
        let caught_up = catch_unwind(AssertUnwindSafe(|| instance.catch_up()))
            .unwrap_or_else(|_| Err(Error::panicked("a catch-up panicked")));
        if instance.gate.has_ended() {
            return;
        }
        let failures = failures + 1;
        if let Err(error) = caught_up {
            instance.log_line(&format!("catch-up attempt {failures} failed: {error}"));
            if failures < self.options.follower_catchup_retry_count {
                self.schedule(self.options.follower_catchup_retry_wait_ms, failures);
                return;
            }
        }
        self.schedule(self.options.follower_refresh_catchup_period_ms, 0);
    }
}
