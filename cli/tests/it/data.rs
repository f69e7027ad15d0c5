//! Writing and reading data.

use std::fs;
use std::process::Command;

use tempfile::TempDir;

use crate::{cairn, cairn_with, printed, refused, text};

/// Returns a directory, and the path of a missing database in it.
fn place() -> (TempDir, String) {
    let dir = tempfile::tempdir().unwrap();
    let db = text(&dir.path().join("db")).to_owned();
    (dir, db)
}

#[test]
fn a_key_is_found_until_it_is_deleted() {
    let (_dir, db) = place();
    refused(&["put", "--db", &db, "quartz", "SiO2"]);
    printed(&["put", "--db", &db, "--create", "--sync", "quartz", "SiO2"]);
    printed(&["put", "--db", &db, "--key-hex", "--value-hex", "00ff", "0a"]);
    assert_eq!(printed(&["get", "--db", &db, "quartz"]), "SiO2\n");
    assert_eq!(printed(&["get", "--db", &db, "--key-hex", "00ff"]), "\\n\n");
    assert_eq!(
        printed(&["get", "--db", &db, "--key-hex", "--format", "raw", "00ff"]),
        "\n"
    );
    assert_eq!(
        printed(&["scan", "--db", &db]),
        "\\x00\\xff : \\n\nquartz : SiO2\n"
    );
    printed(&["delete", "--db", &db, "quartz"]);
    refused(&["get", "--db", &db, "quartz"]);
    printed(&["delete", "--db", &db, "--range", "", "zzz"]);
    assert_eq!(printed(&["scan", "--db", &db, "--count"]), "0\n");
}

#[test]
fn every_format_is_loaded() {
    let (dir, db) = place();
    for (name, content) in [
        ("a.csv", "name,formula\nquartz,\"SiO2, pure\"\n"),
        ("b.tsv", "galena\tPbS\n"),
        (
            "c.jsonl",
            "{\"key\":\"pyrite\",\"value\":\"FeS2\"}\n{\"key\":\"n\",\"value\":7}\n",
        ),
        ("d.txt", "halite NaCl and more\n"),
    ] {
        let file = dir.path().join(name);
        fs::write(&file, content).unwrap();
        let header: &[&str] = if name == "a.csv" { &["--header"] } else { &[] };
        printed(&[&["load", "--db", &db][..], header, &[text(&file)]].concat());
    }
    let output = cairn_with(
        &["load", "--db", &db, "--batch", "1", "-"],
        "calcite CaCO3\n",
    );
    assert!(output.status.success());
    // A pipe with a name, as that of a process substitution.
    let output = cairn_with(&["load", "--db", &db, "/dev/stdin"], "borax Na2B4O7\n");
    assert!(output.status.success());
    let rows = "borax : Na2B4O7\ncalcite : CaCO3\ngalena : PbS\nhalite : NaCl and more\nn : 7\npyrite : FeS2\nquartz : SiO2, pure\n";
    assert_eq!(printed(&["scan", "--db", &db]), rows);
    assert_eq!(
        printed(&[
            "scan",
            "--db",
            &db,
            "--from",
            "g",
            "--to",
            "n",
            "--keys-only"
        ]),
        "galena\nhalite\n"
    );
    assert_eq!(
        printed(&["scan", "--db", &db, "--prefix", "p", "--format", "hex"]),
        "707972697465 : 46655332\n"
    );
    assert_eq!(
        printed(&["scan", "--db", &db, "--reverse", "--limit", "1"]),
        "quartz : SiO2, pure\n"
    );
}

#[test]
fn a_dump_is_restored() {
    let golden = crate::golden::unpacked("v1109_multi_cf");
    let source = golden.path().join("db");
    let dump = printed(&[
        "scan",
        "--db",
        text(&source),
        "--all-families",
        "--format",
        "jsonl",
    ]);
    let (_dir, db) = place();
    let output = cairn_with(
        &[
            "load",
            "--db",
            &db,
            "--format",
            "jsonl",
            "--disable-wal",
            "-",
        ],
        &dump,
    );
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    printed(&["flush", "--db", &db]);
    printed(&["compact", "--db", &db, "--all-families", "--bottommost"]);
    assert!(printed(&["verify", "--db", &db]).ends_with("no damage\n"));
    let again = printed(&["scan", "--db", &db, "--all-families", "--format", "jsonl"]);
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted(&again), sorted(&dump));
}

#[test]
fn invalid_arguments_are_explained() {
    let (dir, db) = place();
    assert!(refused(&["scan", "--db", &db]).contains("db"));
    let file = dir.path().join("bad.csv");
    fs::write(&file, "a,1\nlonely\n").unwrap();
    let said = refused(&["load", "--db", &db, text(&file)]);
    assert!(
        said.contains("bad.csv") && said.contains("line 2"),
        "{said}"
    );
    printed(&["put", "--db", &db, "--create", "a", "1"]);
    assert!(refused(&["scan", "--db", &db, "--family", "x"]).contains("default"));
    assert!(refused(&["scan", "--db", &db, "--options", "nosuch=1"]).contains("nosuch"));
    let said = refused(&[
        "put",
        "--db",
        &db,
        "--options",
        "compression_manager=theirs",
        "a",
        "1",
    ]);
    assert!(said.contains("compression_manager"), "{said}");
    assert!(refused(&["frobnicate"]).contains("frobnicate"));
}

