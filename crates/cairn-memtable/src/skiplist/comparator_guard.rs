//! Detection of comparators that re-enter the memtable.
//!
//! Some locks are held while a user-defined comparator runs. A comparator that reads the database
//! whose keys it compares would deadlock on such a lock. Instead it panics with
//! [`COMPARATOR_RULE`], and the operation that called it fails. The built-in orders call no user
//! code and are not tracked, and neither are the destructors of an exiting thread, whose list is gone.

use std::cell::RefCell;

use cairn_types::KeyOrder;

/// The panic message for a comparator that re-enters the memtable.
pub const COMPARATOR_RULE: &str =
    "a comparator may not read or change the database whose keys it compares";

thread_local! {
    /// The addresses of the locks held by the thread while it compares keys.
    static HELD: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// Removes the innermost lock from [`HELD`] when dropped.
struct Released;

impl Drop for Released {
    fn drop(&mut self) {
        let released = HELD.try_with(|held| held.borrow_mut().pop());
        debug_assert!(
            !matches!(released, Ok(None)),
            "locks are released in reverse order"
        );
    }
}

/// Runs `work`, which compares keys by `order` while the thread holds `lock`.
#[inline]
pub(crate) fn holding<L, T>(order: &KeyOrder, lock: &L, work: impl FnOnce() -> T) -> T {
    if !matches!(order, KeyOrder::Custom(_)) {
        return work();
    }
    let place = std::ptr::from_ref(lock).addr();
    let _tracked = HELD.try_with(|held| held.borrow_mut().push(place));
    let _ends = Released;
    work()
}

/// True if the calling thread holds a memtable lock while a user's comparator runs. Other threads may be
/// waiting for the lock.
#[must_use]
pub fn in_comparator() -> bool {
    HELD.try_with(|held| !held.borrow().is_empty())
        .unwrap_or(false)
}

/// Checks that the thread does not hold `lock`, which it is about to acquire.
///
/// # Panics
///
/// If the thread holds it.
pub(crate) fn assert_not_held<L>(order: &KeyOrder, lock: &L) {
    if matches!(order, KeyOrder::Custom(_)) {
        let place = std::ptr::from_ref(lock).addr();
        let is_held = HELD.try_with(|held| held.borrow().contains(&place));
        assert!(!is_held.unwrap_or(false), "{COMPARATOR_RULE}");
    }
}
