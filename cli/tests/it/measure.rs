//! `bench` with few entries: output, checks, and protection of other data.

use crate::{printed, refused, text};

#[test]
fn the_default_benchmarks_print_db_bench_lines() {
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("db");
    let report = printed(&[
        "bench",
        "-num=2000",
        "--db",
        text(&db),
        "--write_buffer_size=64K",
    ]);
    let names = "fillseq,fillrandom,overwrite,readrandom,readmissing,seekrandom,readseq,readreverse,compact";
    for name in names.split(',') {
        let line = report
            .lines()
            .find(|line| line.starts_with(&format!("{name:<12} :")));
        let line = line.unwrap_or_else(|| panic!("no {name} in {report}"));
        assert!(
            line.contains(" micros/op ") && line.contains(" operations;"),
            "{line}"
        );
    }
    assert!(report.contains("(0 of 2000 found)"), "{report}");
    // Each benchmark draws its own random keys, so some of the keys read were never written.
    let found = report.lines().find(|line| line.starts_with("readrandom"));
    assert!(!found.unwrap().contains("(2000 of 2000 found)"), "{report}");
    assert!(report.contains("Percentiles: P50:"));
}

/// Regression: an engine that cannot be loaded was found only after a round of the engines before it, and an
/// empty list of benchmarks was accepted.
#[test]
fn engines_are_checked_before_the_first_round() {
    let said = refused(&["bench", "--num=100", "--engines=ours,/etc/passwd"]);
    assert!(
        said.contains("no engine /etc/passwd") && !said.contains("round 1"),
        "{said}"
    );
    assert!(refused(&["bench", "--benchmarks="]).contains("--benchmarks"));
}

/// Regression: the results of a long run were lost if the JSON file could not be written.
#[test]
fn a_report_that_cannot_be_written_does_not_cost_the_table() {
    let dir = tempfile::tempdir().unwrap();
    let (db, json) = (dir.path().join("db"), dir.path().join("none/x.json"));
    let (db, json) = (text(&db), text(&json));
    let arguments = [
        "bench",
        "--num=100",
        "--benchmarks=fillseq",
        "--db",
        db,
        "--json",
        json,
    ];
    let said = refused(&arguments);
    assert!(said.contains("x.json"), "{said}");
    assert!(
        said.lines().any(|line| line.starts_with("fillseq   ours")),
        "{said}"
    );
}

#[test]
fn an_existing_database_is_read_and_other_benchmarks_run() {
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("db");
    let db = text(&db);
    printed(&["bench", "--num=500", "--db", db, "--benchmarks=fillseq"]);
    let names = "readrandom,readhot,multireadrandom,updaterandom,readrandomwriterandom,\
                 readwhilewriting,seekrandomwhilewriting,deleterandom,deleteseq,flush,\
                 waitforcompaction,levelstats,fillbatch,fillsync,filluniquerandom,fill100K,filltombstones,stats,fillseqdeterministic,ycsbb,ycsbc";
    let report = printed(&[
        "bench",
        "--num=500",
        "--db",
        db,
        "--use_existing_db",
        "--threads=2",
        "--seek_nexts=3",
        "--histogram=0",
        &format!("--benchmarks={names}"),
    ]);
    assert!(
        report.contains("readrandom   :") && report.contains("(1000 of 1000 found)"),
        "{report}"
    );
    let merges = "--options=merge_operator=stringappend";
    printed(&[
        "bench",
        "--num=100",
        "--db",
        db,
        "--use_existing_db",
        merges,
        "--benchmarks=mergerandom,readseq",
    ]);
}

/// Regression: a missing database was created, and none of its entries found.
#[test]
fn a_missing_database_is_not_created() {
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("db");
    let said = refused(&[
        "bench",
        "--use_existing_db",
        "--benchmarks=readrandom",
        "--num=10",
        "--db",
        text(&db),
    ]);
    assert!(said.contains("there is no database in"), "{said}");
    assert!(!db.exists());
}

#[test]
fn a_foreign_database_is_not_erased() {
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("db");
    printed(&["put", "--create", "--db", text(&db), "a", "1"]);
    let said = refused(&["bench", "--num=10", "--db", text(&db)]);
    assert!(said.contains("not erased"), "{said}");
    assert_eq!(printed(&["get", "--db", text(&db), "a"]), "1\n");
    assert!(refused(&["bench", "--benchmarks=nosuch", "--num=1"]).contains("nosuch"));
}

