//! Data-driven tests: `testdata/pick.txt` has trees, running compactions, and the expected picks.
//!
//! ```text
//! # Description of the case.
//! options trigger=4 base=100
//! L0: 12[a..c] 11[b..d]
//! L1: 7[a..k]:size=40,seq=3
//! busy 7
//! damaged 11
//! pick
//! ----
//! compact L0: 12 11 + L1: 7 -> L1
//! ```
//!
//! Files of level 0 are listed from newest to oldest. The default size is 10. `BLESS=1 cargo test` rewrites
//! the expected output.

use std::panic::{AssertUnwindSafe, catch_unwind};

use cairn_format::key::InternalKey;
use cairn_options::{
    BottommostLevelCompaction, CompactRangeOptions, CompactionOptions, CompactionPri,
    CompactionStyle, Compression, CompressionOptions, DbOptions, FamilyOptions,
    FifoCompactionOptions, Options, UniversalCompactionOptions,
};
use cairn_platform::sync::Arc;
use cairn_types::{Code, FileNumber, KeyOrder, SequenceNumber, ValueKind};
use cairn_version::compaction_score::AgeLimits;
use cairn_version::periodic_phase::PeriodicPhase;
use cairn_version::{FileMeta, TreeEdit, Version};

use super::{InProgress, LevelInputs, Manual, Output, Pick, PickOptions, Reason, Step, Tree, pick};

const LEVELS: usize = 5;

/// A case: its options, tree and commands.
struct Case {
    options: PickOptions,
    limits: AgeLimits,
    edit: TreeEdit,
    busy: Vec<u64>,
    damaged: Vec<u64>,
    levels: usize,
    output: String,
}

impl Case {
    fn new() -> Case {
        let family = FamilyOptions {
            level0_file_num_compaction_trigger: 4,
            max_bytes_for_level_base: 100,
            target_file_size_base: 10,
            max_compaction_bytes: 1000,
            level_compaction_dynamic_level_bytes: false,
            compression: Compression::None,
            ttl: 0,
            ..FamilyOptions::default()
        };
        Case {
            options: PickOptions::new(&DbOptions::default(), &family),
            limits: AgeLimits {
                now: 1000,
                ahead: 0,
                phase: PeriodicPhase::default(),
                oldest_snapshot: SequenceNumber::ZERO,
                full_history_ts_low: Vec::new(),
                young_after: SequenceNumber::MAX,
                zero_through: SequenceNumber::MAX,
            },
            edit: TreeEdit::default(),
            busy: Vec::new(),
            damaged: Vec::new(),
            levels: LEVELS,
            output: String::new(),
        }
    }

    fn line(&mut self, line: &str) {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let numbers = || rest.split(' ').map(|n| n.parse::<u64>().unwrap());
        match word {
            "options" => rest.split(' ').for_each(|pair| self.option(pair)),
            "busy" => self.busy.extend(numbers()),
            "damaged" => self.damaged.extend(numbers()),
            "pick" => self.pick(),
            "picks" => self.picks(),
            "manual" => self.manual(rest),
            "files" | "refit" | "promote" | "drop" => self.request(word, rest),
            level if level.starts_with('L') => {
                let level = level[1..].trim_end_matches(':').parse().unwrap();
                for (at, text) in rest.split(' ').filter(|text| !text.is_empty()).enumerate() {
                    self.edit
                        .added
                        .push((level, Arc::new(file(text, level, at))));
                }
            }
            other => panic!("no such command: {other}"),
        }
    }

    fn option(&mut self, pair: &str) {
        let (name, value) = pair.split_once('=').unwrap();
        let number = || value.parse::<u64>().unwrap();
        let shape = &mut self.options.shape;
        match name {
            "trigger" => shape.level0_trigger = number() as usize,
            "base" => shape.base_bytes = number(),
            "dynamic" => shape.dynamic = number() == 1,
            "ttl" => shape.ttl = number(),
            "periodic" => shape.periodic = number(),
            "reads" => shape.reads_per_byte = value.parse().unwrap(),
            "max" => self.options.max_compaction_bytes = number(),
            "style" => {
                self.options.style = match value {
                    "universal" => CompactionStyle::Universal,
                    "fifo" => CompactionStyle::Fifo,
                    "none" => CompactionStyle::None,
                    other => panic!("no such style: {other}"),
                }
            }
            "behind" => self.options.keeps_last_level = number() == 1,
            "levels" => self.levels = number() as usize,
            "buffer" => self.options.write_buffer_bytes = number(),
            "stop" => self.options.level0_stop = number() as usize,
            "universal" => {
                let text = value.replace(',', ";").replace(':', "=");
                self.options.universal = UniversalCompactionOptions::from_text(&text).unwrap();
            }
            "fifo" => {
                let text = value.replace(',', ";").replace(':', "=").replace('+', ":");
                self.options.fifo = FifoCompactionOptions::from_text(&text).unwrap();
            }
            "snapshot" => self.limits.oldest_snapshot = SequenceNumber(number()),
            "pri" => {
                self.options.pri = match value {
                    "size" => CompactionPri::ByCompensatedSize,
                    "largest" => CompactionPri::OldestLargestSeqFirst,
                    "smallest" => CompactionPri::OldestSmallestSeqFirst,
                    "overlap" => CompactionPri::MinOverlappingRatio,
                    "robin" => CompactionPri::RoundRobin,
                    other => panic!("no such priority: {other}"),
                }
            }
            "lz4" => self.options.compression = Compression::Lz4,
            "per_level" => {
                self.options.compression_per_level = vec![Compression::None, Compression::Lz4];
            }
            "cursor" => {
                let key = InternalKey::new(value.as_bytes(), SequenceNumber::MAX, ValueKind::Value);
                self.edit.cursors.push((1, key));
            }
            other => panic!("no such option: {other}"),
        }
    }

