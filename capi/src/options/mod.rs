//! Options: the objects behind their handles, and the functions that create, copy and destroy them.
//!
//! A setter cannot fail in C. The first invalid value is recorded, and reported by the first call
//! that uses the options and has an `errptr`.

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
use kept::Kept;

pub mod call_scalars;
pub mod kept;
pub mod objects;
pub mod presets;
pub mod scalar;
pub mod scalars;
pub mod table_scalars;

/// Options, the error for the first invalid value passed to a setter, and the options that have no effect.
#[derive(Clone)]
pub struct Checked<T> {
    value: T,
    refused: Option<Error>,
    kept: Kept,
}

/// An invalid number, for an error message.
pub enum Shown {
    /// An integer.
    Number(i128),
    /// A floating-point number.
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
    /// Options without an error.
    pub fn new(value: T) -> Checked<T> {
        Checked {
            value,
            refused: None,
            kept: Kept::default(),
        }
    }

    /// The options that have no effect.
    fn kept(&self) -> &Kept {
        &self.kept
    }

    /// The same, to be changed.
    fn kept_mut(&mut self) -> &mut Kept {
        &mut self.kept
    }

    /// Records that `setter` was given an invalid value.
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

    /// Records an error.
    #[cold]
    pub fn refuse_with(&mut self, error: Error) {
        self.refused.get_or_insert(error);
    }

    /// The options, or the first error of a setter.
    pub fn checked(&self) -> Result<&T> {
        match &self.refused {
            None => Ok(&self.value),
            Some(error) => Err(error.clone()),
        }
    }

