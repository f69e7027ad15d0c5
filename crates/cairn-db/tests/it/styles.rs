//! Universal and FIFO compaction in a database.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use cairn_db::{Db, FamilyDescriptor, OpenRequest, open};
use cairn_observe::CompactionReason;
use cairn_observe::listener::{CompactionFileInfo, CompactionJobInfo, EventListener};
use cairn_options::{
    CompactRangeOptions, CompactionStyle, FamilyOptions, Options, WaitForCompactOptions,
};
use cairn_platform::World;
use cairn_platform::sync::Mutex;
use cairn_sim::SimWorld;
use cairn_types::Code;

use crate::basic::{db_options, small};
use crate::controls::files;
use crate::errors::of_kind;
use crate::filters::open_with;

fn styled(text: &str) -> FamilyOptions {
    let mut family = small();
    family.update_from(text).expect("option text");
    family
}

/// Overwrites 3000 keys several times.
fn load(db: &Db, rounds: u32) {
    for round in 0..rounds {
        for n in 0..3000_u32 {
            let key = format!("key{:05}", n * 7919 % 3000);
            let value = format!("value of round {round}, {}", "x".repeat((n % 40) as usize));
            db.put(key.as_bytes(), value.as_bytes()).expect("a write");
        }
    }
    db.flush().expect("a flush");
    db.wait_for_compact(&WaitForCompactOptions::default())
        .expect("peace");
}

fn count(db: &Db) -> usize {
    let mut iter = db.iter();
    iter.seek_to_first();
    let mut count = 0;
    while iter.valid() {
        count += 1;
        iter.next();
    }
    iter.status().expect("the scan returns no error");
    count
}

#[test]
fn a_universal_tree_has_all_writes_and_few_runs() {
    for levels in [1, 7] {
        let world = World::in_memory();
        let family = styled(&format!(
            "compaction_style=kCompactionStyleUniversal;num_levels={levels};\
             compaction_options_universal={{size_ratio=10;max_size_amplification_percent=100}}"
        ));
        for _ in 0..2 {
            let db = open_with(&world, &family).unwrap();
            load(&db, 3);
            assert_eq!(count(&db), 3000);
            let runs: u64 = files(&db, levels)[..1].iter().sum();
            assert!(runs <= 4, "{:?}", files(&db, levels));
            db.close().unwrap();
        }
        let db = open_with(&world, &family).unwrap();
        db.compact_range(Some(b"a"), Some(b"b"), &CompactRangeOptions::default())
            .unwrap();
        let all = files(&db, levels);
        assert_eq!(all.iter().rev().skip(1).sum::<u64>(), 0, "{all:?}");
        assert!(all[levels - 1] > 0);
        assert_eq!(count(&db), 3000);
    }
}

/// A leveled database is opened with universal compaction, and vice versa.
#[test]
fn styles_can_change_between_openings() {
    let world = World::in_memory();
    for style in ["Level", "Universal", "None", "Level"] {
        let family = styled(&format!("compaction_style=kCompactionStyle{style}"));
        let db = open_with(&world, &family).unwrap();
        load(&db, 1);
        assert_eq!(count(&db), 3000, "{style}");
    }
}

#[test]
fn a_fifo_tree_drops_the_oldest_data() {
    let mut family = styled("compaction_style=kCompactionStyleFIFO;num_levels=1");
    family.compaction_options_fifo.max_table_files_size = 200 << 10;
    let db = open_with(&World::in_memory(), &family).unwrap();
    for n in 0..10_000_u32 {
        // Hardly compressible.
        let value = format!(
            "{:x}{:x}",
            n.wrapping_mul(2_654_435_761),
            n.wrapping_mul(97)
        );
        db.put(format!("key{n:05}").as_bytes(), value.repeat(4).as_bytes())
            .unwrap();
    }
    db.flush().unwrap();
    db.wait_for_compact(&WaitForCompactOptions::default())
        .unwrap();
    let bytes = db.property_number("rocksdb.live-sst-files-size").unwrap();
    assert!(bytes <= 200 << 10, "{bytes}");
    assert!(db.get(b"key00000").unwrap().is_none());
    assert!(db.get(b"key09999").unwrap().is_some());
    let change = CompactRangeOptions {
        change_level: true,
        ..CompactRangeOptions::default()
    };
    let error = db.compact_range(None, None, &change).unwrap_err();
    assert_eq!(error.code(), Code::NotSupported);
    db.compact_range(None, None, &CompactRangeOptions::default())
        .unwrap();
    assert!(db.get(b"key09999").unwrap().is_some());
}

