//! The source of what a database that follows another one reads.

use cairn_types::Result;

/// The source of a database that follows another one.
pub trait CatchUp: Send + Sync {
    /// Reads what the leader has written since, and publishes it.
    ///
    /// # Errors
    ///
    /// Those of the leader's files; `ShutdownInProgress` after [`CatchUp::end`].
    fn catch_up(&self) -> Result<()>;

    /// Ends: waits for a call that is running, after which calls fail.
    fn end(&self);
}
