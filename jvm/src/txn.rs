//! `Transaction` and `AbstractTransactionNotifier`.

use std::cell::Cell;
use std::sync::Arc;

use cairn_db::{Db, Family, Snapshot, Value, WriteBatch};
use cairn_options::WriteOptions;
use cairn_platform::sync::Mutex;
use cairn_txn::{LockObserver, Transaction, TransactionState};
use cairn_types::{Error, Result};
use jni_sys::{jint, jlong, jvalue};

use crate::batch::{Batch, Indexed};
use crate::callee::Callee;
use crate::env::{
    ByteArray, ByteBuffer, Env, JString, LongArray, Method, Object, ObjectArray, Outcome, illegal,
};
use crate::handle::{self, Mut, New, Ref, create_with, of, of_mut, shared_of, take};
use crate::iterator::Cursor;
use crate::options::ReadOptions;
use crate::reads::NOT_FOUND;
use crate::transaction_db::{ids, key_text};
use crate::transactions::Transactions;
use crate::writes::Op;

/// The handles of the snapshots of a transaction, which Java does not own. As the pointers of RocksDB, they are valid as
/// long as the transaction, or one of its save points, has the snapshot.
#[derive(Default)]
struct SnapshotHandles(Mutex<Vec<jlong>>);

impl SnapshotHandles {
    /// The handle of a snapshot.
    fn of(&self, snapshot: &Arc<Snapshot>) -> jlong {
        self.remove_released();
        let mut handles = self.0.lock();
        let is_known = |handle: &&jlong| {
            of::<Arc<Snapshot>>(**handle).is_ok_and(|known| Arc::ptr_eq(known, snapshot))
        };
        if let Some(handle) = handles.iter().find(is_known) {
            return *handle;
        }
        let handle = handle::create(snapshot.clone());
        handles.push(handle);
        handle
    }

    /// Destroys the handles of the snapshots that the transaction no longer has.
    fn remove_released(&self) {
        self.0.lock().retain(|handle| {
            let is_kept =
                of::<Arc<Snapshot>>(*handle).is_ok_and(|snapshot| Arc::strong_count(snapshot) > 1);
            if !is_kept {
                // Created by `of`, and not used after the transaction has released the snapshot.
                drop(take::<Arc<Snapshot>>(*handle));
            }
            is_kept
        });
    }
}

impl Drop for SnapshotHandles {
    fn drop(&mut self) {
        for handle in self.0.get_mut().drain(..) {
            // Created by `of`, and not used after the transaction.
            drop(take::<Arc<Snapshot>>(handle));
        }
    }
}

/// The object of a transaction.
pub struct Txn {
    txn: Option<Transaction>,
    shared: Arc<Transactions>,
    /// The name under which it is registered; empty if it is not.
    name: Vec<u8>,
    default: Family,
    started: u64,
    deadlock_detect: bool,
    write_options: WriteOptions,
    log_number: jlong,
    /// The handles of its snapshots, also for its notifier.
    snapshots: Arc<SnapshotHandles>,
    /// The handle of its write options, which Java does not own.
    options: Cell<jlong>,
    /// The handle of its batch; 0 if it was not requested.
    batch: jlong,
    /// The handle of its commit-time batch; 0 if it was not requested. Then the batch is here, and the transaction has
    /// it only while it ends.
    commit_time: jlong,
}

/// The part of a transaction that other threads can read while one thread uses or replaces the [`Txn`].
struct Waiter(Mutex<LockState>);

/// The transaction's lock requests (`None` if it is optimistic), and the state that all transactions of the database share.
type LockState = (Option<LockObserver>, Arc<Transactions>);

/// Creates the handle of a transaction.
pub fn create(txn: Txn) -> jlong {
    let waiter = Waiter(Mutex::new(txn.lock_state()));
    create_with(txn, waiter)
}

impl Txn {
    pub fn new(
        db: &Db,
        shared: &Arc<Transactions>,
        txn: Transaction,
        write_options: &WriteOptions,
        deadlock_detect: bool,
    ) -> Txn {
        Txn {
            txn: Some(txn),
            shared: shared.clone(),
            name: Vec::new(),
            default: db.default_family().clone(),
            started: shared.clock.monotonic_nanos(),
            deadlock_detect,
            write_options: write_options.clone(),
            log_number: 0,
            snapshots: Arc::default(),
            options: Cell::new(0),
            batch: 0,
            commit_time: 0,
        }
    }

