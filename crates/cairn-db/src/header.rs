//! The head of the info log: who writes it, what lies in the directory, and every option.

use cairn_format::names::FileName;
use cairn_observe::logger::Level;
use cairn_options::{
    Compression, DataBlockIndexType, DbOptions, FamilyOptions, IndexShortening, IndexType, Options,
};
use cairn_wal::WalFile;

use crate::shared::Shared;

impl Shared {
    /// Writes the head of the log, given the `names` of the files. Every file of it begins with these
    /// lines.
    fn log_header(&self, names: &[String]) {
        if !self.info.wants(Level::Header) {
            return;
        }
        let mut head = Vec::new();
        head.push(format!(
            "RocksDB version: {} (Cairn {})",
            cairn_options::file::ROCKSDB_VERSION,
            env!("CARGO_PKG_VERSION")
        ));
        // The library takes its host's allocator; checksums choose their instructions as they run.
        head.push("Jemalloc supported: 0".to_owned());
        head.push(
            "Fast CRC32 supported: Supported on x86 and Arm64 where the processor has it"
                .to_owned(),
        );
        head.push("DB SUMMARY".to_owned());
        head.push(format!("Host name: {}", self.host_id));
        head.push(format!("DB Session ID: {}", self.session_id));
        head.push(format!("DB ID: {}", self.db_id));
        let (mut tables, mut logs) = (0, Vec::new());
        for name in names {
            match FileName::parse(name) {
                Some(FileName::Table(_)) => tables += 1,
                Some(FileName::Wal(_)) => logs.push(name.as_str()),
                Some(FileName::Current | FileName::Identity | FileName::Manifest(_)) => {
                    head.push(format!("file: {name}"));
                }
                _ => {}
            }
        }
        logs.sort();
        head.push(format!(
            "SST files in {} dir, Total Num: {tables}",
            self.dir.display()
        ));
        head.push(format!(
            "Write Ahead Log file in {}: {}",
            self.wal_dir.display(),
            logs.join(" ")
        ));
        let options = self.options();
        for row in DbOptions::rows() {
            head.push(option(row.name, &(row.get)(&options)));
        }
        for family in self.families.load().iter() {
            head.extend(options_of_family(family.name(), &family.options()));
        }
        self.info.header_lines(&head);
    }

    /// Writes the options of a family that was created.
    pub(crate) fn log_options_of_family(&self, name: &str, options: &FamilyOptions) {
        if self.info.wants(Level::Header) {
            self.info.header_lines(&options_of_family(name, options));
        }
    }

    /// Writes statistics to the log.
    pub(crate) fn dump_stats(&self) {
        if !self.info.wants(Level::Info) {
            return;
        }
        let mut text = String::from("------- DUMPING STATS -------\n");
        text += &self.db_stats();
        for family in self.families.load().iter() {
            text += &self.family_stats(family, &family.view(), true);
            text += &self.cache_stats(family).unwrap_or_default();
        }
        self.info.warn(text.trim_end());
        if let Some(statistics) = self.statistics() {
            self.info.info(format_args!("STATISTICS:\n {statistics}"));
        }
    }

    /// Writes the head of the log and which `logs` are about to be replayed; the number of the
    /// recovery's job.
    pub(crate) fn log_recovery_start(&self, names: &[String], logs: &[WalFile]) -> u64 {
        let job = self.new_job();
        let (found, dir) = (names.len(), self.dir.display());
        self.info
            .log(Level::Debug, format_args!("{found} files in {dir}"));
        self.log_header(names);
        let logs: Vec<u64> = logs.iter().map(|log| log.number.0).collect();
        if !logs.is_empty() && self.info.wants(Level::Info) {
            let mut event = self.event(job, "recovery_started");
            event.numbers("wal_files", &logs);
            self.log_event(&event);
        }
        job
    }
}

/// The options of a family, one a line.
fn options_of_family(name: &str, options: &FamilyOptions) -> Vec<String> {
    let title = format!("--------------- Options for column family [{name}]:");
    let own = FamilyOptions::rows().iter().filter(|row| row.written);
    let own = own.map(|row| option(row.name, &(row.get)(options)));
    let table = cairn_options::TableOptions::rows().iter();
    let table = table.map(|row| table_option(row.name, &(row.get)(&options.table)));
    let collectors = options.table_properties_collector_factories.all();
    let collectors = collectors.iter().map(|factory| factory.describe());
    let collectors = said(
        "Options",
        "table_properties_collectors",
        &collectors.collect::<Vec<_>>().join("; "),
    );
    let own = own.chain([collectors]);
    // One line with a break in it, as RocksDB's is, which programs read.
    let cache = options.table.block_cache.as_ref().map(|cache| {
        format!(
            "  block_cache_options:\n    capacity : {}",
            cache.capacity()
        )
    });
    std::iter::once(title)
        .chain(own)
        .chain(table)
        .chain(cache)
        .collect()
}

/// Switches that RocksDB prints as words.
const WORDS: [&str; 7] = [
    "cf_allow_ingest_behind",
    "enable_blob_direct_write",
    "enable_blob_files",
    "enable_blob_garbage_collection",
    "enforce_single_del_contracts",
    "memtable_batch_lookup_optimization",
    "persist_user_defined_timestamps",
];

/// A line of an option as RocksDB prints it, which programs read: most booleans are numbers, codecs have the
/// names that tables have for them.
fn option(name: &str, value: &str) -> String {
    let value = match (name, value) {
        (_, "false" | "true") if WORDS.contains(&name) => value,
        (_, "false") => "0",
        (_, "true") => "1",
        ("bottommost_compression", "kDisableCompressionOption") => "Disabled",
        ("compression" | "bottommost_compression" | "blob_compression_type", _) => {
            let codec = Compression::from_option_name(value);
            codec.map_or(value, |codec| codec.property_name())
        }
        _ => value,
    };
    said("Options", name, value)
}

/// A line of the table's options as RocksDB prints them, which programs read: booleans and choices are
/// numbers.
fn table_option(name: &str, value: &str) -> String {
    fn place<T>(all: &[(T, &str)], value: &str) -> Option<usize> {
        all.iter().position(|(_, word)| *word == value)
    }
    let number = match name {
        "index_type" => place(IndexType::ALL, value),
        "data_block_index_type" => place(DataBlockIndexType::ALL, value),
        "index_shortening" => place(IndexShortening::ALL, value),
        _ => match value {
            "false" => Some(0),
            "true" => Some(1),
            _ => None,
        },
    };
    match (number, name, value.parse::<f64>()) {
        (Some(number), ..) => format!("  {name}: {number}"),
        (_, "data_block_hash_table_util_ratio", Ok(ratio)) => format!("  {name}: {ratio:.6}"),
        _ => format!("  {name}: {value}"),
    }
}

fn said(group: &str, name: &str, value: &str) -> String {
    format!("{:>60}: {value}", format!("{group}.{name}"))
}
