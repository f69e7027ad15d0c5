//! Column families: keyspaces with their own options, written together in one batch.
//!
//! `cargo run -p cairn --example families`

use cairn::{Db, FamilyOptions, WriteBatch};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let small = FamilyOptions {
        write_buffer_size: 1 << 20,
        ..FamilyOptions::default()
    };
    let db = Db::builder(dir.path())
        .create_if_missing(true)
        .create_missing_column_families(true)
        .family("index", small)
        .open()?;

    // A record and its index entry are written atomically.
    let index = db.family("index").ok_or("the builder created it")?;
    let mut batch = WriteBatch::new();
    batch.put(b"1", b"granite");
    batch.put_in(&index, b"granite", b"1");
    db.write(&batch)?;
    let id = index.get(b"granite")?.ok_or("indexed")?;
    assert_eq!(db.get(&id)?.as_deref(), Some(&b"granite"[..]));
    assert!(
        db.get(b"granite")?.is_none(),
        "each family has its own keys"
    );

    // Families can be created and dropped, and their options changed, while the database is open.
    let scratch = db.create_family("scratch", &FamilyOptions::default())?;
    scratch.set_options(&[("disable_auto_compactions", "true")])?;
    scratch.put(b"k", b"v")?;
    db.drop_family(&scratch)?;
    drop((index, scratch));
    db.close()?;

    let names = Db::list_families(dir.path())?;
    assert_eq!(names, ["default", "index"]);
    Ok(())
}
