//! Opening a database: from a directory to a [`Db`].
//!
//! ```text
//! lock -> CURRENT -> MANIFEST -> families and their versions -> WALs replayed into memtables
//!      -> memtables flushed -> a new MANIFEST with all of it -> a new WAL -> OPTIONS -> clean-up
//! ```
//!
//! Nothing is changed before the new MANIFEST is in place, which takes one rename: an interrupted opening
//! leaves the old state, or the new one. (`reuse_manifest` handles the case without a new MANIFEST.) Tables
//! are opened when they are first read.

mod best_effort;
pub(crate) mod dropped_records;
mod early_writes;
mod files;
mod log_replay;
pub(crate) mod logged_blobs;
mod read_only;
pub(crate) mod recovery_info;
pub(crate) mod replay;
pub(crate) mod secondary;
mod wals;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cairn_format::batch::PreparePolicy;
use cairn_format::names::FileName;
use cairn_observe::threads::{Operation, Tracker};
use cairn_observe::{Level, LogOptions, Logger};
use cairn_options::enums::IoMode;
use cairn_options::{DbOptions, FamilyOptions, InfoLogLevel};
use cairn_platform::sync::{Condvar, OnceLock};
use cairn_platform::{Io, Process, ReadDriver, World};
use cairn_types::{Code, Error, FileNumber, KeyOrder, Result, SequenceNumber, Subcode};
use cairn_version::Version;
use cairn_version::manifest::{self, Recovered, RecoveredFamily};
use cairn_wal::WalFile;

use crate::catalog::Catalog;
use crate::catalog::create::new_database;
use crate::catalog::family::FamilyDescriptor;
use crate::catalog::file_numbers::is_own;
use crate::catalog::sources::{create_dir, warn_of_unsynced};
use crate::close::lifecycle::Lifecycle;
use crate::context::{DbContext, Tracers, next_opening};
use crate::db::Db;
use crate::errors::state::Errors;
use crate::files::handoff;
use crate::files::inherited_files;
use crate::jobs::background::reserve_threads;
use crate::jobs::timers::Timers;
use crate::locks::{Locks, Rank};
use crate::memory::budget::Budget;
use crate::options::settings::Settings;
use crate::read::open_iterators::OpenIterators;
use crate::report::stats_family::{self, STATS_FAMILY};
use crate::shared::{FamilyTree, Shared, Tree, WritePath};
use crate::telemetry::Telemetry;
use crate::trace::QueryTrace;
use crate::write::signals::Signals;
use crate::write::ttl;
use recovery_info::RecoveryInfo;

pub use dropped_records::Dropped;
pub(crate) use files::{read_options, read_small};

/// A request to open a database.
pub struct OpenRequest<'a> {
    /// The directory.
    pub path: &'a Path,
    /// Options of the database.
    pub options: &'a DbOptions,
    /// The families to open. The default family gets default options unless it is listed.
    pub families: &'a [FamilyDescriptor],
    /// Options for existing families that are not listed; `None` rejects missing ones.
    pub others: Option<&'a FamilyOptions>,
    /// True to leave every file unchanged: no lock, no log, no deletion.
    pub read_only: bool,
    /// The world.
    pub world: World,
}

/// How often a read-only opening reads a database that changes meanwhile.
const READ_ONLY_ATTEMPTS: usize = 50;

/// Opens the database specified by `request`. A read-only opening that fails, or may have missed a log, starts again if the
/// database has changed meanwhile.
///
/// # Errors
///
/// `InvalidArgument` if it does not exist (or must not), if a family is not listed or missing, or for invalid
/// options; `NotSupported` for unsupported options and files; `IoError` if it is open elsewhere, or does not exist
/// and `read_only` is set; `Corruption` with file and offset; `TryAgain` for a read-only opening beside a process that keeps
/// deleting logs faster than they can be read.
pub fn open(request: &OpenRequest<'_>) -> Result<Db> {
    open_above(request, &BTreeMap::new())
}

