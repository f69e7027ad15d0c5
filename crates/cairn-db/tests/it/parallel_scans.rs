//! Scans whose reads are waited for together, counted by a file system whose reads take a millisecond of its
//! own clock; and scans with `async_io` beside others.

use std::sync::Arc;

use cairn_db::{Db, Iter};
use cairn_options::enums::IoMode;
use cairn_options::{CompactRangeOptions, CompactionOptions, ReadOptions, TableFilter};
use cairn_platform::{Clock, World};
use cairn_types::Code;
use proptest::prelude::*;

use crate::parallel_reads::{MS, Still, opened, remote};

fn async_io() -> ReadOptions {
    ReadOptions {
        async_io: true,
        ..ReadOptions::default()
    }
}

fn key(n: u32) -> [u8; 4] {
    n.to_be_bytes()
}

/// Writes the keys of `range` in steps of `step`, as a file of level 0.
fn flush(db: &Db, range: std::ops::Range<u32>, step: usize) {
    for n in range.step_by(step) {
        db.put(&key(n), &[n as u8; 100]).expect("it is written");
    }
    db.flush().expect("it is flushed");
}

/// The size of small files.
const FILE_SIZE: u64 = 64 << 10;

/// Compacts the files of level 0 to `level`, into files of `file_size`.
pub fn compact_to(db: &Db, level: usize, file_size: u64) {
    let files = db.live_files_metadata();
    let upper = files.iter().filter(|file| file.level == 0);
    let names: Vec<&str> = upper.map(|file| &*file.relative_filename).collect();
    let options = CompactionOptions {
        output_file_size_limit: file_size,
        ..CompactionOptions::default()
    };
    let compacted = db
        .default_family()
        .compact_files(&options, &names, level, None);
    compacted.expect("it is compacted");
}

fn files_of(db: &Db, level: usize) -> u64 {
    let files = db.property(&format!("rocksdb.num-files-at-level{level}"));
    files
        .and_then(|text| text.parse().ok())
        .expect("it is a number")
}

/// A tree of four files in level 0, and three levels.
fn tree(world: &World, table: &str, file_size: u64) {
    let db = opened(world, IoMode::Auto, table);
    for level in [3, 2, 1] {
        flush(&db, level as u32..30_000, 7);
        compact_to(&db, level, file_size);
    }
    for file in 0..4 {
        flush(&db, file..30_000, 11);
    }
    let files = [0, 1, 2, 3].map(|level| files_of(&db, level));
    let is_split = |files: &u64| (*files > 1) == (file_size == FILE_SIZE);
    assert!(
        files[0] == 4 && files[1..].iter().all(is_split),
        "{files:?}"
    );
}

/// Opens the tables, which an iterator does one after another when it reaches them.
fn open_tables(db: &Db) {
    let mut iter = db.iter();
    iter.seek_to_first();
    while iter.valid() {
        iter.next();
    }
}

/// The milliseconds that `act` takes.
fn rounds(clock: &Still, act: impl FnOnce()) -> u64 {
    let began = clock.monotonic_nanos();
    act();
    let took = clock.monotonic_nanos() - began;
    assert_eq!(took % MS, 0, "{took}");
    took / MS
}

#[test]
fn a_seek_asks_all_files_and_levels_once() {
    let clock = Arc::new(Still::default());
    let world = remote(&clock);
    let table = "block_size=1024;no_block_cache=true";
    tree(&world, table, FILE_SIZE);
    for (mode, most) in [
        (IoMode::Auto, 130),
        (IoMode::Threads, 130),
        (IoMode::Blocking, 800),
    ] {
        let db = opened(&world, mode, table);
        open_tables(&db);
        let mut iter = db.iter_with(&async_io());
        let mut targets = (0..100_u32).map(|n| n * 7919 % 30_000).collect::<Vec<_>>();
        targets.sort_unstable();
        let seeks = rounds(&clock, || {
            for target in &targets {
                iter.seek(&key(*target));
                assert!(iter.valid());
            }
        });
        let seeks_back = rounds(&clock, || {
            for target in targets.iter().rev() {
                iter.seek_for_prev(&key(*target));
                assert!(iter.valid());
            }
        });
        assert!(seeks <= most, "{mode:?}: {seeks}");
        assert!(seeks_back <= most, "{mode:?}: {seeks_back}");
        let is_parallel = mode != IoMode::Blocking;
        let ends = [
            rounds(&clock, || iter.seek_to_last()),
            rounds(&clock, || iter.seek_to_first()),
        ];
        // The version before the last key may be in another block.
        assert_eq!(ends <= [2, 1], is_parallel, "{ends:?}");
        assert!(iter.valid());
    }
}

