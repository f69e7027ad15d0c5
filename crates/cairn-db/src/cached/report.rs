//! The property `cairn.cache`: the entries of the block caches by role, family and level, as JSON.

use std::fmt::Write as _;

use cairn_memory::BlockCache;

use super::groups::Groups;
use crate::shared::Shared;

impl Shared {
    /// Returns the content of the block caches: for each its capacity, usage, and groups of entries. Entries
    /// that do not belong to a table of this database have neither family nor level: blobs, rows, blocks of
    /// other databases and of deleted files. Ages are in seconds.
    pub(crate) fn cached(&self) -> String {
        let mut text = String::from("{\"caches\":[");
        for (at, cache) in self.block_caches().iter().enumerate() {
            if at > 0 {
                text.push(',');
            }
            self.write_cache(cache, &mut text);
        }
        text.push_str("]}");
        text
    }

    fn write_cache(&self, cache: &BlockCache, text: &mut String) {
        let (owners, families) = (self.owners(), self.catalog.families().clone());
        let mut groups = Groups::default();
        cache.for_each_entry(|entry| {
            let owner = owners.find(&entry.key);
            let (family, level) = (owner.map(|it| it.family), owner.map(|it| it.level));
            let name = (entry.role.name(), family, level);
            groups.add(name, entry.charge as u64, entry.hits, entry.age_seconds);
        });
        // Writing to a string does not fail.
        let _ = write!(
            text,
            "{{\"capacity\":{},\"usage\":{},\"groups\":[",
            cache.capacity(),
            cache.usage()
        );
        for (at, group) in groups.finish().into_iter().enumerate() {
            let separator = if at > 0 { "," } else { "" };
            let _ = write!(text, "{separator}{{\"role\":\"{}\",", group.role);
            if let (Some(id), Some(level)) = (group.family, group.level) {
                let name = families.get(id).map_or("", |family| family.name());
                let _ = write!(text, "\"family\":{},\"level\":{level},", json(name));
            }
            let _ = write!(
                text,
                "\"entries\":{},\"bytes\":{},\"hits\":{},\"age_p50\":{},\"age_p90\":{},\"age_max\":{}}}",
                group.entries, group.bytes, group.hits, group.age_p50, group.age_p90, group.age_max
            );
        }
        text.push_str("]}");
    }
}

/// Returns `text` as a JSON string.
fn json(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            letter if letter < ' ' => {
                let _ = write!(quoted, "\\u{:04x}", u32::from(letter));
            }
            letter => quoted.push(letter),
        }
    }
    quoted.push('"');
    quoted
}
