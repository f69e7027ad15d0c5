//! Sessions and cursors.
#![expect(unsafe_code, reason = "every function of LMDB is unsafe to call")]

use std::ffi::c_int;
use std::ptr::null_mut;
use std::slice;

use cairn::{Error, Result};

use super::api::{Handle, Move, NOT_FOUND, READ_ONLY, Val};
use super::env::Env;
use crate::engine::{Cursor, Engine, KeyRange, Session, Settings};

/// Returns the bytes of a value.
///
/// # Safety
///
/// LMDB has filled `val`, and its transaction lasts for `'a`.
#[inline]
unsafe fn view<'a>(val: &Val) -> &'a [u8] {
    match val.len {
        0 => &[],
        // SAFETY: the caller guarantees it.
        len => unsafe { slice::from_raw_parts(val.bytes.cast(), len) },
    }
}

fn lacks(call: &str) -> Error {
    Error::not_supported(format!("LMDB has no {call}"))
}

impl Engine for Env {
    type Session<'a> = Thread<'a>;

    fn session(&self, settings: &Settings) -> Thread<'_> {
        Thread {
            env: self,
            reads: null_mut(),
            sync: settings.sync,
            batch: Vec::new(),
        }
    }

    fn flush(&self) -> Result<()> {
        self.sync()
    }

    fn compact(&self) -> Result<()> {
        Ok(())
    }

    fn wait_until_quiet(&self) -> Result<()> {
        Ok(())
    }

    fn property(&self, _name: &str) -> Option<String> {
        None
    }

    fn close(self) -> Result<()> {
        self.sync()
    }
}

/// A key with its value, or without one if it is deleted.
type Entry = (Box<[u8]>, Option<Box<[u8]>>);

/// A benchmark session.
pub struct Thread<'a> {
    env: &'a Env,
    /// The read transaction, reset between gets; null before the first.
    reads: Handle,
    sync: bool,
    batch: Vec<Entry>,
}

impl Thread<'_> {
    /// Calls `read` with a read transaction that sees the newest data.
    #[inline]
    fn with_newest<T>(&mut self, read: impl FnOnce(&Env, Handle) -> Result<T>) -> Result<T> {
        let env = self.env;
        if self.reads.is_null() {
            self.reads = env.begin(READ_ONLY)?;
        } else {
            // SAFETY: a live read transaction that was reset.
            env.check(unsafe { (env.api.mdb_txn_renew)(self.reads) })?;
        }
        let result = read(env, self.reads);
        // SAFETY: a live read transaction.
        unsafe { (env.api.mdb_txn_reset)(self.reads) };
        result
    }

    /// Writes `entries` in one transaction.
    fn commit<'e>(
        &self,
        entries: impl Iterator<Item = (&'e [u8], Option<&'e [u8]>)>,
    ) -> Result<()> {
        let env = self.env;
        let transaction = env.begin(0)?;
        let mut done = Ok(());
        for (key, value) in entries {
            let mut key = Val::of(key);
            // SAFETY: a live write transaction and readable bytes, which are copied.
            let code = unsafe {
                match value {
                    Some(value) => {
                        let mut value = Val::of(value);
                        (env.api.mdb_put)(transaction, env.database, &mut key, &mut value, 0)
                    }
                    None => (env.api.mdb_del)(transaction, env.database, &mut key, null_mut()),
                }
            };
            let absent = value.is_none() && code == NOT_FOUND;
            done = env.check(if absent { 0 } else { code });
            if done.is_err() {
                break;
            }
        }
        // SAFETY: the transaction is live and not used later.
        unsafe { env.end(transaction, done) }?;
        if self.sync { env.sync() } else { Ok(()) }
    }
}

/// Looks up `key` and calls `see` with its value; returns false if there is none.
#[inline]
fn look_up(
    env: &Env,
    transaction: Handle,
    key: &[u8],
    see: impl FnOnce(&[u8]) -> Result<()>,
) -> Result<bool> {
    let (mut key, mut value) = (Val::of(key), Val::NONE);
    // SAFETY: a live read transaction, readable bytes and a writable value.
    match unsafe { (env.api.mdb_get)(transaction, env.database, &mut key, &mut value) } {
        // SAFETY: LMDB has filled the value, which `see` uses within the transaction.
        0 => see(unsafe { view(&value) }).map(|()| true),
        NOT_FOUND => Ok(false),
        code => Err(env.failure(code)),
    }
}

