//! Somebody who watches: the command line draws a bar, tests and workers draw none.

/// How far a benchmark has come.
pub trait Progress: Sync {
    /// Some more is done.
    fn advance(&self, more: u64);
    /// All is done.
    fn finish(&self);
}

/// Begins to show the progress of a benchmark: its name, and how much there is to do if it is known.
pub type Begin<'a> = &'a dyn Fn(&str, Option<u64>) -> Box<dyn Progress>;

/// Shows nothing.
#[derive(Clone, Copy, Debug)]
pub struct Unseen;

impl Progress for Unseen {
    fn advance(&self, _more: u64) {}
    fn finish(&self) {}
}