/// Like [`open`], without the entries of logs whose sequence numbers are at most the family's in `above`:
/// those are already in tables.
pub(crate) fn open_above(
    request: &OpenRequest<'_>,
    above: &BTreeMap<u32, SequenceNumber>,
) -> Result<Db> {
    let logs = Replay::Logs(Policies::default());
    if !request.read_only {
        return open_with(request, above, logs).map(|opened| opened.db);
    }
    // Another process may write the database, and delete files that the opening is about to read.
    let mut before = read_only::position(request);
    let mut attempts = READ_ONLY_ATTEMPTS;
    loop {
        let opened = open_with(request, above, logs).map(|opened| opened.db);
        attempts -= 1;
        if opened.is_ok() || attempts == 0 {
            return opened;
        }
        let after = read_only::position(request);
        if after == before {
            return opened;
        }
        before = after;
    }
}

/// Opens a database whose transactions are logged with the write policy `policy`, as a transaction database of RocksDB
/// logs them. The logs that are there have the same policy, or no transactions.
///
/// # Errors
///
/// Those of [`open`]; `InvalidArgument` for a read-only request with a policy other than "committed"; `NotSupported` if
/// the logs have transactions of a policy that RocksDB does not open with `policy`, and with a policy other than
/// "committed" for keys with timestamps.
pub fn open_of_policy(request: &OpenRequest<'_>, policy: PreparePolicy) -> Result<Db> {
    let policies = Policies {
        read: policy,
        written: policy,
    };
    if policy != PreparePolicy::WriteCommitted && request.read_only {
        return Err(Error::invalid_argument(
            "a read-only opening of a database with a write policy other than WRITE_COMMITTED",
        ));
    }
    let opened = open_with(request, &BTreeMap::new(), Replay::Logs(policies))?;
    if policy != PreparePolicy::WriteCommitted && opened.db.has_timestamps() {
        return Err(Error::not_supported(
            "Only WriteCommittedTxn supports timestamp",
        ));
    }
    Ok(opened.db)
}

/// Opens a database whose logs RocksDB wrote as a transaction database with the write policy `policy`, and converts it to
/// the policy "committed". Prepared transactions stay prepared; those that were not prepared are rolled back.
///
/// # Errors
///
/// Those of [`open`]; `InvalidArgument` for a read-only request; `NotSupported` if the logs have transactions of a policy
/// that RocksDB does not open with `policy`, and for range deletions and keys with timestamps in undecided transactions.
pub fn convert_policy(request: &OpenRequest<'_>, policy: PreparePolicy) -> Result<Db> {
    if request.read_only {
        return Err(Error::invalid_argument(
            "a read-only opening cannot convert the logs of another write policy",
        ));
    }
    let policies = Policies {
        read: policy,
        written: PreparePolicy::WriteCommitted,
    };
    open_with(request, &BTreeMap::new(), Replay::Logs(policies)).map(|opened| opened.db)
}

/// Opens a database for a remote compaction: its logs are not read, and only the inputs of the compaction must
/// exist.
pub(crate) fn open_for_compaction(request: &OpenRequest<'_>) -> Result<Opened> {
    assert!(request.read_only, "a worker changes nothing");
    open_with(request, &BTreeMap::new(), Replay::ManifestOnly)
}

/// An open database, and the MANIFEST that was read.
pub(crate) struct Opened {
    pub(crate) db: Db,
    /// The number of the MANIFEST, and the length of its valid part.
    pub(crate) manifest: (FileNumber, u64),
}

/// The write policies of transactions.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Policies {
    /// That of the logs that are there.
    read: PreparePolicy,
    /// That of the logs that will be written.
    written: PreparePolicy,
}

impl Default for Policies {
    fn default() -> Policies {
        Policies {
            read: PreparePolicy::WriteCommitted,
            written: PreparePolicy::WriteCommitted,
        }
    }
}

/// The extent of an opening.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Replay {
    /// The logs are replayed.
    Logs(Policies),
    /// The entries of the logs are left out.
    ManifestOnly,
}

/// Checks that the family `id` with `options` is not the default one with an option that this cannot have.
fn check_default(id: u32, options: &FamilyOptions) -> Result<()> {
    match id == 0 && options.disallow_memtable_writes {
        true => Err(Error::invalid_argument(
            "the default column family cannot have disallow_memtable_writes",
        )),
        false => Ok(()),
    }
}

