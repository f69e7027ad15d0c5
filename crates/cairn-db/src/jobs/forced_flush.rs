//! A flush with `FlushOptions::force_atomic_flush`, in a database whose families are otherwise flushed one by one.
//!
//! ```text
//! [sealing: no flush starts] -> [due] -> [running, alone] -> none, or due again after a failure
//! ```
//!
//! The state belongs to the tree, and changes under its lock. No flush starts while memtables are sealed, since it might
//! take one of them without the others. While the flush is due or runs, flushes are of all families, as with
//! `atomic_flush`.

/// The state of a forced flush.
#[derive(Default)]
pub(crate) struct ForcedFlush {
    sealing: bool,
    due: bool,
    running: bool,
}

impl ForcedFlush {
    /// True if no flush may start.
    pub(crate) fn blocks(&self) -> bool {
        self.sealing
    }

    /// True if flushes are of all families.
    pub(crate) fn is_atomic(&self) -> bool {
        self.due || self.running
    }

    /// Memtables are about to be sealed, for a forced flush if `forced`.
    pub(crate) fn seal(&mut self, forced: bool) {
        self.sealing = forced;
    }

    /// They have been sealed, unless an error prevented it.
    pub(crate) fn sealed(&mut self, is_ok: bool) {
        self.due |= std::mem::take(&mut self.sealing) && is_ok;
    }

    /// No memtable waits for a flush.
    pub(crate) fn nothing_waits(&mut self) {
        self.due = false;
    }

    /// A flush of all families starts.
    pub(crate) fn start(&mut self) {
        self.running = std::mem::take(&mut self.due);
    }

    /// A flush of all families has ended.
    pub(crate) fn finish(&mut self, is_ok: bool) {
        self.due |= std::mem::take(&mut self.running) && !is_ok;
    }
}
