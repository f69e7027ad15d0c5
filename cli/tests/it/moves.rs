//! `checkpoint`, `export`, `import`, `ingest`, `repair`, `destroy`.

use std::fs;
use std::path::{Path, PathBuf};

use crate::{printed, refused, text};

fn tables(db: &Path) -> Vec<PathBuf> {
    let names = fs::read_dir(db).unwrap().map(|entry| entry.unwrap().path());
    let mut tables: Vec<PathBuf> = names
        .filter(|path| path.extension().is_some_and(|extension| extension == "sst"))
        .collect();
    tables.sort();
    tables
}

fn filled(dir: &Path) -> PathBuf {
    let db = dir.join("db");
    for key in ["agate", "quartz"] {
        printed(&["put", "--db", text(&db), "--create", key, "SiO2"]);
        printed(&["flush", "--db", text(&db)]);
    }
    db
}

#[test]
fn a_database_is_copied_exported_and_imported() {
    let dir = tempfile::tempdir().unwrap();
    let db = filled(dir.path());
    let copy = dir.path().join("copy");
    printed(&["checkpoint", "--db", text(&db), "--to", text(&copy)]);
    printed(&["delete", "--db", text(&db), "agate"]);
    assert_eq!(printed(&["get", "--db", text(&copy), "agate"]), "SiO2\n");
    let export = dir.path().join("export");
    // What an interrupted export has left is replaced.
    let part = dir.path().join(".export.cairn-export");
    std::fs::create_dir(&part).unwrap();
    std::fs::write(part.join("cairn-export.json"), "{").unwrap();
    let with_slash = format!("{}/", text(&export));
    printed(&["export", "--db", text(&copy), "--to", &with_slash]);
    assert!(!part.exists());
    assert!(refused(&["export", "--db", text(&copy), "--to", text(&export)]).contains("exists"));
    printed(&[
        "import",
        "--db",
        text(&db),
        "--family",
        "old",
        text(&export),
    ]);
    let found = printed(&["get", "--db", text(&db), "--family", "old", "agate"]);
    assert_eq!(found, "SiO2\n");
    let other = dir.path().join("other");
    let table = tables(&copy).remove(0);
    refused(&["ingest", "--db", text(&other), "--create", text(&table)]);
    printed(&["ingest", "--db", text(&other), "--db-files", text(&table)]);
    assert!(printed(&["scan", "--db", text(&other), "--count"]).starts_with('1'));
    assert!(refused(&["destroy", "--db", text(&other)]).contains("--yes"));
    printed(&["destroy", "--db", text(&other), "--yes"]);
    assert!(!other.exists());
}

#[test]
fn a_repair_reports_possible_losses() {
    let dir = tempfile::tempdir().unwrap();
    let db = filled(dir.path());
    let table = tables(&db).remove(0);
    let mut bytes = fs::read(&table).unwrap();
    bytes[3] ^= 1;
    fs::write(&table, bytes).unwrap();
    let said = refused(&["repair", "--db", text(&db), "--quarantine", "all-damaged"]);
    assert!(said.contains("between agate and agate"), "{said}");
    assert!(db.join("lost").join(table.file_name().unwrap()).exists());
    assert_eq!(printed(&["get", "--db", text(&db), "quartz"]), "SiO2\n");
    fs::remove_file(db.join("CURRENT")).unwrap();
    let said = printed(&["repair", "--db", text(&db)]);
    assert!(said.contains("a new one was built"), "{said}");
    assert_eq!(printed(&["get", "--db", text(&db), "quartz"]), "SiO2\n");
}
