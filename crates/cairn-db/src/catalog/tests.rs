//! The catalog over a simulated disk: without a write path, jobs, or other components except the context and
//! telemetry.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use cairn_format::key::InternalKey;
use cairn_memtable::{Memtable, MemtableOptions};
use cairn_observe::threads::Tracker;
use cairn_observe::{BackgroundErrorReason, Logger};
use cairn_options::FamilyOptions;
use cairn_platform::fs::FileMode;
use cairn_platform::sync::Mutex;
use cairn_platform::{FileSystem, Io, Process};
use cairn_sim::images::MODELS;
use cairn_sim::trace::Call;
use cairn_sim::{CrashModel, DiskImage, Fault, FaultPlan, FaultRule, SimWorld, Trigger};
use cairn_types::{Code, Error, KeyOrder, Result, SequenceNumber, ValueKind};
use cairn_version::manifest::{self, Recovered};
use cairn_version::{FileMeta, TreeEdit, Version};

use super::create::{NewFamily, new_database};
use super::env::{CatalogEnv, Installed, InstalledKind, LogState};
use super::install::Change;
use super::*;
use crate::context::Tracers;
use crate::locks::Locks;

pub(crate) const DIR: &str = "/db";

/// A stand-in for the logs: their numbers, and the calls of the catalog.
pub(crate) struct FakeLogs {
    pub(crate) state: Mutex<LogState>,
    syncs: Mutex<Vec<FileNumber>>,
    failures: Mutex<Vec<BackgroundErrorReason>>,
}

impl CatalogEnv for FakeLogs {
    fn sync_logs_before(&self, log: FileNumber) -> Result<()> {
        self.syncs.lock().push(log);
        Ok(())
    }

    fn log_state(&self) -> LogState {
        self.state.lock().clone()
    }

    fn installed(&self, edit: &Installed<'_>, publish: impl FnOnce()) {
        let mut state = self.state.lock();
        state.first_needed = state.first_needed.max(edit.min_log.unwrap_or_default());
        match &edit.kind {
            InstalledKind::Changes(group) => {
                for (family, change) in *group {
                    if let Some(number) = change.log_number {
                        state.families.insert(family.id(), number);
                    }
                }
            }
            InstalledKind::Created(families, log) => {
                let ids = families.iter().map(|family| (family.id(), *log));
                state.families.extend(ids);
            }
            InstalledKind::Dropped(family) => {
                state.families.remove(&family.id());
            }
            InstalledKind::Logs => {}
        }
        state.last_sequence = state
            .last_sequence
            .max(edit.last_sequence.unwrap_or_default());
        publish();
    }

    fn manifest_failed(&self, reason: BackgroundErrorReason, _error: &Error) {
        self.failures.lock().push(reason);
    }
}

/// The components that the parts of a catalog are built on, with a disk of their own.
pub(crate) struct Ground {
    pub(crate) sim: SimWorld,
    pub(crate) context: Arc<DbContext>,
    pub(crate) telemetry: Arc<Telemetry>,
    pub(crate) settings: Arc<Settings>,
}

/// A catalog on its own disk, with a MANIFEST.
pub(crate) struct Fixture {
    pub(crate) sim: SimWorld,
    pub(crate) context: Arc<DbContext>,
    pub(crate) telemetry: Arc<Telemetry>,
    pub(crate) settings: Arc<Settings>,
    pub(crate) catalog: Catalog,
    pub(crate) logs: FakeLogs,
}

pub(super) fn memtable(options: &FamilyOptions) -> Arc<Memtable> {
    let order = options.comparator.clone();
    Arc::new(Memtable::new(order, MemtableOptions::default()))
}

