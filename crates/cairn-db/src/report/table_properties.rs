//! Properties of the tables of a family: of each table, of the tables in key ranges, and aggregated.

use std::collections::BTreeMap;
use std::sync::Arc;

use cairn_format::key;
use cairn_format::table::properties::Properties;
use cairn_read::View;
use cairn_types::Result;
use cairn_version::FileMeta;

use crate::catalog::family::FamilyState;
use crate::db::handle::Family;
use crate::read::bounds::compare;
use crate::report::stats_text::Map;
use crate::shared::Shared;

/// Properties of tables, by the path of the table.
pub type TablePropertiesCollection = BTreeMap<String, Arc<Properties>>;

impl Family {
    /// Returns the properties of every table of the family, by path. Tables that have not been read yet are
    /// opened.
    ///
    /// # Errors
    ///
    /// `IoError` or `Corruption` of a table.
    pub fn properties_of_all_tables(&self) -> Result<TablePropertiesCollection> {
        let view = self.state.view_full();
        self.db
            .shared
            .properties_of(&self.state, view.version.files())
    }

    /// Returns the properties of every table with keys in one of `ranges`, whose ends are inclusive and have no
    /// timestamps.
    ///
    /// # Errors
    ///
    /// `IoError` or `Corruption` of a table.
    pub fn properties_of_tables_in_range(
        &self,
        ranges: &[(&[u8], &[u8])],
    ) -> Result<TablePropertiesCollection> {
        let view = self.state.view_full();
        let order = self.state.order();
        let size = order.timestamp_size();
        let overlaps = |file: &FileMeta| {
            let [smallest, largest] = [&file.smallest, &file.largest]
                .map(|bound| key::strip_timestamp(bound.user_key(), size));
            ranges.iter().any(|(begin, end)| {
                compare(order, smallest, end).is_le() && compare(order, largest, begin).is_ge()
            })
        };
        let files = view.version.files().filter(|(_, file)| overlaps(file));
        self.db.shared.properties_of(&self.state, files)
    }

    /// Returns the properties of every table by level; see [`Family::properties_of_all_tables`].
    ///
    /// # Errors
    ///
    /// `IoError` or `Corruption` of a table.
    pub fn properties_of_tables_by_level(&self) -> Result<Vec<TablePropertiesCollection>> {
        let view = self.state.view_full();
        let levels = 0..view.version.num_levels();
        let of = |level| {
            let files = view.version.files().filter(move |(at, _)| *at == level);
            self.db.shared.properties_of(&self.state, files)
        };
        levels.map(of).collect()
    }
}

impl Shared {
    fn properties_of<'f>(
        &self,
        family: &FamilyState,
        files: impl Iterator<Item = (usize, &'f Arc<FileMeta>)>,
    ) -> Result<TablePropertiesCollection> {
        let tables = family.tables();
        let mut found = TablePropertiesCollection::new();
        for (level, file) in files {
            let table = tables.open(file, level, &self.context.io)?;
            let path = tables.path(file).to_string_lossy().into_owned();
            found.insert(path, Arc::new(table.properties().clone()));
        }
        Ok(found)
    }

    /// Returns the aggregated properties of all tables of `level`, or of every level.
    pub(crate) fn aggregated_properties(
        &self,
        family: &FamilyState,
        view: &View,
        level: Option<usize>,
    ) -> Option<Properties> {
        let wanted = |at: usize| level.is_none_or(|level| level == at);
        if level.is_some_and(|level| level >= view.version.num_levels()) {
            return None;
        }
        let mut sum = Properties::default();
        for (at, file) in view.version.files().filter(|(at, _)| wanted(*at)) {
            // As in RocksDB, there is no result if a table cannot be read.
            let table = family.tables().open(file, at, &self.context.io).ok()?;
            add(&mut sum, table.properties());
        }
        Some(sum)
    }

    /// Returns the compression ratio: bytes of keys and values per byte of data blocks in `level`; -1 if
    /// there is no data.
    pub(crate) fn compression_ratio(
        &self,
        family: &FamilyState,
        view: &View,
        level: usize,
    ) -> Option<f64> {
        let sum = self.aggregated_properties(family, view, Some(level))?;
        Some(match sum.data_size {
            0 => -1.0,
            bytes => sum.raw_key_size.saturating_add(sum.raw_value_size) as f64 / bytes as f64,
        })
    }
}

/// The properties that can be summed.
fn add(sum: &mut Properties, one: &Properties) {
    macro_rules! add {
        ($($name:ident),*) => { $(sum.$name = sum.$name.saturating_add(one.$name);)* };
    }
    add!(
        data_size,
        index_size,
        index_partitions,
        top_level_index_size,
        filter_size,
        raw_key_size,
        raw_value_size,
        num_data_blocks,
        num_compression_rejected,
        num_compression_bypassed,
        num_uniform_blocks,
        num_entries,
        num_deletions,
        num_merge_operands,
        num_range_deletions,
        num_filter_entries,
        slow_compression_estimate,
        fast_compression_estimate
    );
}

