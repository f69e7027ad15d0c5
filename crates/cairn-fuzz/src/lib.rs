//! Fuzz targets as plain functions, and a replayer that works without a fuzzer.
//!
//! A target is a function `pub fn run(data: &[u8])` in [`targets`] and a row of [`TARGETS`]. It
//! passes its bytes to a decoder and panics if a property is violated, for example if an accepted
//! value changes when it is encoded and decoded again. `fuzz/` runs the functions with libFuzzer on
//! the nightly toolchain; the binary of this crate replays the corpus and a fixed number of mutated
//! inputs on the stable one.
//!
//! Linking this crate installs a counting allocator ([`memory_limit`]), which lets [`check`] detect
//! allocations of untrusted sizes.

pub mod fix_checksums;
pub mod memory_limit;
#[cfg(test)]
mod memory_of_files;
#[cfg(test)]
mod memory_of_gets;
pub mod mutate;
pub mod targets;

use memory_limit::Bound;

/// A fuzz target.
#[derive(Clone, Copy)]
pub struct Target {
    /// The name of the target, and of its file and its directory in `fuzz/corpus/`.
    pub name: &'static str,
    /// The body.
    pub run: fn(&[u8]),
    /// Memory bound of one input.
    pub bound: Bound,
    /// Recomputes the checksums of a mutated input.
    pub repair: Option<fn(&mut [u8])>,
}

impl Target {
    /// Creates a target with the memory bound of a decoder and without checksums.
    #[must_use]
    pub const fn new(name: &'static str, run: fn(&[u8])) -> Self {
        Target {
            name,
            run,
            bound: Bound::DECODER,
            repair: None,
        }
    }

    /// Sets the memory bound.
    #[must_use]
    pub const fn with_bound(self, bound: Bound) -> Self {
        Target { bound, ..self }
    }

    /// Sets the function that recomputes checksums.
    #[must_use]
    pub const fn with_repair(self, repair: fn(&mut [u8])) -> Self {
        Target {
            repair: Some(repair),
            ..self
        }
    }
}

/// All targets. Each row has a file in `fuzz/fuzz_targets/` and a directory in `fuzz/corpus/`.
pub const TARGETS: &[Target] = &[
    Target::new("varint_key", targets::varint_key::run),
    Target::new("names", targets::names::run),
    Target::new("backup_meta", targets::backup_meta::run),
    Target::new("compaction_service", targets::compaction_service::run),
    Target::new("decompress", targets::decompress::run).with_bound(targets::decompress::BOUND),
    Target::new("footer_meta_props", targets::footer_meta_props::run),
    Target::new("manifest", targets::manifest::run)
        .with_bound(targets::wal::BOUND)
        .with_repair(targets::manifest::repair),
    Target::new("options_text", targets::options_text::run),
    Target::new("prepared_file", targets::prepared_file::run)
        .with_bound(targets::prepared_file::BOUND)
        .with_repair(targets::prepared_file::repair),
    Target::new("write_batch", targets::write_batch::run),
    Target::new("wal", targets::wal::run)
        .with_bound(targets::wal::BOUND)
        .with_repair(fix_checksums::log_behind_a_byte),
    Target::new("block", targets::block::run),
    Target::new("filter", targets::filter::run),
    Target::new("flat_table", targets::flat_table::run).with_bound(targets::flat_table::BOUND),
    Target::new("range_del", targets::range_del::run).with_bound(targets::range_del::BOUND),
    Target::new("blob_file", targets::blob_file::run)
        .with_repair(fix_checksums::blob_behind_a_byte),
    Target::new("cache_segment", targets::cache_segment::run)
        .with_repair(targets::cache_segment::repair),
    Target::new("cache_dump", targets::cache_dump::run).with_repair(targets::cache_dump::repair),
    Target::new("trace", targets::trace::run),
    Target::new("wide_columns", targets::wide_columns::run),
    Target::new("dated_values", targets::dated_values::run),
    Target::new("table_whole", targets::table_whole::run)
        .with_bound(targets::table_whole::BOUND)
        .with_repair(fix_checksums::table),
    Target::new("db_dir", targets::db_dir::run)
        .with_bound(targets::db_dir::BOUND)
        .with_repair(targets::db_dir::repair),
];

/// Returns the target `name`.
#[must_use]
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

/// Runs `target` on `data`.
///
/// # Panics
///
/// If the target panics, or its peak memory exceeds the bound.
pub fn check(target: &Target, data: &[u8]) {
    let peak = memory_limit::peak_of(|| (target.run)(data));
    let limit = target.bound.of(data.len());
    assert!(
        peak <= limit,
        "{} took {peak} bytes of memory for an input of {} bytes; the limit is {limit}",
        target.name,
        data.len()
    );
}

/// [`check`] for the target `name`.
///
/// # Panics
///
/// Those of [`check`], and if there is no such target.
pub fn check_named(name: &str, data: &[u8]) {
    check(target(name).expect("the target exists"), data);
}
