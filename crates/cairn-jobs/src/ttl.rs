//! Values with a time to live. Jobs read and write them with their timestamps
//! ([`cairn_format::dated`]); the program's filter and merge operator see them without.
//!
//! RocksDB's rules apply: expired values are dropped even if a snapshot reads them; operands are kept
//! until merged; a merge result gets the time of the merge. A value with an implausible timestamp,
//! which reads report as corruption, is kept, because its age is unknown. Entities have no timestamp
//! and are kept.

use std::sync::Arc;

use cairn_format::dated;
use cairn_options::{FamilyOptions, ttl};
use cairn_platform::Clock;
use cairn_types::{CompactionFilter, FilterDecision, FilterValue, MergeInput, MergeOperator};

/// Returns the merge operator for values as stored by a column family with `options`.
pub(crate) fn merge_operator(
    options: &FamilyOptions,
    clock: &Arc<dyn Clock>,
) -> Option<Arc<dyn MergeOperator>> {
    let operator = options.merge_operator.clone()?;
    Some(match options.value_ttl {
        None => operator,
        Some(_) => Arc::new(DatedMerge {
            operator,
            clock: clock.clone(),
        }),
    })
}

/// Returns the name of that operator as tables record it; empty without an operator.
#[must_use]
pub fn merge_operator_name(options: &FamilyOptions) -> String {
    match (&options.merge_operator, options.value_ttl) {
        (None, _) => String::new(),
        (Some(operator), None) => operator.name().to_owned(),
        (Some(_), Some(_)) => ttl::MERGE_OPERATOR.to_owned(),
    }
}

/// Returns a filter that drops the expired values of a column family with `options` and otherwise
/// calls the program's `filter`; `None` if neither applies.
pub(crate) fn filter(
    options: &FamilyOptions,
    clock: &Arc<dyn Clock>,
    filter: Option<Arc<dyn CompactionFilter>>,
) -> Option<Arc<dyn CompactionFilter>> {
    let Some(ttl) = options.value_ttl else {
        return filter;
    };
    let ttl = u64::try_from(ttl).ok().filter(|ttl| *ttl > 0);
    (ttl.is_some() || filter.is_some()).then(|| {
        let filter = DatedFilter {
            ttl,
            now: clock.wall_seconds(),
            filter,
        };
        Arc::new(filter) as Arc<dyn CompactionFilter>
    })
}

/// Applies the program's operator to timestamped values and operands.
struct DatedMerge {
    operator: Arc<dyn MergeOperator>,
    clock: Arc<dyn Clock>,
}

impl DatedMerge {
    /// Returns `operands` without timestamps; `None` if one is too short.
    fn undated<'a>(operands: &[&'a [u8]]) -> Option<Vec<&'a [u8]>> {
        let undated = |operand: &&'a [u8]| Some(dated::split(operand).ok()?.0);
        operands.iter().map(undated).collect()
    }

    fn dated(&self, mut merged: Vec<u8>) -> Vec<u8> {
        merged.extend_from_slice(&dated::encode(self.clock.wall_seconds()));
        merged
    }
}

impl MergeOperator for DatedMerge {
    fn name(&self) -> &str {
        ttl::MERGE_OPERATOR
    }

    fn full_merge(&self, input: &MergeInput<'_>) -> Option<Vec<u8>> {
        let existing = match input.existing {
            Some(existing) => Some(dated::split(existing).ok()?.0),
            None => None,
        };
        let operands = DatedMerge::undated(input.operands)?;
        let merged = self.operator.full_merge(&MergeInput {
            key: input.key,
            existing,
            operands: &operands,
        });
        merged.map(|merged| self.dated(merged))
    }

    fn partial_merge(&self, key: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
        let operands = DatedMerge::undated(operands)?;
        let merged = self.operator.partial_merge(key, &operands);
        merged.map(|merged| self.dated(merged))
    }

    fn allow_single_operand(&self) -> bool {
        self.operator.allow_single_operand()
    }
}

