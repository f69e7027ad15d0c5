//! Write operations of a [`Side`]: single changes, batches, batches with index.
#![expect(unsafe_code, reason = "every function of the C API is unsafe to call")]

use std::ffi::{c_char, c_void};
use std::fmt::Write as _;

use super::api::Handle;
use super::ops::{self, Act, Cf, Change, Key, Ro, SINGLES, SLOTS, Slot, ro};
use super::side::{Said, Side, c, copied, hash, short};

/// The family of a change.
fn family_of(change: &Change) -> Cf {
    match change {
        Change::Put(cf, ..)
        | Change::Merge(cf, ..)
        | Change::Delete(cf, _)
        | Change::Single(cf, _)
        | Change::Range(cf, ..) => *cf,
    }
}

impl Side {
    /// True if a change respects the contract of single deletions: one put, then one deletion. Records
    /// the change as made.
    fn allowed(&mut self, change: &Change) -> bool {
        match change {
            Change::Put(cf, key, _) if *key >= SINGLES => {
                let there = self.singles.contains(&(*cf, *key));
                self.singles.push((*cf, *key));
                !there
            }
            Change::Single(cf, key) => {
                let place = self.singles.iter().position(|known| *known == (*cf, *key));
                place.map(|place| self.singles.swap_remove(place)).is_some()
            }
            Change::Range(..) => !stays_out(change),
            _ => true,
        }
    }

    pub(super) fn write(&mut self, change: &Change, without_log: bool) -> String {
        let cf = family_of(change);
        let Some(family) = self.families[cf] else {
            return "none".to_owned();
        };
        if self.read_only && !matches!(change, Change::Put(..) | Change::Delete(..)) {
            return "read only".to_owned();
        }
        if !self.read_only && !self.allowed(change) {
            return "not allowed".to_owned();
        }
        self.writes += 1;
        let options = self.write_options[usize::from(without_log)];
        let (db, mut said) = (self.db, Said::new());
        match change {
            Change::Put(_, key, val) => {
                let (k, v) = (ops::key(*key), val.bytes());
                let (kp, kn, vp, vn) = (k.as_ptr().cast(), k.len(), v.as_ptr().cast(), v.len());
                if cf == 0 && key % 2 == 1 {
                    c!(self, rocksdb_put(db, options, kp, kn, vp, vn, said.slot()));
                } else {
                    c!(
                        self,
                        rocksdb_put_cf(db, options, family, kp, kn, vp, vn, said.slot())
                    );
                }
            }
            Change::Merge(_, key, val) => {
                let (k, v) = (ops::key(*key), val.bytes());
                let (kp, kn, vp, vn) = (k.as_ptr().cast(), k.len(), v.as_ptr().cast(), v.len());
                if cf == 0 && key % 2 == 1 {
                    c!(
                        self,
                        rocksdb_merge(db, options, kp, kn, vp, vn, said.slot())
                    );
                } else {
                    c!(
                        self,
                        rocksdb_merge_cf(db, options, family, kp, kn, vp, vn, said.slot())
                    );
                }
            }
            Change::Delete(_, key) => {
                let k = ops::key(*key);
                let (kp, kn) = (k.as_ptr().cast(), k.len());
                if cf == 0 && key % 2 == 1 {
                    c!(self, rocksdb_delete(db, options, kp, kn, said.slot()));
                } else {
                    c!(
                        self,
                        rocksdb_delete_cf(db, options, family, kp, kn, said.slot())
                    );
                }
            }
            Change::Single(_, key) => {
                let k = ops::key(*key);
                let (kp, kn) = (k.as_ptr().cast(), k.len());
                if cf == 0 && key % 2 == 1 {
                    c!(self, rocksdb_singledelete(db, options, kp, kn, said.slot()));
                } else {
                    c!(
                        self,
                        rocksdb_singledelete_cf(db, options, family, kp, kn, said.slot())
                    );
                }
            }
            Change::Range(_, a, b) => {
                let (a, b) = (ops::key(*a), ops::key(*b));
                let (ap, bp) = (a.as_ptr().cast(), b.as_ptr().cast());
                c!(
                    self,
                    rocksdb_delete_range_cf(
                        db,
                        options,
                        family,
                        ap,
                        a.len(),
                        bp,
                        b.len(),
                        said.slot()
                    )
                );
            }
        }
        self.status(said)
    }

