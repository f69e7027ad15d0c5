//! Write batches: writes that take effect atomically, and batches that can be read before they are
//! written.
//!
//! `cargo run -p cairn --example batches`

use cairn::{Db, IndexedBatch, Options, ReadOptions, WriteBatch, WriteOptions};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let db = Db::open(dir.path(), &Options::default().create_if_missing(true))?;
    db.put(b"balance:ada", b"100")?;
    db.put(b"balance:grace", b"0")?;

    // A batch is written atomically.
    let mut batch = WriteBatch::new();
    batch.put(b"balance:ada", b"70");
    batch.put(b"balance:grace", b"30");
    db.write(&batch)?;
    assert_eq!(db.get(b"balance:grace")?.as_deref(), Some(&b"30"[..]));

    // Rolling back to a save point removes the writes since.
    batch.clear();
    batch.put(b"balance:ada", b"60");
    batch.set_save_point();
    batch.delete(b"balance:grace");
    batch.rollback_to_save_point()?;
    let synced = WriteOptions {
        sync: true,
        ..WriteOptions::default()
    }; // survives a power failure
    db.write_with(&batch, &synced)?;
    assert!(db.get(b"balance:grace")?.is_some());

    // An indexed batch can be read together with the database.
    let (batch, family) = (IndexedBatch::new(true), db.default_family());
    batch.put(b"balance:edsger", b"10");
    let options = ReadOptions::default();
    let read = batch.get_over(&family, b"balance:edsger", &options)?;
    assert_eq!(read.as_deref(), Some(&b"10"[..]));
    let mut keys = Vec::new();
    for entry in family.iter_with_batch(&batch, &options) {
        let (key, _) = entry?;
        keys.push(String::from_utf8(key.into_vec())?);
    }
    assert_eq!(keys, ["balance:ada", "balance:edsger", "balance:grace"]);
    assert!(db.get(b"balance:edsger")?.is_none());
    db.write_indexed(&batch, &WriteOptions::default())?;
    assert!(db.get(b"balance:edsger")?.is_some());
    Ok(db.close()?)
}
