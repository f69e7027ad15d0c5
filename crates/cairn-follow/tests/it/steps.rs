//! A secondary instance of a primary in one simulated world: it catches up before every file operation of the
//! primary, and always has a prefix of the primary's writes.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use cairn_db::{Db, FileTraceReader, FileTraceWriter, Query, Replayer, TraceOptions, TraceWriter};
use cairn_options::CompactRangeOptions;
use cairn_platform::World;
use cairn_platform::sync::Mutex;
use cairn_sim::{Fault, FaultPlan, FaultRule, Rng, SimWorld, Trigger};
use cairn_types::{Code, Error, Result};

use crate::watched::{Hook, Watched};
use crate::{
    Saved, Writer, check_prefix, content, open_follower, open_primary, open_secondary, process,
    rest, write_and_close,
};

/// Options of primaries.
const OPTIONS: [&str; 7] = [
    "",
    "wal_write_mode=kPlain;wal_compression=kZSTD",
    "recycle_log_file_num=2;write_buffer_size=65536",
    "max_manifest_file_size=200;max_manifest_space_amp_pct=0",
    "enable_blob_files=true;min_blob_size=100;blob_file_size=1000",
    "WAL_ttl_seconds=100;level0_file_num_compaction_trigger=2;manual_wal_flush=false",
    DIRECT,
];

/// With values in blob files that the MANIFEST of the primary does not name.
const DIRECT: &str = "enable_blob_files=true;enable_blob_direct_write=true;min_blob_size=20;blob_file_size=1000;\
                      blob_direct_write_partitions=2;level0_file_num_compaction_trigger=2";

/// What a secondary has seen so far.
struct Observer {
    db: Db,
    last: Mutex<usize>,
    is_running: AtomicBool,
    catch_ups: AtomicUsize,
}

impl Observer {
    fn new(db: Db) -> Arc<Observer> {
        Arc::new(Observer {
            db,
            last: Mutex::new(0),
            is_running: AtomicBool::new(false),
            catch_ups: AtomicUsize::new(0),
        })
    }

    /// Checks the content, before and after a catch-up. Returns the number of its last batch.
    fn look(&self, writer: &Arc<Mutex<crate::History>>) -> usize {
        let mut last = self.last.lock();
        let before = content(&self.db).unwrap();
        let history = writer.lock();
        assert_eq!(
            check_prefix(&before, &history),
            *last,
            "it changes in catch-ups only"
        );
        drop(history);
        let mut iterator = self.db.iter();
        iterator.seek_to_first();
        self.db.try_catch_up_with_primary().unwrap();
        self.catch_ups.fetch_add(1, Ordering::Relaxed);
        let history = writer.lock();
        let now = check_prefix(&content(&self.db).unwrap(), &history);
        assert!(now >= *last, "batch {now} after batch {}", *last);
        // An iterator keeps its state.
        let kept = rest(&mut iterator).unwrap();
        assert!(kept == before[0], "an iterator keeps its state");
        *last = now;
        now
    }
}

/// One step of a primary.
fn step(db: &Db, writer: &mut Writer, rng: &mut Rng) -> Result<()> {
    match rng.below(12) {
        0 => db.flush(),
        1 => db.family("other").unwrap().flush(),
        2 => db.flush_families(&[]),
        3 => db
            .compact_range(None, None, &CompactRangeOptions::default())
            .map(drop),
        4 => {
            let options = cairn_options::FamilyOptions::default();
            let left = db
                .family("short")
                .map_or_else(|| db.create_family("short", &options), Ok);
            let family = left?;
            family.put(b"a", b"b")?;
            db.drop_family(&family)
        }
        5 => writer.write(db, 60),
        _ => writer.write(db, 3),
    }?;
    db.wait_until_quiet()
}

/// `world` with `hook` before each read, or before each change.
fn watched(world: &World, reads: bool, hook: Hook) -> World {
    World {
        fs: Arc::new(Watched {
            inner: world.fs.clone(),
            hook,
            reads,
        }),
        ..world.clone()
    }
}