    /// The state for the handle's [`Waiter`].
    fn lock_state(&self) -> LockState {
        let locks = self.txn.as_ref().and_then(Transaction::lock_observer);
        (locks, self.shared.clone())
    }

    /// Publishes this transaction to other threads, before it replaces the object of `handle`.
    pub fn publish(&self, handle: jlong) -> Outcome<()> {
        if let Some(Waiter(state)) = shared_of::<Txn, Waiter>(handle)? {
            *state.lock() = self.lock_state();
        }
        Ok(())
    }

    fn get(&self) -> Outcome<&Transaction> {
        self.txn
            .as_ref()
            .ok_or_else(|| Error::invalid_argument("the transaction has ended").into())
    }

    /// The transaction and the default family.
    fn parts(&self) -> Outcome<(&Transaction, &Family)> {
        Ok((self.get()?, &self.default))
    }

    /// The transaction and the default family.
    fn parts_mut(&mut self) -> Outcome<(&mut Transaction, &Family)> {
        let ended = || Error::invalid_argument("the transaction has ended");
        Ok((self.txn.as_mut().ok_or_else(ended)?, &self.default))
    }

    /// Registers the transaction, whose handle is `handle`, by its name.
    pub fn register(&mut self, handle: jlong) -> Outcome<()> {
        let txn = self.get()?;
        let is_prepared = txn.state() == TransactionState::Prepared;
        self.name = txn.name().to_vec();
        self.shared.add(self.name.clone(), handle, is_prepared);
        Ok(())
    }

    /// Reverses [`Txn::register`].
    fn unregister(&mut self) {
        let name = std::mem::take(&mut self.name);
        if !name.is_empty() {
            self.shared.remove(&name);
        }
    }

    /// Takes over the handles of the batches and the write options of `old`, which the caller drops next: as in RocksJava,
    /// the objects that Java has of them belong to this transaction from now on.
    pub fn adopt_handles(&mut self, old: &mut Txn) -> Outcome<()> {
        if old.batch != 0 {
            let batch = self.get()?.write_batch().share();
            of_mut::<Indexed>(old.batch)?.replace(batch)?;
            self.batch = std::mem::take(&mut old.batch);
        }
        if old.commit_time != 0 {
            // A prepared transaction outlives its Java object, and keeps the writes of the batch.
            let batch = of_mut::<Batch>(old.commit_time)?;
            let txn = old.get_mut()?;
            batch.with_mut(|batch| std::mem::swap(txn.commit_time_batch(), batch))?;
            self.commit_time = std::mem::take(&mut old.commit_time);
        }
        if old.options.get() != 0 {
            of_mut::<WriteOptions>(old.options.get())?.clone_from(&self.write_options);
            self.options.set(old.options.take());
        }
        Ok(())
    }

    /// Ends the transaction with `end`.
    fn end(&mut self, end: impl FnOnce(&mut Transaction) -> Result<()>) -> Outcome<()> {
        self.end_with_batch(end)?;
        if self.get()?.state() != TransactionState::Started {
            self.unregister();
        }
        Ok(())
    }

    /// Calls `end` with the transaction, which has its commit-time batch meanwhile.
    fn end_with_batch(&mut self, end: impl FnOnce(&mut Transaction) -> Result<()>) -> Outcome<()> {
        let handle = self.commit_time;
        let txn = self.get_mut()?;
        if handle == 0 {
            return Ok(end(txn)?);
        }
        let batch = of_mut::<Batch>(handle)?;
        batch.with_mut(|batch| std::mem::swap(txn.commit_time_batch(), batch))?;
        let ended = end(txn);
        batch.with_mut(|batch| std::mem::swap(txn.commit_time_batch(), batch))?;
        Ok(ended?)
    }

    fn get_mut(&mut self) -> Outcome<&mut Transaction> {
        self.txn
            .as_mut()
            .ok_or_else(|| Error::invalid_argument("the transaction has ended").into())
    }
}

