//! Verifies new tables before they are installed (`paranoid_file_checks`, `verify_output_flags`).
//!
//! A table is read back right after it is written and synced. On a mismatch the job fails and its
//! inputs are kept. The cost is one hash per written entry and a full read of the table that
//! bypasses the block cache; none if verification is off.

use cairn_format::checksum::crc32c_extend;
use cairn_format::key;
use cairn_format::trace::block_cache::CacheCaller;
use cairn_options::FamilyOptions;
use cairn_platform::sync::Arc;
use cairn_table::{IterOptions, Table, TableIter};
use cairn_types::{Error, KeyOrder, Result};
use cairn_version::FileMeta;

use crate::checksum;
use crate::context::JobContext;

/// Bits of `verify_output_flags`.
const BLOCKS: u32 = 1 << 0;
const ENTRIES: u32 = 1 << 1;
const FILE: u32 = 1 << 2;
const COMPACTIONS: u32 = 1 << 10;
const REMOTE_COMPACTIONS: u32 = 1 << 11;
const FLUSHES: u32 = 1 << 12;

/// Readahead size, in bytes.
const READAHEAD: u64 = 2 << 20;

/// A running hash of the entries of a table, in order.
#[derive(Debug, Default, PartialEq, Eq)]
struct Entries {
    count: u64,
    hash: u32,
}

impl Entries {
    /// Adds an entry. Timestamps are excluded, because not every table stores them.
    fn add(&mut self, internal: &[u8], value: &[u8], timestamp_size: usize) {
        let user = key::strip_timestamp(key::user_key(internal), timestamp_size);
        let packed = &internal[internal.len().saturating_sub(key::SUFFIX_LEN)..];
        self.count += 1;
        for part in [&user.len().to_le_bytes(), user, packed, value] {
            self.hash = crc32c_extend(self.hash, part);
        }
    }
}

/// Validator of one output table: the enabled checks and the hash of the written entries.
pub(crate) struct OutputValidator {
    what: u32,
    /// The job, for the block-cache trace.
    caller: CacheCaller,
    order: KeyOrder,
    written: Entries,
}

impl OutputValidator {
    /// Creates a validator if `options` enable checks for flushes or compactions; `None` otherwise.
    pub(crate) fn new(
        options: &FamilyOptions,
        flushes: bool,
        order: &KeyOrder,
    ) -> Option<OutputValidator> {
        OutputValidator::of_job(options, if flushes { FLUSHES } else { COMPACTIONS }, order)
    }

    /// Creates a validator of tables written by another process, which does not know their entries.
    pub(crate) fn of_remote(options: &FamilyOptions, order: &KeyOrder) -> Option<OutputValidator> {
        let validator = OutputValidator::of_job(options, REMOTE_COMPACTIONS, order)?;
        let what = match validator.what & ENTRIES {
            0 => validator.what,
            _ => validator.what & !ENTRIES | BLOCKS,
        };
        Some(OutputValidator { what, ..validator })
    }

    fn of_job(options: &FamilyOptions, job: u32, order: &KeyOrder) -> Option<OutputValidator> {
        let flags = options.verify_output_flags;
        let requested = match flags & job {
            0 => 0,
            _ => flags & (BLOCKS | ENTRIES | FILE),
        };
        let paranoid = match options.paranoid_file_checks {
            true => BLOCKS | ENTRIES,
            false => 0,
        };
        let what = requested | paranoid;
        (what != 0).then(|| OutputValidator {
            what,
            caller: match job {
                FLUSHES => CacheCaller::Flush,
                _ => CacheCaller::CompactionRefill,
            },
            order: order.clone(),
            written: Entries::default(),
        })
    }

    /// Adds an entry written to the table.
    pub(crate) fn written(&mut self, internal: &[u8], value: &[u8]) {
        if self.what & ENTRIES != 0 {
            let timestamp_size = self.order.timestamp_size();
            self.written.add(internal, value, timestamp_size);
        }
    }

    /// Reads `file`, a table of `level`, and compares it to the written entries.
    ///
    /// # Errors
    ///
    /// `Corruption` with the mismatch; read errors.
    pub(crate) fn check(
        &self,
        context: &JobContext,
        file: &Arc<FileMeta>,
        level: usize,
    ) -> Result<()> {
        let table = (context.open)(file, level)?;
        if self.what & BLOCKS != 0 {
            table.verify_checksums(&context.io)?;
        }
        if self.what & ENTRIES != 0 {
            self.check_entries(context, file, table)?;
        }
        let factory = &context.database.options.file_checksum_gen_factory;
        if self.what & FILE != 0
            && !file.checksum.value.is_empty()
            && let Some(factory) = factory
        {
            let path = context.table_path(file);
            let running = factory.start_requested(&path, &file.checksum.function)?;
            let found = checksum::of_file(&*context.world.fs, &path, running)?.0;
            if found != file.checksum.value {
                return Err(Error::corruption(format!(
                    "checksum of the new table {}: expected {:02x?}, found {found:02x?}",
                    path.display(),
                    file.checksum.value
                )));
            }
        }
        Ok(())
    }

    fn check_entries(
        &self,
        context: &JobContext,
        file: &FileMeta,
        table: Arc<Table>,
    ) -> Result<()> {
        let options = IterOptions {
            fill_cache: false,
            readahead: READAHEAD,
            caller: self.caller,
            ..IterOptions::default()
        };
        let mut iter = TableIter::new(table, options);
        let (mut found, mut last) = (Entries::default(), Vec::new());
        let mut step = iter.seek_to_first();
        loop {
            iter.complete(step, &context.io);
            if !iter.valid() {
                break;
            }
            if found.count > 0 && !key::compare(&self.order, &last, iter.key()).is_lt() {
                return Err(Error::corruption(format!(
                    "order of keys in the new table {}: expected each to come behind the one \
                     before it, found entry {} that does not",
                    context.table_path(file).display(),
                    found.count
                )));
            }
            found.add(iter.key(), iter.value(), self.order.timestamp_size());
            last.clear();
            last.extend_from_slice(iter.key());
            step = iter.next();
        }
        iter.status()?;
        if found != self.written {
            return Err(Error::corruption(format!(
                "entries of the new table {}: expected {} with the hash {:08x} as they were \
                 written, found {} with {:08x}",
                context.table_path(file).display(),
                self.written.count,
                self.written.hash,
                found.count,
                found.hash
            )));
        }
        Ok(())
    }
}
