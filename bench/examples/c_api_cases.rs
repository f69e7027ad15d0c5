//! Cases of `db_basic_bench` and `table_reader_bench` that the C API can express, on two libraries with that API.
//!
//! `cargo xtask microbench --against LIBRARY` builds Cairn's library and runs this program:
//!
//! ```text
//! c_api_cases OURS THEIRS [PART OF A NAME]
//! ```
//!
//! In each of [`ROUNDS`] rounds, both libraries execute a case, in alternating order, each in its own directory below
//! `TEST_TMPDIR` or that for temporary files. Printed are the medians of the nanoseconds of an operation, their
//! coefficients of variation, and the ratio theirs/ours, as the median, lowest and highest of the rounds. All data fit in
//! the block cache.

use std::error::Error;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cairn_bench::key_value_gen::Rng;
use cairn_bench::rocksdb::{Db, Family, Iter, Library, OpenMode};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const ROUNDS: usize = 5;
const KEYS: u64 = 100_000;
const VALUE: [u8; 100] = [b'v'; 100];
/// The time for which the operations of a case are repeated in a round.
const TIME: Duration = Duration::from_millis(300);
const DEFAULT: Family = Family(0);
const OPTIONS: &str = "create_if_missing=true;compression=kNoCompression;disable_auto_compactions=true;\
    block_based_table_factory={block_cache=256M;filter_policy=bloomfilter:10:false}";

/// A case: its name, and the nanoseconds of an operation in the database at a path, which it creates.
struct Case {
    name: &'static str,
    run: fn(&Library, &Path) -> Result<f64>,
}

const CASES: [Case; 14] = [
    Case {
        name: "DBOpen",
        run: |library, path| Ok(openings(library, path)?.0),
    },
    Case {
        name: "DBClose",
        run: |library, path| Ok(openings(library, path)?.1),
    },
    Case {
        name: "DBPut/wal:1",
        run: |library, path| puts(library, path, true),
    },
    Case {
        name: "DBPut/wal:0",
        run: |library, path| puts(library, path, false),
    },
    Case {
        name: "ManualFlush",
        run: flush,
    },
    Case {
        name: "ManualCompaction",
        run: compaction,
    },
    Case {
        name: "DBGet/negative_query:0",
        run: |library, path| gets(library, path, false),
    },
    Case {
        name: "DBGet/negative_query:1",
        run: |library, path| gets(library, path, true),
    },
    Case {
        name: "IteratorSeek",
        run: |library, path| {
            on_iterator(library, path, |iter, random| {
                iter.seek(&key(random.below(KEYS)))
            })
        },
    },
    Case {
        name: "IteratorNext",
        run: |library, path| {
            on_iterator(library, path, |iter, _| {
                if iter.valid() {
                    iter.next()
                } else {
                    iter.seek_to_first()
                }
            })
        },
    },
    Case {
        name: "IteratorPrev",
        run: |library, path| {
            on_iterator(library, path, |iter, _| {
                if iter.valid() {
                    iter.prev()
                } else {
                    iter.seek_to_last()
                }
            })
        },
    },
    Case {
        name: "PrefixSeek",
        run: |library, path| {
            on_iterator(library, path, |iter, random| {
                // The prefix of a hundred keys.
                iter.seek(&key(random.below(KEYS))[..14]);
            })
        },
    },
    Case {
        name: "table_reader_bench/iterator:0/through_db:1",
        run: |library, path| gets(library, path, false),
    },
    Case {
        name: "table_reader_bench/iterator:1/through_db:1",
        run: scans,
    },
];

fn key(number: u64) -> Vec<u8> {
    format!("{number:016}").into_bytes()
}

fn open(library: &Library, path: &Path) -> Result<Db> {
    Ok(Db::open(
        library,
        path,
        OPTIONS,
        &[("default", OPTIONS)],
        OpenMode::Create,
    )?)
}

/// A compacted database with all keys, all blocks of which are cached.
fn filled(library: &Library, path: &Path) -> Result<Db> {
    let db = open(library, path)?;
    for number in 0..KEYS {
        db.put(DEFAULT, &key(number), &VALUE)?;
    }
    db.flush(DEFAULT)?;
    db.compact(DEFAULT);
    for number in 0..2 * KEYS {
        black_box(db.get(DEFAULT, &key(number % KEYS))?);
    }
    Ok(db)
}

/// The nanoseconds of `operation`, repeated for [`TIME`].
fn timed(mut operation: impl FnMut() -> Result<()>) -> Result<f64> {
    let (began, mut count) = (Instant::now(), 0_u64);
    while began.elapsed() < TIME {
        for _ in 0..100 {
            operation()?;
        }
        count += 100;
    }
    Ok(began.elapsed().as_nanos() as f64 / count as f64)
}

