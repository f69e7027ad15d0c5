//! Fuzz targets as plain functions, and a replayer that needs no fuzzer.
//!
//! A target is a function `pub fn run(data: &[u8])` in [`targets`] and one row of [`TARGETS`]. It
//! hands its bytes to a decoder and panics when a promise is broken: a decoder that panics, an
//! accepted value that is not the same after encoding and decoding it again. Everybody runs the
//! same function: `fuzz/` gives it to libFuzzer on the nightly toolchain, and the binary of this
//! crate replays the corpus and a fixed number of mutated inputs on the stable one.
//!
//! Linking this crate installs a counting allocator ([`meter`]), so that [`check`] also notices a
//! decoder that allocates on the word of its input.

pub mod fix_checksums;
pub mod memory_limit;
pub mod mutate;
pub mod targets;

use memory_limit::Bound;

/// One target: its name, its function, what it may allocate, and how its checksums are mended.
#[derive(Clone, Copy)]
pub struct Target {
    /// The name of the target, of its file and of its folder in `fuzz/corpus/`.
    pub name: &'static str,
    /// The body.
    pub run: fn(&[u8]),
    /// How much memory one input may take.
    pub bound: Bound,
    /// Makes the checksums of a mutated input right again, so that mutations get past them.
    pub repair: Option<fn(&mut [u8])>,
}

impl Target {
    /// A target with the bound of a decoder and nothing to mend.
    #[must_use]
    pub const fn new(name: &'static str, run: fn(&[u8])) -> Self {
        Target {
            name,
            run,
            bound: Bound::DECODER,
            repair: None,
        }
    }

    /// The same target with another memory bound.
    #[must_use]
    pub const fn with_bound(self, bound: Bound) -> Self {
        Target { bound, ..self }
    }

    /// The same target with a function that mends checksums.
    #[must_use]
    pub const fn with_repair(self, repair: fn(&mut [u8])) -> Self {
        Target {
            repair: Some(repair),
            ..self
        }
    }
}

/// Every target. `fuzz/fuzz_targets/` has a file for each row, and `fuzz/corpus/` a folder.
pub const TARGETS: &[Target] = &[
    Target::new("varint_key", targets::varint_key::run),
    Target::new("names", targets::names::run),
    Target::new("decompress", targets::decompress::run).with_bound(targets::decompress::BOUND),
    Target::new("footer_meta_props", targets::footer_meta_props::run),
    Target::new("manifest", targets::manifest::run)
        .with_bound(targets::wal::BOUND)
        .with_repair(targets::manifest::repair),
    Target::new("options_text", targets::options_text::run),
    Target::new("write_batch", targets::write_batch::run),
    Target::new("wal", targets::wal::run)
        .with_bound(targets::wal::BOUND)
        .with_repair(fix_checksums::log_behind_a_byte),
    Target::new("block", targets::block::run),
    Target::new("filter", targets::filter::run),
    Target::new("range_del", targets::range_del::run).with_bound(targets::range_del::BOUND),
    Target::new("blob_file", targets::blob_file::run)
        .with_repair(fix_checksums::blob_behind_a_byte),
    Target::new("wide_columns", targets::wide_columns::run),
    Target::new("dated_values", targets::dated_values::run),
    Target::new("table_whole", targets::table_whole::run)
        .with_bound(targets::table_whole::BOUND)
        .with_repair(fix_checksums::table),
    Target::new("db_dir", targets::db_dir::run)
        .with_bound(targets::db_dir::BOUND)
        .with_repair(targets::db_dir::repair),
];

/// The target called `name`.
#[must_use]
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

/// Runs `target` on `data` and panics when it took more memory than its bound.
///
/// # Panics
///
/// When the target does, and when its peak of live memory exceeds the bound.
pub fn check(target: &Target, data: &[u8]) {
    let peak = memory_limit::peak_of(|| (target.run)(data));
    let limit = target.bound.of(data.len());
    assert!(
        peak <= limit,
        "{} took {peak} bytes of memory for an input of {} bytes; its bound is {limit}",
        target.name,
        data.len()
    );
}

/// [`check`] for the target called `name`.
///
/// # Panics
///
/// Also when there is no such target.
pub fn check_named(name: &str, data: &[u8]) {
    check(
        target(name).expect("the name is that of a row of TARGETS"),
        data,
    );
}
