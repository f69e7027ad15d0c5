//! Latency curves: the time of MultiGet, scans and seeks by the latency of a read, with and without `async_io`.
//!
//! ```text
//! cargo build --release && cargo run --release -p cairn-bench --example latency_curves -- measure target/release/cairn
//! cargo run --release -p cairn-bench --example latency_curves -- draw
//! ```
//!
//! `measure` runs `cairn bench` with each latency and mode in turn, in [`ROUNDS`] rounds, and writes all results to
//! `docs/latency.csv`. `draw` draws the medians and their spread as `docs/latency-*.svg`.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const ROUNDS: usize = 3;
const LATENCIES_US: [u64; 3] = [100, 1_000, 10_000];
const MODES: [&str; 2] = ["sync", "async"];
const COLOURS: [&str; 2] = ["#d97706", "#0969da"];

/// A measured operation.
struct Workload {
    name: &'static str,
    title: &'static str,
    flags: &'static [&'static str],
}

const WORKLOADS: [Workload; 3] = [
    Workload {
        name: "multiget",
        title: "MultiGet of 32 keys, µs per key",
        flags: &[
            "--benchmarks=multireadrandom",
            "--batch_size=32",
            "--duration=2",
        ],
    },
    Workload {
        name: "scan",
        title: "scan of 65,536 entries, µs per entry",
        flags: &["--benchmarks=readseq", "--reads=65536"],
    },
    Workload {
        name: "seek",
        title: "seek and 100 nexts, µs per seek",
        flags: &[
            "--benchmarks=seekrandom",
            "--seek_nexts=100",
            "--duration=2",
        ],
    },
];

/// Flags of every run: data that do not fit in the block cache, in files of several levels.
const DATA: [&str; 6] = [
    "--num=500000",
    "--value_size=400",
    "--compression_type=none",
    "--cache_size=1M",
    "--bloom_bits=10",
    "--histogram=0",
];

/// Microseconds by workload, latency and mode.
type Measured = BTreeMap<(String, u64, String), Vec<f64>>;

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs")
}

/// Runs `cairn bench` and returns the microseconds of the last benchmark's operation.
fn bench(cairn: &str, db: &Path, flags: &[&str]) -> Result<f64> {
    let output = Command::new(cairn)
        .arg("bench")
        .arg(format!("--db={}", db.display()))
        .args(DATA)
        .args(flags)
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().rfind(|line| line.contains("micros/op"));
    let number = line.and_then(|line| line.split("micros/op").next()?.split_whitespace().last());
    match number {
        Some(number) if output.status.success() => Ok(number.parse()?),
        _ => Err(format!(
            "{cairn} bench {flags:?}: {text}{}",
            String::from_utf8_lossy(&output.stderr)
        )
        .into()),
    }
}

fn measure(cairn: &str) -> Result<()> {
    let db = std::env::temp_dir().join(format!("latency_curves.{}", std::process::id()));
    bench(
        cairn,
        &db,
        &["--benchmarks=fillrandom,flush,waitforcompaction"],
    )?;
    let mut csv = "workload,latency_us,mode,round,micros\n".to_owned();
    for round in 1..=ROUNDS {
        for workload in &WORKLOADS {
            for latency in LATENCIES_US {
                let mut modes = MODES;
                if round % 2 == 0 {
                    modes.reverse();
                }
                for mode in modes {
                    let latency_flag = format!("--fs_latency_us={latency}");
                    let mut flags = workload.flags.to_vec();
                    flags.extend(["--use_existing_db", &latency_flag]);
                    if mode == "async" {
                        flags.push("--async_io");
                    }
                    let micros = bench(cairn, &db, &flags)?;
                    writeln!(csv, "{},{latency},{mode},{round},{micros}", workload.name)?;
                }
            }
        }
    }
    std::fs::remove_dir_all(&db)?;
    std::fs::write(docs().join("latency.csv"), csv)?;
    draw()
}

fn read() -> Result<Measured> {
    let text = std::fs::read_to_string(docs().join("latency.csv"))?;
    let mut measured = Measured::new();
    for line in text.lines().skip(1) {
        let [workload, latency, mode, _, micros] = line.split(',').collect::<Vec<_>>()[..] else {
            return Err(format!("latency.csv: {line}").into());
        };
        let key = (workload.to_owned(), latency.parse()?, mode.to_owned());
        measured.entry(key).or_default().push(micros.parse()?);
    }
    measured
        .values_mut()
        .for_each(|values| values.sort_by(f64::total_cmp));
    Ok(measured)
}

