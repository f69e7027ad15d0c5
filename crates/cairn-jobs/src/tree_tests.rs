//! Whole trees: random writes, flushes and compactions over files in memory, and what readers see.

use cairn_format::key::{self, InternalKey};
use cairn_memtable::{Memtable, MemtableOptions};
use cairn_options::{
    BottommostLevelCompaction, CompactRangeOptions, CompactionPri, Compression, DbOptions,
    FamilyOptions,
};
use cairn_platform::fs::FileMode;
use cairn_platform::sync::{Arc, AtomicBool, AtomicU64, Ordering};
use cairn_platform::{Io, World};
use cairn_table::{IterOptions, OpenParams, Table, TableIter};
use cairn_types::{FileNumber, KeyOrder, SequenceNumber};
use cairn_version::shape::Present;
use cairn_version::{FileMeta, Version};
use proptest::prelude::*;

use crate::context::JobContext;
use crate::model::{Join, State, Write, lawful, writes};
use crate::pick::{self, Busy, LeveledOptions, Manual, Pick, Step};
use crate::{CompactJob, FlushJob, compact, flush};

/// A tree and all that happened to it.
struct Tree {
    world: World,
    version: Version,
    options: LeveledOptions,
    family: Arc<FamilyOptions>,
    next_number: Arc<AtomicU64>,
    /// Every write since the beginning.
    history: State,
    last_seq: u64,
    snapshots: Vec<u64>,
}

#[derive(Clone, Debug)]
enum Op {
    Write(Vec<Write>),
    /// Picks and runs compactions; up to two at once, the first started to finish last or first.
    Compact {
        two: bool,
        swap: bool,
    },
    Manual {
        from: u8,
        to: u8,
        force: bool,
    },
    Snapshot,
    Release,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        6 => writes(40).prop_map(Op::Write),
        5 => (any::<bool>(), any::<bool>()).prop_map(|(two, swap)| Op::Compact { two, swap }),
        1 => (0..12_u8, 0..12_u8, any::<bool>())
            .prop_map(|(a, b, force)| Op::Manual { from: a.min(b), to: a.max(b), force }),
        2 => Just(Op::Snapshot),
        1 => Just(Op::Release),
    ];
    proptest::collection::vec(op, 1..25)
}

fn pris() -> impl Strategy<Value = CompactionPri> {
    prop_oneof![
        Just(CompactionPri::ByCompensatedSize),
        Just(CompactionPri::OldestLargestSeqFirst),
        Just(CompactionPri::OldestSmallestSeqFirst),
        Just(CompactionPri::MinOverlappingRatio),
        Just(CompactionPri::RoundRobin),
    ]
}

fn open(world: &World, file: &FileMeta) -> Arc<Table> {
    let path = format!("/db/{}.sst", file.number);
    let handle = world.fs.open(path.as_ref(), FileMode::default()).unwrap();
    let params = OpenParams {
        number: file.number,
        expected_unique_id: file.unique_id,
        largest_seq: Some(file.largest_seq),
        tail_size: Some(file.tail_size),
        ..OpenParams::default()
    };
    Table::open(handle, file.size, params, &Io::blocking()).unwrap()
}

/// The entries of a table and its range tombstones within the bounds of its file.
fn content(world: &World, file: &FileMeta) -> State {
    let table = open(world, file);
    let mut state = State::default();
    let mut iter = TableIter::new(table.clone(), IterOptions::default());
    let mut step = iter.seek_to_first();
    loop {
        iter.complete(step, &Io::blocking());
        if !iter.valid() {
            break;
        }
        state
            .points
            .push((iter.key().to_vec(), iter.value().to_vec()));
        step = iter.next();
    }
    iter.status().unwrap();
    if let Some(all) = table.range_tombstones() {
        let own = all.truncated(&KeyOrder::Bytewise, &file.smallest, &file.largest);
        assert!(
            own.iter().all(|fragment| !fragment.includes_end),
            "{file:?}"
        );
        let own = own
            .iter()
            .flat_map(|fragment| fragment.tombstones().collect::<Vec<_>>());
        state.tombstones.extend(own);
    }
    state
}

impl Tree {
    fn new(dynamic: bool, pri: CompactionPri, parts: u32, operator: bool) -> Tree {
        let family = FamilyOptions {
            level0_file_num_compaction_trigger: 2,
            max_bytes_for_level_base: 4000,
            max_bytes_for_level_multiplier: 3.0,
            target_file_size_base: 1500,
            level_compaction_dynamic_level_bytes: dynamic,
            compression: Compression::None,
            compaction_pri: pri,
            num_levels: 4,
            merge_operator: operator.then(|| Arc::new(Join { partial: true }) as _),
            ..FamilyOptions::default()
        };
        let mut family = family;
        family.table.block_size = 100;
        let db = DbOptions {
            max_subcompactions: parts,
            ..DbOptions::default()
        };
        let world = World::in_memory();
        world.fs.create_dir_all("/db".as_ref()).unwrap();
        Tree {
            world,
            version: Version::empty(KeyOrder::Bytewise, 4),
            options: LeveledOptions::new(&db, &family),
            family: Arc::new(family),
            next_number: Arc::new(AtomicU64::new(10)),
            history: State::default(),
            last_seq: 0,
            snapshots: Vec::new(),
        }
    }

