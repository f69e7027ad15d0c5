//! `WriteBatch`, `WriteBatch.Handler` and `WriteBatchWithIndex`.

use std::borrow::Cow;
use std::cell::Cell;
use std::ops::Deref;

use cairn_db::{Family, Record, WriteBatch};
use cairn_indexed::IndexedBatch;
use cairn_types::{Error, KeyOrder, Result};
use jni_sys::{jint, jlong, jvalue};

use crate::callbacks::ComparatorHandle;
use crate::db::{Database, family_or_default};
use crate::env::{ByteArray, ByteBuffer, Env, Global, Method, Object, Outcome};
use crate::handle::{Mut, New, Ref, of, of_mut, take};
use crate::iterator::Cursor;
use crate::options::ReadOptions;
use crate::writes::Op;

/// The object of a write batch.
pub struct Batch {
    writes: Source,
    /// The point at which the WAL ends: size, count and kinds of records.
    termination: Option<(usize, u32, i64)>,
}

/// The writes of a batch.
enum Source {
    Own(WriteBatch),
    /// Those of an indexed batch, which owns the object.
    Indexed(IndexedBatch),
}

impl Batch {
    /// The object of `batch`.
    pub fn new(batch: WriteBatch) -> Batch {
        Batch {
            writes: Source::Own(batch),
            termination: None,
        }
    }

    /// Calls `read` with the writes.
    #[inline]
    pub fn with<T>(&self, read: impl FnOnce(&WriteBatch) -> T) -> T {
        match &self.writes {
            Source::Own(batch) => read(batch),
            Source::Indexed(batch) => batch.with_batch(read),
        }
    }

    /// Calls `change` with the writes.
    #[inline]
    pub fn with_mut<T>(&mut self, change: impl FnOnce(&mut WriteBatch) -> T) -> Result<T> {
        match &mut self.writes {
            Source::Own(batch) => Ok(change(batch)),
            Source::Indexed(batch) => batch.change_batch(change),
        }
    }

    /// The error of an earlier call that could not report it.
    pub fn check(&self) -> Result<()> {
        match self.with(|batch| batch.refused().cloned()) {
            None => Ok(()),
            Some(error) => Err(error),
        }
    }

    /// Changes the writes. Throws if that is rejected.
    #[inline]
    fn change(&mut self, change: impl FnOnce(&mut WriteBatch)) -> Outcome<()> {
        self.with_mut(|batch| {
            change(batch);
            match batch.refused() {
                None => Ok(()),
                Some(error) => {
                    let error = error.clone();
                    batch.forget_refused();
                    Err(error.into())
                }
            }
        })?
    }
}

/// The object of an indexed batch.
pub struct Indexed {
    batch: IndexedBatch,
    /// The handle of its `WriteBatch`, which Java does not own; 0 if it was not requested.
    plain: Cell<jlong>,
}

impl Indexed {
    /// The object of `batch`.
    pub fn new(batch: IndexedBatch) -> Indexed {
        Indexed {
            batch,
            plain: Cell::new(0),
        }
    }

    /// Replaces the batch, also in its `WriteBatch`.
    pub fn replace(&mut self, batch: IndexedBatch) -> Outcome<()> {
        if self.plain.get() != 0 {
            *of_mut::<Batch>(self.plain.get())? = Batch {
                writes: Source::Indexed(batch.share()),
                termination: None,
            };
        }
        self.batch = batch;
        Ok(())
    }
}

impl Deref for Indexed {
    type Target = IndexedBatch;

    fn deref(&self) -> &IndexedBatch {
        &self.batch
    }
}

impl Drop for Indexed {
    fn drop(&mut self) {
        if self.plain.get() != 0 {
            // Created by `write_batch`, and not used after the indexed batch.
            drop(take::<Batch>(self.plain.get()));
        }
    }
}

/// The methods of both kinds of batches.
trait Writes {
    fn apply(&mut self, op: Op, family: Option<&Family>, key: &[u8], value: &[u8]) -> Outcome<()>;
}

impl Writes for Batch {
    #[inline]
    fn apply(&mut self, op: Op, family: Option<&Family>, key: &[u8], value: &[u8]) -> Outcome<()> {
        self.change(|batch| op.add(batch, family, key, value))
    }
}

