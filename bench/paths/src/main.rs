//! Code paths of the engine, for counting their costs.
//!
//! `cargo xtask counts` runs this program under Valgrind and compares the instructions, system calls,
//! allocations and copied bytes of the functions named `path_*` with `bench/path_costs.txt`. Each runs
//! [`OPERATIONS`] operations on one thread, on as many records with keys of 16 and values of 100 bytes,
//! uncompressed and in memory.

use std::future::Future;
use std::path::Path;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use cairn::{
    CompactRangeOptions, Db, Options, ReadOptions, Result, SstFileWriter, TransactionDb, Value,
    World, WriteBatch, WriteOptions,
};

const OPERATIONS: u64 = 10_000;
const BATCH: u64 = 100;
const TOGETHER: u64 = 32;
const OPERANDS: u64 = 1000;
const RUNS: u64 = 4;
const VALUE: [u8; 100] = [b'v'; 100];
const OPTIONS: &str = "compression=kNoCompression;disable_auto_compactions=true;\
    block_based_table_factory={block_cache=100M;filter_policy=bloomfilter:10:false}";

fn main() -> Result<()> {
    let dir = std::env::args_os().nth(1);
    let dir = dir.expect("usage: cairn-paths DIRECTORY");
    let dir = Path::new(&dir);
    let options = Options::default().create_if_missing(true).text(OPTIONS)?;

    path_sst_file_writer(
        &mut SstFileWriter::new(&World::posix(), &options.db, &options.family),
        dir,
    )?;
    let db = Db::builder(dir.join("transactions")).options(options.clone());
    let db = db.open_transactional(&Default::default())?;
    path_transaction(&db)?;
    db.close()?;
    let dated = options
        .clone()
        .text("comparator=leveldb.BytewiseComparator.u64ts")?;
    let db = Db::open(dir.join("dated"), &dated)?;
    let first = 1_u64.to_le_bytes();
    (0..OPERATIONS).try_for_each(|i| {
        db.default_family()
            .put_with_timestamp(&key(scattered(i)), &first, &VALUE)
    })?;
    db.flush()?;
    warm_up(|key| db.get_with(key, &at(2)).map(drop))?;
    path_get_timestamp(&db)?;
    db.close()?;
    let db = Db::open(dir.join("batched"), &options)?;
    path_write_batch(&db)?;
    db.close()?;
    let db = Db::open(dir.join("ascending"), &options)?;
    path_write_ascending(&db)?;
    db.close()?;
    let db = Db::open(dir.join("unlogged"), &options)?;
    path_put_unlogged(&db)?;
    db.close()?;
    let merging = options.clone().text("merge_operator=stringappend")?;
    let db = Db::open(dir.join("merging"), &merging)?;
    (0..OPERANDS).try_for_each(|_| db.merge(&key(0), b"operand."))?;
    path_merge_operands(&db)?;
    db.close()?;
    let db = Db::open(dir.join("db"), &options)?;
    path_put(&db)?;
    path_get_memtable(&db)?;
    path_seek_memtable(&db)?;
    db.flush()?;
    (0..OPERATIONS).try_for_each(|i| db.put(&key(scattered(i)), &VALUE))?;
    db.flush()?;
    path_compact(&db)?;

    warm_up(|key| db.get(key).map(drop))?;
    path_get(&db)?;
    path_get_missing(&db)?;
    path_get_async(&db)?;
    path_multi_get(&db)?;
    path_multi_get_async_io(&db)?;
    path_multi_get_async(&db)?;
    path_seek_new(&db)?;
    path_seek_kept(&db)?;
    path_next(&db)?;
    path_prev(&db)?;
    db.close()?;

    let db = Db::open(dir.join("runs"), &options)?;
    for run in 0..RUNS {
        (0..OPERATIONS)
            .filter(|i| i % RUNS == run)
            .try_for_each(|i| db.put(&key(scattered(i)), &VALUE))?;
        db.flush()?;
    }
    let mut iter = db.iter();
    warm_up(|key| {
        iter.seek(key);
        iter.status()
    })?;
    drop(iter);
    path_seek_runs(&db)?;
    path_seek_runs_kept(&db)?;
    path_seek_absent(&db)?;
    db.close()
}

