//! Point reads and a synced write as futures on smol.

use std::sync::Arc;

use cairn::{Db, Options, WriteBatch, WriteOptions};

/// Writes a stone and reads it back.
async fn round_trip(db: Arc<Db>, number: u32) -> cairn::Result<()> {
    let key = number.to_be_bytes();
    let mut batch = WriteBatch::new();
    batch.put(&key, b"granite");
    let synced = WriteOptions {
        sync: true,
        ..WriteOptions::default()
    };
    // Tasks that wait at the same time share a sync.
    db.write_async(batch, &synced).await?;
    let found = db.get_async(&key).await?;
    assert_eq!(found.as_deref(), Some(&b"granite"[..]));
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let options = Options::default().create_if_missing(true);
    let db = Arc::new(Db::open(dir.path().join("db"), &options)?);
    smol::block_on(async {
        let tasks: Vec<_> = (0..100)
            .map(|number| smol::spawn(round_trip(db.clone(), number)))
            .collect();
        for task in tasks {
            task.await?;
        }
        Ok(())
    })
}
