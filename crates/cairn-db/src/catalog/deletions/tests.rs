//! Deletions and a family on a simulated disk, without a MANIFEST, logs or a database.

use cairn_format::key::InternalKey;
use cairn_observe::listener::FileDeletionInfo;
use cairn_observe::statistics::{Keeping, Statistics, StatsLevel};
use cairn_observe::{EventListener, Listeners};
use cairn_options::{DbOptions, FamilyOptions};
use cairn_platform::fs::FileMode;
use cairn_platform::{FileSystem, SstFileManager};
use cairn_sim::trace::Call;
use cairn_sim::{Fault, FaultPlan, FaultRule, Trigger};
use cairn_types::{FileNumber, KeyOrder, SequenceNumber, ValueKind};
use cairn_version::manifest::RecoveredFamily;
use cairn_version::{FileMeta, Version};

use super::super::sources::Sources;
use super::super::tests::{DIR, Ground, memtable};
use super::*;

/// A listener that records the names of deleted files, and the errors.
#[derive(Default)]
struct Record(Mutex<Vec<(String, bool)>>);

impl Record {
    fn add(&self, info: &FileDeletionInfo) {
        let path = Path::new(&info.file_path);
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        self.0.lock().push((name, info.status.is_none()));
    }
}

impl EventListener for Record {
    fn on_table_file_deleted(&self, info: &FileDeletionInfo) {
        self.add(info);
    }

    fn on_blob_file_deleted(&self, info: &FileDeletionInfo) {
        self.add(info);
    }
}

/// The blob file of a family, to which its table 1 refers.
const BLOB: FileNumber = FileNumber(7);

struct Fixture {
    ground: Ground,
    manager: Arc<SstFileManager>,
    record: Arc<Record>,
    statistics: Arc<Statistics>,
    deletions: Deletions,
    family: FamilyState,
    /// Kept alive: its drop sets the mark that the end of a view sets.
    _sources: Sources,
}

fn table_path(number: u64) -> PathBuf {
    Path::new(DIR).join(cairn_format::names::table(FileNumber(number)))
}

fn blob_path() -> PathBuf {
    Path::new(DIR).join(cairn_format::names::blob(BLOB))
}

fn table(number: u64) -> Arc<FileMeta> {
    let key = InternalKey::new(b"k", SequenceNumber(number), ValueKind::Value);
    let mut file = FileMeta::new(FileNumber(number), 100, key.clone(), key);
    file.epoch = number;
    file.oldest_blob = (number == 1).then_some(BLOB);
    Arc::new(file)
}

fn blob() -> Arc<BlobFileMeta> {
    Arc::new(BlobFileMeta::new(BLOB, 1, 10))
}

impl Fixture {
    /// Creates a family with the tables 1, 2 and 3 in level 0, and a blob file.
    fn new() -> Fixture {
        let record = Arc::new(Record::default());
        let statistics = Arc::new(Statistics::new(StatsLevel::All));
        let manager = Arc::new(SstFileManager::new());
        let ground = Ground::new(DbOptions {
            listeners: Listeners::new(vec![record.clone()]),
            statistics: Keeping::Shared(statistics.clone()),
            sst_file_manager: Some(manager.clone()),
            ..DbOptions::default()
        });
        let (context, telemetry) = (ground.context.clone(), ground.telemetry.clone());
        let space = Arc::new(Space::new(&ground.settings.get(), false));
        let deletions = Deletions::new(context.clone(), telemetry.clone(), space.clone());
        let settings = ground.settings.clone();
        let sources = Sources::new(
            context,
            telemetry,
            settings,
            None,
            None,
            deletions.view_end(),
        );
        let files = TreeEdit {
            added: (1..=3).map(|number| (0, table(number))).collect(),
            added_blobs: vec![blob()],
            ..TreeEdit::default()
        };
        let empty = Version::empty(KeyOrder::Bytewise, 7);
        let version = empty.with_edit(&files).unwrap();
        let recovered = RecoveredFamily {
            id: 0,
            name: "default".to_owned(),
            version: empty,
            log_number: FileNumber(0),
            full_history_ts_low: Vec::new(),
            persist_timestamps: true,
        };
        let options = FamilyOptions::default();
        let memtable = memtable(&options);
        let family = sources.new_family(&recovered, options, version, memtable);
        for path in (1..=3).map(table_path).chain([blob_path()]) {
            let file = ground.sim.fs.create(&path, FileMode::default()).unwrap();
            file.append(&[0; 100]).unwrap();
            file.close().unwrap();
        }
        space.track(&family, None, &family.view().version);
        Fixture {
            ground,
            manager,
            record,
            statistics,
            deletions,
            family,
            _sources: sources,
        }
    }