#[test]
fn two_engines_are_compared_in_separate_processes() {
    let dir = tempfile::tempdir().unwrap();
    let (db, json) = (dir.path().join("db"), dir.path().join("out.json"));
    let html = dir.path().join("out.html");
    let report = printed(&[
        "bench",
        "--engines=ours,ours",
        "--rounds=2",
        "-num=1500",
        "--batch_size=10",
        "--db",
        text(&db),
        "--json",
        text(&json),
        "--html",
        text(&html),
        "--benchmarks=fillrandom,readrandom,multireadrandom,seekrandom,readseq,debt",
        "--options=write_buffer_size=64K",
    ]);
    for engine in ["ours  ", "ours#2"] {
        let line = format!("multireadrandom {engine}");
        assert!(report.contains(&line), "no {line:?} in {report}");
    }
    assert!(report.contains("equal in the OPTIONS files"), "{report}");
    assert!(report.contains("seconds to quiet"), "{report}");
    let json: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap();
    assert_eq!(json["labels"][1], "ours#2");
    let read = &json["benchmarks"][1];
    assert_eq!(read["name"], "readrandom");
    for engine in 0..2 {
        let rounds = read["engines"][engine]["rounds"].as_array().unwrap();
        assert_eq!(rounds.len(), 2);
        // Both engines look up the same keys.
        assert_eq!(rounds[0]["found"], read["engines"][0]["rounds"][0]["found"]);
        assert!(rounds[0]["cpu_nanos"].as_u64() > Some(0));
        assert!(rounds[0]["peak_memory_bytes"].as_u64() > Some(1 << 20));
    }
    let ratio = &read["ratios"][0]["clock"];
    assert!(ratio["low"].as_f64() <= ratio["high"].as_f64(), "{ratio}");
    let html = std::fs::read_to_string(html).unwrap();
    assert!(
        html.contains("<svg") && html.contains("seekrandom"),
        "{html}"
    );
    // Six benchmarks in two engines.
    assert_eq!(html.matches("<h3>Memory at the end").count(), 12, "{html}");
    assert!(html.contains("<td>WriteBuffer<td>"), "{html}");
    // Databases in a named directory are kept.
    assert!(db.join("0-ours/CURRENT").exists() && db.join("1-ours#2/CURRENT").exists());
}

#[test]
fn rounds_use_prepared_databases_and_failed_workers_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("db");
    let run = [
        "bench",
        "--engine=ours",
        "--prepare=filluniquerandom,compact",
        "--rounds=2",
        "--num=500",
        "--benchmarks=readrandom,ycsba,ycsbd,ycsbe,ycsbf",
        "--db",
        text(&db),
    ];
    let report = printed(&run);
    assert!(report.contains("ycsbf"), "{report}");
    let said = refused(&["bench", "--engine=/no/such/library.so", "--num=1"]);
    assert!(said.contains("/no/such/library.so"), "{said}");
    let said = refused(&[
        "bench",
        "--engines=ours",
        "--options=nosuch=1",
        "--num=1",
        "--rounds=1",
        "--db",
        text(&db),
    ]);
    assert!(said.contains("the worker of engine ours ended"), "{said}");
    let said = refused(&["bench", "--engines=ours", "--benchmarks=nosuch"]);
    assert!(said.contains("nosuch"), "{said}");
}

/// Returns the found counts in the line of a benchmark.
fn found(report: &str, name: &str) -> Vec<String> {
    let lines = report
        .lines()
        .filter(|line| line.starts_with(&format!("{name:<12} :")));
    let found = |line: &str| Some(line[line.find('(')? + 1..line.find(" found)")?].to_owned());
    lines.filter_map(found).collect()
}

#[test]
fn prefixes_are_scanned_and_missing_ones_are_not_found() {
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("db");
    let run = |more: &[&str]| {
        let usual = [
            "bench",
            "--num=2000",
            "--key_size=24",
            "--prefix_size=12",
            "--keys_per_prefix=10",
            "--bloom_bits=10",
            "--db",
            text(&db),
        ];
        printed(&[&usual[..], more].concat())
    };
    let names =
        "--benchmarks=filluniquerandom,compact,prefixscan,prefixmissing,readrandom,seekrandom";
    let report = run(&[names]);
    for name in ["prefixscan", "readrandom", "seekrandom"] {
        assert_eq!(found(&report, name), ["2000 of 2000"], "{report}");
    }
    assert_eq!(found(&report, "prefixmissing"), ["0 of 2000"], "{report}");
    let report = run(&[
        "--use_existing_db",
        "--keep_iterator",
        "--seek_missing_prefix",
        "--prefix_same_as_start",
        "--seek_nexts=5",
        "--benchmarks=prefixscan,seekrandom",
    ]);
    assert_eq!(found(&report, "prefixscan"), ["2000 of 2000"], "{report}");
    assert_eq!(found(&report, "seekrandom"), ["0 of 2000"], "{report}");
    for (flags, reason) in [
        (&["--benchmarks=prefixscan"][..], "--keys_per_prefix"),
        (&["--keys_per_prefix=5"][..], "--prefix_size"),
        (&["--prefix_size=17"][..], "--key_size"),
        (
            &[
                "--prefix_size=8",
                "--keys_per_prefix=5",
                "--benchmarks=prefixmissing",
            ][..],
            "above 8",
        ),
    ] {
        let usual = ["bench", "--num=10", "--db", text(&db)];
        let said = refused(&[&usual[..], flags].concat());
        assert!(said.contains(reason), "{said}");
    }
}

