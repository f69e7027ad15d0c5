//! Compaction filters: drop or change entries as tables are rewritten.
//!
//! `cargo run -p cairn --example filters`

use std::sync::Arc;

use cairn::compaction::{CompactionFilter, FilterDecision, FilterValue};
use cairn::{CompactRangeOptions, Db, Options};

/// Drops expired sessions and truncates long notes.
struct Tidy;

impl CompactionFilter for Tidy {
    fn name(&self) -> &str {
        "example.Tidy"
    }

    fn filter(&self, _level: usize, key: &[u8], value: FilterValue<'_>) -> FilterDecision {
        match value {
            FilterValue::Value(b"over") if key.starts_with(b"session:") => FilterDecision::Remove,
            FilterValue::Value(note) if key.starts_with(b"note:") && note.len() > 5 => {
                FilterDecision::ChangeValue(note[..5].to_vec())
            }
            _ => FilterDecision::Keep,
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let mut options = Options::default().create_if_missing(true);
    let filter: Arc<dyn CompactionFilter> = Arc::new(Tidy);
    options.family.compaction_filter = filter.into();
    let db = Db::open(dir.path(), &options)?;

    db.put(b"note:1", b"a long note")?;
    db.put(b"session:1", b"over")?;
    db.put(b"session:2", b"open")?;
    db.flush()?;
    assert!(db.get(b"session:1")?.is_some(), "no compaction has run yet");

    db.compact_range(None, None, &CompactRangeOptions::default())?;
    assert!(db.get(b"session:1")?.is_none());
    assert!(db.get(b"session:2")?.is_some());
    assert_eq!(db.get(b"note:1")?.as_deref(), Some(&b"a lon"[..]));
    Ok(db.close()?)
}
