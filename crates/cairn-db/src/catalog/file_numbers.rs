//! The numbers of files: each is given out once.

use cairn_platform::sync::{AtomicU64, Ordering};
use cairn_types::FileNumber;

/// No counter reaches this number: a file with it, or a larger one, has its name from elsewhere. RocksDB packs numbers into 62
/// bits, so that a database that begins here has more of them left than it can use up.
const FOREIGN: FileNumber = FileNumber(1 << 61);

/// True if a counter may have given `number`.
pub(crate) fn is_own(number: FileNumber) -> bool {
    number < FOREIGN
}

/// The source of file numbers of a database.
pub(crate) struct FileNumbers {
    /// The number of the next file. Relaxed: a number orders nothing but itself.
    next: AtomicU64,
}

impl FileNumbers {
    /// Numbers from `first` on.
    pub(crate) fn new(first: FileNumber) -> FileNumbers {
        FileNumbers {
            next: AtomicU64::new(first.0),
        }
    }

    /// A number for a new file.
    pub(crate) fn take(&self) -> FileNumber {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        assert!(
            number < FOREIGN.0 << 1,
            "file number {number} was given out"
        );
        FileNumber(number)
    }

    /// A bound of the numbers given out: all are below it, and later ones are not.
    pub(crate) fn next(&self) -> FileNumber {
        FileNumber(self.next.load(Ordering::Relaxed))
    }

    /// Keeps `number` from being given out. One that no counter reaches is ignored.
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
    fn no_number_is_given_out_that_is_used() {
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
