//! Kills processes that write to a Cairn database, and opens the remaining files with both engines.
//!
//! `kills --rounds 1000` runs that many rounds with memory-mapped logs and as many with logs written by
//! system calls; `--first` is the seed of the first round. `kills --child DIR SEED mapped` is the
//! process to kill.

use std::path::Path;
use std::process::{Command, ExitCode};

use cairn_interop::kills::{self, Logs, Refused};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["--child", dir, seed, logs] => child(dir, seed, logs),
        ["--rounds", rounds] => rounds_of(rounds, "0"),
        ["--rounds", rounds, "--first", first] => rounds_of(rounds, first),
        _ => Err("usage: kills --rounds N [--first SEED]".to_owned()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("kills: {error}");
            ExitCode::FAILURE
        }
    }
}

fn number(word: &str) -> Result<u64, String> {
    word.parse().map_err(|_| format!("{word:?} is no number"))
}

fn child(dir: &str, seed: &str, logs: &str) -> Result<(), String> {
    let logs = match logs {
        "mapped" => Logs::Mapped,
        _ => Logs::Plain,
    };
    kills::write_until_killed(Path::new(dir), number(seed)?, logs)
}

fn rounds_of(rounds: &str, first: &str) -> Result<(), String> {
    let (rounds, first) = (number(rounds)?, number(first)?);
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let place = tempfile::tempdir().map_err(|error| error.to_string())?;
    for logs in ["mapped", "plain"] {
        let mut refused = Refused::default();
        for seed in first..first + rounds {
            let mut command = Command::new(&program);
            let left = place.path().join("left");
            command
                .arg("--child")
                .arg(left)
                .args([&seed.to_string(), logs]);
            kills::round(&mut command, place.path(), seed, &mut refused)?;
        }
        println!(
            "{rounds} kills, logs {logs}: opened in three modes by both engines; refused under absolute consistency \
             by Cairn {}, by RocksDB {}; rows that were not acknowledged after {}",
            refused.absolute[0], refused.absolute[1], refused.unacknowledged
        );
    }
    Ok(())
}
