//! Random writes, flushes and compactions of whole trees over in-memory files, checked against a model
//! of reads.

mod cases;

use std::collections::BTreeMap;
use std::path::Path;

use cairn_format::blob::{BlobIndex, RECORD_HEADER_LEN};
use cairn_format::key::{self, InternalKey};
use cairn_format::seqno_times::{Sample, SeqnoTimes};
use cairn_format::table::properties::Properties;
use cairn_memory::ChargePolicy;
use cairn_memtable::{Memtable, MemtableOptions};
use cairn_observe::statistics::Meter;
use cairn_options::{
    BottommostLevelCompaction, CompactRangeOptions, CompactionOptions, CompactionPri,
    CompactionStyle, Compression, DbOptions, FamilyOptions,
};
use cairn_platform::fs::FileMode;
use cairn_platform::sync::{Arc, AtomicBool, AtomicU64, Mutex, Ordering};
use cairn_platform::{Io, IoPriority, World};
use cairn_read::{BlobReadOptions, BlobSource};
use cairn_table::{IterOptions, OpenParams, Table, TableIter};
use cairn_types::{Error, FileNumber, KeyOrder, Result, SequenceNumber, ValueKind};
use cairn_version::compaction_score::AgeLimits;
use cairn_version::periodic_phase::PeriodicPhase;
use cairn_version::{BlobFileMeta, FileMeta, Version};
use proptest::prelude::*;

use crate::compact::KeyRange;
use crate::context::OpenTable;
use crate::context::{BlobGc, Cancel, JobContext, JobDatabase, JobFamily, Permit, RequestThread};
use crate::inputs::{InputRun, InputTable};
use crate::model::{Join, State, Write, with_valid_single_deletions, writes};
use crate::pick::{self, FilesRequest, InProgress, Manual, Pick, PickOptions, Step};
use crate::stats::JobStats;
use crate::subcompaction_split;
use crate::{CompactJob, FlushJob, JobEvents, compact, flush, multi_level};

/// The age below which entries are young, in seconds.
const YOUNG_SECONDS: u64 = 1000;

/// The compaction style under test.
#[derive(Clone, Copy, Debug)]
enum Style {
    Level,
    Universal {
        levels: i32,
        moves: bool,
    },
    /// FIFO without a binding size limit, merging small files.
    FifoMerging,
}

fn styles() -> impl Strategy<Value = Style> {
    let levels = prop_oneof![Just(1), Just(4)];
    prop_oneof![
        3 => Just(Style::Level),
        2 => (levels, any::<bool>())
            .prop_map(|(levels, moves)| Style::Universal { levels, moves }),
        1 => Just(Style::FifoMerging),
    ]
}

/// A tree and its history.
struct Tree {
    world: World,
    version: Version,
    options: PickOptions,
    family: Arc<FamilyOptions>,
    blobs: Arc<BlobSource>,
    next_number: Arc<AtomicU64>,
    /// All writes so far.
    history: State,
    last_seq: u64,
    snapshots: Vec<u64>,
    /// The skip-level range to choose; `None` for the production choice.
    skip_level_seed: Option<usize>,
    /// Number of compactions with a skip-level range.
    skip_level: usize,
    /// The interval at which requests for an extra thread are granted; `None` for never.
    grant_interval: Option<u64>,
    events: Option<Arc<Parts>>,
    /// Entries up to this sequence number are old.
    old_through: u64,
}

/// The numbers of the subcompactions that started and completed.
#[derive(Default)]
struct Parts {
    began: Mutex<Vec<usize>>,
    ended: Mutex<Vec<usize>>,
}

impl JobEvents for Parts {
    fn table_started(&self, _: FileNumber, _: &Path) {}
    fn table_created(&self, _: &Path, _: &FileMeta, _: &Arc<Properties>) {}
    fn blob_started(&self, _: FileNumber, _: &Path) {}
    fn blob_created(&self, _: &Path, _: &BlobFileMeta) {}
    fn subcompaction_began(&self, part: usize) {
        self.began.lock().push(part);
    }
    fn subcompaction_completed(&self, part: usize, result: Result<JobStats, &Error>) {
        result.unwrap();
        self.ended.lock().push(part);
    }
}

