//! Controls for compactions: files, target levels, pauses and cancellation.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use cairn_db::{Db, SstFileWriter};
use cairn_options::{
    BottommostLevelCompaction, Canceled, CompactRangeOptions, CompactionOptions, CompactionStyle,
    FamilyOptions, IngestExternalFileOptions, WaitForCompactOptions, WriteOptions,
};
use cairn_platform::World;
use cairn_types::{Code, CompactionFilter, FilterDecision, FilterValue, KeyOrder, Subcode};

use crate::basic::small;
use crate::filters::open_with;

fn manual_only() -> FamilyOptions {
    FamilyOptions {
        disable_auto_compactions: true,
        level_compaction_dynamic_level_bytes: false,
        ..small()
    }
}

fn put_and_flush(db: &Db, keys: &[&str], value: &str) {
    for key in keys {
        db.put(key.as_bytes(), value.as_bytes()).expect("a write");
    }
    db.flush().expect("a flush");
}

/// The number of files in each of the first `levels` levels.
pub fn files(db: &Db, levels: usize) -> Vec<u64> {
    (0..levels)
        .map(|level| {
            let text = db.property(&format!("rocksdb.num-files-at-level{level}"));
            let number = text.and_then(|text| text.parse().ok());
            number.expect("a number")
        })
        .collect()
}

fn compact_all(db: &Db, options: &CompactRangeOptions) -> cairn_types::Result<()> {
    db.compact_range(None, None, options)
}

#[test]
fn a_compacted_range_can_change_its_level() {
    let db = open_with(&World::in_memory(), &manual_only()).unwrap();
    put_and_flush(&db, &["a", "b"], "1");
    put_and_flush(&db, &["a", "c"], "2");
    let to = |target_level| CompactRangeOptions {
        change_level: true,
        target_level,
        ..CompactRangeOptions::default()
    };
    compact_all(&db, &to(4)).unwrap();
    assert_eq!(files(&db, 7), [0, 0, 0, 0, 1, 0, 0]);
    compact_all(&db, &to(-1)).unwrap();
    assert_eq!(files(&db, 7), [0, 1, 0, 0, 0, 0, 0]);
    let error = compact_all(&db, &to(9)).unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument);
    assert_eq!(db.get(b"a").unwrap().as_deref(), Some(&b"2"[..]));
    // No pause is left.
    put_and_flush(&db, &["d"], "3");
    compact_all(&db, &CompactRangeOptions::default()).unwrap();
    assert_eq!(files(&db, 7), [0, 2, 0, 0, 0, 0, 0]);
}

#[test]
fn a_range_that_is_not_in_memory_is_compacted_without_a_flush() {
    let db = open_with(&World::in_memory(), &manual_only()).unwrap();
    put_and_flush(&db, &["a", "b"], "1");
    db.put(b"x", b"in memory").unwrap();
    db.compact_range(Some(b"a"), Some(b"c"), &CompactRangeOptions::default())
        .unwrap();
    assert_eq!(
        db.property_number("rocksdb.num-entries-active-mem-table"),
        Some(1)
    );
    db.compact_range(Some(b"a"), Some(b"x"), &CompactRangeOptions::default())
        .unwrap();
    assert_eq!(
        db.property_number("rocksdb.num-entries-active-mem-table"),
        Some(0)
    );
}

/// Regression: files of the FIFO style could be moved below level 0, where they did not expire.
#[test]
fn fifo_has_one_output_level() {
    let fifo = FamilyOptions {
        compaction_style: CompactionStyle::Fifo,
        ..manual_only()
    };
    let db = open_with(&World::in_memory(), &fifo).unwrap();
    put_and_flush(&db, &["a"], "1");
    let to = |level| db.compact_files(&CompactionOptions::default(), &[&newest(&db)], level, None);
    let error = to(2).unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument, "{error}");
    to(0).unwrap();
    assert_eq!(files(&db, 3), [1, 0, 0]);
}

#[test]
fn named_files_are_compacted_into_the_named_level() {
    let db = open_with(&World::in_memory(), &manual_only()).unwrap();
    put_and_flush(&db, &["a", "b"], "1");
    put_and_flush(&db, &["a", "c"], "2");
    put_and_flush(&db, &["x"], "3");
    let options = CompactionOptions::default();
    assert_eq!(
        db.compact_files(&options, &["000099.sst"], 1, None)
            .unwrap_err()
            .code(),
        Code::InvalidArgument
    );
    assert_eq!(
        db.compact_files(&options, &["nonsense"], 1, None)
            .unwrap_err()
            .code(),
        Code::InvalidArgument
    );
    let outputs = db
        .compact_files(&options, &[&newest(&db)], 2, None)
        .unwrap();
    assert_eq!(files(&db, 7), [0, 0, 1, 0, 0, 0, 0]);
    assert_eq!(outputs.len(), 1, "{outputs:?}");
    let moving = CompactionOptions {
        allow_trivial_move: true,
        ..CompactionOptions::default()
    };
    let moved = db.compact_files(&moving, &[&outputs[0]], 5, None).unwrap();
    assert_eq!(moved, outputs);
    assert_eq!(files(&db, 7), [0, 0, 0, 0, 0, 1, 0]);
    assert_eq!(db.get(b"a").unwrap().as_deref(), Some(&b"2"[..]));
    assert_eq!(db.get(b"x").unwrap().as_deref(), Some(&b"3"[..]));
}

