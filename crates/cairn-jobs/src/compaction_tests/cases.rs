//! Compactions of constructed trees.

use super::*;

/// With many keys, outputs are split and several levels fill up.
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
            tree.check();
        }
        assert!(
            tree.skip_level > 0,
            "level 0 and the level below it never exceeded their limits"
        );
        tree.settle();
        tree.check();
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
        assert!(entries < 700, "old versions remain: {entries}");
    }
}

/// Extra threads granted at run time take over subcompactions, and the output equals that of one
/// thread.
#[test]
fn extra_threads_share_a_running_compaction() {
    let mut contents = Vec::new();
    for grant_interval in [None, Some(1), Some(5)] {
        let mut tree = Tree::new(false, CompactionPri::MinOverlappingRatio, 1, false);
        tree.grant_interval = grant_interval;
        let parts = Arc::new(Parts::default());
        tree.events = Some(parts.clone());
        for round in 0..4_u8 {
            let all: Vec<Write> = (0..240).map(|key| Write::Put(key, round)).collect();
            tree.write_and_flush(&all);
        }
        tree.manual(0, 240, true);
        tree.check();
        let (mut began, mut ended) = (parts.began.lock(), parts.ended.lock());
        began.sort_unstable();
        ended.sort_unstable();
        assert_eq!(*began, *ended, "every subcompaction ends once");
        match grant_interval {
            None => assert!(began.iter().all(|&part| part == 0), "{began:?}"),
            Some(_) => assert!(began.contains(&2), "{began:?}"),
        }
        let points =
            |(_, file): (_, &Arc<FileMeta>)| content(&tree.world, &tree.blobs, file).points;
        let mut points: Vec<_> = tree.version.files().flat_map(points).collect();
        points.sort();
        contents.push(points);
    }
    assert!(contents.iter().all(|points| *points == contents[0]));
}

/// Universal trees settle with few runs; FIFO trees stay within their size limit and lose the oldest
/// data.
#[test]
fn universal_and_fifo_trees_settle() {
    for style in [
        Style::Universal {
            levels: 4,
            moves: false,
        },
        Style::Universal {
            levels: 1,
            moves: true,
        },
    ] {
        let pri = CompactionPri::MinOverlappingRatio;
        let mut tree = Tree::new(false, pri, 2, false).with_style(style);
        for round in 0..30_u32 {
            let new: Vec<Write> = (0..100_u32)
                .map(|n| Write::Put(((n * 7 + round * 13) % 240) as u8, round as u8))
                .collect();
            tree.write_and_flush(&new);
            tree.compact(true, round % 2 == 0);
        }
        tree.settle();
        assert!(pick::run_count(&tree.version) <= 2);
    }
    let mut tree = Tree::new(false, CompactionPri::MinOverlappingRatio, 1, false);
    tree = tree.with_style(Style::FifoMerging);
    tree.options.fifo.allow_compaction = false;
    tree.options.fifo.max_table_files_size = 20_000;
    for round in 0..30_u8 {
        tree.write_and_flush(
            &(0..200)
                .map(|key| Write::Put(key, round))
                .collect::<Vec<_>>(),
        );
        tree.settle();
        assert!(tree.version.level(0).bytes() <= 20_000);
    }
    let kept = tree.version.level(0).files();
    assert!(kept.len() > 1 && kept[0].seqs.largest.0 == tree.last_seq);
}

/// Young data stays above the last level, compactions end although that level exceeds its target, and data moves down when it
/// is old.
#[test]
fn young_data_stays_above_the_last_level_until_it_is_old() {
    let universal = Style::Universal {
        levels: 4,
        moves: true,
    };
    for (style, dynamic) in [
        (Style::Level, true),
        (Style::Level, false),
        (universal, false),
    ] {
        let pri = CompactionPri::MinOverlappingRatio;
        let mut tree = Tree::new(dynamic, pri, 2, false)
            .with_style(style)
            .precluding_young();
        tree.options.shape.base_bytes = 300;
        for round in 0..20_u32 {
            let new: Vec<Write> = (0..100_u32)
                .map(|n| Write::Put(((n * 7 + round * 13) % 240) as u8, round as u8))
                .collect();
            tree.write_and_flush(&new);
            tree.compact(true, round % 2 == 0);
            tree.check();
        }
        tree.settle();
        tree.check();
        let last = tree.version.num_levels() - 1;
        assert!(tree.version.level(last).is_empty(), "{style:?}");
        assert!(!tree.version.level(last - 1).is_empty(), "{style:?}");

        // The older half moves down, and only it.
        let half = tree.last_seq - 120;
        tree.old_through = half;
        tree.manual(0, 255, false);
        tree.settle();
        tree.check();
        let seqs = |level: usize| {
            let files = tree.version.level(level).files().iter();
            let entries = files.flat_map(|file| content(&tree.world, &tree.blobs, file).points);
            entries
                .map(|(key, _)| key::sequence(&key).0)
                .collect::<Vec<_>>()
        };
        let (lower, upper) = (seqs(last), seqs(last - 1));
        assert!(
            !lower.is_empty() && lower.iter().all(|&seq| seq == 0),
            "{lower:?}"
        );
        assert!(
            !upper.is_empty() && upper.iter().all(|&seq| seq > half),
            "{upper:?}"
        );

        tree.old_through = tree.last_seq;
        tree.manual(0, 255, false);
        tree.check();
        assert!(tree.version.level(last - 1).is_empty(), "{style:?}");
    }
}

