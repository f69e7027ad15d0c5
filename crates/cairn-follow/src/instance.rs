//! An instance that follows a primary: the steps of a catch-up.

use std::collections::BTreeMap;
use std::path::Path;

use cairn_db::{CatchUp, Db, FollowRequest, Follows, Intake, OpenRequest, open_following};
use cairn_format::log::RecoveryMode;
use cairn_options::WalRecoveryMode;
use cairn_platform::fs::FileLock;
use cairn_platform::sync::{Arc, Mutex};
use cairn_types::{Error, KeyOrder, Result, Subcode};
use cairn_version::manifest::{News, Tail};

use crate::gate::Gate;
use crate::logs::{Half, Logs};

/// The number of times that a catch-up starts over because the primary has deleted files.
const TRIES: u32 = 100;

/// The source of a database that follows another one.
pub(crate) struct Instance {
    pub(crate) gate: Gate,
    position: Mutex<Position>,
}

/// The position in the files of the primary.
struct Position {
    tail: Tail,
    logs: Logs,
    intake: Intake,
    orders: BTreeMap<String, KeyOrder>,
    /// True if the MANIFEST was read further than the state that was prepared last.
    is_ahead: bool,
    /// True if the logs have to be read from their beginning.
    is_half: bool,
    /// True if another MANIFEST or log took the place of the one that was read: blob files may be others with the same
    /// numbers.
    is_replaced: bool,
}

/// Opens a secondary instance of the database at the path of `request`, with a LOG in the directory `secondary`,
/// which is created if it is missing. Families that are not in the request, and those that the primary creates later,
/// are ignored.
///
/// # Errors
///
/// `InvalidArgument` for a missing family, or if `secondary` is the directory of the primary; `IoError`, also without
/// a database; `Corruption` with file and offset.
pub fn open_as_secondary(request: &OpenRequest<'_>, secondary: &Path) -> Result<Db> {
    open_instance(request, secondary, Follows::InPlace, None).map(|(db, _)| db)
}

/// Opens an instance, which holds `lock` until it is closed, and catches up for the first time.
pub(crate) fn open_instance(
    request: &OpenRequest<'_>,
    own: &Path,
    follows: Follows,
    lock: Option<Box<dyn FileLock>>,
) -> Result<(Db, Arc<Instance>)> {
    let follow = FollowRequest {
        open: OpenRequest {
            world: request.world.clone(),
            ..*request
        },
        dir: own,
        follows,
    };
    let fs = request.world.fs.clone();
    let mut tail = Tail::open(fs.clone(), request.path)?;
    let recovered = tail.state(&|family, recorded| follow.order_of(family, recorded))?;
    let (db, intake) = open_following(&follow, lock, &recovered)?;
    let orders = db.families().into_iter().map(|family| {
        let order = family.options().comparator.clone();
        (family.name().to_owned(), order)
    });
    let options = db.options();
    let dir = options.wal_dir_of(request.path);
    let instance = Arc::new(Instance {
        gate: Gate::default(),
        position: Mutex::new(Position {
            tail,
            logs: Logs::new(fs, dir.to_owned(), mode(options.wal_recovery_mode)),
            intake,
            orders: orders.collect(),
            is_ahead: true,
            is_half: true,
            is_replaced: false,
        }),
    });
    db.set_leader(instance.clone());
    instance.catch_up()?;
    Ok((db, instance))
}

fn mode(option: WalRecoveryMode) -> RecoveryMode {
    match option {
        WalRecoveryMode::TolerateCorruptedTailRecords => RecoveryMode::TolerateCorruptedTailRecords,
        WalRecoveryMode::AbsoluteConsistency => RecoveryMode::AbsoluteConsistency,
        WalRecoveryMode::PointInTimeRecovery => RecoveryMode::PointInTimeRecovery,
        WalRecoveryMode::SkipAnyCorruptedRecords => RecoveryMode::SkipAnyCorruptedRecords,
    }
}

impl Instance {
    /// Writes a line to the LOG.
    pub(crate) fn log_line(&self, line: &str) {
        let write = self.position.lock().intake.line_writer();
        // Without the lock: a sink may catch up.
        write(line);
    }
}

impl CatchUp for Instance {
    fn catch_up(&self) -> Result<()> {
        self.gate.pass(|| self.position.lock().catch_up(&self.gate))
    }

    fn end(&self) {
        self.gate.end();
    }
}

impl Position {
    fn catch_up(&mut self, gate: &Gate) -> Result<()> {
        let mut vanished = None;
        for _ in 0..TRIES {
            if gate.has_ended() {
                return Err(Error::shutdown("the database is being closed"));
            }
            self.advance()?;
            match self.take() {
                Ok(true) => return self.intake.publish(),
                Ok(false) => {}
                // A table of the MANIFEST was deleted: the MANIFEST has grown.
                Err(error) if error.subcode() == Subcode::PathNotFound => vanished = Some(error),
                Err(error) => return Err(error),
            }
        }
        Err(vanished.unwrap_or_else(|| {
            Error::try_again("the primary deletes logs faster than they can be read")
        }))
    }

    /// Reads the end of the MANIFEST.
    fn advance(&mut self) -> Result<()> {
        let news = self.tail.advance();
        self.is_ahead |= !matches!(news, Ok(News::None));
        self.is_half |= !matches!(news, Ok(News::None | News::Edits));
        self.is_replaced |= matches!(news, Ok(News::Replaced));
        news.map(drop)
    }

    /// Records that the logs are not those that were read, and have to be read from their beginning.
    fn note_replaced(&mut self) {
        self.is_half = true;
        self.is_replaced = true;
    }

    /// Takes the state of the MANIFEST and the ends of the logs. Returns true if they belong together.
    fn take(&mut self) -> Result<bool> {
        if !self.is_half && self.logs.are_replaced()? {
            self.note_replaced();
        }
        if self.is_half {
            self.logs.begin_anew();
            self.intake.begin_anew();
            if self.is_replaced {
                self.intake.renew_blobs()?;
                self.is_replaced = false;
            }
            self.is_ahead = true;
            self.is_half = false;
        }
        let first = self.tail.first_log();
        if self.is_ahead {
            let orders = &self.orders;
            let recovered = self.tail.state(&|family, recorded| {
                let order = orders.get(family);
                Ok(order.filter(|order| order.name() == recorded).cloned())
            });
            let recovered = recovered.inspect_err(|_| self.is_half = true)?;
            if self.intake.has_later_entries(&recovered) {
                self.note_replaced();
                return Ok(false);
            }
            self.intake.prepare(&recovered)?;
            self.is_ahead = false;
        }
        // A panic of a comparator leaves a part of a record that was already read.
        self.is_half = true;
        let read = self.logs.read(first, &mut self.intake);
        self.is_half = matches!(read, Ok(Err(_)));
        read?.map_err(|Half(error)| error)?;
        self.advance()?;
        Ok(!self.is_half && self.tail.first_log() == first)
    }
}