impl Session for Thread<'_> {
    type Cursor<'b>
        = Iter<'b>
    where
        Self: 'b;

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.commit(std::iter::once((key, Some(value))))
    }

    fn delete(&mut self, key: &[u8]) -> Result<()> {
        self.commit(std::iter::once((key, None)))
    }

    fn merge(&mut self, _key: &[u8], _operand: &[u8]) -> Result<()> {
        Err(lacks("merge operators"))
    }

    fn delete_range(&mut self, _begin: &[u8], _end: &[u8]) -> Result<()> {
        Err(lacks("deletion of ranges"))
    }

    fn add(&mut self, key: &[u8], value: &[u8]) {
        self.batch.push((key.into(), Some(value.into())));
    }

    fn remove(&mut self, key: &[u8]) {
        self.batch.push((key.into(), None));
    }

    fn write(&mut self) -> Result<()> {
        let entries = self.batch.iter();
        let written = self.commit(entries.map(|(key, value)| (&**key, value.as_deref())));
        self.batch.clear();
        written
    }

    #[inline]
    fn get(&mut self, key: &[u8], see: impl FnMut(&[u8]) -> Result<()>) -> Result<bool> {
        self.with_newest(|env, transaction| look_up(env, transaction, key, see))
    }

    fn multi_get(
        &mut self,
        keys: &[Box<[u8]>],
        mut see: impl FnMut(usize, &[u8]) -> Result<()>,
    ) -> Result<()> {
        self.with_newest(|env, transaction| {
            for (at, key) in keys.iter().enumerate() {
                look_up(env, transaction, key, |value| see(at, value))?;
            }
            Ok(())
        })
    }

    fn operands(&mut self, _key: &[u8], _expected: usize) -> Result<(usize, u64)> {
        Err(lacks("merge operators"))
    }

    fn multi_scan(
        &mut self,
        _ranges: Vec<KeyRange>,
        _together: bool,
        _see: impl FnMut(&[u8], &[u8]) -> Result<()>,
    ) -> Result<()> {
        Err(lacks("scan over many ranges"))
    }

    fn cursor(&self) -> Iter<'_> {
        Iter::new(self.env)
    }
}

impl Drop for Thread<'_> {
    fn drop(&mut self) {
        if !self.reads.is_null() {
            // SAFETY: a live transaction that is not used later.
            unsafe { (self.env.api.mdb_txn_abort)(self.reads) };
        }
    }
}

/// A cursor and its read transaction. Both are null if `error` is set before the first move.
pub struct Iter<'a> {
    env: &'a Env,
    transaction: Handle,
    handle: Handle,
    /// The current entry, if `code` is 0.
    key: Val,
    value: Val,
    /// The result of the last move.
    code: c_int,
    error: Option<Error>,
}

impl<'a> Iter<'a> {
    fn new(env: &'a Env) -> Iter<'a> {
        let mut iter = Iter {
            env,
            transaction: null_mut(),
            handle: null_mut(),
            key: Val::NONE,
            value: Val::NONE,
            code: NOT_FOUND,
            error: None,
        };
        iter.error = iter.begin().err();
        iter
    }

    fn begin(&mut self) -> Result<()> {
        let env = self.env;
        self.transaction = env.begin(READ_ONLY)?;
        // SAFETY: a live transaction and a writable place.
        env.check(unsafe {
            (env.api.mdb_cursor_open)(self.transaction, env.database, &mut self.handle)
        })
    }

    #[inline]
    fn go(&mut self, to: Move) {
        if self.handle.is_null() {
            return;
        }
        // SAFETY: a live cursor, readable bytes of the key if it is sought, and writable places.
        self.code = unsafe {
            (self.env.api.mdb_cursor_get)(self.handle, &mut self.key, &mut self.value, to)
        };
    }
}

impl Cursor for Iter<'_> {
    fn seek_to_first(&mut self) {
        self.go(Move::First);
    }

    fn seek_to_last(&mut self) {
        self.go(Move::Last);
    }

    #[inline]
    fn seek(&mut self, key: &[u8]) {
        self.key = Val::of(key);
        self.go(Move::SetRange);
    }

    #[inline]
    fn next(&mut self) {
        assert!(self.valid(), "next requires a valid cursor");
        self.go(Move::Next);
    }

    #[inline]
    fn prev(&mut self) {
        assert!(self.valid(), "prev requires a valid cursor");
        self.go(Move::Prev);
    }

    #[inline]
    fn valid(&self) -> bool {
        self.code == 0
    }

    #[inline]
    fn key(&self) -> &[u8] {
        assert!(self.valid(), "key requires a valid cursor");
        // SAFETY: the last move has filled the key, which the transaction of the cursor keeps.
        unsafe { view(&self.key) }
    }

    #[inline]
    fn value(&self) -> &[u8] {
        assert!(self.valid(), "value requires a valid cursor");
        // SAFETY: as for the key.
        unsafe { view(&self.value) }
    }

    fn status(&self) -> Result<()> {
        if let Some(error) = &self.error {
            return Err(error.clone());
        }
        match self.code {
            0 | NOT_FOUND => Ok(()),
            code => Err(self.env.failure(code)),
        }
    }
}

impl Drop for Iter<'_> {
    fn drop(&mut self) {
        // SAFETY: live handles that are not used later; a cursor of a read transaction is closed before it.
        unsafe {
            if !self.handle.is_null() {
                (self.env.api.mdb_cursor_close)(self.handle);
            }
            if !self.transaction.is_null() {
                (self.env.api.mdb_txn_abort)(self.transaction);
            }
        }
    }
}