#[test]
fn the_partitions_of_all_indexes_are_read_in_one_round() {
    let clock = Arc::new(Still::default());
    let world = remote(&clock);
    let table = "block_size=1024;metadata_block_size=512;index_type=kTwoLevelIndexSearch;\
                 cache_index_and_filter_blocks=true;pin_top_level_index_and_filter=true";
    tree(&world, table, u64::MAX);
    let db = opened(&world, IoMode::Auto, table);
    let mut iter = db.iter_with(&async_io());
    // Opens the tables.
    iter.seek_to_first();
    // Partitions, then data blocks.
    let cold = rounds(&clock, || iter.seek(&key(15_000)));
    assert!(iter.valid());
    assert_eq!(cold, 2);
}

#[test]
fn the_tables_of_a_seek_are_opened_together() {
    let clock = Arc::new(Still::default());
    let world = remote(&clock);
    let table = "block_size=1024;no_block_cache=true";
    tree(&world, table, FILE_SIZE);
    let cold = |mode, options: &ReadOptions| {
        let db = opened(&world, mode, table);
        rounds(&clock, || {
            let mut iter = db.iter_with(options);
            iter.seek(&key(15_000));
            assert!(iter.valid());
        })
    };
    // The tables of level 0, those of three levels, and the blocks.
    assert_eq!(cold(IoMode::Auto, &async_io()), 3);
    assert_eq!(cold(IoMode::Threads, &async_io()), 3);
    assert_eq!(cold(IoMode::Auto, &ReadOptions::default()), 7 + 1);
    assert_eq!(cold(IoMode::Blocking, &async_io()), 7 + 7);
    let db = opened(&world, IoMode::Auto, table);
    let mut iter = db.iter_with(&async_io());
    assert_eq!(rounds(&clock, || iter.seek_to_first()), 2);
    let last = rounds(&clock, || iter.seek_to_last());
    // The version before the last key may be in another block.
    assert!((2..=3).contains(&last), "{last}");
    drop((iter, db));
    let filter = TableFilter::new(|_| true);
    let filtered = ReadOptions {
        table_filter: filter,
        ..async_io()
    };
    // All tables, then the blocks.
    assert_eq!(cold(IoMode::Auto, &filtered), 2);
}

/// The number of entries from the position of `iter` to the end.
fn count(iter: &mut Iter, back: bool) -> usize {
    let mut count = 0;
    while iter.valid() {
        count += 1;
        match back {
            false => iter.next(),
            true => iter.prev(),
        }
    }
    iter.status().expect("nothing failed");
    count
}

#[test]
fn a_scan_over_many_files_does_not_begin_anew_in_each() {
    let clock = Arc::new(Still::default());
    let world = remote(&clock);
    let table = "block_size=4096;no_block_cache=true";
    let db = opened(&world, IoMode::Auto, table);
    flush(&db, 0..60_000, 2);
    flush(&db, 1..60_000, 2);
    compact_to(&db, 1, FILE_SIZE);
    let files = files_of(&db, 1);
    assert!((50..200).contains(&files), "{files}");
    let scan = |options: &ReadOptions, back: bool| {
        let mut iter = db.iter_with(options);
        let mut entries = 0;
        let rounds = rounds(&clock, || {
            match back {
                false => iter.seek_to_first(),
                true => iter.seek_to_last(),
            }
            entries = count(&mut iter, back);
        });
        assert_eq!(entries, 60_000);
        rounds
    };
    open_tables(&db);
    let adaptive = ReadOptions {
        adaptive_readahead: true,
        ..ReadOptions::default()
    };
    let plain = scan(&ReadOptions::default(), false);
    let kept = scan(&adaptive, false);
    let [forward, backward] = [false, true].map(|back| scan(&async_io(), back));
    assert!(plain >= 5 * files, "{plain}");
    assert!((files..=files + 10).contains(&kept), "{kept}");
    assert!(forward <= files / 4, "{forward}");
    assert!(backward <= files / 4, "{backward}");
}