impl Drop for Txn {
    fn drop(&mut self) {
        self.unregister();
        if self.options.get() != 0 {
            drop(take::<WriteOptions>(self.options.get()));
        }
        if self.batch != 0 {
            drop(take::<Indexed>(self.batch));
        }
        if self.commit_time != 0
            && let Ok(mut batch) = take::<Batch>(self.commit_time)
            && let Some(txn) = &mut self.txn
        {
            // A prepared transaction outlives its Java object. The batch is a plain one, which can always be changed.
            let _ = batch.with_mut(|batch| std::mem::swap(txn.commit_time_batch(), batch));
        }
    }
}

pub fn destroy(env: Env, handle: jlong) -> Outcome<()> {
    handle::destroy::<Txn>(env, handle)
}

pub fn set_snapshot(_env: Env, mut txn: Mut<Txn>) -> Outcome<()> {
    txn.get_mut()?.set_snapshot();
    txn.snapshots.remove_released();
    Ok(())
}

pub fn set_snapshot_on_next(_env: Env, mut txn: Mut<Txn>) -> Outcome<()> {
    let snapshots = txn.snapshots.clone();
    txn.get_mut()?
        .set_snapshot_on_next_operation_and_notify(Arc::new(move |_| snapshots.remove_released()));
    Ok(())
}

/// The object of a transaction notifier.
pub struct Notifier {
    java: Callee,
    created: Method,
}

impl Notifier {
    /// Calls Java with the handle of a new snapshot.
    fn notify(&self, handle: jlong) {
        self.java.notify("AbstractTransactionNotifier", |env| {
            env.call_void(self.java.object(), self.created, &[jvalue { j: handle }])
        });
    }
}

pub fn new_notifier(env: Env, this: Object) -> Outcome<New<Arc<Notifier>>> {
    let class = env.class("org/rocksdb/AbstractTransactionNotifier")?;
    Ok(New(Arc::new(Notifier {
        created: env.method(class, "snapshotCreated", "(J)V")?,
        java: Callee::new(env, this)?,
    })))
}

pub fn destroy_notifier(env: Env, handle: jlong) -> Outcome<()> {
    handle::destroy::<Arc<Notifier>>(env, handle)
}

pub fn set_snapshot_on_next_and_notify(
    _env: Env,
    mut txn: Mut<Txn>,
    notifier: Ref<Arc<Notifier>>,
) -> Outcome<()> {
    let (notifier, snapshots) = (notifier.clone(), txn.snapshots.clone());
    txn.get_mut()?
        .set_snapshot_on_next_operation_and_notify(Arc::new(move |snapshot| {
            notifier.notify(snapshots.of(snapshot));
        }));
    Ok(())
}

/// The handle of the batch of the transaction, which belongs to the transaction. Writes to it are neither locked nor
/// checked.
pub fn write_batch(_env: Env, mut txn: Mut<Txn>) -> Outcome<jlong> {
    if txn.batch == 0 {
        txn.batch = handle::create(Indexed::new(txn.get()?.write_batch().share()));
    }
    Ok(txn.batch)
}

/// The handle of the commit-time batch, which belongs to the transaction.
pub fn commit_time_batch(_env: Env, mut txn: Mut<Txn>) -> Outcome<jlong> {
    if txn.commit_time == 0 {
        let batch = std::mem::take(txn.get_mut()?.commit_time_batch());
        txn.commit_time = handle::create(Batch::new(batch));
    }
    Ok(txn.commit_time)
}

/// The handle of the snapshot, which belongs to the transaction.
pub fn snapshot(_env: Env, txn: Ref<Txn>) -> Outcome<jlong> {
    let snapshot = txn.get()?.snapshot();
    Ok(snapshot.map_or(0, |snapshot| txn.snapshots.of(snapshot)))
}

pub fn clear_snapshot(_env: Env, mut txn: Mut<Txn>) -> Outcome<()> {
    txn.get_mut()?.clear_snapshot();
    txn.snapshots.remove_released();
    Ok(())
}

pub fn prepare(_env: Env, mut txn: Mut<Txn>) -> Outcome<()> {
    txn.get_mut()?.prepare()?;
    txn.shared.set_prepared(&txn.name);
    Ok(())
}

