//! The property `cairn.cache`: the entries of the block caches by role, family and level, as JSON.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use cairn_memory::BlockCache;

use crate::shared::Shared;

/// A role, and the family and level of the file, if it belongs to the database.
type GroupName = (&'static str, Option<(u32, usize)>);

/// Entries with the same role, family and level.
#[derive(Default)]
struct Group {
    bytes: usize,
    hits: u64,
    /// Seconds since the insertion, of each entry.
    ages: Vec<u32>,
}

impl Group {
    /// The age that `percent` of the entries do not exceed.
    fn age(&self, percent: usize) -> u32 {
        let last = self.ages.len().saturating_sub(1);
        self.ages.get(last * percent / 100).copied().unwrap_or(0)
    }
}

impl Shared {
    /// Returns the content of the block caches: for each its capacity, usage, and groups of entries. Entries that
    /// belong to no table of this database have neither family nor level: blobs, rows, blocks of other databases
    /// and of deleted files. Ages are in seconds.
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
        let (owners, families) = (self.owners(), self.catalog.families_full());
        let mut groups: BTreeMap<GroupName, Group> = BTreeMap::new();
        cache.for_each_entry(|entry| {
            let owner = owners.find(&entry.key);
            let place = owner.map(|owner| (owner.family, owner.level));
            let group = groups.entry((entry.role.name(), place)).or_default();
            group.bytes += entry.charge;
            group.hits += u64::from(entry.hits);
            group.ages.push(entry.age_seconds);
        });
        // Writing to a string does not fail.
        let _ = write!(
            text,
            "{{\"capacity\":{},\"usage\":{},\"groups\":[",
            cache.capacity(),
            cache.usage()
        );
        for (at, ((role, place), mut group)) in groups.into_iter().enumerate() {
            group.ages.sort_unstable();
            let separator = if at > 0 { "," } else { "" };
            let _ = write!(text, "{separator}{{\"role\":\"{role}\",");
            if let Some((id, level)) = place {
                let name = families.get(id).map_or("", |family| family.name());
                let _ = write!(text, "\"family\":{},\"level\":{level},", json(name));
            }
            let _ = write!(
                text,
                "\"entries\":{},\"bytes\":{},\"hits\":{},\"age_p50\":{},\"age_p90\":{},\"age_max\":{}}}",
                group.ages.len(),
                group.bytes,
                group.hits,
                group.age(50),
                group.age(90),
                group.age(100)
            );
        }
        text.push_str("]}");
    }
}

/// `text` as a JSON string.
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