    pub(super) fn batch(&mut self, slot: Slot, act: &Act) -> String {
        let batch = self.batches[slot];
        match act {
            Act::Add(change) => self.add(slot, change),
            Act::Note(val) => {
                let note = val.bytes();
                c!(
                    self,
                    rocksdb_writebatch_put_log_data(batch, note.as_ptr().cast(), note.len())
                );
                String::new()
            }
            Act::Save => {
                c!(self, rocksdb_writebatch_set_save_point(batch));
                String::new()
            }
            Act::Rollback => {
                let mut said = Said::new();
                c!(
                    self,
                    rocksdb_writebatch_rollback_to_save_point(batch, said.slot())
                );
                self.status(said)
            }
            Act::Pop => {
                let mut said = Said::new();
                c!(self, rocksdb_writebatch_pop_save_point(batch, said.slot()));
                self.status(said)
            }
            Act::Clear => {
                c!(self, rocksdb_writebatch_clear(batch));
                self.touched[slot] = [false; SLOTS];
                String::new()
            }
            Act::Look => {
                let mut length = 0;
                let data = c!(self, rocksdb_writebatch_data(batch, &mut length));
                let data = copied(data, length);
                // The header has the sequence number of the last write.
                let rest = data.get(8..).unwrap_or_default();
                let count = c!(self, rocksdb_writebatch_count(batch));
                format!("{count} {length} #{:x}", hash(rest))
            }
            Act::Walk => self.records(batch),
            Act::Write => {
                self.writes += 1;
                let mut said = Said::new();
                c!(
                    self,
                    rocksdb_write(self.db, self.write_options[0], batch, said.slot())
                );
                self.status(said)
            }
        }
    }

    /// The records of a batch as its iteration shows them.
    pub(super) fn records(&self, batch: Handle) -> String {
        let mut text = String::new();
        let state: *mut c_void = (&raw mut text).cast();
        c!(
            self,
            rocksdb_writebatch_iterate_cf(batch, state, on_put, on_delete, on_merge)
        );
        text
    }

    /// Adds a change to a batch. Changes of single-delete keys are left out, because a batch is written
    /// repeatedly.
    fn add(&mut self, slot: Slot, change: &Change) -> String {
        let cf = family_of(change);
        let Some(family) = self.families[cf] else {
            return "none".to_owned();
        };
        if stays_out(change) {
            return "not allowed".to_owned();
        }
        self.touched[slot][cf] = true;
        let batch = self.batches[slot];
        match change {
            Change::Put(_, key, val) => {
                let (k, v) = (ops::key(*key), val.bytes());
                let (kp, kn, vp, vn) = (k.as_ptr().cast(), k.len(), v.as_ptr().cast(), v.len());
                c!(
                    self,
                    rocksdb_writebatch_put_cf(batch, family, kp, kn, vp, vn)
                );
            }
            Change::Merge(_, key, val) => {
                let (k, v) = (ops::key(*key), val.bytes());
                let (kp, kn, vp, vn) = (k.as_ptr().cast(), k.len(), v.as_ptr().cast(), v.len());
                c!(
                    self,
                    rocksdb_writebatch_merge_cf(batch, family, kp, kn, vp, vn)
                );
            }
            Change::Delete(_, key) => {
                let k = ops::key(*key);
                c!(
                    self,
                    rocksdb_writebatch_delete_cf(batch, family, k.as_ptr().cast(), k.len())
                );
            }
            Change::Single(_, key) => {
                let k = ops::key(*key);
                let kp = k.as_ptr().cast();
                c!(
                    self,
                    rocksdb_writebatch_singledelete_cf(batch, family, kp, k.len())
                );
            }
            Change::Range(_, a, b) => {
                let (a, b) = (ops::key(*a), ops::key(*b));
                let (ap, bp) = (a.as_ptr().cast(), b.as_ptr().cast());
                c!(
                    self,
                    rocksdb_writebatch_delete_range_cf(batch, family, ap, a.len(), bp, b.len())
                );
            }
        }
        String::new()
    }

