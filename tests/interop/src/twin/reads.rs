//! Read operations of a [`Side`]: keys, batches of keys, iterators, scans.
#![expect(unsafe_code, reason = "every function of the C API is unsafe to call")]

use std::ffi::c_char;
use std::fmt::Write as _;
use std::ptr::{null, null_mut};

use super::api::Handle;
use super::ops::{self, Cf, How, Key, Move, Ro, Slot, ro};
use super::side::{Said, Side, c, copied, hash, short};

const NONE: &str = "none";

/// A value, or that there is none, as text.
fn found(status: &str, value: Option<&[u8]>) -> String {
    match (status, value) {
        ("ok", Some(value)) => format!("={}", short(value)),
        ("ok", None) => NONE.to_owned(),
        (status, _) => status.to_owned(),
    }
}

impl Side {
    pub(super) fn get(&mut self, cf: Cf, key: Key, how: How, options: Ro) -> String {
        let Some(family) = self.families[cf] else {
            return NONE.to_owned();
        };
        // `key_may_exist` is called with every tier.
        let tier = if how == How::May { 0 } else { options.tier };
        let (handle, _bounds) = self.read_options(Ro { tier, ..options });
        let bytes = ops::key(key);
        let answer = match how {
            How::Get => self.get_copy(family, cf == 0 && key % 2 == 1, handle, &bytes),
            How::Pinned => self.get_pinned(family, handle, &bytes),
            How::Into(size) => self.get_into(family, handle, &bytes, size.into()),
            How::May => self.may_exist(family, handle, &bytes),
        };
        c!(self, rocksdb_readoptions_destroy(handle));
        answer
    }

    /// `plain`: uses the function without a family.
    fn get_copy(&mut self, family: Handle, plain: bool, options: Handle, key: &[u8]) -> String {
        let (mut said, mut length) = (Said::new(), 0);
        let (at, count) = (key.as_ptr().cast(), key.len());
        let value = if plain {
            c!(
                self,
                rocksdb_get(self.db, options, at, count, &mut length, said.slot())
            )
        } else {
            c!(
                self,
                rocksdb_get_cf(
                    self.db,
                    options,
                    family,
                    at,
                    count,
                    &mut length,
                    said.slot()
                )
            )
        };
        let status = self.status(said);
        found(&status, self.owned(value, length).as_deref())
    }

    fn get_pinned(&mut self, family: Handle, options: Handle, key: &[u8]) -> String {
        let mut said = Said::new();
        let (at, count) = (key.as_ptr().cast(), key.len());
        let pinned = c!(
            self,
            rocksdb_get_pinned_cf(self.db, options, family, at, count, said.slot())
        );
        let status = self.status(said);
        let value = self.unpinned(pinned);
        found(&status, value.as_deref())
    }

    /// Copies a pinned value and releases it.
    pub(super) fn unpinned(&self, pinned: Handle) -> Option<Vec<u8>> {
        if pinned.is_null() {
            return None;
        }
        let mut length = 0;
        let value = c!(self, rocksdb_pinnableslice_value(pinned, &mut length));
        let value = copied(value, length);
        c!(self, rocksdb_pinnableslice_destroy(pinned));
        Some(value)
    }

    fn get_into(&mut self, family: Handle, options: Handle, key: &[u8], size: usize) -> String {
        let mut place = vec![0_u8; size];
        let (mut said, mut length, mut there) = (Said::new(), 0, 0);
        let fits = c!(
            self,
            rocksdb_get_into_buffer_cf(
                self.db,
                options,
                family,
                key.as_ptr().cast(),
                key.len(),
                place.as_mut_ptr().cast(),
                size,
                &mut length,
                &mut there,
                said.slot()
            )
        );
        let status = self.status(said);
        let value = if fits != 0 {
            &place[..length.min(size)]
        } else {
            b""
        };
        format!("{status} {fits} {there} {length} {}", short(value))
    }