pub fn commit(_env: Env, mut txn: Mut<Txn>) -> Outcome<()> {
    txn.end(Transaction::commit)
}

pub fn rollback(_env: Env, mut txn: Mut<Txn>) -> Outcome<()> {
    txn.end(Transaction::rollback)
}

pub fn set_save_point(_env: Env, mut txn: Mut<Txn>) -> Outcome<()> {
    txn.get_mut()?.set_save_point();
    Ok(())
}

pub fn rollback_to_save_point(_env: Env, mut txn: Mut<Txn>) -> Outcome<()> {
    txn.get_mut()?.rollback_to_save_point()?;
    txn.snapshots.remove_released();
    Ok(())
}

/// The family of a handle, or the default family.
#[inline]
fn family_of(default: &Family, family: jlong) -> Outcome<&Family> {
    match family {
        0 => Ok(default),
        handle => of::<Family>(handle),
    }
}

fn found(env: Env, value: Option<Value>) -> Outcome<ByteArray> {
    env.maybe_byte_array(value.as_deref())
}

pub fn get(
    env: Env,
    txn: Ref<Txn>,
    options: Ref<ReadOptions>,
    key: ByteArray,
    at: jint,
    len: jint,
    family: jlong,
) -> Outcome<ByteArray> {
    let (txn, default) = txn.parts()?;
    found(
        env,
        txn.get_in(
            family_of(default, family)?,
            &env.bytes(key, at, len)?,
            &options.for_lookup(),
        )?,
    )
}

pub fn get_into(
    env: Env,
    txn: Ref<Txn>,
    options: Ref<ReadOptions>,
    key: ByteArray,
    at: jint,
    len: jint,
    value: ByteArray,
    value_at: jint,
    value_len: jint,
    family: jlong,
) -> Outcome<jint> {
    let (txn, default) = txn.parts()?;
    match txn.get_in(
        family_of(default, family)?,
        &env.bytes(key, at, len)?,
        &options.for_lookup(),
    )? {
        None => Ok(NOT_FOUND),
        Some(found) => env.fill_array(value, value_at, value_len, &found),
    }
}

pub fn get_direct(
    env: Env,
    txn: Ref<Txn>,
    options: Ref<ReadOptions>,
    key: ByteBuffer,
    at: jint,
    len: jint,
    value: ByteBuffer,
    value_at: jint,
    value_len: jint,
    family: jlong,
) -> Outcome<jint> {
    let (txn, default) = txn.parts()?;
    match txn.get_in(
        family_of(default, family)?,
        env.direct(key, at, len, "key")?,
        &options.for_lookup(),
    )? {
        None => Ok(NOT_FOUND),
        Some(found) => env.fill_direct(value, value_at, value_len, &found, "value"),
    }
}

pub fn get_for_update(
    env: Env,
    mut txn: Mut<Txn>,
    options: Ref<ReadOptions>,
    key: ByteArray,
    at: jint,
    len: jint,
    family: jlong,
    exclusive: bool,
    validate: bool,
) -> Outcome<ByteArray> {
    let key = env.bytes(key, at, len)?;
    let (txn, default) = txn.parts_mut()?;
    let family = family_of(default, family)?;
    found(
        env,
        txn.get_for_update_in(family, &key, &options.for_lookup(), exclusive, validate)?,
    )
}

pub fn get_for_update_into(
    env: Env,
    mut txn: Mut<Txn>,
    options: Ref<ReadOptions>,
    key: ByteArray,
    at: jint,
    len: jint,
    value: ByteArray,
    value_at: jint,
    value_len: jint,
    family: jlong,
    exclusive: bool,
    validate: bool,
) -> Outcome<jint> {
    let key = env.bytes(key, at, len)?;
    let (txn, default) = txn.parts_mut()?;
    let family = family_of(default, family)?;
    match txn.get_for_update_in(family, &key, &options.for_lookup(), exclusive, validate)? {
        None => Ok(NOT_FOUND),
        Some(found) => env.fill_array(value, value_at, value_len, &found),
    }
}

