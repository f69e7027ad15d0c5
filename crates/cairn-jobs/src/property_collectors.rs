//! Property collectors of one table: the user's own, and the built-in one that detects many
//! deletions.

use cairn_format::key;
use cairn_options::{CompactOnDeletion, CompactionStyle, DeletionDensity, FamilyOptions};
use cairn_table::TableBuilder;
use cairn_types::{CollectorContext, Result, TablePropertiesCollector, ValueKind};

/// The property collectors of one table.
pub(crate) struct PropertyCollectors {
    users: Vec<Box<dyn TablePropertiesCollector>>,
    own: Option<Box<DeletionDensity>>,
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
        let own = (options.deletion_triggered_compaction && compacts)
            .then(|| Box::new(CompactOnDeletion::by_default().collector()));
        if !users.is_empty() {
            let names: Vec<&str> = users.iter().map(|factory| factory.name()).collect();
            builder.properties_mut().property_collectors = format!("[{}]", names.join(",")).into();
        }
        let users = users.iter().filter_map(|factory| factory.create(&context));
        PropertyCollectors {
            users: users.collect(),
            own,
        }
    }

    /// Passes an entry to every collector. `size` is the size of the table so far, in bytes.
    #[inline]
    pub(crate) fn add(&mut self, internal: &[u8], value: &[u8], size: u64) -> Result<()> {
        let packed = key::packed(internal);
        // Truncation is intended: the kind is the lowest byte.
        let kind = ValueKind::from_u8(packed as u8).unwrap_or(ValueKind::Noop);
        if let Some(own) = &mut self.own {
            own.count(kind, size);
        }
        match self.users.is_empty() {
            true => Ok(()),
            false => self.add_to_users(internal, value, kind, size),
        }
    }

    fn add_to_users(
        &mut self,
        internal: &[u8],
        value: &[u8],
        kind: ValueKind,
        size: u64,
    ) -> Result<()> {
        let (user, seq) = (key::user_key(internal), key::sequence(internal));
        self.users
            .iter_mut()
            .try_for_each(|collector| collector.add(user, value, kind, seq, size))
    }

    /// Adds the collected properties to `builder`. Returns true if a collector marks the table for
    /// compaction.
    pub(crate) fn finish(self, builder: &mut TableBuilder) -> Result<bool> {
        let mut marked = false;
        let own = self
            .own
            .map(|own| -> Box<dyn TablePropertiesCollector> { own });
        for mut collector in self.users.into_iter().chain(own) {
            let properties = collector.finish()?;
            builder.properties_mut().others.extend(properties);
            marked |= collector.need_compact();
        }
        Ok(marked)
    }
}