impl Ground {
    pub(crate) fn new(options: DbOptions) -> Ground {
        let sim = SimWorld::new(7);
        sim.fs.create_dir_all(Path::new(DIR)).unwrap();
        sim.fs.sync_dir(Path::new("/")).unwrap();
        let context = Arc::new(DbContext {
            dir: PathBuf::from(DIR),
            wal_dir: PathBuf::from(DIR),
            world: sim.world.clone(),
            io: Io::blocking(),
            info: Arc::new(Logger::silent()),
            db_id: "an id".to_owned(),
            session_id: "a session".to_owned(),
            number: 1,
            host_id: String::new(),
            opened_at: 0,
            read_only: false,
            follows: None,
            dated: false,
            process: Process::this(),
            locks: Locks::new(),
            traces: Tracers::new(&sim.world.clock),
            unsynced_blobs: Arc::default(),
        });
        let threads = Tracker::new(false, DIR, sim.world.clock.clone());
        let telemetry = Arc::new(Telemetry::new(context.clone(), &options, threads));
        let settings = Arc::new(Settings::new(options, context.locks));
        Ground {
            sim,
            context,
            telemetry,
            settings,
        }
    }
}

impl Fixture {
    pub(crate) fn new(options: DbOptions) -> Fixture {
        let Ground {
            sim,
            context,
            telemetry,
            settings,
        } = Ground::new(options);
        let recovered = new_database(KeyOrder::Bytewise, true);
        let catalog = Catalog::new(
            context.clone(),
            telemetry.clone(),
            settings.clone(),
            None,
            None,
            recovered.next_file,
        );
        let default = &recovered.families[0];
        let version = default.version.with_num_levels(7).unwrap();
        catalog.recover_families(
            vec![(default, FamilyOptions::default(), version)],
            0,
            memtable,
        );
        let logs = FakeLogs {
            state: Mutex::new(LogState {
                families: BTreeMap::from([(0, FileNumber(0))]),
                ..LogState::default()
            }),
            syncs: Mutex::default(),
            failures: Mutex::default(),
        };
        let number = catalog.begin_manifest(&logs, &recovered, false).unwrap();
        assert!(catalog.manifest.lock().is_some() && number < catalog.numbers.next());
        Fixture {
            sim,
            context,
            telemetry,
            settings,
            catalog,
            logs,
        }
    }

    pub(crate) fn default(&self) -> Arc<FamilyState> {
        self.catalog.default_family().unwrap().clone()
    }

    /// Creates a table file with a new number, all of whose entries are of `key`.
    pub(crate) fn table(&self, key: &[u8]) -> Arc<FileMeta> {
        let number = self.catalog.numbers.take();
        let file = self.sim.fs.create(&path(number), FileMode::default());
        let file = file.unwrap();
        file.append(&[0; 100]).unwrap();
        file.sync(false).unwrap();
        file.close().unwrap();
        self.sim.fs.sync_dir(Path::new(DIR)).unwrap();
        let key = InternalKey::new(key, SequenceNumber(number.0), ValueKind::Value);
        let mut meta = FileMeta::new(number, 100, key.clone(), key);
        meta.epoch = number.0;
        Arc::new(meta)
    }

    /// Creates a family of this name.
    fn create(&self, name: &str) -> Arc<FamilyState> {
        let new = NewFamily {
            name: name.to_owned(),
            options: FamilyOptions::default(),
            tables: TreeEdit::default(),
        };
        let log = FileNumber(0);
        let created = self
            .catalog
            .edit()
            .create_families(&self.logs, vec![new], log, memtable);
        created.unwrap().pop().unwrap()
    }

    pub(crate) fn exists(&self, number: FileNumber) -> bool {
        self.sim.fs.exists(&path(number)).unwrap()
    }
}

fn path(number: FileNumber) -> PathBuf {
    Path::new(DIR).join(cairn_format::names::table(number))
}

/// Returns the change that adds a table to level 0 and removes others.
pub(crate) fn change(added: &[&Arc<FileMeta>], deleted: &[FileNumber]) -> Change {
    Change {
        edit: TreeEdit {
            added: added.iter().map(|file| (0, Arc::clone(file))).collect(),
            deleted: deleted.iter().map(|number| (0, *number)).collect(),
            ..TreeEdit::default()
        },
        ..Change::default()
    }
}

/// Returns the tables in the view of `family`.
pub(crate) fn viewed(family: &FamilyState) -> Vec<FileNumber> {
    let version = family.view().version.clone();
    version.files().map(|(_, file)| file.number).collect()
}

