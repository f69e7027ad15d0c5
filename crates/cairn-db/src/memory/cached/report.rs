//! The property `cairn.cache`: the entries of the block caches by role, family and level, as JSON.

use cairn_memory::BlockCache;
use cairn_observe::event::quoted;

use super::groups::{CacheGroup, Groups};
use crate::report::json::{array, object};
use crate::shared::Shared;

impl Shared {
    /// Returns the content of the block caches: for each its capacity, usage, and groups of entries. Entries
    /// that do not belong to a table of this database have neither family nor level: blobs, rows, blocks of
    /// other databases and of deleted files. Ages are in seconds.
    pub(crate) fn cached(&self) -> String {
        let caches = self.block_caches();
        let caches: Vec<String> = caches.iter().map(|cache| self.cache_json(cache)).collect();
        object(&[("caches", array(&caches))])
    }

    fn cache_json(&self, cache: &BlockCache) -> String {
        let owners = self.owners();
        let mut groups = Groups::default();
        cache.for_each_entry(|entry| {
            let owner = owners.find(&entry.key);
            let (family, level) = (owner.map(|it| it.family), owner.map(|it| it.level));
            let name = (entry.role.name(), family, level);
            groups.add(name, entry.charge as u64, entry.hits, entry.age_seconds);
        });
        let groups = groups.finish();
        let groups: Vec<String> = groups.iter().map(|group| self.group_json(group)).collect();
        object(&[
            ("capacity", cache.capacity().to_string()),
            ("usage", cache.usage().to_string()),
            ("groups", array(&groups)),
        ])
    }

    fn group_json(&self, group: &CacheGroup) -> String {
        let mut members = vec![("role", quoted(group.role))];
        if let (Some(id), Some(level)) = (group.family, group.level) {
            let families = self.catalog.families();
            let name = families.get(id).map_or("", |family| family.name());
            members.extend([("family", quoted(name)), ("level", level.to_string())]);
        }
        members.extend([
            ("entries", group.entries.to_string()),
            ("bytes", group.bytes.to_string()),
            ("hits", group.hits.to_string()),
            ("age_p50", group.age_p50.to_string()),
            ("age_p90", group.age_p90.to_string()),
            ("age_max", group.age_max.to_string()),
        ]);
        object(&members)
    }
}