/// Regression: the request panicked, with the tree locked.
#[test]
fn tables_of_a_dropped_family_are_not_compacted() {
    let db = open_with(&World::in_memory(), &manual_only()).unwrap();
    let family = db.create_family("other", &manual_only()).unwrap();
    family.put(b"a", b"1").unwrap();
    family.flush().unwrap();
    let tables = db.live_files_metadata();
    let name = &tables[0].relative_filename;
    db.drop_family(&family).unwrap();
    let refused = family.compact_files(&CompactionOptions::default(), &[name], 1, None);
    assert_eq!(refused.unwrap_err().code(), Code::ShutdownInProgress);
    put_and_flush(&db, &["b"], "2");
    compact_all(&db, &CompactRangeOptions::default()).unwrap();
}

/// Returns the name of a table of level 0, which can be compacted within its level.
fn newest(db: &Db) -> String {
    let options = CompactionOptions::default();
    let names = (1..100).rev().map(|n| format!("/db/{n:06}.sst"));
    let mut found = names.filter_map(|name| db.compact_files(&options, &[&name], 0, None).ok());
    found.next().expect("a table").remove(0)
}

#[test]
fn whole_files_of_a_range_are_deleted() {
    let db = open_with(&World::in_memory(), &manual_only()).unwrap();
    for keys in [["a", "b"], ["d", "e"], ["x", "y"]] {
        put_and_flush(&db, &keys, "1");
        compact_all(&db, &CompactRangeOptions::default()).unwrap();
    }
    let before: u64 = files(&db, 7).iter().sum();
    assert_eq!(before, 3, "{:?}", files(&db, 7));
    db.delete_files_in_ranges(&[(Some(b"a"), Some(b"e"))], false)
        .unwrap();
    assert!(db.get(b"a").unwrap().is_none() && db.get(b"d").unwrap().is_some());
    db.delete_files_in_ranges(&[(Some(b"a"), Some(b"e")), (Some(b"y"), None)], true)
        .unwrap();
    assert!(db.get(b"d").unwrap().is_none() && db.get(b"x").unwrap().is_some());
}

#[test]
fn a_clipped_family_has_the_keys_of_its_range_and_no_others() {
    for order in [KeyOrder::Bytewise, KeyOrder::ReverseBytewise] {
        let family = FamilyOptions {
            comparator: order.clone(),
            ..manual_only()
        };
        let db = open_with(&World::in_memory(), &family).unwrap();
        // Keys in tables of the last level, in level 0 and in the memtable, on either side.
        for keys in [["a", "b"], ["m", "n"], ["x", "y"]] {
            put_and_flush(&db, &keys, "1");
            compact_all(&db, &CompactRangeOptions::default()).unwrap();
        }
        put_and_flush(&db, &["b", "m", "n", "x"], "2");
        db.put(b"a", b"3").unwrap();
        db.put(b"n", b"3").unwrap();
        db.put(b"y", b"3").unwrap();
        let (begin, end): (&[u8], &[u8]) = match order {
            KeyOrder::Bytewise => (b"b", b"n"),
            _ => (b"n", b"a"),
        };
        let error = db.default_family().clip(end, begin).unwrap_err();
        assert_eq!(error.code(), Code::InvalidArgument, "{error}");
        db.default_family().clip(begin, end).unwrap();
        let check = || {
            let mut found = Vec::new();
            let mut iter = db.iter();
            iter.seek_to_first();
            while iter.valid() {
                found.push((iter.key().to_vec(), iter.value().to_vec()));
                iter.next();
            }
            let expected: &[(&[u8], &[u8])] = match order {
                KeyOrder::Bytewise => &[(b"b", b"2"), (b"m", b"2")],
                _ => &[(b"n", b"3"), (b"m", b"2"), (b"b", b"2")],
            };
            let found: Vec<_> = found.iter().map(|(k, v)| (&k[..], &v[..])).collect();
            assert_eq!(found, expected);
        };
        check();
        compact_all(&db, &CompactRangeOptions::default()).unwrap();
        check();
    }
}