fn open_with(
    request: &OpenRequest<'_>,
    above: &BTreeMap<u32, SequenceNumber>,
    replay: Replay,
) -> Result<Opened> {
    let world = inherited_files::world_of(request.options, request.world.clone());
    let request = &OpenRequest {
        world: handoff::world_of(request.options, world),
        ..*request
    };
    request.options.validate()?;
    if !request.read_only {
        request.options.check_supported()?;
    }
    let options = request.options.clone().sanitize();
    let fs = &*request.world.fs;
    let writes = !request.read_only;
    let unsynced = match writes {
        true => create_dirs(request, &options)?,
        false => Vec::new(),
    };
    let dir = fs
        .canonical(request.path)
        .map_err(|error| missing(request, &error))?;
    let lock = match writes {
        true => Some(fs.lock(&dir.join(FileName::Lock.to_string()))?),
        false => None,
    };
    let threads = Tracker::new(
        options.enable_thread_tracking,
        &dir.to_string_lossy(),
        request.world.clock.clone(),
    );
    let opening = threads.begin("", Operation::DbOpen);
    let recovered = recover_manifest(&with_listeners(request), &options, &dir)?;
    check_numbers(&recovered)?;
    // Listed once for all uses, and after the MANIFEST was read: files in it existed before.
    let names = fs.list(&dir)?;
    let logs = match replay {
        Replay::Logs(_) => find_logs(request, &options, &dir, &names)?,
        Replay::ManifestOnly => Vec::new(),
    };
    if request.read_only && matches!(replay, Replay::Logs(_)) {
        read_only::check_logs(request, &options, &dir, &recovered)?;
    }
    let recorded = files::RecordedOptions::new(request, &names);
    let named = match_families(request, &options, &recovered, &recorded)?;
    let foundation = Foundation {
        options,
        dir,
        lock,
        threads,
        replay_above: above.clone(),
        policies: match replay {
            Replay::Logs(policies) => policies,
            Replay::ManifestOnly => Policies::default(),
        },
        secondary: None,
    };
    let shared = assemble(request, foundation, &recovered, named, &names)?;
    recorded.log_passed_over(&shared.context.info);
    warn_of_unsynced(&shared.context.info, &unsynced);
    let shared = Arc::new(shared);
    shared
        .timers
        .anchor_phases(request.world.clock.wall_seconds());
    shared.connect();
    match replay {
        Replay::Logs(_) => {
            shared.finish_opening(&recovered, names, logs)?;
            if request.read_only && shared.options().recycle_log_file_num > 0 {
                // A log may have been overwritten while it was read.
                read_only::check_logs(request, &shared.options(), &shared.context.dir, &recovered)?;
            }
            if request.read_only {
                shared.hold_all_files()?;
            }
        }
        Replay::ManifestOnly => shared.finish_without_logs(&recovered),
    }
    let has_log = shared.writes.writer.lock().log.is_some();
    assert_eq!(
        has_log, writes,
        "a database that is open for writing has a log"
    );
    let db = Db::new(shared)?;
    if writes {
        // Listeners of the jobs may ask for the database.
        db.shared().schedule(&mut db.shared().tree.lock());
    }
    create_missing(request, &db)?;
    if writes {
        db.shared().log_opened();
    }
    drop(opening);
    Ok(Opened {
        db,
        manifest: (recovered.manifest, recovered.manifest_bytes),
    })
}

/// Returns the logs of the database in `dir`, which holds the files `names`.
fn find_logs(
    request: &OpenRequest<'_>,
    options: &DbOptions,
    dir: &Path,
    names: &[String],
) -> Result<Vec<WalFile>> {
    let wal_dir = options.wal_dir_of(dir);
    match wal_dir == dir {
        true => Ok(cairn_wal::among(names, dir)),
        false => {
            cairn_wal::list(&*request.world.fs, wal_dir).map_err(|error| match error.io_kind() {
                Some(ErrorKind::NotFound) => Error::invalid_argument(format!(
                    "the directory of logs (wal_dir) is missing: {error}"
                )),
                _ => error,
            })
        }
    }
}

/// Creates the directory of the database if it is missing and may be created, and that of its logs: the options of an
/// existing database may name a new one. Returns those whose names could not be synced.
fn create_dirs(request: &OpenRequest<'_>, options: &DbOptions) -> Result<Vec<PathBuf>> {
    let fs = &*request.world.fs;
    let known = fs.exists(&request.path.join(FileName::Current.to_string()))?;
    let mut unsynced = match options.create_if_missing {
        true => create_dir(fs, request.path, known)?,
        false => Vec::new(),
    };
    let has_logs = known || options.create_if_missing;
    if has_logs && !options.wal_dir.as_os_str().is_empty() {
        unsynced.extend(create_dir(fs, &options.wal_dir, known)?);
    }
    Ok(unsynced)
}

