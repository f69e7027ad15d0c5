//! `trace`, on traces of a database and of RocksDB.

use std::path::Path;

use cairn::trace::TraceOptions;
use cairn::{Db, Options, WriteBatch};
use cairn_format::trace::block_cache::{Access, WriterVersion, begin};
use cairn_format::trace::io::{IoOperation, STATUS_OK};
use cairn_format::trace::{METADATA_LEN, Metadata};
use serde_json::{Value, json};

use crate::{cairn, printed, refused, text};

/// A trace that RocksDB 11.12 wrote.
fn golden(name: &str) -> String {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = dir.join("../crates/cairn-format/testdata").join(name);
    text(&path).to_owned()
}

fn parsed(arguments: &[&str]) -> Value {
    serde_json::from_str(&printed(arguments)).expect("JSON")
}

/// The member `sum` of the only row of `table` with the members `group`.
fn sum(table: &Value, group: &Value, sum: &str) -> Value {
    let matches = |row: &&Value| {
        let mut members = group.as_object().unwrap().iter();
        members.all(|(name, value)| &row[name] == value)
    };
    let rows: Vec<_> = table.as_array().unwrap().iter().filter(matches).collect();
    assert_eq!(rows.len(), 1, "{group} in {table}");
    rows[0][sum].clone()
}

#[test]
fn a_query_trace_is_counted_by_operation_and_family() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options::default().create_if_missing(true);
    let db = Db::open(dir.path().join("db"), &options).unwrap();
    let trace = dir.path().join("queries.trace");
    db.start_trace(&trace, &TraceOptions::default()).unwrap();
    let mut batch = WriteBatch::new();
    batch.put(b"granite", b"igneous");
    batch.put(b"chalk", b"sedimentary");
    batch.delete(b"slate\n");
    db.write(&batch).unwrap();
    db.get(b"granite").unwrap();
    db.get(b"chalk").unwrap();
    for entry in db.range("a".."d") {
        entry.unwrap();
    }
    db.end_trace().unwrap();
    let trace = text(&trace);

    let summary = parsed(&["trace", "--json", trace]);
    let queries = &summary["queries"];
    for (operation, family, count) in [
        ("get", "0", 2),
        ("put", "0", 2),
        ("delete", "0", 1),
        ("write", "-", 1),
        ("seek", "0", 1),
    ] {
        let group = json!({"operation": operation, "family": family});
        assert_eq!(sum(queries, &group, "count"), count, "{operation}");
    }
    let shown = printed(&["trace", trace]);
    assert!(shown.starts_with("operation  family  count\n"), "{shown}");
    let records = printed(&["trace", "--records", trace]);
    let lines: Vec<&str> = records.lines().collect();
    assert_eq!(lines.len(), 4, "{records}");
    assert!(lines[0].contains(r#"["delete",0,"slate\\n"]"#), "{records}");
    assert!(lines[1].ends_with(" get family=0 key=granite"), "{records}");
    assert!(
        lines[3].ends_with(" seek family=0 key=a lower=a upper=d"),
        "{records}"
    );
    let as_json = printed(&["trace", "--records", "--json", trace]);
    let second: Value = serde_json::from_str(as_json.lines().nth(1).unwrap()).unwrap();
    assert_eq!(
        (&second["operation"], &second["key"]),
        (&json!("get"), &json!("granite"))
    );
}

#[test]
fn a_block_cache_trace_has_hit_ratios() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options::default().create_if_missing(true);
    let db = Db::open(dir.path().join("db"), &options).unwrap();
    db.put(b"granite", b"igneous").unwrap();
    db.flush().unwrap();
    let trace = dir.path().join("lookups.trace");
    db.start_block_cache_trace(&trace, &Default::default())
        .unwrap();
    for _ in 0..4 {
        db.get(b"granite").unwrap().unwrap();
    }
    db.end_block_cache_trace().unwrap();
    let summary = parsed(&["trace", "--json", text(&trace)]);
    let group = json!({"block": "data", "family": "default", "level": "0"});
    let lookups = &summary["lookups"];
    assert_eq!(sum(lookups, &group, "lookups"), 4);
    assert_eq!(sum(lookups, &group, "hits"), 3);
    assert_eq!(sum(lookups, &group, "hit_ratio"), 0.75);
    let by_get = json!({"caller": "get"});
    assert_eq!(sum(&summary["callers"], &by_get, "hits"), 3);

    // RocksDB's.
    let lookups = golden("lookups_11_12.trace");
    let summary = parsed(&["trace", "--json", &lookups]);
    let compaction = json!({"caller": "compaction"});
    assert_eq!(sum(&summary["callers"], &compaction, "lookups"), 7);
    let data = json!({"block": "data", "family": "default", "level": "6"});
    assert_eq!(sum(&summary["lookups"], &data, "hits"), 0);
    let records = printed(&["trace", "--records", &lookups]);
    assert_eq!(records.lines().count(), 35);
    assert!(
        records.lines().nth(2).unwrap().ends_with(
            " lookup block=data hit=false size=4192 family=default level=0 file=9 caller=get no_insert=false get=1 \
             at_snapshot=false key=key00100 found=true entry_size=51 keys_in_block=89"
        ),
        "{records}"
    );
}

