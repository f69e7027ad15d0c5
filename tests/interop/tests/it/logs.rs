//! Memory-mapped logs after a kill: zeros after the last record, and possibly a record without its
//! header. Both engines read them in every recovery mode.

use std::fs;
use std::path::Path;

use cairn_interop::content::Row;
use cairn_interop::dir_snapshot;
use cairn_interop::engine::{Cairn, RocksDb};
use cairn_interop::workload::{Change, Durable, Engine};
use cairn_platform::PosixFileSystem;
use cairn_platform::fs::FileMode;
use cairn_wal::{WalEvent, WalFile, WalReader};

const MODES: [&str; 4] = [
    "kTolerateCorruptedTailRecords",
    "kAbsoluteConsistency",
    "kPointInTimeRecovery",
    "kSkipAnyCorruptedRecords",
];

/// The newest log in `dir`.
fn newest_log(dir: &Path) -> WalFile {
    let logs = cairn_wal::list(&PosixFileSystem, dir).unwrap();
    logs.into_iter().next_back().unwrap()
}

/// The end of the last record of the log.
fn end_of_records(log: &WalFile) -> usize {
    let mode = FileMode::default();
    let mut reader = WalReader::open(&PosixFileSystem, &log.path, log.number, mode).unwrap();
    while matches!(reader.next().unwrap(), WalEvent::Record { .. }) {}
    usize::try_from(reader.whole_up_to()).unwrap()
}

#[test]
fn a_log_that_ends_in_zeros_or_in_a_record_without_header_is_read_in_every_mode() {
    if crate::library().is_none() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    for options in [
        "",
        "recycle_log_file_num=2",
        "wal_compression=kZSTD",
        "wal_write_mode=kPlain",
    ] {
        let live = place.path().join("live");
        let mut cairn = Cairn::open(&live, options, "").unwrap();
        for number in 0..3000_u32 {
            let (key, value) = (number.to_be_bytes().to_vec(), vec![number as u8; 60]);
            cairn.write(&[Change::Put(0, key, value)]);
        }
        let expected = cairn.content();
        // The log after a kill at this point, without preallocated space.
        let killed = place.path().join("killed");
        dir_snapshot::copy(&live, &killed);
        drop(cairn);
        let log = newest_log(&killed);
        let mut whole = fs::read(&log.path).unwrap();
        let end = end_of_records(&log);
        assert_eq!(
            whole.len(),
            end,
            "a copy of a live log has its records and no zeros"
        );
        if options != "wal_write_mode=kPlain" {
            // With the preallocated windows of the mapping.
            whole.resize(end.next_multiple_of(64 << 10) + (64 << 10), 0);
        }
        // The next record without the first word of its header, as after a kill during an append.
        let mut begun = whole.clone();
        begun.resize(whole.len().max(end + 100_000), 0);
        begun[end + 8..end + 90].fill(0x5a);
        for (what, bytes) in [("zeros", whole), ("a record without header", begun)] {
            for mode in MODES {
                let given = format!("wal_recovery_mode={mode};{options}");
                for engine in ["Cairn", "RocksDB"] {
                    let copy = place.path().join("copy");
                    dir_snapshot::copy(&killed, &copy);
                    fs::write(newest_log(&copy).path, &bytes).unwrap();
                    let found = match engine {
                        "Cairn" => Cairn::open(&copy, &given, "").map(|mut db| db.content()),
                        _ => {
                            let known = given.replace("wal_write_mode=kPlain", "");
                            RocksDb::open(&copy, &known, "").map(|mut db| db.content())
                        }
                    };
                    assert!(
                        found.as_ref() == Ok(&expected),
                        "{engine}, {what}, {given}: {:?}",
                        found.err()
                    );
                    fs::remove_dir_all(&copy).unwrap();
                }
            }
        }
        fs::remove_dir_all(&live).unwrap();
        fs::remove_dir_all(&killed).unwrap();
    }
}

/// The record of a commit has writes before its marker, those of the commit-time batch, and behind it.
#[test]
fn both_engines_recover_a_commit_with_further_writes() {
    if crate::library().is_none() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let live = place.path().join("live");
    let db = cairn::Db::builder(&live)
        .create_if_missing(true)
        .open_transactional(&cairn::transactions::TransactionDbOptions::default())
        .unwrap();
    let mut txn = db.begin();
    txn.set_name(b"t").unwrap();
    txn.put(b"a", b"prepared").unwrap();
    txn.put(b"b", b"prepared").unwrap();
    txn.prepare().unwrap();
    db.put(b"c", b"between").unwrap();
    let mut commit_time = cairn::WriteBatch::new();
    commit_time.put(b"a", b"commit time");
    commit_time.put(b"d", b"commit time");
    txn.set_commit_time_batch(commit_time);
    txn.put(b"b", b"late").unwrap();
    txn.commit().unwrap();
    let killed = place.path().join("killed");
    dir_snapshot::copy(&live, &killed);
    let expected: Vec<Row> = [
        ("a", "prepared"),
        ("b", "late"),
        ("c", "between"),
        ("d", "commit time"),
    ]
    .iter()
    .map(|(key, value)| Row::of(key.as_bytes(), value.as_bytes()))
    .collect();
    for engine in ["Cairn", "RocksDB"] {
        let copy = place.path().join(engine);
        dir_snapshot::copy(&killed, &copy);
        let content = match engine {
            "Cairn" => Cairn::open(&copy, "allow_2pc=true", "").map(|mut db| db.content()),
            _ => RocksDb::open(&copy, "allow_2pc=true", "").map(|mut db| db.content()),
        };
        let content = content.unwrap();
        assert_eq!(content["default"].rows, expected, "{engine}");
    }
}
