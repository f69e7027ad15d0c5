//! Manual compactions that wait for something other than a compaction.

use std::cell::Cell;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use cairn_db::SstFileWriter;
use cairn_observe::listener::{EventListener, WriteStallInfo};
use cairn_observe::{Listeners, StallCondition};
use cairn_options::{CompactRangeOptions, DbOptions, FamilyOptions, IngestExternalFileOptions};
use cairn_platform::sync::{Condvar, Mutex};
use cairn_platform::{Clock, Executor, Job, Priority, World};

use crate::basic::{db_options, open_with, small};
use crate::controls::files;
use crate::hooked_files::{Operation, world_with};

thread_local! {
    /// True on the thread whose steps are counted.
    static IS_COUNTED: Cell<bool> = const { Cell::new(false) };
}

/// More than the reads of the clock of a few attempts to pick a compaction.
const MOST_READS: usize = 1000;

/// A gate that the counted thread opens when it waits, or after many reads of the clock.
#[derive(Default)]
struct Gate {
    open: Mutex<bool>,
    changed: Condvar,
    /// True once a sync of the MANIFEST is to wait for the gate.
    armed: AtomicBool,
    /// True once a sync waits.
    reached: AtomicBool,
    /// True once the counted thread has waited.
    waited: AtomicBool,
    reads: AtomicUsize,
}

impl Gate {
    fn open(&self) {
        *self.open.lock() = true;
        self.changed.notify_all();
    }

    fn pass(&self) {
        self.reached.store(true, Ordering::Release);
        let mut open = self.open.lock();
        while !*open {
            self.changed.wait(&mut open);
        }
    }
}

struct CountingClock {
    inner: Arc<dyn Clock>,
    gate: Arc<Gate>,
}

impl Clock for CountingClock {
    fn wall_micros(&self) -> u64 {
        if IS_COUNTED.get() && self.gate.reads.fetch_add(1, Ordering::Relaxed) == MOST_READS {
            self.gate.open();
        }
        self.inner.wall_micros()
    }

    fn monotonic_nanos(&self) -> u64 {
        self.inner.monotonic_nanos()
    }

    fn sleep(&self, duration: Duration) {
        self.inner.sleep(duration);
    }

    fn is_real(&self) -> bool {
        self.inner.is_real()
    }
}

/// An executor whose `help` shows that a thread is about to wait.
struct Watched {
    inner: Arc<dyn Executor>,
    gate: Arc<Gate>,
}

impl Executor for Watched {
    fn spawn(&self, priority: Priority, job: Job) {
        self.inner.spawn(priority, job);
    }

    fn spawn_after(&self, delay: Duration, priority: Priority, job: Job) {
        self.inner.spawn_after(delay, priority, job);
    }

    fn help(&self) -> bool {
        if IS_COUNTED.get() {
            self.gate.waited.store(true, Ordering::Release);
            self.gate.open();
        }
        self.inner.help()
    }

    fn reserve(&self, priority: Priority, threads: usize) {
        self.inner.reserve(priority, threads);
    }

    fn threads(&self, priority: Priority) -> usize {
        self.inner.threads(priority)
    }
}

/// Returns a world whose next sync of a file with `part` in its name waits for the gate, once that is armed.
fn gated(part: &'static str) -> (World, Arc<Gate>) {
    let gate = Arc::new(Gate::default());
    let hook = gate.clone();
    let world = world_with(move |operation, path| {
        let is_sync = operation == Operation::Sync && path.to_string_lossy().contains(part);
        if is_sync && hook.armed.swap(false, Ordering::AcqRel) {
            hook.pass();
        }
    });
    let world = World {
        clock: Arc::new(CountingClock {
            inner: world.clock.clone(),
            gate: gate.clone(),
        }),
        executor: Arc::new(Watched {
            inner: world.executor.clone(),
            gate: gate.clone(),
        }),
        ..world
    };
    (world, gate)
}

/// Regression: while files were being ingested into the output range and no compaction was running, a manual compaction
/// picked in a loop, with the tree locked.
#[test]
fn a_manual_compaction_sleeps_while_files_are_ingested() {
    let (world, gate) = gated("MANIFEST");
    let family = FamilyOptions {
        disable_auto_compactions: true,
        ..small()
    };
    let db = open_with(&world, &db_options(), &family).expect("it opens");
    for _ in 0..2 {
        db.put(b"a", b"1").expect("a write");
        db.put(b"c", b"1").expect("a write");
        db.flush().expect("a flush");
    }
    let mut writer = SstFileWriter::for_family(db.default_family());
    writer.open(Path::new("/b.sst")).expect("it is created");
    writer.put(b"b", b"2").expect("an entry");
    writer.finish().expect("it is written");
    gate.armed.store(true, Ordering::Release);
    thread::scope(|scope| {
        let ingestion = scope.spawn(|| {
            let options = IngestExternalFileOptions::default();
            db.ingest_external_file(["/b.sst"], &options)
        });
        while !gate.reached.load(Ordering::Acquire) {
            thread::yield_now();
        }
        let compaction = scope.spawn(|| {
            IS_COUNTED.set(true);
            let options = CompactRangeOptions::default();
            db.compact_range(Some(b"a"), Some(b"c"), &options)
        });
        let compacted = compaction.join().expect("it does not panic");
        compacted.expect("it waits for the ingestion and succeeds");
        let ingested = ingestion.join().expect("it does not panic");
        ingested.expect("the file fits");
    });
    assert!(gate.waited.load(Ordering::Acquire));
    assert!(gate.reads.load(Ordering::Relaxed) < MOST_READS);
    assert_eq!(files(&db, 1), [0]);
    assert_eq!(db.get(b"b").expect("a read").as_deref(), Some(&b"2"[..]));
    db.close().expect("it closes");
}

/// A listener that counts the stops of writes.
#[derive(Default)]
struct Stops(AtomicUsize);

impl EventListener for Stops {
    fn on_stall_conditions_changed(&self, info: &WriteStallInfo) {
        let stops = info.current == StallCondition::Stopped;
        self.0.fetch_add(usize::from(stops), Ordering::Relaxed);
    }
}

/// Without `allow_write_stall`, a manual compaction does not switch a memtable while one more would stop writes.
#[test]
fn a_manual_compaction_flushes_when_there_is_room_for_another_memtable() {
    let (world, gate) = gated(".sst");
    let stops = Arc::new(Stops::default());
    let options = DbOptions {
        listeners: Listeners::new(vec![stops.clone()]),
        ..db_options()
    };
    let family = FamilyOptions {
        max_write_buffer_number: 2,
        ..small()
    };
    let db = open_with(&world, &options, &family).expect("it opens");
    db.put(b"a", b"1").expect("a write");
    gate.armed.store(true, Ordering::Release);
    thread::scope(|scope| {
        let flush = scope.spawn(|| db.flush());
        while !gate.reached.load(Ordering::Acquire) {
            thread::yield_now();
        }
        db.put(b"b", b"1").expect("a write");
        let compaction = scope.spawn(|| {
            IS_COUNTED.set(true);
            db.compact_range(None, None, &CompactRangeOptions::default())
        });
        let compacted = compaction.join().expect("it does not panic");
        compacted.expect("it waits for the flush and succeeds");
        flush.join().expect("no panic").expect("a flush");
    });
    assert!(gate.waited.load(Ordering::Acquire));
    assert_eq!(stops.0.load(Ordering::Relaxed), 0);
    db.close().expect("it closes");
}
