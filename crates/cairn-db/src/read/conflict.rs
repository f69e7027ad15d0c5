//! Conflict checks of transactions: the state of a key relative to a sequence number.
//!
//! The memtables of a family, together with the flushed ones that `max_write_buffer_size_to_maintain` keeps, hold
//! every write after a certain sequence number. For a later point in time, they decide alone; otherwise, the tables
//! have to be searched, or the answer is unknown.

use std::ops::ControlFlow;
use std::sync::Arc;

use cairn_format::key::LookupKey;
use cairn_memtable::Memtable;
use cairn_options::ReadOptions;
use cairn_read::{View, is_written_after, is_written_since};
use cairn_types::{Error, Result, SequenceNumber};

use crate::catalog::family::FamilyState;
use crate::catalog::release::check_held;
use crate::db::handle::Family;
use crate::db::timestamps::check_size;

/// The state of a key relative to a sequence number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyState {
    /// The key was not written afterwards.
    Unchanged,
    /// The key was written afterwards, or covered by a range deletion.
    Written,
    /// The memtables hold only writes after `oldest`, and the key is not among them.
    Unknown {
        /// The last sequence number that precedes the memtables.
        oldest: SequenceNumber,
    },
}

impl Family {
    /// Returns the state of `key` relative to `since`. Unless `memory_only` is set, tables are searched if the
    /// memtables do not reach back to `since`, and the result is never [`KeyState::Unknown`]. Writes in progress count
    /// as soon as they are in a memtable.
    ///
    /// # Errors
    ///
    /// Those of a get; `NotSupported` for a family with timestamps.
    pub fn state_since(
        &self,
        key: &[u8],
        since: SequenceNumber,
        memory_only: bool,
    ) -> Result<KeyState> {
        let state = &*self.state;
        self.db.shared.context.check_reader()?;
        if state.order().timestamp_size() > 0 {
            return Err(Error::not_supported(format!(
                "conflict checks in column family {:?}, whose keys have timestamps",
                state.name()
            )));
        }
        // Before the history: a memtable joins the history before it leaves the view.
        let view = state.view();
        check_held(&view)?;
        let lookup = LookupKey::new(key, SequenceNumber::MAX);
        if let Some(seq) = newest(view.memtables(), &lookup, since) {
            return Ok(state_of(seq, since));
        }
        if oldest(view.memtables()) <= since {
            return Ok(KeyState::Unchanged);
        }
        match in_history(state, &view, &lookup, since) {
            KeyState::Unknown { .. } if !memory_only => {
                let written = is_written_since(&view, &lookup, since, &ReadOptions::default())?;
                Ok(match written {
                    true => KeyState::Written,
                    false => KeyState::Unchanged,
                })
            }
            found => Ok(found),
        }
    }
}

impl Family {
    /// True if `key` was written after `since`, or at a newer timestamp than `timestamp`, or covered by such a range
    /// deletion. For families with 64-bit timestamps.
    ///
    /// # Errors
    ///
    /// Those of a get; `InvalidArgument` for a family without timestamps of 8 bytes.
    pub fn is_written_after(
        &self,
        key: &[u8],
        since: SequenceNumber,
        timestamp: Option<u64>,
    ) -> Result<bool> {
        const NEWEST: [u8; 8] = [0xff; 8];
        self.db.shared.context.check_reader()?;
        check_size(&self.state, NEWEST.len())?;
        let view = self.state.view();
        check_held(&view)?;
        let lookup = LookupKey::with_timestamp(key, &NEWEST, SequenceNumber::MAX);
        is_written_after(&view, &lookup, since, timestamp)
    }
}

/// The state of a key whose newest write is `seq`.
fn state_of(seq: SequenceNumber, since: SequenceNumber) -> KeyState {
    match seq > since {
        true => KeyState::Written,
        false => KeyState::Unchanged,
    }
}

/// The state of the key of `lookup`, which the memtables of `view` do not have, according to the flushed memtables.
#[cold]
fn in_history(
    state: &FamilyState,
    view: &View,
    lookup: &LookupKey,
    since: SequenceNumber,
) -> KeyState {
    let flushed = state.flushed_memtables();
    match newest(flushed.iter().rev(), lookup, since) {
        Some(seq) => state_of(seq, since),
        None => match oldest(flushed.iter()).min(oldest(view.memtables())) {
            oldest if oldest <= since => KeyState::Unchanged,
            oldest => KeyState::Unknown { oldest },
        },
    }
}

