//! Cairn and RocksDB alternate on one directory. A turn ends with a close, or its process is killed.
//! The next engine finds everything that was acknowledged, and both agree with the map.
//!
//! A turn that is killed runs in another process: this program, with its task in the environment. It
//! aborts instead of closing.

use std::path::Path;
use std::process::{Command, Stdio};

use cairn_interop::content::difference;
use cairn_interop::engine::{Cairn, RocksDb};
use cairn_interop::workload::{Durable, Engine, Generator, Model, Step};

/// The options of a database, and those that change from turn to turn.
struct Shape {
    name: &'static str,
    /// Family options for all turns.
    family: &'static str,
    /// Database options and additional family options, one pair per turn, cyclically.
    turns: &'static [(&'static str, &'static str)],
}

/// Small buffers, so that short turns create many levels.
const SMALL: &str = "write_buffer_size=65536;target_file_size_base=16384;\
                     max_bytes_for_level_base=65536;level0_file_num_compaction_trigger=2";

const SHAPES: [Shape; 4] = [
    Shape {
        name: "leveled",
        family: "",
        turns: &[
            ("", ""),
            ("wal_compression=kZSTD", "compression=kZSTD"),
            ("max_manifest_file_size=1024", "compression=kLZ4Compression"),
            (
                "recycle_log_file_num=2",
                "level_compaction_dynamic_level_bytes=false",
            ),
            (
                "track_and_verify_wals_in_manifest=true",
                "block_based_table_factory={format_version=5;index_type=kTwoLevelIndexSearch;\
                 partition_filters=true;filter_policy=bloomfilter:10:false;}",
            ),
        ],
    },
    Shape {
        name: "blobs",
        family: "enable_blob_files=true;min_blob_size=30;blob_file_size=16384;\
                 enable_blob_garbage_collection=true;blob_garbage_collection_age_cutoff=0.7;\
                 blob_garbage_collection_force_threshold=0.3",
        turns: &[
            ("", ""),
            ("", "blob_compression_type=kZSTD"),
            ("", "enable_blob_files=false"),
            (
                "wal_compression=kZSTD",
                "blob_compression_type=kLZ4Compression",
            ),
        ],
    },
    Shape {
        name: "universal",
        family: "compaction_style=kCompactionStyleUniversal;num_levels=5",
        turns: &[
            ("", ""),
            ("max_subcompactions=2", "compression=kSnappyCompression"),
            ("", "enable_blob_files=true;min_blob_size=50"),
        ],
    },
    Shape {
        name: "loose",
        family: "disable_auto_compactions=true",
        turns: &[
            (
                "avoid_flush_during_shutdown=true;avoid_flush_during_recovery=true",
                "",
            ),
            (
                "avoid_flush_during_shutdown=true",
                "compression=kNoCompression",
            ),
            (
                "",
                "max_write_buffer_number=4;min_write_buffer_number_to_merge=2",
            ),
        ],
    },
];

/// The number of turns on each database.
const TURNS: usize = 16;

/// The number of steps in a turn.
const STEPS: usize = 120;

/// The steps of turn `number` of the database of `seed`, which are reproducible.
fn steps(seed: u64, number: usize) -> Vec<Step> {
    let mut generator = Generator::new(seed).with_entities(true);
    for _ in 0..number {
        generator.steps(STEPS);
    }
    generator.steps(STEPS)
}

fn options(shape: &Shape, number: usize) -> (String, String) {
    let (db, family) = shape.turns[number % shape.turns.len()];
    let texts = [SMALL, shape.family, family].into_iter();
    let texts: Vec<&str> = texts.filter(|text| !text.is_empty()).collect();
    (db.to_owned(), texts.join(";"))
}

/// Opens the database, compares it, runs the steps, and compares again.
fn turn<E: Durable>(path: &Path, shape: &Shape, number: usize, seed: u64, before: &mut Model) -> E {
    let (db, family) = options(shape, number);
    let who = format!("{}, turn {number}", shape.name);
    let mut engine = E::open(path, &db, &family).unwrap_or_else(|words| panic!("{who}: {words}"));
    let found = engine.content();
    assert_eq!(
        difference(&engine.shown(before.content()), &found),
        None,
        "{who}: found"
    );
    let steps = steps(seed, number);
    before.run(&steps);
    engine.run(&steps);
    let left = engine.content();
    assert_eq!(
        difference(&engine.shown(before.content()), &left),
        None,
        "{who}: left"
    );
    engine
}

/// The state before turn `number`.
fn state(seed: u64, number: usize) -> Model {
    let mut model = Model::default();
    for earlier in 0..number {
        model.run(&steps(seed, earlier));
    }
    model
}

/// The engines alternate, beginning with either; two of four turns are killed.
fn kind(seed: u64, number: usize) -> (bool, bool) {
    let is_cairn = (seed as usize + number).is_multiple_of(2);
    (is_cairn, number % 4 >= 2)
}

fn one(path: &Path, shape: &Shape, number: usize, seed: u64, model: &mut Model) {
    match kind(seed, number) {
        (true, _) => drop(turn::<Cairn>(path, shape, number, seed, model)),
        (false, _) => drop(turn::<RocksDb>(path, shape, number, seed, model)),
    }
}

/// The environment variable with the task of a process to be killed: path, shape, turn, seed.
const TASK: &str = "CAIRN_TURN";

/// Not a test on its own: the turn of a process that ends by being killed.
#[test]
fn a_turn_that_is_killed() {
    let Ok(task) = std::env::var(TASK) else {
        return;
    };
    let words: Vec<&str> = task.split('|').collect();
    let number = |at: usize| words[at].parse::<u64>().unwrap();
    let (path, shape) = (Path::new(words[0]), &SHAPES[number(1) as usize]);
    let (turn_number, seed) = (number(2) as usize, number(3));
    let mut model = state(seed, turn_number);
    match kind(seed, turn_number) {
        (true, _) => std::mem::forget(turn::<Cairn>(path, shape, turn_number, seed, &mut model)),
        (false, _) => std::mem::forget(turn::<RocksDb>(path, shape, turn_number, seed, &mut model)),
    }
    std::fs::write(format!("{}.done", words[0]), turn_number.to_string()).unwrap();
    std::process::abort();
}

fn killed(path: &Path, shape: usize, number: usize, seed: u64) {
    let task = format!("{}|{shape}|{number}|{seed}", path.display());
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "turns::a_turn_that_is_killed", "--nocapture"])
        .env(TASK, task)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    let done = std::fs::read_to_string(format!("{}.done", path.display())).unwrap_or_default();
    let words = String::from_utf8_lossy(&output.stderr);
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(done, number.to_string(), "turn {number}: {said}{words}");
}

fn take_turns(shape: usize) {
    if crate::library().is_none() {
        return;
    }
    // Every other database begins with RocksDB.
    let seed = 11 + shape as u64;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let mut model = Model::default();
    for number in 0..TURNS {
        if kind(seed, number).1 {
            killed(&path, shape, number, seed);
            model.run(&steps(seed, number));
        } else {
            one(&path, &SHAPES[shape], number, seed, &mut model);
        }
    }
    println!("{}: {TURNS} turns, half of them killed", SHAPES[shape].name);
}

#[test]
fn leveled_databases() {
    take_turns(0);
}

#[test]
fn databases_with_blobs() {
    take_turns(1);
}

#[test]
fn universal_databases() {
    take_turns(2);
}

#[test]
fn databases_without_compaction() {
    take_turns(3);
}