/// Returns the state in the MANIFEST of `image`.
fn recovered(image: DiskImage) -> Recovered {
    let sim = SimWorld::on(image, 1);
    let dir = Path::new(DIR);
    let number = manifest::current(&*sim.fs, dir).unwrap().unwrap();
    let order = |_: &str, _: &str| Ok(KeyOrder::Bytewise);
    manifest::replay(&*sim.fs, dir, number, &order).unwrap()
}

/// Returns the tables of the families in the MANIFEST of `image`, by name.
pub(crate) fn logged(image: DiskImage) -> BTreeMap<String, Vec<FileNumber>> {
    let families = recovered(image).families.into_iter();
    let of = |version: &Version| version.files().map(|(_, file)| file.number).collect();
    families
        .map(|family| (family.name.clone(), of(&family.version)))
        .collect()
}

/// RocksDB cuts tables between versions of a user key. An opening of such a tree panicked.
#[test]
fn adjacent_tables_of_a_level_may_share_a_user_key() {
    let table = |number, seq| {
        let key = InternalKey::new(b"k", SequenceNumber(seq), ValueKind::Value);
        Arc::new(FileMeta::new(FileNumber(number), 100, key.clone(), key))
    };
    let edit = TreeEdit {
        added: vec![(1, table(1, 9)), (1, table(2, 8))],
        ..TreeEdit::default()
    };
    let version = Version::empty(KeyOrder::Bytewise, 7).with_edit(&edit);
    super::invariants::check_version(&version.expect("the tables are in order"));
}

#[test]
fn an_edit_is_in_the_view_and_in_the_manifest() {
    let it = Fixture::new(DbOptions::default());
    let (family, first) = (it.default(), it.table(b"a"));
    let before = family.view_full();
    it.catalog
        .install(&it.logs, &[(&family, &change(&[&first], &[]))])
        .unwrap();
    assert_eq!(viewed(&family), [first.number]);
    assert_eq!(family.view().number, before.number + 1);
    assert!(
        before.version.files().next().is_none(),
        "views never change"
    );
    let second = it.table(b"b");
    it.catalog
        .install(&it.logs, &[(&family, &change(&[&second], &[first.number]))])
        .unwrap();
    let found = recovered(it.sim.fs.image());
    assert_eq!(logged(it.sim.fs.image())["default"], [second.number]);
    assert!(second.number < found.next_file, "K4");
    assert!(it.logs.syncs.lock().iter().all(|log| log.0 == u64::MAX));
}

#[test]
fn an_inconsistent_edit_changes_nothing() {
    let it = Fixture::new(DbOptions::default());
    let (family, operations) = (it.default(), it.sim.fs.operations());
    let gone = FileNumber(999);
    let installed = it
        .catalog
        .install(&it.logs, &[(&family, &change(&[], &[gone]))]);
    assert_eq!(installed.unwrap_err().code(), Code::Corruption);
    assert_eq!(it.sim.fs.operations(), operations);
    assert!(family.view().number == 1 && it.logs.failures.lock().is_empty());
}

/// Before the sync, a power failure may or may not lose the edit; after the sync it is durable.
#[test]
fn a_crash_between_the_append_and_the_sync_of_an_edit_may_lose_it() {
    let it = Fixture::new(DbOptions::default());
    let (family, file) = (it.default(), it.table(b"a"));
    let before = it.sim.fs.trace().len();
    it.catalog
        .install(&it.logs, &[(&family, &change(&[&file], &[]))])
        .unwrap();
    let trace = it.sim.fs.trace();
    let operations = &trace.operations()[before..];
    let at = |call: Call| operations.iter().position(|one| one.call == call);
    let (append, sync) = (at(Call::Append).unwrap(), at(Call::Sync).unwrap());
    assert!(append < sync && sync + 1 == operations.len());
    let found = |at: usize, model: CrashModel| {
        let images = trace.images(before + at, model, 3).map(logged);
        images
            .map(|families| !families["default"].is_empty())
            .collect::<Vec<_>>()
    };
    assert_eq!(found(append, CrashModel::All), [false]);
    assert_eq!(found(append + 1, CrashModel::All), [true]);
    assert_eq!(found(sync, CrashModel::Synced), [false]);
    for model in MODELS {
        assert!(found(sync + 1, model).iter().all(|found| *found), "K1");
        // Each image is a state of its own, and none is damaged.
        found(sync, model);
    }
}