    /// Publishes a version without these tables, and without the blob file if table 1 is among them.
    fn remove(&self, tables: &[u64]) {
        let base = self.family.view_full();
        let numbers = tables.iter().map(|number| (0, FileNumber(*number)));
        let edit = TreeEdit {
            deleted: numbers.collect(),
            ..TreeEdit::default()
        };
        let next = base.version.with_edit(&edit).unwrap();
        self.deletions
            .retire(&self.family, &base.version, Some(&next));
        let view = base.with_version(Arc::new(next), &[]);
        self.family.set_view(view);
    }

    /// Deletes the files without readers. Returns false if deletions are disabled.
    fn purge(&self) -> bool {
        let unread = self.deletions.take_unread();
        unread
            .map(|unread| self.deletions.delete_unread(unread))
            .is_some()
    }

    /// The numbers of the tables on the disk.
    fn tables(&self) -> Vec<u64> {
        let exists = |number: &u64| self.ground.sim.fs.exists(&table_path(*number)).unwrap();
        (1..=3).filter(exists).collect()
    }

    fn has_blob(&self) -> bool {
        self.ground.sim.fs.exists(&blob_path()).unwrap()
    }

    /// The deletions reported to the listener so far: names, and true if they succeeded.
    fn reported(&self) -> Vec<(String, bool)> {
        self.ground.telemetry.deliver();
        self.record.0.lock().clone()
    }
}

#[test]
fn a_deletion_is_counted_and_reported() {
    let it = Fixture::new();
    it.deletions.delete(&table_path(2));
    it.deletions.delete(&blob_path());
    assert!(it.tables() == [1, 3] && !it.has_blob());
    let reported = [
        ("000002.sst".to_owned(), true),
        ("000007.blob".to_owned(), true),
    ];
    assert_eq!(it.reported(), reported);
    assert_eq!(it.statistics.ticker(Ticker::FilesDeletedImmediately), 2);
    assert_eq!(it.manager.total_size(), 200, "two tables are left");
}

#[test]
fn a_missing_file_counts_as_deleted() {
    let it = Fixture::new();
    it.deletions.delete(&table_path(2));
    it.deletions.delete(&table_path(2));
    assert_eq!(
        it.reported(),
        [(); 2].map(|()| ("000002.sst".to_owned(), true))
    );
}

#[test]
fn a_failed_deletion_is_reported_and_leaves_the_file() {
    let it = Fixture::new();
    it.ground.sim.fs.set_plan(FaultPlan::new(vec![FaultRule {
        trigger: Trigger::Class {
            call: Call::Remove,
            name_end: String::new(),
            count: 0,
        },
        fault: Fault::InputOutput,
        lasts: 1,
    }]));
    let before = it.manager.total_size();
    it.deletions.delete(&table_path(2));
    assert_eq!(it.reported(), [("000002.sst".to_owned(), false)]);
    assert_eq!(it.tables(), [1, 2, 3]);
    assert_eq!(it.statistics.ticker(Ticker::FilesDeletedImmediately), 0);
    assert_eq!(it.manager.total_size(), before, "it still takes space");
}

#[test]
fn trash_is_counted_when_it_is_made_and_when_it_is_deleted() {
    let it = Fixture::new();
    it.manager.set_delete_rate_bytes_per_second(1);
    it.manager.set_max_trash_db_ratio(1.0);
    it.deletions.delete(&table_path(2));
    let mut trash = table_path(2).into_os_string();
    trash.push(".trash");
    let exists = || it.ground.sim.fs.exists(Path::new(&trash)).unwrap();
    assert!(it.tables() == [1, 3] && exists());
    assert_eq!(it.statistics.ticker(Ticker::FilesMarkedTrash), 1);
    assert_eq!(it.statistics.ticker(Ticker::FilesDeletedFromTrashQueue), 0);
    it.ground.sim.executor.run(10);
    assert!(!exists());
    assert_eq!(it.statistics.ticker(Ticker::FilesDeletedFromTrashQueue), 1);
    assert_eq!(it.statistics.ticker(Ticker::FilesDeletedImmediately), 0);
    assert_eq!(it.reported(), [("000002.sst".to_owned(), true)]);
}

