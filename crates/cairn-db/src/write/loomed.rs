//! The primitives of the commit pipeline in their loom versions: the same calls, whose interleavings loom
//! explores.
//!
//! Loom treats sequentially consistent loads and stores as weaker ones, and implements only fences as such.
//! Two fences around each operation give it the semantics that the language specifies.

pub(super) use cairn_platform::sync::Ordering;

pub(super) use std::sync::OnceLock;

use std::ops::{Deref, DerefMut};

use loom::sync::MutexGuard;
use loom::sync::atomic::fence;

macro_rules! number {
    ($name:ident, $number:ty) => {
        #[derive(Default)]
        pub(super) struct $name(loom::sync::atomic::$name);

        impl $name {
            pub(super) fn load(&self, ordering: Ordering) -> $number {
                fenced(ordering, |ordering| match ordering {
                    Ordering::AcqRel => self.0.load(Ordering::Acquire),
                    weaker => self.0.load(weaker),
                })
            }
        }
    };
}

number!(AtomicU64, u64);
number!(AtomicU32, u32);
number!(AtomicUsize, usize);

impl AtomicU64 {
    pub(super) fn new(value: u64) -> AtomicU64 {
        AtomicU64(loom::sync::atomic::AtomicU64::new(value))
    }

    pub(super) fn store(&self, value: u64, ordering: Ordering) {
        fenced(ordering, |ordering| match ordering {
            Ordering::AcqRel => self.0.store(value, Ordering::Release),
            weaker => self.0.store(value, weaker),
        });
    }

    pub(super) fn fetch_add(&self, value: u64, ordering: Ordering) -> u64 {
        fenced(ordering, |ordering| self.0.fetch_add(value, ordering))
    }

    pub(super) fn fetch_sub(&self, value: u64, ordering: Ordering) -> u64 {
        fenced(ordering, |ordering| self.0.fetch_sub(value, ordering))
    }
}

impl AtomicU32 {
    pub(super) fn compare_exchange(
        &self,
        from: u32,
        to: u32,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u32, u32> {
        self.0.compare_exchange(from, to, success, failure)
    }
}

impl AtomicUsize {
    pub(super) fn new(value: usize) -> AtomicUsize {
        AtomicUsize(loom::sync::atomic::AtomicUsize::new(value))
    }

    pub(super) fn fetch_sub(&self, value: usize, ordering: Ordering) -> usize {
        fenced(ordering, |ordering| self.0.fetch_sub(value, ordering))
    }
}

/// A shared flag.
#[derive(Default)]
pub(super) struct AtomicBool(loom::sync::atomic::AtomicBool);

impl AtomicBool {
    pub(super) fn new(value: bool) -> AtomicBool {
        AtomicBool(loom::sync::atomic::AtomicBool::new(value))
    }

    pub(super) fn load(&self, ordering: Ordering) -> bool {
        self.0.load(ordering)
    }

    pub(super) fn store(&self, value: bool, ordering: Ordering) {
        self.0.store(value, ordering);
    }

    pub(super) fn swap(&self, value: bool, ordering: Ordering) -> bool {
        self.0.swap(value, ordering)
    }
}

fn fenced<T>(ordering: Ordering, operation: impl FnOnce(Ordering) -> T) -> T {
    if ordering != Ordering::SeqCst {
        return operation(ordering);
    }
    fence(Ordering::SeqCst);
    let done = operation(Ordering::AcqRel);
    fence(Ordering::SeqCst);
    done
}

/// A lock without poisoning.
#[derive(Default)]
pub(super) struct Mutex<T>(loom::sync::Mutex<T>);

/// A guard of the lock; empty only while its holder sleeps.
pub(super) struct Guard<'a, T>(Option<MutexGuard<'a, T>>);

impl<T> Mutex<T> {
    pub(super) fn new(value: T) -> Mutex<T> {
        Mutex(loom::sync::Mutex::new(value))
    }

    pub(super) fn lock(&self) -> Guard<'_, T> {
        Guard(self.0.lock().ok())
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        let held = self.0.as_ref();
        held.expect("a sleeping thread does not access the guard")
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        let held = self.0.as_mut();
        held.expect("a sleeping thread does not access the guard")
    }
}

/// A condition variable.
#[derive(Default)]
pub(super) struct Condvar(loom::sync::Condvar);

impl Condvar {
    pub(super) fn new() -> Condvar {
        Condvar::default()
    }

    pub(super) fn wait<T>(&self, guard: &mut Guard<'_, T>) {
        let held = guard.0.take().expect("a sleeping thread makes no calls");
        guard.0 = self.0.wait(held).ok();
    }

    pub(super) fn notify_one(&self) {
        self.0.notify_one();
    }

    pub(super) fn notify_all(&self) {
        self.0.notify_all();
    }
}

/// Spinning before a thread sleeps, which takes no time: loom has none.
pub(super) mod backoff {
    pub(in super::super) fn spin_limit() -> u32 {
        0
    }

    pub(in super::super) fn spin_until(done: impl Fn() -> bool) -> bool {
        done()
    }

    pub(in super::super) fn yield_until(_done: impl Fn() -> bool) -> bool {
        false
    }
}
