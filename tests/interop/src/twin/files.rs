//! Operations of a [`Side`] on the LSM tree and its files: flushes, compactions, families, reopening,
//! checkpoints, ingestions, properties, the WAL.
#![expect(unsafe_code, reason = "every function of the C API is unsafe to call")]

use std::ffi::{CStr, CString, c_char, c_int};
use std::fmt::Write as _;
use std::ptr::{null, null_mut};

use super::ops::{self, CHANGES, Cf, Change, Key, NAMES, PROPERTIES, SLOTS, ro};
use super::sets::{Callback, Transactions};
use super::side::{Said, Side, c, c_path, copied, hash};
use super::transactions::NOOP;

impl Side {
    pub(super) fn flush(&mut self, cf: Cf) -> String {
        let Some(family) = self.families[cf] else {
            return "none".to_owned();
        };
        let (options, mut said) = (c!(self, rocksdb_flushoptions_create()), Said::new());
        c!(
            self,
            rocksdb_flush_cf(self.db, options, family, said.slot())
        );
        c!(self, rocksdb_flushoptions_destroy(options));
        self.status(said)
    }

    pub(super) fn flush_all(&mut self) -> String {
        let mut families: Vec<_> = self.families.iter().flatten().copied().collect();
        let count = c_int::try_from(families.len()).expect("few families");
        let (options, mut said) = (c!(self, rocksdb_flushoptions_create()), Said::new());
        let places = families.as_mut_ptr();
        c!(
            self,
            rocksdb_flush_cfs(self.db, options, places, count, said.slot())
        );
        c!(self, rocksdb_flushoptions_destroy(options));
        self.status(said)
    }

    pub(super) fn compact(
        &mut self,
        cf: Cf,
        range: Option<(Key, Key)>,
        bottom: u8,
        target: Option<u8>,
    ) {
        let Some(family) = self.families[cf] else {
            return;
        };
        let options = c!(self, rocksdb_compactoptions_create());
        c!(
            self,
            rocksdb_compactoptions_set_bottommost_level_compaction(options, bottom)
        );
        if let Some(target) = target {
            c!(self, rocksdb_compactoptions_set_change_level(options, 1));
            c!(
                self,
                rocksdb_compactoptions_set_target_level(options, target.into())
            );
        }
        let bounds = range.map(|(a, b)| (ops::key(a), ops::key(b)));
        let (mut low, mut high) = ((null::<c_char>(), 0), (null::<c_char>(), 0));
        if let Some((a, b)) = &bounds {
            low = (a.as_ptr().cast(), a.len());
            high = (b.as_ptr().cast(), b.len());
        }
        c!(
            self,
            rocksdb_compact_range_cf_opt(self.db, family, options, low.0, low.1, high.0, high.1)
        );
        c!(self, rocksdb_compactoptions_destroy(options));
    }

    pub(super) fn settle(&mut self) -> String {
        let (options, mut said) = (
            c!(self, rocksdb_wait_for_compact_options_create()),
            Said::new(),
        );
        c!(
            self,
            rocksdb_wait_for_compact(self.db, options, said.slot())
        );
        c!(self, rocksdb_wait_for_compact_options_destroy(options));
        self.status(said)
    }

    pub(super) fn set_options(&mut self, cf: Cf, row: usize) -> String {
        let Some(family) = self.families[cf] else {
            return "none".to_owned();
        };
        let texts: Vec<(CString, CString)> = CHANGES[row]
            .iter()
            .map(|(name, value)| {
                let text = |text: &str| CString::new(text).expect("no zero in options");
                (text(name), text(value))
            })
            .collect();
        let mut names: Vec<_> = texts.iter().map(|(name, _)| name.as_ptr()).collect();
        let mut values: Vec<_> = texts.iter().map(|(_, value)| value.as_ptr()).collect();
        let count = c_int::try_from(names.len()).expect("few options");
        let mut said = Said::new();
        c!(
            self,
            rocksdb_set_options_cf(
                self.db,
                family,
                count,
                names.as_mut_ptr(),
                values.as_mut_ptr(),
                said.slot()
            )
        );
        self.status(said)
    }