    /// `key_may_exist` depends on caches, but a definite "no" must be true.
    fn may_exist(&mut self, family: Handle, options: Handle, key: &[u8]) -> String {
        let (mut value, mut length, mut there) = (null_mut(), 0, 0);
        let may = c!(
            self,
            rocksdb_key_may_exist_cf(
                self.db,
                options,
                family,
                key.as_ptr().cast(),
                key.len(),
                &mut value,
                &mut length,
                null(),
                0,
                &mut there
            )
        );
        let value = (there != 0).then(|| self.owned(value, length)).flatten();
        let real = self.get_copy(family, false, options, key);
        if may == 0 && real.starts_with('=') {
            return format!("{real}, and it was said not to exist");
        }
        match value {
            // RocksDB returns empty values, and the blob reference instead of a blob.
            Some(value) if self.name == "cairn" && found("ok", Some(&value)) != real => {
                format!("{real}, and it was found as {}", short(&value))
            }
            _ => real,
        }
    }

    pub(super) fn multi_get(&mut self, wanted: &[(Cf, Key)], options: Ro) -> String {
        let wanted: Vec<(Handle, Vec<u8>)> = wanted
            .iter()
            .filter_map(|(cf, key)| Some((self.families[*cf]?, ops::key(*key))))
            .collect();
        let count = wanted.len();
        let families: Vec<Handle> = wanted.iter().map(|(family, _)| *family).collect();
        let keys: Vec<*const c_char> = wanted.iter().map(|(_, key)| key.as_ptr().cast()).collect();
        let sizes: Vec<usize> = wanted.iter().map(|(_, key)| key.len()).collect();
        let (mut values, mut lengths) = (vec![null_mut(); count], vec![0; count]);
        let mut errors = vec![null_mut(); count];
        let (handle, _bounds) = self.read_options(options);
        c!(
            self,
            rocksdb_multi_get_cf(
                self.db,
                handle,
                families.as_ptr(),
                count,
                keys.as_ptr(),
                sizes.as_ptr(),
                values.as_mut_ptr(),
                lengths.as_mut_ptr(),
                errors.as_mut_ptr()
            )
        );
        c!(self, rocksdb_readoptions_destroy(handle));
        let mut answer = String::new();
        for index in 0..count {
            let status = self.status(Said(errors[index]));
            let value = self.owned(values[index], lengths[index]);
            let _ = write!(answer, "{} ", found(&status, value.as_deref()));
        }
        answer
    }

    pub(super) fn batched(&mut self, cf: Cf, keys: &[Key], sorted: bool, options: Ro) -> String {
        let Some(family) = self.families[cf] else {
            return NONE.to_owned();
        };
        let mut keys: Vec<Vec<u8>> = keys.iter().map(|key| ops::key(*key)).collect();
        if sorted {
            keys.sort();
            if self.set.callback == super::sets::Callback::Reverse {
                keys.reverse();
            }
        }
        let count = keys.len();
        let places: Vec<*const c_char> = keys.iter().map(|key| key.as_ptr().cast()).collect();
        let sizes: Vec<usize> = keys.iter().map(Vec::len).collect();
        let (mut values, mut errors) = (vec![null_mut(); count], vec![null_mut(); count]);
        let (handle, _bounds) = self.read_options(options);
        c!(
            self,
            rocksdb_batched_multi_get_cf(
                self.db,
                handle,
                family,
                count,
                places.as_ptr(),
                sizes.as_ptr(),
                values.as_mut_ptr(),
                errors.as_mut_ptr(),
                sorted
            )
        );
        c!(self, rocksdb_readoptions_destroy(handle));
        let mut answer = String::new();
        for index in 0..count {
            let status = self.status(Said(errors[index]));
            let value = self.unpinned(values[index]);
            let _ = write!(answer, "{} ", found(&status, value.as_deref()));
        }
        answer
    }

    pub(super) fn new_walk(&mut self, slot: Slot, cf: Cf, options: Ro) -> String {
        let Some(family) = self.families[cf] else {
            return NONE.to_owned();
        };
        let kept = self.read_options(options);
        let handle = c!(self, rocksdb_create_iterator_cf(self.db, kept.0, family));
        self.keep_walk(slot, handle, kept, None, options.bits);
        self.error_of(handle)
    }

    fn error_of(&mut self, walk: Handle) -> String {
        let mut said = Said::new();
        c!(self, rocksdb_iter_get_error(walk, said.slot()));
        self.status(said)
    }