#[test]
fn mixes_verify_values_and_keep_them_verifiable() {
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("db");
    let run = |names: &str, more: &[&str]| {
        let names = format!("--benchmarks={names}");
        let usual = ["bench", "--num=3000", "--db", text(&db), &names];
        printed(&[&usual[..], more].concat())
    };
    let mix = [
        "--mix_put_ratio=0.5",
        "--mix_seek_ratio=0.5",
        "--key_dist_a=0.002312",
        "--key_dist_b=0.3467",
    ];
    let report = run("filluniquerandom,mixgraph,mixgraph,readrandom", &mix);
    assert_eq!(found(&report, "readrandom"), ["3000 of 3000"], "{report}");
    // A second process reads and verifies values of all lengths.
    let report = run("readrandom,readseq", &["--use_existing_db"]);
    assert_eq!(found(&report, "readrandom"), ["3000 of 3000"], "{report}");
    let report = run(
        "filllinkbench,linkbench",
        &["--threads=2", "--write_buffer_size=64K"],
    );
    assert!(report.contains("linkbench    :"), "{report}");
    let report = run("linkbench", &["--use_existing_db"]);
    assert!(!found(&report, "linkbench").is_empty(), "{report}");
}

#[test]
fn open_tombstones_and_operands_are_measured() {
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("db");
    let run = |names: &str, more: &[&str]| {
        let names = format!("--benchmarks={names}");
        let usual = ["bench", "--num=1000", "--db", text(&db), &names];
        printed(&[&usual[..], more].concat())
    };
    let report = run("filluniquerandom,open,readrandom", &["--reads=3"]);
    assert_eq!(found(&report, "open"), ["3 of 3"], "{report}");
    assert!(report.contains("milliseconds to open: "), "{report}");
    let report = run("fillrangetombstones,readseq", &[]);
    assert!(report.contains(" 10 operations;"), "{report}");
    let operator = ["--merge_operator=stringappend"];
    let report = run("filloperands,readrandom", &operator);
    assert_eq!(found(&report, "readrandom"), ["1000 of 1000"], "{report}");
    let report = run("readrandomoperands", &[operator[0], "--use_existing_db"]);
    assert_eq!(
        found(&report, "readrandomoperands"),
        ["1000 of 1000"],
        "{report}"
    );
}

#[test]
fn ranges_are_scanned_in_one_call_and_one_after_another() {
    let dir = tempfile::tempdir().unwrap();
    let report = printed(&[
        "bench",
        "--benchmarks=fillseq,multiscan,rangescans",
        "--num=10000",
        "--reads=200",
        "--multiscan_size=20",
        "--seek_nexts=30",
        "--fs_latency_us=100",
        "--db",
        text(&dir.path().join("db")),
    ]);
    for name in ["multiscan", "rangescans"] {
        assert_eq!(found(&report, name), ["6000 of 6000"], "{report}");
    }
}

/// The figures printed under `name: `.
fn figures(report: &str, name: &str) -> Vec<f64> {
    let start = format!("{name}: ");
    let values = report.lines().filter_map(|line| line.strip_prefix(&start));
    values.map(|value| value.parse().unwrap()).collect()
}

#[test]
fn caches_without_a_database_have_about_the_wanted_hits() {
    let report = printed(&[
        "bench",
        "--benchmarks=cache95t1,cache60t3",
        "--engine=ours+lru",
        "--cache_size=16M",
        "--cache_numshardbits=0",
        "--reads=30000",
    ]);
    assert_eq!(figures(&report, "keys").len(), 2, "{report}");
    let hits = figures(&report, "hits in percent");
    // Entries that were hit once are kept longer than in the queue by age that the keys are chosen for.
    assert!((94.0..99.0).contains(&hits[0]), "{report}");
    assert!((59.0..72.0).contains(&hits[1]), "{report}");
    let error = refused(&["bench", "--benchmarks=cache95", "--engine=ours"]);
    assert!(error.contains("unknown benchmark cache95"), "{error}");
}

