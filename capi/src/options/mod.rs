//! Options: the objects behind their handles, and the functions that make, copy and destroy them.
//!
//! A setter cannot fail in C. A value that an option cannot have is remembered, and the first call
//! that uses the options and has an `errptr` reports it.

use std::ffi::{c_char, c_uchar};
use std::ops::{Deref, DerefMut};

use cairn_observe::statistics::Keeping;
use cairn_options::struct_options::{FifoCompactionOptions, UniversalCompactionOptions};
use cairn_options::{
    CompactRangeOptions, DbOptions, FamilyOptions, FlushOptions, ReadOptions, TableOptions,
    WriteOptions,
};
use cairn_platform::World;
use cairn_types::{Error, Result};

use crate::error::{array, maybe_bytes, path, report, text};
use crate::handle::{create, of, of_mut};

pub mod call_scalars;
pub mod objects;
pub mod presets;
pub mod scalar;
pub mod scalars;
pub mod table_scalars;

/// Options, and the first value that they could not take.
#[derive(Clone)]
pub struct Checked<T> {
    value: T,
    refused: Option<Error>,
}

/// The largest part of a C number that is worth showing.
pub enum Shown {
    /// A whole number.
    Number(i128),
    /// Another number.
    Real(f64),
}

macro_rules! shown {
    ($($c:ty),+) => {$(
        impl From<$c> for Shown {
            fn from(value: $c) -> Shown {
                Shown::Number(value as i128)
            }
        }
    )+};
}

shown!(u8, i8, u32, i32, u64, i64, usize, bool);

impl From<f64> for Shown {
    fn from(value: f64) -> Shown {
        Shown::Real(value)
    }
}

impl<T> Checked<T> {
    /// Options that every setter could change so far.
    pub fn new(value: T) -> Checked<T> {
        Checked {
            value,
            refused: None,
        }
    }

    /// Remembers that `setter` was called with a value that does not exist.
    #[cold]
    pub fn refuse(&mut self, setter: &str, value: Shown) {
        let value = match value {
            Shown::Number(number) => number.to_string(),
            Shown::Real(number) => number.to_string(),
        };
        self.refused.get_or_insert_with(|| {
            Error::invalid_argument(format!("{setter}({value}): no such value"))
        });
    }

    /// Remembers an error.
    #[cold]
    pub fn refuse_with(&mut self, error: Error) {
        self.refused.get_or_insert(error);
    }

    /// The options, if every setter could take its value.
    pub fn checked(&self) -> Result<&T> {
        match &self.refused {
            None => Ok(&self.value),
            Some(error) => Err(error.clone()),
        }
    }

    /// Takes over what `other` could not take.
    fn inherit<U>(&mut self, other: &Checked<U>) {
        if let Some(error) = &other.refused {
            self.refuse_with(error.clone());
        }
    }
}

impl<T> Deref for Checked<T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for Checked<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

/// What `rocksdb_options_t` holds: the options of a database and of a family.
#[derive(Clone)]
pub struct AllOptions {
    /// Options of the database.
    pub db: DbOptions,
    /// Options of its families.
    pub family: FamilyOptions,
    /// Files, clock and threads.
    pub world: Option<World>,
}

impl AllOptions {
    /// Files, clock and threads: the machine's own unless the options name others.
    pub fn world(&self) -> World {
        self.world.clone().unwrap_or_else(World::posix)
    }
}

handles! {
    /// Options of a database and of a column family.
    rocksdb_options_t = Checked<AllOptions>;
    /// How tables are laid out and cached.
    rocksdb_block_based_table_options_t = Checked<TableOptions>;
    /// How a read works.
    rocksdb_readoptions_t = Checked<ReadOptions>;
    /// How a write works.
    rocksdb_writeoptions_t = Checked<WriteOptions>;
    /// How a flush works.
    rocksdb_flushoptions_t = Checked<FlushOptions>;
    /// How a compaction that the program asks for works.
    rocksdb_compactoptions_t = Checked<CompactRangeOptions>;
    /// How universal compaction chooses runs.
    rocksdb_universal_compaction_options_t = Checked<UniversalCompactionOptions>;
    /// How FIFO compaction drops files.
    rocksdb_fifo_compaction_options_t = Checked<FifoCompactionOptions>;
}