    pub(super) fn index_new(&mut self, slot: Slot, overwrite: bool) {
        self.end_walks_over(slot);
        c!(self, rocksdb_writebatch_wi_destroy(self.indexed[slot]));
        self.indexed[slot] = c!(self, rocksdb_writebatch_wi_create(0, u8::from(overwrite)));
        self.touched[2 + slot] = [false; SLOTS];
    }

    pub(super) fn index(&mut self, slot: Slot, act: &Act) -> String {
        let batch = self.indexed[slot];
        match act {
            Act::Add(change) => return self.index_add(slot, change),
            Act::Save => c!(self, rocksdb_writebatch_wi_set_save_point(batch)),
            Act::Rollback => {
                self.end_walks_over(slot);
                let mut said = Said::new();
                c!(
                    self,
                    rocksdb_writebatch_wi_rollback_to_save_point(batch, said.slot())
                );
                return self.status(said);
            }
            Act::Clear => {
                self.end_walks_over(slot);
                c!(self, rocksdb_writebatch_wi_clear(batch));
                self.touched[2 + slot] = [false; SLOTS];
            }
            Act::Look | Act::Walk => {
                let mut length = 0;
                let data = c!(self, rocksdb_writebatch_wi_data(batch, &mut length));
                let data = copied(data, length);
                let rest = data.get(8..).unwrap_or_default();
                let count = c!(self, rocksdb_writebatch_wi_count(batch));
                return format!("{count} {length} #{:x}", hash(rest));
            }
            Act::Write => {
                self.writes += 1;
                let mut said = Said::new();
                c!(
                    self,
                    rocksdb_write_writebatch_wi(self.db, self.write_options[0], batch, said.slot())
                );
                return self.status(said);
            }
            Act::Note(_) | Act::Pop => {}
        }
        String::new()
    }

    fn index_add(&mut self, slot: Slot, change: &Change) -> String {
        let cf = family_of(change);
        let Some(family) = self.families[cf] else {
            return "none".to_owned();
        };
        if stays_out(change) {
            return "not allowed".to_owned();
        }
        self.touched[2 + slot][cf] = true;
        // Iterators over the batch must be positioned again.
        for walk in self.walks.iter_mut().flatten() {
            walk.lost |= walk.over == Some(slot);
        }
        let batch = self.indexed[slot];
        match change {
            Change::Put(_, key, val) => {
                let (k, v) = (ops::key(*key), val.bytes());
                let (kp, kn, vp, vn) = (k.as_ptr().cast(), k.len(), v.as_ptr().cast(), v.len());
                c!(
                    self,
                    rocksdb_writebatch_wi_put_cf(batch, family, kp, kn, vp, vn)
                );
            }
            Change::Merge(_, key, val) => {
                let (k, v) = (ops::key(*key), val.bytes());
                let (kp, kn, vp, vn) = (k.as_ptr().cast(), k.len(), v.as_ptr().cast(), v.len());
                c!(
                    self,
                    rocksdb_writebatch_wi_merge_cf(batch, family, kp, kn, vp, vn)
                );
            }
            Change::Delete(_, key) => {
                let k = ops::key(*key);
                let kp = k.as_ptr().cast();
                c!(
                    self,
                    rocksdb_writebatch_wi_delete_cf(batch, family, kp, k.len())
                );
            }
            Change::Single(_, key) => {
                let k = ops::key(*key);
                let kp = k.as_ptr().cast();
                c!(
                    self,
                    rocksdb_writebatch_wi_singledelete_cf(batch, family, kp, k.len())
                );
            }
            // RocksDB ignores it, and Cairn rejects the batch from then on.
            Change::Range(..) => {}
        }
        String::new()
    }

    pub(super) fn index_get(&mut self, slot: Slot, cf: Cf, key: Key) -> String {
        let Some(family) = self.families[cf] else {
            return "none".to_owned();
        };
        let (key, mut said, mut length) = (ops::key(key), Said::new(), 0);
        let value = c!(
            self,
            rocksdb_writebatch_wi_get_from_batch_cf(
                self.indexed[slot],
                self.options,
                family,
                key.as_ptr().cast(),
                key.len(),
                &mut length,
                said.slot()
            )
        );
        let status = self.status(said);
        let value = self.owned(value, length);
        format!("{status} {:?}", value.as_deref().map(short))
    }

