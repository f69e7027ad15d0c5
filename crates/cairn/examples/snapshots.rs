//! Snapshots: the state at one point in time, unaffected by later writes.
//!
//! `cargo run -p cairn --example snapshots`

use cairn::{Db, Options};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let db = Db::open(dir.path(), &Options::default().create_if_missing(true))?;
    for month in ["2024-01", "2024-02", "2025-01"] {
        db.put(month.as_bytes(), b"closed")?;
    }

    let snapshot = db.snapshot();
    db.put(b"2025-02", b"open")?;
    db.delete(b"2024-01")?;

    // Point reads, scans, ranges and prefixes at that point in time.
    assert!(snapshot.get(b"2024-01")?.is_some());
    assert!(snapshot.get(b"2025-02")?.is_none());
    let count = |entries: cairn::Iter<'_>| entries.into_iter().count();
    assert_eq!(count(snapshot.iter()), 3);
    assert_eq!(count(snapshot.prefix("2024")), 2);
    assert_eq!(count(db.prefix("2024")), 1);

    // Backward from the last key.
    let (last, _) = snapshot
        .iter()
        .into_iter()
        .next_back()
        .ok_or("not empty")??;
    assert_eq!(*last, *b"2025-01");

    // An iterator, too, shows one point in time until it is refreshed.
    let mut iter = db.iter();
    db.put(b"2025-03", b"open")?;
    iter.seek(b"2025-03");
    assert!(!iter.valid());
    iter.refresh()?;
    iter.seek(b"2025-03");
    assert!(iter.valid());
    iter.status()?;
    Ok(())
}
