//! Options: the objects behind their handles, and the functions that create, copy and destroy them.
//!
//! A setter cannot fail in C. An invalid value is recorded: the getter returns it, a valid value replaces it, and the
//! first call that uses the options and has an `errptr` reports it.

use std::ffi::{c_char, c_uchar};
use std::ops::{Deref, DerefMut};

use cairn_format::options_text::statements;
use cairn_observe::statistics::Keeping;
use cairn_options::struct_options::{FifoCompactionOptions, UniversalCompactionOptions};
use cairn_options::text::unbraced;
use cairn_options::{
    CompactRangeOptions, DbOptions, DefaultCache, FamilyOptions, FlushOptions, ReadOptions,
    TableKind, TableOptions, WriteOptions,
};
use cairn_platform::World;
use cairn_types::{Error, Result};

use crate::error::{array, maybe_bytes, options_text, path, report, text};
use crate::handle::{create, of, of_mut};
use kept::Kept;

pub mod call_scalars;
pub mod kept;
pub mod objects;
pub mod presets;
pub mod scalar;
pub mod scalars;
pub mod table_scalars;

/// The option that each setter of a kind of table changes.
pub const TABLE_FACTORY: &str = "table_factory";
/// The name under which a text sets options of block-based tables.
const BLOCK_BASED_TABLES: &str = "block_based_table_factory";

/// Options, the invalid values passed to setters, and the options that have no effect.
#[derive(Clone)]
pub struct Checked<T> {
    value: T,
    refused: Vec<Refusal>,
    kept: Kept,
}

/// An option whose last value is invalid.
#[derive(Clone)]
struct Refusal {
    /// The option whose value is a struct with `option` as a member, if there is one.
    group: Option<&'static str>,
    option: &'static str,
    /// The value, if it is a single number.
    number: Option<i128>,
    error: Error,
}

impl Refusal {
    /// The option that a setter sets.
    fn target(&self) -> &'static str {
        self.group.unwrap_or(self.option)
    }

    /// True if `name=value` in a text sets the option.
    fn is_set_by(&self, name: &str, value: &str) -> bool {
        let field = self.option.strip_prefix("db.");
        let field = field.or_else(|| self.option.strip_prefix("family."));
        let option = field.unwrap_or(self.option);
        match self.group {
            None if option == TABLE_FACTORY => name == TABLE_FACTORY,
            None => sets(name, value, option),
            // `{...}` replaces all options of the tables; the mere name of the factory replaces none.
            Some(TABLE_FACTORY) if name == TABLE_FACTORY => value != "BlockBasedTable",
            Some(TABLE_FACTORY) => [TABLE_FACTORY, BLOCK_BASED_TABLES]
                .iter()
                .any(|group| sets(name, value, &format!("{group}.{option}"))),
            Some(group) => sets(name, value, &format!("{group}.{option}")),
        }
    }
}

/// True if the text `name=value` sets the option with this path: its name, or `struct.name`.
fn sets(name: &str, value: &str, path: &str) -> bool {
    let member = path
        .strip_prefix(name)
        .and_then(|rest| rest.strip_prefix('.'));
    match member {
        Some(member) => statements(unbraced(value))
            .is_ok_and(|all| all.iter().any(|(name, value)| sets(name, value, member))),
        None => name == path,
    }
}

impl<T> Checked<T> {
    /// Options without an error.
    pub fn new(value: T) -> Checked<T> {
        Checked {
            value,
            refused: Vec::new(),
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

    /// Records that `setter` was given an invalid number for `option`.
    #[cold]
    pub fn refuse_number(&mut self, option: &'static str, setter: &str, number: i128) {
        let error = Error::invalid_argument(format!("{setter}({number}): no such value"));
        self.accept(option);
        self.refused.push(Refusal {
            group: None,
            option,
            number: Some(number),
            error,
        });
    }

    /// Records that `option` was given an invalid value.
    #[cold]
    pub fn refuse(&mut self, option: &'static str, error: Error) {
        self.accept(option);
        self.refused.push(Refusal {
            group: None,
            option,
            number: None,
            error,
        });
    }

    /// Records that `option` was given a valid value.
    pub fn accept(&mut self, option: &str) {
        if !self.refused.is_empty() {
            self.refused.retain(|refusal| refusal.target() != option);
        }
    }

    /// Records that a text has set options to these valid values.
    fn accept_texts(&mut self, values: &[(&str, &str)]) {
        self.refused.retain(|refusal| {
            let mut values = values.iter();
            !values.any(|(name, value)| refusal.is_set_by(name, value))
        });
    }

    /// The number that `option` was set to, if it is invalid.
    pub fn refused_number(&self, option: &str) -> Option<i128> {
        let is_own = |refusal: &&Refusal| refusal.group.is_none() && refusal.option == option;
        self.refused.iter().find(is_own)?.number
    }

    /// The options, or the first error of a setter.
    pub fn checked(&self) -> Result<&T> {
        match self.refused.first() {
            None => Ok(&self.value),
            Some(refusal) => Err(refusal.error.clone()),
        }
    }

    /// Takes over the errors of `other`, the new value of `option`.
    fn inherit<U>(&mut self, option: &'static str, other: &Checked<U>) {
        self.accept(option);
        let refused = other.refused.iter().map(|refusal| Refusal {
            group: Some(option),
            ..refusal.clone()
        });
        self.refused.extend(refused);
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

    /// Sets the format of new tables. As in RocksDB, each table factory has its own default cache.
    pub fn set_table_kind(&mut self, kind: TableKind) {
        self.family.table_factory = kind;
        self.db.default_block_cache = Some(DefaultCache::default());
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

/// `options` with the defaults of RocksDB's C API: no statistics, and a default block cache shared by copies. Family
/// objects do not contribute a cache.
fn c_defaults(mut options: DbOptions) -> DbOptions {
    options.statistics = Keeping::Nothing;
    options.default_block_cache = Some(DefaultCache::default());
    options
}

/// The defaults of RocksDB's C interface.
fn defaults() -> AllOptions {
    AllOptions {
        db: c_defaults(DbOptions::default()),
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
    /// database and family options; without changes if the call fails.
    fn rocksdb_get_options_from_string(
        base_options: *const rocksdb_options_t,
        opts_str: *const c_char,
        new_options: *mut rocksdb_options_t,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, || {
            let mut changed = of(base_options).clone();
            let text = options_text(opts_str);
            let all = &mut changed.value;
            let applied = cairn_options::apply_mixed(&mut all.db, &mut all.family, &text);
            let applied = applied.map(|values| changed.accept_texts(&values));
            *of_mut(new_options) = changed;
            applied
        });
    }

    /// Sets the table options, which are copied.
    fn rocksdb_options_set_block_based_table_factory(
        opt: *mut rocksdb_options_t,
        table_options: *mut rocksdb_block_based_table_options_t,
    ) {
        if let Some(table) = crate::handle::maybe(table_options.cast_const()) {
            let options = of_mut(opt);
            options.inherit(TABLE_FACTORY, table);
            options.set_table_kind(TableKind::BlockBased);
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
        options.inherit("compaction_options_universal", universal);
        options.family.compaction_options_universal = universal.value.clone();
    }
    /// Sets the options of FIFO compaction, which are copied.
    fn rocksdb_options_set_fifo_compaction_options(
        opt: *mut rocksdb_options_t,
        fifo: *mut rocksdb_fifo_compaction_options_t,
    ) {
        let fifo = of(fifo.cast_const());
        let options = of_mut(opt);
        options.inherit("compaction_options_fifo", fifo);
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
