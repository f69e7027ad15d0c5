//! The list of sites at which an unreported fault is harmless.

use std::path::Path;
use std::sync::LazyLock;

use cairn_sim::Call;
use serde::Deserialize;

const LIST: &str = include_str!("../../../cairn-sim/harmless.toml");

/// The file format: tables `[[site]]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    site: Vec<Entry>,
}

/// An entry of the list; empty fields match everything.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    #[serde(default)]
    call: String,
    #[serde(default)]
    file: String,
    frame: String,
    reason: String,
}

static ENTRIES: LazyLock<Vec<Entry>> = LazyLock::new(|| {
    let list: List = toml::from_str(LIST).expect("harmless.toml is a list of sites");
    list.site
});

/// Returns the reason why a failure of this call at this site is harmless, if it is listed.
pub(super) fn reason(call: Call, path: &Path, site: &str) -> Option<String> {
    let call = format!("{call:?}");
    let path = path.to_string_lossy();
    let found = ENTRIES.iter().find(|entry| {
        (entry.call.is_empty() || entry.call == call)
            && path.ends_with(&entry.file)
            && site.contains(&entry.frame)
    });
    found.map(|entry| entry.reason.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_names_a_site_and_a_reason() {
        for entry in ENTRIES.iter() {
            assert!(!entry.reason.is_empty(), "{entry:?}");
            assert!(!entry.frame.is_empty(), "{entry:?}");
        }
    }

    #[test]
    fn an_unknown_field_is_an_error() {
        let text = "[[site]]\nfrme = \"a::b\"\nframe = \"a\"\nreason = \"for a reason\"\n";
        assert!(toml::from_str::<List>(text).is_err());
    }
}