pub fn get_for_update_direct(
    env: Env,
    mut txn: Mut<Txn>,
    options: Ref<ReadOptions>,
    key: ByteBuffer,
    at: jint,
    len: jint,
    value: ByteBuffer,
    value_at: jint,
    value_len: jint,
    family: jlong,
    exclusive: bool,
    validate: bool,
) -> Outcome<jint> {
    let key = env.direct(key, at, len, "key")?;
    let (txn, default) = txn.parts_mut()?;
    let family = family_of(default, family)?;
    match txn.get_for_update_in(family, key, &options.for_lookup(), exclusive, validate)? {
        None => Ok(NOT_FOUND),
        Some(found) => env.fill_direct(value, value_at, value_len, &found, "value"),
    }
}

/// A `byte[][]` of values; null for a missing value and, as in RocksJava, for an error. A value pins its block, so a lazy
/// iterator keeps one block pinned at a time.
fn values(
    env: Env,
    found: impl ExactSizeIterator<Item = Result<Option<Value>>>,
) -> Outcome<ObjectArray> {
    let array = env.object_array("[B", found.len())?;
    for (at, found) in found.enumerate() {
        if let Ok(Some(value)) = found {
            let value = env.byte_array(&value)?;
            env.set_element(array, at, Object(value.0))?;
        }
    }
    Ok(array)
}

fn families_of(
    env: Env,
    default: &Family,
    families: LongArray,
    count: usize,
) -> Outcome<Vec<&Family>> {
    let families = match families.is_null() {
        true => vec![0; count],
        false => env.longs(families)?,
    };
    if families.len() != count {
        return Err(illegal("as many column families as keys are required"));
    }
    families
        .into_iter()
        .map(|family| family_of(default, family))
        .collect()
}

pub fn multi_get(
    env: Env,
    txn: Ref<Txn>,
    options: Ref<ReadOptions>,
    keys: ObjectArray,
) -> Outcome<ObjectArray> {
    multi_get_families(env, txn, options, keys, LongArray::default())
}

pub fn multi_get_families(
    env: Env,
    txn: Ref<Txn>,
    options: Ref<ReadOptions>,
    keys: ObjectArray,
    families: LongArray,
) -> Outcome<ObjectArray> {
    let keys = env.all_byte_arrays(keys)?;
    let (txn, default) = txn.parts()?;
    let families = families_of(env, default, families, keys.len())?;
    let options = options.for_lookup();
    let pairs = families.into_iter().zip(&keys);
    values(
        env,
        pairs.map(|(family, key)| txn.get_in(family, key, &options)),
    )
}

pub fn multi_get_family(
    env: Env,
    txn: Ref<Txn>,
    options: Ref<ReadOptions>,
    family: jlong,
    keys: ObjectArray,
) -> Outcome<ObjectArray> {
    let keys = env.all_byte_arrays(keys)?;
    let (txn, default) = txn.parts()?;
    let family = family_of(default, family)?;
    let options = options.for_lookup();
    values(
        env,
        keys.iter().map(|key| txn.get_in(family, key, &options)),
    )
}

pub fn multi_get_for_update(
    env: Env,
    txn: Mut<Txn>,
    options: Ref<ReadOptions>,
    keys: ObjectArray,
) -> Outcome<ObjectArray> {
    multi_get_for_update_families(env, txn, options, keys, LongArray::default())
}

pub fn multi_get_for_update_families(
    env: Env,
    mut txn: Mut<Txn>,
    options: Ref<ReadOptions>,
    keys: ObjectArray,
    families: LongArray,
) -> Outcome<ObjectArray> {
    let keys = env.all_byte_arrays(keys)?;
    let (txn, default) = txn.parts_mut()?;
    let families = families_of(env, default, families, keys.len())?;
    let pairs: Vec<_> = families
        .into_iter()
        .zip(keys.iter().map(Vec::as_slice))
        .collect();
    let found = txn.multi_get_for_update(&pairs, &options.for_lookup());
    values(env, found.into_iter())
}

pub fn iterator(
    _env: Env,
    txn: Ref<Txn>,
    options: Ref<ReadOptions>,
    family: jlong,
) -> Outcome<New<Cursor>> {
    let (txn, default) = txn.parts()?;
    Ok(New(Cursor::Joined(Box::new(txn.iter_in(
        family_of(default, family)?,
        &options.current(),
    )))))
}