    /// Creates a family, or reports that it exists.
    pub(super) fn create_family(&mut self, cf: Cf) -> String {
        let (name, mut said) = (
            CString::new(NAMES[cf]).expect("no zero in names"),
            Said::new(),
        );
        let (options, name) = (self.options, name.as_ptr());
        // RocksDB's locks do not know a family that the underlying database creates.
        let handle = match self.set.transactions {
            Transactions::Pessimistic => c!(
                self,
                rocksdb_transactiondb_create_column_family(
                    self.transactions.db,
                    options,
                    name,
                    said.slot()
                )
            ),
            _ => c!(
                self,
                rocksdb_create_column_family(self.db, options, name, said.slot())
            ),
        };
        let status = self.status(said);
        if status != "ok" {
            return status;
        }
        let id = c!(self, rocksdb_column_family_handle_get_id(handle));
        self.families[cf] = Some(handle);
        format!("ok {id}")
    }

    pub(super) fn drop_family(&mut self, cf: Cf) -> String {
        let Some(family) = self.families[cf].take() else {
            return "none".to_owned();
        };
        // Writing a batch with changes of a dropped family is an error in both libraries, so the
        // batches are cleared.
        for index in 0..2 {
            if self.touched[index][cf] || self.touched[2 + index][cf] {
                self.clear_batches(index);
            }
        }
        self.end_transactions(false);
        // RocksDB's iterators access their family when they move.
        for slot in 0..SLOTS {
            self.end_walk(slot);
        }
        let mut said = Said::new();
        c!(
            self,
            rocksdb_drop_column_family(self.db, family, said.slot())
        );
        c!(self, rocksdb_column_family_handle_destroy(family));
        self.singles.retain(|(known, _)| *known != cf);
        self.status(said)
    }

    pub(super) fn families(&mut self) -> String {
        let mut text = String::new();
        for family in self.families.into_iter().flatten() {
            let mut length = 0;
            let id = c!(self, rocksdb_column_family_handle_get_id(family));
            let name = c!(
                self,
                rocksdb_column_family_handle_get_name(family, &mut length)
            );
            let name = self.owned(name, length).unwrap_or_default();
            let _ = write!(text, "{} {id} ", name.escape_ascii());
        }
        text
    }

    pub(super) fn reopen(&mut self, read_only: bool) -> String {
        self.close();
        self.open(read_only, false)
    }

    /// Creates a checkpoint and reads its content. `log` is `log_size_for_flush`.
    pub(super) fn checkpoint(&mut self, log: u16) -> String {
        self.disk.files += 1;
        let folder = self
            .folder
            .with_extension(format!("checkpoint{}", self.disk.files));
        let path = c_path(&folder);
        let mut said = Said::new();
        let maker = c!(self, rocksdb_checkpoint_object_create(self.db, said.slot()));
        let mut answer = self.status(said);
        if maker.is_null() {
            return answer;
        }
        let (size, mut said) = (if log == 0 { 0 } else { u64::MAX }, Said::new());
        c!(
            self,
            rocksdb_checkpoint_create(maker, path.as_ptr(), size, said.slot())
        );
        answer += &self.status(said);
        c!(self, rocksdb_checkpoint_object_destroy(maker));
        match self.listed(&folder) {
            Ok(names) => answer += &self.content_at(&folder, &names),
            Err(status) => answer += &status,
        }
        // Nothing reads it any more.
        let _ = std::fs::remove_dir_all(&folder);
        answer
    }

    /// The content of the database in `folder`, opened on its own.
    fn content_at(&mut self, folder: &std::path::Path, names: &[&str]) -> String {
        let (db, handles, mut answer) = self.open_at(folder, names, false);
        if db.is_null() {
            return answer;
        }
        let options = c!(self, rocksdb_readoptions_create());
        c!(self, rocksdb_readoptions_set_total_order_seek(options, 1));
        for (handle, name) in handles.into_iter().zip(names) {
            let _ = write!(
                answer,
                " {name}: {}",
                self.content(db, handle, options, false)
            );
            c!(self, rocksdb_column_family_handle_destroy(handle));
        }
        c!(self, rocksdb_readoptions_destroy(options));
        c!(self, rocksdb_close(db));
        answer
    }