    /// Returns the tree and its running compactions: each busy file is the only input of a compaction
    /// into the next level. Damaged files are quarantined.
    fn tree(&self) -> (Version, InProgress) {
        let version = Version::empty(KeyOrder::Bytewise, self.levels)
            .with_edit(&self.edit)
            .unwrap();
        let mut busy = InProgress::default();
        for (level, file) in version
            .files()
            .filter(|(_, file)| self.busy.contains(&file.number.0))
        {
            let inputs = LevelInputs {
                level,
                files: vec![file.clone()],
            };
            busy.add(&KeyOrder::Bytewise, &running(inputs));
        }
        for &number in &self.damaged {
            busy.quarantine(FileNumber(number));
        }
        (version, busy)
    }

    fn pick(&mut self) {
        let (version, busy) = self.tree();
        let picked = pick(&Tree::new(&version, &busy, &self.limits, &self.options));
        let text = picked.map_or_else(
            || "nothing".to_owned(),
            |pick| format!("{} ({:?})", shown(&pick), pick.reason),
        );
        self.output += &format!("{text}\n");
    }

    /// `files N N .. LEVEL`, `refit LEVEL TARGET`, `promote TARGET`, `drop FROM TO [with_end]`.
    fn request(&mut self, word: &str, rest: &str) {
        let words: Vec<&str> = rest.split(' ').collect();
        let number = |at: usize| words[at].parse::<usize>();
        let (version, busy) = self.tree();
        let tree = Tree::new(&version, &busy, &self.limits, &self.options);
        let result = match word {
            "files" => {
                let last = words.len() - 1;
                let files = (0..last).map(|at| FileNumber(number(at).unwrap() as u64));
                let request = super::FilesRequest {
                    files: &files.collect::<Vec<_>>(),
                    output_level: number(last).unwrap(),
                    path_id: 0,
                    options: &CompactionOptions {
                        allow_trivial_move: true,
                        ..CompactionOptions::default()
                    },
                };
                super::pick_files(&tree, &request).map(Some)
            }
            "refit" => {
                let (level, target) = (number(0).unwrap(), number(1).ok());
                super::refit(&tree, level, target)
            }
            "promote" => super::move_level_zero(&tree, number(0).unwrap()),
            _ => {
                let bound = |word: &str| (word != "-").then(|| word.as_bytes().to_vec());
                let (begin, end) = (bound(words[0]), bound(words[1]));
                let ranges = [(begin.as_deref(), end.as_deref())];
                let include_end = words.len() > 2;
                Ok(super::delete_in_ranges(&tree, &ranges, include_end))
            }
        };
        self.output += &match result {
            Ok(Some(pick)) => format!("{}\n", shown(&pick)),
            Ok(None) => "nothing\n".to_owned(),
            Err(error) => format!("{error}\n"),
        };
    }

    /// Picks until no further compaction can run concurrently.
    fn picks(&mut self) {
        let (version, mut busy) = self.tree();
        while let Some(pick) = pick(&Tree::new(&version, &busy, &self.limits, &self.options)) {
            self.output += &format!("{} ({:?})\n", shown(&pick), pick.reason);
            busy.add(&KeyOrder::Bytewise, &pick);
        }
        self.output += &format!("{} at once\n", busy.len());
    }