#[test]
fn an_io_trace_has_bytes_and_errors() {
    let io = golden("io_11_12.trace");
    let summary = parsed(&["trace", "--json", &io]);
    let operations = &summary["operations"];
    let written = json!({"operation": "Append", "files": "sst"});
    assert_eq!(sum(operations, &written, "count"), 2);
    assert_eq!(sum(operations, &written, "bytes"), 1496 + 16248);
    assert_eq!(sum(operations, &written, "errors"), 0);
    let manifest = json!({"operation": "Append", "files": "MANIFEST"});
    assert_eq!(sum(operations, &manifest, "bytes"), 99 + 16 + 102);
    let records = printed(&["trace", "--records", &io]);
    let first = records.lines().next().unwrap();
    assert!(first.contains(" operation name=Read file=000009.sst status=OK nanos="));
    assert!(first.ends_with(" len=4079 offset=4077"), "{first}");
}

/// Sums of a trace that exceed 64 bits are the maximum.
#[test]
fn a_trace_with_huge_numbers_is_summed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("huge.trace");
    let version = WriterVersion {
        major: 11,
        minor: 12,
    };
    let operation = IoOperation {
        operation: b"Append",
        status: STATUS_OK,
        file: b"000009.sst",
        nanos: u64::MAX,
        len: Some(u64::MAX),
        ..IoOperation::default()
    };
    let lookups = std::fs::read(golden("lookups_11_12.trace")).unwrap();
    let first = &lookups[begin(0, version).len()..];
    let metadata = Metadata::decode(first).unwrap();
    let payload = &first[METADATA_LEN..][..metadata.payload_len as usize];
    let mut access = Access::decode(metadata.kind, payload).unwrap();
    access.block_size = u64::MAX;
    access.is_hit = false;
    let (mut operations, mut lookups) = (begin(0, version), begin(0, version));
    for _ in 0..2 {
        assert!(operation.encode(0, &mut operations) && access.encode(0, &mut lookups));
    }
    std::fs::write(&path, operations).unwrap();
    let summary = parsed(&["trace", "--json", text(&path)]);
    let appended = json!({"operation": "Append", "files": "sst"});
    let operations = &summary["operations"];
    assert_eq!(sum(operations, &appended, "count"), 2);
    assert_eq!(sum(operations, &appended, "bytes"), u64::MAX);
    assert_eq!(sum(operations, &appended, "micros"), u64::MAX / 1000);
    std::fs::write(&path, lookups).unwrap();
    let summary = parsed(&["trace", "--json", text(&path)]);
    let rows = summary["lookups"].as_array().unwrap();
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0]["missed_bytes"], u64::MAX);
}

#[test]
fn damage_is_reported_after_what_precedes_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("damaged.trace");
    let whole = std::fs::read(golden("io_11_12.trace")).unwrap();
    std::fs::write(&path, &whole[..whole.len() - 1]).unwrap();
    let said = refused(&["trace", "--records", text(&path)]);
    assert_eq!(said.matches(" operation name=").count(), 39, "{said}");
    assert!(
        said.contains("Corruption: trace record is truncated"),
        "{said}"
    );
    let said = refused(&["trace", text(&path)]);
    assert!(
        said.contains("MultiRead") && said.contains("Corruption"),
        "{said}"
    );

    // A record of another kind of trace, a header alone, no trace, and no file.
    let lookups = std::fs::read(golden("lookups_11_12.trace")).unwrap();
    let mut query = lookups[..38].to_vec();
    query.extend([0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0]);
    std::fs::write(&path, query).unwrap();
    let said = refused(&["trace", text(&path)]);
    assert!(
        said.contains("kind 4") && said.contains("damaged.trace"),
        "{said}"
    );
    std::fs::write(&path, &lookups[..38]).unwrap();
    assert_eq!(printed(&["trace", text(&path)]), "no records\n");
    assert_eq!(printed(&["trace", "--json", text(&path)]), "{}\n");
    std::fs::write(&path, b"not a trace, but long enough for one").unwrap();
    assert!(refused(&["trace", text(&path)]).contains("Corruption"));
    std::fs::write(&path, b"").unwrap();
    assert!(refused(&["trace", text(&path)]).contains("is empty"));
    assert!(
        !cairn(&["trace", text(&dir.path().join("none"))])
            .status
            .success()
    );
}
