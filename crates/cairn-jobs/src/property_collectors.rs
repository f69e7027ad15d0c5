//! Property collectors of one table: the user's own, and the built-in one that detects many
//! deletions.

use cairn_format::key;
use cairn_options::{CompactOnDeletion, CompactionStyle, FamilyOptions};
use cairn_table::TableBuilder;
use cairn_types::{
    CollectorContext, Result, SequenceNumber, TablePropertiesCollector,
    TablePropertiesCollectorFactory, ValueKind,
};

/// The property collectors of one table.
pub(crate) struct PropertyCollectors {
    collectors: Vec<Box<dyn TablePropertiesCollector>>,
}

impl PropertyCollectors {
    /// Creates the collectors of a table of `level` and records their names in `builder`.
    pub(crate) fn new(
        options: &FamilyOptions,
        family_id: u32,
        level: usize,
        builder: &mut TableBuilder,
    ) -> PropertyCollectors {
        let context = CollectorContext {
            family_id,
            level_at_creation: level,
            num_levels: usize::try_from(options.num_levels).unwrap_or(1),
        };
        let users = options.table_properties_collector_factories.all();
        let compacts = matches!(
            options.compaction_style,
            CompactionStyle::Level | CompactionStyle::Universal
        );
        let own =
            (options.deletion_triggered_compaction && compacts).then(CompactOnDeletion::by_default);
        if !users.is_empty() {
            let names: Vec<&str> = users.iter().map(|factory| factory.name()).collect();
            builder.properties_mut().property_collectors = format!("[{}]", names.join(","));
        }
        let own = own.and_then(|own| own.create(&context));
        let users = users.iter().filter_map(|factory| factory.create(&context));
        PropertyCollectors {
            collectors: users.chain(own).collect(),
        }
    }

    /// Passes an entry to every collector. `size` is the size of the table so far, in bytes.
    #[inline]
    pub(crate) fn add(&mut self, internal: &[u8], value: &[u8], size: u64) -> Result<()> {
        if self.collectors.is_empty() {
            return Ok(());
        }
        let packed = key::packed(internal);
        let kind = ValueKind::from_u8(packed as u8).unwrap_or(ValueKind::Noop);
        let (user, seq) = (key::user_key(internal), SequenceNumber(packed >> 8));
        for collector in &mut self.collectors {
            collector.add(user, value, kind, seq, size)?;
        }
        Ok(())
    }

    /// Adds the collected properties to `builder`. Returns true if a collector marks the table for
    /// compaction.
    pub(crate) fn finish(mut self, builder: &mut TableBuilder) -> Result<bool> {
        let mut marked = false;
        for collector in &mut self.collectors {
            let properties = collector.finish()?;
            builder.properties_mut().others.extend(properties);
            marked |= collector.need_compact();
        }
        Ok(marked)
    }
}