impl Writes for Indexed {
    fn apply(&mut self, op: Op, family: Option<&Family>, key: &[u8], value: &[u8]) -> Outcome<()> {
        match (op, family) {
            (Op::Put, None) => self.put(key, value),
            (Op::Put, Some(family)) => self.put_in(family, key, value),
            (Op::Merge, None) => self.merge(key, value),
            (Op::Merge, Some(family)) => self.merge_in(family, key, value),
            (Op::Delete, None) => self.delete(key),
            (Op::Delete, Some(family)) => self.delete_in(family, key),
            (Op::SingleDelete, None) => self.single_delete(key),
            (Op::SingleDelete, Some(family)) => self.single_delete_in(family, key),
            (Op::DeleteRange, _) => return Ok(self.delete_range(key, value)?),
        }
        check_indexed(self)
    }
}

fn check_indexed(batch: &IndexedBatch) -> Outcome<()> {
    match batch.refused() {
        None => Ok(()),
        Some(error) => {
            batch.forget_refused();
            Err(error.into())
        }
    }
}

fn family_of<'a>(family: jlong) -> Outcome<Option<&'a Family>> {
    match family {
        0 => Ok(None),
        handle => of::<Family>(handle).map(Some),
    }
}

/// The overloads of a write with a key and a value.
macro_rules! pairs {
    ($type:ty: $($op:ident: $plain:ident $family:ident;)+) => {$(
        pub fn $plain(
            env: Env, batch: Mut<$type>, key: ByteArray, key_len: jint, value: ByteArray, len: jint,
        ) -> Outcome<()> {
            $family(env, batch, key, key_len, value, len, 0)
        }
        pub fn $family(
            env: Env, batch: Mut<$type>, key: ByteArray, key_len: jint, value: ByteArray, len: jint, family: jlong,
        ) -> Outcome<()> {
            let (key, value) = (env.bytes(key, 0, key_len)?, env.bytes(value, 0, len)?);
            batch.0.apply(Op::$op, family_of(family)?, &key, &value)
        }
    )+};
}

/// The overloads of a write with a key.
macro_rules! keys {
    ($type:ty: $($op:ident: $plain:ident $family:ident;)+) => {$(
        pub fn $plain(env: Env, batch: Mut<$type>, key: ByteArray, len: jint) -> Outcome<()> {
            $family(env, batch, key, len, 0)
        }
        pub fn $family(env: Env, batch: Mut<$type>, key: ByteArray, len: jint, family: jlong) -> Outcome<()> {
            batch.0.apply(Op::$op, family_of(family)?, &env.bytes(key, 0, len)?, b"")
        }
    )+};
}

/// The writes of one kind of batch.
macro_rules! batch_writes {
    ($type:ty) => {
        pairs! { $type:
            Put: put put_family;
            Merge: merge merge_family;
            DeleteRange: delete_range delete_range_family;
        }
        keys! { $type:
            Delete: delete delete_family;
            SingleDelete: single single_family;
        }
        pub fn put_direct(
            env: Env,
            batch: Mut<$type>,
            key: ByteBuffer,
            key_at: jint,
            key_len: jint,
            value: ByteBuffer,
            at: jint,
            len: jint,
            family: jlong,
        ) -> Outcome<()> {
            let key = env.direct(key, key_at, key_len, "key")?;
            let value = env.direct(value, at, len, "value")?;
            batch.0.apply(Op::Put, family_of(family)?, key, value)
        }
        pub fn delete_direct(
            env: Env,
            batch: Mut<$type>,
            key: ByteBuffer,
            at: jint,
            len: jint,
            family: jlong,
        ) -> Outcome<()> {
            batch.0.apply(
                Op::Delete,
                family_of(family)?,
                env.direct(key, at, len, "key")?,
                b"",
            )
        }
    };
}

pub mod plain {
    //! Writes of `WriteBatch`.
    use super::*;
    batch_writes!(Batch);
}

pub mod indexed {
    //! Writes of `WriteBatchWithIndex`.
    use super::*;
    batch_writes!(Indexed);
}

pub fn new(_env: Env, _reserved: jint) -> New<Batch> {
    New(Batch::new(WriteBatch::new()))
}

pub fn new_from(env: Env, data: ByteArray, len: jint) -> Outcome<New<Batch>> {
    Ok(New(Batch::new(WriteBatch::from_data(
        &env.bytes(data, 0, len)?,
    )?)))
}

pub fn destroy(env: Env, handle: jlong) -> Outcome<()> {
    crate::handle::destroy::<Batch>(env, handle)
}

pub fn count(_env: Env, batch: Ref<Batch>) -> jint {
    batch.with(WriteBatch::count).cast_signed()
}

pub fn put_log_data(env: Env, mut batch: Mut<Batch>, data: ByteArray, len: jint) -> Outcome<()> {
    let data = env.bytes(data, 0, len)?;
    batch.change(|batch| batch.put_log_data(&data))
}

