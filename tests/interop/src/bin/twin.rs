//! Runs scripts on RocksDB's library and on Cairn's, and compares every result.
//!
//! `twin --ops 2000000` runs that many operations, divided among the option sets, two processes at a
//! time. `twin TOKEN` repeats a script and prints it, and with `--shrink` shortens it. `--set`,
//! `--seed`, `--length` and `--first` select scripts. The libraries are `--rocksdb` (or
//! `CAIRN_ROCKSDB_LIB`, or the one that `fetch-rocksdb.sh` has fetched) and `--cairn` (or the one built
//! beside this program).

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::rc::Rc;
use std::sync::Mutex;

use cairn_bench::rocksdb::Library;
use cairn_interop::twin::run::{Token, Twins};
use cairn_interop::twin::sets::{SETS, Set};
use cairn_interop::twin::{Api, differences};

/// The command line.
struct Arguments {
    ops: usize,
    length: usize,
    seed: u64,
    set: Option<String>,
    token: Option<String>,
    shrink: bool,
    child: bool,
    workers: usize,
    rocksdb: PathBuf,
    cairn: PathBuf,
}

fn main() -> ExitCode {
    match arguments().and_then(|arguments| work(&arguments)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("twin: {error}");
            ExitCode::FAILURE
        }
    }
}

fn arguments() -> Result<Arguments, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut arguments = Arguments {
        ops: 50_000,
        length: 2_500,
        seed: 1,
        set: None,
        token: None,
        shrink: false,
        child: false,
        workers: 2,
        rocksdb: Library::path(),
        cairn: program.with_file_name("librocksdb.so"),
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} needs a value"));
        let number = |text: String| text.parse().map_err(|_| format!("{text} is no number"));
        match word.as_str() {
            "--ops" => arguments.ops = number(value()?)?,
            "--length" => arguments.length = number(value()?)?,
            "--workers" => arguments.workers = number(value()?)?,
            "--seed" => arguments.seed = number(value()?)? as u64,
            "--set" => arguments.set = Some(value()?),
            "--rocksdb" => arguments.rocksdb = value()?.into(),
            "--cairn" => arguments.cairn = value()?.into(),
            "--shrink" => arguments.shrink = true,
            "--child" => arguments.child = true,
            _ if word.starts_with("twin:") => arguments.token = Some(word),
            _ => {
                return Err(format!(
                    "{word} is not known; read the head of src/bin/twin.rs"
                ));
            }
        }
    }
    Ok(arguments)
}

fn work(arguments: &Arguments) -> Result<bool, String> {
    if let Some(token) = &arguments.token {
        return repeat(arguments, token);
    }
    if arguments.child {
        child(arguments)
    } else {
        parent(arguments)
    }
}

/// The pair of libraries, with a directory that is deleted when dropped.
fn twins(arguments: &Arguments) -> Result<(Twins, tempfile::TempDir), String> {
    let load = |path: &PathBuf| {
        let loaded = Api::load(path).map_err(|error| format!("{}: {error}", path.display()));
        loaded.map(Rc::new)
    };
    // On tmpfs if there is one, because the disk is not tested.
    let place = PathBuf::from("/dev/shm");
    let place = if place.is_dir() {
        place
    } else {
        std::env::temp_dir()
    };
    let folder = tempfile::Builder::new().prefix("twin").tempdir_in(place);
    let folder = folder.map_err(|error| error.to_string())?;
    let accepted = differences::all();
    let twins = Twins {
        rocksdb: load(&arguments.rocksdb)?,
        cairn: load(&arguments.cairn)?,
        folder: folder.path().to_owned(),
        met: vec![0; accepted.len()],
        accepted,
        loud: false,
    };
    Ok((twins, folder))
}

/// Repeats the script of a token.
fn repeat(arguments: &Arguments, text: &str) -> Result<bool, String> {
    let mut token = Token::parse(text).ok_or(format!("{text} is no token"))?;
    let (mut twins, _folder) = twins(arguments)?;
    if arguments.shrink
        && let Some(mismatch) = twins.run(&token)?
    {
        token = twins.shrink(&token, &mismatch, 600)?;
        println!("{token}");
    }
    twins.loud = true;
    let mismatch = twins.run(&token)?;
    println!("{mismatch:#?}");
    Ok(mismatch.is_none())
}

