//! External tables: written outside of a database and ingested atomically.
//!
//! `cargo run -p cairn --example ingestion`

use cairn::{Db, IngestExternalFileOptions, Options, SstFileReader, SstFileWriter, World};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let options = Options::default().create_if_missing(true);
    let table = dir.path().join("numbers.sst");

    // Keys must be added in order.
    let mut writer = SstFileWriter::new(&World::posix(), &options.db, &options.family);
    writer.open(&table)?;
    for number in 0..10_000_u32 {
        writer.put(&number.to_be_bytes(), b"from a file")?;
    }
    assert_eq!(writer.finish()?.num_entries, 10_000);

    // The table can be read on its own.
    let reader = SstFileReader::open(&World::posix(), &table, &options.family)?;
    reader.verify_checksum()?;
    let entries = reader.iter(&Default::default());
    assert_eq!(entries.into_keys().count(), 10_000);

    // Its entries are newer than all entries of the database.
    let db = Db::open(dir.path().join("db"), &options)?;
    db.put(&7_u32.to_be_bytes(), b"by hand")?;
    let how = IngestExternalFileOptions {
        move_files: true,
        ..Default::default()
    };
    db.ingest_external_file([&table], &how)?;
    let seven = db.get(&7_u32.to_be_bytes())?;
    assert_eq!(seven.as_deref(), Some(&b"from a file"[..]));
    assert!(!table.exists(), "the file was moved");
    Ok(db.close()?)
}
