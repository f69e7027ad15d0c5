//! `RocksIterator`, `SstFileReaderIterator` and `WBWIRocksIterator`.

use std::sync::Arc;

use cairn_db::{Iter, Snapshot, SstIter};
use cairn_indexed::{BaseDeltaIter, BatchIter, WriteKind};
use cairn_types::{Error, Result};
use jni_sys::{jint, jlong};

use crate::env::{ByteArray, ByteBuffer, Env, LongArray, Outcome};
use crate::handle::{Mut, New, Ref};
use crate::slice::Slice;

/// The object of an iterator.
pub enum Cursor {
    /// Over a column family.
    Family(Box<Iter>),
    /// Over a family with the writes of a batch or transaction.
    Joined(Box<BaseDeltaIter>),
    /// Over a table file.
    Table(Box<SstIter>),
    /// Over the writes of a batch.
    Batch(Box<BatchIter>),
}

/// Calls a method that all cursors have.
macro_rules! each {
    ($cursor:expr, $iter:ident => $body:expr) => {
        match &mut *$cursor {
            Cursor::Family($iter) => $body,
            Cursor::Joined($iter) => $body,
            Cursor::Table($iter) => $body,
            Cursor::Batch($iter) => $body,
        }
    };
}

impl Cursor {
    fn valid(&mut self) -> bool {
        each!(self, iter => iter.valid())
    }

    /// The key of the current entry; empty without one.
    fn key(&mut self) -> &[u8] {
        if !self.valid() {
            return b"";
        }
        match self {
            Cursor::Family(iter) => iter.key(),
            Cursor::Joined(iter) => iter.key(),
            Cursor::Table(iter) => iter.key(),
            Cursor::Batch(..) => b"",
        }
    }

    /// The value of the current entry; empty without one.
    fn value(&mut self) -> &[u8] {
        if !self.valid() {
            return b"";
        }
        match self {
            Cursor::Family(iter) => iter.value(),
            Cursor::Joined(iter) => iter.value(),
            Cursor::Table(iter) => iter.value(),
            Cursor::Batch(..) => b"",
        }
    }

    fn status(&self) -> Result<()> {
        match self {
            Cursor::Family(iter) => iter.status(),
            Cursor::Joined(iter) => iter.status(),
            Cursor::Table(iter) => iter.status(),
            Cursor::Batch(iter) => iter.status(),
        }
    }
}

pub fn destroy(env: Env, handle: jlong) -> Outcome<()> {
    crate::handle::destroy::<Cursor>(env, handle)
}

pub fn valid(_env: Env, cursor: Mut<Cursor>) -> bool {
    cursor.0.valid()
}

pub fn first(_env: Env, mut cursor: Mut<Cursor>) {
    each!(cursor, iter => iter.seek_to_first());
}

pub fn last(_env: Env, mut cursor: Mut<Cursor>) {
    each!(cursor, iter => iter.seek_to_last());
}

/// A move from no entry has no effect: the methods of Java declare no exception.
pub fn next(_env: Env, mut cursor: Mut<Cursor>) {
    each!(cursor, iter => if iter.valid() {
        iter.next();
    });
}

pub fn prev(_env: Env, mut cursor: Mut<Cursor>) {
    each!(cursor, iter => if iter.valid() {
        iter.prev();
    });
}

pub fn refresh(_env: Env, cursor: Mut<Cursor>) -> Outcome<()> {
    match cursor.0 {
        Cursor::Family(iter) => Ok(iter.refresh()?),
        _ => Err(Error::not_supported("Refresh() is not supported").into()),
    }
}

pub fn refresh_to(_env: Env, cursor: Mut<Cursor>, snapshot: Ref<Arc<Snapshot>>) -> Outcome<()> {
    match cursor.0 {
        Cursor::Family(iter) => Ok(iter.refresh_to(&snapshot)?),
        _ => Err(Error::not_supported("Refresh() is not supported").into()),
    }
}

pub fn status(_env: Env, cursor: Mut<Cursor>) -> Outcome<()> {
    Ok(cursor.status()?)
}

/// A move to a key: in an array, in a part of an array, and in a direct buffer.
macro_rules! seeks {
    ($($method:ident: $array:ident $part:ident $direct:ident;)+) => {$(
        pub fn $array(env: Env, cursor: Mut<Cursor>, key: ByteArray, len: jint) -> Outcome<()> {
            $part(env, cursor, key, 0, len)
        }
        pub fn $part(
            env: Env, mut cursor: Mut<Cursor>, key: ByteArray, at: jint, len: jint,
        ) -> Outcome<()> {
            let key = env.bytes(key, at, len)?;
            each!(cursor, iter => iter.$method(&key));
            Ok(())
        }
        pub fn $direct(
            env: Env, mut cursor: Mut<Cursor>, key: ByteBuffer, at: jint, len: jint,
        ) -> Outcome<()> {
            let key = env.direct(key, at, len, "key")?;
            each!(cursor, iter => iter.$method(key));
            Ok(())
        }
    )+};
}

seeks! {
    seek: seek seek_at seek_direct;
    seek_for_prev: seek_prev seek_prev_at seek_prev_direct;
}

/// The key or value of the current entry: as a new array, into an array, and into a direct buffer.
macro_rules! parts {
    ($($part:ident: $into:ident $direct:ident;)+) => {$(
        pub fn $part(env: Env, cursor: Mut<Cursor>) -> Outcome<ByteArray> {
            env.byte_array(cursor.0.$part())
        }
        pub fn $into(
            env: Env, cursor: Mut<Cursor>, target: ByteArray, at: jint, len: jint,
        ) -> Outcome<jint> {
            env.fill_array(target, at, len, cursor.0.$part())
        }
        pub fn $direct(
            env: Env, cursor: Mut<Cursor>, target: ByteBuffer, at: jint, len: jint,
        ) -> Outcome<jint> {
            env.fill_direct(target, at, len, cursor.0.$part(), stringify!($part))
        }
    )+};
}

parts! {
    key: key_into key_direct;
    value: value_into value_direct;
}

/// The type of the current write of a batch, and the handles of slices of its key and value, which Java owns.
pub fn entry(env: Env, cursor: Mut<Cursor>) -> Outcome<LongArray> {
    let Cursor::Batch(iter) = cursor.0 else {
        return Err(Error::invalid_argument("not an iterator of a batch").into());
    };
    let Some(entry) = iter.entry() else {
        return Err(Error::invalid_argument("the iterator is not at an entry").into());
    };
    // The numbers of `WBWIRocksIterator.WriteType`.
    let (kind, has_value) = match entry.kind {
        WriteKind::Put => (0, true),
        WriteKind::Merge => (1, true),
        WriteKind::Delete => (2, false),
        WriteKind::SingleDelete => (3, false),
        _ => (0x7f, true),
    };
    let key = crate::handle::create(Slice::owned(entry.key.clone()));
    let value = match has_value {
        true => crate::handle::create(Slice::owned(entry.value.clone())),
        false => 0,
    };
    env.long_array(&[kind, key, value])
}

/// The handle of a cursor over a family.
pub fn family(iter: Iter) -> New<Cursor> {
    New(Cursor::Family(Box::new(iter)))
}