/// The size of a picture and its margins.
const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 340.0;
const LEFT: f64 = 70.0;
const EDGE: f64 = 44.0;

/// The position of `value` on a logarithmic axis from `low` to `high`, from 0 to 1.
fn share(value: f64, low: f64, high: f64) -> f64 {
    (value / low).ln() / (high / low).ln()
}

/// The picture of `workload`: both axes are logarithmic, points are medians, and vertical lines their spread.
fn plot(workload: &Workload, measured: &Measured) -> Result<String> {
    let of = |latency: u64, mode: &str| {
        let key = (workload.name.to_owned(), latency, mode.to_owned());
        let values = measured.get(&key).filter(|values| !values.is_empty());
        values.ok_or_else(|| format!("latency.csv has no {key:?}"))
    };
    let mut all = Vec::new();
    for latency in LATENCIES_US {
        for mode in MODES {
            all.extend(of(latency, mode)?);
        }
    }
    let low = 10_f64.powf(all.iter().copied().fold(f64::MAX, f64::min).log10().floor());
    let high = 10_f64.powf(all.iter().copied().fold(0.0, f64::max).log10().ceil());
    let (first, last) = (
        LATENCIES_US[0] as f64,
        LATENCIES_US[LATENCIES_US.len() - 1] as f64,
    );
    let x = |latency: u64| LEFT + (WIDTH - LEFT - EDGE) * share(latency as f64, first, last);
    let y = |micros: f64| HEIGHT - EDGE - (HEIGHT - 2.0 * EDGE) * share(micros, low, high);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" font-size=\"13\">\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>\n\
         <text x=\"{LEFT}\" y=\"20\" font-weight=\"bold\">{}</text>\n",
        workload.title
    );
    let mut mark = low;
    while mark <= high * 1.001 {
        let at = y(mark);
        writeln!(
            svg,
            "<path stroke=\"#d0d7de\" d=\"M{LEFT} {at:.1}H{}\"/><text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            WIDTH - EDGE,
            LEFT - 6.0,
            at + 4.0,
            (mark * 1e6).round() / 1e6
        )?;
        mark *= 10.0;
    }
    for latency in LATENCIES_US {
        let (at, down) = (x(latency), HEIGHT - EDGE);
        writeln!(
            svg,
            "<path stroke=\"#d0d7de\" d=\"M{at:.1} {EDGE}V{down}\"/><text x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{} ms</text>",
            down + 17.0,
            latency as f64 / 1000.0
        )?;
    }
    let middle = LEFT + (WIDTH - LEFT - EDGE) / 2.0;
    writeln!(
        svg,
        "<text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">latency of a read</text>",
        HEIGHT - 8.0
    )?;
    for (mode, colour) in MODES.into_iter().zip(COLOURS) {
        let mut path = String::new();
        for latency in LATENCIES_US {
            let values = of(latency, mode)?;
            let (at, median) = (x(latency), values[values.len() / 2]);
            let command = if path.is_empty() { 'M' } else { 'L' };
            write!(path, "{command}{at:.1} {:.1}", y(median))?;
            let (lowest, highest) = (y(values[0]), y(values[values.len() - 1]));
            writeln!(
                svg,
                "<path stroke=\"{colour}\" d=\"M{at:.1} {lowest:.1}V{highest:.1}\"/><circle fill=\"{colour}\" cx=\"{at:.1}\" cy=\"{:.1}\" r=\"3.5\"/>",
                y(median)
            )?;
        }
        writeln!(
            svg,
            "<path fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" d=\"{path}\"/>"
        )?;
    }
    for (at, (mode, colour)) in MODES.into_iter().zip(COLOURS).enumerate() {
        let down = EDGE + 16.0 + at as f64 * 18.0;
        let words = if mode == "async" {
            "--async_io"
        } else {
            "without"
        };
        writeln!(
            svg,
            "<path stroke=\"{colour}\" stroke-width=\"2\" d=\"M{} {down}h22\"/><text x=\"{}\" y=\"{}\">{words}</text>",
            LEFT + 12.0,
            LEFT + 40.0,
            down + 4.0
        )?;
    }
    svg.push_str("</svg>\n");
    Ok(svg)
}

fn draw() -> Result<()> {
    let measured = read()?;
    for workload in &WORKLOADS {
        let svg = plot(workload, &measured)?;
        std::fs::write(docs().join(format!("latency-{}.svg", workload.name)), svg)?;
    }
    Ok(())
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["measure", cairn] => measure(cairn),
        ["draw"] => draw(),
        _ => Err("usage: latency_curves measure CAIRN, or latency_curves draw".into()),
    }
}