/// The times of opening and of closing a database with a table.
fn openings(library: &Library, path: &Path) -> Result<(f64, f64)> {
    drop(filled(library, path)?);
    let (mut opening, mut closing, count) = (Duration::ZERO, Duration::ZERO, 5);
    for _ in 0..count {
        let began = Instant::now();
        let db = open(library, path)?;
        opening += began.elapsed();
        let began = Instant::now();
        drop(db);
        closing += began.elapsed();
    }
    let nanos = |time: Duration| time.as_nanos() as f64 / f64::from(count);
    Ok((nanos(opening), nanos(closing)))
}

fn puts(library: &Library, path: &Path, wal: bool) -> Result<f64> {
    let mut db = open(library, path)?;
    db.write_with(false, wal);
    let mut random = Rng::new(301);
    timed(|| Ok(db.put(DEFAULT, &key(random.below(KEYS)), &VALUE)?))
}

fn flush(library: &Library, path: &Path) -> Result<f64> {
    let db = open(library, path)?;
    for number in 0..KEYS {
        db.put(DEFAULT, &key(number), &VALUE)?;
    }
    let began = Instant::now();
    db.flush(DEFAULT)?;
    Ok(began.elapsed().as_nanos() as f64)
}

fn compaction(library: &Library, path: &Path) -> Result<f64> {
    let db = open(library, path)?;
    for file in 0..4 {
        for number in (file..KEYS).step_by(4) {
            db.put(DEFAULT, &key(number), &VALUE)?;
        }
        db.flush(DEFAULT)?;
    }
    let began = Instant::now();
    db.compact(DEFAULT);
    Ok(began.elapsed().as_nanos() as f64)
}

fn gets(library: &Library, path: &Path, negative_query: bool) -> Result<f64> {
    let db = filled(library, path)?;
    let mut random = Rng::new(301);
    timed(|| {
        let mut key = key(random.below(KEYS));
        if negative_query {
            key.push(b'x');
        }
        let found = db.get(DEFAULT, &key)?;
        assert_eq!(found.is_some(), !negative_query);
        Ok(())
    })
}

fn on_iterator(
    library: &Library,
    path: &Path,
    mut step: impl FnMut(&mut Iter<'_>, &mut Rng),
) -> Result<f64> {
    let db = filled(library, path)?;
    let mut iter = db.iter(DEFAULT);
    let mut random = Rng::new(301);
    timed(|| {
        step(&mut iter, &mut random);
        if iter.valid() {
            black_box((iter.key(), iter.value()));
        }
        Ok(())
    })
}

fn scans(library: &Library, path: &Path) -> Result<f64> {
    let db = filled(library, path)?;
    let mut random = Rng::new(301);
    timed(|| {
        let (start, mut left) = (random.below(KEYS), random.below(512) + 1);
        let mut iter = db.iter(DEFAULT);
        iter.seek(&key(start));
        while left > 0 && iter.valid() {
            black_box((iter.key(), iter.value()));
            iter.next();
            left -= 1;
        }
        Ok(iter.status()?)
    })
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

/// The standard deviation divided by the mean, in percent.
fn variation(values: &[f64]) -> f64 {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (squares / (count - 1.0)).sqrt() / mean * 100.0
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [ours, theirs, part @ ..] = &arguments[..] else {
        return Err("usage: c_api_cases OURS THEIRS [PART OF A NAME]".into());
    };
    let libraries = [
        Library::load(Path::new(ours))?,
        Library::load(Path::new(theirs))?,
    ];
    let parent = std::env::var_os("TEST_TMPDIR").map_or_else(std::env::temp_dir, PathBuf::from);
    let path = parent.join(format!("c_api_cases{}", std::process::id()));
    let chosen = |case: &&Case| {
        part.first()
            .is_none_or(|part| case.name.contains(part.as_str()))
    };
    println!(
        "{:44} {:>12} {:>6} {:>12} {:>6}  ratio",
        "case", "ours, ns", "cv", "theirs, ns", "cv"
    );
    for case in CASES.iter().filter(chosen) {
        let mut nanos = [Vec::new(), Vec::new()];
        for round in 0..ROUNDS {
            for turn in 0..2 {
                let at = (round + turn) % 2;
                let ran = (case.run)(&libraries[at], &path);
                std::fs::remove_dir_all(&path)?;
                nanos[at].push(ran?);
            }
        }
        let [ours, theirs] = &nanos;
        let ratios: Vec<f64> = ours
            .iter()
            .zip(theirs)
            .map(|(ours, theirs)| theirs / ours)
            .collect();
        let lowest = ratios.iter().copied().fold(f64::MAX, f64::min);
        let highest = ratios.iter().copied().fold(0.0, f64::max);
        println!(
            "{:44} {:12.0} {:5.1}% {:12.0} {:5.1}%  {:.2} ({lowest:.2} to {highest:.2})",
            case.name,
            median(ours),
            variation(ours),
            median(theirs),
            variation(theirs),
            median(&ratios)
        );
    }
    Ok(())
}
