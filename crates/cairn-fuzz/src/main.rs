//! Replays the corpora, and a fixed number of mutated inputs of each target, without a fuzzer.
//!
//! ```text
//! cairn-fuzz [--inputs N] [--from K] [--corpus DIR] [TARGET...]   replay and mutate
//! cairn-fuzz --file TARGET FILE                                   run one file
//! ```
//!
//! Input number *n* of a target is the same on every machine, so a failure can be reproduced with
//! `--from n --inputs 1 TARGET`. A failing input is also written to `target/fuzz-failures/`. An
//! input that takes longer than ten seconds fails the run.

use std::error::Error;
use std::fs;
use std::panic;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use cairn_fuzz::mutate::{Rng, mutate};
use cairn_fuzz::{TARGETS, Target, check, target};

/// Maximum size of mutated inputs.
const MAX_LEN: usize = 64 << 10;
/// The total number of inputs run, which the watchdog monitors.
static DONE: AtomicU64 = AtomicU64::new(0);

struct Arguments {
    inputs: u64,
    from: u64,
    corpus: PathBuf,
    file: Option<PathBuf>,
    targets: Vec<&'static Target>,
}

fn main() -> ExitCode {
    let result = parse(std::env::args().skip(1)).and_then(|arguments| run(&arguments));
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cairn-fuzz: {error}");
            ExitCode::FAILURE
        }
    }
}

fn parse(mut words: impl Iterator<Item = String>) -> Result<Arguments, Box<dyn Error>> {
    let mut arguments = Arguments {
        inputs: 20_000,
        from: 0,
        corpus: PathBuf::from("fuzz/corpus"),
        file: None,
        targets: Vec::new(),
    };
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} requires a value"));
        match word.as_str() {
            "--inputs" => arguments.inputs = value()?.parse()?,
            "--from" => arguments.from = value()?.parse()?,
            "--corpus" => arguments.corpus = value()?.into(),
            "--file" => {
                arguments.targets.push(named(&value()?)?);
                arguments.file = Some(value()?.into());
            }
            name => arguments.targets.push(named(name)?),
        }
    }
    if arguments.targets.is_empty() {
        arguments.targets.extend(TARGETS);
    }
    Ok(arguments)
}

fn named(name: &str) -> Result<&'static Target, String> {
    target(name).ok_or_else(|| {
        let all: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
        format!("no target {name}; the targets are {}", all.join(", "))
    })
}

fn run(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    std::thread::spawn(watch);
    if let Some(file) = &arguments.file {
        check(arguments.targets[0], &fs::read(file)?);
        return Ok(());
    }
    let (mut seeds, mut inputs) = (0, 0);
    for target in &arguments.targets {
        let corpus = corpus(&arguments.corpus.join(target.name))?;
        let started = Instant::now();
        for (number, seed) in corpus.iter().enumerate() {
            guarded(target, seed, &format!("seed {number}"))?;
        }
        for number in arguments.from..arguments.from + arguments.inputs {
            let input = input(target, &corpus, number);
            guarded(target, &input, &format!("input {number}"))?;
        }
        println!(
            "{:16} {:4} seeds, {} mutated inputs, {:.1} s",
            target.name,
            corpus.len(),
            arguments.inputs,
            started.elapsed().as_secs_f64()
        );
        seeds += corpus.len();
        inputs += arguments.inputs;
    }
    println!(
        "{} targets, {seeds} seeds, {inputs} mutated inputs",
        arguments.targets.len()
    );
    Ok(())
}

/// Returns the seeds of a target in name order; one empty seed if there are none.
fn corpus(folder: &Path) -> Result<Vec<Vec<u8>>, Box<dyn Error>> {
    let mut files = Vec::new();
    if folder.is_dir() {
        for entry in fs::read_dir(folder)? {
            files.push(entry?.path());
        }
    }
    files.sort();
    let mut seeds = Vec::new();
    for file in files {
        seeds.push(fs::read(file)?);
    }
    if seeds.is_empty() {
        seeds.push(Vec::new());
    }
    Ok(seeds)
}

/// Returns mutated input `number`; every second one has its checksums recomputed.
fn input(target: &Target, corpus: &[Vec<u8>], number: u64) -> Vec<u8> {
    let mut rng = Rng::of(target.name, number);
    let mut data = corpus[rng.below(corpus.len())].clone();
    let other = &corpus[rng.below(corpus.len())];
    mutate(&mut data, other, &mut rng, MAX_LEN);
    if let Some(repair) = target.repair
        && number % 2 == 1
    {
        repair(&mut data);
    }
    data
}

/// Runs one input; a panic is recorded with the input and returned as an error.
fn guarded(target: &Target, data: &[u8], name: &str) -> Result<(), Box<dyn Error>> {
    let started = Instant::now();
    let outcome = panic::catch_unwind(|| check(target, data));
    DONE.fetch_add(1, Ordering::Relaxed);
    if outcome.is_ok() && started.elapsed() < Duration::from_secs(10) {
        return Ok(());
    }
    let folder = Path::new("target/fuzz-failures");
    fs::create_dir_all(folder)?;
    let file = folder.join(format!("{}-{}", target.name, name.replace(' ', "-")));
    fs::write(&file, data)?;
    let took = started.elapsed().as_secs_f64();
    Err(format!(
        "{}: {name} failed after {took:.1} s; the input is in {}",
        target.name,
        file.display()
    )
    .into())
}

/// Exits the process if no input finishes for a minute.
fn watch() {
    let mut seen = 0;
    loop {
        std::thread::sleep(Duration::from_secs(60));
        let now = DONE.load(Ordering::Relaxed);
        if now == seen {
            eprintln!("cairn-fuzz: the input after {now} finished inputs hangs");
            std::process::exit(1);
        }
        seen = now;
    }
}