#[test]
fn unsupported_options_of_styles_are_rejected_by_name() {
    for (text, name) in [
        ("compaction_options_fifo={age_for_warm=7}", "age_for_warm"),
        (
            "compaction_style=kCompactionStyleUniversal;\
             compaction_options_universal={max_read_amp=2}",
            "max_read_amp",
        ),
    ] {
        let error = open_with(&World::in_memory(), &styled(text)).err().unwrap();
        assert_eq!(error.code(), Code::NotSupported, "{text}");
        assert!(error.text().contains(name), "{error}");
    }
    let family = styled("compaction_style=kCompactionStyleNone");
    assert_eq!(family.compaction_style, CompactionStyle::None);
}

/// Tables whose values are in blob files are much smaller than memtables: they are merged by size ratio up to
/// the size that the limit requires, each a few times.
#[test]
fn a_fifo_tree_of_small_tables_is_merged_by_tiers() {
    let world = World::in_memory();
    let family = styled(
        "compaction_style=kCompactionStyleFIFO;num_levels=1;enable_blob_files=true;\
         min_blob_size=100;level0_file_num_compaction_trigger=4;max_compaction_bytes=0;\
         compaction_options_fifo={max_table_files_size=1K;max_data_files_size=64M;\
         allow_compaction=true;use_kv_ratio_compaction=true}",
    );
    let db = open_with(&world, &family).unwrap();
    let mut tables = Vec::new();
    for round in 0..64_u32 {
        for n in 0..20_u32 {
            let key = format!("key{n:04}{round:04}");
            db.put(key.as_bytes(), &[round as u8; 2000]).unwrap();
        }
        db.flush().unwrap();
        db.wait_for_compact(&WaitForCompactOptions::default())
            .unwrap();
        tables.push(files(&db, 1)[0]);
    }
    assert_eq!(count(&db), 64 * 20);
    // Few at all times, but not one after every flush.
    assert!(tables.iter().all(|&tables| tables < 12), "{tables:?}");
    let several = tables.iter().filter(|&&tables| tables > 1).count();
    assert!(several > 40, "{tables:?}");
    // Merged, not dropped.
    for round in [0_u32, 63] {
        let key = format!("key0007{round:04}");
        let value = db.get(key.as_bytes()).unwrap().unwrap();
        assert_eq!(&value[..], &[round as u8; 2000]);
    }
}

/// Regression: a merge that had failed because of a damaged table was picked again with it, and panicked.
#[test]
fn a_fifo_tree_is_merged_without_a_damaged_table_which_is_dropped_in_its_turn() {
    let sim = SimWorld::new(1);
    let family = styled(
        "compaction_style=kCompactionStyleFIFO;num_levels=1;level0_file_num_compaction_trigger=2;\
         compression=kNoCompression;disable_auto_compactions=true;\
         compaction_options_fifo={max_table_files_size=1M;allow_compaction=true}",
    );
    let db = open_with(&sim.world, &family).unwrap();
    let put = |key: &str, len: usize| {
        db.put(key.as_bytes(), &vec![b'x'; len]).unwrap();
        db.flush().unwrap();
    };
    put("old", 20_000);
    for table in of_kind(&sim, "sst") {
        sim.fs.flip_bit(&table, 20, 1).unwrap();
    }
    put("newer", 1000);
    db.set_options(&[("disable_auto_compactions", "false")])
        .unwrap();
    db.wait_until_quiet().unwrap();
    assert_eq!((db.damaged_tables().len(), files(&db, 1)), (1, vec![2]));
    put("newest", 1000);
    db.wait_until_quiet().unwrap();
    assert_eq!(files(&db, 1), [2], "the damaged table and a merged one");
    assert_eq!(db.background_error_state(), None);

    let limited = "{max_table_files_size=10000;allow_compaction=true}";
    db.set_options(&[("compaction_options_fifo", limited)])
        .unwrap();
    db.wait_until_quiet().unwrap();
    assert_eq!(files(&db, 1), [1]);
    assert!(db.damaged_tables().is_empty(), "it is deleted");
    assert!(db.get(b"old").unwrap().is_none());
    for key in ["newer", "newest"] {
        let found = db.get(key.as_bytes()).unwrap();
        assert_eq!(found.map(|value| value.len()), Some(1000), "{key}");
    }
    db.close().unwrap();
}