/// A write of a transaction. An untracked one is not checked for conflicts.
fn write(
    txn: &mut Txn,
    op: Op,
    family: jlong,
    key: &[u8],
    value: &[u8],
    tracked: bool,
) -> Outcome<()> {
    let (txn, default) = txn.parts_mut()?;
    let family = family_of(default, family)?;
    match (op, tracked) {
        (Op::Put, true) => txn.put_in(family, key, value)?,
        (Op::Put, false) => txn.put_untracked_in(family, key, value)?,
        (Op::Merge, true) => txn.merge_in(family, key, value)?,
        (Op::Merge, false) => txn.merge_untracked_in(family, key, value)?,
        (Op::Delete, true) => txn.delete_in(family, key)?,
        (Op::Delete, false) => txn.delete_untracked_in(family, key)?,
        (Op::SingleDelete, true) => txn.single_delete_in(family, key)?,
        (Op::SingleDelete, false) => txn.single_delete_untracked_in(family, key)?,
        (Op::DeleteRange, _) => {
            return Err(Error::not_supported("range deletions in transactions").into());
        }
    }
    Ok(())
}

/// The bytes of the concatenated elements of a `byte[][]`.
fn parts(env: Env, parts: ObjectArray) -> Outcome<Vec<u8>> {
    Ok(env.all_byte_arrays(parts)?.concat())
}

// Writes with `assume_tracked` are checked nevertheless, which finds the lock that the transaction holds.
macro_rules! pairs {
    ($($op:ident, $tracked:literal: $name:ident($($after:ident: $kind:ty),*);)+) => {$(
        pub fn $name(
            env: Env, txn: Mut<Txn>, key: ByteArray, key_at: jint, key_len: jint,
            value: ByteArray, at: jint, len: jint $(, $after: $kind)*
        ) -> Outcome<()> {
            let (key, value) = (env.bytes(key, key_at, key_len)?, env.bytes(value, at, len)?);
            write(txn.0, Op::$op, family_argument!($($after)*), &key, &value, $tracked)
        }
    )+};
}

macro_rules! family_argument {
    () => {
        0
    };
    ($family:ident) => {
        $family
    };
    ($family:ident $assume:ident) => {{
        let _: bool = $assume;
        $family
    }};
}

pairs! {
    Put, true: put();
    Put, true: put_family(family: jlong, assume_tracked: bool);
    Merge, true: merge();
    Merge, true: merge_family(family: jlong, assume_tracked: bool);
    Merge, false: merge_untracked(family: jlong);
}

// `putUntracked`, and the other writes before release 8.11.
macro_rules! short_pairs {
    ($($op:ident, $tracked:literal: $name:ident($($after:ident: $kind:ty),*);)+) => {$(
        pub fn $name(
            env: Env, txn: Mut<Txn>, key: ByteArray, key_len: jint, value: ByteArray, len: jint $(, $after: $kind)*
        ) -> Outcome<()> {
            let (key, value) = (env.bytes(key, 0, key_len)?, env.bytes(value, 0, len)?);
            write(txn.0, Op::$op, family_argument!($($after)*), &key, &value, $tracked)
        }
    )+};
}

short_pairs! {
    Put, false: put_untracked();
    Put, false: put_untracked_family(family: jlong);
    Put, true: put_short();
    Put, true: put_short_family(family: jlong, assume_tracked: bool);
    Merge, true: merge_short();
    Merge, true: merge_short_family(family: jlong, assume_tracked: bool);
    Merge, false: merge_untracked_short();
    Merge, false: merge_untracked_short_family(family: jlong);
}

macro_rules! part_pairs {
    ($($tracked:literal: $name:ident($($after:ident: $kind:ty),*);)+) => {$(
        pub fn $name(
            env: Env, txn: Mut<Txn>, key: ObjectArray, _key_count: jint, value: ObjectArray, _count: jint
            $(, $after: $kind)*
        ) -> Outcome<()> {
            let (key, value) = (parts(env, key)?, parts(env, value)?);
            write(txn.0, Op::Put, family_argument!($($after)*), &key, &value, $tracked)
        }
    )+};
}