    /// Writes a table of `changes` and ingests it.
    pub(super) fn ingest(&mut self, cf: Cf, changes: &[Change], bits: u8) -> String {
        let Some(family) = self.families[cf] else {
            return "none".to_owned();
        };
        self.disk.files += 1;
        self.writes += 1;
        let path = self
            .folder
            .with_extension(format!("{}.sst", self.disk.files));
        let (answer, good) = self.table(&c_path(&path), changes);
        if !good {
            let _ = std::fs::remove_file(&path);
            return answer;
        }
        let options = c!(self, rocksdb_ingestexternalfileoptions_create());
        let has = |bit: u8| u8::from(bits & bit != 0);
        c!(
            self,
            rocksdb_ingestexternalfileoptions_set_move_files(options, has(1))
        );
        c!(
            self,
            rocksdb_ingestexternalfileoptions_set_snapshot_consistency(options, 1 - has(2))
        );
        c!(
            self,
            rocksdb_ingestexternalfileoptions_set_allow_global_seqno(options, 1 - has(4))
        );
        c!(
            self,
            rocksdb_ingestexternalfileoptions_set_allow_blocking_flush(options, 1 - has(8))
        );
        c!(
            self,
            rocksdb_ingestexternalfileoptions_set_fail_if_not_bottommost_level(options, has(16))
        );
        let (file, mut said) = (c_path(&path), Said::new());
        let list = [file.as_ptr()];
        c!(
            self,
            rocksdb_ingest_external_file_cf(
                self.db,
                family,
                list.as_ptr(),
                1,
                options,
                said.slot()
            )
        );
        c!(self, rocksdb_ingestexternalfileoptions_destroy(options));
        let answer = format!("{answer} {}", self.status(said));
        let _ = std::fs::remove_file(&path);
        answer
    }

    /// Writes a table. Returns the result, and true if there is a table to ingest.
    fn table(&mut self, path: &CStr, changes: &[Change]) -> (String, bool) {
        let environment = c!(self, rocksdb_envoptions_create());
        let writer = c!(
            self,
            rocksdb_sstfilewriter_create(environment, self.options)
        );
        let mut said = Said::new();
        c!(
            self,
            rocksdb_sstfilewriter_open(writer, path.as_ptr(), said.slot())
        );
        let mut answer = self.status(said);
        for change in changes {
            let mut said = Said::new();
            match change {
                Change::Put(_, key, val) | Change::Merge(_, key, val) => {
                    let (k, v) = (ops::key(*key), val.bytes());
                    let (kp, kn, vp, vn) = (k.as_ptr().cast(), k.len(), v.as_ptr().cast(), v.len());
                    if matches!(change, Change::Put(..)) {
                        c!(
                            self,
                            rocksdb_sstfilewriter_put(writer, kp, kn, vp, vn, said.slot())
                        );
                    } else {
                        c!(
                            self,
                            rocksdb_sstfilewriter_merge(writer, kp, kn, vp, vn, said.slot())
                        );
                    }
                }
                Change::Delete(_, key) | Change::Single(_, key) => {
                    let k = ops::key(*key);
                    let kp = k.as_ptr().cast();
                    c!(
                        self,
                        rocksdb_sstfilewriter_delete(writer, kp, k.len(), said.slot())
                    );
                }
                Change::Range(_, a, b) => {
                    let (a, b) = (ops::key(*a), ops::key(*b));
                    let (ap, bp) = (a.as_ptr().cast(), b.as_ptr().cast());
                    c!(
                        self,
                        rocksdb_sstfilewriter_delete_range(
                            writer,
                            ap,
                            a.len(),
                            bp,
                            b.len(),
                            said.slot()
                        )
                    );
                }
            }
            let status = self.status(said);
            if status != "ok" {
                answer += &status;
            }
        }
        let mut said = Said::new();
        c!(self, rocksdb_sstfilewriter_finish(writer, said.slot()));
        let finished = self.status(said);
        c!(self, rocksdb_sstfilewriter_destroy(writer));
        c!(self, rocksdb_envoptions_destroy(environment));
        let good = answer == "ok" && finished == "ok";
        (format!("{answer} {finished}"), good)
    }

    pub(super) fn property(&mut self, cf: Cf, row: usize) -> String {
        let Some(family) = self.families[cf] else {
            return "none".to_owned();
        };
        let always = PROPERTIES.0.len();
        let name = if row < always {
            PROPERTIES.0[row]
        } else {
            PROPERTIES.1[row - always]
        };
        let name = CString::new(name).expect("no zero in names");
        let text = c!(
            self,
            rocksdb_property_value_cf(self.db, family, name.as_ptr())
        );
        let text = if text.is_null() {
            "null".to_owned()
        } else {
            // SAFETY: a string of the library that the caller frees.
            let copy = unsafe { CStr::from_ptr(text) }
                .to_string_lossy()
                .into_owned();
            c!(self, rocksdb_free(text.cast()));
            copy
        };
        let mut number = 0;
        let failed = c!(
            self,
            rocksdb_property_int_cf(self.db, family, name.as_ptr(), &mut number)
        );
        format!("{text} {failed} {number}")
    }