#[derive(Clone, Debug)]
enum Op {
    Write(Vec<Write>),
    /// Picks and runs compactions; if set, two at once, finished in either order.
    Compact {
        two: bool,
        swap: bool,
    },
    Manual {
        from: u8,
        to: u8,
        force: bool,
    },
    /// Compacts one file into this level.
    File {
        file: u8,
        level: u8,
    },
    Snapshot,
    Release,
    /// Makes this part of all entries old, in 255ths.
    Age(u8),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        6 => writes(40).prop_map(Op::Write),
        5 => (any::<bool>(), any::<bool>()).prop_map(|(two, swap)| Op::Compact { two, swap }),
        1 => (0..12_u8, 0..12_u8, any::<bool>())
            .prop_map(|(a, b, force)| Op::Manual { from: a.min(b), to: a.max(b), force }),
        1 => (any::<u8>(), 0..4_u8).prop_map(|(file, level)| Op::File { file, level }),
        2 => Just(Op::Snapshot),
        1 => Just(Op::Release),
        1 => any::<u8>().prop_map(Op::Age),
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
        largest_seq: Some(file.seqs.largest),
        tail_size: Some(file.tail_size),
        ..OpenParams::default()
    };
    Table::open(handle, file.size, params, &Io::blocking()).unwrap()
}

/// Returns the entries and range tombstones of a table within the bounds of its file.
fn content(world: &World, blobs: &BlobSource, file: &FileMeta) -> State {
    let table = open(world, file);
    let mut state = State::default();
    let mut oldest_blob = None;
    let mut iter = TableIter::new(table.clone(), IterOptions::default());
    let mut step = iter.seek_to_first();
    loop {
        iter.complete(step, &Io::blocking());
        if !iter.valid() {
            break;
        }
        let (mut key, mut value) = (iter.key().to_vec(), iter.value().to_vec());
        if let Some(index) = blob_index(&key, &value) {
            oldest_blob =
                Some(oldest_blob.map_or(index.file, |oldest: FileNumber| oldest.min(index.file)));
            let options = BlobReadOptions::default();
            let user = key::user_key(&key).to_vec();
            let read = blobs.read(&value, &user, &Io::blocking(), options);
            value = read.unwrap().to_vec();
            let seq = key::parse(&key).unwrap().seq;
            key = InternalKey::new(&user, seq, ValueKind::Value).into_bytes();
        }
        state.points.push((key, value));
        step = iter.next();
    }
    iter.status().unwrap();
    assert_eq!(oldest_blob, file.oldest_blob, "{file:?}");
    if let Some(all) = table.range_tombstones() {
        let order = &KeyOrder::Bytewise;
        let [smallest, largest] = [&file.smallest, &file.largest].map(InternalKey::user_key);
        assert!(
            file.largest.is_exclusive_bound() || !all.touch(order, largest, largest),
            "{file:?}"
        );
        let own = all.tombstones(order, smallest, largest);
        state.tombstones.extend(own);
    }
    state
}

/// Returns the blob index of an entry, if it has one.
fn blob_index(key: &[u8], value: &[u8]) -> Option<BlobIndex> {
    let is_blob = key::parse(key).unwrap().kind == ValueKind::BlobIndex;
    is_blob.then(|| BlobIndex::decode(value).unwrap())
}

/// The blob settings under test.
#[derive(Clone, Copy, Debug)]
enum Blobs {
    None,
    Written,
    Age(f64),
    Space(f64),
    /// Blobs are moved back into tables: blob files are disabled.
    Taken,
}