part_pairs! {
    true: put_parts();
    true: put_parts_family(family: jlong, assume_tracked: bool);
    false: put_parts_untracked();
    false: put_parts_untracked_family(family: jlong);
}

macro_rules! direct_pairs {
    ($($op:ident, $tracked:literal: $name:ident($($after:ident: $kind:ty),*);)+) => {$(
        pub fn $name(
            env: Env, txn: Mut<Txn>, key: ByteBuffer, key_at: jint, key_len: jint,
            value: ByteBuffer, at: jint, len: jint $(, $after: $kind)*
        ) -> Outcome<()> {
            let key = env.direct(key, key_at, key_len, "key")?;
            let value = env.direct(value, at, len, "value")?;
            write(txn.0, Op::$op, family_argument!($($after)*), key, value, $tracked)
        }
    )+};
}

direct_pairs! {
    Put, true: put_direct();
    Put, true: put_direct_family(family: jlong, assume_tracked: bool);
    Merge, true: merge_direct();
    Merge, true: merge_direct_family(family: jlong, assume_tracked: bool);
    Merge, false: merge_direct_untracked(family: jlong);
}

macro_rules! keys {
    ($($op:ident, $tracked:literal: $name:ident, $parts:ident($($after:ident: $kind:ty),*);)+) => {$(
        pub fn $name(env: Env, txn: Mut<Txn>, key: ByteArray, len: jint $(, $after: $kind)*) -> Outcome<()> {
            let key = env.bytes(key, 0, len)?;
            write(txn.0, Op::$op, family_argument!($($after)*), &key, b"", $tracked)
        }
        pub fn $parts(env: Env, txn: Mut<Txn>, key: ObjectArray, _count: jint $(, $after: $kind)*) -> Outcome<()> {
            let key = parts(env, key)?;
            write(txn.0, Op::$op, family_argument!($($after)*), &key, b"", $tracked)
        }
    )+};
}

keys! {
    Delete, true: delete, delete_parts();
    Delete, true: delete_family, delete_parts_family(family: jlong, assume_tracked: bool);
    SingleDelete, true: single, single_parts();
    SingleDelete, true: single_family, single_parts_family(family: jlong, assume_tracked: bool);
    Delete, false: delete_untracked, delete_parts_untracked();
    Delete, false: delete_untracked_family, delete_parts_untracked_family(family: jlong);
}

pub fn put_log_data(env: Env, mut txn: Mut<Txn>, data: ByteArray, len: jint) -> Outcome<()> {
    let data = env.bytes(data, 0, len)?;
    txn.get_mut()?.put_log_data(&data);
    Ok(())
}

pub fn disable_indexing(_env: Env, mut txn: Mut<Txn>) -> Outcome<()> {
    txn.get_mut()?.disable_indexing();
    Ok(())
}

pub fn enable_indexing(_env: Env, mut txn: Mut<Txn>) -> Outcome<()> {
    txn.get_mut()?.enable_indexing();
    Ok(())
}

pub fn num_keys(_env: Env, txn: Ref<Txn>) -> Outcome<jlong> {
    Ok(txn.get()?.num_keys() as jlong)
}

pub fn num_puts(_env: Env, txn: Ref<Txn>) -> Outcome<jlong> {
    Ok(txn.get()?.counts().puts as jlong)
}

pub fn num_deletes(_env: Env, txn: Ref<Txn>) -> Outcome<jlong> {
    Ok(txn.get()?.counts().deletes as jlong)
}

pub fn num_merges(_env: Env, txn: Ref<Txn>) -> Outcome<jlong> {
    Ok(txn.get()?.counts().merges as jlong)
}

pub fn elapsed(_env: Env, txn: Ref<Txn>) -> jlong {
    (txn.shared
        .clock
        .monotonic_nanos()
        .saturating_sub(txn.started)
        / 1_000_000) as jlong
}

pub fn set_lock_timeout(_env: Env, mut txn: Mut<Txn>, millis: jlong) -> Outcome<()> {
    txn.get_mut()?.set_lock_timeout(millis);
    Ok(())
}

