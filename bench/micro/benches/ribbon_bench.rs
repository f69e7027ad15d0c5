//! The cases of RocksDB's `ribbon_bench`: building and querying Bloom and Ribbon filters.
//!
//! ```text
//! cargo bench -p cairn-microbench --bench ribbon_bench -- FilterBuild
//! cargo bench -p cairn-microbench --bench ribbon_bench -- 'FilterQuery.*/filter_impl:3/bits_per_key:10/.*:1048576'
//! ```

mod support;

use std::hint::black_box;
use std::time::Duration;

use cairn_format::filter::{FilterBuilder, FilterKey, FilterKind, FilterPolicy};

use support::{Case, Sampling, name, run, timed};

/// Filters by RocksDB's numbers: the legacy Bloom filter, the cache-local Bloom filter, and the Ribbon filter.
const IMPLEMENTATIONS: [u64; 3] = [0, 2, 3];

/// The number of the filter in whose keys all queries are found, and of another one.
const FILTER: u32 = 0x2f9b_6d11;

/// Parameters of a case.
#[derive(Clone, Copy)]
struct Parameters {
    implementation: u64,
    bits_per_key: u64,
    key_len: usize,
    entries: u32,
}

impl Parameters {
    /// Returns all combinations.
    fn all() -> Vec<Parameters> {
        let mut all = Vec::new();
        for implementation in IMPLEMENTATIONS {
            for bits_per_key in [10, 20] {
                for key_len in [10, 100] {
                    for entries in [1 << 10, 1 << 20] {
                        all.push(Parameters {
                            implementation,
                            bits_per_key,
                            key_len,
                            entries,
                        });
                    }
                }
            }
        }
        all
    }

    fn name(&self, benchmark: &str) -> String {
        name(
            benchmark,
            &[
                ("filter_impl", self.implementation),
                ("bits_per_key", self.bits_per_key),
                ("key_len_avg", self.key_len as u64),
                ("entry_num", u64::from(self.entries)),
            ],
        )
    }

    fn builder(&self) -> FilterBuilder {
        let bits = self.bits_per_key as f64;
        let bloom = FilterPolicy::Bloom { bits_per_key: bits };
        let ribbon = FilterPolicy::Ribbon {
            bloom_equivalent_bits_per_key: bits,
            bloom_before_level: -1,
        };
        // Tables of format versions before 5 have legacy filters.
        let (policy, format_version) = match self.implementation {
            0 => (bloom, 4),
            2 => (bloom, 5),
            _ => (ribbon, 5),
        };
        let builder = policy.builder(format_version, FilterPolicy::FLUSH);
        builder.expect("the policy builds filters")
    }

    /// Builds the filter of all keys.
    fn filter(&self) -> Vec<u8> {
        let (mut builder, mut keys) = (self.builder(), Keys::new(self.key_len));
        for number in 0..self.entries {
            builder.add_key(keys.get(FILTER, number));
        }
        builder.finish()
    }
}

/// Keys of varying lengths and alignments. Up to four bytes longer than the average in the name of the case, as in
/// RocksDB.
struct Keys {
    len: usize,
    buffer: Vec<u8>,
}

impl Keys {
    fn new(average: usize) -> Keys {
        Keys {
            len: average,
            buffer: vec![0; average + 16],
        }
    }

    /// Returns key `number` of the filter `filter`.
    #[inline]
    fn get(&mut self, filter: u32, number: u32) -> &[u8] {
        let start = number as usize % 4;
        // A number from 0 to 4 that looks random.
        let longer = (u64::from((number >> 5).wrapping_mul(1_234_567_891)) * 5) >> 32;
        let key = &mut self.buffer[start..];
        key[..4].copy_from_slice(&number.to_le_bytes());
        key[4..8].copy_from_slice(&filter.wrapping_add(number).to_le_bytes());
        // The bytes of a key at another alignment.
        key[8..12].fill(0);
        &key[..self.len + longer as usize]
    }
}

struct Build {
    parameters: Parameters,
    keys: Keys,
    size: usize,
}

impl Case for Build {
    fn run(&mut self, operations: u64) -> Duration {
        timed(operations, || {
            let mut builder = self.parameters.builder();
            for number in 0..self.parameters.entries {
                builder.add_key(self.keys.get(FILTER, number));
            }
            self.size = black_box(builder.finish()).len();
        })
    }

    fn counters(&mut self) -> Vec<(&'static str, f64)> {
        vec![("size", self.size as f64)]
    }
}

struct Query {
    bytes: Vec<u8>,
    kind: FilterKind,
    keys: Keys,
    /// The filter that the keys belong to.
    filter: u32,
    /// The number of keys after which they repeat.
    entries: u32,
    next: u32,
    queries: u64,
    found: u64,
}

impl Query {
    fn new(parameters: Parameters, filter: u32, entries: u32) -> Query {
        let bytes = parameters.filter();
        Query {
            kind: FilterKind::parse(&bytes),
            bytes,
            keys: Keys::new(parameters.key_len),
            filter,
            entries,
            next: 0,
            queries: 0,
            found: 0,
        }
    }
}

impl Case for Query {
    fn run(&mut self, operations: u64) -> Duration {
        self.queries += operations;
        timed(operations, || {
            self.next = self.next.wrapping_add(1) % self.entries;
            let key = FilterKey::new(self.keys.get(self.filter, self.next));
            let found = black_box(self.kind.may_match(&self.bytes, &key));
            self.found += u64::from(found);
        })
    }

    fn counters(&mut self) -> Vec<(&'static str, f64)> {
        let share = 100.0 * self.found as f64 / self.queries as f64;
        match self.filter == FILTER {
            true => {
                assert_eq!(self.found, self.queries, "no key of a filter is missing");
                Vec::new()
            }
            false => vec![("FP %", share)],
        }
    }
}

fn main() {
    for parameters in Parameters::all() {
        run(&parameters.name("FilterBuild"), Sampling::Timed, || Build {
            parameters,
            keys: Keys::new(parameters.key_len),
            size: 0,
        });
    }
    for parameters in Parameters::all() {
        let name = parameters.name("FilterQueryPositive");
        run(&name, Sampling::Timed, || {
            Query::new(parameters, FILTER, parameters.entries)
        });
    }
    for parameters in Parameters::all() {
        let name = parameters.name("FilterQueryNegative");
        run(&name, Sampling::Timed, || {
            Query::new(parameters, FILTER + 1, u32::MAX)
        });
    }
}
