//! Lists of thread operations: a job held in the middle is listed, and only while it runs.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cairn_db::{Db, OpenRequest, open};
use cairn_observe::Listeners;
use cairn_observe::listener::{
    CompactionJobInfo, EventListener, FileCreationBriefInfo, FlushJobInfo, SubcompactionJobInfo,
    TableFileCreationInfo,
};
use cairn_observe::threads::{self, Operation, Stage, ThreadStatus, ThreadType};
use cairn_options::{CompactRangeOptions, Compression, DbOptions, FlushOptions, ReadOptions};
use cairn_platform::World;
use cairn_platform::sync::{Condvar, Mutex};
use cairn_types::{MergeInput, MergeOperator, TableFileCreationReason};

use crate::basic::{db_options, small};

/// Points at which a job can be held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Point {
    FlushBegins,
    TableBegins(TableFileCreationReason),
    TableEnds(TableFileCreationReason),
    CompactionBegins,
    CompactionCommits,
}

/// Holds a job at a point until it is released, and records its list entry on the job's own thread.
#[derive(Default)]
pub(super) struct Gate {
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Default)]
struct GateState {
    hold: Option<Point>,
    holds: bool,
    seen: Vec<(Point, Vec<ThreadStatus>)>,
}

impl Gate {
    fn pass(&self, point: Point) {
        let list = threads::list();
        let mut state = self.state.lock();
        state.seen.push((point, list));
        if state.hold != Some(point) {
            return;
        }
        state.holds = true;
        self.changed.notify_all();
        while state.hold.is_some() {
            self.changed.wait(&mut state);
        }
        state.holds = false;
    }

    pub(super) fn hold(&self, point: Point) {
        self.state.lock().hold = Some(point);
    }

    /// Waits until a job is held, checks its entry and releases it.
    pub(super) fn look<T>(&self, look: impl FnOnce() -> T) -> T {
        let mut state = self.state.lock();
        while !state.holds {
            let late = self.changed.wait_for(&mut state, Duration::from_secs(60));
            assert!(!late, "a job reaches the point");
        }
        drop(state);
        let seen = look();
        self.state.lock().hold = None;
        self.changed.notify_all();
        seen
    }
}

impl EventListener for Gate {
    fn on_flush_begin(&self, _: &FlushJobInfo) {
        self.pass(Point::FlushBegins);
    }
    fn on_table_file_creation_started(&self, info: &FileCreationBriefInfo) {
        info.reason
            .inspect(|&reason| self.pass(Point::TableBegins(reason)));
    }
    fn on_table_file_created(&self, info: &TableFileCreationInfo) {
        info.brief
            .reason
            .inspect(|&reason| self.pass(Point::TableEnds(reason)));
    }
    fn on_compaction_begin(&self, _: &CompactionJobInfo) {
        self.pass(Point::CompactionBegins);
    }
    fn on_compaction_pre_commit(&self, _: &CompactionJobInfo) {
        self.pass(Point::CompactionCommits);
    }
}

fn open_with(world: &World, path: &str, gate: &Arc<Gate>, options: DbOptions) -> Db {
    let mut family = small();
    family.disable_auto_compactions = true;
    family.compression = Compression::None;
    let options = DbOptions {
        listeners: Listeners::new(vec![gate.clone()]),
        ..options
    };
    open(&OpenRequest {
        path: Path::new(path),
        options: &options,
        families: &[],
        others: Some(&family),
        read_only: false,
        world: world.clone(),
    })
    .expect("it opens")
}

fn tracking() -> DbOptions {
    DbOptions {
        enable_thread_tracking: true,
        ..db_options()
    }
}

fn put_some(db: &Db, value: u8) {
    for n in 0..100_u32 {
        db.put(&n.to_be_bytes(), &[value; 100]).expect("a put");
    }
}

fn only(list: Vec<ThreadStatus>) -> ThreadStatus {
    let [status] = <[_; 1]>::try_from(list).expect("one operation");
    status
}

#[test]
fn a_flush_is_listed_while_it_runs() {
    let world = World::in_memory();
    let gate = Arc::new(Gate::default());
    let db = open_with(&world, "/flushes", &gate, tracking());
    put_some(&db, 1);
    assert_eq!(db.thread_list(), []);
    let at_once = FlushOptions {
        wait: false,
        ..FlushOptions::default()
    };
    for (point, stage, written) in [
        (Point::FlushBegins, Stage::FlushRun, false),
        (
            Point::TableBegins(TableFileCreationReason::Flush),
            Stage::FlushWriteL0,
            false,
        ),
        (
            Point::TableEnds(TableFileCreationReason::Flush),
            Stage::FlushWriteL0,
            true,
        ),
    ] {
        put_some(&db, 2);
        gate.hold(point);
        db.flush_with(&at_once).unwrap();
        let status = gate.look(|| only(db.thread_list()));
        assert_eq!(status.thread_type, ThreadType::HighPriority);
        assert_eq!(
            (&*status.db_name, &*status.cf_name),
            ("/flushes", "default")
        );
        assert_eq!(status.stage, Some(stage), "{point:?}");
        let Operation::Flush(known) = status.operation else {
            panic!("{status:?}");
        };
        assert!(
            known.job_id > 0 && known.bytes_memtables > 10_000,
            "{known:?}"
        );
        // Lines written to the LOG are counted, too.
        assert_eq!(status.bytes_written > 10_000, written, "{status:?}");
        db.wait_until_quiet().unwrap();
        assert_eq!(db.thread_list(), []);
    }
}