impl Shared {
    /// Registers the database with what calls it back. All of them have weak references, which do not keep a closed
    /// database in memory.
    fn connect(self: &Arc<Self>) {
        self.wake_with_snapshots();
        if let Some(buffers) = &self.writes.buffers {
            let weak = Arc::downgrade(self);
            buffers.register(weak);
        }
        if let Some(budget) = &self.budget {
            let weak = Arc::downgrade(self);
            budget.of.register(weak);
        }
        let owner = Arc::downgrade(self);
        self.errors.set_attempt(move || {
            if let Some(shared) = owner.upgrade() {
                shared.recover_in_background();
            }
        });
    }
}

/// Returns `request` in a world that reports file operations to listeners. There is no info log yet.
fn with_listeners<'a>(request: &OpenRequest<'a>) -> OpenRequest<'a> {
    let world = &request.world;
    let info = Arc::new(Logger::silent());
    let (fs, clock) = (world.fs.clone(), world.clock.clone());
    OpenRequest {
        world: World {
            fs: cairn_observe::files::notifying(fs, clock, &request.options.listeners, &info),
            ..world.clone()
        },
        ..*request
    }
}

fn missing(request: &OpenRequest<'_>, error: &Error) -> Error {
    match error.subcode() {
        Subcode::PathNotFound if request.path.as_os_str().is_empty() => Error::new(
            Code::IoError,
            Subcode::PathNotFound,
            "the path of the database is empty",
        ),
        Subcode::PathNotFound if request.read_only => manifest::no_database(request.path),
        Subcode::PathNotFound => Error::invalid_argument(format!(
            "{} does not exist (create_if_missing is false)",
            request.path.display()
        )),
        _ => error.clone(),
    }
}

/// Returns the state in the MANIFEST, or that of a new database.
fn recover_manifest(
    request: &OpenRequest<'_>,
    options: &DbOptions,
    dir: &Path,
) -> Result<Recovered> {
    let fs = &*request.world.fs;
    let order = |family: &str, recorded: &str| order_of(request, family, recorded);
    let must_be_new = options.error_if_exists && !request.read_only;
    if options.best_efforts_recovery
        && !must_be_new
        && let Some(recovered) = best_effort::recover(request, options, dir, &order)?
    {
        return Ok(recovered);
    }
    match manifest::current(fs, dir)? {
        Some(_) if must_be_new => Err(Error::invalid_argument(format!(
            "{} exists (error_if_exists is true)",
            dir.display()
        ))),
        Some(number) => manifest::replay(fs, dir, number, &order),
        None if request.read_only => Err(manifest::no_database(dir)),
        None if !options.create_if_missing => Err(Error::invalid_argument(format!(
            "{} does not exist (create_if_missing is false)",
            dir.join(FileName::Current.to_string()).display()
        ))),
        None => {
            files::refuse_orphaned_logs(fs, dir, options)?;
            let given = given_options(request, "default");
            let order = given
                .as_ref()
                .map_or(KeyOrder::Bytewise, |options| options.comparator.clone());
            let persists = given.is_none_or(|options| !options.strips_timestamps());
            Ok(new_database(order, persists))
        }
    }
}

/// Rejects a MANIFEST that leaves no file numbers: every number in it must be below its next file number.
pub(crate) fn check_numbers(recovered: &Recovered) -> Result<()> {
    let epochs = recovered
        .families
        .iter()
        .map(|family| family.version.max_epoch());
    let has_epochs = epochs.max().is_none_or(|largest| largest < u64::MAX / 2);
    match is_own(recovered.next_file) && recovered.max_family < u32::MAX && has_epochs {
        true => Ok(()),
        false => Err(Error::corruption(format!(
            "MANIFEST {} leaves no numbers for files, column families or epochs: next file number {}, \
             largest column family id {}",
            recovered.manifest, recovered.next_file, recovered.max_family
        ))),
    }
}

/// Returns the options that a request gives an existing family, of its own or for families that it does not list. Persisted
/// statistics have fixed options.
fn given_options<'a>(request: &OpenRequest<'a>, family: &str) -> Option<Cow<'a, FamilyOptions>> {
    if family == STATS_FAMILY {
        return Some(Cow::Owned(stats_family::options()));
    }
    let mut listed = request.families.iter();
    let given = listed.find(|given| given.name == family);
    let given = given.map(|given| &given.options);
    given.or(request.others).map(Cow::Borrowed)
}