c_destructors! {
    /// Frees options. Databases that were opened with them are not touched.
    rocksdb_options_destroy(rocksdb_options_t);
    /// Frees table options.
    rocksdb_block_based_options_destroy(rocksdb_block_based_table_options_t);
    /// Frees read options.
    rocksdb_readoptions_destroy(rocksdb_readoptions_t);
    /// Frees write options.
    rocksdb_writeoptions_destroy(rocksdb_writeoptions_t);
    /// Frees flush options.
    rocksdb_flushoptions_destroy(rocksdb_flushoptions_t);
    /// Frees compaction options.
    rocksdb_compactoptions_destroy(rocksdb_compactoptions_t);
    /// Frees options of universal compaction.
    rocksdb_universal_compaction_options_destroy(rocksdb_universal_compaction_options_t);
    /// Frees options of FIFO compaction.
    rocksdb_fifo_compaction_options_destroy(rocksdb_fifo_compaction_options_t);
}

/// `options` of a database that keeps no statistics, as RocksDB's does unless the program asks for them.
fn without_statistics(mut options: DbOptions) -> DbOptions {
    options.statistics = Keeping::Nothing;
    options
}

/// The defaults of the C interface are RocksDB's.
fn defaults() -> AllOptions {
    AllOptions {
        db: without_statistics(DbOptions::default()),
        family: FamilyOptions::default(),
        world: None,
    }
}