#[test]
fn a_suggested_range_is_compacted_and_promoted_files_stay() {
    let family = FamilyOptions {
        level_compaction_dynamic_level_bytes: false,
        ..small()
    };
    let db = open_with(&World::in_memory(), &family).unwrap();
    put_and_flush(&db, &["a", "b"], "1");
    db.promote_level_zero(2).unwrap();
    put_and_flush(&db, &["a", "c"], "2");
    assert_eq!(files(&db, 7), [1, 0, 1, 0, 0, 0, 0]);
    assert_eq!(
        db.promote_level_zero(2).unwrap_err().code(),
        Code::InvalidArgument
    );
    db.suggest_compact_range(Some(b"c"), None).unwrap();
    db.wait_for_compact(&WaitForCompactOptions::default())
        .unwrap();
    assert_eq!(files(&db, 7), [0, 0, 1, 0, 0, 0, 0]);
}

/// Regression: a ban that was lifted in advance took effect nevertheless.
#[test]
fn bans_are_counted_from_below_zero() {
    let db = open_with(&World::in_memory(), &small()).unwrap();
    let everything = || compact_all(&db, &CompactRangeOptions::default());
    put_and_flush(&db, &["a", "b"], "1");
    db.enable_manual_compaction();
    db.disable_manual_compaction();
    everything().unwrap();
    db.disable_manual_compaction();
    assert_eq!(
        everything().unwrap_err().subcode(),
        Subcode::ManualCompactionPaused
    );
    db.enable_manual_compaction();
    everything().unwrap();
}

#[test]
fn paused_work_waits_and_continues() {
    let family = FamilyOptions {
        level0_file_num_compaction_trigger: 2,
        ..small()
    };
    let db = open_with(&World::in_memory(), &family).unwrap();
    db.disable_manual_compaction();
    db.abort_all_compactions();
    put_and_flush(&db, &["a", "b"], "1");
    put_and_flush(&db, &["a", "b"], "2");
    assert_eq!(files(&db, 7)[0], 2, "compactions are aborted");
    let wait = WaitForCompactOptions {
        timeout: 20_000,
        ..WaitForCompactOptions::default()
    };
    assert_eq!(
        db.wait_for_compact(&wait).unwrap_err().code(),
        Code::TimedOut
    );
    let error = compact_all(&db, &CompactRangeOptions::default()).unwrap_err();
    assert_eq!(
        (error.code(), error.subcode()),
        (Code::Incomplete, Subcode::ManualCompactionPaused)
    );
    db.enable_manual_compaction();
    let error = compact_all(&db, &CompactRangeOptions::default()).unwrap_err();
    assert_eq!(error.subcode(), Subcode::CompactionAborted);
    db.pause_background_work();
    let no_pause = WaitForCompactOptions {
        abort_on_pause: true,
        ..WaitForCompactOptions::default()
    };
    assert_eq!(
        db.wait_for_compact(&no_pause).unwrap_err().code(),
        Code::Aborted
    );
    db.resume_all_compactions();
    assert_eq!(files(&db, 7)[0], 2, "work is paused");
    db.continue_background_work().unwrap();
    assert_eq!(
        db.continue_background_work().unwrap_err().code(),
        Code::InvalidArgument
    );
    let close = WaitForCompactOptions {
        wait_for_purge: true,
        close_db: true,
        ..WaitForCompactOptions::default()
    };
    let snapshot = db.snapshot();
    let error = db.wait_for_compact(&close).unwrap_err();
    assert_eq!(error.code(), Code::Aborted, "{error}");
    db.put(b"a", b"2").unwrap();
    drop(snapshot);
    db.wait_for_compact(&close).unwrap();
    assert_eq!(
        db.put(b"a", b"3").unwrap_err().code(),
        Code::ShutdownInProgress
    );
}

/// Reports when it is reached, and waits until it is released.
struct Gate {
    reached: AtomicBool,
    open: AtomicBool,
}

impl CompactionFilter for Gate {
    fn name(&self) -> &str {
        "gate"
    }

    fn filter(&self, _: usize, _: &[u8], _: FilterValue<'_>) -> FilterDecision {
        self.reached.store(true, Ordering::Release);
        while !self.open.load(Ordering::Acquire) {
            thread::yield_now();
        }
        FilterDecision::Keep
    }
}