/// Returns the comparator of a family with the comparator `recorded`. A built-in one is used without being
/// specified; another one must be specified, and match.
pub(crate) fn order_of(
    request: &OpenRequest<'_>,
    family: &str,
    recorded: &str,
) -> Result<KeyOrder> {
    let given = given_options(request, family);
    match given.as_ref().map(|given| &given.comparator) {
        Some(order) if order.name() == recorded => Ok(order.clone()),
        None | Some(KeyOrder::Bytewise) => {
            KeyOrder::from_name(recorded).ok_or_else(|| mismatch(&KeyOrder::Bytewise, recorded))
        }
        Some(order) => Err(mismatch(order, recorded)),
    }
}

/// Programs compare this text, which is RocksDB's.
fn mismatch(given: &KeyOrder, recorded: &str) -> Error {
    Error::invalid_argument(format!(
        "{}: does not match existing comparator {recorded}",
        given.name()
    ))
}

/// The families to be opened, with their options and trees.
type Named<'r> = Vec<(&'r RecoveredFamily, FamilyOptions, Version)>;

/// Makes the options of a family whose keys have timestamps agree with its tables, which keep them or not.
fn adopt_timestamps(family: &RecoveredFamily, given: &mut FamilyOptions) -> Result<()> {
    if given.comparator.timestamp_size() == 0 {
        return Ok(());
    }
    if family.persist_timestamps && !given.persist_user_defined_timestamps {
        return Err(Error::invalid_argument(format!(
            "persist_user_defined_timestamps=false of column family {:?}, whose tables keep timestamps",
            family.name
        )));
    }
    given.persist_user_defined_timestamps = family.persist_timestamps;
    Ok(())
}

/// Sets the options of each recovered family; if no merge operator is specified, the `recorded` one is used.
fn match_families<'r>(
    request: &OpenRequest<'_>,
    options: &DbOptions,
    recovered: &'r Recovered,
    recorded: &files::RecordedOptions<'_>,
) -> Result<Named<'r>> {
    let mut named = Vec::new();
    let mut left_out = Vec::new();
    let dated = ttl::is_dated(request);
    for family in &recovered.families {
        let given = given_options(request, &family.name).map(Cow::into_owned);
        let default = || (family.id == 0).then(FamilyOptions::default);
        let Some(mut given) = given.or_else(default) else {
            left_out.push(family.name.as_str());
            continue;
        };
        given.comparator = family.version.order().clone();
        adopt_timestamps(family, &mut given)?;
        ttl::apply_to_options(dated, &family.name, &mut given)?;
        given.validate()?;
        if !request.read_only {
            given.check_supported()?;
            check_default(family.id, &given)?;
        }
        let mut given = given.sanitize(options);
        if given.merge_operator.is_none() {
            given.merge_operator = files::recorded_merge_operator(request, recorded, family, dated);
        }
        let levels = usize::try_from(given.num_levels).unwrap_or(1).max(1);
        let levels = match request.read_only {
            true => levels.max(family.version.num_non_empty_levels()),
            false => levels,
        };
        named.push((family, given, family.version.with_num_levels(levels)?));
    }
    if !left_out.is_empty() && !request.read_only {
        return Err(Error::invalid_argument(format!(
            "Column families not opened: {}",
            left_out.join(", ")
        )));
    }
    if request.read_only || !request.options.create_missing_column_families {
        let creates_stats = request.options.persist_stats_to_disk && !request.read_only;
        let exists = |name: &str| {
            recovered.families.iter().any(|family| family.name == name)
                || (name == STATS_FAMILY && creates_stats)
        };
        if let Some(absent) = request.families.iter().find(|given| !exists(&given.name)) {
            let reason = match request.read_only {
                true => "families cannot be created in a read-only database",
                false => "create_missing_column_families is false",
            };
            return Err(Error::invalid_argument(format!(
                "Column family not found: {} ({reason})",
                absent.name
            )));
        }
    }
    Ok(named)
}

/// Inputs of [`assemble`] that the opening creates before it reads the MANIFEST.
struct Foundation {
    options: DbOptions,
    dir: PathBuf,
    lock: Option<Box<dyn cairn_platform::fs::FileLock>>,
    threads: Tracker,
    replay_above: BTreeMap<u32, SequenceNumber>,
    policies: Policies,
    secondary: Option<secondary::SecondaryInstance>,
}

