//! The command `backup`.

use std::fs;

use crate::golden::unpacked;
use crate::{printed, refused, text};

#[test]
fn backups_are_created_listed_verified_restored_and_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let (db, backups) = (dir.path().join("db"), dir.path().join("backups"));
    let (db, backups) = (text(&db), text(&backups));
    printed(&["put", "--db", db, "--create", "quartz", "SiO2"]);
    let create = ["backup", "create", "--db", db, "--backups", backups];
    let first = printed(&[&create[..], &["--metadata", "before galena"]].concat());
    assert!(first.starts_with("backup 1: time 1"), "{first}");
    printed(&["put", "--db", db, "galena", "PbS"]);
    printed(
        &[
            &create[..],
            &["--flush", "--threads", "2", "--rate-limit", "1000000000"],
        ]
        .concat(),
    );
    let listed = printed(&["backup", "list", "--backups", backups]);
    assert_eq!(listed.lines().count(), 2);
    assert!(listed.contains("before galena"), "{listed}");
    let json = printed(&["backup", "list", "--backups", backups, "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["backups"][0]["metadata"], "before galena");
    assert_eq!(json["damaged"].as_array().unwrap().len(), 0);
    let verified = printed(&["backup", "verify", "--backups", backups]);
    assert_eq!(verified, "backup 1: ok\nbackup 2: ok\n");

    let other = dir.path().join("other");
    let other = text(&other);
    let restore = ["backup", "restore", "--backups", backups, "--db", other];
    printed(&[&restore[..], &["--id", "1"]].concat());
    assert!(refused(&["get", "--db", other, "galena"]).contains("does not exist"));
    for keep in ["nothing", "same-session", "same-checksum"] {
        printed(&[&restore[..], &["--keep", keep]].concat());
        assert_eq!(printed(&["get", "--db", other, "galena"]), "PbS\n");
    }
    printed(&[&create[..], &["--keep", "2"]].concat());
    printed(&["backup", "delete", "--backups", backups, "2"]);
    assert_eq!(
        printed(&["backup", "verify", "--backups", backups, "--quick"]),
        "backup 3: ok\n"
    );
    assert!(refused(&["backup", "delete", "--backups", backups, "2"]).contains("backup 2"));
    printed(&["backup", "delete", "--backups", backups, "--keep", "0"]);
    assert_eq!(printed(&["backup", "list", "--backups", backups]), "");
}

#[test]
fn damage_is_reported() {
    let dir = unpacked("v1109_backup");
    let backups = dir.path().join("bk");
    let verify = ["backup", "verify", "--backups", text(&backups)];
    assert_eq!(printed(&verify), "backup 1: ok\nbackup 2: ok\n");
    fs::write(backups.join("private/2/CURRENT"), "MANIFEST-000006\n").unwrap();
    let damaged = refused(&verify);
    assert!(
        damaged.contains("backup 1: ok\nbackup 2: Corruption: checksum of"),
        "{damaged}"
    );
    fs::write(backups.join("meta/1"), "1\n").unwrap();
    let list = refused(&["backup", "list", "--backups", text(&backups)]);
    assert!(
        list.contains("backup 1 is damaged: Corruption: line: expected a sequence number"),
        "{list}"
    );
    let missing = dir.path().join("none");
    for command in ["list", "verify"] {
        let error = refused(&["backup", command, "--backups", text(&missing)]);
        assert!(error.contains("is missing"), "{error}");
    }
    refused(&["backup", "delete", "--backups", text(&missing), "1"]);
    assert!(!missing.exists());
}