/// Returns the properties of a table as one line, `name=value; name=value; ...`, in RocksDB's order and
/// words.
#[must_use]
pub fn table_properties_text(p: &Properties) -> String {
    let index = format!(
        "index block size (user-key? {}, delta-value? {})",
        p.index_key_is_user_key, p.index_value_is_delta_encoded
    );
    let rows = content_rows(p, &index).into_iter().chain(file_rows(p));
    rows.map(|(name, value)| format!("{name}={value}; "))
        .collect()
}

/// The rows for entries and blocks; `index` is the name of the index block's size.
fn content_rows<'n>(p: &Properties, index: &'n str) -> Vec<(&'n str, String)> {
    let average = |bytes: u64| match p.num_entries {
        0 => 0.0,
        entries => bytes as f64 / entries as f64,
    };
    let mut rows: Vec<(&'n str, String)> = vec![
        ("# data blocks", p.num_data_blocks.to_string()),
        (
            "# data blocks compression rejected",
            p.num_compression_rejected.to_string(),
        ),
        (
            "# data blocks compression bypassed",
            p.num_compression_bypassed.to_string(),
        ),
        ("# uniform blocks", p.num_uniform_blocks.to_string()),
        ("# entries", p.num_entries.to_string()),
        ("# deletions", p.num_deletions.to_string()),
        ("# merge operands", p.num_merge_operands.to_string()),
        ("# range deletions", p.num_range_deletions.to_string()),
        ("raw key size", p.raw_key_size.to_string()),
        (
            "raw average key size",
            format!("{:.6}", average(p.raw_key_size)),
        ),
        ("raw value size", p.raw_value_size.to_string()),
        (
            "raw average value size",
            format!("{:.6}", average(p.raw_value_size)),
        ),
        ("data block size", p.data_size.to_string()),
        (index, p.index_size.to_string()),
    ];
    if p.index_partitions > 0 {
        rows.push(("# index partitions", p.index_partitions.to_string()));
        rows.push(("top-level index size", p.top_level_index_size.to_string()));
    }
    rows
}

/// The rows for the file: its sizes, the options that it was written with, and its origin.
fn file_rows(p: &Properties) -> Vec<(&'static str, String)> {
    let or_none = |text: &str| {
        if text.is_empty() {
            "N/A".to_owned()
        } else {
            text.to_owned()
        }
    };
    let size = p
        .data_size
        .saturating_add(p.index_size)
        .saturating_add(p.filter_size);
    vec![
        ("filter block size", p.filter_size.to_string()),
        ("# entries for filter", p.num_filter_entries.to_string()),
        ("(estimated) table size", size.to_string()),
        ("filter policy name", or_none(&p.filter_policy)),
        ("prefix extractor name", or_none(&p.prefix_extractor)),
        ("column family ID", p.column_family_id.to_string()),
        ("column family name", or_none(&p.column_family_name)),
        ("comparator name", or_none(&p.comparator)),
        (
            "user defined timestamps persisted",
            (!p.timestamps_stripped).to_string(),
        ),
        (
            "largest sequence number in file",
            p.key_largest_seqno.to_string(),
        ),
        (
            "smallest sequence number in file",
            p.key_smallest_seqno.to_string(),
        ),
        ("merge operator name", or_none(&p.merge_operator)),
        ("property collectors names", or_none(&p.property_collectors)),
        ("SST file compression algo", or_none(&p.compression)),
        (
            "SST file compression options",
            or_none(&p.compression_options),
        ),
        ("creation time", p.creation_time.to_string()),
        ("time stamp of earliest key", p.oldest_key_time.to_string()),
        ("time stamp of newest key", p.newest_key_time.to_string()),
        ("file creation time", p.file_creation_time.to_string()),
        (
            "slow compression estimated data size",
            p.slow_compression_estimate.to_string(),
        ),
        (
            "fast compression estimated data size",
            p.fast_compression_estimate.to_string(),
        ),
        ("DB identity", p.db_id.to_string()),
        ("DB session identity", p.db_session_id.to_string()),
        ("DB host id", p.db_host_id.to_string()),
        ("original file number", p.original_file_number.to_string()),
    ]
}

/// The map form of aggregated properties.
pub(crate) fn table_properties_map(p: &Properties) -> Map {
    let rows = [
        ("data_size", p.data_size),
        ("index_size", p.index_size),
        ("index_partitions", p.index_partitions),
        ("top_level_index_size", p.top_level_index_size),
        ("filter_size", p.filter_size),
        ("raw_key_size", p.raw_key_size),
        ("raw_value_size", p.raw_value_size),
        ("num_data_blocks", p.num_data_blocks),
        ("num_entries", p.num_entries),
        ("num_deletions", p.num_deletions),
        ("num_merge_operands", p.num_merge_operands),
        ("num_range_deletions", p.num_range_deletions),
        ("num_filter_entries", p.num_filter_entries),
        (
            "slow_compression_estimated_data_size",
            p.slow_compression_estimate,
        ),
        (
            "fast_compression_estimated_data_size",
            p.fast_compression_estimate,
        ),
    ];
    rows.map(|(name, value)| (name.to_owned(), value.to_string()))
        .into()
}