#[test]
fn a_compaction_is_listed_with_its_progress() {
    let world = World::in_memory();
    let gate = Arc::new(Gate::default());
    let options = DbOptions {
        max_subcompactions: 4,
        ..tracking()
    };
    let db = open_with(&world, "/compactions", &gate, options);
    for value in 0..3 {
        put_some(&db, value);
        db.flush().unwrap();
    }
    // A flush is listed slightly longer than its table is waited for.
    db.wait_until_quiet().unwrap();
    let total: u64 = db.live_files_metadata().iter().map(|file| file.size).sum();
    let compact = || db.compact_range(None, None, &CompactRangeOptions::default());
    gate.hold(Point::CompactionCommits);
    let held = std::thread::scope(|scope| {
        let compacting = scope.spawn(compact);
        let held = gate.look(|| only(db.thread_list()));
        compacting.join().unwrap().unwrap();
        held
    });
    let seen = std::mem::take(&mut gate.state.lock().seen);
    let at = |wanted: Point| {
        let (_, list) = seen.iter().find(|(point, _)| *point == wanted).unwrap();
        let mine = list
            .iter()
            .filter(|status| status.db_name == "/compactions");
        only(mine.cloned().collect())
    };
    let reason = TableFileCreationReason::Compaction;
    for (status, stage) in [
        (at(Point::CompactionBegins), None),
        (
            at(Point::TableBegins(reason)),
            Some(Stage::CompactionProcessKv),
        ),
        (
            at(Point::TableEnds(reason)),
            Some(Stage::CompactionSyncFile),
        ),
        (held.clone(), None),
    ] {
        assert_eq!(status.stage, stage);
        // The thread belongs to the program, which requested it.
        assert_eq!(status.thread_type, ThreadType::User);
        let Operation::Compaction(known) = status.operation else {
            panic!("{status:?}");
        };
        assert!(known.job_id > 0 && known.is_manual);
        assert!(!known.is_deletion && !known.is_trivial_move);
        assert_eq!((known.base_input_level, known.output_level), (0, 6));
        assert_eq!(known.total_input_bytes, total);
    }
    // Only the properties of the inputs, which listeners receive.
    assert!(at(Point::CompactionBegins).bytes_read < total / 2);
    assert!(at(Point::TableBegins(reason)).bytes_written < 2_000);
    // Every block of the inputs was read, and a table of the same size written; the LOG adds a little.
    let files = db.live_files_metadata();
    let written: u64 = files.iter().map(|file| file.size).sum();
    assert!(
        (written..written + 5_000).contains(&held.bytes_written),
        "{held:?}"
    );
    assert!(held.bytes_read > total / 2, "{held:?}");
    assert_eq!(db.thread_list(), []);
}

/// Subcompactions run on their own threads: their writes count for the compaction, and they are not listed.
#[test]
fn subcompactions_count_for_their_compaction() {
    /// Subcompactions wait here until two of them have begun.
    #[derive(Default)]
    struct Both {
        gate: Arc<Gate>,
        began: Mutex<BTreeSet<u64>>,
        changed: Condvar,
    }
    impl EventListener for Both {
        fn on_subcompaction_begin(&self, info: &SubcompactionJobInfo) {
            let mut began = self.began.lock();
            began.insert(info.thread_id);
            self.changed.notify_all();
            while began.len() < 2 {
                let late = self.changed.wait_for(&mut began, Duration::from_secs(60));
                assert!(!late, "another thread helps");
            }
        }
        fn on_compaction_pre_commit(&self, info: &CompactionJobInfo) {
            self.gate.on_compaction_pre_commit(info);
        }
    }
    let both = Arc::new(Both::default());
    let mut family = small();
    family.disable_auto_compactions = true;
    family.compression = Compression::None;
    let options = DbOptions {
        listeners: Listeners::new(vec![both.clone()]),
        max_subcompactions: 4,
        ..tracking()
    };
    let db = open(&OpenRequest {
        path: Path::new("/parts"),
        options: &options,
        families: &[],
        others: Some(&family),
        read_only: false,
        world: World::in_memory(),
    })
    .unwrap();
    for round in 0..4 {
        for n in 0..2_000_u32 {
            db.put(&n.to_be_bytes(), &[round; 100]).unwrap();
        }
        db.flush().unwrap();
    }
    db.wait_until_quiet().unwrap();
    both.gate.hold(Point::CompactionCommits);
    let held = std::thread::scope(|scope| {
        let compact = || db.compact_range(None, None, &CompactRangeOptions::default());
        let compacting = scope.spawn(compact);
        let held = both.gate.look(|| only(db.thread_list()));
        compacting.join().unwrap().unwrap();
        held
    });
    let files = db.live_files_metadata();
    let written: u64 = files.iter().map(|file| file.size).sum();
    assert!(files.len() > 1 && both.began.lock().len() > 1);
    assert!(
        (written..written + 20_000).contains(&held.bytes_written),
        "{written}: {held:?}"
    );
}