/// The primary takes a step before some of the reads of each catch-up.
fn overtaken(text: &str, seed: u64, copies: bool) {
    let sim = SimWorld::new(seed);
    let primary = open_primary(&sim.world, text).unwrap();
    let mut writer = Writer::new(seed);
    writer.write(&primary, 3).unwrap();
    let history = writer.history.clone();
    // The steps that are left for the current catch-up: a primary that is never slower is never caught up with.
    let left = Arc::new(AtomicUsize::new(0));
    let is_running = AtomicBool::new(false);
    let acting = Mutex::new((writer, Rng::new(seed + 300)));
    let (actor, budget) = (primary.clone(), left.clone());
    let hook: Hook = Arc::new(move || {
        if is_running.swap(true, Ordering::SeqCst) {
            return Ok(());
        }
        let (writer, rng) = &mut *acting.lock();
        if rng.below(4) == 0 && budget.load(Ordering::SeqCst) > 0 {
            budget.fetch_sub(1, Ordering::SeqCst);
            step(&actor, writer, rng).unwrap();
        }
        is_running.store(false, Ordering::SeqCst);
        Ok(())
    });
    let world = watched(&process(&sim, 5), true, hook);
    left.store(10, Ordering::SeqCst);
    let secondary = match copies {
        true => open_follower(&world, text).unwrap(),
        false => open_secondary(&world, text).unwrap(),
    };
    let mut last = 0;
    for round in 0..60 {
        let begun = history.lock().begun;
        left.store(round % 13, Ordering::SeqCst);
        secondary.try_catch_up_with_primary().unwrap();
        left.store(0, Ordering::SeqCst);
        let history = history.lock();
        let now = check_prefix(&content(&secondary).unwrap(), &history);
        assert!(
            now >= last && now >= begun,
            "batch {now} after {last}, {begun} were written"
        );
        last = now;
    }
    assert!(history.lock().begun > 100);
    secondary.close().unwrap();
    primary.close().unwrap();
}

#[test]
fn a_secondary_has_a_prefix_of_the_writes_when_the_primary_writes_between_any_two_reads() {
    for seed in 0..4 {
        for (number, text) in (0..).zip(OPTIONS) {
            // A follower rejects blob files that are not complete.
            overtaken(text, seed * 10 + number, seed == 3 && text != DIRECT);
        }
    }
}

fn run(text: &str, seed: u64, copies: bool) {
    let sim = SimWorld::new(seed);
    let mut writer = Writer::new(seed);
    let mut rng = Rng::new(seed + 100);
    let first = open_primary(&sim.world, text).unwrap();
    writer.write(&first, 3).unwrap();
    first.close().unwrap();
    drop(first);
    let other = process(&sim, 5);
    let secondary = match copies {
        true => open_follower(&other, text).unwrap(),
        false => open_secondary(&other, text).unwrap(),
    };
    let observer = Observer::new(secondary);
    *observer.last.lock() = 1;
    let (history, seen) = (writer.history.clone(), observer.clone());
    let hook: Hook = Arc::new(move || {
        if !seen.is_running.swap(true, Ordering::SeqCst) {
            seen.look(&history);
            seen.is_running.store(false, Ordering::SeqCst);
        }
        Ok(())
    });
    let world = watched(&sim.world, false, hook);
    for _ in 0..3 {
        let primary = open_primary(&world, text).unwrap();
        for _ in 0..12 {
            step(&primary, &mut writer, &mut rng).unwrap();
            // Everything that was acknowledged is in the files.
            let begun = writer.history.lock().begun;
            assert_eq!(observer.look(&writer.history), begun, "{text}");
        }
        primary.close().unwrap();
    }
    let begun = writer.history.lock().begun;
    assert_eq!(observer.look(&writer.history), begun, "{text}");
    assert!(observer.catch_ups.load(Ordering::Relaxed) > 200);
    observer.db.close().unwrap();
}

