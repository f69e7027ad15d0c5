//! Sums that begin anew without a store by anybody but their owners.
//!
//! Owners of shards do not wait, and nobody else stores where they add. So who lets a ticker begin anew
//! notes what has been added to it so far ([`Start`]), and who forgets all samples begins a new
//! [`Generation`]: an owner clears his own when he comes by, and until then readers leave them out.

use super::atomics::{AtomicU64, Ordering, fence};

/// What had been added up when a sum began, which is no part of it.
pub(super) struct Start(AtomicU64);

impl Start {
    pub(super) fn new() -> Start {
        Start(AtomicU64::new(0))
    }

    /// For a sum to which everything is added that is read from now on.
    #[inline]
    pub(super) fn below_zero(&self) -> u64 {
        // Acquire pairs with the release in `move_to`: what was left out there is read again.
        0_u64.wrapping_sub(self.0.load(Ordering::Acquire))
    }

    /// The sum is `count` from now on. Returns what it was, of what `added` reads. Callers exclude each
    /// other.
    pub(super) fn move_to(&self, count: u64, added: impl FnOnce(u64) -> u64) -> u64 {
        let below_zero = self.below_zero();
        let sum = added(below_zero);
        let start = sum.wrapping_sub(below_zero).wrapping_sub(count);
        self.0.store(start, Ordering::Release);
        sum
    }
}

/// How often all samples have been forgotten.
pub(super) struct Generation(AtomicU64);

impl Generation {
    pub(super) fn new() -> Generation {
        Generation(AtomicU64::new(0))
    }

    /// Forgets all samples.
    pub(super) fn advance(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// What `read` gets from samples of one generation, of which it is told.
    pub(super) fn read<T>(&self, mut read: impl FnMut(u64) -> T) -> T {
        loop {
            let generation = self.0.load(Ordering::Relaxed);
            let found = read(generation);
            // Pairs with the fence of an owner who clears: if anything was read that he stored since,
            // this sees the generation for which he did.
            fence(Ordering::Acquire);
            if self.0.load(Ordering::Relaxed) == generation {
                return found;
            }
        }
    }
}

/// The generation of the samples of one shard. Only who may add to them changes it.
pub(super) struct SamplesOf(AtomicU64);

impl SamplesOf {
    pub(super) fn new() -> SamplesOf {
        SamplesOf(AtomicU64::new(0))
    }

    /// True if the samples are of `generation`.
    #[inline]
    pub(super) fn are_of(&self, generation: u64) -> bool {
        // Acquire pairs with the release of who cleared them: no older ones are read.
        self.0.load(Ordering::Acquire) == generation
    }

    /// Before samples are added: clears those that have been forgotten.
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

    /// A ticker is taken twice while one thread adds to it and another reads it: what was taken and what
    /// is left is what was added, and nobody reads less than nothing.
    #[test]
    fn a_sum_that_begins_anew_loses_nothing() {
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

    /// An owner adds samples of two sums while another thread forgets them and a third reads: the reader
    /// finds those of one generation, and in the end each sample counts in both sums or in none, the one
    /// after the reset for certain.
    #[test]
    fn samples_are_forgotten_whole() {
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
