//! The reference word of a header: a count with three flags, and the protocol for changing it.
//!
//! - LIVE: a buffer uses the header. Without it the count is meaningless; the next use overwrites it.
//! - CACHED: a cache has the entry, and one of the references belongs to the cache.
//! - CLAIMED: the header has a key, which does not change until the end of the use.
//!
//! Invariants:
//!
//! W1. Exactly one thread ends a use: the one that changes the word from LIVE with count 0 to 0.
//! W2. A thread that took a reference without having seen CACHED releases it without using it. Its count may
//! delay the end of a use, in which case it ends the use itself.

use crate::sync::Ordering;

#[cfg(not(loom))]
use crate::sync::modelled::AtomicU64;
#[cfg(loom)]
use loom::sync::atomic::AtomicU64;

const LIVE: u64 = 1 << 63;
const CACHED: u64 = 1 << 62;
const CLAIMED: u64 = 1 << 61;
/// The bits of the reference count.
const COUNT: u64 = CLAIMED - 1;

/// A reference word; see the module's documentation.
pub(super) struct RefWord(AtomicU64);

/// True if the caller has to free the buffer.
pub(super) type Ends = bool;

impl RefWord {
    #[cfg(any(all(test, loom), shuttle))]
    pub(super) fn new() -> RefWord {
        RefWord(AtomicU64::new(0))
    }

    #[cfg(all(test, loom))]
    fn is_live(&self) -> bool {
        self.0.load(Ordering::Acquire) & LIVE != 0
    }

    /// Starts a use with one reference.
    pub(super) fn begin(&self) {
        // Release: publishes the fields that describe the buffer. A swap instead of a store, because loom
        // lets a store be overwritten by counts added earlier by stale readers.
        self.0.swap(LIVE | 1, Ordering::Release);
    }

    /// Adds a reference for a caller that holds one.
    #[inline]
    pub(super) fn retain(&self) {
        // Relaxed: the caller's reference keeps the buffer alive.
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes a reference if a cache has the entry. `Err` holds no reference, and may end the use.
    #[inline]
    pub(super) fn try_pin(&self) -> Result<(), Ends> {
        // Acquire: the key and the content were written before CACHED was set.
        let before = self.0.fetch_add(1, Ordering::Acquire);
        if before & CACHED != 0 {
            return Ok(());
        }
        // The count of a free header is not reverted, since the next use overwrites it.
        Err(before & LIVE != 0 && self.release())
    }

    /// Releases a reference.
    #[inline]
    #[must_use]
    pub(super) fn release(&self) -> Ends {
        // Release: accesses through the reference come before the end of the use.
        let before = self.0.fetch_sub(1, Ordering::Release);
        before & COUNT == 1 && self.end(before - 1)
    }

    /// Ends the use if the word is still `unused`; otherwise a reader has taken a reference in the meantime,
    /// and ends it.
    fn end(&self, unused: u64) -> Ends {
        debug_assert!(
            unused & (LIVE | CACHED | COUNT) == LIVE,
            "a cached entry has a reference"
        );
        // Acquire: after all accesses through released references.
        self.0
            .compare_exchange(unused, 0, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }

    /// Ends the use if the caller has the only reference and no cache has the entry.
    #[must_use]
    pub(super) fn end_unique(&self) -> Ends {
        let word = self.0.load(Ordering::Relaxed);
        word & (CACHED | COUNT) == 1
            && self
                .0
                .compare_exchange(word, 0, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
    }

    /// The number of references.
    pub(super) fn holders(&self) -> usize {
        // Acquire: after all accesses through released references.
        (self.0.load(Ordering::Acquire) & COUNT) as usize
    }

    /// Returns true to the first caller in a use.
    pub(super) fn claim(&self) -> bool {
        self.0.fetch_or(CLAIMED, Ordering::Relaxed) & CLAIMED == 0
    }

    /// Makes the entry visible to `try_pin`. One reference is transferred to the cache.
    pub(super) fn publish(&self) {
        // Release: publishes the key, the lengths and the content.
        let before = self.0.fetch_or(CACHED, Ordering::Release);
        debug_assert!(
            before & (LIVE | CACHED | CLAIMED) == LIVE | CLAIMED && before & COUNT > 0,
            "a claimed buffer is cached once"
        );
    }

    /// Hides the entry. The cache's reference is transferred to the caller.
    pub(super) fn unpublish(&self) {
        let before = self.0.fetch_and(!CACHED, Ordering::Relaxed);
        debug_assert!(before & CACHED != 0, "the cache has the entry");
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::thread;

    /// A header whose content is its key: 0 while it is free.
    struct Model {
        word: RefWord,
        content: UnsafeCell<u64>,
        ends: loom::sync::atomic::AtomicUsize,
    }

    impl Model {
        /// A cached entry with content `content`.
        fn cached(content: u64) -> Arc<Model> {
            let model = Model {
                word: RefWord::new(),
                content: UnsafeCell::new(0),
                ends: loom::sync::atomic::AtomicUsize::new(0),
            };
            model.begin(content);
            Arc::new(model)
        }

        fn begin(&self, content: u64) {
            // SAFETY: the header is free, and this thread took it.
            self.content.with_mut(|at| unsafe { *at = content });
            self.word.begin();
            assert!(self.word.claim() && !self.word.claim());
            self.word.publish();
        }

        fn ended(&self, ends: Ends) -> bool {
            if ends {
                // SAFETY: one thread ends the use, after all accesses.
                self.content.with_mut(|at| unsafe { *at = 0 });
                self.ends.fetch_add(1, Ordering::Relaxed);
            }
            ends
        }

        fn read(&self) {
            match self.word.try_pin() {
                Ok(()) => {
                    // SAFETY: the reference keeps the content.
                    self.content.with(|at| assert_ne!(unsafe { *at }, 0));
                    self.ended(self.word.release());
                }
                Err(ends) => {
                    self.ended(ends);
                }
            }
        }

        fn evict(&self) -> bool {
            self.word.unpublish();
            self.ended(self.word.release())
        }
    }

    #[test]
    fn loom_a_use_ends_once_and_after_its_readers() {
        loom::model(|| {
            let model = Model::cached(7);
            let readers: Vec<_> = (0..2)
                .map(|_| {
                    let model = model.clone();
                    thread::spawn(move || model.read())
                })
                .collect();
            model.evict();
            readers.into_iter().for_each(|it| it.join().unwrap());
            assert_eq!(model.ends.load(Ordering::Relaxed), 1);
        });
    }

    #[test]
    fn loom_a_header_is_reused_under_stale_readers() {
        loom::model(|| {
            let model = Model::cached(7);
            let reader = {
                let model = model.clone();
                thread::spawn(move || {
                    model.read();
                    model.read();
                })
            };
            // Only the thread that ended the use may begin the next one.
            if model.evict() {
                model.begin(8);
                model.evict();
            }
            reader.join().unwrap();
            let ends = model.ends.load(Ordering::Relaxed);
            assert!((1..=2).contains(&ends));
            assert!(!model.word.is_live(), "each use has ended");
        });
    }

    #[test]
    fn loom_unique_memory_is_taken_despite_stale_readers() {
        loom::model(|| {
            let model = Model::cached(7);
            let reader = {
                let model = model.clone();
                thread::spawn(move || model.read())
            };
            model.word.unpublish();
            if !model.ended(model.word.end_unique()) {
                model.ended(model.word.release());
            }
            reader.join().unwrap();
            assert_eq!(model.ends.load(Ordering::Relaxed), 1);
        });
    }
}