    fn context(&self) -> Arc<JobContext> {
        let (world, number) = (self.world.clone(), self.next_number.clone());
        Arc::new(JobContext {
            world: self.world.clone(),
            io: Io::blocking(),
            open: Arc::new(move |file, _| Ok(open(&world, file))),
            new_number: Arc::new(move || FileNumber(number.fetch_add(1, Ordering::Relaxed))),
            dir: "/db".into(),
            family_id: 0,
            family_name: "default".to_owned(),
            order: KeyOrder::Bytewise,
            options: self.family.clone(),
            db_options: Arc::new(DbOptions::default()),
            db_id: "id".to_owned(),
            session_id: "ABCDEFGHIJKLMNOPQRST".to_owned(),
            host_id: String::new(),
            snapshots: self.snapshots.iter().copied().map(SequenceNumber).collect(),
            blobs: None,
            cancel: Arc::new(AtomicBool::new(false)),
        })
    }

    fn present(&self) -> Present {
        Present {
            now: 1_000_000,
            oldest_snapshot: SequenceNumber(*self.snapshots.first().unwrap_or(&self.last_seq)),
            full_history_ts_low: Vec::new(),
        }
    }

    fn write_and_flush(&mut self, writes: &[Write]) {
        let mut new = State::default();
        new.write(writes, self.last_seq + 1);
        let memtable = Arc::new(Memtable::new(
            KeyOrder::Bytewise,
            MemtableOptions::default(),
        ));
        for (key, value) in &new.points {
            let key = key::parse(key).unwrap();
            assert!(memtable.add(key.seq, key.kind, key.user_key, value));
        }
        for tombstone in &new.tombstones {
            let kind = cairn_types::ValueKind::RangeDeletion;
            assert!(memtable.add(tombstone.seq, kind, &tombstone.start, &tombstone.end));
        }
        self.last_seq += writes.len() as u64;
        self.history = self.history.with(&new);
        let job = FlushJob {
            context: self.context(),
            memtables: vec![memtable],
            epoch: self.version.max_epoch() + 1,
            oldest_time: 0,
            version: None,
            reason: cairn_types::TableFileCreationReason::Flush,
        };
        let done = flush::run(&job).unwrap();
        self.version = self.version.with_edit(&done.edit).unwrap();
    }

    fn run(&mut self, pick: &Pick, from: &Version) {
        let job = CompactJob {
            context: self.context(),
            pick: Arc::new(pick.clone()),
            version: Arc::new(from.clone()),
        };
        let done = compact::run(&job).unwrap();
        self.version = self.version.with_edit(&done.edit).unwrap();
    }

    fn compact(&mut self, two: bool, swap: bool) {
        let mut busy = Busy::default();
        let mut picks = Vec::new();
        for _ in 0..=usize::from(two) {
            if let Some(pick) = pick::pick(&self.version, &busy, &self.present(), &self.options) {
                busy.add(&KeyOrder::Bytewise, &pick);
                picks.push(pick);
            }
        }
        if swap {
            picks.reverse();
        }
        let from = self.version.clone();
        picks.iter().for_each(|pick| self.run(pick, &from));
    }

    fn manual(&mut self, from: u8, to: u8, force: bool) {
        let options = CompactRangeOptions {
            bottommost_level_compaction: match force {
                true => BottommostLevelCompaction::ForceOptimized,
                false => BottommostLevelCompaction::Skip,
            },
            ..CompactRangeOptions::default()
        };
        let (begin, end) = (crate::model::user(from), crate::model::user(to));
        let next = FileNumber(self.next_number.load(Ordering::Relaxed));
        let mut manual = Manual::new(Some(&begin), Some(&end), &options, next);
        for _ in 0..200 {
            let busy = Busy::default();
            match manual.next(&self.version, &busy, &self.present(), &self.options) {
                Step::Run(pick) => {
                    let from = self.version.clone();
                    self.run(&pick, &from);
                }
                Step::Wait => panic!("nothing else runs"),
                Step::Done => return,
            }
        }
        panic!("a manual compaction does not end");
    }