#[test]
fn an_edit_whose_sync_fails_is_not_published_and_the_next_one_is_in_a_new_manifest() {
    let it = Fixture::new(DbOptions::default());
    let (family, first) = (it.default(), it.table(b"a"));
    let second = it.table(b"b");
    it.sim.fs.set_plan(FaultPlan::new(vec![FaultRule {
        trigger: Trigger::Class {
            call: Call::Sync,
            name_end: String::new(),
            count: 0,
        },
        fault: Fault::InputOutput,
        lasts: 1,
    }]));
    let old = manifest::current(&*it.sim.fs, Path::new(DIR)).unwrap();
    let failed = it
        .catalog
        .install(&it.logs, &[(&family, &change(&[&first], &[]))]);
    assert_eq!(failed.unwrap_err().code(), Code::IoError);
    assert!(viewed(&family).is_empty(), "K1");
    assert_eq!(
        *it.logs.failures.lock(),
        [BackgroundErrorReason::ManifestWrite]
    );
    it.catalog
        .install(&it.logs, &[(&family, &change(&[&second], &[]))])
        .unwrap();
    assert_ne!(
        manifest::current(&*it.sim.fs, Path::new(DIR)).unwrap(),
        old,
        "K5"
    );
    assert_eq!(viewed(&family), [second.number]);
    let trace = it.sim.fs.trace();
    let mut images = trace.images(trace.len(), CrashModel::Synced, 1);
    assert_eq!(
        logged(images.next().unwrap())["default"],
        [second.number],
        "the edit that failed is gone"
    );
}

#[test]
fn a_flush_removes_its_memtables_from_the_view_and_records_which_logs_are_needed() {
    let it = Fixture::new(DbOptions::default());
    let (one, two) = (it.default(), it.create("two"));
    let full = one.memtable();
    full.add(SequenceNumber(1), ValueKind::Value, b"a", b"1");
    one.set_view(one.view().with_new_memtable(memtable(&one.options())));
    it.logs.state.lock().last_sequence = SequenceNumber(100);
    let log = it.catalog.numbers.take();
    let flush = Change {
        flushed: vec![full.clone()],
        log_number: Some(log),
        ..change(&[&it.table(b"a")], &[])
    };
    assert_eq!(one.view().immutables.len(), 1);
    it.catalog.install(&it.logs, &[(&one, &flush)]).unwrap();
    assert!(one.view().immutables.is_empty() && viewed(&one).len() == 1);
    assert!(
        it.logs.syncs.lock().contains(&log),
        "the log is durable before the MANIFEST refers to it"
    );
    let found = recovered(it.sim.fs.image());
    assert_eq!(found.families[0].log_number, log);
    assert!(
        found.min_log_to_keep < log,
        "{:?} needs older logs",
        two.name()
    );
    it.catalog.edit().drop_family(&it.logs, &two).unwrap();
    assert_eq!(recovered(it.sim.fs.image()).min_log_to_keep, log);
    assert_eq!(it.logs.state.lock().first_needed, log);
}

#[test]
fn a_file_in_no_view_is_deleted_unless_it_has_a_reader() {
    let it = Fixture::new(DbOptions::default());
    let family = it.default();
    let (number, next) = {
        let (file, next) = (it.table(b"a"), it.table(b"b"));
        it.catalog
            .install(&it.logs, &[(&family, &change(&[&file], &[]))])
            .unwrap();
        (file.number, next)
    };
    let reader = family.view_full();
    it.catalog
        .install(&it.logs, &[(&family, &change(&[&next], &[number]))])
        .unwrap();
    it.catalog.purge();
    assert!(it.exists(number) && it.catalog.deletions.table_bytes() == 0);
    assert!(!it.catalog.deletions.may_have_unread(), "no view has ended");
    drop(reader);
    assert!(it.catalog.deletions.may_have_unread());
    assert_eq!(it.catalog.deletions.table_bytes(), 100);
    it.catalog.purge();
    assert!(!it.exists(number) && it.exists(next.number), "K3");
    assert_eq!(it.catalog.deletions.table_bytes(), 0);
}

