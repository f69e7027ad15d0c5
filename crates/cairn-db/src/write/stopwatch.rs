//! The duration of the steps of a memtable switch and of making room, for the info log: all writes wait for
//! them.

use std::fmt::Write as _;
use std::time::Duration;

use cairn_observe::Logger;
use cairn_platform::Clock;

/// Operations that take at least this long are logged.
const LONG: Duration = Duration::from_millis(20);

/// The steps of an operation that writes wait for, with their durations.
pub(crate) struct Stopwatch<'c> {
    clock: &'c dyn Clock,
    began: u64,
    /// The end of the last step.
    ended: u64,
    steps: Vec<(&'static str, u64)>,
}

impl<'c> Stopwatch<'c> {
    /// Starts the first step.
    pub(crate) fn start(clock: &'c dyn Clock) -> Stopwatch<'c> {
        let now = clock.monotonic_nanos();
        Stopwatch {
            clock,
            began: now,
            ended: now,
            steps: Vec::new(),
        }
    }

    /// Ends the step `name` and starts the next one.
    pub(crate) fn lap(&mut self, name: &'static str) {
        let now = self.clock.monotonic_nanos();
        self.steps.push((name, now.saturating_sub(self.ended)));
        self.ended = now;
    }

    /// Logs the duration of `what` and of its longest steps to `info`, if it took long.
    #[track_caller]
    pub(crate) fn log_if_slow(&self, info: &Logger, what: &str) {
        let took = Duration::from_nanos(self.ended.saturating_sub(self.began));
        if took >= LONG {
            let steps = self.longest_first();
            info.info(format_args!("{what} took {} ms: {steps}", took.as_millis()));
        }
    }

    /// The steps of at least a millisecond.
    fn longest_first(&self) -> String {
        let mut steps: Vec<_> = self.steps.iter().collect();
        steps.sort_by_key(|(_, nanos)| std::cmp::Reverse(*nanos));
        let mut text = String::new();
        for (name, nanos) in steps.iter().filter(|(_, nanos)| *nanos >= 1_000_000) {
            let comma = if text.is_empty() { "" } else { ", " };
            // Writing to a string does not fail.
            let _ = write!(text, "{comma}{name} {}", nanos / 1_000_000);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use cairn_observe::{Level, LogSink};
    use cairn_platform::sync::Mutex;

    use super::*;

    /// A clock that a test advances.
    #[derive(Default)]
    struct TestClock(AtomicU64);

    impl Clock for TestClock {
        fn wall_micros(&self) -> u64 {
            0
        }

        fn monotonic_nanos(&self) -> u64 {
            self.0.load(Ordering::Relaxed)
        }

        fn sleep(&self, duration: Duration) {
            let nanos = u64::try_from(duration.as_nanos()).unwrap();
            self.0.fetch_add(nanos, Ordering::Relaxed);
        }
    }

    /// The logged lines.
    #[derive(Default)]
    struct Lines(Mutex<Vec<String>>);

    impl LogSink for Lines {
        fn log(&self, _level: Level, message: &str) {
            self.0.lock().push(message.to_owned());
        }
    }

    #[test]
    fn slow_operations_are_logged_with_their_longest_steps() {
        let clock = TestClock::default();
        let lines = Arc::new(Lines::default());
        let info = Logger::to(lines.clone());
        let take = |millis: [u64; 3]| {
            let mut steps = Stopwatch::start(&clock);
            for (name, millis) in ["a", "b", "c"].into_iter().zip(millis) {
                clock.sleep(Duration::from_millis(millis));
                steps.lap(name);
            }
            steps.log_if_slow(&info, "a switch");
        };
        take([9, 0, 10]);
        assert!(lines.0.lock().is_empty());
        take([5, 0, 70]);
        let lines = lines.0.lock();
        assert!(lines[0].ends_with("a switch took 75 ms: c 70, a 5"));
    }
}
