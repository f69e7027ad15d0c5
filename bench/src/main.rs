//! Times the engines on the same work, in turn, and prints the time of one operation.
//!
//! ```text
//! cargo run --release -p cairn-bench -- [--num N] [--rounds N] [--dir DIR] [--options TEXT]
//! ```
//!
//! Each round begins with fresh databases. The median of the rounds is printed, in nanoseconds.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use cairn_bench::rocksdb::Db as RocksDb;
use cairn_bench::store::{BENCHMARKS, Store, run};

struct Arguments {
    num: u64,
    rounds: usize,
    folder: PathBuf,
    options: String,
}

type Run = fn(&Path, &str, u64) -> Result<Vec<Duration>, String>;

/// The engines, in the order of their turns.
const ENGINES: [(&str, Run); 1] = [(RocksDb::NAME, run::<RocksDb>)];

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
    let mut times = ENGINES.map(|_| vec![Vec::new(); BENCHMARKS.len()]);
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
    print!("{:12}", "ns/op");
    for (name, _) in ENGINES {
        print!(" {name:>10}");
    }
    println!();
    for (number, benchmark) in BENCHMARKS.iter().enumerate() {
        print!("{benchmark:12}");
        for engine in &mut times {
            let all = &mut engine[number];
            all.sort();
            print!(" {:>10}", all[all.len() / 2].as_nanos());
        }
        println!();
    }
    Ok(())
}