#[test]
fn pinned_files_are_not_deleted_until_the_last_pin_is_dropped() {
    let it = Fixture::new(DbOptions::default());
    let family = it.default();
    let (number, outside) = {
        let (file, outside) = (it.table(b"a"), it.table(b"b"));
        it.catalog
            .install(&it.logs, &[(&family, &change(&[&file], &[]))])
            .unwrap();
        (file.number, outside.number)
    };
    let pins = (it.catalog.deletions.pin(), it.catalog.deletions.pin());
    it.catalog
        .install(&it.logs, &[(&family, &change(&[], &[number]))])
        .unwrap();
    it.catalog.deletions.enable();
    it.catalog.purge();
    it.catalog.deletions.delete(&path(outside));
    assert!(it.exists(number) && it.exists(outside), "K3");
    drop(pins.0);
    it.catalog.purge();
    assert!(it.exists(number) && it.exists(outside));
    drop(pins.1);
    it.catalog.purge();
    assert!(!it.exists(number) && !it.exists(outside));
    // A copy that ends after the directory was released deletes nothing in it.
    let (late, left) = (it.catalog.deletions.pin(), it.table(b"c").number);
    it.catalog.deletions.delete(&path(left));
    it.catalog.deletions.give_up_directory();
    drop(late);
    assert!(it.exists(left));
}

/// Flushes two families together, with a crash at every operation.
#[test]
fn the_changes_of_two_families_are_atomic() {
    let it = Fixture::new(DbOptions::default());
    let (one, two) = (it.default(), it.create("two"));
    let (first, second) = (it.table(b"a"), it.table(b"b"));
    let changes = (change(&[&first], &[]), change(&[&second], &[]));
    let before = it.sim.fs.trace().len();
    it.catalog
        .install(&it.logs, &[(&one, &changes.0), (&two, &changes.1)])
        .unwrap();
    assert_eq!(
        (viewed(&one), viewed(&two)),
        (vec![first.number], vec![second.number])
    );
    let trace = it.sim.fs.trace();
    let mut states = [0, 0];
    for at in before..=trace.len() {
        for model in MODELS {
            for families in trace.images(at, model, 11).map(logged) {
                let (one, two) = (&families["default"], &families["two"]);
                assert_eq!(one.is_empty(), two.is_empty(), "K2, {model:?} at {at}");
                states[usize::from(!one.is_empty())] += 1;
            }
        }
    }
    assert!(
        states[0] > 0 && states[1] > 0,
        "both states are seen: {states:?}"
    );
}

#[test]
fn a_group_with_a_dropped_family_is_installed_without_it_and_its_outputs_are_deleted() {
    let it = Fixture::new(DbOptions::default());
    let (one, two) = (it.default(), it.create("two"));
    let (first, second) = (it.table(b"a"), it.table(b"b"));
    it.catalog.edit().drop_family(&it.logs, &two).unwrap();
    let changes = (change(&[&first], &[]), change(&[&second], &[]));
    it.catalog
        .install(&it.logs, &[(&one, &changes.0), (&two, &changes.1)])
        .unwrap();
    assert_eq!(viewed(&one), [first.number]);
    assert!(it.exists(first.number) && !it.exists(second.number));
    let alone = it
        .catalog
        .install(&it.logs, &[(&two, &change(&[&it.table(b"c")], &[]))]);
    assert!(alone.is_err() && viewed(&two).is_empty());
}