/// Composes the state of an open database from its components, each of them empty. Does not change the tree
/// on disk. The directory of the database has the files `names`.
fn assemble(
    request: &OpenRequest<'_>,
    foundation: Foundation,
    recovered: &Recovered,
    named: Named<'_>,
    names: &[String],
) -> Result<Shared> {
    let Foundation {
        mut options,
        dir,
        lock,
        threads,
        replay_above,
        policies,
        secondary,
    } = foundation;
    let default_cache = options.default_block_cache.take();
    let wal_limit = options.wal_limit(named.iter().map(|(_, family, _)| family));
    let budget = options.memory_budget.clone();
    let budget = budget.map(|budget| Arc::new(Budget::new(budget)));
    let mut context = context_of(request, &options, dir, recovered, names, secondary)?;
    if let Some(budget) = &budget {
        let world = &mut context.world;
        world.fs = budget.timed(world.fs.clone(), world.clock.clone());
    }
    let context = Arc::new(context);
    context.world.executor.start()?;
    if !request.read_only {
        reserve_threads(&*context.world.executor, &options);
    }
    let locks = context.locks;
    assert!(
        lock.is_some() || request.read_only,
        "a database that is open for writing holds its directory"
    );
    let telemetry = Arc::new(Telemetry::new(context.clone(), &options, threads));
    let writes = WritePath::new(&options, locks, policies.written);
    let settings = Arc::new(Settings::new(options, locks));
    let catalog = Catalog::new(
        context.clone(),
        telemetry.clone(),
        settings.clone(),
        budget.clone(),
        default_cache,
        recovered.next_file,
    );
    let shared = Shared {
        telemetry,
        context,
        opening: RecoveryInfo::new(replay_above, policies.read),
        lifecycle: Lifecycle::new(lock, locks),
        catalog,
        budget,
        writes,
        iterators: OpenIterators::new(),
        signals: Signals::default(),
        trace: QueryTrace::default(),
        awaited: Arc::default(),
        tree: locks.mutex(Rank::Tree, Tree::new(recovered.min_log_to_keep)),
        changed: Condvar::new(),
        timers: Timers::default(),
        errors: Errors::new(locks),
        settings,
        leader: OnceLock::new(),
    };
    shared.signals.set_wal_limit(wal_limit);
    if request.read_only {
        shared.signals.request_attention();
    }
    add_families(&shared, named, recovered.max_family);
    Ok(shared)
}

/// The executor of reads that `options` select.
fn io(options: &DbOptions, info: &Logger) -> Io {
    let io = Io::with_driver(match options.io_mode {
        IoMode::Auto => None,
        IoMode::Uring => Some(ReadDriver::Uring),
        IoMode::Threads => Some(ReadDriver::Threads),
        IoMode::Blocking => Some(ReadDriver::Blocking),
    });
    let threads = usize::try_from(options.read_io_executor_threads).unwrap_or(1);
    let io = io.with_threads(threads.max(1));
    if let (IoMode::Uring, Some(reason)) = (options.io_mode, io.refusal()) {
        info.warn(format_args!(
            "io_mode=kUring: reads are executed by {}, because io_uring is refused: {reason}",
            io.driver()
        ));
    }
    io
}

