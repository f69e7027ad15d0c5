//! Large values in blob files, so that compactions do not rewrite them.
//!
//! `cargo run -p cairn --example blobs`

use cairn::{CompactRangeOptions, Db, Options};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let options = Options::default()
        .create_if_missing(true)
        .text("enable_blob_files=true;min_blob_size=1000;blob_space_target=1.5")?;
    let db = Db::open(dir.path(), &options)?;

    let picture = vec![7; 100_000];
    db.put(b"name", b"stays in the tables")?;
    db.put(b"picture", &picture)?;
    db.flush()?;
    assert_eq!(db.property_number("rocksdb.num-blob-files"), Some(1));

    // Reads return the value as usual, without a copy.
    let read = db.get(b"picture")?.ok_or("the key exists")?;
    assert_eq!(*read, *picture);
    for entry in &db {
        let (key, value) = entry?;
        println!("{}: {} bytes", String::from_utf8_lossy(&key), value.len());
    }

    // A blob file is deleted with its last value.
    drop(read);
    db.delete(b"picture")?;
    db.compact_range(None, None, &CompactRangeOptions::default())?;
    assert_eq!(db.property_number("rocksdb.num-blob-files"), Some(0));
    Ok(db.close()?)
}
