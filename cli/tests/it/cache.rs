//! `cache`, on the dump of a benchmark.

use crate::{cairn, printed, refused, text};

#[test]
fn a_dump_is_shown_by_role_family_and_level() {
    let dir = tempfile::tempdir().unwrap();
    let (db, dump) = (dir.path().join("db"), dir.path().join("dump"));
    printed(&[
        "bench",
        "--benchmarks=fillseq,compact,readrandom",
        "--num=2000",
        "--db",
        text(&db),
        "--options=block_based_table_factory={cache_index_and_filter_blocks=true}",
        "--cache_dump",
        text(&dump),
    ]);
    let shown = printed(&["cache", text(&dump)]);
    let lines: Vec<&str> = shown.lines().collect();
    assert!(lines[0].starts_with("role "), "{shown}");
    let fields = |line: &str| {
        let fields = line.split_whitespace().map(str::to_owned);
        fields.collect::<Vec<_>>()
    };
    let data = fields(
        lines
            .iter()
            .find(|line| line.starts_with("DataBlock "))
            .unwrap(),
    );
    let index = fields(
        lines
            .iter()
            .find(|line| line.starts_with("IndexBlock "))
            .unwrap(),
    );
    assert_eq!(data.len(), 9, "{shown}");
    assert_eq!((&*data[1], &*index[1], &*index[3]), ("0", "0", "1"));
    let json: serde_json::Value =
        serde_json::from_str(&printed(&["cache", "--json", text(&dump)])).unwrap();
    let groups = json["groups"].as_array().unwrap();
    let group = groups
        .iter()
        .find(|group| group["role"] == "DataBlock")
        .unwrap();
    assert_eq!(group["entries"].to_string(), data[3]);
    assert_eq!(group["bytes"].to_string(), data[4]);
    assert_eq!(
        (&group["family"], &group["family_id"]),
        (&().into(), &0.into())
    );
    let last = format!("{} entries, {} bytes", json["entries"], json["bytes"]);
    assert_eq!(lines.last(), Some(&&*last));
    let named = printed(&["cache", "--db", text(&db), text(&dump)]);
    assert!(named.contains(" default "), "{named}");

    // Damage, a file of another kind, and no file.
    let mut bytes = std::fs::read(&dump).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&dump, bytes).unwrap();
    let said = refused(&["cache", text(&dump)]);
    assert!(
        said.contains("Corruption") && said.contains("checksum"),
        "{said}"
    );
    let current = db.join("CURRENT");
    assert!(refused(&["cache", text(&current)]).contains("Corruption"));
    assert!(refused(&["cache", text(&dir.path().join("none"))]).contains("none"));
}

#[test]
fn only_one_database_of_this_engine_is_dumped() {
    let dir = tempfile::tempdir().unwrap();
    let (db, dump) = (dir.path().join("db"), dir.path().join("dump"));
    let mut arguments = vec![
        "bench",
        "--num=10",
        "--benchmarks=fillseq",
        "--cache_dump",
        text(&dump),
        "--db",
        text(&db),
        "--num_multi_db=2",
    ];
    assert!(refused(&arguments).contains("single database"));
    *arguments.last_mut().unwrap() = "--engines=ours,ours";
    assert_eq!(cairn(&arguments).status.code(), Some(2));
    assert!(!dump.exists());
}
