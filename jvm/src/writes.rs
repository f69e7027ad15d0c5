//! `RocksDB`: put, delete, merge, write.

use std::cmp::Ordering;

use cairn_db::{Family, WriteBatch};
use cairn_options::WriteOptions;
use cairn_types::Error;
use jni_sys::{jint, jlong};

use crate::batch::{Batch, Indexed};
use crate::db::{Database, Kind, own_family};
use crate::env::{ByteArray, ByteBuffer, Env, Outcome};
use crate::handle::{Ref, of};

/// A single write.
#[derive(Clone, Copy)]
pub enum Op {
    /// A put.
    Put,
    /// A merge.
    Merge,
    /// A deletion.
    Delete,
    /// A single deletion.
    SingleDelete,
    /// The deletion of a range.
    DeleteRange,
}

impl Op {
    /// Adds the write to a batch.
    #[inline]
    pub fn add(self, batch: &mut WriteBatch, family: Option<&Family>, key: &[u8], value: &[u8]) {
        match (self, family) {
            (Op::Put, None) => batch.put(key, value),
            (Op::Put, Some(family)) => batch.put_in(family, key, value),
            (Op::Merge, None) => batch.merge(key, value),
            (Op::Merge, Some(family)) => batch.merge_in(family, key, value),
            (Op::Delete, None) => batch.delete(key),
            (Op::Delete, Some(family)) => batch.delete_in(family, key),
            (Op::SingleDelete, None) => batch.single_delete(key),
            (Op::SingleDelete, Some(family)) => batch.single_delete_in(family, key),
            (Op::DeleteRange, None) => batch.delete_range(key, value),
            (Op::DeleteRange, Some(family)) => batch.delete_range_in(family, key, value),
        }
    }
}

/// Executes a write. `options` and `family` are null for the defaults.
#[inline]
fn update(
    db: &Database,
    op: Op,
    options: jlong,
    family: jlong,
    key: &[u8],
    value: &[u8],
) -> Outcome<()> {
    let default;
    let options = match options {
        0 => {
            default = WriteOptions::default();
            &default
        }
        handle => of::<WriteOptions>(handle)?,
    };
    let family = own_family(db, family)?;
    match (&db.kind, op) {
        (Kind::Plain, Op::Put) => family.put_with(key, value, options)?,
        (Kind::Plain, Op::Delete) => family.delete_with(key, options)?,
        (Kind::Plain, Op::Merge) => family.merge_with(key, value, options)?,
        (Kind::Locking(txn), Op::Put) => txn.put(family, key, value, options)?,
        (Kind::Locking(txn), Op::Delete) => txn.delete(family, key, options)?,
        (Kind::Locking(txn), Op::Merge) => txn.merge(family, key, value, options)?,
        (_, op) => {
            if matches!(op, Op::DeleteRange) {
                check_range(family, key, value)?;
            }
            let mut batch = WriteBatch::new();
            op.add(&mut batch, Some(family), key, value);
            write(db, options, &batch)?;
        }
    }
    Ok(())
}

/// Rejects a range whose end comes before its begin.
#[cold]
fn check_range(family: &Family, begin: &[u8], end: &[u8]) -> Outcome<()> {
    match family.options().comparator.compare(begin, end) {
        Ordering::Greater => Err(Error::invalid_argument("end key comes before start key").into()),
        _ => Ok(()),
    }
}

fn write(db: &Database, options: &WriteOptions, batch: &WriteBatch) -> cairn_types::Result<()> {
    match &db.kind {
        Kind::Plain => db.db.write_with(batch, options),
        Kind::Locking(txn) => txn.write(batch, options),
        Kind::Optimistic(txn) => txn.write(batch, options),
    }
}

