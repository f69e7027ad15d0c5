//! The cases of RocksDB's `filter_bench`: building filters, and queries of many filters in the patterns of its test
//! modes.
//!
//! ```text
//! cargo bench -p cairn-microbench --bench filter_bench -- 'Inside/mode:random_filter'
//! ```
//!
//! Parameters have the names and default values of RocksDB's flags: 10,000 keys per filter, varying by up to 40 %
//! (`vary_key_count_ratio`), keys of 24 bytes, 10 bits per key. `impl` 0 is the legacy Bloom filter, 1 that of format
//! version 5, 2 the Ribbon filter. The filters have 10 MB instead of 200. The time of a query includes that of
//! making and hashing the key, which `Dry` measures alone.
//!
//! Modes of queries: `single_filter` is one filter; `random_filter` a random one; `skewed_pareto` prefers a fifth of
//! the filters for four fifths of the queries.

#[path = "support/mod.rs"]
mod support;

use std::hint::black_box;
use std::time::Duration;

use cairn_bench::key_value_gen::{Rng, mix};
use cairn_format::filter::{FilterBuilder, FilterKey, FilterKind, FilterPolicy};
use support::{Case, Sampling, name, run, timed};

const KEYS_PER_FILTER: u64 = 10_000;
const KEY_SIZE: usize = 24;
const BITS_PER_KEY: u64 = 10;
/// The number of filters with [`BITS_PER_KEY`] that take 10 MB.
const FILTERS: u64 = 10_000_000 * 8 / (KEYS_PER_FILTER * BITS_PER_KEY);
const IMPLEMENTATIONS: std::ops::Range<u64> = 0..3;
const MODES: [&str; 3] = ["single_filter", "random_filter", "skewed_pareto"];

fn builder(implementation: u64) -> FilterBuilder {
    let bits_per_key = BITS_PER_KEY as f64;
    let bloom = FilterPolicy::Bloom { bits_per_key };
    let ribbon = FilterPolicy::Ribbon {
        bloom_equivalent_bits_per_key: bits_per_key,
        bloom_before_level: -1,
    };
    let (policy, format_version) = match implementation {
        // Tables of format versions before 5 have legacy filters.
        0 => (bloom, 4),
        1 => (bloom, 5),
        _ => (ribbon, 5),
    };
    let builder = policy.builder(format_version, FilterPolicy::FLUSH);
    builder.expect("the policy builds filters")
}

/// Key `number` of the filter `filter`.
fn key(filter: u64, number: u64) -> [u8; KEY_SIZE] {
    let mut key = [0; KEY_SIZE];
    let mixed = mix(filter << 32 | number);
    key[..8].copy_from_slice(&number.to_le_bytes());
    key[8..16].copy_from_slice(&filter.to_le_bytes());
    key[16..].copy_from_slice(&mixed.to_le_bytes());
    key
}

/// The number of keys of a filter: that of the parameters, and up to 40 % more or less.
fn keys_of(filter: u64) -> u64 {
    let most = KEYS_PER_FILTER * 4 / 5;
    KEYS_PER_FILTER * 3 / 5 + mix(filter) % most
}

fn built(implementation: u64, filter: u64) -> Vec<u8> {
    let mut builder = builder(implementation);
    for number in 0..keys_of(filter) {
        builder.add_key(&key(filter, number));
    }
    builder.finish()
}

struct Build {
    implementation: u64,
    next: u64,
    keys: u64,
    bytes: u64,
}

impl Case for Build {
    fn run(&mut self, operations: u64) -> Duration {
        timed(operations, || {
            self.next = (self.next + 1) % FILTERS;
            self.bytes += black_box(built(self.implementation, self.next)).len() as u64;
            self.keys += keys_of(self.next);
        })
    }

    fn counters(&mut self) -> Vec<(&'static str, f64)> {
        vec![("bits_per_key", self.bytes as f64 * 8.0 / self.keys as f64)]
    }
}

struct Query {
    filters: Vec<(Vec<u8>, FilterKind)>,
    mode: &'static str,
    /// True if the keys were added to their filter.
    inside: bool,
    random: Rng,
    queries: u64,
    found: u64,
}

impl Query {
    fn new(implementation: u64, mode: &'static str, inside: bool) -> Query {
        let filter = |number| {
            let bytes = built(implementation, number);
            let kind = FilterKind::parse(&bytes);
            (bytes, kind)
        };
        Query {
            filters: (0..FILTERS).map(filter).collect(),
            mode,
            inside,
            random: Rng::new(301),
            queries: 0,
            found: 0,
        }
    }
}

fn chosen(random: &mut Rng, mode: &str) -> u64 {
    match mode {
        "single_filter" => 0,
        "random_filter" => random.below(FILTERS),
        _ => match random.below(5) {
            0 => random.below(FILTERS),
            _ => random.below(FILTERS / 5),
        },
    }
}

impl Case for Query {
    fn run(&mut self, operations: u64) -> Duration {
        self.queries += operations;
        timed(operations, || {
            let filter = chosen(&mut self.random, self.mode);
            let mut number = self.random.below(keys_of(filter));
            if !self.inside {
                number += 1 << 31;
            }
            let key = key(filter, number);
            let (bytes, kind) = &self.filters[filter as usize];
            let found = black_box(kind.may_match(bytes, &FilterKey::new(&key)));
            self.found += u64::from(found);
        })
    }

    fn counters(&mut self) -> Vec<(&'static str, f64)> {
        let found = self.found as f64 / self.queries.max(1) as f64;
        vec![(
            if self.inside { "found_pct" } else { "fp_pct" },
            found * 100.0,
        )]
    }
}

/// The keys of queries and their hashes, without filters.
struct Dry(Rng);

impl Case for Dry {
    fn run(&mut self, operations: u64) -> Duration {
        timed(operations, || {
            let filter = chosen(&mut self.0, "random_filter");
            let key = key(filter, self.0.below(keys_of(filter)));
            black_box(FilterKey::new(&key));
        })
    }
}

fn main() {
    run("filter_bench/Dry", Sampling::Timed, || Dry(Rng::new(301)));
    for implementation in IMPLEMENTATIONS {
        let parameters = [
            ("impl", implementation),
            ("average_keys_per_filter", KEYS_PER_FILTER),
            ("key_size", KEY_SIZE as u64),
            ("bits_per_key", BITS_PER_KEY),
        ];
        let build = || Build {
            implementation,
            next: 0,
            keys: 0,
            bytes: 0,
        };
        let case = |benchmark: &str| name(&format!("filter_bench/{benchmark}"), &parameters);
        run(&case("Build"), Sampling::Timed, build);
        for mode in MODES {
            for (keys, inside) in [("Inside", true), ("Outside", false)] {
                let query = || Query::new(implementation, mode, inside);
                run(
                    &case(&format!("{keys}/mode:{mode}")),
                    Sampling::Timed,
                    query,
                );
            }
        }
    }
}
