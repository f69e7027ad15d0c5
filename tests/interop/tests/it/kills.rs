//! All possible states of a memory-mapped log after a kill open in both engines.

use std::fs;
use std::path::Path;
use std::process::Command;

use cairn_format::batch::WriteBatch;
use cairn_interop::content::Row;
use cairn_interop::dir_snapshot;
use cairn_interop::engine::{Cairn, RocksDb};
use cairn_interop::kills::{self, ENGINES, MODES, Refused};
use cairn_interop::workload::{Durable, Engine, FAMILIES};
use cairn_platform::PosixFileSystem;
use cairn_platform::fs::{FileMode, FileSystem};
use cairn_sim::{DiskImage, SimFs};
use cairn_types::{FileNumber, SequenceNumber};
use cairn_wal::{WalOptions, WalWriter};

const BLOCK: usize = 32 << 10;

/// The rows of the logs in this module.
fn row(number: u64, len: usize) -> (Vec<u8>, Vec<u8>) {
    (number.to_be_bytes().to_vec(), vec![b'v'; len])
}

/// A batch of one row, with its sequence number.
fn batch(number: u64, len: usize) -> Vec<u8> {
    let (key, value) = row(number, len);
    let mut batch = WriteBatch::new();
    batch.put(0, &key, &value).unwrap();
    batch.set_sequence(SequenceNumber(number));
    batch.into_bytes()
}

/// The possible logs of a process that is killed while it appends a row of `len` bytes at `at`, and the
/// number of rows before it.
fn killed(
    number: FileNumber,
    at: usize,
    len: usize,
    compressed: bool,
) -> (Vec<usize>, Vec<DiskImage>) {
    let fs = SimFs::new();
    let mode = FileMode {
        mapped: true,
        ..FileMode::default()
    };
    let file = fs.create(Path::new("/log"), mode).unwrap();
    let options = WalOptions {
        mapped: true,
        compression: match compressed {
            true => cairn_compress::Compression::Zstd,
            false => cairn_compress::Compression::None,
        },
        ..WalOptions::default()
    };
    let mut log = WalWriter::new(file, number, &options).unwrap();
    // The record of a row has 31 bytes besides a value of this length.
    let mut lens = Vec::new();
    let mut left = at - usize::try_from(log.len()).unwrap();
    while left > 0 {
        let value = (if left < 600 { left } else { 300 }).saturating_sub(31);
        lens.push(value);
        log.append(&batch(lens.len() as u64, value)).unwrap();
        left = at.saturating_sub(usize::try_from(log.len()).unwrap());
    }
    if !compressed {
        assert_eq!(log.len(), at as u64);
    }
    let begin = fs.operations();
    log.append(&batch(lens.len() as u64 + 1, len)).unwrap();
    lens.push(len);
    let trace = fs.trace();
    let mut replay = trace.replay();
    while replay.at() < begin && replay.step() {}
    let mut images = Vec::new();
    loop {
        let store = replay.store_len().unwrap_or(0);
        for cut in [0, 20, store]
            .into_iter()
            .filter(|cut| *cut == 0 || store > 20)
        {
            images.push(replay.killed_at(cut));
        }
        if !replay.step() {
            return (lens, images);
        }
    }
}

#[test]
fn every_log_after_a_kill_during_an_append_opens_in_every_mode() {
    if crate::library().is_none() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let live = place.path().join("live");
    drop(Cairn::open(&live, "", "").unwrap());
    let log = cairn_wal::list(&PosixFileSystem, &live)
        .unwrap()
        .pop()
        .unwrap();
    for (at, len, compressed) in [
        (507, 100, false),
        (BLOCK - 7, 50, false),
        (20_000, 40_000, false),
        (BLOCK - 500, 2_000, true),
    ] {
        let (lens, images) = killed(log.number, at, len, compressed);
        let rows: Vec<Row> = (1..)
            .zip(&lens)
            .map(|(number, len)| {
                let (key, value) = row(number, *len);
                Row::of(&key, &value)
            })
            .collect();
        let whole = images.len() - 1;
        for (state, image) in images.iter().enumerate() {
            for mode in MODES {
                for engine in ENGINES {
                    let copy = place.path().join("copy");
                    dir_snapshot::copy(&live, &copy);
                    let name = log.path.file_name().unwrap();
                    fs::write(copy.join(name), image.file(Path::new("/log")).unwrap()).unwrap();
                    let options = format!("wal_recovery_mode={mode}");
                    let found = match engine {
                        "Cairn" => Cairn::open(&copy, &options, "").map(|mut db| db.content()),
                        _ => RocksDb::open(&copy, &options, "").map(|mut db| db.content()),
                    };
                    let what =
                        format!("{engine}, {mode}, {len} bytes at {at}, state {state} of {whole}");
                    let found = found.unwrap_or_else(|error| panic!("{what}: {error}"));
                    let found = &found[FAMILIES[0].name].rows;
                    assert!(rows.starts_with(found), "{what}: other rows");
                    let least = rows.len() - usize::from(state < whole);
                    assert!(
                        found.len() >= least,
                        "{what}: {} of {}",
                        found.len(),
                        rows.len()
                    );
                    fs::remove_dir_all(&copy).unwrap();
                }
            }
        }
    }
}

/// A few of the rounds that the program `kills` runs by the thousand.
#[test]
fn files_of_killed_processes_open() {
    if crate::library().is_none() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    for logs in ["mapped", "plain"] {
        let mut refused = Refused::default();
        for seed in 0..2 {
            let mut command = Command::new(env!("CARGO_BIN_EXE_kills"));
            let left = place.path().join("left");
            command
                .arg("--child")
                .arg(left)
                .args([&seed.to_string(), logs]);
            kills::round(&mut command, place.path(), seed, &mut refused).unwrap();
        }
        if logs == "mapped" {
            assert_eq!(refused.absolute, [0, 0]);
        }
    }
}