    /// `manual FROM TO HOW`: prints every step, and installs each as if it had run.
    fn manual(&mut self, rest: &str) {
        let words: Vec<&str> = rest.split(' ').collect();
        let (mut version, busy) = self.tree();
        let options = CompactRangeOptions {
            bottommost_level_compaction: match words[2] {
                "skip" => BottommostLevelCompaction::Skip,
                "force" => BottommostLevelCompaction::Force,
                "optimized" => BottommostLevelCompaction::ForceOptimized,
                other => panic!("no such mode: {other}"),
            },
            ..CompactRangeOptions::default()
        };
        let key = |word: &str| (word != "-").then(|| word.as_bytes().to_vec());
        let (begin, end) = (key(words[0]), key(words[1]));
        let mut next = 100;
        let mut manual = Manual::new(begin.as_deref(), end.as_deref(), &options, FileNumber(next));
        loop {
            match manual.next(&Tree::new(&version, &busy, &self.limits, &self.options)) {
                Step::Run(pick) => {
                    self.output += &format!("{}\n", shown(&pick));
                    version = version.with_edit(&as_if_run(&pick, &mut next)).unwrap();
                }
                Step::Wait => return self.output += "wait\n",
                Step::Done => return self.output += "done\n",
            }
        }
    }
}

/// Returns a running compaction of `inputs` into the next level. It is marked as a deletion, since
/// the output ranges of several such compactions may overlap.
fn running(inputs: LevelInputs) -> Pick {
    let level = (inputs.level + 1).min(LEVELS - 1);
    Pick {
        reason: Reason::Manual,
        score: 0.0,
        inputs: vec![inputs],
        output: Output {
            level,
            path_id: 0,
            compression: Compression::None,
            compression_options: CompressionOptions::default(),
            temperature: None,
            target_bytes: 10,
            max_bytes: 10,
            max_compaction_bytes: 1000,
        },
        grandparents: Vec::new(),
        bottommost: false,
        more_may_come: false,
        trivial_move: false,
        drops: true,
        max_subcompactions: 1,
        cursor: None,
        offer: None,
        skip_level: None,
        young: None,
    }
}

/// Returns the edit of a compaction that writes one file over the range of its inputs.
fn as_if_run(pick: &Pick, next: &mut u64) -> TreeEdit {
    if pick.trivial_move {
        return pick.as_move();
    }
    let (smallest, largest) = pick.bounds(&KeyOrder::Bytewise);
    let mut file = FileMeta::new(FileNumber(*next), pick.input_bytes(), smallest, largest);
    file.epoch = 1;
    *next += 1;
    TreeEdit {
        deleted: pick
            .files()
            .map(|(level, file)| (level, file.number))
            .collect(),
        added: vec![(pick.output.level, Arc::new(file))],
        ..TreeEdit::default()
    }
}

/// `12[a..c]:size=40,seq=3,marked,age=500,temperature=8`; an upper bound in parentheses is the end of a range
/// tombstone: `12[a..c)`.
fn file(text: &str, level: usize, at: usize) -> FileMeta {
    let (head, attributes) = text.split_once(':').unwrap_or((text, ""));
    let (number, bounds) = head.split_once('[').unwrap();
    let (smallest, largest) = bounds.split_once("..").unwrap();
    let number: u64 = number.parse().unwrap();
    let seq = if level == 0 {
        100 - at as u64
    } else {
        50 - level as u64
    };
    let bound =
        |user: &str| InternalKey::new(user.as_bytes(), SequenceNumber(seq), ValueKind::Value);
    let largest = match largest.strip_suffix(')') {
        Some(user) => {
            let kind = ValueKind::RangeDeletion;
            InternalKey::new(user.as_bytes(), SequenceNumber::MAX, kind)
        }
        None => {
            // The first of two files that share a user key has the newer versions.
            let user = largest.trim_end_matches(']').as_bytes();
            InternalKey::new(user, SequenceNumber(seq + 1), ValueKind::Value)
        }
    };
    let smallest = bound(smallest);
    // A single key is its own upper bound.
    let largest = match smallest.user_key() == largest.user_key() {
        true => smallest.clone(),
        false => largest,
    };
    let mut file = FileMeta::new(FileNumber(number), 10, smallest, largest);
    (file.seqs.smallest, file.seqs.largest) = (SequenceNumber(seq), SequenceNumber(seq));
    file.epoch = seq;
    (file.times.oldest_ancester, file.times.file) = (1000, 1000);
    for attribute in attributes.split(',').filter(|text| !text.is_empty()) {
        let (name, value) = attribute.split_once('=').unwrap_or((attribute, "0"));
        let value: u64 = value.parse().unwrap();
        match name {
            "size" => file.size = value,
            "seq" => {
                (file.seqs.smallest, file.seqs.largest) =
                    (SequenceNumber(value), SequenceNumber(value));
            }
            "temperature" => file.temperature = u8::try_from(value).unwrap(),
            "marked" => file.hints.marked = true,
            "reads" => file.hints.wasted_reads.add(value),
            "age" => {
                (file.times.oldest_ancester, file.times.file) = (1000 - value, 1000 - value);
            }
            other => panic!("no such attribute: {other}"),
        }
    }
    file
}