pub fn clear(_env: Env, mut batch: Mut<Batch>) -> Outcome<()> {
    batch.with_mut(WriteBatch::clear)?;
    batch.termination = None;
    Ok(())
}

pub fn set_save_point(_env: Env, mut batch: Mut<Batch>) -> Outcome<()> {
    Ok(batch.with_mut(WriteBatch::set_save_point)?)
}

pub fn rollback(_env: Env, mut batch: Mut<Batch>) -> Outcome<()> {
    Ok(batch.with_mut(WriteBatch::rollback_to_save_point)??)
}

pub fn pop_save_point(_env: Env, mut batch: Mut<Batch>) -> Outcome<()> {
    Ok(batch.with_mut(WriteBatch::pop_save_point)??)
}

pub fn set_max_bytes(_env: Env, mut batch: Mut<Batch>, bytes: jlong) -> Outcome<()> {
    let bytes = usize::try_from(bytes).unwrap_or(0);
    Ok(batch.with_mut(|batch| batch.set_max_bytes(bytes))?)
}

pub fn data(env: Env, batch: Ref<Batch>) -> Outcome<ByteArray> {
    batch.with(|batch| env.byte_array(batch.data()))
}

pub fn data_size(_env: Env, batch: Ref<Batch>) -> jlong {
    batch.with(|batch| batch.data().len()) as jlong
}

macro_rules! has {
    ($($name:ident => $pattern:pat,)+) => {$(
        pub fn $name(_env: Env, batch: Ref<Batch>) -> bool {
            batch.with(|batch| batch.records().any(|record| matches!(record, Ok($pattern))))
        }
    )+};
}

has! {
    has_put => Record::Put { .. } | Record::PutEntity { .. },
    has_delete => Record::Delete { .. },
    has_single_delete => Record::SingleDelete { .. },
    has_delete_range => Record::DeleteRange { .. },
    has_merge => Record::Merge { .. },
    has_begin_prepare => Record::BeginPrepare(_),
    has_end_prepare => Record::EndPrepare { .. },
    has_commit => Record::Commit { .. } | Record::CommitWithTimestamp { .. },
    has_rollback => Record::Rollback { .. },
}

/// The bit of a kind of record in RocksDB's flags of the content of a batch.
fn kind_flag(record: &Record<'_>) -> i64 {
    match record {
        Record::Put { .. } | Record::TimedPut { .. } => 1 << 1,
        Record::Delete { .. } => 1 << 2,
        Record::SingleDelete { .. } => 1 << 3,
        Record::Merge { .. } => 1 << 4,
        Record::BeginPrepare(_) => 1 << 5,
        Record::EndPrepare { .. } => 1 << 6,
        Record::Commit { .. } | Record::CommitWithTimestamp { .. } => 1 << 7,
        Record::Rollback { .. } => 1 << 8,
        Record::DeleteRange { .. } => 1 << 9,
        Record::PutBlobIndex { .. } => 1 << 10,
        Record::PutEntity { .. } => 1 << 13,
        Record::LogData(_) | Record::Noop => 0,
    }
}

pub fn mark_termination(_env: Env, mut batch: Mut<Batch>) {
    let point = batch.with(|batch| {
        let records = batch.records().flatten();
        let kinds = records.fold(0, |kinds, record| kinds | kind_flag(&record));
        (batch.data().len(), batch.count(), kinds)
    });
    batch.termination = Some(point);
}

pub fn termination(env: Env, batch: Ref<Batch>) -> Outcome<Object> {
    let (size, count, kinds) = batch.termination.unwrap_or((0, 0, 0));
    env.create(
        "org/rocksdb/WriteBatch$SavePoint",
        "(JJJ)V",
        &[
            jvalue { j: size as jlong },
            jvalue {
                j: jlong::from(count),
            },
            jvalue { j: kinds },
        ],
    )
}

/// A Java handler of the writes of a batch.
pub struct Handler {
    object: Global,
    // The overloads with the id of a family, which RocksJava calls for the default family, too.
    put: Method,
    merge: Method,
    delete: Method,
    single_delete: Method,
    delete_range: Method,
    log_data: Method,
    blob_index: Method,
    begin_prepare: Method,
    end_prepare: Method,
    noop: Method,
    rollback: Method,
    commit: Method,
    commit_timestamp: Option<Method>,
    should_continue: Method,
}