c_functions! {
    /// Options with their defaults.
    fn rocksdb_options_create() -> *mut rocksdb_options_t {
        create(Checked::new(defaults()))
    }
    /// A copy of options. Objects that they name (cache, operator, filter) are shared.
    fn rocksdb_options_create_copy(options: *mut rocksdb_options_t) -> *mut rocksdb_options_t {
        create(of(options.cast_const()).clone())
    }
    /// Table options with their defaults.
    fn rocksdb_block_based_options_create() -> *mut rocksdb_block_based_table_options_t {
        create(Checked::new(TableOptions::default()))
    }
    /// Read options with their defaults.
    fn rocksdb_readoptions_create() -> *mut rocksdb_readoptions_t {
        create(Checked::new(ReadOptions::default()))
    }
    /// Write options with their defaults.
    fn rocksdb_writeoptions_create() -> *mut rocksdb_writeoptions_t {
        create(Checked::new(WriteOptions::default()))
    }
    /// Flush options with their defaults.
    fn rocksdb_flushoptions_create() -> *mut rocksdb_flushoptions_t {
        create(Checked::new(FlushOptions::default()))
    }
    /// Compaction options with their defaults.
    fn rocksdb_compactoptions_create() -> *mut rocksdb_compactoptions_t {
        create(Checked::new(CompactRangeOptions::default()))
    }
    /// Options of universal compaction with their defaults.
    fn rocksdb_universal_compaction_options_create() -> *mut rocksdb_universal_compaction_options_t {
        create(Checked::new(UniversalCompactionOptions::default()))
    }
    /// Options of FIFO compaction with their defaults.
    fn rocksdb_fifo_compaction_options_create() -> *mut rocksdb_fifo_compaction_options_t {
        create(Checked::new(FifoCompactionOptions::default()))
    }

    /// Puts into `new_options` the options of `base_options` changed by a text of
    /// `name=value;` statements, of the database's and the family's options.
    fn rocksdb_get_options_from_string(
        base_options: *const rocksdb_options_t,
        opts_str: *const c_char,
        new_options: *mut rocksdb_options_t,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, || {
            let mut changed = of(base_options).clone();
            let all = &mut changed.value;
            cairn_options::apply_mixed(&mut all.db, &mut all.family, &text(opts_str))?;
            *of_mut(new_options) = changed;
            Ok(())
        });
    }

    /// Copies table options into the family's.
    fn rocksdb_options_set_block_based_table_factory(
        opt: *mut rocksdb_options_t,
        table_options: *mut rocksdb_block_based_table_options_t,
    ) {
        if let Some(table) = crate::handle::maybe(table_options.cast_const()) {
            let options = of_mut(opt);
            options.inherit(table);
            options.family.table = table.value.clone();
        }
    }
    /// Copies the options of universal compaction into the family's.
    fn rocksdb_options_set_universal_compaction_options(
        opt: *mut rocksdb_options_t,
        universal: *mut rocksdb_universal_compaction_options_t,
    ) {
        let universal = of(universal.cast_const());
        let options = of_mut(opt);
        options.inherit(universal);
        options.family.compaction_options_universal = universal.value.clone();
    }
    /// Copies the options of FIFO compaction into the family's.
    fn rocksdb_options_set_fifo_compaction_options(
        opt: *mut rocksdb_options_t,
        fifo: *mut rocksdb_fifo_compaction_options_t,
    ) {
        let fifo = of(fifo.cast_const());
        let options = of_mut(opt);
        options.inherit(fifo);
        options.family.compaction_options_fifo = fifo.value.clone();
    }

    /// The first key that iterators show. Copied; null takes the bound away.
    fn rocksdb_readoptions_set_iterate_lower_bound(
        opt: *mut rocksdb_readoptions_t,
        key: *const c_char,
        keylen: usize,
    ) {
        of_mut(opt).iterate_lower_bound = maybe_bytes(key, keylen).map(<[u8]>::to_vec);
    }
    /// The key before which iterators end. Copied; null takes the bound away.
    fn rocksdb_readoptions_set_iterate_upper_bound(
        opt: *mut rocksdb_readoptions_t,
        key: *const c_char,
        keylen: usize,
    ) {
        of_mut(opt).iterate_upper_bound = maybe_bytes(key, keylen).map(<[u8]>::to_vec);
    }
    /// The timestamp at which is read. Copied; null takes it away.
    fn rocksdb_readoptions_set_timestamp(
        opt: *mut rocksdb_readoptions_t,
        ts: *const c_char,
        tslen: usize,
    ) {
        of_mut(opt).timestamp = maybe_bytes(ts, tslen).map(<[u8]>::to_vec);
    }
    /// The timestamp down to which iterators show all versions. Copied; null takes it away.
    fn rocksdb_readoptions_set_iter_start_ts(
        opt: *mut rocksdb_readoptions_t,
        ts: *const c_char,
        tslen: usize,
    ) {
        of_mut(opt).iter_start_ts = maybe_bytes(ts, tslen).map(<[u8]>::to_vec);
    }
    /// More merge operands than this are too many. What is read of more of them is the same: RocksDB says
    /// so in the subcode of a status that is well, of which its C interface shows nothing.
    fn rocksdb_readoptions_set_merge_operand_count_threshold(
        opt: *mut rocksdb_readoptions_t,
        threshold: usize,
    ) {
        of_mut(opt).merge_operand_count_threshold = Some(threshold as u64);
    }
    /// Any number of merge operands is right.
    fn rocksdb_readoptions_clear_merge_operand_count_threshold(opt: *mut rocksdb_readoptions_t) {
        of_mut(opt).merge_operand_count_threshold = None;
    }
    /// True if there is a number of merge operands from which they are too many.
    fn rocksdb_readoptions_has_merge_operand_count_threshold(
        opt: *mut rocksdb_readoptions_t,
    ) -> c_uchar {
        c_uchar::from(of(opt.cast_const()).merge_operand_count_threshold.is_some())
    }
    /// That number; 0 if there is none.
    fn rocksdb_readoptions_get_merge_operand_count_threshold(
        opt: *mut rocksdb_readoptions_t,
    ) -> usize {
        let threshold = of(opt.cast_const()).merge_operand_count_threshold;
        usize::try_from(threshold.unwrap_or(0)).unwrap_or(usize::MAX)
    }
}