/// Returns a key in db_bench's form.
fn key(number: u64) -> [u8; 16] {
    let mut key = [b'0'; 16];
    key[..8].copy_from_slice(&number.to_be_bytes());
    key
}

/// Returns each of [`OPERATIONS`] even numbers once, in pseudo-random order.
fn scattered(i: u64) -> u64 {
    i * 7919 % OPERATIONS * 2
}

/// Reads each key three times: search words are built on the second use of a block.
fn warm_up(mut get: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
    (0..3 * OPERATIONS).try_for_each(|number| get(&key(scattered(number))))
}

/// Options to read at a timestamp.
fn at(timestamp: u64) -> ReadOptions {
    ReadOptions {
        timestamp: Some(timestamp.to_le_bytes().to_vec()),
        ..ReadOptions::default()
    }
}

/// Writes a table with all the keys in order.
#[inline(never)]
fn path_sst_file_writer(writer: &mut SstFileWriter, dir: &Path) -> Result<()> {
    writer.open(dir.join("table.sst"))?;
    (0..OPERATIONS).try_for_each(|i| writer.put(&key(i), &VALUE))?;
    writer.finish().map(drop)
}

/// Locks, reads and writes a key in each transaction.
#[inline(never)]
fn path_transaction(db: &TransactionDb) -> Result<()> {
    let options = ReadOptions::default();
    for i in 0..OPERATIONS {
        let mut transaction = db.begin();
        let found = transaction.get_for_update(&key(scattered(i)), &options)?;
        assert!(found.is_none());
        transaction.put(&key(scattered(i)), &VALUE)?;
        transaction.commit()?;
    }
    Ok(())
}

#[inline(never)]
fn path_get_timestamp(db: &Db) -> Result<()> {
    let options = at(2);
    for i in 0..OPERATIONS {
        assert!(db.get_with(&key(scattered(i)), &options)?.is_some());
    }
    Ok(())
}

#[inline(never)]
fn path_write_batch(db: &Db) -> Result<()> {
    write_batches(db, scattered)
}

/// Writes batches of keys in ascending order.
#[inline(never)]
fn path_write_ascending(db: &Db) -> Result<()> {
    write_batches(db, |i| i)
}

#[inline(always)]
fn write_batches(db: &Db, number: impl Fn(u64) -> u64) -> Result<()> {
    let mut batch = WriteBatch::new();
    for i in 0..OPERATIONS {
        batch.put(&key(number(i)), &VALUE);
        if (i + 1) % BATCH == 0 {
            db.write(&batch)?;
            batch.clear();
        }
    }
    Ok(())
}

#[inline(never)]
fn path_put_unlogged(db: &Db) -> Result<()> {
    let options = WriteOptions {
        disable_wal: true,
        ..WriteOptions::default()
    };
    (0..OPERATIONS).try_for_each(|i| db.put_with(&key(scattered(i)), &VALUE, &options))
}

#[inline(never)]
fn path_put(db: &Db) -> Result<()> {
    (0..OPERATIONS).try_for_each(|i| db.put(&key(scattered(i)), &VALUE))
}

#[inline(never)]
fn path_get_memtable(db: &Db) -> Result<()> {
    for i in 0..OPERATIONS {
        assert!(db.get(&key(scattered(i)))?.is_some());
    }
    Ok(())
}

/// Gets a key with [`OPERANDS`] merge operands in the memtable.
#[inline(never)]
fn path_merge_operands(db: &Db) -> Result<()> {
    for _ in 0..OPERATIONS / OPERANDS {
        assert!(db.get(&key(0))?.is_some());
    }
    Ok(())
}

/// Compacts two tables with all the keys, on the calling thread.
#[inline(never)]
fn path_compact(db: &Db) -> Result<()> {
    db.compact_range(None, None, &CompactRangeOptions::default())
}

#[inline(never)]
fn path_get(db: &Db) -> Result<()> {
    get_all(db, 0)
}

#[inline(never)]
fn path_get_missing(db: &Db) -> Result<()> {
    get_all(db, 1)
}

#[inline(always)]
fn get_all(db: &Db, odd: u64) -> Result<()> {
    let options = ReadOptions::default();
    for i in 0..OPERATIONS {
        let found = db.get_with(&key(scattered(i) + odd), &options)?;
        assert_eq!(found.is_some(), odd == 0);
    }
    Ok(())
}

