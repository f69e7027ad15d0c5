//! Resets of counters that only their owners write.
//!
//! The owner of a shard updates it without synchronisation, so no other thread may store to it. A
//! reset of a ticker therefore records the current sum, which readers subtract ([`Start`]). A reset
//! of all histograms starts a new [`Generation`]: each owner clears its samples on its next update,
//! and until then readers ignore them.

use super::atomics::{AtomicU64, Ordering, fence};

/// The sum at the time of a reset, which is subtracted.
pub(super) struct Start(AtomicU64);

impl Start {
    pub(super) fn new() -> Start {
        Start(AtomicU64::new(0))
    }

    /// The initial value of a sum over shards that are read from now on.
    #[inline]
    pub(super) fn below_zero(&self) -> u64 {
        // Acquire pairs with the release in `move_to`: additions included there are read again.
        0_u64.wrapping_sub(self.0.load(Ordering::Acquire))
    }

    /// Sets the value to `count` and returns the previous value, which `added` computes. Calls must be
    /// serialised.
    pub(super) fn move_to(&self, count: u64, added: impl FnOnce(u64) -> u64) -> u64 {
        let below_zero = self.below_zero();
        let sum = added(below_zero);
        let start = sum.wrapping_sub(below_zero).wrapping_sub(count);
        self.0.store(start, Ordering::Release);
        sum
    }
}

/// The number of resets of all samples.
pub(super) struct Generation(AtomicU64);

impl Generation {
    pub(super) fn new() -> Generation {
        Generation(AtomicU64::new(0))
    }

    /// Resets all samples.
    pub(super) fn advance(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Calls `read` with the generation, until the result is of a single generation.
    pub(super) fn read<T>(&self, mut read: impl FnMut(u64) -> T) -> T {
        loop {
            let generation = self.0.load(Ordering::Relaxed);
            let found = read(generation);
            // Pairs with the fence of an owner that clears: if any of its later stores were read, the new
            // generation is seen here.
            fence(Ordering::Acquire);
            if self.0.load(Ordering::Relaxed) == generation {
                return found;
            }
        }
    }
}

/// The generation of the samples of one shard. Only changed by the owner of the shard.
pub(super) struct SamplesOf(AtomicU64);

impl SamplesOf {
    pub(super) fn new() -> SamplesOf {
        SamplesOf(AtomicU64::new(0))
    }

    /// True if the samples are of `generation`.
    #[inline]
    pub(super) fn are_of(&self, generation: u64) -> bool {
        // Acquire pairs with the release after clearing: older samples are not read.
        self.0.load(Ordering::Acquire) == generation
    }

    /// Clears samples of earlier generations, before samples are added.
    #[inline]
    pub(super) fn catch_up(&self, now: &Generation, clear: impl FnOnce()) {
        let now = now.0.load(Ordering::Relaxed);
        if self.0.load(Ordering::Relaxed) != now {
            self.begin(now, clear);
        }
    }

    #[cold]
    fn begin(&self, now: u64, clear: impl FnOnce()) {
        // Release: see `Generation::read`.
        fence(Ordering::Release);
        clear();
        // Release: see `are_of`.
        self.0.store(now, Ordering::Release);
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::super::single_writer::Sum;
    use super::*;
    use loom::sync::{Arc, Mutex};

    /// A ticker is taken twice while one thread adds to it and another reads it. The counts taken
    /// and the remaining count add up to the additions, and no read is negative.
    #[test]
    fn resetting_a_ticker_loses_nothing() {
        type Ticker = (Sum, Mutex<()>, Start);
        fn take((sum, lock, start): &Ticker) -> u64 {
            let _alone = lock.lock().unwrap();
            start.move_to(0, |below_zero| below_zero.wrapping_add(sum.get()))
        }
        fn read((sum, _, start): &Ticker) -> u64 {
            start.below_zero().wrapping_add(sum.get())
        }
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(2);
        model.check(|| {
            let ticker = Arc::new((Sum::new(0), Mutex::new(()), Start::new()));
            let run = |work: fn(&Ticker) -> u64| {
                let ticker = ticker.clone();
                loom::thread::spawn(move || work(&ticker))
            };
            let adder = run(|ticker| {
                (0..2).for_each(|_| ticker.0.add(1));
                0
            });
            let (reader, taker) = (run(read), run(take));
            let taken = take(&ticker) + taker.join().unwrap();
            let found = reader.join().unwrap();
            assert!(found <= 2, "{found}");
            adder.join().unwrap();
            assert_eq!(taken + read(&ticker), 2);
        });
    }

    /// An owner adds samples to two sums while another thread resets them and a third reads. The reader sees
    /// samples of one generation. In the end each sample is in both sums or in neither, and the one after the
    /// reset is in both.
    #[test]
    fn samples_are_reset_atomically() {
        loom::model(|| {
            let all = Arc::new((
                Generation::new(),
                SamplesOf::new(),
                [Sum::new(0), Sum::new(0)],
            ));
            let add = |all: &(Generation, SamplesOf, [Sum; 2])| {
                all.1
                    .catch_up(&all.0, || all.2.iter().for_each(|sum| sum.set(0)));
                all.2.iter().for_each(|sum| sum.add(1));
            };
            let read = |all: &(Generation, SamplesOf, [Sum; 2])| {
                all.0.read(|generation| match all.1.are_of(generation) {
                    true => [all.2[0].get(), all.2[1].get()],
                    false => [0, 0],
                })
            };
            add(&all);
            add(&all);
            let other = all.clone();
            let forgets = loom::thread::spawn(move || other.0.advance());
            let other = all.clone();
            let reads = loom::thread::spawn(move || read(&other));
            add(&all);
            let seen = reads.join().unwrap();
            let of_one_generation = [
                [2, 2],
                [3, 2],
                [2, 3],
                [3, 3],
                [0, 0],
                [1, 0],
                [0, 1],
                [1, 1],
            ];
            assert!(of_one_generation.contains(&seen), "{seen:?}");
            forgets.join().unwrap();
            let found = read(&all);
            assert!([[0, 0], [1, 1]].contains(&found), "{found:?}");
            add(&all);
            assert_eq!(read(&all), found.map(|sum| sum + 1));
        });
    }
}