#[test]
fn a_secondary_has_a_prefix_of_the_writes_at_every_step_of_its_primary() {
    for (seed, text) in (1..).zip(OPTIONS) {
        run(text, seed, false);
    }
}

#[test]
fn a_follower_has_a_prefix_of_the_writes_at_every_step_of_its_leader() {
    run("", 11, true);
    run(OPTIONS[4], 12, true);
}

/// Kills the primary at each of its operations, opens it again, and compares the secondary with it.
#[test]
fn a_secondary_follows_a_primary_that_was_killed_at_any_operation() {
    for (seed, text) in (1..).zip(OPTIONS) {
        let mut at = 0;
        while killed(text, seed, at) {
            at += 7;
        }
        assert!(at > 50, "{at}");
    }
}

/// Returns false if the primary ended before operation `at`.
fn killed(text: &str, seed: u64, at: usize) -> bool {
    let sim = SimWorld::new(seed);
    let mut writer = Writer::new(seed);
    let mut rng = Rng::new(seed + 200);
    let first = open_primary(&sim.world, text).unwrap();
    for _ in 0..6 {
        step(&first, &mut writer, &mut rng).unwrap();
    }
    first.close().unwrap();
    drop(first);
    let observer = Observer::new(open_secondary(&process(&sim, 5), text).unwrap());
    *observer.last.lock() = writer.history.lock().begun;
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    let hook: Hook = Arc::new(move || match counted.fetch_add(1, Ordering::SeqCst) >= at {
        true => Err(Error::io_text("killed")),
        false => Ok(()),
    });
    let world = watched(&sim.world, false, hook);
    if let Ok(primary) = open_primary(&world, text) {
        for _ in 0..8 {
            let _ = step(&primary, &mut writer, &mut rng);
            observer.look(&writer.history);
        }
        let _ = primary.close();
    }
    observer.look(&writer.history);
    let ended = count.load(Ordering::SeqCst) <= at;
    // The next process recovers what is in the files. Later batches have new numbers.
    let again = open_primary(&process(&sim, 6), text).unwrap();
    let recovered = content(&again).unwrap();
    let mut history = writer.history.lock();
    let last = check_prefix(&recovered, &history);
    history.states.truncate(last + 1);
    history.begun = last;
    drop(history);
    assert_eq!(observer.look(&writer.history), last, "{text} at {at}");
    for _ in 0..4 {
        step(&again, &mut writer, &mut rng).unwrap();
        let begun = writer.history.lock().begun;
        assert_eq!(observer.look(&writer.history), begun, "{text} at {at}");
    }
    observer.db.close().unwrap();
    !ended
}

/// Options of primaries whose tables stay as they are flushed.
const UNCOMPACTED: [&str; 2] = [
    "disable_auto_compactions=true",
    "enable_blob_files=true;min_blob_size=100;disable_auto_compactions=true",
];

/// Regression: the MANIFEST and the blob files of a restored primary are read from their beginnings, even if their numbers
/// are the same as before.
#[test]
fn a_secondary_follows_a_primary_that_was_restored() {
    for text in UNCOMPACTED {
        let sim = SimWorld::new(1);
        let fs = &*sim.fs;
        let open = |seed| open_primary(&process(&sim, seed), text).unwrap();
        write_and_close(open(2), &[1; 1000]);
        let saved = Saved::of_primary(fs);
        write_and_close(open(3), &[2; 1000]);
        let secondary = open_secondary(&process(&sim, 4), text).unwrap();
        assert_eq!(
            secondary.get(b"a").unwrap().as_deref(),
            Some(&[2; 1000][..])
        );
        let before = content(&secondary).unwrap();
        let mut iterator = secondary.iter();
        iterator.seek_to_first();
        saved.restore(fs);
        write_and_close(open(5), &[3; 1000]);
        secondary.try_catch_up_with_primary().unwrap();
        let primary = open(6);
        assert_eq!(
            content(&secondary).unwrap(),
            content(&primary).unwrap(),
            "{text}"
        );
        // A reader keeps its files.
        let kept = rest(&mut iterator).unwrap();
        assert_eq!(kept, before[0], "{text}");
        drop(iterator);
        secondary.close().unwrap();
    }
}

