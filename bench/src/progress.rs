//! Progress reporting: the command line draws a bar, tests and workers do not.

/// Progress of a benchmark.
pub trait Progress: Sync {
    /// Adds to the progress.
    fn advance(&self, more: u64);
    /// Ends the display.
    fn finish(&self);
}

/// Starts the display of a benchmark, given its name and its total, if known.
pub type Begin<'a> = &'a dyn Fn(&str, Option<u64>) -> Box<dyn Progress>;

/// Displays nothing.
#[derive(Clone, Copy, Debug)]
pub struct NoProgress;

impl Progress for NoProgress {
    fn advance(&self, _more: u64) {}
    fn finish(&self) {}
}
