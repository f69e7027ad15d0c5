//! Locks that are held while the program's comparator is called, and comparators that read what is behind them.
//!
//! A comparator that reads the database whose keys it compares would wait for its own thread. It panics instead, with
//! the rule that it breaks; the operation that called it fails. Built-in orders call nothing and are not looked at.

use std::cell::RefCell;

use cairn_types::KeyOrder;

/// What such a comparator is told.
pub const COMPARATOR_RULE: &str =
    "a comparator may not read or change the database whose keys it compares";

thread_local! {
    /// What the thread holds while it compares: the places of the locks.
    static HELD: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// The end of a lock that was held.
struct Ends;

impl Drop for Ends {
    fn drop(&mut self) {
        HELD.with_borrow_mut(Vec::pop);
    }
}

/// Runs `work`, which compares keys in `order` while the thread holds `lock`.
#[inline]
pub(crate) fn holding<L, T>(order: &KeyOrder, lock: &L, work: impl FnOnce() -> T) -> T {
    if !matches!(order, KeyOrder::Custom(_)) {
        return work();
    }
    HELD.with_borrow_mut(|held| held.push(std::ptr::from_ref(lock).addr()));
    let _ends = Ends;
    work()
}

/// True if the thread holds a lock of some memtable while the program's comparator runs: others may wait for it.
#[must_use]
pub fn in_comparator() -> bool {
    HELD.with_borrow(|held| !held.is_empty())
}

/// Makes sure that the thread does not hold `lock`, for which it is about to wait.
///
/// # Panics
///
/// If it does.
pub(crate) fn assert_not_held<L>(order: &KeyOrder, lock: &L) {
    if matches!(order, KeyOrder::Custom(_)) {
        let place = std::ptr::from_ref(lock).addr();
        assert!(
            !HELD.with_borrow(|held| held.contains(&place)),
            "{COMPARATOR_RULE}"
        );
    }
}
