//! Soak test: all kinds of load on real files, compared with a model.
//!
//! ```text
//! cairn-soak --minutes 60 [--dir DIR] [--seed N] [--workers N] [--cycle SECONDS] [--pace N]
//! cairn-soak --seconds 20
//! ```
//!
//! Workers write, read, scan, hold snapshots and iterators, create and drop families, ingest tables,
//! change options and create checkpoints on one database; each compares every answer with the model of
//! its own keys. The database is reopened repeatedly with varying options, and file operations fail
//! temporarily in most cycles. A run fails at the first wrong answer, error without a fault, descriptor
//! leaked by a close, or hanging operation; a run of more than ten minutes also fails if resident memory,
//! threads or descriptors grow by more than 5 % over their values at minute 5. Since the size of the
//! database depends on the speed of the writers, long runs limit the rate of each worker to `--pace`
//! operations a second (2,000 by default; 0, and runs of up to ten minutes, are unlimited).

mod cycle;
mod faults;
mod model;
mod options;
mod resources;
mod shared;
mod worker;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use cycle::Soak;
use resources::Sample;
use shared::Shared;

/// Time without a finished operation after which the run is considered hung.
const HANG: Duration = Duration::from_secs(180);

/// Default rate of each worker in long runs, in operations per second: a third of what two cores
/// achieve.
const PACE: u64 = 2000;

/// Maximum sampling interval.
const SAMPLING: Duration = Duration::from_secs(2);

struct Arguments {
    length: Duration,
    folder: Option<PathBuf>,
    seed: u64,
    workers: usize,
    cycle: Option<Duration>,
    pace: Option<u64>,
}

fn main() -> ExitCode {
    match arguments().and_then(|arguments| run(&arguments)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(words) => {
            eprintln!("cairn-soak: {words}");
            ExitCode::FAILURE
        }
    }
}

fn arguments() -> Result<Arguments, String> {
    let mut arguments = Arguments {
        length: Duration::from_secs(20),
        folder: None,
        seed: 1,
        workers: 3,
        cycle: None,
        pace: None,
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words.next().ok_or(format!("{word} takes a value"))?;
        let number = || {
            value
                .parse::<u64>()
                .map_err(|e| format!("{word} {value}: {e}"))
        };
        match word.as_str() {
            "--minutes" => arguments.length = Duration::from_secs(number()? * 60),
            "--seconds" => arguments.length = Duration::from_secs(number()?),
            "--dir" => arguments.folder = Some(value.into()),
            "--seed" => arguments.seed = number()?,
            "--workers" => arguments.workers = number()?.max(1) as usize,
            "--pace" => arguments.pace = Some(number()?),
            "--cycle" => arguments.cycle = Some(Duration::from_secs(number()?.max(1))),
            _ => {
                return Err(format!(
                    "{word}: the head of tests/soak/src/main.rs lists the flags"
                ));
            }
        }
    }
    Ok(arguments)
}

fn run(arguments: &Arguments) -> Result<(), String> {
    resources::configure_allocator()?;
    let folder = match &arguments.folder {
        Some(folder) => folder.clone(),
        None => std::env::temp_dir().join(format!("cairn-soak-{}", std::process::id())),
    };
    // An existing directory may hold other files.
    std::fs::create_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let shared = Arc::new(Shared::default());
    let watch = Watch::begin(arguments.length, Arc::clone(&shared));
    let mut soak = Soak::new(&folder, arguments, shared);
    let done = cycles(&mut soak, arguments, &watch);
    println!("{}", soak.summary());
    let judged = resources::judge(&watch.end()?);
    if let Err(words) = done.and(judged) {
        return Err(format!(
            "{words}\nthe database is kept in {}",
            folder.display()
        ));
    }
    std::fs::remove_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))
}

impl Arguments {
    /// Returns the minimum interval between operations of a worker; zero if unlimited.
    fn interval(&self) -> Duration {
        let judged = self.length > Duration::from_secs(600);
        let pace = self.pace.unwrap_or(if judged { PACE } else { 0 });
        Duration::from_secs(1)
            .checked_div(pace.try_into().unwrap_or(u32::MAX))
            .unwrap_or_default()
    }
}

fn cycles(soak: &mut Soak, arguments: &Arguments, watch: &Watch) -> Result<(), String> {
    // Short runs go through every fault mode, too.
    let cycle = arguments.cycle.unwrap_or(match arguments.length.as_secs() {
        0..300 => arguments.length / (faults::MODES.len() as u32 + 1),
        _ => Duration::from_secs(15),
    });
    while watch.begun.elapsed() < arguments.length {
        soak.cycle(cycle).map_err(|what| {
            let elapsed = watch.begun.elapsed().as_secs();
            format!("cycle {}, after {elapsed} s: {what}", soak.cycles)
        })?;
    }
    Ok(())
}

/// A thread that samples resources and exits the process on a hang.
struct Watch {
    begun: Instant,
    ends: Arc<AtomicBool>,
    samples: Arc<Mutex<Vec<Sample>>>,
    thread: std::thread::JoinHandle<Result<(), String>>,
}

impl Watch {
    fn begin(length: Duration, shared: Arc<Shared>) -> Watch {
        let (begun, ends) = (Instant::now(), Arc::new(AtomicBool::new(false)));
        let samples = Arc::new(Mutex::new(Vec::new()));
        let interval = (length / 20).clamp(Duration::from_secs(1), SAMPLING);
        let (end, list) = (Arc::clone(&ends), Arc::clone(&samples));
        let thread = std::thread::spawn(move || {
            let mut seen = (shared.operations(), Instant::now());
            let mut next = begun + interval;
            while !end.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(100));
                if Instant::now() < next {
                    continue;
                }
                next += interval;
                let sample = Sample::take(begun.elapsed())?;
                list.lock().map_err(|_| "a sampler panicked")?.push(sample);
                let operations = shared.operations();
                println!(
                    "{:6.0} s: {:8} KiB, {} threads, {} descriptors, {operations} operations",
                    sample.at.as_secs_f64(),
                    sample.memory,
                    sample.threads,
                    sample.descriptors
                );
                if operations != seen.0 {
                    seen = (operations, Instant::now());
                } else if seen.1.elapsed() > HANG {
                    eprintln!("cairn-soak: no operation ended for {} s", HANG.as_secs());
                    std::process::abort();
                }
            }
            Ok(())
        });
        Watch {
            begun,
            ends,
            samples,
            thread,
        }
    }

    fn end(self) -> Result<Vec<Sample>, String> {
        self.ends.store(true, Ordering::SeqCst);
        self.thread.join().map_err(|_| "the sampler panicked")??;
        let samples = self.samples.lock().map_err(|_| "the sampler panicked")?;
        Ok(samples.clone())
    }
}
