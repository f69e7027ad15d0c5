//! The `deadline` and `io_timeout` of a read, checked before and after every file read.
//!
//! A blocking read cannot be cancelled. One that exceeds a limit is detected when it returns: its
//! data is discarded and the operation fails with `TimedOut`. Data in memory is returned even after
//! the deadline.

use std::future::poll_fn;
use std::pin::Pin;

use cairn_observe::Activity;
use cairn_observe::perf::{self, PerfMetric};
use cairn_observe::statistics::Histogram;
use cairn_options::ReadOptions;
use cairn_platform::{Buffer, ReadRequest};
use cairn_types::{Error, Result};

use crate::view::Reading;

/// The time limits of a read, in microseconds; 0 means no limit.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ReadDeadline {
    deadline: u64,
    io_timeout: u64,
}

impl ReadDeadline {
    #[inline]
    pub(crate) fn of(options: &ReadOptions) -> ReadDeadline {
        ReadDeadline {
            deadline: options.deadline,
            io_timeout: options.io_timeout,
        }
    }

    fn is_unlimited(self) -> bool {
        self.deadline | self.io_timeout == 0
    }

    /// Fails with `TimedOut` if the deadline has passed.
    pub(crate) fn check(self, reading: &Reading) -> Result<()> {
        if self.deadline == 0 {
            return Ok(());
        }
        let now = reading.clock.wall_micros();
        match now < self.deadline {
            true => Ok(()),
            false => Err(Error::timed_out(format!(
                "the deadline of the read expired {} microseconds ago",
                now - self.deadline
            ))),
        }
    }

    /// Performs `request` for a get.
    pub(crate) fn read(self, reading: &Reading, request: &ReadRequest) -> Result<Buffer> {
        let read = || timed(reading, Activity::Get, || reading.io.read_now(request));
        if self.is_unlimited() {
            return read();
        }
        self.within(reading, read)?
    }

    /// Performs `requests` for `activity` as one batch.
    pub(crate) fn read_batch(
        self,
        reading: &Reading,
        activity: Activity,
        requests: &[ReadRequest],
    ) -> Vec<Result<Buffer>> {
        if let Some(statistics) = &reading.statistics
            && requests.len() > 1
        {
            statistics.record(Histogram::MultigetIoBatchSize, requests.len() as u64);
        }
        let read = || {
            let read = || timed(reading, activity, || reading.io.read_batch(requests));
            match requests.iter().any(|request| request.started().is_some()) {
                true => polled(reading, read),
                false => read(),
            }
        };
        if self.is_unlimited() {
            return read();
        }
        match self.within(reading, read) {
            Ok(results) => results,
            Err(error) => requests.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    /// Awaits `requests`, which are in flight together.
    ///
    /// The future is small, because thousands may wait: what it awaits is polled where it was captured.
    pub(crate) fn read_all(
        self,
        reading: &Reading,
        requests: Vec<ReadRequest>,
    ) -> impl Future<Output = Vec<Result<Buffer>>> + Send {
        let failed = |error: Error, count| (0..count).map(|_| Err(error.clone())).collect();
        let count = requests.len();
        let timed = || reading.statistics.as_ref().filter(|s| s.wants_times());
        let mut read = self.check(reading).map(|()| {
            if let Some(statistics) = &reading.statistics
                && count > 1
            {
                statistics.record(Histogram::MultigetIoBatchSize, count as u64);
            }
            reading.io.read_all(requests)
        });
        let is_timed = timed().is_some() || !self.is_unlimited();
        let began = is_timed.then(|| reading.clock.monotonic_nanos());
        async move {
            let results = match &mut read {
                Ok(read) => poll_fn(|context| Pin::new(&mut *read).poll(context)).await,
                Err(error) => return failed(error.clone(), count),
            };
            let Some(began) = began else {
                return results;
            };
            let took = reading.clock.monotonic_nanos().saturating_sub(began) / 1_000;
            if let Some(statistics) = timed() {
                statistics.time(Histogram::ReadBlockGetMicros, took);
            }
            match self.check_time(took).and_then(|()| self.check(reading)) {
                Ok(()) => results,
                Err(error) => failed(error, count),
            }
        }
    }

    /// Returns the result of `read`, which reads files, or `TimedOut` if it starts or ends too late.
    pub(crate) fn limited<T>(
        self,
        reading: &Reading,
        read: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        match self.is_unlimited() {
            true => read(),
            false => self.within(reading, read)?,
        }
    }

    /// Fails with `TimedOut` if a read of `took` microseconds exceeds `io_timeout`.
    fn check_time(self, took: u64) -> Result<()> {
        match self.io_timeout > 0 && took > self.io_timeout {
            true => Err(Error::timed_out(format!(
                "a file read took {took} microseconds, which exceeds io_timeout={}",
                self.io_timeout
            ))),
            false => Ok(()),
        }
    }

    /// Returns the result of `read`, or `TimedOut` if it starts or ends too late.
    fn within<T>(self, reading: &Reading, read: impl FnOnce() -> T) -> Result<T> {
        self.check(reading)?;
        let began = reading.clock.monotonic_nanos();
        let result = read();
        let took = (reading.clock.monotonic_nanos().saturating_sub(began)) / 1_000;
        self.check_time(took)?;
        self.check(reading)?;
        Ok(result)
    }
}

/// Runs `read`, which waits for reads that were started before, and records the wait.
#[cold]
fn polled<T>(reading: &Reading, read: impl FnOnce() -> T) -> T {
    let began = reading.began();
    let result = read();
    if let Some(statistics) = &reading.statistics
        && let Some(micros) = began.micros(&*reading.clock)
    {
        statistics.time(Histogram::PollWaitMicros, micros);
    }
    result
}

/// Runs `read` for `activity` and, if enabled, adds its duration to the statistics and the perf
/// context.
fn timed<T>(reading: &Reading, activity: Activity, read: impl FnOnce() -> T) -> T {
    let statistics = reading.statistics.as_ref().filter(|s| s.wants_times());
    if statistics.is_none() && !perf::wants_times() {
        return read();
    }
    let cpu_began = perf::wants_cpu_times().then(|| reading.clock.thread_cpu_nanos());
    let began = reading.clock.monotonic_nanos();
    let result = activity.run(read);
    let nanos = reading.clock.monotonic_nanos().saturating_sub(began);
    if perf::wants_times() {
        perf::count(|perf| perf.add(PerfMetric::BlockReadTime, nanos));
    }
    if let Some(began) = cpu_began {
        let nanos = reading.clock.thread_cpu_nanos().saturating_sub(began);
        perf::count(|perf| perf.add(PerfMetric::BlockReadCpuTime, nanos));
    }
    if let Some(statistics) = statistics {
        statistics.time(Histogram::ReadBlockGetMicros, nanos / 1_000);
    }
    result
}
