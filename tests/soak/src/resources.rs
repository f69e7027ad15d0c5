//! Resident memory, threads and descriptors of this process over time, and the check for growth.

use std::fs;
use std::time::Duration;

/// Resource usage at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Time since the start.
    pub at: Duration,
    /// Resident memory in KiB.
    pub memory: u64,
    /// Threads.
    pub threads: u64,
    /// Open descriptors.
    pub descriptors: u64,
}

/// The names of the values of a sample.
const NAMES: [&str; 3] = ["resident KiB", "threads", "descriptors"];

/// Configuration of the C allocator, which affects how much freed memory stays resident.
///
/// By default each heap keeps the peak of the threads it served, and blocks up to the largest one ever
/// freed are allocated from heaps, where small live blocks pin them. Resident memory then grows until
/// every heap has reached its peak, regardless of the memory in use. So the process uses two heaps, and
/// blocks of 128 KiB and more are mapped separately.
#[cfg(target_env = "gnu")]
#[expect(unsafe_code, reason = "calls of the C library")]
mod allocator {
    unsafe extern "C" {
        fn malloc_trim(pad: usize) -> i32;
        fn mallopt(parameter: i32, value: i32) -> i32;
    }

    const M_TRIM_THRESHOLD: i32 = -1;
    const M_MMAP_THRESHOLD: i32 = -3;
    const M_ARENA_MAX: i32 = -8;

    /// Sets the number of heaps and the mmap threshold.
    pub fn configure() -> Result<(), String> {
        let settings = [
            (M_TRIM_THRESHOLD, 128 << 10),
            (M_MMAP_THRESHOLD, 128 << 10),
            (M_ARENA_MAX, 2),
        ];
        for (parameter, value) in settings {
            // SAFETY: takes plain numbers, and is called before other threads start.
            if unsafe { mallopt(parameter, value) } == 0 {
                return Err(format!("mallopt({parameter}, {value}) failed"));
            }
        }
        Ok(())
    }

    /// Returns free heap memory to the kernel.
    pub fn trim() {
        // SAFETY: may be called at any time, concurrently with other threads.
        unsafe { malloc_trim(0) };
    }
}

#[cfg(not(target_env = "gnu"))]
mod allocator {
    pub fn configure() -> Result<(), String> {
        Ok(())
    }

    pub fn trim() {}
}

pub use allocator::configure as configure_allocator;

impl Sample {
    /// Samples the resources, `at` after the start. Resident memory is measured after trimming the
    /// heaps.
    pub fn take(at: Duration) -> Result<Sample, String> {
        allocator::trim();
        let failed = |error: std::io::Error| format!("/proc/self: {error}");
        let status = fs::read_to_string("/proc/self/status").map_err(failed)?;
        let number = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let word = line.and_then(|line| line.split_whitespace().next());
            let value = word.and_then(|word| word.parse().ok());
            value.ok_or_else(|| format!("/proc/self/status has no {name}"))
        };
        Ok(Sample {
            at,
            memory: number("VmRSS:")?,
            threads: number("Threads:")?,
            descriptors: descriptors()?,
        })
    }

    fn values(&self) -> [u64; 3] {
        [self.memory, self.threads, self.descriptors]
    }
}

/// The number of open descriptors of this process, other than rings.
pub fn descriptors() -> Result<u64, String> {
    let entries = fs::read_dir("/proc/self/fd").map_err(|e| format!("/proc/self/fd: {e}"))?;
    let (mut others, mut rings) = (0, 0);
    for entry in entries.flatten() {
        let is_ring = fs::read_link(entry.path()).is_ok_and(|to| to.as_os_str() == RING);
        *if is_ring { &mut rings } else { &mut others } += 1;
    }
    // A thread keeps the ring of its batched reads until it exits.
    let threads = fs::read_dir("/proc/self/task").map_err(|e| format!("/proc/self/task: {e}"))?;
    let threads = threads.count() as u64;
    if rings > threads {
        return Err(format!("{threads} threads have {rings} rings"));
    }
    // One of them is the directory being read.
    Ok(u64::saturating_sub(others, 1))
}

/// The target of a descriptor of a ring.
const RING: &str = "anon_inode:[io_uring]";

/// Returns the medians of the samples from `from` to `to`; `None` without samples.
fn medians(samples: &[Sample], from: Duration, to: Duration) -> Option<[u64; 3]> {
    let within = samples.iter().filter(|s| s.at >= from && s.at < to);
    let within: Vec<[u64; 3]> = within.map(Sample::values).collect();
    if within.is_empty() {
        return None;
    }
    let median = |value: usize| {
        let mut values: Vec<u64> = within.iter().map(|sample| sample[value]).collect();
        values.sort_unstable();
        values[values.len() / 2]
    };
    Some([median(0), median(1), median(2)])
}

const MINUTE: Duration = Duration::from_secs(60);

/// Maximum growth over the values at minute 5, in percent.
const TOLERANCE: u64 = 5;

/// Prints the medians of each ten minutes. Fails if one exceeds the median around minute 5 by more than
/// [`TOLERANCE`] percent. Runs of less than ten minutes always pass.
pub fn judge(samples: &[Sample]) -> Result<(), String> {
    let Some(base) = medians(samples, 4 * MINUTE, 6 * MINUTE) else {
        return Ok(());
    };
    println!("minutes 4 to 6: {}", shown(base));
    let mut grown = Vec::new();
    let mut from = 6 * MINUTE;
    while let Some(now) = medians(samples, from, from + 10 * MINUTE) {
        let minute = from.as_secs() / 60;
        println!("minutes {minute} to {}: {}", minute + 10, shown(now));
        for value in 0..3 {
            if now[value] * 100 > base[value] * (100 + TOLERANCE) {
                grown.push(format!(
                    "{} from {} at minute 5 to {} after minute {minute}",
                    NAMES[value], base[value], now[value]
                ));
            }
        }
        from += 10 * MINUTE;
    }
    match grown.is_empty() {
        true => Ok(()),
        false => Err(format!(
            "more than {TOLERANCE} % of growth: {}",
            grown.join("; ")
        )),
    }
}

fn shown(values: [u64; 3]) -> String {
    let each = NAMES.iter().zip(values);
    let each: Vec<String> = each
        .map(|(name, value)| format!("{name} {value}"))
        .collect();
    each.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(memory: impl Fn(u64) -> u64, descriptors: impl Fn(u64) -> u64) -> Vec<Sample> {
        let sample = |number: u64| Sample {
            at: Duration::from_secs(number * 10),
            memory: memory(number),
            threads: 8,
            descriptors: descriptors(number),
        };
        (0..360).map(sample).collect()
    }

    #[test]
    fn a_constant_run_passes_despite_outliers() {
        let jumps = run(|n| 1000 + (n % 7) * 100, |n| 50 + n % 2);
        assert_eq!(judge(&jumps), Ok(()));
        assert_eq!(judge(&[]), Ok(()));
    }

    #[test]
    fn slow_growth_fails() {
        let error = judge(&run(|n| 100_000 + n * 100, |_| 50)).unwrap_err();
        assert!(error.contains("resident") && !error.contains("descriptors"));
        let error = judge(&run(|_| 100_000, |n| 50 + n / 60)).unwrap_err();
        assert!(error.contains("descriptors") && !error.contains("resident"));
    }

    #[test]
    fn this_process_has_values() {
        let sample = Sample::take(Duration::ZERO).unwrap();
        assert!(sample.memory > 100 && sample.threads > 0 && sample.descriptors > 0);
    }
}
