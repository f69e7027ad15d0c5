//! Several databases as one engine. A session has a session in each database, one of which is selected.

use std::cell::Cell;

use cairn::Result;

use crate::engine::{Engine, KeyRange, Session, Settings};

/// Open databases, at least one.
pub struct MultiDb<E>(pub Vec<E>);

impl<E: Engine> Engine for MultiDb<E> {
    type Session<'a>
        = MultiSession<E::Session<'a>>
    where
        Self: 'a;

    fn databases(&self) -> u64 {
        self.0.len() as u64
    }

    fn session(&self, settings: &Settings) -> MultiSession<E::Session<'_>> {
        MultiSession {
            sessions: self.0.iter().map(|db| db.session(settings)).collect(),
            selected: Cell::new(0),
        }
    }

    fn flush(&self) -> Result<()> {
        self.0.iter().try_for_each(Engine::flush)
    }

    fn compact(&self) -> Result<()> {
        self.0.iter().try_for_each(Engine::compact)
    }

    fn wait_until_quiet(&self) -> Result<()> {
        self.0.iter().try_for_each(Engine::wait_until_quiet)
    }

    fn property(&self, name: &str) -> Option<String> {
        self.0[0].property(name)
    }

    fn properties(&self, name: &str) -> Vec<String> {
        self.0.iter().filter_map(|db| db.property(name)).collect()
    }

    fn close(self) -> Result<()> {
        self.0.into_iter().try_for_each(Engine::close)
    }
}

/// A session in each database.
pub struct MultiSession<S> {
    sessions: Vec<S>,
    selected: Cell<usize>,
}

impl<S> MultiSession<S> {
    #[inline]
    fn selected(&mut self) -> &mut S {
        &mut self.sessions[self.selected.get()]
    }
}

impl<S: Session> Session for MultiSession<S> {
    type Cursor<'b>
        = S::Cursor<'b>
    where
        Self: 'b;

    #[inline]
    fn select(&self, database: u64) {
        debug_assert!(database < self.sessions.len() as u64);
        self.selected.set(database as usize);
    }

    #[inline]
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.selected().put(key, value)
    }

    fn delete(&mut self, key: &[u8]) -> Result<()> {
        self.selected().delete(key)
    }

    fn merge(&mut self, key: &[u8], operand: &[u8]) -> Result<()> {
        self.selected().merge(key, operand)
    }

    fn delete_range(&mut self, begin: &[u8], end: &[u8]) -> Result<()> {
        self.selected().delete_range(begin, end)
    }

    #[inline]
    fn add(&mut self, key: &[u8], value: &[u8]) {
        self.selected().add(key, value);
    }

    fn remove(&mut self, key: &[u8]) {
        self.selected().remove(key);
    }

    fn write(&mut self) -> Result<()> {
        self.selected().write()
    }

    #[inline]
    fn get(&mut self, key: &[u8], see: impl FnMut(&[u8]) -> Result<()>) -> Result<bool> {
        self.selected().get(key, see)
    }

    fn multi_get(
        &mut self,
        keys: &[Box<[u8]>],
        see: impl FnMut(usize, &[u8]) -> Result<()>,
    ) -> Result<()> {
        self.selected().multi_get(keys, see)
    }

    fn operands(&mut self, key: &[u8], expected: usize) -> Result<(usize, u64)> {
        self.selected().operands(key, expected)
    }

    fn multi_scan(
        &mut self,
        ranges: Vec<KeyRange>,
        together: bool,
        see: impl FnMut(&[u8], &[u8]) -> Result<()>,
    ) -> Result<()> {
        self.selected().multi_scan(ranges, together, see)
    }

    fn cursor(&self) -> S::Cursor<'_> {
        self.sessions[self.selected.get()].cursor()
    }
}
