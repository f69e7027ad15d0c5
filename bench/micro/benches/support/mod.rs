//! Cases of RocksDB's micro-benchmarks, run by criterion.
//!
//! A case has the name and the parameters that it has in RocksDB, so that one or several can be selected by a regular
//! expression. It is prepared when it is selected, and dropped before the next one. After criterion's report a case
//! prints the coefficient of variation of its samples, and the further results that RocksDB's case reports.

#![allow(
    dead_code,
    unreachable_pub,
    reason = "each program that includes this module uses a part of it"
)]

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use criterion::{Criterion, SamplingMode};
use serde_json::Value;

/// The files of criterion. The name of a case is longer than criterion's names of directories may be.
const RESULTS: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/microbench");

/// The length from which criterion cuts names in its report.
const LONGEST_TITLE: usize = 100;

/// A prepared case.
pub trait Case {
    /// Executes a number of operations, and returns the time that they took.
    fn run(&mut self, operations: u64) -> Duration;

    /// Further results, by RocksDB's names.
    fn counters(&mut self) -> Vec<(&'static str, f64)> {
        Vec::new()
    }
}

/// The number of operations of a case.
#[derive(Clone, Copy)]
pub enum Sampling {
    /// As many as fit in criterion's measurement time.
    Timed,
    /// This many samples of one operation each, because each operation changes the database. The measurement time is
    /// too short for that, so that criterion takes no more; it warns about that.
    Single(usize),
}

/// Runs the case `name` if the arguments of the program select it.
pub fn run<C: Case>(name: &str, sampling: Sampling, prepare: impl FnOnce() -> C) {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    let results = PathBuf::from(RESULTS).join(format!("{:016x}", hasher.finish()));
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
        .output_directory(&results);
    if let Sampling::Single(samples) = sampling {
        criterion = criterion
            .sample_size(samples)
            .warm_up_time(Duration::from_nanos(1))
            .measurement_time(Duration::from_millis(1));
    }
    let mut criterion = criterion.configure_from_args();
    let mut prepare = Some(prepare);
    let mut case = None;
    let measured = |b: &mut criterion::Bencher<'_>| {
        let case = case.get_or_insert_with(|| prepare.take().expect("a case is prepared once")());
        b.iter_custom(|operations| case.run(operations));
    };
    if let Some((group, parameters)) = name.split_once('/') {
        let mut group = criterion.benchmark_group(group);
        if let Sampling::Single(_) = sampling {
            group.sampling_mode(SamplingMode::Flat);
        }
        group.bench_function(parameters, measured);
        group.finish();
    } else {
        criterion.bench_function(name, measured);
    }
    if let Some(mut case) = case {
        if name.len() > LONGEST_TITLE {
            println!("{:24}case:   {name}", "");
        }
        if let Some(variation) = coefficient_of_variation(&samples(&results)) {
            println!("{:24}cv:     {:.2} %", "", variation * 100.0);
        }
        for (name, value) in case.counters() {
            println!("{:24}{name}: {value}", "");
        }
    }
}

/// Returns the times of an operation in the samples that criterion has saved in `results`.
fn samples(results: &Path) -> Vec<f64> {
    let children = |path: PathBuf| {
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        entries.map(|entry| entry.path())
    };
    let groups: Vec<PathBuf> = children(results.to_owned()).collect();
    let cases = groups.iter().cloned().flat_map(children);
    let files = groups
        .iter()
        .cloned()
        .chain(cases)
        .map(|dir| dir.join("new/sample.json"));
    let text = files
        .filter_map(|file| fs::read_to_string(file).ok())
        .next();
    let saved: Value = text
        .and_then(|text| serde_json::from_str(&text).ok())
        .unwrap_or_default();
    let numbers = |name: &str| {
        let numbers = saved[name].as_array().into_iter().flatten();
        numbers.filter_map(Value::as_f64).collect::<Vec<_>>()
    };
    let (times, operations) = (numbers("times"), numbers("iters"));
    let samples = times.iter().zip(&operations);
    samples
        .map(|(time, operations)| time / operations)
        .collect()
}

/// Returns the standard deviation divided by the mean; `None` for fewer than two samples.
fn coefficient_of_variation(samples: &[f64]) -> Option<f64> {
    let count = samples.len() as f64;
    if count < 2.0 {
        return None;
    }
    let mean = samples.iter().sum::<f64>() / count;
    let squares = samples.iter().map(|sample| (sample - mean).powi(2));
    Some((squares.sum::<f64>() / (count - 1.0)).sqrt() / mean)
}

/// Measures `operation`, called `operations` times.
pub fn timed(operations: u64, mut operation: impl FnMut()) -> Duration {
    let began = Instant::now();
    for _ in 0..operations {
        operation();
    }
    began.elapsed()
}

/// Returns the name of a case of `benchmark` with these parameters, in Google Benchmark's form.
pub fn name(benchmark: &str, parameters: &[(&str, u64)]) -> String {
    let parameters = parameters.iter();
    let parameters = parameters.map(|(name, value)| format!("/{name}:{value}"));
    benchmark.to_owned() + &parameters.collect::<String>()
}