pub fn new_handler(env: Env, this: Object) -> Outcome<New<Handler>> {
    let one = |name, descriptor| env.method_of(this, name, descriptor);
    Ok(New(Handler {
        object: env.global(this),
        put: one("put", "(I[B[B)V")?,
        merge: one("merge", "(I[B[B)V")?,
        delete: one("delete", "(I[B)V")?,
        single_delete: one("singleDelete", "(I[B)V")?,
        delete_range: one("deleteRange", "(I[B[B)V")?,
        log_data: one("logData", "([B)V")?,
        blob_index: one("putBlobIndex", "(I[B[B)V")?,
        begin_prepare: one("markBeginPrepare", "()V")?,
        end_prepare: one("markEndPrepare", "([B)V")?,
        noop: one("markNoop", "(Z)V")?,
        rollback: one("markRollback", "([B)V")?,
        commit: one("markCommit", "([B)V")?,
        commit_timestamp: one("markCommitWithTimestamp", "([B[B)V").ok(),
        should_continue: one("shouldContinue", "()Z")?,
    }))
}

impl Handler {
    fn call(&self, env: Env, method: Method, first: Option<u32>, arrays: &[&[u8]]) -> Outcome<()> {
        env.frame(|| {
            let mut arguments = Vec::new();
            arguments.extend(first.map(|family| jvalue {
                i: family.cast_signed(),
            }));
            for bytes in arrays {
                arguments.push(jvalue {
                    l: env.byte_array(bytes)?.0,
                });
            }
            env.call_void(self.object.object(), method, &arguments)
        })
    }

    fn record(&self, env: Env, record: &Record<'_>) -> Outcome<()> {
        match *record {
            Record::Put { family, key, value }
            | Record::TimedPut {
                family, key, value, ..
            } => self.call(env, self.put, Some(family), &[key, value]),
            Record::Merge {
                family,
                key,
                operand,
            } => self.call(env, self.merge, Some(family), &[key, operand]),
            Record::Delete { family, key } => self.call(env, self.delete, Some(family), &[key]),
            Record::SingleDelete { family, key } => {
                self.call(env, self.single_delete, Some(family), &[key])
            }
            Record::DeleteRange { family, begin, end } => {
                self.call(env, self.delete_range, Some(family), &[begin, end])
            }
            Record::PutBlobIndex { family, key, index } => {
                self.call(env, self.blob_index, Some(family), &[key, index])
            }
            Record::PutEntity { .. } => {
                Err(Error::invalid_argument("Handler::PutEntityCF not implemented").into())
            }
            Record::LogData(data) => self.call(env, self.log_data, None, &[data]),
            Record::Noop => env.call_void(self.object.object(), self.noop, &[jvalue { z: true }]),
            Record::BeginPrepare(_) => self.call(env, self.begin_prepare, None, &[]),
            Record::EndPrepare { name } => self.call(env, self.end_prepare, None, &[name]),
            Record::Commit { name } => self.call(env, self.commit, None, &[name]),
            Record::CommitWithTimestamp { timestamp, name } => match self.commit_timestamp {
                Some(method) => self.call(env, method, None, &[name, timestamp]),
                None => self.call(env, self.commit, None, &[name]),
            },
            Record::Rollback { name } => self.call(env, self.rollback, None, &[name]),
        }
    }
}

pub fn iterate(env: Env, batch: Ref<Batch>, handler: Ref<Handler>) -> Outcome<()> {
    let copy;
    let writes = match &batch.writes {
        Source::Own(batch) => batch,
        // The handler may call the indexed batch.
        Source::Indexed(batch) => {
            copy = batch.with_batch(WriteBatch::clone);
            &copy
        }
    };
    for record in writes.records() {
        if !env.call_bool(handler.object.object(), handler.should_continue, &[])? {
            break;
        }
        handler.record(env, &record?)?;
    }
    Ok(())
}

pub fn new_indexed(_env: Env) -> New<Indexed> {
    New(Indexed::new(IndexedBatch::new(false)))
}

pub fn new_indexed_overwriting(_env: Env, overwrite: bool) -> New<Indexed> {
    New(Indexed::new(IndexedBatch::new(overwrite)))
}

pub fn new_indexed_ordered(
    _env: Env,
    order: Option<Ref<ComparatorHandle>>,
    _kind: i8,
    _reserved: jint,
    overwrite: bool,
) -> New<Indexed> {
    let order = order.map_or(KeyOrder::Bytewise, |order| order.clone());
    New(Indexed::new(IndexedBatch::with_order(order, overwrite)))
}

