//! Transactions: money is moved between accounts by several threads, and none is lost or created.

use cairn::{Code, Db, ReadOptions, Result};

const ACCOUNTS: u8 = 4;

fn amount(value: Option<cairn::Value>) -> u64 {
    let bytes = value.and_then(|value| <[u8; 8]>::try_from(&*value).ok());
    bytes.map_or(0, u64::from_le_bytes)
}

fn main() -> Result<()> {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let db = Db::builder(dir.path().join("db"))
        .create_if_missing(true)
        .open_transactional(&Default::default())?;
    for account in 0..ACCOUNTS {
        db.put(&[account], &100_u64.to_le_bytes())?;
    }

    std::thread::scope(|scope| {
        for thread in 0..ACCOUNTS {
            let db = &db;
            scope.spawn(move || {
                for round in 0..100_u8 {
                    let (from, to) = (thread, (thread + 1 + round % 3) % ACCOUNTS);
                    // Repeated if a lock cannot be had in time.
                    db.transact(|txn| {
                        let read = ReadOptions::default();
                        let has = amount(txn.get_for_update(&[from], &read)?);
                        let gets = amount(txn.get_for_update(&[to], &read)?);
                        if has > 0 && from != to {
                            txn.put(&[from], &(has - 1).to_le_bytes())?;
                            txn.put(&[to], &(gets + 1).to_le_bytes())?;
                        }
                        Ok(())
                    })
                    .expect("the transfer is committed");
                }
            });
        }
    });
    let sum: u64 = (0..ACCOUNTS)
        .map(|account| db.get(&[account]).map(amount))
        .sum::<Result<u64>>()?;
    println!("{sum} in {ACCOUNTS} accounts");
    assert_eq!(sum, 400);

    // A transaction that is dropped is rolled back; until then, others wait for its locks.
    let mut txn = db.begin();
    txn.put(&[0], b"never")?;
    assert_eq!(
        db.put(&[0], b"x").map_err(|e| e.code()),
        Err(Code::TimedOut)
    );
    drop(txn);
    db.close()
}