/// A running manual compaction is stopped in each possible way.
#[test]
fn a_running_manual_compaction_can_be_cancelled() {
    for way in ["flag", "ban", "abort"] {
        let gate = Arc::new(Gate {
            reached: AtomicBool::new(false),
            open: AtomicBool::new(false),
        });
        let family = FamilyOptions {
            compaction_filter: (gate.clone() as Arc<dyn CompactionFilter>).into(),
            write_buffer_size: 1 << 20,
            ..manual_only()
        };
        let db = open_with(&World::in_memory(), &family).unwrap();
        for n in 0..2000 {
            db.put(format!("key{n:05}").as_bytes(), b"value").unwrap();
        }
        let canceled = Canceled::new();
        let options = CompactRangeOptions {
            canceled: canceled.clone(),
            bottommost_level_compaction: BottommostLevelCompaction::Force,
            exclusive_manual_compaction: true,
            ..CompactRangeOptions::default()
        };
        thread::scope(|scope| {
            let compaction = scope.spawn(|| compact_all(&db, &options));
            while !gate.reached.load(Ordering::Acquire) {
                thread::yield_now();
            }
            let stopper = scope.spawn(|| match way {
                "flag" => canceled.cancel(),
                "ban" => db.disable_manual_compaction(),
                _ => db.abort_all_compactions(),
            });
            // Rejected from the moment running ones are cancelled.
            let probe = CompactionOptions {
                canceled: canceled.clone(),
                ..CompactionOptions::default()
            };
            let refused = || {
                let error = db.compact_files(&probe, &["000099.sst"], 1, None);
                error.is_err_and(|error| error.code() == Code::Incomplete)
            };
            while !refused() {
                thread::yield_now();
            }
            gate.open.store(true, Ordering::Release);
            let error = compaction.join().unwrap().unwrap_err();
            assert_eq!(error.code(), Code::Incomplete, "{way}: {error}");
            stopper.join().unwrap();
        });
        assert!(db.background_error().is_none());
        db.put(b"still", b"writable").unwrap();
        match way {
            "ban" => db.enable_manual_compaction(),
            "abort" => db.resume_all_compactions(),
            _ => {}
        }
        compact_all(&db, &CompactRangeOptions::default()).unwrap();
        assert_eq!(files(&db, 7)[0], 0);
    }
}

#[test]
fn a_database_with_cancelled_background_work_can_be_read() {
    let db = open_with(&World::in_memory(), &small()).unwrap();
    put_and_flush(&db, &["a"], "1");
    db.cancel_all_background_work(true).unwrap();
    assert_eq!(db.get(b"a").unwrap().as_deref(), Some(&b"1"[..]));
    assert_eq!(
        compact_all(&db, &CompactRangeOptions::default())
            .unwrap_err()
            .code(),
        Code::ShutdownInProgress
    );
    db.close().unwrap();
}

#[test]
fn automatic_compactions_can_be_enabled() {
    let family = FamilyOptions {
        level0_file_num_compaction_trigger: 2,
        ..manual_only()
    };
    let db = open_with(&World::in_memory(), &family).unwrap();
    put_and_flush(&db, &["a", "b"], "1");
    put_and_flush(&db, &["a", "b"], "2");
    assert_eq!(files(&db, 7)[0], 2);
    db.enable_auto_compaction().unwrap();
    db.wait_for_compact(&WaitForCompactOptions::default())
        .unwrap();
    assert_eq!(files(&db, 7)[0], 0);
}

/// A table that only hides a key of another one is entirely outside and is dropped at once: the key stays
/// hidden.
#[test]
fn a_clip_does_not_restore_deleted_keys() {
    let world = World::in_memory();
    let db = open_with(&world, &manual_only()).unwrap();
    db.put(b"0", b"outside").unwrap();
    db.put(b"a", b"inside").unwrap();
    db.put(b"z", b"outside").unwrap();
    let deep = CompactRangeOptions {
        change_level: true,
        target_level: 5,
        ..CompactRangeOptions::default()
    };
    db.compact_range(None, None, &deep).unwrap();
    let mut writer = SstFileWriter::for_family(db.default_family());
    writer.open(Path::new("/deletion.sst")).unwrap();
    writer.delete(b"z").unwrap();
    writer.finish().unwrap();
    db.ingest_external_file(["/deletion.sst"], &IngestExternalFileOptions::default())
        .unwrap();
    assert!(db.get(b"z").unwrap().is_none());
    db.default_family().clip(b"a", b"m").unwrap();
    for compacted in [false, true] {
        assert!(db.get(b"z").unwrap().is_none(), "{compacted}");
        assert_eq!(db.get(b"a").unwrap().as_deref(), Some(&b"inside"[..]));
        db.compact_range(None, None, &CompactRangeOptions::default())
            .unwrap();
    }
}

/// Closing flushes writes without a log even if the program has paused background work, and does not wait for its end.
#[test]
fn closing_flushes_in_spite_of_pauses() {
    let world = World::in_memory();
    let db = open_with(&world, &manual_only()).unwrap();
    let unlogged = WriteOptions {
        disable_wal: true,
        ..WriteOptions::default()
    };
    db.put_with(b"a", b"1", &unlogged).unwrap();
    db.pause_background_work();
    db.pause_background_work();
    db.close().unwrap();
    drop(db);
    let db = open_with(&world, &manual_only()).unwrap();
    assert_eq!(db.get(b"a").unwrap().as_deref(), Some(&b"1"[..]));
}