/// The last sequence number that precedes `memtables`.
fn oldest<'m>(memtables: impl Iterator<Item = &'m Arc<Memtable>>) -> SequenceNumber {
    let oldest = memtables.map(|memtable| memtable.earliest_seq()).min();
    oldest.unwrap_or(SequenceNumber::MAX)
}

/// The sequence number of the newest write to the key of `lookup` in `memtables`, which are ordered newest first, unless
/// it is in a memtable without writes after `since`.
fn newest<'m>(
    memtables: impl Iterator<Item = &'m Arc<Memtable>>,
    lookup: &LookupKey,
    since: SequenceNumber,
) -> Option<SequenceNumber> {
    memtables
        .take_while(|memtable| memtable.largest_seq() > since || memtable.earliest_seq() >= since)
        .find_map(|memtable| newest_in(memtable, lookup))
}

/// The sequence number of the newest write to the key of `lookup` in `memtable`.
fn newest_in(memtable: &Memtable, lookup: &LookupKey) -> Option<SequenceNumber> {
    let mut newest = None;
    memtable.find(lookup, |entry| {
        newest = Some(entry.seq());
        ControlFlow::Break(())
    });
    if memtable.has_range_tombstones() {
        let order = memtable.order();
        for fragments in memtable.written_range_tombstones().iter() {
            let seq = fragments.covering(order, lookup.user(), lookup.seq());
            newest = newest.max(Some(seq).filter(|seq| *seq > SequenceNumber::ZERO));
        }
    }
    newest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::db::open_in_memory;
    use crate::{Db, WriteBatch};

    fn state(db: &Db, key: &[u8], since: u64, memory_only: bool) -> KeyState {
        db.state_since(key, SequenceNumber(since), memory_only)
            .unwrap()
    }

    #[test]
    fn writes_after_a_number_are_found_in_memtables_history_and_tables() {
        let db = open_in_memory();
        for kept in [0, 64 << 20] {
            let options = cairn_options::FamilyOptions {
                max_write_buffer_size_to_maintain: kept,
                ..cairn_options::FamilyOptions::default()
            };
            let family = db.create_family(&kept.to_string(), &options).unwrap();
            let start = db.latest_sequence().0;
            let state = |key: &[u8], since: u64, memory_only: bool| {
                let since = SequenceNumber(start + since);
                family.state_since(key, since, memory_only).unwrap()
            };
            for key in [b"a", b"b", b"c"] {
                family.put(key, b"1").unwrap();
            }
            assert_eq!(state(b"b", 2, true), KeyState::Unchanged);
            assert_eq!(state(b"b", 1, true), KeyState::Written);
            assert_eq!(state(b"x", 0, true), KeyState::Unchanged);
            db.flush_families(&[&family]).unwrap();
            family.put(b"d", b"2").unwrap();
            assert_eq!(state(b"b", 1, false), KeyState::Written);
            assert_eq!(state(b"b", 2, false), KeyState::Unchanged);
            assert_eq!(state(b"d", 3, true), KeyState::Written);
            let oldest = SequenceNumber(start + 3);
            let (written, unchanged) = match kept {
                0 => (KeyState::Unknown { oldest }, KeyState::Unknown { oldest }),
                _ => (KeyState::Written, KeyState::Unchanged),
            };
            assert_eq!(state(b"b", 1, true), written);
            assert_eq!(state(b"b", 2, true), unchanged);
        }
    }

    #[test]
    fn range_deletions_are_writes() {
        let db = open_in_memory();
        db.put(b"b", b"1").unwrap();
        db.delete_range(b"a", b"c").unwrap();
        assert_eq!(state(&db, b"b", 1, true), KeyState::Written);
        assert_eq!(state(&db, b"b", 2, true), KeyState::Unchanged);
        assert_eq!(state(&db, b"c", 0, true), KeyState::Unchanged);
    }

    #[test]
    fn a_conditional_write_sees_earlier_writes_and_may_be_refused() {
        let db = open_in_memory();
        let mut batch = WriteBatch::new();
        batch.put(b"k", b"1");
        let absent = || match db.get(b"k")? {
            None => Ok(()),
            Some(_) => Err(Error::busy("present")),
        };
        let options = cairn_options::WriteOptions::default();
        db.write_if(&batch, &options, absent).unwrap();
        assert!(db.write_if(&batch, &options, absent).is_err());
        db.delete(b"k").unwrap();
        let won = std::sync::atomic::AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    db.put(b"other", b"2").unwrap();
                    if db.write_if(&batch, &options, absent).is_ok() {
                        won.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!(won.into_inner(), 1);
    }
}