#[test]
fn the_values_in_blob_files_are_read_together() {
    let clock = Arc::new(Still::default());
    let world = remote(&clock);
    let db = opened(&world, IoMode::Auto, "block_size=16384");
    let blobs = [
        ("enable_blob_files", "true"),
        ("enable_blob_columns", "true"),
    ];
    db.default_family().set_options(&blobs).expect("it is set");
    flush(&db, 0..3000, 1);
    let column = |n: u32| [!n as u8; 100];
    for n in (0..3000).step_by(5) {
        db.delete(&key(n)).expect("it is written");
        let columns: [(&[u8], &[u8]); 2] = [(b"", &[(n + 1) as u8; 100]), (b"a", &column(n + 1))];
        db.put_entity(&key(n + 1), &columns).expect("it is written");
    }
    db.flush().expect("it is flushed");
    let scan = |options: &ReadOptions, back: bool| {
        let mut iter = db.iter_with(options);
        let mut entries = 0;
        let rounds = rounds(&clock, || {
            match back {
                false => iter.seek_to_first(),
                true => iter.seek_to_last(),
            }
            while iter.valid() {
                entries += 1;
                let n = u32::from_be_bytes(iter.key().try_into().expect("four bytes"));
                assert_eq!(iter.value(), [n as u8; 100]);
                if n % 5 == 1 {
                    let columns = iter.columns().expect("it is an entity");
                    assert_eq!(columns.get(b"a"), Some(&column(n)[..]));
                }
                match back {
                    false => iter.next(),
                    true => iter.prev(),
                }
            }
        });
        iter.status().expect("nothing failed");
        assert_eq!(entries, 2400);
        rounds
    };
    // The columns of an entity are read together in any case.
    let plain = scan(&ReadOptions::default(), false);
    assert!((2400..2600).contains(&plain), "{plain}");
    for back in [false, true] {
        let rounds = scan(&async_io(), back);
        assert!(rounds <= 80, "{rounds}");
    }
    // The blocks of the table are cached; the values are not.
    let late = ReadOptions {
        deadline: 1,
        ..ReadOptions::default()
    };
    let mut iter = db.iter_with(&late);
    iter.seek_to_first();
    let error = iter.status().expect_err("the value is in a file");
    assert_eq!(error.code(), Code::TimedOut);
}

/// An operation of the property test.
#[derive(Clone, Debug)]
enum Op {
    Put(std::ops::Range<u16>, u8),
    Delete(u16),
    DeleteRange(u16, u16),
    Flush,
    Compact,
    /// Drops the iterators and makes new ones, with these bounds.
    Renew(Option<u16>, Option<u16>),
    First,
    Last,
    Seek(u16),
    SeekForPrev(u16),
    Next(u8),
    Prev(u8),
}

const KEYS: u16 = 3000;

fn op() -> impl Strategy<Value = Op> {
    let at = || 0..KEYS;
    let bound = || prop::option::of(0..KEYS);
    prop_oneof![
        4 => (at(), 1..800_u16, any::<u8>()).prop_map(|(from, len, value)| Op::Put(from..from + len, value)),
        1 => at().prop_map(Op::Delete),
        1 => (at(), 0..300_u16).prop_map(|(from, len)| Op::DeleteRange(from, from + len)),
        2 => Just(Op::Flush),
        1 => Just(Op::Compact),
        2 => (bound(), bound()).prop_map(|(lower, upper)| Op::Renew(lower, upper)),
        1 => Just(Op::First),
        1 => Just(Op::Last),
        2 => at().prop_map(Op::Seek),
        2 => at().prop_map(Op::SeekForPrev),
        4 => any::<u8>().prop_map(Op::Next),
        4 => any::<u8>().prop_map(Op::Prev),
    ]
}

