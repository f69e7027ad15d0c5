//! Comparison of engines in rounds.
//!
//! In each round every engine runs all benchmarks, one engine after the other. The order is reversed each
//! round, so that no engine always runs later, on a warmer machine.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use cairn::{Error, Result};

use crate::bench_stats::QUANTILES;
use crate::benchmarks::Benchmark;
use crate::db_dir::directory;
use crate::engine::CacheType;
use crate::flags::{Flags, OURS};
use crate::measurement::Measurement;
use crate::medians::{Spread, median, ratio};
use crate::option_text;
use crate::worker_process::{self, PREPARING, WorkerOutput};

/// The results of a comparison.
#[derive(Clone, Debug, Default)]
pub struct Comparison {
    /// Engine names in reports.
    pub labels: Vec<String>,
    /// Engine names as given.
    pub engines: Vec<String>,
    /// Each benchmark in each engine.
    pub benchmarks: Vec<Compared>,
    /// Options that differ between engines: name, and value in each.
    pub differences: Vec<(String, Vec<String>)>,
}

/// One benchmark in each engine.
#[derive(Clone, Debug, Default)]
pub struct Compared {
    /// The benchmark name.
    pub name: String,
    /// The rounds of each engine.
    pub engines: Vec<Rounds>,
}

/// The rounds of one benchmark in one engine.
#[derive(Clone, Debug, Default)]
pub struct Rounds(pub Vec<Measurement>);

impl Rounds {
    /// Returns the spread of a figure.
    #[must_use]
    pub fn spread(&self, figure: impl Fn(&Measurement) -> f64) -> Spread {
        Spread::of(self.0.iter().map(figure))
    }

    /// Returns a figure in each round.
    #[must_use]
    pub fn values(&self, figure: impl Fn(&Measurement) -> f64) -> Vec<f64> {
        self.0.iter().map(figure).collect()
    }

    /// Returns the median of each latency quantile; empty if operations were not timed.
    #[must_use]
    pub fn quantiles(&self) -> Vec<u64> {
        let timed = || {
            self.0
                .iter()
                .filter(|one| one.quantiles.len() == QUANTILES.len())
        };
        if timed().next().is_none() {
            return Vec::new();
        }
        let at = |place: usize| median(timed().map(|one| one.quantiles[place]));
        (0..QUANTILES.len()).map(at).collect()
    }

    /// Returns the latency at one of [`QUANTILES`] in nanoseconds.
    #[must_use]
    pub fn quantile(&self, quantile: f64) -> Option<u64> {
        let place = QUANTILES.iter().position(|one| *one == quantile)?;
        self.quantiles().get(place).copied()
    }
}

impl Compared {
    /// Returns the cost of engine `other` relative to the first engine.
    #[must_use]
    pub fn ratio(&self, other: usize, cost: impl Fn(&Measurement) -> f64 + Copy) -> Spread {
        ratio(
            &self.engines[0].values(cost),
            &self.engines[other].values(cost),
        )
    }
}

/// Runs all rounds.
///
/// # Errors
///
/// Worker errors, and `InvalidArgument` for unknown benchmarks.
pub fn run(flags: &Flags, mut say: impl FnMut(&str) -> Result<()>) -> Result<Comparison> {
    let names: Vec<String> = Benchmark::list(&flags.benchmarks, flags)?
        .into_iter()
        .map(|benchmark| benchmark.name)
        .collect();
    Benchmark::list(flags.prepare.as_deref().unwrap_or(""), flags)?;
    let engines = flags.engine_names();
    // An engine that cannot be loaded is known before the first round, which may take hours.
    let is_cairn: Vec<bool> = engines
        .iter()
        .map(|engine| crate::is_cairn_library(engine))
        .collect::<Result<_>>()?;
    let labels = labels(engines.iter().zip(is_cairn));
    let dirs: Vec<PathBuf> = (labels.iter().enumerate())
        .map(|(at, label)| directory(flags).join(format!("{at}-{label}")))
        .collect();
    if flags.prepare.is_some() {
        for (engine, dir) in engines.iter().zip(&dirs) {
            say(&format!("preparing {engine}"))?;
            worker_process::start(engine, dir, PREPARING)?;
        }
    }
    let mut benchmarks: Vec<Compared> = names
        .into_iter()
        .map(|name| empty(name, engines.len()))
        .collect();
    let mut options = vec![String::new(); engines.len()];
    let rounds = flags.round_count();
    for round in 1..=rounds {
        for turn in 0..engines.len() {
            let at = if round % 2 == 1 {
                turn
            } else {
                engines.len() - 1 - turn
            };
            say(&format!("round {round} of {rounds}: {}", labels[at]))?;
            let said = worker_process::start(&engines[at], &dirs[at], round as u64)?;
            note(&mut benchmarks, at, &labels[at], &said)?;
            options[at] = said.options;
        }
    }
    if flags.db.is_none() {
        dirs.iter().for_each(|dir| forget(dir));
    }
    Ok(Comparison {
        labels,
        engines,
        benchmarks,
        differences: differences(&options),
    })
}