fn blob_modes() -> impl Strategy<Value = Blobs> {
    prop_oneof![
        Just(Blobs::None),
        Just(Blobs::Written),
        Just(Blobs::Age(0.5)),
        Just(Blobs::Age(1.0)),
        Just(Blobs::Space(1.2)),
        Just(Blobs::Taken),
    ]
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
            world: world.clone(),
            version: Version::empty(KeyOrder::Bytewise, 4),
            options: PickOptions::new(&db, &family),
            family: Arc::new(family),
            blobs: Arc::new(BlobSource::new(
                world.fs.clone(),
                "/db".into(),
                FileMode::default(),
                None,
            )),
            next_number: Arc::new(AtomicU64::new(10)),
            history: State::default(),
            last_seq: 0,
            snapshots: Vec::new(),
            skip_level_seed: None,
            skip_level: 0,
            grant_interval: None,
            events: None,
            old_through: 0,
        }
    }

    /// Sets the options of the family.
    fn with_family(mut self, family: FamilyOptions) -> Tree {
        let db = DbOptions {
            max_subcompactions: self.options.max_subcompactions,
            ..DbOptions::default()
        };
        self.options = PickOptions::new(&db, &family);
        self.family = Arc::new(family);
        self
    }

    /// Keeps young entries out of the last level.
    fn precluding_young(self) -> Tree {
        let mut family = FamilyOptions::clone(&self.family);
        family.preclude_last_level_data_seconds = YOUNG_SECONDS;
        self.with_family(family)
    }

    /// Samples according to which entries up to `old_through` are old and all others are young.
    fn samples(&self) -> SeqnoTimes {
        let now = self.world.clock.wall_seconds();
        let old = Sample {
            seq: self.old_through,
            time: now - 2 * YOUNG_SECONDS,
        };
        let last = Sample {
            seq: self.last_seq,
            time: now,
        };
        SeqnoTimes::of(vec![old, last])
    }

    /// Applies the blob settings `mode`.
    fn with_blobs(self, mode: Blobs) -> Tree {
        let mut family = FamilyOptions::clone(&self.family);
        family.enable_blob_files = !matches!(mode, Blobs::None | Blobs::Taken);
        family.blob_file_size = 300;
        family.blob_garbage_collection_force_threshold = 0.3;
        match mode {
            Blobs::None | Blobs::Written => {}
            Blobs::Age(cutoff) => {
                family.enable_blob_garbage_collection = true;
                family.blob_garbage_collection_age_cutoff = cutoff;
                family.blob_compaction_readahead_size = 100;
            }
            Blobs::Space(target) => family.blob_space_target = target,
            Blobs::Taken => {
                family.blob_garbage_collection_force_threshold = 0.0;
                family.enable_blob_garbage_collection = true;
                family.blob_garbage_collection_age_cutoff = 1.0;
            }
        }
        self.with_family(family)
    }

    /// Applies the compaction style.
    fn with_style(mut self, style: Style) -> Tree {
        let mut family = FamilyOptions::clone(&self.family);
        let universal = &mut family.compaction_options_universal;
        match style {
            Style::Level => return self,
            Style::Universal { levels, moves } => {
                family.compaction_style = CompactionStyle::Universal;
                family.num_levels = levels;
                universal.allow_trivial_move = moves;
                universal.size_ratio = 20;
            }
            Style::FifoMerging => {
                family.compaction_style = CompactionStyle::Fifo;
                family.num_levels = 1;
                family.compaction_options_fifo.allow_compaction = true;
            }
        }
        family.level_compaction_dynamic_level_bytes = false;
        let levels = usize::try_from(family.num_levels).unwrap();
        self.version = Version::empty(KeyOrder::Bytewise, levels);
        self.with_family(family)
    }

    /// The tree from which a pick is computed.
    fn pick_tree<'a>(&'a self, busy: &'a InProgress, limits: &'a AgeLimits) -> pick::Tree<'a> {
        pick::Tree::new(&self.version, busy, limits, &self.options)
    }

    /// Compacts until no compaction is due.
    fn settle(&mut self) {
        let busy = InProgress::default();
        for _ in 0..100 {
            if !pick::is_due(&self.pick_tree(&busy, &self.present())) {
                return;
            }
            self.compact(false, false);
        }
        panic!("compaction never ends: {:?}", self.version.levels());
    }

    /// Runs a `CompactFiles` request of one file.
    fn compact_file(&mut self, file: u8, level: u8) {
        let files: Vec<_> = self.version.files().collect();
        let Some((from, file)) = files.get(usize::from(file) % files.len().max(1)) else {
            return;
        };
        let last = self.version.num_levels() - 1;
        let request = FilesRequest {
            files: &[file.number],
            output_level: usize::from(level).clamp(*from, last),
            path_id: 0,
            options: &CompactionOptions {
                output_file_size_limit: 1500,
                allow_trivial_move: level.is_multiple_of(2),
                ..CompactionOptions::default()
            },
        };
        let busy = InProgress::default();
        let pick = pick::pick_files(&self.pick_tree(&busy, &self.present()), &request);
        let from = self.version.clone();
        self.run(&pick.unwrap(), &from);
    }

    /// Checks that the referenced and the garbage blobs of each file add up to its total.
    fn check_blobs(&self) {
        let mut live: BTreeMap<FileNumber, (u64, u64)> = BTreeMap::new();
        for (_, file) in self.version.files() {
            let table = open(&self.world, file);
            let mut iter = TableIter::new(table, IterOptions::default());
            let mut step = iter.seek_to_first();
            loop {
                iter.complete(step, &Io::blocking());
                if !iter.valid() {
                    break;
                }
                if let Some(index) = blob_index(iter.key(), iter.value()) {
                    let sum = live.entry(index.file).or_default();
                    sum.0 += 1;
                    let key = key::user_key(iter.key()).len();
                    sum.1 += (RECORD_HEADER_LEN + key) as u64 + index.size;
                }
                step = iter.next();
            }
        }
        for number in live.keys() {
            assert!(self.version.blob_files().contains_key(number), "{number}");
        }
        for (number, meta) in self.version.blob_files() {
            let (count, bytes) = live.get(number).copied().unwrap_or_default();
            let known = (count + meta.garbage_count, bytes + meta.garbage_bytes);
            assert_eq!(known, (meta.total_count, meta.total_bytes), "{meta:?}");
            let file = self.blobs.file(*number).unwrap();
            assert_eq!(
                file.verify(&Io::blocking()).unwrap().blobs,
                meta.total_count
            );
        }
    }

    fn context(&self) -> Arc<JobContext> {
        let (world, number) = (self.world.clone(), self.next_number.clone());
        Arc::new(JobContext {
            world: self.world.clone(),
            io: Io::blocking(),
            io_priority: IoPriority::Low,
            open: Arc::new(move |file, _| Ok(open(&world, file))),
            new_number: Arc::new(move || FileNumber(number.fetch_add(1, Ordering::Relaxed))),
            family: JobFamily {
                id: 0,
                name: "default".to_owned(),
                order: KeyOrder::Bytewise,
                options: self.family.clone(),
                dirs: vec!["/db".into()],
                blobs: self.blobs.clone(),
                charge: ChargePolicy::default(),
            },
            database: JobDatabase {
                options: Arc::new(DbOptions::default()),
                id: "id".to_owned(),
                session_id: "ABCDEFGHIJKLMNOPQRST".to_owned(),
                host_id: String::new(),
            },
            blob_gc: BlobGc::new(&self.family),
            history: crate::context::History::default(),
            seqno_times: Arc::new(self.samples()),
            snapshots: self.snapshots.iter().copied().map(SequenceNumber).collect(),
            events: self.events.clone().map(|events| events as _),
            cancel: Cancel::default(),
            meter: Meter::default(),
            request_thread: self.thread_source(),
        })
    }

    /// Grants every n-th request for an extra thread.
    fn thread_source(&self) -> Option<Arc<RequestThread>> {
        let (grant_interval, requests) = (self.grant_interval?, AtomicU64::new(0));
        Some(Arc::new(move || {
            let due = requests.fetch_add(1, Ordering::Relaxed) % grant_interval == 0;
            due.then(|| Box::new(()) as Permit)
        }))
    }

    fn present(&self) -> AgeLimits {
        AgeLimits {
            now: 1_000_000,
            ahead: 0,
            phase: PeriodicPhase::default(),
            oldest_snapshot: SequenceNumber(*self.snapshots.first().unwrap_or(&self.last_seq)),
            full_history_ts_low: Vec::new(),
            young_after: match self.options.shape.precludes_young {
                true => {
                    let oldest = self.snapshots.first().copied().unwrap_or(u64::MAX);
                    SequenceNumber(self.old_through.min(oldest))
                }
                false => SequenceNumber::MAX,
            },
            zero_through: SequenceNumber::MAX,
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
            direct: Vec::new(),
        };
        let done = flush::run(&job).unwrap();
        self.version = self.version.with_edit(&done.edit).unwrap();
    }

    fn run(&mut self, requests: &Pick, from: &Version) {
        let context = self.context();
        let mut pick = multi_level::with_skip_level(&context, &Arc::new(requests.clone()));
        if let (Some(offer), Some(seed)) = (&pick.offer, self.skip_level_seed) {
            let borders: Vec<usize> = (0..=offer.files.len())
                .filter(|&at| multi_level::is_border(&context, offer, at))
                .collect();
            let from = seed % (borders.len() - 1);
            let until = from + 1 + seed / 7 % (borders.len() - 1 - from);
            pick = Arc::new(multi_level::with_part(
                requests,
                offer,
                borders[from]..borders[until],
            ));
            self.skip_level_seed = Some(seed.wrapping_mul(31) + 1);
        }
        self.skip_level += usize::from(pick.skip_level.is_some());
        let job = CompactJob {
            context,
            pick,
            version: Arc::new(from.clone()),
            range: KeyRange::default(),
            remote: None,
            keeps_outputs: false,
        };
        let done = compact::run(&job).unwrap();
        self.version = self.version.with_edit(&done.edit).unwrap();
    }

    fn compact(&mut self, two: bool, swap: bool) {
        let mut busy = InProgress::default();
        let mut picks = Vec::new();
        for _ in 0..=2 * usize::from(two) {
            if let Some(pick) = pick::pick(&self.pick_tree(&busy, &self.present())) {
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
            let busy = InProgress::default();
            match manual.next(&self.pick_tree(&busy, &self.present())) {
                Step::Run(pick) => {
                    let from = self.version.clone();
                    self.run(&pick, &from);
                }
                Step::Wait => panic!("nothing else is running"),
                Step::Done => return,
            }
        }
        panic!("a manual compaction does not end");
    }

    /// Checks that every snapshot reads the written values, and that no older version of a key is above
    /// a newer one.
    fn check(&self) {
        self.check_blobs();
        let mut all = State::default();
        let mut above: Vec<Option<u64>> = vec![None; 256];
        for level in self.version.levels() {
            let mut here: Vec<Option<u64>> = above.clone();
            for file in level.files() {
                let content = content(&self.world, &self.blobs, file);
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
                    // Blob indexes are resolved in `content`, so their kind is not available here.
                    let (low, high) = (file.smallest.user_key(), file.largest.user_key());
                    let within = low <= parsed.user_key && parsed.user_key <= high;
                    assert!(within, "{parsed:?} {file:?}");
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
    fn reads_are_unchanged_by_flushes_and_compactions(
        ops in ops(),
        grant_interval in prop::option::of(1..4_u64),
        dynamic in any::<bool>(),
        pri in pris(),
        parts in 1..4_u32,
        operator in any::<bool>(),
        blobs in blob_modes(),
        style in styles(),
        precludes in any::<bool>(),
    ) {
        let mut tree = Tree::new(dynamic, pri, parts, operator)
            .with_blobs(blobs)
            .with_style(style);
        if precludes {
            tree = tree.precluding_young();
        }
        tree.grant_interval = grant_interval;
        let mut history = Vec::new();
        for op in ops {
            match op {
                Op::Write(new) => {
                    // Single deletions must keep their contract over the whole history.
                    let before = history.len();
                    history.extend(new);
                    history = with_valid_single_deletions(history);
                    let new = history[before..].to_vec();
                    tree.write_and_flush(&new);
                }
                Op::Compact { two, swap } => tree.compact(two, swap),
                Op::Manual { from, to, force } => tree.manual(from, to, force),
                Op::File { file, level } => tree.compact_file(file, level),
                Op::Snapshot => {
                    if tree.snapshots.last() != Some(&tree.last_seq) {
                        tree.snapshots.push(tree.last_seq);
                    }
                }
                Op::Release if !tree.snapshots.is_empty() => {
                    tree.snapshots.remove(0);
                }
                Op::Release => {}
                Op::Age(part) => {
                    tree.old_through = tree.old_through.max(tree.last_seq * u64::from(part) / 255);
                }
            }
            tree.check();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Reads are unchanged whichever range is compacted two levels down.
    #[test]
    fn reads_are_unchanged_by_skip_level_ranges(
        rounds in proptest::collection::vec((writes(40), any::<bool>()), 12..24),
        dynamic in any::<bool>(),
        parts in 1..4_u32,
        operator in any::<bool>(),
        blobs in blob_modes(),
        seed in 0..1000_usize,
        grant_interval in prop::option::of(1..4_u64),
    ) {
        let pri = CompactionPri::MinOverlappingRatio;
        let mut tree = Tree::new(dynamic, pri, parts, operator).with_blobs(blobs);
        // The level targets are so small that any data exceeds them.
        tree.options.shape.base_bytes = 300;
        tree.skip_level_seed = Some(seed);
        tree.grant_interval = grant_interval;
        let mut history = Vec::new();
        for (new, snapshot) in rounds {
            let before = history.len();
            history.extend(new);
            history = with_valid_single_deletions(history);
            tree.write_and_flush(&history[before..]);
            if snapshot && tree.snapshots.last() != Some(&tree.last_seq) {
                tree.snapshots.push(tree.last_seq);
            }
            tree.compact(false, false);
            tree.check();
        }
    }
}