/// Returns the context of the database in `dir`, which has the files `names`, and starts its info log.
fn context_of(
    request: &OpenRequest<'_>,
    options: &DbOptions,
    dir: PathBuf,
    recovered: &Recovered,
    names: &[String],
    secondary: Option<secondary::SecondaryInstance>,
) -> Result<DbContext> {
    let clock = &request.world.clock;
    let traces = Tracers::new(clock);
    let (fs, tracer) = (request.world.fs.clone(), traces.io.clone());
    let world = World {
        fs: cairn_observe::files::counted(fs, clock.clone(), tracer),
        ..request.world.clone()
    };
    // The info log records the failures of traces, so that its own operations are not traced.
    let (fs, untraced) = (request.world.fs.clone(), Tracers::new(clock).io);
    let of_log = World {
        fs: cairn_observe::files::counted(fs, clock.clone(), untraced),
        ..request.world.clone()
    };
    let info = match (&secondary, request.read_only) {
        (Some(place), _) => place.open_log(&of_log, options)?,
        (None, true) => Logger::silent(),
        (None, false) => open_log(&of_log, &dir, options, names)?,
    };
    let info = Arc::new(info);
    if !request.options.can_compress_wal() {
        info.warn(format_args!(
            "wal_compression={}: logs are not compressed, since RocksDB reads only those of zstd",
            request.options.wal_compression.option_name()
        ));
    }
    let (fs, clock) = (world.fs, world.clock.clone());
    let world = World {
        fs: cairn_observe::files::notifying(fs, clock, &options.listeners, &info),
        ..world
    };
    let wal_dir = options.wal_dir_of(&dir).to_owned();
    let db_id = files::identity(request, options, &dir, recovered, &info)?;
    let session =
        cairn_format::id::SessionId::from_random(world.random.next_u64(), world.random.next_u64());
    Ok(DbContext {
        dir,
        wal_dir,
        io: io(options, &info),
        info,
        opened_at: world.clock.monotonic_nanos(),
        db_id,
        session_id: session.to_string(),
        number: next_opening(),
        host_id: files::host_id(options, &*world.fs),
        read_only: request.read_only,
        follows: secondary.map(|place| place.follows),
        process: Process::this(),
        dated: ttl::is_dated(request),
        world,
        locks: Locks::new(),
        traces,
        unsynced_blobs: Arc::default(),
    })
}

/// Adds the families in the MANIFEST, each with an empty memtable. The largest id ever used is `max_id`.
fn add_families(shared: &Shared, named: Named<'_>, max_id: u32) {
    for (family, options, _) in &named {
        shared.signals.note_options(options);
        let mut tree = shared.tree.lock();
        let before = tree
            .families
            .insert(family.id, FamilyTree::new(family.log_number));
        assert!(before.is_none(), "family {} is recovered once", family.id);
    }
    shared.catalog.recover_families(named, max_id, |options| {
        shared.new_memtable(options, SequenceNumber::default())
    });
}

/// Creates the info log of the database in `dir`, which has the files `names`.
fn open_log(world: &World, dir: &Path, options: &DbOptions, names: &[String]) -> Result<Logger> {
    if let Some(sink) = &options.info_log {
        return Ok(Logger::to(sink.clone()));
    }
    if !options.db_log_dir.as_os_str().is_empty() {
        world.fs.create_dir_all(&options.db_log_dir)?;
    }
    let log = LogOptions {
        path: cairn_observe::logger::log_path(dir, &options.db_log_dir),
        level: level(options.info_log_level),
        max_log_file_size: options.max_log_file_size,
        log_file_time_to_roll: options.log_file_time_to_roll,
        keep_log_file_num: options.keep_log_file_num,
    };
    let names = options.db_log_dir.as_os_str().is_empty().then_some(names);
    Logger::open(world.fs.clone(), world.clock.clone(), log, names)
}

fn level(option: InfoLogLevel) -> Level {
    match option {
        InfoLogLevel::Debug => Level::Debug,
        InfoLogLevel::Info => Level::Info,
        InfoLogLevel::Warn => Level::Warn,
        InfoLogLevel::Error => Level::Error,
        InfoLogLevel::Fatal => Level::Fatal,
        InfoLogLevel::Header => Level::Header,
    }
}

/// Creates the listed families that do not exist, and that of persisted statistics.
fn create_missing(request: &OpenRequest<'_>, db: &Db) -> Result<()> {
    if request.options.persist_stats_to_disk && !request.read_only {
        db.open_persisted_stats()?;
    }
    // A family may be listed twice; it has the options of the first, as in RocksDB.
    let mut names = BTreeSet::new();
    let missing: Vec<_> = request
        .families
        .iter()
        .filter(|given| db.family(&given.name).is_none() && names.insert(&given.name))
        .cloned()
        .collect();
    db.create_families(&missing)?;
    Ok(())
}

/// Returns the names of the column families of the database in `path`, in the order of their creation. Does
/// not change any file.
///
/// # Errors
///
/// `IoError` if there is no database; `Corruption` of its MANIFEST.
pub fn list_families(path: &Path, world: &World) -> Result<Vec<String>> {
    let fs = &*world.fs;
    // An empty path is no name of the current directory.
    let number = match path.as_os_str().is_empty() {
        true => None,
        false => manifest::current(fs, path)?,
    };
    let Some(number) = number else {
        return Err(manifest::no_database(path));
    };
    manifest::families(fs, path, number)
}
