//! Times the engines on the same work, in turn, and prints what one operation costs.
//!
//! ```text
//! cargo run --release -p cairn-bench -- [--num N] [--rounds N] [--dir DIR] [--options TEXT]
//! ```
//!
//! Each round begins with fresh databases. The medians of the rounds are printed, in nanoseconds on
//! the clock and of the processor (all threads), with the ratios of rounds that ran side by side.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use cairn_bench::rocksdb::Db as RocksDb;
use cairn_bench::store::{BENCHMARKS, Cost, Store, run};

struct Arguments {
    num: u64,
    rounds: usize,
    folder: PathBuf,
    options: String,
}

type Run = fn(&Path, &str, u64) -> Result<Vec<Cost>, String>;

/// The engines, in the order of their turns.
const ENGINES: [(&str, Run); 2] = [
    (RocksDb::NAME, run::<RocksDb>),
    (<cairn::Db as Store>::NAME, run::<cairn::Db>),
];

fn main() -> ExitCode {
    match parse(std::env::args().skip(1)).and_then(|arguments| compare(&arguments)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cairn-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn parse(mut words: impl Iterator<Item = String>) -> Result<Arguments, Box<dyn Error>> {
    let mut arguments = Arguments {
        num: 2_000_000,
        rounds: 3,
        folder: std::env::temp_dir().join("cairn-bench-compare"),
        // Everything that is read fits into the cache, for every engine.
        options: "compression=kNoCompression;\
                  block_based_table_factory={block_cache=1G;filter_policy=bloomfilter:10:false}"
            .to_owned(),
    };
    while let Some(word) = words.next() {
        let value = words.next().ok_or(format!("{word} wants a value"))?;
        match word.as_str() {
            "--num" => arguments.num = value.parse()?,
            "--rounds" => arguments.rounds = value.parse::<usize>()?.max(1),
            "--dir" => arguments.folder = value.into(),
            "--options" => arguments.options = value,
            other => return Err(format!("{other} is not known").into()),
        }
    }
    Ok(arguments)
}

fn compare(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let mut times = vec![vec![Vec::new(); BENCHMARKS.len()]; ENGINES.len()];
    for round in 0..arguments.rounds {
        for (engine, (name, run)) in ENGINES.iter().enumerate() {
            let folder = arguments.folder.join(format!("{name}-{round}"));
            std::fs::create_dir_all(&folder)?;
            let measured = run(&folder, &arguments.options, arguments.num);
            std::fs::remove_dir_all(&folder)?;
            for (all, time) in times[engine].iter_mut().zip(measured?) {
                all.push(time);
            }
        }
    }
    print_table("wall ns/op", &times, |cost| cost.wall.as_nanos());
    print_table("cpu ns/op", &times, |cost| cost.cpu.as_nanos());
    Ok(())
}

/// Prints the medians of one measure, and how many times the last engine beats the first.
fn print_table(title: &str, times: &[Vec<Vec<Cost>>], measure: fn(&Cost) -> u128) {
    print!("{title:12}");
    for (name, _) in ENGINES {
        print!(" {name:>10}");
    }
    println!(" {:>8} {:>15}", "ratio", "spread");
    for (number, benchmark) in BENCHMARKS.iter().enumerate() {
        print!("{benchmark:12}");
        let all: Vec<Vec<u128>> = times
            .iter()
            .map(|engine| engine[number].iter().map(measure).collect())
            .collect();
        for rounds in &all {
            print!(" {:>10}", median(rounds.clone()));
        }
        // Rounds of the two engines stand side by side in time, so their ratios are what compares.
        let (first, last) = (&all[0], &all[all.len() - 1]);
        let ratios = first
            .iter()
            .zip(last)
            .map(|(a, b)| (a * 1000) / (*b).max(1));
        let mut ratios: Vec<u128> = ratios.collect();
        ratios.sort_unstable();
        let shown = |thousandths: u128| thousandths as f64 / 1000.0;
        let (low, high) = (ratios[0], ratios[ratios.len() - 1]);
        println!(
            " {:>8.2} {:>7.2}-{:<7.2}",
            shown(median(ratios)),
            shown(low),
            shown(high)
        );
    }
}

fn median(mut values: Vec<u128>) -> u128 {
    values.sort_unstable();
    values[values.len() / 2]
}