    /// Takes over the error of `other`.
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

/// The object of `rocksdb_options_t`: the options of a database and of a family.
#[derive(Clone)]
pub struct AllOptions {
    /// Options of the database.
    pub db: DbOptions,
    /// Options of its families.
    pub family: FamilyOptions,
    /// The file system, clock and threads.
    pub world: Option<World>,
}

impl AllOptions {
    /// The file system, clock and threads; the default environment if none is set.
    pub fn world(&self) -> World {
        self.world.clone().unwrap_or_else(World::posix)
    }
}

handles! {
    /// Options of a database and of a column family.
    rocksdb_options_t = Checked<AllOptions>;
    /// Options of block-based tables.
    rocksdb_block_based_table_options_t = Checked<TableOptions>;
    /// Options of a read.
    rocksdb_readoptions_t = Checked<ReadOptions>;
    /// Options of a write.
    rocksdb_writeoptions_t = Checked<WriteOptions>;
    /// Options of a flush.
    rocksdb_flushoptions_t = Checked<FlushOptions>;
    /// Options of a manual compaction.
    rocksdb_compactoptions_t = Checked<CompactRangeOptions>;
    /// Options of universal compaction.
    rocksdb_universal_compaction_options_t = Checked<UniversalCompactionOptions>;
    /// Options of FIFO compaction.
    rocksdb_fifo_compaction_options_t = Checked<FifoCompactionOptions>;
}

c_destructors! {
    /// Frees options. Databases that were opened with them are not affected.
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

/// `options` without statistics, which RocksDB's C interface enables only on request.
fn without_statistics(mut options: DbOptions) -> DbOptions {
    options.statistics = Keeping::Nothing;
    options
}

/// The defaults of RocksDB's C interface.
fn defaults() -> AllOptions {
    AllOptions {
        db: without_statistics(DbOptions::default()),
        family: FamilyOptions::default(),
        world: None,
    }
}

c_functions! {
    /// Creates default options.
    fn rocksdb_options_create() -> *mut rocksdb_options_t {
        create(Checked::new(defaults()))
    }
    /// Copies options. The objects that they refer to (cache, operator, filter) are shared.
    fn rocksdb_options_create_copy(options: *mut rocksdb_options_t) -> *mut rocksdb_options_t {
        create(of(options.cast_const()).clone())
    }
    /// Creates default table options.
    fn rocksdb_block_based_options_create() -> *mut rocksdb_block_based_table_options_t {
        create(Checked::new(TableOptions::default()))
    }
    /// Creates default read options.
    fn rocksdb_readoptions_create() -> *mut rocksdb_readoptions_t {
        create(Checked::new(ReadOptions::default()))
    }
    /// Creates default write options.
    fn rocksdb_writeoptions_create() -> *mut rocksdb_writeoptions_t {
        create(Checked::new(WriteOptions::default()))
    }
    /// Creates default flush options.
    fn rocksdb_flushoptions_create() -> *mut rocksdb_flushoptions_t {
        create(Checked::new(FlushOptions::default()))
    }
    /// Creates default compaction options.
    fn rocksdb_compactoptions_create() -> *mut rocksdb_compactoptions_t {
        create(Checked::new(CompactRangeOptions::default()))
    }
    /// Creates default options of universal compaction.
    fn rocksdb_universal_compaction_options_create() -> *mut rocksdb_universal_compaction_options_t {
        create(Checked::new(UniversalCompactionOptions::default()))
    }
    /// Creates default options of FIFO compaction.
    fn rocksdb_fifo_compaction_options_create() -> *mut rocksdb_fifo_compaction_options_t {
        create(Checked::new(FifoCompactionOptions::default()))
    }

    /// Sets `new_options` to `base_options` with the changes in a string `name=value;...` of
    /// database and family options.
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

    /// Sets the table options, which are copied.
    fn rocksdb_options_set_block_based_table_factory(
        opt: *mut rocksdb_options_t,
        table_options: *mut rocksdb_block_based_table_options_t,
    ) {
        if let Some(table) = crate::handle::maybe(table_options.cast_const()) {
            let options = of_mut(opt);
            options.inherit(table);
            options.family.table_factory = cairn_options::TableKind::BlockBased;
            options.family.table = table.value.clone();
        }
    }
    /// Sets the options of universal compaction, which are copied.
    fn rocksdb_options_set_universal_compaction_options(
        opt: *mut rocksdb_options_t,
        universal: *mut rocksdb_universal_compaction_options_t,
    ) {
        let universal = of(universal.cast_const());
        let options = of_mut(opt);
        options.inherit(universal);
        options.family.compaction_options_universal = universal.value.clone();
    }
    /// Sets the options of FIFO compaction, which are copied.
    fn rocksdb_options_set_fifo_compaction_options(
        opt: *mut rocksdb_options_t,
        fifo: *mut rocksdb_fifo_compaction_options_t,
    ) {
        let fifo = of(fifo.cast_const());
        let options = of_mut(opt);
        options.inherit(fifo);
        options.family.compaction_options_fifo = fifo.value.clone();
    }

    /// Sets the lower bound of iterators, inclusive. Copied; null removes the bound.
    fn rocksdb_readoptions_set_iterate_lower_bound(
        opt: *mut rocksdb_readoptions_t,
        key: *const c_char,
        keylen: usize,
    ) {
        of_mut(opt).iterate_lower_bound = maybe_bytes(key, keylen).map(<[u8]>::to_vec);
    }
    /// Sets the upper bound of iterators, exclusive. Copied; null removes the bound.
    fn rocksdb_readoptions_set_iterate_upper_bound(
        opt: *mut rocksdb_readoptions_t,
        key: *const c_char,
        keylen: usize,
    ) {
        of_mut(opt).iterate_upper_bound = maybe_bytes(key, keylen).map(<[u8]>::to_vec);
    }
    /// Sets the timestamp of reads. Copied; null removes it.
    fn rocksdb_readoptions_set_timestamp(
        opt: *mut rocksdb_readoptions_t,
        ts: *const c_char,
        tslen: usize,
    ) {
        of_mut(opt).timestamp = maybe_bytes(ts, tslen).map(<[u8]>::to_vec);
    }
    /// Sets the oldest timestamp whose versions iterators return. Copied; null removes it.
    fn rocksdb_readoptions_set_iter_start_ts(
        opt: *mut rocksdb_readoptions_t,
        ts: *const c_char,
        tslen: usize,
    ) {
        of_mut(opt).iter_start_ts = maybe_bytes(ts, tslen).map(<[u8]>::to_vec);
    }
    /// Sets the threshold on the number of merge operands. It does not change results: RocksDB reports
    /// it in the subcode of an OK status, which its C interface does not expose.
    fn rocksdb_readoptions_set_merge_operand_count_threshold(
        opt: *mut rocksdb_readoptions_t,
        threshold: usize,
    ) {
        of_mut(opt).merge_operand_count_threshold = Some(threshold as u64);
    }
    /// Removes the threshold on the number of merge operands.
    fn rocksdb_readoptions_clear_merge_operand_count_threshold(opt: *mut rocksdb_readoptions_t) {
        of_mut(opt).merge_operand_count_threshold = None;
    }
    /// True if there is a threshold on the number of merge operands.
    fn rocksdb_readoptions_has_merge_operand_count_threshold(
        opt: *mut rocksdb_readoptions_t,
    ) -> c_uchar {
        c_uchar::from(of(opt.cast_const()).merge_operand_count_threshold.is_some())
    }
    /// Returns the threshold; 0 if there is none.
    fn rocksdb_readoptions_get_merge_operand_count_threshold(
        opt: *mut rocksdb_readoptions_t,
    ) -> usize {
        let threshold = of(opt.cast_const()).merge_operand_count_threshold;
        usize::try_from(threshold.unwrap_or(0)).unwrap_or(usize::MAX)
    }
}
