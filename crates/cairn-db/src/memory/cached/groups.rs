//! Totals of cache entries by role, family and level.

use std::collections::BTreeMap;

/// Cache entries with the same role, family and level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheGroup {
    /// The name of the role.
    pub role: &'static str,
    /// The column family id; `None` for entries that do not belong to a table of the database.
    pub family: Option<u32>,
    /// The level of the tables; `None` if unknown.
    pub level: Option<usize>,
    /// The number of entries.
    pub entries: usize,
    /// Their bytes.
    pub bytes: u64,
    /// The hits since their insertion.
    pub hits: u64,
    /// The median of the seconds since the insertion.
    pub age_p50: u32,
    /// The 90th percentile of the age in seconds.
    pub age_p90: u32,
    /// The age of the oldest entry.
    pub age_max: u32,
}

/// Role, family and level.
type GroupName = (&'static str, Option<u32>, Option<usize>);

#[derive(Default)]
struct Sum {
    bytes: u64,
    hits: u64,
    ages: Vec<u32>,
}

/// Groups under construction.
#[derive(Default)]
pub(super) struct Groups(BTreeMap<GroupName, Sum>);

impl Groups {
    /// Adds an entry of `bytes` bytes.
    pub(super) fn add(&mut self, name: GroupName, bytes: u64, hits: u32, age_seconds: u32) {
        let sum = self.0.entry(name).or_default();
        sum.bytes += bytes;
        sum.hits += u64::from(hits);
        sum.ages.push(age_seconds);
    }

    /// Returns the groups in the order of their names.
    pub(super) fn finish(self) -> Vec<CacheGroup> {
        let groups = self.0.into_iter().map(|((role, family, level), mut sum)| {
            sum.ages.sort_unstable();
            let last = sum.ages.len().saturating_sub(1);
            let age = |percent: usize| sum.ages.get(last * percent / 100).copied().unwrap_or(0);
            CacheGroup {
                role,
                family,
                level,
                entries: sum.ages.len(),
                bytes: sum.bytes,
                hits: sum.hits,
                age_p50: age(50),
                age_p90: age(90),
                age_max: age(100),
            }
        });
        groups.collect()
    }
}