/// A tree with two files over the same `keys` keys in level 0, whose compactions have at most `parts` parts.
fn with_two_files(keys: u8, parts: u32) -> Tree {
    let mut tree = Tree::new(true, CompactionPri::MinOverlappingRatio, parts, false);
    for value in 0..2 {
        let all: Vec<Write> = (0..keys).map(|key| Write::Put(key, value)).collect();
        tree.write_and_flush(&all);
    }
    tree
}

#[test]
fn a_cancelled_compaction_removes_its_files() {
    let tree = with_two_files(240, 1);
    let (busy, limits) = (InProgress::default(), tree.present());
    let pick = pick::pick(&tree.pick_tree(&busy, &limits)).unwrap();
    let files = || tree.world.fs.list("/db".as_ref()).unwrap().len();
    let before = files();
    let job = CompactJob {
        context: Arc::new(JobContext {
            history: crate::context::History::default(),
            events: None,
            cancel: Cancel::any([Arc::new(AtomicBool::new(true))]),
            ..JobContext::clone(&tree.context())
        }),
        pick: Arc::new(pick),
        version: Arc::new(tree.version.clone()),
        range: KeyRange::default(),
        remote: None,
        keeps_outputs: false,
    };
    let error = compact::run(&job).unwrap_err();
    assert_eq!(error.code(), cairn_types::Code::Aborted);
    assert!(
        tree.next_number.load(Ordering::Relaxed) > 12,
        "an output was started"
    );
    assert_eq!(files(), before);
}

/// The file system returns a different table on read: with verification the job fails, without it
/// the job succeeds.
#[test]
fn output_verification_detects_a_table_that_differs_from_what_was_written() {
    let tree = with_two_files(240, 1);
    let (busy, limits) = (InProgress::default(), tree.present());
    let pick = pick::pick(&tree.pick_tree(&busy, &limits)).unwrap();
    let files = || tree.world.fs.list("/db".as_ref()).unwrap().len();
    let other = tree.version.files().next().unwrap().1.clone();
    for (flags, paranoid, fails) in [
        (1 << 10 | 2, false, true),
        (0, true, true),
        (1 << 12 | 7, false, false),
        (7, false, false),
    ] {
        let before = files();
        let last = tree.next_number.load(Ordering::Relaxed);
        let (world, other) = (tree.world.clone(), other.clone());
        let job = CompactJob {
            context: Arc::new(JobContext {
                open: Arc::new(move |file, _| {
                    let new = file.number.0 >= last;
                    Ok(open(&world, if new { &other } else { file }))
                }),
                family: JobFamily {
                    options: Arc::new(FamilyOptions {
                        verify_output_flags: flags,
                        paranoid_file_checks: paranoid,
                        ..FamilyOptions::clone(&tree.family)
                    }),
                    ..tree.context().family.clone()
                },
                ..JobContext::clone(&tree.context())
            }),
            pick: Arc::new(pick.clone()),
            version: Arc::new(tree.version.clone()),
            range: KeyRange::default(),
            remote: None,
            keeps_outputs: false,
        };
        match compact::run(&job) {
            Ok(_) => assert!(!fails, "{flags} {paranoid}"),
            Err(error) => {
                assert!(fails && error.is_corruption(), "{error}");
                assert!(error.text().contains("new table"), "{error}");
                assert_eq!(files(), before);
            }
        }
    }
}

