//! The tickers of scans over many ranges.

use cairn_db::{MultiScanArgs, ScanRange};

use super::*;

/// One scan finds some of its blocks in the cache, the others read blocks in vain.
pub(super) fn scans_over_many_ranges(opener: &Opener) {
    let cached = FamilyOptions::from_text("block_based_table_factory={block_size=1024}").unwrap();
    let db = opener.fresh(&cached);
    for n in 0..2000 {
        db.put(&key(n), &noise(n, 100)).unwrap();
    }
    db.flush().unwrap();
    assert!(db.get(&key(400)).unwrap().is_some());
    for _ in 0..2 {
        let range = |n: u32| ScanRange {
            start: key(n * 100),
            limit: Some(key(n * 100 + 30)),
        };
        let args = MultiScanArgs {
            ranges: (0..20).map(range).collect(),
            ..MultiScanArgs::default()
        };
        let family = db.default_family();
        let mut scan = family.multi_scan(&ReadOptions::default(), args).unwrap();
        scan.next_range();
        while scan.valid() {
            scan.advance();
        }
    }
}
