//! `TransactionDB` and `OptimisticTransactionDB`: opening, locks, and the start of transactions.

use std::path::Path;

use cairn_db::{FamilyDescriptor, OpenRequest};
use cairn_options::WriteOptions;
use cairn_txn::{
    OptimisticTransactionDb, OptimisticTransactionDbOptions, OptimisticTransactionOptions,
    Transaction, TransactionDb, TransactionDbOptions, TransactionOptions,
};
use cairn_types::Error;
use jni_sys::{jint, jlong, jvalue};

use crate::callbacks::ComparatorHandle;
use crate::db::{Database, Kind, default_family, descriptors, handles, open_by};
use crate::env::{Env, JString, LongArray, Object, ObjectArray, Outcome};
use crate::handle::{New, Ref, create, of_mut};
use crate::listener::Slot;
use crate::options::AllOptions;
use crate::txn::{self, Txn};

/// Opens a database of pessimistic transactions.
fn open_locking(
    all: &AllOptions,
    options: &TransactionDbOptions,
    path: &Path,
    families: &[FamilyDescriptor],
) -> Outcome<Database> {
    let open = |request: &OpenRequest<'_>| TransactionDb::open(request, options);
    let (txn, slot) = open_by(all, path, families, false, open)?;
    let db = txn.db().clone();
    Ok(Database::new(db, Kind::Locking(txn), all, slot))
}

/// Opens a database of optimistic transactions.
fn open_validating(
    all: &AllOptions,
    path: &Path,
    families: &[FamilyDescriptor],
) -> Outcome<Database> {
    let options = OptimisticTransactionDbOptions::default();
    let open = |request: &OpenRequest<'_>| OptimisticTransactionDb::open(request, &options);
    let (txn, slot) = open_by(all, path, families, false, open)?;
    let db = txn.db().clone();
    Ok(Database::new(db, Kind::Optimistic(txn), all, slot))
}

pub fn open(
    env: Env,
    all: Ref<AllOptions>,
    options: Ref<TransactionDbOptions>,
    path: JString,
) -> Outcome<New<Database>> {
    open_locking(&all, &options, &env.path(path)?, &default_family(&all)?).map(New)
}

pub fn open_families(
    env: Env,
    all: Ref<AllOptions>,
    options: Ref<TransactionDbOptions>,
    path: JString,
    names: ObjectArray,
    family_options: LongArray,
) -> Outcome<LongArray> {
    let families = descriptors(env, names, family_options)?;
    let database = open_locking(&all, &options, &env.path(path)?, &families)?;
    handles(env, database, &families)
}

pub fn open_optimistic(env: Env, all: Ref<AllOptions>, path: JString) -> Outcome<New<Database>> {
    open_validating(&all, &env.path(path)?, &default_family(&all)?).map(New)
}

pub fn open_families_optimistic(
    env: Env,
    all: Ref<AllOptions>,
    path: JString,
    names: ObjectArray,
    family_options: LongArray,
) -> Outcome<LongArray> {
    let families = descriptors(env, names, family_options)?;
    let database = open_validating(&all, &env.path(path)?, &families)?;
    handles(env, database, &families)
}

/// The handle of the database without transactions, which this one owns.
pub fn base_db(_env: Env, db: Ref<Database>) -> jlong {
    *db.0.base.get_or_init(|| {
        create(Database::new(
            db.db.clone(),
            Kind::Plain,
            &AllOptions::default(),
            Slot::default(),
        ))
    })
}

fn locking(db: &Database) -> Outcome<&TransactionDb> {
    match &db.kind {
        Kind::Locking(txn) => Ok(txn),
        _ => Err(Error::invalid_argument("not a transaction database").into()),
    }
}

fn start(db: &Database, write: &WriteOptions, options: &TransactionOptions) -> Outcome<Txn> {
    let txn = locking(db)?.begin_with(write, options);
    Ok(Txn::new(
        &db.db,
        &db.transactions,
        txn,
        write,
        options.deadlock_detect,
    ))
}

pub fn begin(_env: Env, db: Ref<Database>, write: Ref<WriteOptions>) -> Outcome<jlong> {
    start(&db, &write, &TransactionOptions::default()).map(txn::create)
}

pub fn begin_with(
    _env: Env,
    db: Ref<Database>,
    write: Ref<WriteOptions>,
    options: Ref<TransactionOptions>,
) -> Outcome<jlong> {
    start(&db, &write, &options).map(txn::create)
}

/// Begins the transaction `new` in the object of a transaction, which ends.
fn restart(handle: jlong, mut new: Txn) -> Outcome<jlong> {
    let old = of_mut::<Txn>(handle)?;
    new.adopt_handles(old)?;
    new.publish(handle)?;
    *old = new;
    Ok(handle)
}

pub fn begin_again(
    _env: Env,
    db: Ref<Database>,
    write: Ref<WriteOptions>,
    old: jlong,
) -> Outcome<jlong> {
    restart(old, start(&db, &write, &TransactionOptions::default())?)
}

pub fn begin_again_with(
    _env: Env,
    db: Ref<Database>,
    write: Ref<WriteOptions>,
    options: Ref<TransactionOptions>,
    old: jlong,
) -> Outcome<jlong> {
    restart(old, start(&db, &write, &options)?)
}

fn start_optimistic(
    db: &Database,
    write: &WriteOptions,
    options: &OptimisticTransactionOptions,
) -> Outcome<Txn> {
    match &db.kind {
        Kind::Optimistic(txn) => Ok(Txn::new(
            &db.db,
            &db.transactions,
            txn.begin_with(write, options),
            write,
            false,
        )),
        _ => Err(Error::invalid_argument("not an optimistic transaction database").into()),
    }
}