    /// Sizes depend on the bytes of files, so only the size of an empty range is compared.
    pub(super) fn sizes(&mut self, cf: Cf, a: Key, b: Key) -> String {
        let Some(family) = self.families[cf] else {
            return "none".to_owned();
        };
        let (mut a, mut b) = (ops::key(a), ops::key(b));
        // RocksDB's sizes of reversed ranges may be negative.
        if (a > b) != (self.set.callback == Callback::Reverse) {
            std::mem::swap(&mut a, &mut b);
        }
        let starts = [a.as_ptr().cast(), a.as_ptr().cast()];
        let ends = [b.as_ptr().cast(), a.as_ptr().cast()];
        let (start_sizes, end_sizes) = ([a.len(); 2], [b.len(), a.len()]);
        let (mut sizes, mut said) = ([0_u64; 2], Said::new());
        c!(
            self,
            rocksdb_approximate_sizes_cf(
                self.db,
                family,
                2,
                starts.as_ptr(),
                start_sizes.as_ptr(),
                ends.as_ptr(),
                end_sizes.as_ptr(),
                sizes.as_mut_ptr(),
                said.slot()
            )
        );
        let status = self.status(said);
        format!("{status} {} {}", sizes[0] < 1 << 30, sizes[1])
    }

    /// The WAL records from `back` before the last sequence number on.
    pub(super) fn updates(&mut self, back: u16) -> String {
        // Writes without the WAL leave gaps. Cairn shows a prepared transaction when it is committed, RocksDB its records.
        let prepares = self.set.transactions == Transactions::Pessimistic;
        if !self.set.still || self.set.no_log || self.read_only || prepares {
            return String::new();
        }
        let last = c!(self, rocksdb_get_latest_sequence_number(self.db));
        // Log files before the last flush may have been deleted.
        let from = (last.saturating_sub(back.into()) + 2).max(self.disk.flushed + 1);
        let mut said = Said::new();
        let log = c!(
            self,
            rocksdb_get_updates_since(self.db, from, null_mut(), said.slot())
        );
        let mut answer = format!("{last} {}", self.status(said));
        if log.is_null() {
            return answer;
        }
        while c!(self, rocksdb_wal_iter_valid(log)) != 0 {
            let mut at = 0;
            let batch = c!(self, rocksdb_wal_iter_get_batch(log, &mut at));
            let mut length = 0;
            let data = c!(self, rocksdb_writebatch_data(batch, &mut length));
            let mut data = copied(data, length);
            // The place of a marker, which RocksDB logs with a transaction that was not prepared.
            if self.set.transactions != Transactions::None && data.get(12) == Some(&NOOP) {
                data.remove(12);
            }
            // RocksDB also logs empty batches.
            if data.len() > 12 {
                let _ = write!(answer, " {at}#{:x}", hash(&data) & 0xffff);
            }
            c!(self, rocksdb_writebatch_destroy(batch));
            c!(self, rocksdb_wal_iter_next(log));
        }
        let mut said = Said::new();
        c!(self, rocksdb_wal_iter_status(log, said.slot()));
        c!(self, rocksdb_wal_iter_destroy(log));
        answer += &self.status(said);
        answer
    }

    /// Notes that the current log may be a new one.
    pub(super) fn note_flush(&mut self) {
        if !self.db.is_null() {
            self.disk.flushed = c!(self, rocksdb_get_latest_sequence_number(self.db));
        }
    }

    /// Takes a snapshot into a slot.
    pub(super) fn snapshot(&mut self, slot: usize) -> String {
        self.release(slot % SLOTS);
        let handle = c!(self, rocksdb_create_snapshot(self.db));
        if handle.is_null() {
            return "null".to_owned();
        }
        self.snapshots[slot] = Some(handle);
        let at = c!(self, rocksdb_snapshot_get_sequence_number(handle));
        if self.set.still {
            at.to_string()
        } else {
            String::new()
        }
    }

    /// The content of all families, at the end of a script.
    pub(super) fn final_content(&mut self) -> String {
        let mut answer = String::new();
        for cf in 0..SLOTS {
            let options = ops::Ro {
                bits: ro::TOTAL,
                ..ops::Ro::default()
            };
            let _ = write!(answer, "{} ", self.scan(cf, options));
        }
        answer
    }
}
