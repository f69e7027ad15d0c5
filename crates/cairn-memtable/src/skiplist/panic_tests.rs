//! Comparators that panic or re-enter the list.

use std::cmp::Ordering as Order;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use cairn_types::Comparator;

use super::*;

const ROUNDS: usize = if cfg!(miri) { 20 } else { 400 };

/// The bytewise order; panics when its countdown ends.
struct Shaky(AtomicUsize);

impl Comparator for Shaky {
    fn name(&self) -> &str {
        "shaky"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Order {
        let left = self.0.load(SeqCst);
        self.0.store(left.saturating_sub(1), SeqCst);
        if left == 1 {
            // Avoids the output of the panic hook.
            std::panic::resume_unwind(Box::new("on purpose"));
        }
        a.cmp(b)
    }
}

/// Inserts keys in scattered order, by each kind of insertion in turn. The comparator panics every
/// few comparisons. Returns the keys inserted and those whose insertion panicked.
fn fill(list: &SkipList, shaky: &Shaky) -> (Vec<u64>, Vec<u64>) {
    let (mut hint, mut done, mut cut) = (InsertHint::default(), Vec::new(), Vec::new());
    for n in 0..ROUNDS {
        let key = |n: usize| (n as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
        let keys = [key(3 * n), key(3 * n + 1), key(3 * n + 2)];
        shaky.0.store(1 + n * 7 % 61, SeqCst);
        let count = if n % 3 == 2 { 3 } else { 1 };
        let inserted = catch_unwind(AssertUnwindSafe(|| match n % 3 {
            0 => drop(list.insert(&keys[0], 1 << 8 | 1, b"v", &mut hint)),
            1 => list.insert_deferred(&keys[0], 1 << 8 | 1, b"v"),
            _ => {
                let additions = keys.each_ref().map(|key| (&key[..], 1 << 8 | 1, &b"v"[..]));
                list.insert_batch(&additions, &mut hint, |_, _| {});
            }
        }));
        shaky.0.store(0, SeqCst);
        let into = if inserted.is_ok() {
            &mut done
        } else {
            &mut cut
        };
        into.extend(keys[..count].iter().map(|key| u64::from_be_bytes(*key)));
        if n % 50 == 49 {
            shaky.0.store(3, SeqCst);
            let _read = catch_unwind(AssertUnwindSafe(|| {
                list.at_or_after(&keys[0], u64::MAX).is_some()
            }));
            shaky.0.store(0, SeqCst);
        }
    }
    (done, cut)
}

#[test]
fn a_panicking_comparator_leaves_a_sorted_and_complete_list() {
    for sort_on_read in [false, true] {
        let shaky = Arc::new(Shaky(AtomicUsize::new(0)));
        let list = SkipList::new(KeyOrder::Custom(shaky.clone()), 4096);
        let list = match sort_on_read {
            true => list.sort_on_read(),
            false => list,
        };
        let (done, cut) = fill(&list, &shaky);
        let number =
            |entry: &Entry<'_>| u64::from_be_bytes(*entry.user_key().first_chunk().unwrap());
        let found: Vec<u64> = std::iter::successors(list.first(), Entry::next)
            .map(|entry| number(&entry))
            .collect();
        assert!(
            found.is_sorted_by(|a, b| a < b),
            "keys are sorted and unique"
        );
        for key in &done {
            assert!(found.binary_search(key).is_ok());
            let at = list.at_or_after(&key.to_be_bytes(), u64::MAX);
            assert_eq!(at.map(|entry| number(&entry)), Some(*key));
        }
        let known = |key: &u64| done.contains(key) || cut.contains(key);
        assert!(found.iter().all(known));
        assert!(sort_on_read || !cut.is_empty(), "some insertions panicked");
    }
}

#[test]
fn a_reentrant_comparator_panics_with_the_rule() {
    /// Reads the list whose keys it compares.
    struct Reader(std::sync::OnceLock<std::sync::Weak<SkipList>>);
    impl Comparator for Reader {
        fn name(&self) -> &str {
            "reader"
        }
        fn compare(&self, a: &[u8], b: &[u8]) -> Order {
            if let Some(list) = self.0.get().and_then(std::sync::Weak::upgrade) {
                list.first();
            }
            a.cmp(b)
        }
    }
    let reader = Arc::new(Reader(std::sync::OnceLock::new()));
    let list = Arc::new(SkipList::new(KeyOrder::Custom(reader.clone()), 4096));
    let late = Arc::new(SkipList::new(KeyOrder::Custom(reader.clone()), 4096).sort_on_read());
    for list in [&list, &late] {
        for n in 0..5u8 {
            list.insert_deferred(&[n ^ 1], 1 << 8 | 1, b"v");
        }
    }
    reader.0.set(Arc::downgrade(&late)).unwrap();
    let read = catch_unwind(AssertUnwindSafe(|| late.first().is_some()));
    let said = *read.unwrap_err().downcast::<String>().unwrap();
    assert!(said.contains("may not read"), "{said}");
}