pub fn begin_optimistic(_env: Env, db: Ref<Database>, write: Ref<WriteOptions>) -> Outcome<jlong> {
    start_optimistic(&db, &write, &OptimisticTransactionOptions::default()).map(txn::create)
}

pub fn begin_optimistic_with(
    _env: Env,
    db: Ref<Database>,
    write: Ref<WriteOptions>,
    options: Ref<OptimisticTransactionOptions>,
) -> Outcome<jlong> {
    start_optimistic(&db, &write, &options).map(txn::create)
}

pub fn begin_optimistic_again(
    _env: Env,
    db: Ref<Database>,
    write: Ref<WriteOptions>,
    old: jlong,
) -> Outcome<jlong> {
    restart(
        old,
        start_optimistic(&db, &write, &OptimisticTransactionOptions::default())?,
    )
}

pub fn begin_optimistic_again_with(
    _env: Env,
    db: Ref<Database>,
    write: Ref<WriteOptions>,
    options: Ref<OptimisticTransactionOptions>,
    old: jlong,
) -> Outcome<jlong> {
    restart(old, start_optimistic(&db, &write, &options)?)
}

pub fn new_optimistic_options(_env: Env) -> New<OptimisticTransactionOptions> {
    New(OptimisticTransactionOptions::default())
}

pub fn destroy_optimistic_options(env: Env, handle: jlong) -> Outcome<()> {
    crate::handle::destroy::<OptimisticTransactionOptions>(env, handle)
}

/// Accepted for compatibility: a transaction orders its writes by the comparator of each column family.
pub fn set_optimistic_comparator(
    _env: Env,
    _options: Ref<OptimisticTransactionOptions>,
    _comparator: Ref<ComparatorHandle>,
) {
}

/// Creates the handle of a named transaction for Java, which does not own it.
fn lend(db: &Database, txn: Transaction) -> Outcome<jlong> {
    let txn = Txn::new(
        &db.db,
        &db.transactions,
        txn,
        &WriteOptions::default(),
        false,
    );
    let handle = txn::create(txn);
    db.lent.lock().push(handle);
    of_mut::<Txn>(handle)?.register(handle)?;
    Ok(handle)
}

/// The transaction of a name, also if it has a handle.
pub fn by_name(env: Env, db: Ref<Database>, name: JString) -> Outcome<jlong> {
    let name = env.modified_utf8(name)?;
    if let Some(handle) = db.transactions.handle_of(&name) {
        return Ok(handle);
    }
    let found = locking(&db)?.transaction_by_name(&name);
    found.map_or(Ok(0), |txn| lend(&db, txn))
}

/// All prepared transactions, also those that have a handle.
pub fn prepared(env: Env, db: Ref<Database>) -> Outcome<LongArray> {
    for txn in locking(&db)?.prepared_transactions() {
        lend(&db, txn)?;
    }
    env.long_array(&db.transactions.prepared())
}

/// A `long[]` of transaction ids.
pub fn ids(env: Env, ids: &[u64]) -> Outcome<LongArray> {
    let ids: Vec<jlong> = ids.iter().map(|id| *id as jlong).collect();
    env.long_array(&ids)
}

/// The text of a key: Java shows keys as strings.
pub fn key_text(env: Env, key: &[u8]) -> Outcome<JString> {
    env.string_of_bytes(key)
}

pub fn lock_status(env: Env, db: Ref<Database>) -> Outcome<Object> {
    let status = locking(&db)?.lock_status();
    env.map(status.into_iter().map(|lock| {
        let (key, holders) = (key_text(env, &lock.key)?, ids(env, &lock.holders)?);
        let info = env.create(
            "org/rocksdb/TransactionDB$KeyLockInfo",
            "(Ljava/lang/String;[JZ)V",
            &[
                jvalue { l: key.0 },
                jvalue { l: holders.0 },
                jvalue { z: lock.exclusive },
            ],
        )?;
        Ok((env.boxed_long(jlong::from(lock.family))?, info))
    }))
}

pub fn set_deadlock_buffer(_env: Env, db: Ref<Database>, count: jint) -> Outcome<()> {
    locking(&db)?.set_deadlock_buffer(count.cast_unsigned());
    Ok(())
}

pub fn deadlocks(env: Env, db: Ref<Database>) -> Outcome<ObjectArray> {
    let paths = locking(&db)?.deadlocks();
    let array = env.object_array("org/rocksdb/TransactionDB$DeadlockPath", paths.len())?;
    for (at, path) in paths.iter().enumerate() {
        let infos = env.object_array("org/rocksdb/TransactionDB$DeadlockInfo", path.path.len())?;
        for (at, info) in path.path.iter().enumerate() {
            let key = key_text(env, &info.key)?;
            let created = env.create(
                "org/rocksdb/TransactionDB$DeadlockInfo",
                "(JJLjava/lang/String;Z)V",
                &[
                    jvalue {
                        j: info.transaction as jlong,
                    },
                    jvalue {
                        j: jlong::from(info.family),
                    },
                    jvalue { l: key.0 },
                    jvalue { z: info.exclusive },
                ],
            )?;
            env.forget(Object(key.0));
            env.set_element(infos, at, created)?;
        }
        let created = env.create(
            "org/rocksdb/TransactionDB$DeadlockPath",
            "([Lorg/rocksdb/TransactionDB$DeadlockInfo;Z)V",
            &[
                jvalue { l: infos.0 },
                jvalue {
                    z: path.limit_exceeded,
                },
            ],
        )?;
        env.forget(Object(infos.0));
        env.set_element(array, at, created)?;
    }
    Ok(array)
}
