//! The contract of every iterator over entries, and how a read asks for what it lacks.
//!
//! The read path does no I/O. A method that finds all it needs in memory returns
//! [`Progress::Ready`]. One that needs bytes of a file returns [`Progress::Lacks`]; the caller
//! then asks the iterator what it lacks, obtains the bytes (blocking, in a batch, or in a future)
//! and hands them back, which goes on where the method had stopped and again returns `Ready` or
//! `Lacks`. Until it is `Ready` the iterator stands nowhere.
//!
//! What every iterator over entries keeps, and every caller may rely on:
//!
//! 1. `seek(k)` ends on the first entry at or after `k`, or nowhere; `seek_for_prev(k)` on the
//!    last entry at or before `k`, or nowhere. Keys are internal keys, in internal-key order.
//! 2. `key` and `value` are valid until the next call that moves the iterator.
//! 3. An error ends the iteration: the iterator then stands nowhere, and `status` says why. It is
//!    never "at the end" because a block could not be read.
//! 4. Bounds are the caller's affair: an iterator may return entries outside them.
//! 5. `next` and `prev` are called only while the iterator stands on an entry.

/// Whether a step of a read is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Progress {
    /// The step is complete: the iterator stands where it should, or nowhere.
    Ready,
    /// The step waits for bytes that are not in memory.
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