fn empty(name: String, engines: usize) -> Compared {
    Compared {
        name,
        engines: vec![Rounds::default(); engines],
    }
}

/// Adds the results of a worker.
fn note(
    benchmarks: &mut [Compared],
    engine: usize,
    label: &str,
    said: &WorkerOutput,
) -> Result<()> {
    if said.measured.len() != benchmarks.len() {
        return Err(Error::io_text(format!(
            "the worker of engine {label} ran {} benchmarks instead of {}",
            said.measured.len(),
            benchmarks.len()
        )));
    }
    for (compared, measured) in benchmarks.iter_mut().zip(&said.measured) {
        compared.engines[engine].0.push(measured.clone());
    }
    Ok(())
}

/// Removes a database in a temporary directory.
fn forget(dir: &Path) {
    // Files that cannot be removed are overwritten by the next run.
    drop(std::fs::remove_dir_all(dir));
}

/// Returns short names of `engines`, of which some are Cairn's C library: `ours`, `ours-c` for that library, the file
/// name for others; numbered if repeated.
#[must_use]
pub fn labels<'a>(engines: impl Iterator<Item = (&'a String, bool)>) -> Vec<String> {
    let mut labels: Vec<String> = Vec::new();
    for (engine, is_cairn) in engines {
        let (path, kind) = CacheType::split(engine);
        let stem = Path::new(path)
            .file_name()
            .map(|name| name.to_string_lossy());
        let stem = stem.as_deref().unwrap_or(path);
        let short = stem.split(".so").next().unwrap_or(stem);
        let mut short = short.strip_prefix("lib").unwrap_or(short).to_owned();
        if is_cairn {
            short = format!("{OURS}-c");
        }
        let suffix = CacheType::SUFFIXES
            .iter()
            .find(|(one, _)| Some(*one) == kind);
        short += suffix.map_or("", |(_, suffix)| suffix);
        let count = labels
            .iter()
            .filter(|label| label.split('#').next() == Some(&short))
            .count();
        labels.push(match count {
            0 => short,
            more => format!("{short}#{}", more + 1),
        });
    }
    labels
}

/// Returns the options that are in all OPTIONS files with different values. Paths and version are excluded. Engines
/// without such a file have `-` instead of a value.
fn differences(texts: &[String]) -> Vec<(String, Vec<String>)> {
    let all: Vec<BTreeMap<String, String>> = texts.iter().map(|text| statements(text)).collect();
    let with_options = || all.iter().filter(|one| !one.is_empty());
    let Some(first) = with_options().next() else {
        return Vec::new();
    };
    let row = |name: &String| -> Option<(String, Vec<String>)> {
        let value = |one: &BTreeMap<String, String>| match one.is_empty() {
            true => Some("-".to_owned()),
            false => one.get(name).cloned(),
        };
        let values: Vec<String> = all.iter().map(value).collect::<Option<_>>()?;
        let same = with_options().all(|one| one.get(name) == first.get(name));
        (!same).then(|| (name.clone(), values))
    };
    first.keys().filter_map(row).collect()
}

