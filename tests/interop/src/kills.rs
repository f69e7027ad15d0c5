//! Processes that are killed while they write, and recovery of their files by both engines.
//!
//! A child writes numbered rows with values of up to 70 KB and reports the number of rows after each
//! write. It is killed, and both engines open copies of its directory in every recovery mode. Each must
//! find all rows up to some number, which is at least that of the last acknowledged row.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use std::{fs, thread};

use crate::content::{Content, Row};
use crate::dir_snapshot;
use crate::engine::{Cairn, RocksDb};
use crate::workload::{Change, Durable, Engine, FAMILIES};

/// The recovery modes. With [`ABSOLUTE`], a log with a torn write may be rejected.
pub const MODES: [&str; 4] = [
    "kTolerateCorruptedTailRecords",
    ABSOLUTE,
    "kPointInTimeRecovery",
    "kSkipAnyCorruptedRecords",
];
/// The mode that tolerates no damage.
pub const ABSOLUTE: &str = "kAbsoluteConsistency";

/// The engines.
pub const ENGINES: [&str; 2] = ["Cairn", "RocksDB"];

/// Options of the children, one set per round, cyclically.
const OPTIONS: [&str; 4] = [
    "",
    "recycle_log_file_num=2",
    "wal_compression=kZSTD",
    "write_buffer_size=300000",
];

/// The write mode of a child's logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Logs {
    /// Through a memory mapping.
    Mapped,
    /// By system calls.
    Plain,
}

/// The number of logs of children that a recovery mode rejected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refused {
    /// Rejections with absolute consistency, by engine.
    pub absolute: [usize; 2],
    /// The number of rows that were found but not acknowledged.
    pub unacknowledged: usize,
}

/// The length of row `number`: most are short, and every fourth has up to 70 KB.
fn len_of(seed: u64, number: u64) -> usize {
    let mixed = (seed << 32 | number)
        .wrapping_add(1)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = usize::try_from(mixed >> 40).expect("24 bits are left");
    match number % 4 {
        0 => mixed % 70_000,
        _ => mixed % 2_000,
    }
}

/// Row `number` of the child `seed`.
fn row(seed: u64, number: u64) -> (Vec<u8>, Vec<u8>) {
    // A value of zeros looks like unwritten space.
    let byte = u8::try_from(number % 5 * 50).expect("it is small");
    (
        number.to_be_bytes().to_vec(),
        vec![byte; len_of(seed, number)],
    )
}

/// Runs a child: writes until it is killed.
///
/// # Errors
///
/// The engine's error.
pub fn write_until_killed(dir: &Path, seed: u64, logs: Logs) -> Result<(), String> {
    let options = OPTIONS[usize::try_from(seed).unwrap_or(0) % OPTIONS.len()];
    let options = match logs {
        Logs::Mapped => options.to_owned(),
        Logs::Plain => format!("wal_write_mode=kPlain;{options}"),
    };
    let mut db = Cairn::open(dir, &options, "")?;
    let mut told = std::io::stdout().lock();
    let words = |error: std::io::Error| error.to_string();
    told.write_all(b"open\n")
        .and_then(|()| told.flush())
        .map_err(words)?;
    for number in 0..u64::MAX {
        let (key, value) = row(seed, number);
        db.write(&[Change::Put(0, key, value)]);
        told.write_all(&[1])
            .and_then(|()| told.flush())
            .map_err(words)?;
    }
    Ok(())
}

/// The number of rows if they are exactly the first ones of the child, else `None`.
fn rows_of(content: &Content, seed: u64) -> Option<u64> {
    let rows = &content.get(FAMILIES[0].name)?.rows;
    for (number, found) in (0..).zip(rows) {
        let (key, value) = row(seed, number);
        if *found != Row::of(&key, &value) {
            return None;
        }
    }
    u64::try_from(rows.len()).ok()
}

/// Starts the program `child`, kills it after a delay that depends on `seed`, and opens its files.
///
/// # Errors
///
/// An engine rejects the files where it must not, or rows are missing.
pub fn round(
    child: &mut Command,
    place: &Path,
    seed: u64,
    refused: &mut Refused,
) -> Result<(), String> {
    let words = |error: std::io::Error| error.to_string();
    let left = place.join("left");
    let mut child = child.stdout(Stdio::piped()).spawn().map_err(words)?;
    let pipe = child.stdout.take().ok_or("the child has no output")?;
    let mut pipe = BufReader::new(pipe);
    let mut line = String::new();
    pipe.read_line(&mut line).map_err(words)?;
    if line != "open\n" {
        return Err(format!("child {seed} did not open a database"));
    }
    // From a few microseconds to a few milliseconds.
    let micros = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 50;
    thread::sleep(Duration::from_micros(micros));
    child.kill().map_err(words)?;
    child.wait().map_err(words)?;
    let mut acknowledged = Vec::new();
    pipe.read_to_end(&mut acknowledged).map_err(words)?;
    let acknowledged = acknowledged.len() as u64;
    let mut most = acknowledged;
    for (number, engine) in ENGINES.into_iter().enumerate() {
        for mode in MODES {
            let copy = place.join("copy");
            dir_snapshot::copy(&left, &copy);
            let options = format!("wal_recovery_mode={mode}");
            let content = match engine {
                "Cairn" => Cairn::open(&copy, &options, "").map(|mut db| db.content()),
                _ => RocksDb::open(&copy, &options, "").map(|mut db| db.content()),
            };
            let rows = match content {
                Ok(content) => rows_of(&content, seed),
                Err(_) if mode == ABSOLUTE => {
                    refused.absolute[number] += 1;
                    Some(acknowledged)
                }
                Err(error) => return Err(format!("{engine} in {mode}, child {seed}: {error}")),
            };
            let rows = rows.filter(|rows| *rows >= acknowledged).ok_or_else(|| {
                format!(
                    "{engine} in {mode}, child {seed}: not the first {acknowledged} rows: {rows:?}"
                )
            })?;
            most = most.max(rows);
            fs::remove_dir_all(&copy).map_err(words)?;
        }
    }
    refused.unacknowledged += usize::from(most > acknowledged);
    fs::remove_dir_all(&left).map_err(words)
}