/// Returns the result of a future that waits for nothing.
#[inline(always)]
fn ready<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("everything is in memory"),
    }
}

#[inline(never)]
fn path_get_async(db: &Db) -> Result<()> {
    let options = ReadOptions::default();
    for i in 0..OPERATIONS {
        assert!(ready(db.get_with_async(&key(scattered(i)), &options))?.is_some());
    }
    Ok(())
}

#[inline(never)]
fn path_multi_get(db: &Db) -> Result<()> {
    let options = ReadOptions::default();
    get_together(|keys| db.multi_get(keys, &options))
}

#[inline(never)]
fn path_multi_get_async_io(db: &Db) -> Result<()> {
    let options = ReadOptions {
        async_io: true,
        ..ReadOptions::default()
    };
    get_together(|keys| db.multi_get(keys, &options))
}

#[inline(never)]
fn path_multi_get_async(db: &Db) -> Result<()> {
    let options = ReadOptions::default();
    get_together(|keys| ready(db.multi_get_async(keys, &options)))
}

#[inline(always)]
fn get_together(get: impl Fn(&[[u8; 16]]) -> Vec<Result<Option<Value>>>) -> Result<()> {
    let mut keys = Vec::new();
    for i in 0..OPERATIONS {
        keys.push(key(scattered(i)));
        if (i + 1) % TOGETHER == 0 {
            for found in get(&keys) {
                assert!(found?.is_some());
            }
            keys.clear();
        }
    }
    Ok(())
}

#[inline(never)]
fn path_seek_new(db: &Db) -> Result<()> {
    seek_anew(db, "in a level")
}

/// Seeks in [`RUNS`] sorted runs.
#[inline(never)]
fn path_seek_runs(db: &Db) -> Result<()> {
    seek_anew(db, "in several runs")
}

#[inline(never)]
fn path_seek_runs_kept(db: &Db) -> Result<()> {
    seek_all(db, "in several runs")
}

/// Makes an iterator for each seek to a key that is absent in [`RUNS`] sorted runs. The next key is present.
#[inline(never)]
fn path_seek_absent(db: &Db) -> Result<()> {
    let options = ReadOptions::default();
    for i in 0..OPERATIONS {
        let present = key(scattered(i));
        let mut absent = present;
        absent[15] = b'/';
        let mut iter = db.iter_with(&options);
        iter.seek(&absent);
        assert_eq!(iter.key(), present);
    }
    Ok(())
}

/// Makes an iterator for each seek. As for `seek_all`.
#[inline(always)]
fn seek_anew(db: &Db, place: &str) -> Result<()> {
    let options = ReadOptions::default();
    for i in 0..OPERATIONS {
        let mut iter = db.iter_with(&options);
        iter.seek(&key(scattered(i)));
        assert_eq!(iter.value(), VALUE, "{place}");
    }
    Ok(())
}

#[inline(never)]
fn path_seek_kept(db: &Db) -> Result<()> {
    seek_all(db, "in a level")
}

#[inline(never)]
fn path_seek_memtable(db: &Db) -> Result<()> {
    seek_all(db, "in the memtable")
}

/// Seeks with one iterator. Without `place`, which is printed on failure, the compiler would merge the paths.
#[inline(always)]
fn seek_all(db: &Db, place: &str) -> Result<()> {
    let mut iter = db.iter();
    for i in 0..OPERATIONS {
        iter.seek(&key(scattered(i)));
        assert_eq!(iter.value(), VALUE, "{place}");
    }
    iter.status()
}

#[inline(never)]
fn path_next(db: &Db) -> Result<()> {
    let mut iter = db.iter();
    let mut bytes = 0;
    iter.seek_to_first();
    while iter.valid() {
        bytes += iter.key().len() + iter.value().len();
        iter.next();
    }
    assert_eq!(bytes as u64, OPERATIONS * 116);
    iter.status()
}

#[inline(never)]
fn path_prev(db: &Db) -> Result<()> {
    let mut iter = db.iter();
    let mut bytes = 0;
    iter.seek_to_last();
    while iter.valid() {
        bytes += iter.key().len() + iter.value().len();
        iter.prev();
    }
    assert_eq!(bytes as u64, OPERATIONS * 116);
    iter.status()
}