#[test]
fn blobs_are_read_with_each_cache() {
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("db");
    let report = printed(&[
        "bench",
        "--benchmarks=blobcache",
        "--num=3000",
        "--reads=1000",
        "--threads=3",
        "--db",
        text(&db),
    ]);
    for name in ["data block misses", "block misses", "all misses"] {
        let misses = figures(&report, name);
        assert_eq!(misses.len(), 3, "{report}");
        assert!(misses.iter().all(|count| *count > 0.0), "{report}");
    }
    for part in ["lru", "pools", "fast"] {
        let name = format!("blobcache-{part}");
        assert!(!found(&report, &name).is_empty(), "{report}");
    }
    assert!(db.join("CAIRN_BENCH").exists());
    let files = std::fs::read_dir(&db).unwrap();
    let names = files.map(|file| file.unwrap().file_name());
    assert!(
        names
            .into_iter()
            .any(|name| text(name.as_ref()).ends_with(".blob"))
    );
}

#[test]
fn operations_are_spread_over_several_databases() {
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("db");
    let usual = ["bench", "--num=300", "--num_multi_db=4", "--db", text(&db)];
    let run = |more: &[&str]| printed(&[&usual[..], more].concat());
    let names = "filluniquerandom,flush,readrandom,readwhilewriting,seekrandom,seekrandomwhilewriting,\
                 multireadrandom,updaterandom,compact";
    let report = run(&[&format!("--benchmarks={names}"), "--threads=2"]);
    assert!(report.contains("Databases:  4"), "{report}");
    assert!(report.contains(" 2400 operations;"), "{report}");
    assert_eq!(found(&report, "readrandom"), ["600 of 600"], "{report}");
    assert_eq!(found(&report, "seekrandom"), ["600 of 600"], "{report}");
    let reads = figures(&report, "read calls per operation");
    assert_eq!(reads.len(), 6, "{report}");
    for database in 0..4 {
        assert!(db.join(database.to_string()).join("CURRENT").exists());
    }
    let report = run(&[
        "--benchmarks=seekrandom",
        "--use_existing_db",
        "--keep_iterator",
        "--seek_nexts=3",
        "--cache_type=hyper_clock_cache",
    ]);
    assert_eq!(found(&report, "seekrandom"), ["300 of 300"], "{report}");
    let error = refused(&[&usual[..], &["--benchmarks=linkbench"]].concat());
    assert!(error.contains("without --num_multi_db"), "{error}");
}

#[test]
fn a_budget_scales_the_graph_and_reads_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("db");
    let report = printed(&[
        "bench",
        "--benchmarks=filllinkbench,waitforcompaction,linkbench",
        "--memory-budget=24M",
        "--data_per_memory=1",
        "--cache_type=hyper_clock_cache",
        "--use_direct_reads",
        "--use_direct_io_for_flush_and_compaction",
        "--compression_type=none",
        "--reads=5000",
        "--threads=2",
        "--db",
        text(&db),
    ]);
    // The default is 7. A compaction that runs at the end has inputs and outputs.
    let times = figures(&report, "tables as a multiple of the memory budget");
    assert!((0.7..2.5).contains(&times[0]), "{report}");
    for name in [
        "storage reads per operation",
        "storage bytes read per operation",
        "read calls per operation",
    ] {
        assert!(figures(&report, name)[0] > 0.0, "{report}");
    }
    let found = found(&report, "linkbench");
    assert!(!found.is_empty(), "{report}");
}

#[test]
fn a_budget_holds_when_measured_from_outside() {
    let dir = tempfile::tempdir().unwrap();
    let report = printed(&[
        "bench",
        "--benchmarks=memory-reads,memory-blobs",
        "--memory_budget=32M",
        "--num=20000",
        "--db",
        text(&dir.path().join("db")),
    ]);
    for name in ["reads", "blobs"] {
        let line = report.lines().find(|line| line.starts_with(name));
        let line = line.unwrap_or_else(|| panic!("no {name} in {report}"));
        let ratio: f64 = line.split_whitespace().last().unwrap().parse().unwrap();
        // The code of a build without optimizations takes more than is kept for it.
        assert!((0.1..2.0).contains(&ratio), "{report}");
    }
}