/// Regression: the logs of a restored primary are read from their beginnings, even if their numbers, their first records or
/// the MANIFEST are the same as before.
#[test]
fn a_secondary_reads_the_logs_of_a_primary_that_was_restored() {
    for text in ["", "wal_compression=kZSTD", "recycle_log_file_num=2"] {
        for flushes in [false, true] {
            for repeats in [false, true] {
                follow_restored_logs(text, flushes, repeats);
            }
        }
    }
}

/// The restored primary writes the entries of its lost log again if it `repeats`, and then others. It `flushes` before the
/// last ones, so that the log is deleted.
fn follow_restored_logs(text: &str, flushes: bool, repeats: bool) {
    let sim = SimWorld::new(1);
    let fs = &*sim.fs;
    let open = |seed| open_primary(&process(&sim, seed), text).unwrap();
    let put_many = |primary: &Db| {
        for key in 0..20 {
            primary.put(&[b'k', key], &[2; 100]).unwrap();
        }
    };
    write_and_close(open(2), &[1; 10]);
    let saved = Saved::of_primary(fs);
    let primary = open(3);
    put_many(&primary);
    let secondary = open_secondary(&process(&sim, 4), text).unwrap();
    assert_eq!(content(&secondary).unwrap(), content(&primary).unwrap());
    primary.close().unwrap();
    drop(primary);
    saved.restore(fs);
    let primary = open(5);
    if repeats {
        put_many(&primary);
    }
    primary.put(b"a", &[3; 10]).unwrap();
    for key in [b"b", b"c"] {
        if flushes {
            primary.flush().unwrap();
        }
        primary.put(key, &[3; 10]).unwrap();
        secondary.try_catch_up_with_primary().unwrap();
        assert_eq!(
            content(&secondary).unwrap(),
            content(&primary).unwrap(),
            "{text} {flushes} {repeats}"
        );
    }
    secondary.close().unwrap();
    primary.close().unwrap();
}

/// Regression: an obsolete file that a reader keeps was mistaken for the live file to which a restored primary gave its
/// number.
#[test]
fn a_reader_keeps_a_file_whose_number_a_restored_primary_uses_again() {
    for text in UNCOMPACTED {
        let sim = SimWorld::new(1);
        let fs = &*sim.fs;
        let open = |seed| open_primary(&process(&sim, seed), text).unwrap();
        write_and_close(open(2), &[1; 1000]);
        let saved = Saved::of_primary(fs);
        write_and_close(open(3), &[2; 1000]);
        let secondary = open_secondary(&process(&sim, 4), text).unwrap();
        let before = content(&secondary).unwrap();
        let mut iterator = secondary.iter();
        iterator.seek_to_first();
        saved.restore(fs);
        let primary = open(5);
        // The tables of the iterator become obsolete before others have their numbers.
        secondary.try_catch_up_with_primary().unwrap();
        for key in [b"a", b"b"] {
            primary.put(key, &[3; 1000]).unwrap();
            primary.flush().unwrap();
        }
        secondary.try_catch_up_with_primary().unwrap();
        let kept = rest(&mut iterator).unwrap();
        assert_eq!(kept, before[0], "{text}");
        drop(iterator);
        for key in [b"c", b"d"] {
            secondary.try_catch_up_with_primary().unwrap();
            assert_eq!(
                content(&secondary).unwrap(),
                content(&primary).unwrap(),
                "{text}"
            );
            primary.put(key, &[4; 1000]).unwrap();
            primary.flush().unwrap();
        }
        secondary.close().unwrap();
        primary.close().unwrap();
    }
}

