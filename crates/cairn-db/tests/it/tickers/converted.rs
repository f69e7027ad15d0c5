//! The tickers of scans that add range tombstones.

use super::*;

/// One scan adds a range tombstone, and one of an older view may not.
pub(super) fn scans_over_deletions(opener: &Opener) {
    let db = opener.fresh(&FamilyOptions {
        min_tombstones_for_range_conversion: 2,
        ..by_hand()
    });
    for n in 0..4 {
        db.delete(&key(n)).unwrap();
    }
    let mut old = db.iter();
    db.iter().seek_to_first();
    db.flush().unwrap();
    old.seek_to_first();
    assert!(!old.valid());
}
