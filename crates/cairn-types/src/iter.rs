//! The contract of internal iterators, and the protocol for reads that need I/O.
//!
//! The read path does no I/O. A method that finds everything it needs in memory returns [`Progress::Ready`].
//! A method that needs bytes of a file returns [`Progress::Lacks`]. The caller then queries the iterator for
//! the missing range, obtains the bytes (blocking, in a batch, or asynchronously) and passes them to the
//! iterator, which resumes the method and again returns `Ready` or `Lacks`. Until it returns `Ready` the
//! iterator is not positioned.
//!
//! Every iterator over entries guarantees:
//!
//! 1. `seek(k)` moves to the first entry at or after `k`, `seek_for_prev(k)` to the last entry at or before
//!    `k`. If there is none the iterator is not valid. Keys are internal keys, in internal-key order.
//! 2. `key` and `value` are valid until the next call that moves the iterator.
//! 3. An error ends the iteration: the iterator becomes invalid, and `status` returns the error. An
//!    unreadable block is never mistaken for the end.
//! 4. Bounds are enforced by the caller: an iterator may return entries outside them.
//! 5. `next` and `prev` are only called while the iterator is valid.

/// The outcome of one step of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Progress {
    /// The step is complete.
    Ready,
    /// The step needs bytes that are not in memory.
    Lacks,
}

impl Progress {
    /// True if the step is complete.
    #[inline]
    #[must_use]
    pub fn is_ready(self) -> bool {
        self == Progress::Ready
    }
}