/// Names and values of columns.
type Columns = Vec<(Vec<u8>, Vec<u8>)>;

/// The key of `iter`, and the names and values of its columns.
fn entry(iter: &Iter) -> Option<(Vec<u8>, Columns)> {
    iter.status().expect("nothing failed");
    iter.valid().then(|| {
        let columns = iter.columns().expect("they can be decoded");
        let owned = |(name, value): (&[u8], &[u8])| (name.to_vec(), value.to_vec());
        (iter.key().to_vec(), columns.iter().map(owned).collect())
    })
}

fn moved(iter: &mut Iter, op: &Op) {
    match op {
        Op::First => iter.seek_to_first(),
        Op::Last => iter.seek_to_last(),
        Op::Seek(at) => iter.seek(&key(u32::from(*at))),
        Op::SeekForPrev(at) => iter.seek_for_prev(&key(u32::from(*at))),
        Op::Next(_) => iter.next(),
        Op::Prev(_) => iter.prev(),
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_scan_with_async_io_returns_what_another_does(
        ops in prop::collection::vec(op(), 1..60),
        partitioned: bool,
        in_blob_files: bool,
        fill_cache: bool,
        readahead_size in prop_oneof![2 => Just(0), 1 => 1..40_000_u64],
    ) {
        let world = World::in_memory();
        let table = match partitioned {
            true => "block_size=512;index_type=kTwoLevelIndexSearch;metadata_block_size=256;\
                     cache_index_and_filter_blocks=true;block_cache=100000",
            false => "block_size=512;block_cache=100000",
        };
        let db = opened(&world, IoMode::Threads, table);
        let in_blob_files = if in_blob_files { "true" } else { "false" };
        let smaller = [
            ("target_file_size_base", "20000"),
            ("enable_blob_files", in_blob_files),
            ("enable_blob_columns", in_blob_files),
            ("min_blob_size", "10"),
        ];
        db.default_family().set_options(&smaller).expect("it is set");
        let renewed = |lower: Option<u16>, upper: Option<u16>| {
            let bound = |at: Option<u16>| at.map(|at| key(u32::from(at)).to_vec());
            let plain = ReadOptions {
                iterate_lower_bound: bound(lower),
                iterate_upper_bound: bound(upper),
                ..ReadOptions::default()
            };
            let other = ReadOptions {
                async_io: true,
                fill_cache,
                readahead_size,
                ..plain.clone()
            };
            [db.iter_with(&plain), db.iter_with(&other)]
        };
        let [mut plain, mut other] = renewed(None, None);
        for op in &ops {
            match op {
                Op::Put(range, value) => {
                    for n in range.clone() {
                        let (key, text) = (key(u32::from(n)), [*value; 60]);
                        match value % 3 {
                            0 => db.put_entity(&key, &[(b"", &text), (b"a", &text), (b"b", b"short")]),
                            _ => db.put(&key, &text),
                        }
                        .expect("it is written");
                    }
                }
                Op::Delete(at) => db.delete(&key(u32::from(*at))).expect("it is written"),
                Op::DeleteRange(from, to) => {
                    let [from, to] = [from, to].map(|at| key(u32::from(*at)));
                    db.delete_range(&from, &to).expect("it is written");
                }
                Op::Flush => db.flush().expect("it is flushed"),
                Op::Compact => {
                    let all = CompactRangeOptions::default();
                    let compacted = db.default_family().compact_range(None, None, &all);
                    compacted.expect("it is compacted");
                }
                Op::Renew(lower, upper) => [plain, other] = renewed(*lower, *upper),
                Op::Next(steps) | Op::Prev(steps) => {
                    for _ in 0..*steps {
                        if !plain.valid() {
                            break;
                        }
                        moved(&mut plain, op);
                        moved(&mut other, op);
                        prop_assert_eq!(entry(&plain), entry(&other));
                    }
                }
                _ => {
                    moved(&mut plain, op);
                    moved(&mut other, op);
                    prop_assert_eq!(entry(&plain), entry(&other));
                }
            }
        }
    }
}