fn shown(pick: &Pick) -> String {
    let inputs = pick.inputs.iter().map(|inputs| {
        let files = inputs
            .files
            .iter()
            .map(|file| format!(" {}", file.number.0));
        format!("L{}:{}", inputs.level, files.collect::<String>())
    });
    let inputs = inputs.collect::<Vec<_>>().join(" + ");
    if pick.drops {
        return format!("drop {inputs}");
    }
    let how = if pick.trivial_move { "move" } else { "compact" };
    let bottom = if pick.bottommost && !pick.trivial_move {
        ", bottommost"
    } else {
        ""
    };
    let grandparents = pick
        .grandparents
        .iter()
        .map(|file| format!(" {}", file.number.0));
    let stored = match pick.output.compression {
        Compression::None => "",
        _ => ", compressed",
    };
    let below = match pick.grandparents.is_empty() || pick.trivial_move {
        true => String::new(),
        false => format!(", above{}", grandparents.collect::<String>()),
    };
    let offer = pick.offer.as_ref().map_or_else(String::new, |offer| {
        let files = offer.files.iter().map(|file| format!(" {}", file.number.0));
        let files = files.collect::<String>();
        format!(", may go on to{files}: {} too much", offer.excess)
    });
    let temperature = pick.output.temperature.map(|it| format!(", {}", it.name()));
    format!(
        "{how} {inputs} -> L{}{bottom}{below}{stored}{offer}{}",
        pick.output.level,
        temperature.unwrap_or_default()
    )
}

/// Regression: the inputs before the one in use stayed registered, and no later pick could use them.
#[test]
fn a_job_that_is_refused_registers_none_of_its_inputs() {
    let mut case = Case::new();
    case.line("L3: 4[a..k] 5[m..p]");
    let (version, mut busy) = case.tree();
    let inputs = |files: &[Arc<FileMeta>]| {
        let files = files.to_vec();
        running(LevelInputs { level: 3, files })
    };
    let [first, second] = version.level(3).files() else {
        panic!("two files");
    };
    let id = busy.add(&KeyOrder::Bytewise, &inputs(std::slice::from_ref(second)));
    let both = inputs(&[first.clone(), second.clone()]);
    let refused = catch_unwind(AssertUnwindSafe(|| {
        busy.add(&KeyOrder::Bytewise, &both);
    }));
    assert!(refused.is_err() && !busy.is_busy(first.number));
    let refused = catch_unwind(AssertUnwindSafe(|| {
        busy.hold(&[first.number, second.number]);
    }));
    assert!(refused.is_err() && !busy.is_busy(first.number));
    busy.remove(id);
    assert!(busy.is_empty() && busy.files().is_empty());
}

/// Regression: files moved up over a level that was reserved for an ingestion, whose newer data was then below theirs.
#[test]
fn files_do_not_move_up_over_a_level_that_is_being_written() {
    let mut case = Case::new();
    case.line("L4: 4[c..k]");
    let (version, mut busy) = case.tree();
    let refit = |busy: &InProgress, target| {
        let tree = Tree::new(&version, busy, &case.limits, &case.options);
        super::refit(&tree, 4, target)
    };
    let bound = |user: &[u8]| InternalKey::new(user, SequenceNumber(60), ValueKind::Value);
    let id = busy.reserve(3, &bound(b"k"), &bound(b"p"));
    for target in [Some(1), Some(3), None] {
        let refused = refit(&busy, target).unwrap_err();
        assert_eq!(refused.code(), Code::NotSupported, "{target:?}");
    }
    busy.remove(id);
    busy.reserve(3, &bound(b"l"), &bound(b"p"));
    assert!(refit(&busy, Some(1)).unwrap().is_some());
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "the cases are read from the source tree"
)]
fn picks_are_as_described() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/pick.txt");
    let text = std::fs::read_to_string(path).unwrap();
    let mut blessed = String::new();
    let mut wrong = Vec::new();
    for block in text
        .split("\n\n")
        .map(str::trim)
        .filter(|block| !block.is_empty())
    {
        let (input, expected) = block.split_once("\n----").unwrap();
        let mut case = Case::new();
        input
            .lines()
            .filter(|line| !line.starts_with('#'))
            .for_each(|line| case.line(line));
        if case.output.trim() != expected.trim() {
            wrong.push(format!(
                "{input}\n---- expected\n{}\n---- found\n{}",
                expected.trim(),
                case.output
            ));
        }
        blessed += &format!("{input}\n----\n{}\n", case.output);
    }
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(path, format!("{}\n", blessed.trim_end())).unwrap();
        return;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
