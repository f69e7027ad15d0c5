//! The list of sites at which a fault that nobody hears of does no harm.

use std::path::Path;

use cairn_sim::Call;

const LIST: &str = include_str!("../../../cairn-sim/harmless.toml");

/// One entry of the list; empty texts match everything.
#[derive(Debug, Default, PartialEq, Eq)]
struct Entry {
    call: String,
    file: String,
    frame: String,
    reason: String,
}

/// The entries of a list: tables `[[site]]` of names and texts.
fn entries(text: &str) -> Vec<Entry> {
    let mut all: Vec<Entry> = Vec::new();
    for line in text.lines().map(str::trim) {
        if line == "[[site]]" {
            all.push(Entry::default());
        } else if let (Some((name, value)), Some(last)) = (line.split_once('='), all.last_mut()) {
            let value = value.trim().trim_matches('"').to_owned();
            match name.trim() {
                "call" => last.call = value,
                "file" => last.file = value,
                "frame" => last.frame = value,
                "reason" => last.reason = value,
                _ => {}
            }
        }
    }
    all
}

/// Why a failure of this call at this site harms nobody, if the list says so.
pub(super) fn reason(call: Call, path: &Path, site: &str) -> Option<String> {
    let call = format!("{call:?}");
    let path = path.to_string_lossy();
    let mut entries = entries(LIST).into_iter();
    let found = entries.find(|entry| {
        (entry.call.is_empty() || entry.call == call)
            && path.ends_with(&entry.file)
            && site.contains(&entry.frame)
    });
    found.map(|entry| entry.reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_names_a_site_and_a_reason() {
        for entry in entries(LIST) {
            assert!(!entry.reason.is_empty(), "{entry:?}");
            assert!(!entry.frame.is_empty(), "{entry:?}");
        }
        let text = "[[site]]\ncall = \"Remove\"\nframe = \"a::b\"\nreason = \"for a reason\"\n";
        let read = entries(text);
        assert_eq!(read.len(), 1);
        assert_eq!(
            (read[0].call.as_str(), read[0].frame.as_str()),
            ("Remove", "a::b")
        );
    }
}