/// Runs the scripts of one set. Prints the token of each before it runs, because the process may crash.
fn child(arguments: &Arguments) -> Result<bool, String> {
    let set = arguments.set.clone().ok_or("a child needs a set")?;
    let (mut twins, _folder) = twins(arguments)?;
    let mut good = true;
    for index in 0..arguments.ops.div_ceil(arguments.length) {
        let token = Token {
            set: set.clone(),
            seed: arguments.seed.wrapping_add(index as u64),
            ops: arguments.length,
            keep: None,
        };
        println!("start {token}");
        if let Some(mismatch) = twins.run(&token)? {
            good = false;
            let shrunk = twins.shrink(&token, &mismatch, 250)?;
            // An unstable difference is not shrunk: only the whole script may reproduce it.
            let short = shrunk.keep.as_ref().is_some_and(|keep| keep.len() <= 100);
            let again = twins.run(&shrunk)?.filter(|_| short);
            let token = if again.is_some() { shrunk } else { token };
            let last = again.unwrap_or(mismatch);
            println!(
                "fail CAIRN_REPRO={token}\nfail     {} (operation {})\nfail     rocksdb: {}\n\
                 fail     cairn:   {}\nfail     {}",
                last.op, last.at, last.rocksdb, last.cairn, last.said
            );
            break;
        }
    }
    for (row, count) in twins.accepted.iter().zip(&twins.met) {
        println!("met {count} {}", row.op);
    }
    Ok(good)
}

/// The totals of all children.
#[derive(Default)]
struct Sum {
    scripts: usize,
    failed: usize,
    met: BTreeMap<String, u64>,
}

fn parent(arguments: &Arguments) -> Result<bool, String> {
    let chosen = |set: &&Set| match &arguments.set {
        Some(name) => set.name == name,
        None => !set.by_name,
    };
    let names: Vec<&str> = SETS.iter().filter(chosen).map(|set| set.name).collect();
    let each = arguments.ops.div_ceil(names.len().max(1));
    let queue = Mutex::new(names);
    let sum = Mutex::new(Sum::default());
    std::thread::scope(|scope| {
        for _ in 0..arguments.workers {
            scope.spawn(|| {
                loop {
                    let next = queue.lock().ok().and_then(|mut queue| queue.pop());
                    let Some(name) = next else { break };
                    watch(arguments, name, each, &sum);
                }
            });
        }
    });
    let sum = sum.into_inner().map_err(|error| error.to_string())?;
    for (op, count) in &sum.met {
        if *count == 0 && arguments.set.is_none() {
            println!("note: the accepted difference of {op} did not occur");
        }
    }
    let ops = sum.scripts * arguments.length;
    println!(
        "{ops} operations in {} scripts, {} sets failed",
        sum.scripts, sum.failed
    );
    Ok(sum.failed == 0)
}

/// Runs a child and forwards its output.
fn watch(arguments: &Arguments, name: &str, ops: usize, sum: &Mutex<Sum>) {
    let started = std::time::Instant::now();
    let mut last = String::from("none");
    let mut scripts = 0;
    let ended = Command::new(std::env::current_exe().expect("a program has a path"))
        .args(["--child", "--set", name, "--ops", &ops.to_string()])
        .args([
            "--length",
            &arguments.length.to_string(),
            "--seed",
            &arguments.seed.to_string(),
        ])
        .arg("--rocksdb")
        .arg(&arguments.rocksdb)
        .arg("--cairn")
        .arg(&arguments.cairn)
        .stdout(Stdio::piped())
        .spawn()
        .and_then(|mut child| {
            let output = child.stdout.take().expect("it is piped");
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if let Some(token) = line.strip_prefix("start ") {
                    scripts += 1;
                    token.clone_into(&mut last);
                } else if let Some(words) = line.strip_prefix("fail ") {
                    println!("{words}");
                } else if let Some((count, op)) = line
                    .strip_prefix("met ")
                    .and_then(|rest| rest.split_once(' '))
                {
                    let mut sum = sum.lock().expect("no thread panics with it");
                    *sum.met.entry(op.to_owned()).or_default() += count.parse().unwrap_or(0);
                }
            }
            child.wait()
        });
    let good = ended.as_ref().is_ok_and(std::process::ExitStatus::success);
    let mut sum = sum.lock().expect("no thread panics with it");
    sum.scripts += scripts;
    sum.failed += usize::from(!good);
    let seconds = started.elapsed().as_secs_f64();
    if good {
        println!("{name}: {scripts} scripts in {seconds:.1} s");
    } else {
        println!("{name}: FAILED ({ended:?}) in script {scripts}: {last}");
    }
}