/// Returns a map from `section/name` to value.
fn statements(text: &str) -> BTreeMap<String, String> {
    let (mut section, mut all) = (String::new(), BTreeMap::new());
    for line in text.lines().map(str::trim) {
        if let Some(head) = line.strip_prefix('[') {
            section = head.split([' ', '/', ']']).next().unwrap_or("").to_owned();
        } else if let Some((name, value)) = line.split_once('=') {
            // Directories and the version of the writer always differ.
            if section != "Version" && !name.ends_with("_dir") {
                add(&mut all, format!("{section}/{}", name.trim()), value.trim());
            }
        }
    }
    all
}

/// Adds an option or the members of a struct option, whose order varies between engines.
fn add(all: &mut BTreeMap<String, String>, name: String, value: &str) {
    match option_text::inside(value) {
        Some(parts) => {
            for (part, value) in option_text::split(parts)
                .into_iter()
                .filter_map(|statement| statement.split_once('='))
            {
                add(all, format!("{name}/{}", part.trim()), value.trim());
            }
        }
        None => {
            all.insert(name, value.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_have_distinct_short_names() {
        let engines = [
            "ours",
            "ours",
            "/x/librocksdb.so",
            "a/librocksdb.so.11",
            "release/librocksdb.so",
            "/x/librocksdb.so+hyperclock",
            "ours+lru",
        ];
        let engines = engines.map(str::to_owned);
        let is_cairn = engines.iter().map(|name| name.starts_with("release/"));
        let labels = labels(engines.iter().zip(is_cairn));
        assert_eq!(
            labels,
            [
                "ours",
                "ours#2",
                "rocksdb",
                "rocksdb#2",
                "ours-c",
                "rocksdb+hyperclock",
                "ours+lru"
            ]
        );
    }

    #[test]
    fn options_that_differ_are_named() {
        let text = |cache: &str, dir: &str| {
            format!(
                "[Version]\n rocksdb_version={cache}\n[DBOptions]\n  a=1\n  db_log_dir={dir}\n\
                     [CFOptions \"default\"]\n  b={cache}\n"
            )
        };
        let found = differences(&[text("8", "x"), text("9", "y") + "  new=1\n"]);
        assert_eq!(
            found,
            [(
                "CFOptions/b".to_owned(),
                vec!["8".to_owned(), "9".to_owned()]
            )]
        );
        assert!(differences(&[]).is_empty());
        let found = differences(&[text("8", "x"), String::new(), text("9", "y")]);
        assert_eq!(found[0].1, ["8", "-", "9"]);
        assert!(differences(&[text("8", "x"), String::new()]).is_empty());
        let nested = |value: &str| format!("[CFOptions]\n  o={value}\n");
        let found = differences(&[nested("{a=1;b={c=2}}"), nested("{b={c=3;};d=4;a=1}")]);
        let differs = (
            "CFOptions/o/b/c".to_owned(),
            vec!["2".to_owned(), "3".to_owned()],
        );
        assert_eq!(found, [differs]);
    }

    #[test]
    fn medians_and_ratios_are_computed_per_round() {
        let one = |nanos: u64, quantile: u64| Measurement {
            done: 10,
            elapsed_nanos: nanos,
            quantiles: vec![quantile; QUANTILES.len()],
            ..Measurement::default()
        };
        let compared = Compared {
            name: "readrandom".into(),
            engines: vec![
                Rounds(vec![one(100, 5), one(200, 7), one(100, 6)]),
                Rounds(vec![one(200, 5), one(600, 5), one(250, 5)]),
            ],
        };
        let ratio = compared.ratio(1, Measurement::clock);
        assert_eq!((ratio.low, ratio.median, ratio.high), (2.0, 2.5, 3.0));
        assert_eq!(compared.engines[0].quantile(0.99), Some(6));
        assert_eq!(Rounds::default().quantile(0.99), None);
    }

    #[test]
    fn a_worker_with_missing_results_is_rejected() {
        let mut benchmarks = vec![empty("x".into(), 1)];
        let error = note(&mut benchmarks, 0, "ours", &WorkerOutput::default()).unwrap_err();
        assert!(
            error.to_string().contains("0 benchmarks instead of 1"),
            "{error}"
        );
    }
}