#[test]
fn obsolete_files_are_deleted_when_their_last_reader_has_ended() {
    let it = Fixture::new();
    let (reader, second) = (it.family.view_full(), it.family.view_full());
    it.remove(&[1, 2]);
    assert!(!it.deletions.may_have_unread(), "no view has ended");
    assert_eq!(it.deletions.table_bytes(), 0, "both have readers");
    let blobs = it.family.view().family.blobs.clone();
    let read = |it: &Fixture| it.deletions.blobs_of(&blobs).len();
    assert_eq!(read(&it), 1);
    assert!(it.purge() && it.tables() == [1, 2, 3]);
    drop(reader);
    assert!(
        !it.deletions.may_have_unread(),
        "another reader has the view"
    );
    drop(second);
    assert!(it.deletions.may_have_unread());
    assert_eq!(it.deletions.table_bytes(), 200);
    assert!(it.purge() && it.tables() == [3] && !it.has_blob());
    assert_eq!((it.deletions.table_bytes(), read(&it)), (0, 0));
    let view = it.family.view_full();
    let next = view.with_version(view.version.clone(), &[]);
    it.family.set_view(next);
    drop(view);
    assert!(!it.deletions.may_have_unread(), "nothing is obsolete");
}

#[test]
fn a_file_that_only_the_oldest_reader_has_is_kept_for_it() {
    let it = Fixture::new();
    let oldest = it.family.view_full();
    it.remove(&[2]);
    let old = it.family.view_full();
    it.remove(&[1]);
    drop(old);
    assert!(
        it.purge() && it.tables() == [1, 2, 3],
        "the oldest view has all"
    );
    drop(oldest);
    assert!(it.purge() && it.tables() == [3] && !it.has_blob());
}

#[test]
fn a_dropped_family_leaves_its_files_to_its_handles() {
    let it = Fixture::new();
    let base = it.family.view_full();
    it.deletions.retire(&it.family, &base.version, None);
    drop(base);
    assert!(
        it.purge() && it.tables() == [1, 2, 3],
        "a handle reads them"
    );
    let Fixture {
        ground,
        deletions,
        family,
        ..
    } = it;
    drop(family);
    assert!(deletions.may_have_unread());
    let unread = deletions.take_unread().unwrap();
    assert_eq!((unread.tables.len(), unread.blobs.len()), (3, 1));
    deletions.delete_unread(unread);
    assert_eq!(ground.sim.fs.list(Path::new(DIR)).unwrap(), [""; 0]);
}

#[test]
fn nothing_is_deleted_while_deletions_are_disabled_or_files_pinned() {
    let it = Fixture::new();
    it.remove(&[1]);
    it.deletions.disable();
    it.deletions.disable();
    let pin = it.deletions.pin();
    let held = |it: &Fixture| !it.purge() && it.tables() == [1, 2, 3] && it.has_blob();
    it.deletions.delete(&table_path(2));
    assert!(held(&it) && it.deletions.are_pinned());
    it.deletions.enable();
    it.deletions.enable();
    assert!(held(&it) && !it.deletions.are_enabled(), "a copy has a pin");
    it.deletions.disable();
    drop(pin);
    assert!(held(&it) && !it.deletions.are_pinned());
    it.deletions.enable();
    assert!(it.deletions.are_enabled());
    assert_eq!(it.tables(), [1, 3], "the held path is deleted at once");
    assert!(it.purge() && it.tables() == [3] && !it.has_blob());
}

/// Another process may own the directory when the last copy ends.
#[test]
fn held_paths_stay_after_the_directory_was_given_up() {
    let it = Fixture::new();
    let pin = it.deletions.pin();
    it.deletions.delete(&table_path(2));
    it.deletions.give_up_directory();
    drop(pin);
    assert_eq!(it.tables(), [1, 2, 3]);
}

#[test]
fn forgotten_files_are_left_to_the_next_opening() {
    let it = Fixture::new();
    it.remove(&[1]);
    it.deletions.forget();
    assert_eq!(it.deletions.table_bytes(), 0);
    assert!(it.purge() && it.tables() == [1, 2, 3] && it.has_blob());
}

/// The edit moves table 2, which is still in the version, and adds the others.
#[test]
fn outputs_for_a_dropped_family_are_deleted_except_files_that_were_moved() {
    let it = Fixture::new();
    it.remove(&[1, 3]);
    let edit = TreeEdit {
        deleted: vec![(0, FileNumber(2))],
        added: (1..=3).map(|number| (1, table(number))).collect(),
        added_blobs: vec![blob()],
        ..TreeEdit::default()
    };
    it.deletions.delete_outputs(&it.family, &edit);
    assert!(it.tables() == [2] && !it.has_blob());
}

#[test]
#[should_panic(expected = "is in no version")]
fn an_output_in_the_version_is_not_deleted() {
    let it = Fixture::new();
    let edit = TreeEdit {
        added: vec![(1, table(2))],
        ..TreeEdit::default()
    };
    it.deletions.delete_outputs(&it.family, &edit);
}

#[test]
#[should_panic(expected = "is the one that is replaced")]
fn only_the_current_version_is_replaced() {
    let it = Fixture::new();
    let base = it.family.view_full();
    it.remove(&[2]);
    it.deletions.retire(&it.family, &base.version, None);
}