/// A background compaction runs on a thread for compactions; moves are distinguished.
#[test]
fn a_compaction_in_the_background_is_listed() {
    let world = World::in_memory();
    let gate = Arc::new(Gate::default());
    let db = open_with(&world, "/background", &gate, tracking());
    gate.hold(Point::CompactionBegins);
    put_some(&db, 1);
    db.flush().unwrap();
    db.wait_until_quiet().unwrap();
    db.set_options(&[
        ("level0_file_num_compaction_trigger", "1"),
        ("disable_auto_compactions", "false"),
    ])
    .unwrap();
    let status = gate.look(|| only(db.thread_list()));
    assert_eq!(status.thread_type, ThreadType::LowPriority);
    let Operation::Compaction(known) = status.operation else {
        panic!("{status:?}");
    };
    assert!(!known.is_manual && known.is_trivial_move, "{known:?}");
    db.wait_until_quiet().unwrap();
    assert_eq!(db.thread_list(), []);
}

/// An opening cannot be queried from the database that it opens: the list of the process has it.
#[test]
fn openings_and_families_flushed_together_are_listed() {
    let world = World::in_memory();
    let gate = Arc::new(Gate::default());
    let options = DbOptions {
        atomic_flush: true,
        ..tracking()
    };
    let db = open_with(&world, "/openings", &gate, options.clone());
    let second = db.create_family("second", &small()).unwrap();
    put_some(&db, 1);
    second.put(b"k", b"v").unwrap();
    let both = [db.default_family(), &second];
    db.flush_families(&both).unwrap();
    put_some(&db, 2);
    db.close().unwrap();
    let mine = |list: &[ThreadStatus]| -> Vec<ThreadStatus> {
        let mine = list.iter().filter(|status| status.db_name == "/openings");
        mine.cloned().collect()
    };
    let seen = std::mem::take(&mut gate.state.lock().seen);
    let flushes = seen
        .iter()
        .filter(|(point, _)| *point == Point::FlushBegins);
    let names: Vec<_> = flushes.map(|(_, list)| only(mine(list)).cf_name).collect();
    assert_eq!(names, ["default", "second"]);
    let db = open_with(&world, "/openings", &gate, options);
    let seen = std::mem::take(&mut gate.state.lock().seen);
    let recovered = Point::TableEnds(TableFileCreationReason::Recovery);
    let (_, list) = seen.iter().find(|(point, _)| *point == recovered).unwrap();
    let status = only(mine(list));
    assert_eq!(status.operation, Operation::DbOpen);
    assert_eq!(status.thread_type, ThreadType::User);
    // The log was read, and a table written.
    assert!(
        status.bytes_read > 10_000 && status.bytes_written > 0,
        "{status:?}"
    );
    assert_eq!(mine(&threads::list()), []);
    db.verify_checksum(&ReadOptions::default()).unwrap();
    assert_eq!(db.thread_list(), []);
}

#[test]
fn without_the_option_nothing_is_listed() {
    let gate = Arc::new(Gate::default());
    let db = open_with(&World::in_memory(), "/silent", &gate, db_options());
    put_some(&db, 1);
    db.flush().unwrap();
    db.compact_range(None, None, &CompactRangeOptions::default())
        .unwrap();
    let state = gate.state.lock();
    assert!(!state.seen.is_empty());
    let silent = |list: &Vec<ThreadStatus>| !list.iter().any(|status| status.db_name == "/silent");
    assert!(state.seen.iter().all(|(_, list)| silent(list)));
}

/// A job that panics is removed from the list like others.
#[test]
fn a_job_that_panics_is_removed_from_the_list() {
    struct Panics;
    impl MergeOperator for Panics {
        fn name(&self) -> &str {
            "test.Panics"
        }
        fn full_merge(&self, _: &MergeInput<'_>) -> Option<Vec<u8>> {
            panic!("on purpose")
        }
    }
    let gate = Arc::new(Gate::default());
    let world = World::in_memory();
    let mut family = small();
    family.merge_operator = Some(Arc::new(Panics));
    let options = DbOptions {
        listeners: Listeners::new(vec![gate.clone()]),
        ..tracking()
    };
    let db = open(&OpenRequest {
        path: Path::new("/panics"),
        options: &options,
        families: &[],
        others: Some(&family),
        read_only: false,
        world,
    })
    .unwrap();
    db.put(b"k", b"v").unwrap();
    db.merge(b"k", b"operand").unwrap();
    assert!(db.flush().is_err());
    let begun = |(point, list): &(Point, Vec<ThreadStatus>)| {
        let mine = list.iter().any(|status| status.db_name == "/panics");
        *point == Point::FlushBegins && mine
    };
    assert!(gate.state.lock().seen.iter().any(begun));
    assert_eq!(db.thread_list(), []);
}
