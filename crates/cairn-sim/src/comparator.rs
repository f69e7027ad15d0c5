//! A comparator that panics, like a faulty one of a program.

use std::cmp::Ordering;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use cairn_types::Comparator;

/// The order of bytes. While it is armed, a comparison with the key `x` panics.
#[derive(Debug, Default)]
pub struct PanickingComparator(AtomicBool);

impl PanickingComparator {
    /// Arms or disarms it.
    pub fn arm(&self, armed: bool) {
        // Relaxed: the threads of a test are synchronized otherwise.
        self.0.store(armed, Relaxed);
    }
}

impl Comparator for PanickingComparator {
    fn name(&self) -> &str {
        "leveldb.BytewiseComparator"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        let panics = self.0.load(Relaxed) && [a, b].contains(&&b"x"[..]);
        assert!(!panics, "a comparator of a test panics");
        a.cmp(b)
    }
}