/// Drops expired values and passes the rest to the program's filter.
struct DatedFilter {
    /// The time to live in seconds; `None` for no expiry.
    ttl: Option<u64>,
    /// Start time of the job, in seconds since 1970.
    now: u64,
    filter: Option<Arc<dyn CompactionFilter>>,
}

impl DatedFilter {
    fn is_too_old(&self, date: u64) -> bool {
        let end = self.ttl.map(|ttl| date.saturating_add(ttl));
        end.is_some_and(|end| end < self.now)
    }

    /// Returns the program's decision about `value`. A changed value keeps its timestamp `date`.
    fn ask(
        &self,
        level: usize,
        key: &[u8],
        value: FilterValue<'_>,
        date: [u8; dated::DATE_LEN],
    ) -> FilterDecision {
        let Some(filter) = &self.filter else {
            return FilterDecision::Keep;
        };
        match filter.filter(level, key, value) {
            FilterDecision::ChangeValue(mut changed) => {
                changed.extend_from_slice(&date);
                FilterDecision::ChangeValue(changed)
            }
            decision => decision,
        }
    }
}

impl CompactionFilter for DatedFilter {
    fn name(&self) -> &str {
        self.filter.as_ref().map_or("", |filter| filter.name())
    }

    fn filter(&self, level: usize, key: &[u8], value: FilterValue<'_>) -> FilterDecision {
        match value {
            FilterValue::Value(stored) => match (dated::split(stored), dated::decode(stored)) {
                (_, Ok((_, date))) if self.is_too_old(date) => FilterDecision::Remove,
                (Ok((value, date)), Ok(_)) => self.ask(level, key, FilterValue::Value(value), date),
                _ => FilterDecision::Keep,
            },
            FilterValue::MergeOperand(stored) => match dated::split(stored) {
                Ok((operand, date)) => {
                    self.ask(level, key, FilterValue::MergeOperand(operand), date)
                }
                Err(_) => FilterDecision::Keep,
            },
            entity @ FilterValue::Entity(_) => {
                self.ask(level, key, entity, dated::encode(self.now))
            }
        }
    }

    fn ignore_snapshots(&self) -> bool {
        let filter = self.filter.as_ref();
        filter.is_none_or(|filter| filter.ignore_snapshots())
    }
}

#[cfg(test)]
mod tests {
    use cairn_options::Options;
    use cairn_platform::World;

    use super::*;

    const NOW: u64 = 1_800_000_000;

    struct At(u64);

    impl Clock for At {
        fn wall_micros(&self) -> u64 {
            self.0 * 1_000_000
        }
        fn monotonic_nanos(&self) -> u64 {
            0
        }
        fn thread_cpu_nanos(&self) -> u64 {
            0
        }
        fn sleep(&self, _: std::time::Duration) {}
    }

    fn clock() -> Arc<dyn Clock> {
        Arc::new(At(NOW))
    }

    fn stored(value: &str, seconds: u64) -> Vec<u8> {
        [value.as_bytes(), &dated::encode(seconds)].concat()
    }

    fn options(text: &str) -> FamilyOptions {
        FamilyOptions::from_text(text).unwrap()
    }

    fn ruled(text: &str, value: &[u8]) -> FilterDecision {
        let filter =
            filter(&options(text), &clock(), None).expect("there is a filter for expired values");
        filter.filter(0, b"k", FilterValue::Value(value))
    }

    #[test]
    fn values_are_dropped_when_they_expire_and_not_before() {
        let (keep, remove) = (FilterDecision::Keep, FilterDecision::Remove);
        assert_eq!(ruled("value_ttl=60", &stored("v", NOW - 60)), keep);
        assert_eq!(ruled("value_ttl=60", &stored("v", NOW - 61)), remove);
        // The sum does not overflow.
        let longest = format!("value_ttl={}", i32::MAX);
        assert_eq!(ruled(&longest, &stored("v", NOW - 61)), keep);
        // Written with a clock that is ahead of this one.
        assert_eq!(ruled("value_ttl=60", &stored("v", NOW + 999)), keep);
    }