    /// The position of an iterator: key and value, or its end and status.
    pub(super) fn position(&mut self, walk: Handle) -> String {
        if c!(self, rocksdb_iter_valid(walk)) == 0 {
            return format!("end {}", self.error_of(walk));
        }
        let (mut key_length, mut value_length) = (0, 0);
        let key = c!(self, rocksdb_iter_key(walk, &mut key_length));
        let key = copied(key, key_length);
        let value = c!(self, rocksdb_iter_value(walk, &mut value_length));
        let value = copied(value, value_length);
        format!("{}={}", short(&key), short(&value))
    }

    pub(super) fn step(&mut self, slot: Slot, step: &Move) -> String {
        let writes = self.writes;
        let Some(walk) = self.walks[slot].as_mut() else {
            return NONE.to_owned();
        };
        let handle = walk.handle;
        match step {
            Move::Next(count) | Move::Prev(count) => {
                if walk.lost || walk.placed.is_some_and(|placed| placed != writes) {
                    return "lost".to_owned();
                }
                return self.steps(handle, *count, matches!(step, Move::Next(_)));
            }
            Move::Refresh => {
                if walk.over.is_some() {
                    return "over a batch".to_owned();
                }
                walk.lost = true;
                let mut said = Said::new();
                c!(self, rocksdb_iter_refresh(handle, said.slot()));
                return self.status(said);
            }
            Move::First | Move::Last if walk.keeps_prefix => return "no prefix".to_owned(),
            Move::Seek(key) | Move::SeekForPrev(key)
                if walk.keeps_prefix && ops::key(*key).len() < 3 =>
            {
                return "no prefix".to_owned();
            }
            _ => {}
        }
        walk.lost = false;
        walk.placed = walk.placed.map(|_| writes);
        match step {
            Move::First => c!(self, rocksdb_iter_seek_to_first(handle)),
            Move::Last => c!(self, rocksdb_iter_seek_to_last(handle)),
            Move::Seek(key) => {
                let key = ops::key(*key);
                c!(
                    self,
                    rocksdb_iter_seek(handle, key.as_ptr().cast(), key.len())
                );
            }
            Move::SeekForPrev(key) => {
                let key = ops::key(*key);
                c!(
                    self,
                    rocksdb_iter_seek_for_prev(handle, key.as_ptr().cast(), key.len())
                );
            }
            _ => {}
        }
        self.position(handle)
    }

    /// Moves an iterator by `count` steps while it is valid.
    fn steps(&mut self, walk: Handle, count: u8, forward: bool) -> String {
        let mut answer = String::new();
        for _ in 0..count {
            if c!(self, rocksdb_iter_valid(walk)) == 0 {
                break;
            }
            if forward {
                c!(self, rocksdb_iter_next(walk));
            } else {
                c!(self, rocksdb_iter_prev(walk));
            }
            let _ = write!(answer, "{} ", self.position(walk));
        }
        answer
    }

    pub(super) fn scan(&mut self, cf: Cf, options: Ro) -> String {
        let Some(family) = self.families[cf] else {
            return NONE.to_owned();
        };
        let backwards = options.bits & (ro::PIN | ro::NO_FILL) != 0;
        // Without a seek key there is no prefix to keep.
        let options = Ro {
            bits: (options.bits & !ro::PREFIX) | ro::TOTAL,
            ..options
        };
        let (handle, _bounds) = self.read_options(options);
        let answer = self.content(self.db, family, handle, backwards);
        c!(self, rocksdb_readoptions_destroy(handle));
        answer
    }

    /// The number and the hash of all rows.
    pub(super) fn content(
        &mut self,
        db: Handle,
        family: Handle,
        options: Handle,
        backwards: bool,
    ) -> String {
        let walk = c!(self, rocksdb_create_iterator_cf(db, options, family));
        let (mut count, mut sum) = (0, 0_u64);
        if backwards {
            c!(self, rocksdb_iter_seek_to_last(walk));
        } else {
            c!(self, rocksdb_iter_seek_to_first(walk));
        }
        while c!(self, rocksdb_iter_valid(walk)) != 0 {
            count += 1;
            let row = hash(self.position(walk).as_bytes());
            sum = sum.rotate_left(7) ^ row;
            if backwards {
                c!(self, rocksdb_iter_prev(walk));
            } else {
                c!(self, rocksdb_iter_next(walk));
            }
        }
        let status = self.error_of(walk);
        c!(self, rocksdb_iter_destroy(walk));
        format!("{count} rows #{sum:x} {status}")
    }
}