/// The overloads of a write with a key and a value.
macro_rules! with_value {
    ($($op:ident: $plain:ident $family:ident $options:ident $both:ident;)+) => {$(
        pub fn $plain(
            env: Env, db: Ref<Database>,
            key: ByteArray, key_at: jint, key_len: jint, value: ByteArray, at: jint, len: jint,
        ) -> Outcome<()> {
            $both(env, db, 0, key, key_at, key_len, value, at, len, 0)
        }
        pub fn $family(
            env: Env, db: Ref<Database>,
            key: ByteArray, key_at: jint, key_len: jint, value: ByteArray, at: jint, len: jint, family: jlong,
        ) -> Outcome<()> {
            $both(env, db, 0, key, key_at, key_len, value, at, len, family)
        }
        pub fn $options(
            env: Env, db: Ref<Database>, options: jlong,
            key: ByteArray, key_at: jint, key_len: jint, value: ByteArray, at: jint, len: jint,
        ) -> Outcome<()> {
            $both(env, db, options, key, key_at, key_len, value, at, len, 0)
        }
        pub fn $both(
            env: Env, db: Ref<Database>, options: jlong,
            key: ByteArray, key_at: jint, key_len: jint, value: ByteArray, at: jint, len: jint, family: jlong,
        ) -> Outcome<()> {
            let key = env.bytes(key, key_at, key_len)?;
            let value = env.bytes(value, at, len)?;
            update(db.0, Op::$op, options, family, &key, &value)
        }
    )+};
}

with_value! {
    Put: put put_family put_options put_both;
    Merge: merge merge_family merge_options merge_both;
    DeleteRange: delete_range delete_range_family delete_range_options delete_range_both;
}

/// The overloads of a write with a key, which has an offset in some of them.
macro_rules! with_key {
    ($($op:ident($($at:ident)?): $plain:ident $family:ident $options:ident $both:ident;)+) => {$(
        pub fn $plain(
            env: Env, db: Ref<Database>, key: ByteArray, $($at: jint,)? len: jint,
        ) -> Outcome<()> {
            $both(env, db, 0, key, $($at,)? len, 0)
        }
        pub fn $family(
            env: Env, db: Ref<Database>, key: ByteArray, $($at: jint,)? len: jint, family: jlong,
        ) -> Outcome<()> {
            $both(env, db, 0, key, $($at,)? len, family)
        }
        pub fn $options(
            env: Env, db: Ref<Database>, options: jlong, key: ByteArray, $($at: jint,)? len: jint,
        ) -> Outcome<()> {
            $both(env, db, options, key, $($at,)? len, 0)
        }
        pub fn $both(
            env: Env, db: Ref<Database>, options: jlong,
            key: ByteArray, $($at: jint,)? len: jint, family: jlong,
        ) -> Outcome<()> {
            let key = env.bytes(key, 0 $(+ $at)?, len)?;
            update(db.0, Op::$op, options, family, &key, b"")
        }
    )+};
}

with_key! {
    Delete(at): delete delete_family delete_options delete_both;
    SingleDelete(): single single_family single_options single_both;
}

/// Writes with a key and a value in direct buffers.
macro_rules! direct {
    ($($op:ident: $name:ident;)+) => {$(
        pub fn $name(
            env: Env, db: Ref<Database>, options: jlong,
            key: ByteBuffer, key_at: jint, key_len: jint, value: ByteBuffer, at: jint, len: jint, family: jlong,
        ) -> Outcome<()> {
            let key = env.direct(key, key_at, key_len, "key")?;
            let value = env.direct(value, at, len, "value")?;
            update(db.0, Op::$op, options, family, key, value)
        }
    )+};
}

direct! {
    Put: put_direct;
    Merge: merge_direct;
}

pub fn delete_direct(
    env: Env,
    db: Ref<Database>,
    options: jlong,
    key: ByteBuffer,
    at: jint,
    len: jint,
    family: jlong,
) -> Outcome<()> {
    let key = env.direct(key, at, len, "key")?;
    update(db.0, Op::Delete, options, family, key, b"")
}

pub fn write_batch(
    _env: Env,
    db: Ref<Database>,
    options: Ref<WriteOptions>,
    batch: Ref<Batch>,
) -> Outcome<()> {
    batch.check()?;
    Ok(batch.with(|batch| write(db.0, &options, batch))?)
}

pub fn write_indexed(
    _env: Env,
    db: Ref<Database>,
    options: Ref<WriteOptions>,
    batch: Ref<Indexed>,
) -> Outcome<()> {
    match &db.kind {
        Kind::Plain => Ok(batch.write_to(&db.db, &options)?),
        _ => Ok(batch.with_batch(|batch| write(db.0, &options, batch))?),
    }
}