/// The handle of the write options, which the transaction owns.
pub fn write_options(_env: Env, txn: Ref<Txn>) -> jlong {
    if txn.options.get() == 0 {
        txn.options.set(handle::create(txn.write_options.clone()));
    }
    txn.options.get()
}

pub fn set_write_options(_env: Env, mut txn: Mut<Txn>, options: Ref<WriteOptions>) -> Outcome<()> {
    txn.write_options = options.clone();
    txn.get_mut()?.set_write_options(options.clone());
    match txn.options.get() {
        0 => {}
        handle => *of_mut::<WriteOptions>(handle)? = options.clone(),
    }
    Ok(())
}

pub fn undo_get(env: Env, txn: Mut<Txn>, key: ByteArray, len: jint) -> Outcome<()> {
    undo_get_family(env, txn, key, len, 0)
}

pub fn undo_get_family(
    env: Env,
    mut txn: Mut<Txn>,
    key: ByteArray,
    len: jint,
    family: jlong,
) -> Outcome<()> {
    let key = env.bytes(key, 0, len)?;
    let (txn, default) = txn.parts_mut()?;
    let family = family_of(default, family)?;
    txn.undo_get_for_update(family, &key);
    Ok(())
}

pub fn rebuild(_env: Env, mut txn: Mut<Txn>, batch: Ref<Batch>) -> Outcome<()> {
    // A copy, because the batch may be that of the transaction.
    let batch = batch.with(WriteBatch::clone);
    Ok(txn.get_mut()?.rebuild_from_write_batch(&batch)?)
}

pub fn set_name(env: Env, handle: jlong, name: JString) -> Outcome<()> {
    let name = env.modified_utf8(name)?;
    let txn = of_mut::<Txn>(handle)?;
    txn.get_mut()?.set_name(&name)?;
    txn.register(handle)
}

pub fn name(env: Env, txn: Ref<Txn>) -> Outcome<JString> {
    key_text(env, txn.get()?.name())
}

pub fn id(_env: Env, txn: Ref<Txn>) -> Outcome<jlong> {
    Ok(txn.get()?.id() as jlong)
}

pub fn is_deadlock_detect(_env: Env, txn: Ref<Txn>) -> bool {
    txn.deadlock_detect
}

pub fn state(_env: Env, txn: Ref<Txn>) -> Outcome<i8> {
    Ok(txn.get()?.state() as i8)
}

/// The key whose lock the transaction waits for in another thread, or else the key of its last lock timeout, with the
/// ids of the transactions that hold or held that lock; an empty key and no ids if there is neither. Reads only the
/// [`Waiter`], because the waiting thread uses the object.
pub fn waiting(env: Env, handle: jlong) -> Outcome<Object> {
    let state = shared_of::<Txn, Waiter>(handle)?.map(|Waiter(state)| state.lock().clone());
    let found = state.and_then(|(locks, shared)| waits_for(&locks?, &shared));
    let (family, key, holders) = found.unwrap_or_default();
    let (key, holders) = (key_text(env, &key)?, ids(env, &holders)?);
    env.create(
        "org/rocksdb/Transaction$WaitingTransactions",
        "(JLjava/lang/String;[J)V",
        &[
            jvalue {
                j: jlong::from(family),
            },
            jvalue { l: key.0 },
            jvalue { l: holders.0 },
        ],
    )
}

/// The family, the key and the other holders of the lock that a transaction waits for, or of its last lock timeout.
fn waits_for(locks: &LockObserver, shared: &Transactions) -> Option<(u32, Vec<u8>, Vec<u64>)> {
    if let Some(mut lock) = shared.waits_for(locks.id()) {
        // A transaction that waits to upgrade its shared lock is itself a holder.
        lock.holders.retain(|holder| *holder != locks.id());
        return Some((lock.family, lock.key, lock.holders));
    }
    let timeout = locks.last_timeout()?;
    Some((timeout.family, timeout.key, timeout.holders))
}

/// The number of the log of a prepared transaction is kept for its getter: Cairn finds the log itself.
pub fn set_log_number(_env: Env, mut txn: Mut<Txn>, number: jlong) {
    txn.log_number = number;
}

pub fn log_number(_env: Env, txn: Ref<Txn>) -> jlong {
    txn.log_number
}