    #[test]
    fn values_without_a_timestamp_are_kept() {
        assert_eq!(ruled("value_ttl=60", b"abc"), FilterDecision::Keep);
        let early = [b"v".as_slice(), &(dated::EARLIEST - 1).to_le_bytes()].concat();
        assert_eq!(ruled("value_ttl=60", &early), FilterDecision::Keep);
    }

    #[test]
    fn no_filter_is_created_without_ttl_and_user_filter() {
        for text in ["", "value_ttl=0", "value_ttl=-1"] {
            assert!(filter(&options(text), &clock(), None).is_none(), "{text}");
        }
    }

    /// Appends a letter to values and operands, and drops values that end with one.
    struct Marks;

    impl CompactionFilter for Marks {
        fn name(&self) -> &str {
            "marks"
        }
        fn filter(&self, _: usize, _: &[u8], value: FilterValue<'_>) -> FilterDecision {
            match value {
                FilterValue::Value(b"drop") => FilterDecision::Remove,
                FilterValue::Value(value) | FilterValue::MergeOperand(value) => {
                    FilterDecision::ChangeValue([value, b"!"].concat())
                }
                FilterValue::Entity(_) => FilterDecision::ChangeValue(b"plain".to_vec()),
            }
        }
        fn ignore_snapshots(&self) -> bool {
            false
        }
    }

    #[test]
    fn the_user_filter_sees_no_timestamps_and_changed_values_keep_theirs() {
        let marks = Arc::new(Marks) as Arc<dyn CompactionFilter>;
        let filter = filter(&options("value_ttl=0"), &clock(), Some(marks)).unwrap();
        assert!(!filter.ignore_snapshots());
        let changed = |value: Vec<u8>| FilterDecision::ChangeValue(value);
        let (old, value) = (stored("v", NOW - 99), FilterValue::Value);
        assert_eq!(
            filter.filter(0, b"k", value(&old)),
            changed(stored("v!", NOW - 99))
        );
        assert_eq!(
            filter.filter(0, b"k", FilterValue::MergeOperand(&old)),
            changed(stored("v!", NOW - 99))
        );
        assert_eq!(
            filter.filter(0, b"k", value(&stored("drop", NOW))),
            FilterDecision::Remove
        );
        assert_eq!(
            filter.filter(0, b"k", FilterValue::Entity(&[])),
            changed(stored("plain", NOW))
        );
    }

    #[test]
    fn a_merge_sees_no_timestamps_and_its_result_gets_the_current_time() {
        let options = options("value_ttl=9;merge_operator=stringappend");
        let operator = merge_operator(&options, &clock()).unwrap();
        let (a, b) = (stored("a", NOW - 999), stored("b", NOW - 5));
        let operands = [&a[..], &b];
        let input = |existing| MergeInput {
            key: b"k",
            existing,
            operands: &operands,
        };
        assert_eq!(
            operator.full_merge(&input(None)),
            Some(stored("a,b", NOW)),
            "operands never expire"
        );
        let existing = stored("v", NOW - 9999);
        assert_eq!(
            operator.full_merge(&input(Some(&existing))),
            Some(stored("v,a,b", NOW))
        );
        assert_eq!(
            operator.partial_merge(b"k", &[&a, &b]),
            Some(stored("a,b", NOW))
        );
        assert_eq!(operator.full_merge(&input(Some(b"abc"))), None);
        assert_eq!(operator.partial_merge(b"k", &[&a, b"abc"]), None);
        assert_eq!(merge_operator_name(&options), "TtlMergeOperator");
    }

    #[test]
    fn families_without_ttl_use_the_operator_unchanged() {
        let options = options("merge_operator=stringappend");
        let operator = merge_operator(&options, &World::in_memory().clock).unwrap();
        assert_eq!(operator.name(), merge_operator_name(&options));
        assert_eq!(merge_operator_name(&FamilyOptions::default()), "");
    }
}
