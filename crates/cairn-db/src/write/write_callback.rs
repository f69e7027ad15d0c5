//! The callbacks of a write that the program implements.

/// Callbacks of a write, by which a program synchronizes it with others: see [`Db::write_with_callback`].
///
/// What the engine promises, and what an implementation must observe:
///
/// 1. Each method is called at most once per write, by the thread that writes, and `on_write_enqueued` first.
/// 2. The write is not yet visible when a method is called, unless another thread has inserted it already. Reads are
///    permitted. Writes to the same database, changes of its options, flushes and waits for jobs fail with `Busy`.
/// 3. Other writes may wait until the method returns. It must not wait for a write of another thread.
/// 4. A panic does not affect the write. It continues in the caller of the write when that has ended.
///
/// [`Db::write_with_callback`]: crate::Db::write_with_callback
pub trait WriteCallback {
    /// Called when the write has joined the queue: writes that are begun afterwards follow it in the order of sequence
    /// numbers. Not called for a write that is rejected before.
    fn on_write_enqueued(&self) {}

    /// Called when the write is in the log, and synced with `sync`. Not called with `disable_wal`, or if the write
    /// fails before its insertion.
    fn on_wal_write_finish(&self) {}
}