#[test]
fn families_are_created_and_dropped_with_their_files() {
    let it = Fixture::new(DbOptions::default());
    let family = it.create("two");
    assert_eq!((family.id(), it.catalog.families().max_id()), (1, 1));
    let number = {
        let file = it.table(b"a");
        it.catalog
            .install(&it.logs, &[(&family, &change(&[&file], &[]))])
            .unwrap();
        file.number
    };
    it.catalog.edit().drop_family(&it.logs, &family).unwrap();
    assert!(family.is_dropped() && it.catalog.families().get(1).is_none());
    assert!(it.catalog.edit().drop_family(&it.logs, &family).is_err());
    it.catalog.purge();
    assert!(it.exists(number), "a handle reads it");
    drop(family);
    it.catalog.purge();
    assert!(!it.exists(number));
    assert_eq!(it.create("two").id(), 2, "an id is used once");
    assert_eq!(recovered(it.sim.fs.image()).max_family, 2);
}

/// Regression: the creation of a family overflowed its id.
#[test]
fn a_family_without_an_id_is_not_created() {
    let it = Fixture::new(DbOptions::default());
    let mut families = Families::none(u32::MAX - 2);
    families.insert(it.default());
    it.catalog.families.store(families);
    assert_eq!(it.create("last").id(), u32::MAX - 1);
    let new = NewFamily {
        name: "none".to_owned(),
        options: FamilyOptions::default(),
        tables: TreeEdit::default(),
    };
    let edit = it.catalog.edit();
    let created = edit.create_families(&it.logs, vec![new], FileNumber(0), memtable);
    let failed = created.err().expect("no id is left");
    let error = failed.error;
    assert!(
        error.code() == Code::NotSupported && !failed.in_doubt,
        "{error}"
    );
    assert!(it.catalog.families().named("none").is_none());
}

#[test]
fn a_manifest_too_large_for_its_content_is_replaced_and_deleted() {
    let it = Fixture::new(DbOptions {
        max_manifest_file_size: 300,
        max_manifest_space_amp_pct: 0,
        ..DbOptions::default()
    });
    let family = it.default();
    let first = manifest::current(&*it.sim.fs, Path::new(DIR)).unwrap();
    let mut last = Vec::new();
    for _ in 0..20 {
        let file = it.table(b"a");
        it.catalog
            .install(&it.logs, &[(&family, &change(&[&file], &last))])
            .unwrap();
        last = vec![file.number];
    }
    assert_ne!(
        manifest::current(&*it.sim.fs, Path::new(DIR)).unwrap(),
        first
    );
    let names = it.sim.fs.list(Path::new(DIR)).unwrap();
    let manifests = names.iter().filter(|name| name.starts_with("MANIFEST"));
    assert_eq!(manifests.count(), 1);
    assert_eq!(logged(it.sim.fs.image())["default"], last);
    it.catalog.close_manifest(&it.logs, true).unwrap();
    let closed = it
        .catalog
        .install(&it.logs, &[(&family, &change(&[], &last))]);
    assert_eq!(closed.unwrap_err().code(), Code::ShutdownInProgress);
}

#[test]
fn the_newest_two_options_files_are_kept() {
    let it = Fixture::new(DbOptions::default());
    assert_eq!(it.catalog.options_files.newest().unwrap(), None);
    for _ in 0..4 {
        it.catalog.write_options_file().unwrap();
    }
    let names = it.sim.fs.list(Path::new(DIR)).unwrap();
    let options: Vec<_> = names
        .iter()
        .filter(|name| name.starts_with("OPTIONS"))
        .collect();
    assert_eq!(options.len(), 2);
    let (newest, bytes) = it.catalog.options_files.newest().unwrap().unwrap();
    assert!(newest < it.catalog.numbers.next() && bytes > 0);
}

#[test]
fn a_snapshot_has_the_last_visible_sequence_number_and_its_time() {
    let it = Fixture::new(DbOptions::default());
    let snapshot = it.catalog.snapshot(|| SequenceNumber(9), || true);
    assert_eq!(snapshot.sequence(), SequenceNumber(9));
    assert_eq!(it.catalog.snapshots.list(), [SequenceNumber(9)]);
    assert!(it.catalog.snapshots.oldest_time() > 0);
}
