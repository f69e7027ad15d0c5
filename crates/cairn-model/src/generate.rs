//! Scripts from a seed. Each seed switches a random part of the kinds and options on, so that
//! rare pairs meet; keys are few and buffers tiny, so that short scripts reach deep trees.

use std::collections::BTreeSet;

use cairn_sim::Rng;

use crate::engine::OptionSet;
use crate::model::{MergeKind, Model};
use crate::ops::{Change, Direction, Op, Scan, Script, Value, Write};

/// Kinds of operations that a seed may switch off.
const KINDS: [&str; 14] = [
    "delete",
    "singledelete",
    "merge",
    "deleterange",
    "batch",
    "sync",
    "get",
    "scan",
    "snapshot",
    "flush",
    "compact",
    "syncwal",
    "family",
    "reopen",
];

/// Values of options, one of which a seed may choose for each name.
type Values = (&'static str, &'static [&'static str]);
const DB_OPTIONS: [Values; 11] = [
    ("max_total_wal_size", &["0", "16384", "100000"]),
    ("wal_bytes_per_sync", &["0", "4096"]),
    ("bytes_per_sync", &["0", "4096"]),
    ("wal_compression", &["kNoCompression", "kZSTD"]),
    ("avoid_flush_during_recovery", &["false", "true"]),
    ("avoid_flush_during_shutdown", &["false", "true"]),
    ("track_and_verify_wals", &["false", "true"]),
    ("track_and_verify_wals_in_manifest", &["false", "true"]),
    ("max_manifest_file_size", &["1024", "1073741824"]),
    ("max_subcompactions", &["1", "3"]),
    ("use_fsync", &["false", "true"]),
];
const FAMILY_OPTIONS: [Values; 15] = [
    // Nothing below 64 KiB takes effect.
    ("write_buffer_size", &["65536"]),
    ("max_write_buffer_number", &["2", "4"]),
    ("min_write_buffer_number_to_merge", &["1", "2", "3"]),
    ("target_file_size_base", &["2048", "8192", "65536"]),
    ("max_bytes_for_level_base", &["8192", "32768", "65536"]),
    ("max_bytes_for_level_multiplier", &["2", "10"]),
    ("level0_file_num_compaction_trigger", &["1", "2", "4"]),
    ("level_compaction_dynamic_level_bytes", &["true", "false"]),
    ("disable_auto_compactions", &["false", "false", "true"]),
    ("num_levels", &["2", "4", "7"]),
    ("max_compaction_bytes", &["0", "16384"]),
    ("max_sequential_skip_in_iterations", &["8", "0", "2"]),
    (
        "compaction_pri",
        &[
            "kMinOverlappingRatio",
            "kByCompensatedSize",
            "kOldestLargestSeqFirst",
            "kOldestSmallestSeqFirst",
            "kRoundRobin",
        ],
    ),
    (
        "compression",
        &[
            "kNoCompression",
            "kLZ4Compression",
            "kSnappyCompression",
            "kZSTD",
            "kZlibCompression",
        ],
    ),
    ("prefix_extractor", &["nullptr", "fixed:3", "capped:4"]),
];
const TABLE_OPTIONS: [Values; 17] = [
    ("block_size", &["256", "1024", "4096"]),
    ("block_restart_interval", &["1", "4", "16"]),
    ("index_block_restart_interval", &["1", "4"]),
    ("metadata_block_size", &["128", "4096"]),
    ("format_version", &["2", "3", "4", "5", "6", "7"]),
    (
        "checksum",
        &["kCRC32c", "kxxHash", "kxxHash64", "kXXH3", "kNoChecksum"],
    ),
    (
        "filter_policy",
        &["nullptr", "bloomfilter:10:false", "ribbonfilter:10:1"],
    ),
    ("whole_key_filtering", &["true", "false"]),
    ("partition_filters", &["true", "false"]),
    (
        "index_type",
        &[
            "kBinarySearch",
            "kTwoLevelIndexSearch",
            "kBinarySearchWithFirstKey",
        ],
    ),
    (
        "index_shortening",
        &[
            "kNoShortening",
            "kShortenSeparators",
            "kShortenSeparatorsAndSuccessor",
        ],
    ),
    (
        "data_block_index_type",
        &["kDataBlockBinarySearch", "kDataBlockBinaryAndHash"],
    ),
    ("use_delta_encoding", &["true", "false"]),
    ("separate_key_value_in_data_block", &["false", "true"]),
    ("no_block_cache", &["false", "true"]),
    ("enable_index_compression", &["true", "false"]),
    ("pin_top_level_index_and_filter", &["true", "false"]),
];

/// The script of `seed` with `count` operations.
#[must_use]
pub fn script(seed: u64, count: usize) -> Script {
    let mut generator = Generator::new(seed);
    let options = generator.options.clone();
    let ops = (0..count).map(|_| generator.next()).collect();
    Script { options, ops }
}

struct Generator {
    rng: Rng,
    on: BTreeSet<&'static str>,
    model: Model,
    options: OptionSet,
    keys: usize,
    value_len: usize,
    /// The families that scripts may create.
    names: Vec<String>,
    snapshots: BTreeSet<u64>,
    next_snapshot: u64,
    next_value: u64,
    /// Whether families came or went since the last opening: a snapshot taken before does not say
    /// what it would see of them.
    changed_families: bool,
}

impl Generator {
    fn new(seed: u64) -> Generator {
        let mut rng = Rng::new(seed).fork(0x6e6e);
        let on: BTreeSet<&str> = KINDS.into_iter().filter(|_| rng.chance(2, 3)).collect();
        let merges = [
            MergeKind::Add,
            MergeKind::Append,
            MergeKind::Put,
            MergeKind::Max,
        ];
        let merge = match on.contains("merge") {
            true => *rng.pick(&merges),
            false => MergeKind::None,
        };
        let mut options = option_set(&mut rng, merge);
        options.unlogged = rng.chance(1, 8);
        keep_unlogged(&mut options);
        let families = rng.below(3);
        Generator {
            keys: *rng.pick(&[8, 30, 200, 1000]),
            value_len: *rng.pick(&[8, 40, 400, 4000]),
            names: (0..families).map(|number| format!("f{number}")).collect(),
            on,
            model: Model::new(merge),
            options,
            snapshots: BTreeSet::new(),
            next_snapshot: 1,
            next_value: 1,
            changed_families: false,
            rng,
        }
    }

    fn key(&mut self) -> Vec<u8> {
        format!("k{:04}", self.rng.below(self.keys)).into_bytes()
    }

    fn bound(&mut self) -> Option<Vec<u8>> {
        self.rng.chance(1, 3).then(|| self.key())
    }

    fn family(&mut self) -> String {
        let families = self.model.families();
        self.rng.pick(&families).clone()
    }

    fn value(&mut self) -> Value {
        self.next_value += 1;
        match self.options.merge {
            MergeKind::Add => Value::Number(self.rng.next_u64() >> self.rng.below(64)),
            _ => Value::Text {
                len: 1 + self.rng.below(self.value_len),
                seed: self.next_value,
            },
        }
    }

    fn write(&mut self, taken: &mut BTreeSet<(String, Vec<u8>)>) -> Write {
        let (family, mut key) = (self.family(), self.key());
        let kind = match self.rng.below(12) {
            0 | 1 => "delete",
            2 => "singledelete",
            3 | 4 => "merge",
            5 => "deleterange",
            _ => "put",
        };
        let change = match kind {
            "delete" if self.on.contains(kind) => Change::Delete,
            // Nothing earlier in the batch may have touched the key, so it stands first.
            "singledelete" if self.on.contains(kind) && taken.is_empty() => {
                match self.put_once(&family) {
                    Some(once) => {
                        key = once;
                        Change::SingleDelete
                    }
                    None => Change::Put(self.value()),
                }
            }
            "merge" if self.on.contains(kind) => Change::Merge(self.value()),
            "deleterange" if self.on.contains(kind) => {
                let mut end = self.key();
                if end <= key {
                    end = [key.as_slice(), b"~"].concat();
                }
                Change::DeleteRange(end)
            }
            _ => Change::Put(self.value()),
        };
        taken.insert((family.clone(), key.clone()));
        Write {
            family,
            key,
            change,
        }
    }

    /// A key that a single delete may remove, if there is one.
    fn put_once(&mut self, family: &str) -> Option<Vec<u8>> {
        let mut keys = self.model.keys(family);
        keys.retain(|key| self.model.single_delete_is_legal(family, key));
        (!keys.is_empty()).then(|| self.rng.pick(&keys).clone())
    }

    fn batch(&mut self) -> Op {
        let several = self.on.contains("batch") && self.rng.chance(1, 4);
        let count = if several { 2 + self.rng.below(6) } else { 1 };
        let mut taken = BTreeSet::new();
        let writes: Vec<Write> = (0..count).map(|_| self.write(&mut taken)).collect();
        self.model.write(&writes);
        Op::Write {
            writes,
            sync: self.on.contains("sync") && self.rng.chance(1, 5),
        }
    }

    fn readable_snapshot(&mut self) -> Option<u64> {
        let all: Vec<u64> = self.snapshots.iter().copied().collect();
        (!all.is_empty() && !self.changed_families && self.rng.chance(1, 2))
            .then(|| *self.rng.pick(&all))
    }

    fn next(&mut self) -> Op {
        let kind = match self.rng.below(100) {
            0..60 => "write",
            60..72 => "get",
            72..82 => "scan",
            82..86 => "snapshot",
            86..89 => "flush",
            89..91 => "compact",
            91..93 => "syncwal",
            93..95 => "family",
            95 => "reopen",
            96 => "check",
            _ => "work",
        };
        if kind != "write" && kind != "check" && kind != "work" && !self.on.contains(kind) {
            return self.batch();
        }
        match kind {
            "get" => Op::Get {
                family: self.family(),
                key: self.key(),
                snapshot: self.readable_snapshot(),
            },
            "scan" => Op::Scan {
                family: self.family(),
                scan: Scan {
                    direction: match self.rng.chance(1, 2) {
                        true => Direction::Forward,
                        false => Direction::Backward,
                    },
                    from: self.bound(),
                    lower: self.bound(),
                    upper: self.bound(),
                    limit: *self.rng.pick(&[1, 5, usize::MAX]),
                },
                snapshot: self.readable_snapshot(),
            },
            "snapshot" => self.snapshot(),
            "flush" => Op::Flush(self.family()),
            "compact" => Op::Compact {
                family: self.family(),
                start: self.bound(),
                end: self.bound(),
            },
            "syncwal" => Op::SyncWal,
            "family" => self.change_family(),
            "reopen" => {
                self.snapshots.clear();
                self.changed_families = false;
                let merge = self.options.merge;
                let other = self.rng.chance(1, 2);
                Op::Reopen(other.then(|| {
                    let mut options = option_set(&mut self.rng, merge);
                    // Fixed once a family exists.
                    keep_levels(&mut options, &self.options);
                    options.unlogged = self.options.unlogged;
                    keep_unlogged(&mut options);
                    options
                }))
            }
            "check" => Op::Check,
            "work" => Op::Work(1 + self.rng.below(3)),
            _ => self.batch(),
        }
    }

    fn snapshot(&mut self) -> Op {
        let oldest = self.snapshots.first().copied();
        match oldest {
            Some(oldest) if self.snapshots.len() >= 3 || self.rng.chance(1, 3) => {
                self.snapshots.remove(&oldest);
                Op::Release(oldest)
            }
            _ => {
                let number = self.next_snapshot;
                self.next_snapshot += 1;
                self.snapshots.insert(number);
                Op::Snapshot(number)
            }
        }
    }

    fn change_family(&mut self) -> Op {
        if self.names.is_empty() {
            return self.batch();
        }
        self.changed_families = true;
        let name = self.rng.pick(&self.names).clone();
        if self.model.has_family(&name) {
            self.model.drop_family(&name);
            Op::DropFamily(name)
        } else {
            self.model.create_family(&name);
            Op::CreateFamily(name)
        }
    }
}

fn chosen(rng: &mut Rng, options: &[Values]) -> String {
    let mut text = String::new();
    for (name, values) in options {
        if rng.chance(1, 2) {
            text += &format!("{name}={};", rng.pick(values));
        }
    }
    text
}

/// Options for a small tree.
fn option_set(rng: &mut Rng, merge: MergeKind) -> OptionSet {
    OptionSet {
        unlogged: false,
        db: chosen(rng, &DB_OPTIONS),
        family: chosen(rng, &FAMILY_OPTIONS),
        table: chosen(rng, &TABLE_OPTIONS),
        merge,
    }
}

/// Gives `options` the number of levels of `first`.
fn keep_levels(options: &mut OptionSet, first: &OptionSet) {
    let levels = |text: &str| -> Vec<String> {
        let all = text.split_inclusive(';').map(str::to_owned);
        all.filter(|option| option.starts_with("num_levels"))
            .collect()
    };
    let others: String = options
        .family
        .split_inclusive(';')
        .filter(|option| !option.starts_with("num_levels"))
        .collect();
    options.family = others + &levels(&first.family).concat();
}

/// Lets a closing keep what was written without a log: the model forgets nothing.
fn keep_unlogged(options: &mut OptionSet) {
    if options.unlogged {
        options.db = options.db.replace("avoid_flush_during_shutdown=true;", "");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_reads_back_as_it_was_written() {
        for seed in 0..60 {
            let script = script(seed, 120);
            let again: Script = script.to_string().parse().unwrap();
            assert_eq!(again, script, "seed {seed}");
        }
    }

    #[test]
    fn every_kind_of_operation_occurs() {
        let mut kinds = BTreeSet::new();
        for seed in 0..40 {
            for op in script(seed, 200).ops {
                let line = op.to_string();
                kinds.extend(line.split(" ; ").filter_map(|part| {
                    let word = part.trim_start_matches("batch ").split_whitespace().next();
                    word.map(str::to_owned)
                }));
            }
        }
        let all = "check compact createfamily delete deleterange dropfamily flush get merge put \
                   release reopen scan singledelete snapshot sync syncwal work";
        let expected: BTreeSet<String> = all.split_whitespace().map(str::to_owned).collect();
        assert_eq!(kinds, expected);
    }

    #[test]
    fn seeds_determine_scripts_and_differ_from_each_other() {
        assert_eq!(script(3, 50), script(3, 50));
        assert_ne!(script(3, 50), script(4, 50));
    }
}