/// A write that a secondary refuses is not traced: a replay would perform it.
#[test]
fn the_writes_of_a_secondary_are_not_recorded() {
    let sim = SimWorld::new(1);
    let primary = open_primary(&sim.world, "").unwrap();
    let secondary = open_secondary(&process(&sim, 2), "").unwrap();
    let path = Path::new("/queries.trace");
    for preserve_write_order in [false, true] {
        let options = TraceOptions {
            preserve_write_order,
            ..TraceOptions::default()
        };
        let create = || {
            let writer = FileTraceWriter::create(secondary.world(), path)?;
            Ok(Box::new(writer) as Box<dyn TraceWriter>)
        };
        secondary.start_trace(&options, create).unwrap();
        let refused = secondary.put(b"k", b"refused").unwrap_err();
        assert_eq!(refused.code(), Code::NotSupported);
        secondary.get(b"k").unwrap();
        secondary.end_trace().unwrap();
        let reader = FileTraceReader::open(secondary.world(), path).unwrap();
        let mut replayer = Replayer::new(&primary, &[], Box::new(reader)).unwrap();
        replayer.prepare().unwrap();
        let only = replayer.next().unwrap();
        assert!(matches!(only.query(), Ok(Query::Get { .. })));
        assert_eq!(replayer.next().unwrap_err().code(), Code::Incomplete);
    }
}

/// Fails each file operation of a catch-up: it reports the error or tolerates it, keeps its state, and the next
/// catch-up succeeds.
#[test]
fn a_catch_up_reports_errors_of_files_and_the_next_one_succeeds() {
    for (copies, text) in [(false, ""), (false, OPTIONS[4]), (true, OPTIONS[3])] {
        for fault in [Fault::InputOutput, Fault::NoDescriptor] {
            let (count, _) = faulty(copies, text, fault, usize::MAX);
            let injected = (0..count).filter(|at| faulty(copies, text, fault, *at).1);
            let injected = injected.count();
            assert!(injected > 8, "{injected} faults in {count} operations");
        }
    }
}

/// Returns the number of operations of a catch-up, and true if operation `at` failed.
fn faulty(copies: bool, text: &str, fault: Fault, at: usize) -> (usize, bool) {
    let sim = SimWorld::new(3);
    let mut writer = Writer::new(3);
    let primary = open_primary(&sim.world, text).unwrap();
    writer.write(&primary, 40).unwrap();
    primary.flush_families(&[]).unwrap();
    writer.write(&primary, 40).unwrap();
    let other = process(&sim, 5);
    let secondary = match copies {
        true => open_follower(&other, text).unwrap(),
        false => open_secondary(&other, text).unwrap(),
    };
    let observer = Observer::new(secondary);
    *observer.last.lock() = 2;
    writer.write(&primary, 40).unwrap();
    primary.flush_families(&[]).unwrap();
    writer.write(&primary, 40).unwrap();
    writer.write(&primary, 40).unwrap();
    let begin = sim.fs.operations();
    let rule = FaultRule {
        trigger: Trigger::Operation(begin.saturating_add(at)),
        fault,
        lasts: 1,
    };
    sim.fs.set_plan(FaultPlan::new(vec![rule]));
    let caught_up = observer.db.try_catch_up_with_primary();
    let injected = sim.fs.injected() > 0;
    let count = sim.fs.operations() - begin;
    sim.fs.set_plan(FaultPlan::default());
    let found = content(&observer.db).unwrap();
    let now = check_prefix(&found, &writer.history.lock());
    match caught_up {
        Ok(()) => assert_eq!(now, 5),
        Err(error) => {
            assert!(injected, "{error}");
            assert_eq!(now, 2, "{error}");
        }
    }
    *observer.last.lock() = now;
    assert_eq!(observer.look(&writer.history), 5);
    writer.write(&primary, 3).unwrap();
    assert_eq!(observer.look(&writer.history), 6);
    observer.db.close().unwrap();
    (count, injected)
}