/// A universal tree with incremental merges: compactions for space amplification rewrite a part of it, and reads
/// are correct at all times.
#[test]
fn a_universal_tree_is_merged_incrementally() {
    let world = World::in_memory();
    let family = styled(
        "compaction_style=kCompactionStyleUniversal;num_levels=7;target_file_size_base=8K;compression=kNoCompression;\
         level0_file_num_compaction_trigger=2;max_compaction_bytes=64K;\
         compaction_options_universal={incremental=true;max_size_amplification_percent=100}",
    );
    let diary = Arc::new(Sizes::default());
    let mut options = db_options();
    options.listeners.push(diary.clone());
    let db = open(&OpenRequest {
        path: Path::new("/db"),
        options: &options,
        families: &[FamilyDescriptor::new("default", family)],
        others: None,
        read_only: false,
        world,
    })
    .unwrap();
    load(&db, 1);
    for round in 1..60_u32 {
        // Nothing is written during compactions, so that picks are deterministic.
        for n in 0..500_u32 {
            let key = format!("key{:05}", (round * 500 + n) * 7919 % 3000);
            let value = format!("value of round {round}, {}", "x".repeat((n % 40) as usize));
            db.put(key.as_bytes(), value.as_bytes()).unwrap();
        }
        db.flush().unwrap();
        db.wait_for_compact(&WaitForCompactOptions::default())
            .unwrap();
        assert_eq!(count(&db), 3000, "in round {round}");
        let last = format!("key{:05}", (round * 500 + 499) * 7919 % 3000);
        let value = db.get(last.as_bytes()).unwrap().unwrap();
        assert!(value.starts_with(format!("value of round {round},").as_bytes()));
    }
    let parts = diary.0.lock();
    let whole = db.default_family().property("rocksdb.total-sst-files-size");
    let whole: u64 = whole.unwrap().parse().unwrap();
    let small = parts.iter().filter(|part| **part * 2 < whole).count();
    assert!(small > 3, "{parts:?} of {whole}");
}

/// Input bytes of the compactions for space amplification.
#[derive(Default)]
struct Sizes(Mutex<Vec<u64>>);

impl EventListener for Sizes {
    fn on_compaction_completed(&self, info: &CompactionJobInfo) {
        if info.compaction_reason == CompactionReason::UniversalSizeAmplification {
            self.0.lock().push(info.stats.total_input_bytes);
        }
    }
}

/// The levels read and written by leveled compactions.
#[derive(Default)]
struct Levels(Mutex<Vec<[BTreeSet<usize>; 2]>>);

impl EventListener for Levels {
    fn on_compaction_completed(&self, info: &CompactionJobInfo) {
        let levels = |files: &[CompactionFileInfo]| files.iter().map(|file| file.level).collect();
        let infos = [&info.input_file_infos, &info.output_file_infos];
        self.0.lock().push(infos.map(|files| levels(files)));
    }
}

#[test]
fn excess_data_of_level_0_moves_down_two_levels() {
    let world = World::in_memory();
    let family = styled(
        "write_buffer_size=64K;level0_file_num_compaction_trigger=4;target_file_size_base=16K;\
         max_bytes_for_level_base=64K;max_bytes_for_level_multiplier=4;compression=kNoCompression",
    );
    let seen = Arc::new(Levels::default());
    let mut options = db_options();
    options.listeners.push(seen.clone());
    let open = || {
        open(&OpenRequest {
            path: Path::new("/db"),
            options: &options,
            families: &[FamilyDescriptor::new("default", family.clone())],
            others: None,
            read_only: false,
            world: world.clone(),
        })
        .unwrap()
    };
    let db = open();
    let key = |n: u64| format!("key{:05}", n * 48_271 % 20_011);
    // Level 0 reaches the same size in each run, regardless of the speed of compactions.
    for (numbers, paused) in [(0..40_000_u64, false), (40_000..60_000, true)] {
        db.default_family()
            .set_options(&[("disable_auto_compactions", &paused.to_string())])
            .unwrap();
        for n in numbers {
            db.put(key(n).as_bytes(), format!("{n:>20}").as_bytes())
                .unwrap();
        }
    }
    db.default_family()
        .set_options(&[("disable_auto_compactions", "false")])
        .unwrap();
    db.wait_for_compact(&WaitForCompactOptions::default())
        .unwrap();
    let deeper = |[read, written]: &[BTreeSet<usize>; 2]| {
        read.len() == 3 && written.len() == 2 && written.is_subset(read)
    };
    let compactions = seen.0.lock().clone();
    assert!(compactions.iter().any(deeper), "{compactions:?}");
    db.close().unwrap();
    let db = open();
    for n in 40_000..60_000 {
        let found = db.get(key(n).as_bytes()).unwrap().unwrap();
        let last = (n..60_000).step_by(20_011).last().unwrap();
        assert_eq!(&*found, format!("{last:>20}").as_bytes());
    }
}
