//! File numbers, each of which is allocated once.

use cairn_platform::sync::{AtomicU64, Ordering};
use cairn_types::FileNumber;

/// Numbers from this one on are never allocated, so a file with such a number was not created by the database.
/// RocksDB packs numbers into 62 bits: a database that has reached this number can still allocate as many again.
const FOREIGN: FileNumber = FileNumber(1 << 61);

/// True if `number` may have been allocated.
pub(crate) fn is_own(number: FileNumber) -> bool {
    number < FOREIGN
}

/// The allocator of file numbers of a database.
pub(crate) struct FileNumbers {
    /// The number of the next file. Relaxed: no other access depends on it.
    next: AtomicU64,
}

impl FileNumbers {
    /// Creates an allocator of numbers from `first` on.
    pub(crate) fn new(first: FileNumber) -> FileNumbers {
        FileNumbers {
            next: AtomicU64::new(first.0),
        }
    }

    /// Allocates a number for a new file.
    pub(crate) fn take(&self) -> FileNumber {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        assert!(
            number < FOREIGN.0 << 1,
            "file number {number} can be allocated"
        );
        FileNumber(number)
    }

    /// Returns the next number to be allocated. All numbers allocated so far are less.
    pub(crate) fn next(&self) -> FileNumber {
        FileNumber(self.next.load(Ordering::Relaxed))
    }

    /// Prevents `number` from being allocated. Numbers beyond the range of allocation are ignored.
    pub(crate) fn note_used(&self, number: FileNumber) {
        if is_own(number) {
            self.next.fetch_max(number.0 + 1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn used_numbers_are_not_allocated() {
        let numbers = FileNumbers::new(FileNumber(3));
        assert_eq!(numbers.take(), FileNumber(3));
        numbers.note_used(FileNumber(2));
        numbers.note_used(FileNumber(7));
        assert_eq!(numbers.next(), FileNumber(8));
        assert_eq!(numbers.take(), FileNumber(8));
        numbers.note_used(FileNumber(u64::MAX));
        assert_eq!(numbers.take(), FileNumber(9));
    }
}
