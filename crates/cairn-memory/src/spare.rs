//! Objects that a thread keeps in their boxes for later use.

use std::cell::RefCell;
use std::thread::LocalKey;

/// Objects of one type that a thread has finished with, at most as many as [`Spare::keep`] is told: making one in new
/// memory, and freeing it, can cost as much as its use. To be stored in a thread-local variable.
pub struct Spare<T>(RefCell<Vec<Box<T>>>);

impl<T: 'static> Spare<T> {
    /// No objects.
    #[must_use]
    pub const fn new() -> Spare<T> {
        Spare(RefCell::new(Vec::new()))
    }

    /// Takes an object of the thread, if it has one.
    #[inline]
    pub fn take(of: &'static LocalKey<Spare<T>>) -> Option<Box<T>> {
        // Not available while the thread exits.
        of.try_with(|spare| spare.0.borrow_mut().pop())
            .ok()
            .flatten()
    }

    /// Keeps `object` for the thread, which keeps at most `limit`; drops it if they are there.
    #[inline]
    pub fn keep(of: &'static LocalKey<Spare<T>>, limit: usize, object: Box<T>) {
        let mut object = Some(object);
        let _kept = of.try_with(|spare| {
            let mut spare = spare.0.borrow_mut();
            if spare.len() < limit {
                spare.extend(object.take());
            }
        });
    }
}

impl<T: 'static> Default for Spare<T> {
    fn default() -> Spare<T> {
        Spare::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    thread_local! {
        static NUMBERS: Spare<u32> = const { Spare::new() };
    }

    #[test]
    fn a_thread_keeps_its_objects_up_to_the_limit() {
        for n in 0..3 {
            Spare::keep(&NUMBERS, 2, Box::new(n));
        }
        std::thread::scope(|scope| {
            let other = scope.spawn(|| Spare::take(&NUMBERS));
            assert_eq!(other.join().unwrap(), None);
        });
        let taken: Vec<_> = std::iter::from_fn(|| Spare::take(&NUMBERS)).collect();
        assert_eq!(taken, [Box::new(1), Box::new(0)]);
    }
}