/// Overwrites create garbage, which is collected until the configured limit is met, and no further.
#[test]
fn blob_garbage_is_collected_down_to_the_configured_limit() {
    for mode in [Blobs::Age(0.5), Blobs::Space(1.3), Blobs::Taken] {
        let mut tree = Tree::new(true, CompactionPri::MinOverlappingRatio, 1, false);
        tree = tree.with_blobs(Blobs::Written);
        for round in 0..12_u32 {
            let new: Vec<Write> = (0..20_u32)
                .map(|n| Write::Put(((n * 7 + round * 13) % 30) as u8, round as u8))
                .collect();
            tree.write_and_flush(&new);
        }
        tree.manual(0, 255, true);
        tree.check();
        let before = tree.version.blob_files().len();
        tree = tree.with_blobs(mode);
        let mut steps = 0;
        while pick::is_due(&tree.pick_tree(&InProgress::default(), &tree.present())) {
            tree.compact(false, false);
            tree.check();
            steps += 1;
            assert!(
                steps < 100,
                "{mode:?}: no end: {:?}",
                tree.version.blob_files()
            );
        }
        let files = tree.version.blob_files().values();
        let (total, garbage) = files.fold((0, 0), |(total, garbage), file| {
            (total + file.total_bytes, garbage + file.garbage_bytes)
        });
        let left = tree.version.blob_files();
        match mode {
            Blobs::Space(target) => {
                let live = (total - garbage) as f64;
                assert!(total as f64 <= target * live, "{total} {garbage}");
            }
            Blobs::Taken => assert!(left.is_empty(), "{left:?}"),
            _ => assert!(before > left.len() && steps > 0, "{before} {left:?}"),
        }
    }
}

/// Two large files over the same keys can only be split within the files.
#[test]
fn a_compaction_of_two_large_files_is_split_within_the_files() {
    let tree = with_two_files(240, 3);
    let busy = InProgress::default();
    let pick = pick::pick(&tree.pick_tree(&busy, &tree.present())).unwrap();
    let world = tree.world.clone();
    let source: Arc<OpenTable> = Arc::new(move |file, _| Ok(open(&world, file)));
    let run = |(level, file)| InputTable::open(&source, file, level, true);
    let runs = pick
        .files()
        .map(|input| InputRun::from([run(input).unwrap()]));
    let runs: Vec<_> = runs.collect();
    let borders =
        subcompaction_split::borders(&runs, &KeyOrder::Bytewise, &pick, &Io::blocking()).unwrap();
    assert_eq!(borders.len(), 2, "{borders:?}");
    assert!(borders[0] > crate::model::user(40) && borders[1] < crate::model::user(200));
}

/// Regression: the errors of damaged inputs did not name the table.
#[test]
fn the_error_of_a_damaged_input_names_its_table() {
    let tree = with_two_files(9, 1);
    let (busy, limits) = (InProgress::default(), tree.present());
    let pick = pick::pick(&tree.pick_tree(&busy, &limits)).unwrap();
    let replaced = pick.files().next().unwrap().1.number;
    let internal = |n, seq: u64, kind: u8| {
        let mut key = crate::model::user(n);
        key.extend_from_slice(&(seq << 8 | u64::from(kind)).to_le_bytes());
        key
    };
    let cases = [
        ([internal(1, 1, 1), internal(2, 1, 0x15)], "unknown kind"),
        ([internal(1, 1, 1), internal(2, 1, 0x11)], "blob index"),
    ];
    for (number, (keys, named)) in (900..).zip(cases) {
        let path = format!("/db/{number:06}.sst");
        let file = tree.world.fs.create(path.as_ref(), FileMode::default());
        let file = file.unwrap();
        let params = cairn_table::BuildParams::default();
        let mut table = cairn_table::TableBuilder::create(file.clone(), params).unwrap();
        for key in &keys {
            table.add(key, b"\xff").unwrap();
        }
        table.finish().unwrap();
        let bound =
            |key: &[u8]| InternalKey::new(key::user_key(key), SequenceNumber(1), ValueKind::Value);
        let (smallest, largest) = (bound(&keys[0]), bound(&keys[1]));
        let other = FileMeta::new(FileNumber(number), file.len(), smallest, largest);
        let world = tree.world.clone();
        let job = CompactJob {
            context: Arc::new(JobContext {
                open: Arc::new(move |file, _| {
                    let is_replaced = file.number == replaced;
                    Ok(open(&world, if is_replaced { &other } else { file }))
                }),
                ..JobContext::clone(&tree.context())
            }),
            pick: Arc::new(pick.clone()),
            version: Arc::new(tree.version.clone()),
            range: KeyRange::default(),
            remote: None,
            keeps_outputs: false,
        };
        let error = compact::run(&job).unwrap_err();
        assert!(error.text().contains(&path), "{error}");
        assert!(error.text().contains(named), "{error}");
    }
}