pub fn destroy_indexed(env: Env, handle: jlong) -> Outcome<()> {
    crate::handle::destroy::<Indexed>(env, handle)
}

pub fn count_indexed(_env: Env, batch: Ref<Indexed>) -> jint {
    batch.count().cast_signed()
}

pub fn put_log_data_indexed(
    env: Env,
    batch: Mut<Indexed>,
    data: ByteArray,
    len: jint,
) -> Outcome<()> {
    batch.put_log_data(&env.bytes(data, 0, len)?);
    check_indexed(&batch)
}

pub fn clear_indexed(_env: Env, batch: Mut<Indexed>) {
    batch.clear();
}

pub fn set_save_point_indexed(_env: Env, batch: Mut<Indexed>) {
    batch.set_save_point();
}

pub fn rollback_indexed(_env: Env, batch: Mut<Indexed>) -> Outcome<()> {
    Ok(batch.rollback_to_save_point()?)
}

pub fn pop_save_point_indexed(_env: Env, batch: Mut<Indexed>) -> Outcome<()> {
    Ok(batch.pop_save_point()?)
}

pub fn set_max_bytes_indexed(_env: Env, batch: Mut<Indexed>, bytes: jlong) {
    batch.set_max_bytes(usize::try_from(bytes).unwrap_or(0));
}

/// The `WriteBatch` of an indexed batch, which belongs to it. Writes to it are not indexed.
pub fn write_batch(env: Env, batch: Ref<Indexed>) -> Outcome<Object> {
    if batch.plain.get() == 0 {
        batch.plain.set(crate::handle::create(Batch {
            writes: Source::Indexed(batch.share()),
            termination: None,
        }));
    }
    env.create(
        "org/rocksdb/WriteBatch",
        "(JZ)V",
        &[
            jvalue {
                j: batch.plain.get(),
            },
            jvalue { z: false },
        ],
    )
}

pub fn indexed_iterator(_env: Env, batch: Ref<Indexed>) -> New<Cursor> {
    New(Cursor::Batch(Box::new(batch.iter())))
}

pub fn indexed_iterator_in(_env: Env, batch: Ref<Indexed>, family: Ref<Family>) -> New<Cursor> {
    New(Cursor::Batch(Box::new(batch.iter_in(&family))))
}

pub fn iterator_with_base(
    _env: Env,
    batch: Ref<Indexed>,
    family: Ref<Family>,
    base: jlong,
    options: Option<Ref<ReadOptions>>,
) -> Outcome<New<Cursor>> {
    // Java still owns an iterator that is rejected, so the handle is taken after the check.
    let rejected = || Error::invalid_argument("the base must be an iterator of a column family");
    if !matches!(of::<Cursor>(base)?, Cursor::Family(_)) {
        return Err(rejected().into());
    }
    // The base iterator becomes a part of the new one.
    let Cursor::Family(base) = take::<Cursor>(base)? else {
        return Err(rejected().into());
    };
    let options = options
        .as_ref()
        .map_or_else(Cow::default, |options| options.current());
    Ok(New(Cursor::Joined(Box::new(
        batch.iter_over(&family, *base, &options),
    ))))
}

pub fn get_from_batch(
    env: Env,
    batch: Ref<Indexed>,
    _options: jlong,
    key: ByteArray,
    len: jint,
) -> Outcome<ByteArray> {
    let value = batch.get(&env.bytes(key, 0, len)?)?;
    env.maybe_byte_array(value.as_deref())
}

pub fn get_from_batch_in(
    env: Env,
    batch: Ref<Indexed>,
    _options: jlong,
    key: ByteArray,
    len: jint,
    family: Ref<Family>,
) -> Outcome<ByteArray> {
    let value = batch.get_in(&family, &env.bytes(key, 0, len)?)?;
    env.maybe_byte_array(value.as_deref())
}

pub fn get_over(
    env: Env,
    batch: Ref<Indexed>,
    db: Ref<Database>,
    options: Ref<ReadOptions>,
    key: ByteArray,
    len: jint,
) -> Outcome<ByteArray> {
    get_over_in(env, batch, db, options, key, len, 0)
}

pub fn get_over_in(
    env: Env,
    batch: Ref<Indexed>,
    db: Ref<Database>,
    options: Ref<ReadOptions>,
    key: ByteArray,
    len: jint,
    family: jlong,
) -> Outcome<ByteArray> {
    let family = family_or_default(db.0, family)?;
    let value = batch.get_over(family, &env.bytes(key, 0, len)?, &options.for_lookup())?;
    env.maybe_byte_array(value.as_deref())
}
