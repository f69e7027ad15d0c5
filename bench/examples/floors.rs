//! Floors: the CPU time of single steps that no engine can leave out on this machine. A row of docs/benchmarks.md that
//! consists of such steps cannot take less than their sum, however the engine is written.
//!
//! `cargo run --release -p cairn-bench --example floors -- DIRECTORY`, a directory with 500 MB of free space.

use std::fs::File;
use std::hint::black_box;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::Instant;

use cairn_compress::{CodecOptions, Compression, Compressor, Framing, decompress_exact};
use cairn_format::checksum::{ChecksumKind, block_checksum};

const BLOCK: usize = 4096;
const BLOCKS: usize = 100_000;
const STEPS: usize = 400_000;
/// Key and value of the core workloads.
const RECORD: usize = 116;
/// A record of the log with one put of such a record.
const LOG_RECORD: usize = 145;

/// A xorshift generator.
struct Random(u64);

impl Random {
    fn draw(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.draw() % bound as u64) as usize
    }
}

/// CPU time of the process in nanoseconds.
fn cpu() -> u64 {
    let clock = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    clock.tv_sec.unsigned_abs() * 1_000_000_000 + clock.tv_nsec.unsigned_abs()
}

/// Runs `step` `steps` times, in five rounds, and prints the CPU and the wall time of a step in the best of them.
fn measure(name: &str, steps: usize, mut step: impl FnMut()) {
    let (mut best, mut best_wall) = (u64::MAX, u128::MAX);
    for _ in 0..5 {
        let (began, wall) = (cpu(), Instant::now());
        (0..steps).for_each(|_| step());
        best = best.min(cpu() - began);
        best_wall = best_wall.min(wall.elapsed().as_nanos());
    }
    println!(
        "{name:44} {:9.1} ns of CPU, {:9.1} ns",
        best as f64 / steps as f64,
        best_wall as f64 / steps as f64
    );
}

/// A block of records of which half can be compressed, as db_bench makes them.
fn block(random: &mut Random) -> Vec<u8> {
    let mut block = Vec::with_capacity(BLOCK);
    while block.len() < BLOCK {
        let half: Vec<u8> = (0..50).map(|_| b' ' + (random.draw() % 95) as u8).collect();
        block.extend_from_slice(&half);
        block.extend_from_slice(&half);
        block.extend_from_slice(&random.draw().to_be_bytes());
    }
    block.truncate(BLOCK);
    block
}

/// Compresses blocks, and decompresses them.
fn codec(name: &str, kind: Compression, blocks: &[Vec<u8>]) -> cairn_types::Result<()> {
    let mut compressor = Compressor::new(kind, CodecOptions::default(), None)?;
    let (mut out, mut at) = (Vec::new(), 0);
    measure(
        &format!("{name}: compression of a block"),
        STEPS / 8,
        || {
            at = (at + 1) % blocks.len();
            out.clear();
            let done = compressor.compress_always(&blocks[at], &mut out);
            assert!(done.is_ok(), "any block can be compressed");
        },
    );
    let mut packed = Vec::new();
    for block in blocks {
        let mut out = Vec::new();
        compressor.compress_always(block, &mut out)?;
        packed.push(out);
    }
    let (mut out, mut at) = (vec![0; BLOCK], 0);
    measure(
        &format!("{name}: decompression of a block"),
        STEPS / 4,
        || {
            at = (at + 1) % packed.len();
            let done = decompress_exact(kind, &packed[at], Framing::Sized, None, &mut out);
            assert!(done.is_ok(), "a block that was compressed");
        },
    );
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = PathBuf::from(std::env::args().nth(1).ok_or("give a directory")?);
    let path = dir.join("floors.tmp");
    let mut random = Random(88_172_645_463_325_252);
    let blocks: Vec<Vec<u8>> = (0..256).map(|_| block(&mut random)).collect();

    let mut file = File::create_new(&path)?;
    (0..BLOCKS).try_for_each(|i| file.write_all(&blocks[i % blocks.len()]))?;
    let file = File::open(&path)?;
    let mut buffer = vec![0; BLOCK];
    let mut failed: io::Result<()> = Ok(());
    measure("read of a block from the page cache", STEPS, || {
        let at = random.below(BLOCKS) * BLOCK;
        failed = file.read_exact_at(&mut buffer, at as u64);
    });
    failed?;
    let mut at = 0;
    measure("XXH3 of a block", STEPS, || {
        at = (at + 1) % blocks.len();
        black_box(block_checksum(ChecksumKind::Xxh3, &blocks[at], 0));
    });
    codec("LZ4", Compression::Lz4, &blocks)?;
    codec("zstd", Compression::Zstd, &blocks)?;

    let mut log = File::create(&path)?;
    let record = [7; LOG_RECORD];
    let mut written: io::Result<()> = Ok(());
    measure("append of a record to a file", STEPS, || {
        written = log.write_all(&record);
    });
    measure("append of a record, and fdatasync", 200, || {
        written = log.write_all(&record).and_then(|()| log.sync_data());
    });
    let mut large = vec![7; 1 << 20];
    measure("write of a megabyte", 400, || {
        written = log.write_all(&large);
    });
    written?;
    std::fs::remove_file(&path)?;

    // A permutation with one cycle (Sattolo): each load depends on the last.
    let mut chain: Vec<u32> = (0..100_000_000 / 2).collect();
    for i in (1..chain.len()).rev() {
        chain.swap(i, random.below(i));
    }
    let mut at = 0;
    measure("load that misses the caches, 200 MB", STEPS, || {
        at = chain[at as usize];
    });
    black_box(at);
    large.resize(200 << 20, 1);
    let mut at = 0;
    let mut sum = 0_u64;
    measure("loads of a record of 116 bytes in order", STEPS, || {
        let record = &large[at..at + RECORD];
        sum += record.iter().map(|&byte| u64::from(byte)).sum::<u64>();
        at = (at + RECORD) % (large.len() - RECORD);
    });
    black_box(sum);
    Ok(())
}