    pub(super) fn index_get_db(
        &mut self,
        slot: Slot,
        cf: Cf,
        key: Key,
        pinned: bool,
        options: Ro,
    ) -> String {
        let Some(family) = self.families[cf] else {
            return "none".to_owned();
        };
        let (handle, _bounds) = self.read_options(options);
        let (key, mut said, mut length) = (ops::key(key), Said::new(), 0);
        let (at, count, batch) = (key.as_ptr().cast(), key.len(), self.indexed[slot]);
        let value = if pinned {
            let value = c!(
                self,
                rocksdb_writebatch_wi_get_pinned_from_batch_and_db_cf(
                    batch,
                    self.db,
                    handle,
                    family,
                    at,
                    count,
                    said.slot()
                )
            );
            self.unpinned(value)
        } else {
            let value = c!(
                self,
                rocksdb_writebatch_wi_get_from_batch_and_db_cf(
                    batch,
                    self.db,
                    handle,
                    family,
                    at,
                    count,
                    &mut length,
                    said.slot()
                )
            );
            self.owned(value, length)
        };
        c!(self, rocksdb_readoptions_destroy(handle));
        let status = self.status(said);
        format!("{status} {:?}", value.as_deref().map(short))
    }

    pub(super) fn index_walk(
        &mut self,
        slot: Slot,
        index: Slot,
        cf: Cf,
        options: Ro,
        both: bool,
    ) -> String {
        let Some(family) = self.families[cf] else {
            return "none".to_owned();
        };
        let options = Ro {
            bits: options.bits & !ro::TAILING,
            ..options
        };
        let kept = self.read_options(options);
        let base = c!(self, rocksdb_create_iterator_cf(self.db, kept.0, family));
        let batch = self.indexed[index];
        let handle = if both {
            c!(
                self,
                rocksdb_writebatch_wi_create_iterator_with_base_cf_readopts(
                    batch, base, family, kept.0
                )
            )
        } else {
            c!(
                self,
                rocksdb_writebatch_wi_create_iterator_with_base_cf(batch, base, family)
            )
        };
        self.keep_walk(slot, handle, kept, Some(index), options.bits);
        String::new()
    }
}

/// Changes that are left out of batches: those of single-delete keys, and ranges that include them.
fn stays_out(change: &Change) -> bool {
    match change {
        Change::Put(_, key, _) => *key >= SINGLES,
        Change::Single(..) => true,
        Change::Range(_, a, b) => {
            let (a, b) = (ops::key(*a), ops::key(*b));
            let (low, high) = if a < b { (a, b) } else { (b, a) };
            high.as_slice() > b"s".as_slice() && low.as_slice() < b"t".as_slice()
        }
        _ => false,
    }
}

/// Appends a record to the text behind `state`.
///
/// # Safety
///
/// `state` is the text of [`Side::records`].
unsafe fn note(state: *mut c_void, what: &str, family: u32, parts: &[(*const c_char, usize)]) {
    // SAFETY: guaranteed by the caller.
    let text = unsafe { &mut *state.cast::<String>() };
    let _ = write!(text, "{what}{family}");
    for (start, length) in parts {
        let _ = write!(text, " {}", short(&copied(*start, *length)));
    }
    text.push(';');
}

unsafe extern "C" fn on_put(
    state: *mut c_void,
    family: u32,
    key: *const c_char,
    key_length: usize,
    value: *const c_char,
    value_length: usize,
) {
    // SAFETY: called back from `Side::records`.
    unsafe {
        note(
            state,
            "put",
            family,
            &[(key, key_length), (value, value_length)],
        )
    }
}

unsafe extern "C" fn on_merge(
    state: *mut c_void,
    family: u32,
    key: *const c_char,
    key_length: usize,
    value: *const c_char,
    value_length: usize,
) {
    // SAFETY: called back from `Side::records`.
    unsafe {
        note(
            state,
            "merge",
            family,
            &[(key, key_length), (value, value_length)],
        )
    }
}

unsafe extern "C" fn on_delete(
    state: *mut c_void,
    family: u32,
    key: *const c_char,
    key_length: usize,
) {
    // SAFETY: called back from `Side::records`.
    unsafe { note(state, "delete", family, &[(key, key_length)]) }
}
