//! Secondary instances of each engine follow a database that the other one writes.

use cairn_bench::rocksdb::{Db, Family, OpenMode};
use cairn_interop::content::{difference, without_columns};
use cairn_interop::engine::{Cairn, RocksDb, family_options};
use cairn_interop::workload::{Change, Durable, Engine, Generator};

/// Row `number` of a round.
fn row(number: usize) -> (Vec<u8>, Vec<u8>) {
    let len = match number % 7 {
        0 => number * 7_919 % 70_000,
        _ => number * 131 % 900,
    };
    let value = vec![u8::try_from(number % 251).unwrap(); len];
    (format!("key{number:08}").into_bytes(), value)
}

#[test]
fn a_secondary_of_rocksdb_reads_what_a_live_cairn_has_acknowledged() {
    let Some(library) = crate::library() else {
        return;
    };
    for options in [
        "",
        "wal_compression=kZSTD",
        "write_buffer_size=500000",
        "wal_write_mode=kPlain",
    ] {
        let place = tempfile::tempdir().unwrap();
        let primary = place.path().join("primary");
        let mut db = Cairn::open(&primary, options, "").unwrap();
        let mut written = 0;
        let mut write = |db: &mut Cairn, rows: usize| {
            for number in written..written + rows {
                let (key, value) = row(number);
                db.write(&[Change::Put(0, key, value)]);
            }
            written += rows;
            written
        };
        write(&mut db, 50);
        let families = family_options("");
        let families: Vec<_> = families
            .iter()
            .map(|(name, text)| (*name, &text[..]))
            .collect();
        let mode = OpenMode::Secondary;
        let secondary = Db::open(&library, &primary, "max_open_files=-1", &families, mode).unwrap();
        for round in 0..24 {
            let written = write(&mut db, [1, 3, 40, 1, 200, 0][round % 6]);
            if round % 5 == 4 {
                db.flush(0);
            }
            // Flushed rows come from the MANIFEST, the others from the log: one catch-up reads both.
            secondary.catch_up().unwrap();
            for number in 0..written {
                let (key, value) = row(number);
                let found = secondary.get(Family(0), &key).unwrap();
                assert!(
                    found.as_deref() == Some(&value[..]),
                    "{options}, round {round}: row {number} of {written}: {:?} bytes",
                    found.map(|found| found.len())
                );
            }
        }
    }
}

#[test]
fn a_secondary_of_cairn_has_the_content_of_a_live_rocksdb() {
    if crate::library().is_none() {
        return;
    }
    for (seed, options) in [
        "",
        "wal_compression=kZSTD;max_manifest_file_size=3000",
        "recycle_log_file_num=2",
        "max_total_wal_size=20000",
        "track_and_verify_wals=true;enable_pipelined_write=true",
    ]
    .into_iter()
    .enumerate()
    {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("primary");
        let own = place.path().join("secondary");
        let small = "write_buffer_size=65536;level0_file_num_compaction_trigger=2";
        let mut generator = Generator::new(40 + seed as u64).with_entities(true);
        let mut secondary = None;
        for process in 0..3 {
            let mut primary = RocksDb::open(&path, options, small).unwrap();
            let secondary = secondary.get_or_insert_with(|| Cairn::follow(&path, &own).unwrap());
            for round in 0..10 {
                primary.run(&generator.steps([1, 30, 3, 100][round % 4]));
                secondary.catch_up().unwrap();
                let expected = primary.content();
                let found = without_columns(secondary.content());
                let difference = difference(&expected, &found);
                assert_eq!(
                    difference, None,
                    "{options}, process {process}, round {round}"
                );
            }
        }
    }
}
