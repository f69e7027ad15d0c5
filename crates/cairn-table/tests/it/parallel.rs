//! Tables whose blocks other threads compress.

use std::sync::Arc;
use std::time::Duration;

use cairn_compress::Compression;
use cairn_format::key;
use cairn_observe::statistics::{Meter, Statistics, StatsLevel, Ticker};
use cairn_options::{CompressionOptions, TableOptions};
use cairn_platform::SystemClock;
use cairn_platform::fs::{FileMode, FileSystem};
use cairn_platform::mem::MemFileSystem;
use cairn_table::{BuildParams, TableBuilder};
use cairn_types::{SequenceNumber, ValueKind};
use proptest::prelude::*;

use crate::round_trip::options;
use crate::world::{Entry, build};

/// Entries whose values shrink, or, if `mixed`, of which some do not.
fn entries(count: usize, mixed: bool) -> Vec<Entry> {
    let mut state = 1_u64;
    let mut random = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) as u8
    };
    let entry = |n: usize| {
        let mut key = Vec::new();
        let user = format!("{n:016}");
        let seq = SequenceNumber(7);
        key::append_internal(&mut key, user.as_bytes(), seq, ValueKind::Value);
        let value = match mixed && n % 64 < 32 {
            true => (0..100).map(|_| random()).collect(),
            false => vec![n as u8; 100],
        };
        (key, value)
    };
    (0..count).map(entry).collect()
}

/// The file of a table, and the tickers of its compression.
fn table(params: &BuildParams, threads: u32, entries: &[Entry]) -> (Vec<u8>, [u64; 7]) {
    let statistics = Arc::new(Statistics::new(StatsLevel::All));
    let params = BuildParams {
        compression_options: CompressionOptions {
            parallel_threads: threads,
            ..params.compression_options
        },
        meter: Meter::new(Some(statistics.clone()), Arc::new(SystemClock)),
        ..params.clone()
    };
    let (bytes, _) = build(params, entries, &[]).unwrap();
    let tickers = [
        Ticker::NumberBlockCompressed,
        Ticker::BytesCompressedFrom,
        Ticker::BytesCompressedTo,
        Ticker::NumberBlockCompressionRejected,
        Ticker::BytesCompressionRejected,
        Ticker::NumberBlockCompressionBypassed,
        Ticker::BytesCompressionBypassed,
    ];
    (bytes, tickers.map(|ticker| statistics.ticker(ticker)))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn the_number_of_threads_does_not_change_the_file(
        (options, compression, codec) in options(),
        threads in 2_u32..6,
        count in 0_usize..1200,
        mixed: bool,
    ) {
        // With a dictionary, the output for zlib may depend on the block before: the library hashes the last bytes of the
        // dictionary together with those that follow them in its window.
        let max_dict_bytes = match compression {
            Compression::Zlib => 0,
            _ => codec.max_dict_bytes,
        };
        let params = BuildParams {
            options: Arc::new(options),
            compression,
            // The estimate of `auto_skip` lags behind by the blocks that the threads have.
            compression_options: CompressionOptions { auto_skip: false, max_dict_bytes, ..codec },
            ..BuildParams::default()
        };
        let entries = entries(count, mixed);
        let alone = table(&params, 1, &entries);
        let together = table(&params, threads, &entries);
        prop_assert_eq!(alone.1, together.1);
        prop_assert!(alone.0 == together.0, "{threads} threads wrote another file");
    }

    #[test]
    fn the_timing_of_threads_does_not_change_which_blocks_are_skipped(
        block_size in 64_u64..2000,
        threads in 2_u32..6,
        sample_every in 1_i32..8,
    ) {
        let params = BuildParams {
            options: Arc::new(TableOptions { block_size, ..TableOptions::default() }),
            compression: Compression::Zlib,
            compression_options: CompressionOptions {
                auto_skip: true,
                auto_skip_min_sample_every: sample_every,
                max_compressed_bytes_per_kb: 300,
                max_dict_bytes: 1000,
                ..CompressionOptions::default()
            },
            ..BuildParams::default()
        };
        let entries = entries(1200, true);
        let [first, second] = [(); 2].map(|()| table(&params, threads, &entries));
        prop_assert!(first.1[5] > 0, "no block was skipped");
        prop_assert_eq!(first.1, second.1);
        prop_assert!(first.0 == second.0, "{threads} threads wrote another file");
    }
}

/// The number of threads of this process that compress blocks. A thread has its name some time after its start.
fn compressing() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let names = tasks.map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")));
    names
        .filter(|name| name.as_ref().is_ok_and(|name| name == "cairn-compress\n"))
        .count()
}

/// Waits until the number of threads is as wanted, for a minute at most.
fn wait_until(wanted: impl Fn(usize) -> bool) {
    for _ in 0..6000 {
        if wanted(compressing()) {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{} threads", compressing());
}

#[test]
fn the_threads_end_with_the_builder() {
    // More threads than the other tests have.
    let params = BuildParams {
        options: Arc::new(TableOptions::default()),
        compression: Compression::Zstd,
        compression_options: CompressionOptions {
            parallel_threads: 40,
            ..CompressionOptions::default()
        },
        ..BuildParams::default()
    };
    let entries = entries(5000, false);
    for is_finished in [false, true] {
        let fs = MemFileSystem::new();
        let path = std::path::Path::new("/table");
        let file = fs.create(path, FileMode::default()).unwrap();
        let mut builder = TableBuilder::create(file, params.clone()).unwrap();
        for (key, value) in &entries {
            builder.add(key, value).unwrap();
        }
        wait_until(|threads| threads >= 40);
        match is_finished {
            true => drop(builder.finish().unwrap()),
            false => drop(builder),
        }
        wait_until(|threads| threads < 40);
    }
}
