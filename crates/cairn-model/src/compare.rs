//! Comparisons of actual and expected content.

use std::collections::BTreeMap;

use crate::engine::Engine;
use crate::failure::Failure;
use crate::model::Model;
use crate::scan::Entries;
use crate::scan::{Direction, Scan};

/// Returns the content of every family, read forward, backward and key by key, which must agree.
///
/// # Errors
///
/// A disagreement of two reads, or an error of the engine.
pub fn content(
    engine: &mut dyn Engine,
    model: &Model,
) -> Result<BTreeMap<String, Entries>, Failure> {
    let mut all = BTreeMap::new();
    for family in engine.families() {
        let wrong = |text: &str, failure: Failure| {
            Failure::wrong(format!("family {family}, {text}: {failure}"))
        };
        let mut read = |direction| engine.scan(&family, &Scan::all(direction), None);
        let forward = read(Direction::Forward)?;
        let mut backward = read(Direction::Backward)?;
        backward.reverse();
        same_entries(&forward, &backward).map_err(|f| wrong("forward and backward scan", f))?;
        if !forward.is_sorted_by(|a, b| a.0 < b.0) {
            return Err(Failure::wrong(format!(
                "family {family}: keys out of order"
            )));
        }
        let known = match model.has_family(&family) {
            true => model.keys(&family),
            false => Vec::new(),
        };
        let mut asked: BTreeMap<Vec<u8>, Option<Vec<u8>>> =
            known.into_iter().map(|key| (key, None)).collect();
        asked.extend(
            forward
                .iter()
                .map(|(key, value)| (key.clone(), Some(value.clone()))),
        );
        for (key, scanned) in asked {
            let got = engine.get(&family, &key, None)?;
            if got != scanned {
                return Err(Failure::wrong(format!(
                    "family {family}, key {}: {} from a scan, {} from a get",
                    String::from_utf8_lossy(&key),
                    value_text(scanned.as_deref()),
                    value_text(got.as_deref())
                )));
            }
        }
        all.insert(family, forward);
    }
    Ok(all)
}

/// Compares two lists of entries.
///
/// # Errors
///
/// The first difference.
pub fn same_entries(expected: &Entries, found: &Entries) -> Result<(), Failure> {
    if expected == found {
        return Ok(());
    }
    let at = expected
        .iter()
        .zip(found)
        .take_while(|(a, b)| a == b)
        .count();
    let entry = |entry: Option<&(Vec<u8>, Vec<u8>)>| match entry {
        Some((key, value)) => {
            let key = String::from_utf8_lossy(key);
            format!("{key} = {}", value_text(Some(value)))
        }
        None => "the end".to_owned(),
    };
    Err(Failure::wrong(format!(
        "entry {at} of {}: expected {}, found {} ({} entries found)",
        expected.len(),
        entry(expected.get(at)),
        entry(found.get(at)),
        found.len()
    )))
}

/// Formats a value, abbreviated.
#[must_use]
pub fn value_text(value: Option<&[u8]>) -> String {
    match value {
        None => "nothing".to_owned(),
        Some(value) => {
            let shown = &value[..value.len().min(24)];
            format!(
                "{:?} ({} bytes)",
                String::from_utf8_lossy(shown),
                value.len()
            )
        }
    }
}
