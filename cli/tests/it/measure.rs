//! `bench` on a few entries: its lines, its checks, its care for what it did not make.

use crate::{printed, refused, text};

#[test]
fn the_default_benchmarks_run_and_their_lines_are_db_benchs() {
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
    // Keys are drawn anew for each benchmark: some that are read were never written.
    let found = report.lines().find(|line| line.starts_with("readrandom"));
    assert!(!found.unwrap().contains("(2000 of 2000 found)"), "{report}");
    assert!(report.contains("Percentiles: P50:"));
}

#[test]
fn an_existing_database_is_read_and_other_benchmarks_run() {
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("db");
    let db = text(&db);
    printed(&["bench", "--num=500", "--db", db, "--benchmarks=fillseq"]);
    let names = "readrandom,readhot,multireadrandom,updaterandom,readrandomwriterandom,\
                 readwhilewriting,seekrandomwhilewriting,deleterandom,deleteseq,flush,\
                 waitforcompaction,levelstats,fillbatch,fillsync,filluniquerandom,fill100K";
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

#[test]
fn a_database_of_somebody_else_is_not_erased() {
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("db");
    printed(&["put", "--create", "--db", text(&db), "a", "1"]);
    let said = refused(&["bench", "--num=10", "--db", text(&db)]);
    assert!(said.contains("not erased"), "{said}");
    assert_eq!(printed(&["get", "--db", text(&db), "a"]), "1\n");
    assert!(refused(&["bench", "--benchmarks=nosuch", "--num=1"]).contains("nosuch"));
}