/// Regression: a missing database and a missing key had the same exit code.
#[test]
fn exit_codes_tell_a_missing_key_from_an_error() {
    let (_dir, db) = place();
    let code = |arguments: &[&str]| cairn(arguments).status.code();
    assert_eq!(code(&["get", "--db", &db, "a"]), Some(2));
    printed(&["put", "--db", &db, "--create", "a", "1"]);
    assert_eq!(code(&["get", "--db", &db, "a"]), Some(0));
    assert_eq!(code(&["get", "--db", &db, "b"]), Some(1));
    assert_eq!(code(&["get", "--db", &db, "--key-hex", "xy"]), Some(2));
    assert_eq!(code(&["get", "--db", &db, "--family", "x", "a"]), Some(2));
    assert_eq!(code(&["destroy", "--db", &db]), Some(2));
}

/// Regression: a message for a closed pipe was a panic, and a value larger than the buffer was an error if its reader
/// ended early.
#[test]
fn closed_pipes_are_no_errors() {
    let (dir, db) = place();
    let file = dir.path().join("a.txt");
    fs::write(&file, format!("a {}\n", "x".repeat(1 << 20))).unwrap();
    printed(&["load", "--db", &db, text(&file)]);
    let closed = || {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        writer
    };
    let get = |key: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cairn"));
        command.args(["get", "--db", &db, "--format", "raw", key]);
        command
    };
    let output = get("a").stdout(closed()).output().unwrap();
    assert!(
        output.status.success() && output.stderr.is_empty(),
        "{output:?}"
    );
    let output = get("b").stderr(closed()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn option_strings_may_mix_database_and_family_options() {
    let (_dir, db) = place();
    let options = "create_if_missing=true;max_background_jobs=4;merge_operator=uint64add;\
                   block_based_table_factory={format_version=5}";
    printed(&[
        "put",
        "--db",
        &db,
        "--create",
        "--options",
        options,
        "a",
        "1",
    ]);
    // The OPTIONS file records the given options in RocksDB's form.
    let names = fs::read_dir(&db)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = names
        .filter(|path| text(path).contains("OPTIONS-"))
        .collect();
    files.sort();
    let shown = printed(&["inspect", text(files.last().unwrap())]);
    for statement in [
        "max_background_jobs=4",
        "merge_operator=UInt64AddOperator",
        "format_version=5",
    ] {
        assert!(shown.contains(statement), "{statement} in {shown}");
    }
}

/// Regression test: a write was missing from later reads, because best-efforts recovery, which
/// reads no WALs, was taken over from the OPTIONS file of an earlier open.
#[test]
fn best_efforts_recovery_applies_to_one_open_only() {
    let (_dir, db) = place();
    printed(&["put", "--db", &db, "--create", "a", "1"]);
    let once = ["--options", "best_efforts_recovery=true"];
    printed(&[&["flush", "--db", &db][..], &once].concat());
    printed(&[&["put", "--db", &db, "b", "2"][..], &once].concat());
    assert_eq!(printed(&["get", "--db", &db, "b"]), "2\n");
    printed(&["put", "--db", &db, "c", "3"]);
    assert_eq!(printed(&["get", "--db", &db, "b"]), "2\n");
}

#[test]
fn the_memory_of_every_table_is_shown() {
    let (dir, db) = place();
    let file = dir.path().join("a.txt");
    let rows: Vec<String> = (0..1000).map(|n| format!("key{n} value{n}\n")).collect();
    fs::write(&file, rows.concat()).unwrap();
    printed(&["load", "--db", &db, text(&file)]);
    printed(&["flush", "--db", &db]);
    let table = printed(&["memory", "--db", &db]);
    assert!(
        table.contains("block cache of 32.0 MiB (default)"),
        "{table}"
    );
    assert!(table.contains("default: open tables (1)"), "{table}");
    assert!(
        table.lines().last().unwrap().starts_with("total"),
        "{table}"
    );
    let json = printed(&["memory", "--db", &db, "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let family = &json["families"][0];
    assert_eq!(family["tables"]["open"], 1);
    assert!(family["tables"]["bytes"].as_u64().unwrap() > 500);
    assert!(json["total"].as_u64() > family["tables"]["bytes"].as_u64());
    assert_eq!(json["iterators"]["open"], 0);
    // If charged, the tables leave less room for blocks in the cache.
    let options = "block_based_table_factory={cache_usage_options={options=kEnabled}}";
    let table = printed(&["memory", "--db", &db, "--options", options]);
    assert!(
        table.contains("  charged: BlockBasedTableReader"),
        "{table}"
    );
    assert!(table.contains("  charged: FileMetadata"), "{table}");
}
