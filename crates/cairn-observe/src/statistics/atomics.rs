//! Atomics, replaced by loom's in loom tests.

#[cfg(not(loom))]
pub(super) use cairn_platform::sync::{AtomicBool, AtomicU64, Ordering, fence};
#[cfg(loom)]
pub(super) use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
