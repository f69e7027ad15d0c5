//! The command `fault`.

use std::collections::BTreeMap;

use cairn_model::engine::Factory;
use cairn_model::fault::{Counts, Faulty};
use cairn_model::script::Script;
use cairn_model::token::{FaultPoint, Token};
use cairn_model::workload::{self, Workload};
use cairn_platform::sync::{AtomicU64, Mutex, Ordering};
use cairn_types::{Error, Result};

use crate::stall_watchdog::{self, Current};
use crate::{Arguments, Task, engine, failed};

/// Runs the cases of many scripts.
pub fn many(arguments: &Arguments) -> Result<()> {
    let name = arguments.text("--engine").unwrap_or("cairn");
    engine(name)?;
    let workloads: Vec<&Workload> = match arguments.text("--workload") {
        Some(name) => vec![workload::find(name)?],
        None => workload::WORKLOADS.iter().collect(),
    };
    let first = arguments.number("--seed", 1)?;
    let count = arguments.number("--count", 1)?;
    let ops = arguments.number("--ops", 30)? as usize;
    let runs = arguments.number("--runs", 400)? as usize;
    let mut tasks = Vec::new();
    for seed in first..first.saturating_add(count) {
        tasks.extend(workloads.iter().map(|workload| Task {
            workload,
            set: None,
            seed,
            ops,
        }));
    }
    let goes_on = arguments.has("--keep-going");
    let next = AtomicU64::new(0);
    let total = Mutex::new(Counts::default());
    let failures: Mutex<BTreeMap<String, (String, usize)>> = Mutex::new(BTreeMap::new());
    let threads = arguments.number("--threads", 2)?.clamp(1, 64);
    let work = |current: &Current| -> Result<()> {
        let factory = engine(name)?;
        loop {
            // Relaxed: a counter that orders no other memory access.
            let number = next.fetch_add(1, Ordering::Relaxed) as usize;
            let Some(task) = tasks.get(number) else {
                return Ok(());
            };
            let script = task.script();
            let faulty = Faulty::new(factory.as_ref(), &script, task.seed)
                .map_err(|failure| failed(&failure, &task.token(name, None)))?;
            for point in faulty.cases(runs) {
                if !goes_on && !failures.lock().is_empty() {
                    return Ok(());
                }
                let mut token = task.token(name, None);
                token.fault = Some(point);
                current.begins(token.to_string());
                let mut counts = Counts::default();
                if let Err(failure) = faulty.case(&point, &mut counts) {
                    let mut failures = failures.lock();
                    let entry = failures.entry(signature(&failure.text));
                    entry
                        .or_insert_with(|| (format!("{failure}\n{token}"), 0))
                        .1 += 1;
                }
                *total.lock() += counts;
            }
            current.ends();
        }
    };
    let refused = Mutex::new(None);
    stall_watchdog::run(threads, |current| {
        if let Err(error) = work(current) {
            refused.lock().get_or_insert(error);
        }
    });
    if let Some(error) = refused.into_inner() {
        return Err(error);
    }
    report(&total.into_inner(), &failures.into_inner())
}

/// Returns the text without numbers, to group similar failures.
fn signature(text: &str) -> String {
    let mut words: Vec<String> = Vec::new();
    for word in text.split_whitespace().take(60) {
        let letters: String = word
            .chars()
            .filter(|letter| !letter.is_ascii_digit())
            .collect();
        words.push(letters);
    }
    words.join(" ")
}

fn report(counts: &Counts, failures: &BTreeMap<String, (String, usize)>) -> Result<()> {
    let Counts {
        runs,
        missed,
        refused,
        stopped,
        images,
        harmless,
        kinds,
    } = counts;
    println!(
        "{runs} runs with a fault ({missed} more ended before it), {} pairs of call and  \
         fault: {refused} with refused operations, {stopped} stopped, {harmless} harmless; {images} disk images checked",
        kinds.len()
    );
    match failures.is_empty() {
        true => Ok(()),
        false => {
            let texts: Vec<String> = failures
                .values()
                .map(|(text, count)| format!("{count}x: {text}"))
                .collect();
            Err(Error::aborted(texts.join("\n\n")))
        }
    }
}

/// Reproduces the case of a token.
pub fn replay(
    factory: &dyn Factory,
    script: &Script,
    token: &Token,
    point: &FaultPoint,
) -> Result<()> {
    let mut faulty = Faulty::new(factory, script, token.seed).map_err(|f| failed(&f, token))?;
    faulty.verbose = true;
    let mut counts = Counts::default();
    let done = faulty.case(point, &mut counts);
    done.map_err(|failure| failed(&failure, token))?;
    println!("no failure");
    Ok(())
}
