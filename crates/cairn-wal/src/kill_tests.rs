//! Tests that a process killed during an append to a mapped log leaves a clean end of the log in
//! every recovery mode.

use std::path::Path;

use cairn_compress::Compression;
use cairn_format::log::{RecoveryMode, Verdict};
use cairn_platform::FileSystem;
use cairn_platform::fs::FileMode;
use cairn_platform::mem::MemFileSystem;
use cairn_platform::sync::Arc;
use cairn_sim::{Call, DiskImage, SimFs};
use cairn_types::FileNumber;

use super::*;

const NUMBER: FileNumber = FileNumber(7);
const BLOCK: usize = 32 << 10;
const MODES: [RecoveryMode; 4] = [
    RecoveryMode::TolerateCorruptedTailRecords,
    RecoveryMode::AbsoluteConsistency,
    RecoveryMode::PointInTimeRecovery,
    RecoveryMode::SkipAnyCorruptedRecords,
];

/// A batch of `len` bytes, either mostly zeros or without zeros.
fn record(seed: u64, len: usize, zeros: bool) -> Vec<u8> {
    let filler = if zeros { 0 } else { 0x5a };
    let mut record = vec![filler; len.max(14)];
    record[..8].copy_from_slice(&seed.to_le_bytes());
    record[8..14].copy_from_slice(&[1, 0, 0, 0, 1, 3]);
    record
}

/// The records of `image`, on which all modes must agree. `None` if a mode rejects the log.
fn read(image: &DiskImage) -> Option<Vec<Vec<u8>>> {
    let bytes = image.file(Path::new("/log")).unwrap();
    let fs = MemFileSystem::new();
    let file = fs.create(Path::new("/log"), FileMode::default()).unwrap();
    file.append(bytes).unwrap();
    let file = fs.open(Path::new("/log"), FileMode::default()).unwrap();
    let mut reader = WalReader::new(file, NUMBER);
    let mut records = Vec::new();
    let dropped = loop {
        match reader.next().unwrap() {
            WalEvent::Record { payload, .. } => records.push(payload.to_vec()),
            WalEvent::Dropped(dropped) => break Some(dropped),
            WalEvent::End(_) => break None,
            _ => {}
        }
    };
    if let Some(dropped) = dropped {
        let recycled = reader.is_recycled();
        let refused = |mode: &RecoveryMode| mode.judge(dropped.reason, recycled) == Verdict::Fail;
        if MODES.iter().any(refused) {
            return None;
        }
        // In modes in which recovery continues, it finds nothing else.
        while let WalEvent::Dropped(_) = reader.next().unwrap() {}
        assert!(
            matches!(reader.event(), WalEvent::End(_)),
            "{:?}",
            reader.event()
        );
    }
    Some(records)
}

/// Appends a group of records after `before` bytes of log, kills the process at every point of the
/// append, and reads the remaining log.
fn every_prefix(before: usize, group: &[Vec<u8>], options: &WalOptions) {
    let fs = SimFs::new();
    let mode = FileMode {
        mapped: true,
        ..FileMode::default()
    };
    let file = fs.create(Path::new("/log"), mode).unwrap();
    let mut log = WalWriter::new(file, NUMBER, options).unwrap();
    let mut expected = Vec::new();
    while before.saturating_sub(usize::try_from(log.len()).unwrap()) > 40 {
        let left = before - usize::try_from(log.len()).unwrap();
        let len = left.min(20_000).saturating_sub(11).max(20);
        expected.push(record(expected.len() as u64, len, false));
        log.append(expected.last().unwrap()).unwrap();
    }
    let whole = expected.len();
    let begin = fs.operations();
    for record in group {
        log.add(record).unwrap();
        expected.push(record.clone());
    }
    log.hand_over().unwrap();
    assert_eq!(
        usize::from(fs.trace().operations()[begin].call == Call::Append),
        0
    );
    let trace = fs.trace();
    let mut replay = trace.replay();
    while replay.at() < begin && replay.step() {}
    let mut found = whole;
    loop {
        let len = replay.store_len().unwrap_or(0);
        // Every byte at the start; after that, sector boundaries with their neighbours, and the
        // end.
        let cuts = (0..=len).filter(|&cut| {
            let near = cut < 20 || len - cut < 3;
            near || (cut < 600 && cut % 64 == 1) || cut % 8191 == 0
        });
        for cut in cuts {
            let records = read(&replay.killed_at(cut));
            let records = records.unwrap_or_else(|| {
                panic!(
                    "rejected: {before} bytes before, operation {}, {cut} of {len}",
                    replay.at()
                )
            });
            assert!(records.len() >= found && expected.starts_with(&records));
            found = records.len();
        }
        if !replay.step() {
            break;
        }
    }
    assert_eq!(found, expected.len());
}

#[test]
fn every_prefix_of_every_store_is_a_clean_end() {
    let plain = WalOptions {
        mapped: true,
        ..WalOptions::default()
    };
    let recyclable = WalOptions {
        recyclable: true,
        ..plain
    };
    let compressed = WalOptions {
        compression: Compression::Zstd,
        ..plain
    };
    let groups = [
        vec![record(300, 90, false)],
        vec![
            record(300, 200, true),
            record(301, 90, false),
            record(302, 40, true),
        ],
        vec![record(256, 70_000, false)],
        vec![record(1, 70_000, true), record(2, 30, true)],
    ];
    for (round, group) in groups.iter().enumerate() {
        for end in [512, BLOCK, 2 * BLOCK] {
            for back in [0, 1, 6, 7, 8, 9, 15, 16, 60, 210] {
                let large = group[0].len() > 1000;
                if (large && back % 3 != round % 3) || (end > BLOCK && round != 2) {
                    continue;
                }
                every_prefix(end - back, group, &plain);
                if back % 4 == round % 4 {
                    every_prefix(end - back, group, &recyclable);
                    every_prefix(end - back, group, &compressed);
                }
            }
        }
    }
}

/// The order of the stores ensures that neither the first nor the last part of a record is ever
/// visible alone.
#[test]
fn a_record_across_blocks_is_never_partially_visible() {
    let fs = Arc::new(SimFs::new());
    let mode = FileMode {
        mapped: true,
        ..FileMode::default()
    };
    let file = fs.create(Path::new("/log"), mode).unwrap();
    let options = WalOptions {
        mapped: true,
        ..WalOptions::default()
    };
    let mut log = WalWriter::new(file, NUMBER, &options).unwrap();
    log.append(&record(1, BLOCK - 100, false)).unwrap();
    log.append(&record(2, 500, false)).unwrap();
    let trace = fs.trace();
    let stores = trace.operations().iter();
    let stores: Vec<_> = stores.filter(|op| op.call == Call::Store).collect();
    // The first record; then the two pieces, and their heads.
    assert_eq!(stores.len(), 5);
}