    /// Readers at every snapshot see what was written, and nowhere is an older version of a key
    /// above a newer one.
    fn check(&self) {
        let mut all = State::default();
        let mut above: Vec<Option<u64>> = vec![None; 32];
        for level in self.version.levels() {
            let mut here: Vec<Option<u64>> = above.clone();
            for file in level.files() {
                let content = content(&self.world, file);
                for (key, _) in &content.points {
                    let parsed = key::parse(key).unwrap();
                    let number: usize = std::str::from_utf8(&parsed.user_key[3..])
                        .unwrap()
                        .parse()
                        .unwrap();
                    assert!(
                        above[number].is_none_or(|least| least > parsed.seq.0 || parsed.seq.0 == 0),
                        "an older version of {number} is above {parsed:?} of {file:?}"
                    );
                    here[number] = Some(here[number].map_or(parsed.seq.0, |l| l.min(parsed.seq.0)));
                    let bound = |bound: &InternalKey| bound.as_bytes().to_vec();
                    let order = &KeyOrder::Bytewise;
                    assert!(
                        key::compare(order, &bound(&file.smallest), key).is_le(),
                        "{file:?}"
                    );
                    assert!(
                        key::compare(order, &bound(&file.largest), key).is_ge(),
                        "{file:?}"
                    );
                }
                all = all.with(&content);
                if level.files().len() > 1 && self.version.level(0).len() == level.len() {
                    above.clone_from(&here);
                }
            }
            above = here;
        }
        let mut seqs = self.snapshots.clone();
        seqs.push(self.last_seq);
        let (found, expected) = (all.read_all(&seqs), self.history.read_all(&seqs));
        assert_eq!(found, expected, "tree: {:?}", self.version.levels());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn no_reader_notices_flushes_and_compactions(
        ops in ops(),
        dynamic in any::<bool>(),
        pri in pris(),
        parts in 1..4_u32,
        operator in any::<bool>(),
    ) {
        let mut tree = Tree::new(dynamic, pri, parts, operator);
        let mut history = Vec::new();
        for op in ops {
            match op {
                Op::Write(new) => {
                    // Single deletions keep their contract over the whole history.
                    let before = history.len();
                    history.extend(new);
                    history = lawful(history);
                    let new = history[before..].to_vec();
                    tree.write_and_flush(&new);
                }
                Op::Compact { two, swap } => tree.compact(two, swap),
                Op::Manual { from, to, force } => tree.manual(from, to, force),
                Op::Snapshot => {
                    if tree.snapshots.last() != Some(&tree.last_seq) {
                        tree.snapshots.push(tree.last_seq);
                    }
                }
                Op::Release if !tree.snapshots.is_empty() => {
                    tree.snapshots.remove(0);
                }
                Op::Release => {}
            }
            tree.check();
        }
    }
}

/// A tree with many keys, so that outputs are cut and levels fill.
#[test]
fn a_tree_under_load_settles_within_its_targets() {
    for (dynamic, parts) in [(true, 1), (false, 3)] {
        let mut tree = Tree::new(dynamic, CompactionPri::MinOverlappingRatio, parts, false);
        for round in 0..30_u32 {
            let new: Vec<Write> = (0..100_u32)
                .map(|n| Write::Put(((n * 7 + round * 13) % 240) as u8, round as u8))
                .collect();
            tree.write_and_flush(&new);
            tree.compact(true, round % 2 == 0);
        }
        for _ in 0..100 {
            if !pick::is_due(
                &tree.version,
                &Busy::default(),
                &tree.present(),
                &tree.options,
            ) {
                break;
            }
            tree.compact(false, false);
        }
        assert!(
            !pick::is_due(
                &tree.version,
                &Busy::default(),
                &tree.present(),
                &tree.options
            ),
            "compaction never ends: {:?}",
            tree.version.levels()
        );
        assert!(
            tree.version.level(0).len() <= 2,
            "{:?}",
            tree.version.levels()
        );
        let entries: u64 = tree
            .version
            .files()
            .map(|(_, file)| file.counts.get().unwrap().entries)
            .sum();
        assert!(entries < 700, "old versions stay: {entries}");
    }
}

#[test]
fn a_cancelled_compaction_removes_what_it_made() {
    let mut tree = Tree::new(true, CompactionPri::MinOverlappingRatio, 1, false);
    for value in 0..2 {
        let all: Vec<Write> = (0..240).map(|key| Write::Put(key, value)).collect();
        tree.write_and_flush(&all);
    }
    let pick = pick::pick(
        &tree.version,
        &Busy::default(),
        &tree.present(),
        &tree.options,
    )
    .unwrap();
    let files = || tree.world.fs.list("/db".as_ref()).unwrap().len();
    let before = files();
    let job = CompactJob {
        context: Arc::new(JobContext {
            cancel: Arc::new(AtomicBool::new(true)),
            ..JobContext::clone(&tree.context())
        }),
        pick: Arc::new(pick),
        version: Arc::new(tree.version.clone()),
    };
    let error = compact::run(&job).unwrap_err();
    assert_eq!(error.code(), cairn_types::Code::Aborted);
    assert!(
        tree.next_number.load(Ordering::Relaxed) > 12,
        "an output was begun"
    );
    assert_eq!(files(), before);
}
