//! `RocksDB`: opening and closing, column families, snapshots, properties, maintenance.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use cairn_db::{
    Db, Family, FamilyDescriptor, OpenRequest, Range, SizeApproximationOptions, Snapshot,
};
use cairn_options::{FlushOptions, IngestExternalFileOptions, Options};
use cairn_platform::World;
use cairn_platform::sync::Mutex;
use cairn_txn::{OptimisticTransactionDb, TransactionDb};
use cairn_types::{Error, Result, SequenceNumber};
use jni_sys::{jint, jlong, jvalue};

use crate::env::{ByteArray, Env, JString, LongArray, Object, ObjectArray, Outcome};
use crate::handle::{New, Ref, create, destroy_any, of, take};
use crate::listener::Slot;
use crate::options::{AllOptions, ReadOptions};
use crate::slice::Slice;
use crate::transactions::Transactions;

/// The object of a database of any kind.
pub struct Database {
    /// The database.
    pub db: Db,
    /// Its transactions.
    pub kind: Kind,
    /// The handle of the default family, if it was requested.
    default: OnceLock<jlong>,
    /// The handle of the same database without transactions, if it was requested.
    pub base: OnceLock<jlong>,
    /// What its transactions share.
    pub transactions: Arc<Transactions>,
    /// Handles of transactions that Java does not own. They are freed with this object.
    pub lent: Mutex<Vec<jlong>>,
    /// The handle of the environment; 0 for the default.
    env_handle: jlong,
    /// The handle that its listeners get.
    _slot: Slot,
}

/// The kinds of databases.
pub enum Kind {
    /// Without transactions.
    Plain,
    /// With pessimistic transactions.
    Locking(TransactionDb),
    /// With optimistic transactions.
    Optimistic(OptimisticTransactionDb),
}

impl Database {
    /// The object of an open database.
    pub fn new(db: Db, kind: Kind, all: &AllOptions, slot: Slot) -> Database {
        let env_handle = all.env_handle;
        slot.fill(&db, all);
        let locking = match &kind {
            Kind::Locking(txn) => Some(txn.clone()),
            Kind::Plain | Kind::Optimistic(_) => None,
        };
        let transactions = Arc::new(Transactions::new(db.clock().clone(), locking));
        Database {
            db,
            kind,
            default: OnceLock::new(),
            base: OnceLock::new(),
            transactions,
            lent: Mutex::default(),
            env_handle,
            _slot: slot,
        }
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        for handle in self.lent.get_mut().drain(..) {
            // A transaction is not used after its database.
            let _destroyed = destroy_any(handle);
        }
        if let Some(default) = self.default.get() {
            // The handle was created by this object and is not used after it.
            drop(take::<Family>(*default));
        }
        if let Some(base) = self.base.get() {
            drop(take::<Database>(*base));
        }
    }
}

/// The sequence number of a snapshot handle.
pub fn snapshot_sequence(handle: jlong) -> Outcome<SequenceNumber> {
    Ok(of::<Arc<Snapshot>>(handle)?.sequence())
}

/// The name of a family. A name that the engine would change is rejected.
pub fn name_of(bytes: &[u8]) -> Outcome<&str> {
    std::str::from_utf8(bytes).map_err(|_| {
        let name = bytes.escape_ascii();
        Error::not_supported(format!("the column family name {name} is not UTF-8")).into()
    })
}

/// The families of a Java open call.
pub fn descriptors(
    env: Env,
    names: ObjectArray,
    options: LongArray,
) -> Outcome<Vec<FamilyDescriptor>> {
    let names = env.all_byte_arrays(names)?;
    let options = env.longs(options)?;
    let mut families = Vec::new();
    for (name, options) in names.into_iter().zip(options) {
        families.push(FamilyDescriptor::new(
            name_of(&name)?,
            of::<AllOptions>(options)?.family()?.clone(),
        ));
    }
    FamilyDescriptor::check_default(&families)?;
    Ok(families)
}

/// Opens a database by `open`. Its object takes over the slot of its listeners.
pub fn open_by<T>(
    all: &AllOptions,
    path: &Path,
    families: &[FamilyDescriptor],
    read_only: bool,
    open: impl FnOnce(&OpenRequest<'_>) -> cairn_types::Result<T>,
) -> Outcome<(T, Slot)> {
    let slot = Slot::default();
    let bound = slot.bind(all);
    let db = open(&OpenRequest {
        path,
        options: &bound,
        families,
        others: read_only.then_some(&all.family),
        read_only,
        world: all.world(),
    })?;
    Ok((db, slot))
}

/// The default family with the family options of `Options`.
pub fn default_family(all: &AllOptions) -> Result<[FamilyDescriptor; 1]> {
    Ok([FamilyDescriptor::new("default", all.family()?.clone())])
}

/// The array of a database and its families.
pub fn handles(env: Env, database: Database, families: &[FamilyDescriptor]) -> Outcome<LongArray> {
    let mut opened = Vec::new();
    for family in families {
        opened.push(database.db.family(&family.name).ok_or_else(|| {
            Error::invalid_argument(format!("Column family not found: {}", family.name))
        })?);
    }
    let mut handles = vec![create(database)];
    handles.extend(opened.into_iter().map(create));
    env.long_array(&handles)
}

fn open_as(env: Env, all: &AllOptions, path: JString, read_only: bool) -> Outcome<New<Database>> {
    let path = env.path(path)?;
    let (db, slot) = open_by(all, &path, &default_family(all)?, read_only, cairn_db::open)?;
    let database = Database::new(db, Kind::Plain, all, slot);
    if !all.listeners.is_empty() {
        // As in RocksDB, which creates and deletes a handle of the default family here.
        destroy_family(env, create(database.db.default_family().clone()))?;
    }
    Ok(New(database))
}

fn open_families_as(
    env: Env,
    all: &AllOptions,
    path: JString,
    names: ObjectArray,
    options: LongArray,
    read_only: bool,
) -> Outcome<LongArray> {
    let families = descriptors(env, names, options)?;
    let (db, slot) = open_by(all, &env.path(path)?, &families, read_only, cairn_db::open)?;
    handles(env, Database::new(db, Kind::Plain, all, slot), &families)
}

pub fn open(env: Env, all: Ref<AllOptions>, path: JString) -> Outcome<New<Database>> {
    open_as(env, &all, path, false)
}

pub fn open_families(
    env: Env,
    all: Ref<AllOptions>,
    path: JString,
    names: ObjectArray,
    options: LongArray,
) -> Outcome<LongArray> {
    open_families_as(env, &all, path, names, options, false)
}

/// Fails if the database has a write-ahead log.
fn check_no_wal(all: &AllOptions, path: &Path) -> Outcome<()> {
    let dir = match all.db.wal_dir.as_os_str().is_empty() {
        true => path,
        false => &all.db.wal_dir,
    };
    let names = all.world().fs.list(dir)?;
    match names.iter().find(|name| name.ends_with(".log")) {
        None => Ok(()),
        Some(name) => {
            let text = format!("the write-ahead log {name} exists in {}", dir.display());
            Err(Error::corruption(text).into())
        }
    }
}

pub fn open_read_only(
    env: Env,
    all: Ref<AllOptions>,
    path: JString,
    error_if_wal: bool,
) -> Outcome<New<Database>> {
    if error_if_wal {
        check_no_wal(&all, &env.path(path)?)?;
    }
    open_as(env, &all, path, true)
}

pub fn open_families_read_only(
    env: Env,
    all: Ref<AllOptions>,
    path: JString,
    names: ObjectArray,
    options: LongArray,
    error_if_wal: bool,
) -> Outcome<LongArray> {
    if error_if_wal {
        check_no_wal(&all, &env.path(path)?)?;
    }
    open_families_as(env, &all, path, names, options, true)
}

/// Opens a secondary instance with a LOG in the directory `secondary`.
fn secondary_of(
    env: Env,
    all: &AllOptions,
    path: JString,
    secondary: JString,
    families: &[FamilyDescriptor],
) -> Outcome<Database> {
    let secondary = env.path(secondary)?;
    let open = |request: &OpenRequest<'_>| cairn_follow::open_as_secondary(request, &secondary);
    let (db, slot) = open_by(all, &env.path(path)?, families, false, open)?;
    Ok(Database::new(db, Kind::Plain, all, slot))
}

pub fn open_as_secondary(
    env: Env,
    all: Ref<AllOptions>,
    path: JString,
    secondary: JString,
) -> Outcome<New<Database>> {
    secondary_of(env, &all, path, secondary, &default_family(&all)?).map(New)
}

pub fn open_families_as_secondary(
    env: Env,
    all: Ref<AllOptions>,
    path: JString,
    secondary: JString,
    names: ObjectArray,
    options: LongArray,
) -> Outcome<LongArray> {
    let families = descriptors(env, names, options)?;
    let database = secondary_of(env, &all, path, secondary, &families)?;
    handles(env, database, &families)
}

pub fn try_catch_up(_env: Env, db: Ref<Database>) -> Outcome<()> {
    Ok(db.db.try_catch_up_with_primary()?)
}

pub fn promote_level_zero(
    _env: Env,
    db: Ref<Database>,
    family: jlong,
    target_level: jint,
) -> Outcome<()> {
    let target = usize::try_from(target_level)
        .map_err(|_| Error::invalid_argument("Invalid target level: it is negative"))?;
    Ok(own_family(db.0, family)?.promote_level_zero(target)?)
}

pub fn open_ttl(
    env: Env,
    all: Ref<AllOptions>,
    path: JString,
    ttl: jint,
    read_only: bool,
) -> Outcome<New<Database>> {
    let mut all = all.clone();
    all.family.value_ttl = Some(ttl);
    open_as(env, &all, path, read_only)
}

pub fn open_families_ttl(
    env: Env,
    all: Ref<AllOptions>,
    path: JString,
    names: ObjectArray,
    options: LongArray,
    ttls: crate::env::IntArray,
    read_only: bool,
) -> Outcome<LongArray> {
    let mut families = descriptors(env, names, options)?;
    for (family, ttl) in families.iter_mut().zip(env.ints(ttls)?) {
        family.options.value_ttl = Some(ttl);
    }
    let (db, slot) = open_by(&all, &env.path(path)?, &families, read_only, cairn_db::open)?;
    handles(env, Database::new(db, Kind::Plain, &all, slot), &families)
}

pub fn create_family_ttl(
    env: Env,
    db: Ref<Database>,
    name: ByteArray,
    options: Ref<AllOptions>,
    ttl: jint,
) -> Outcome<New<Family>> {
    let mut family = options.family()?.clone();
    family.value_ttl = Some(ttl);
    let name = env.all_bytes(name)?;
    Ok(New(db.db.create_family(name_of(&name)?, &family)?))
}

pub fn close(_env: Env, db: Ref<Database>) -> Outcome<()> {
    // The memory is released by `destroy`, which follows.
    Ok(db.db.try_close()?)
}

pub fn destroy(_env: Env, handle: jlong) -> Outcome<()> {
    let database = take::<Database>(handle)?;
    // Closed already by a program that calls `close`, which reports the error.
    let _closed = database.db.close_and_release();
    Ok(())
}

/// Names of the families, none if they cannot be read. RocksJava does not report errors here, and Kafka Streams lists
/// the families of a directory that does not exist yet. An error of an existing database is reported when it is opened.
pub fn list_families(env: Env, all: Ref<AllOptions>, path: JString) -> Outcome<ObjectArray> {
    let names = cairn_db::list_families(&env.path(path)?, &all.world()).unwrap_or_default();
    env.byte_arrays(names.iter().map(|name| Some(name.as_bytes())))
}

pub fn destroy_db(env: Env, path: JString, all: Ref<AllOptions>) -> Outcome<()> {
    Ok(cairn_db::destroy(
        &all.world(),
        &env.path(path)?,
        &all.db,
        &[],
    )?)
}

pub fn version(_env: Env) -> jint {
    (11 << 16) | (1 << 8) | 1
}

fn create_named(
    db: &Database,
    name: &[u8],
    options: &cairn_options::FamilyOptions,
) -> Outcome<Family> {
    let name = name_of(name)?;
    Ok(match &db.kind {
        Kind::Plain => db.db.create_family(name, options)?,
        Kind::Locking(txn) => txn.create_family(name, options)?,
        Kind::Optimistic(txn) => txn.create_family(name, options)?,
    })
}

pub fn create_family(
    env: Env,
    db: Ref<Database>,
    name: ByteArray,
    name_len: jint,
    options: Ref<AllOptions>,
) -> Outcome<New<Family>> {
    let name = env.bytes(name, 0, name_len)?;
    create_named(&db, &name, options.family()?).map(New)
}

pub fn create_families(
    env: Env,
    db: Ref<Database>,
    options: Ref<AllOptions>,
    names: ObjectArray,
) -> Outcome<LongArray> {
    let mut created = Vec::new();
    for name in env.all_byte_arrays(names)? {
        created.push(create_named(&db, &name, options.family()?)?);
    }
    let created: Vec<jlong> = created.into_iter().map(create).collect();
    env.long_array(&created)
}

pub fn create_families_each(
    env: Env,
    db: Ref<Database>,
    options: LongArray,
    names: ObjectArray,
) -> Outcome<LongArray> {
    let mut created = Vec::new();
    for (name, options) in env.all_byte_arrays(names)?.iter().zip(env.longs(options)?) {
        created.push(create_named(
            &db,
            name,
            of::<AllOptions>(options)?.family()?,
        )?);
    }
    let created: Vec<jlong> = created.into_iter().map(create).collect();
    env.long_array(&created)
}

pub fn drop_family(_env: Env, db: Ref<Database>, family: Ref<Family>) -> Outcome<()> {
    Ok(db.db.drop_family(&family)?)
}

pub fn drop_families(env: Env, db: Ref<Database>, families: LongArray) -> Outcome<()> {
    for family in env.longs(families)? {
        db.db.drop_family(of::<Family>(family)?)?;
    }
    Ok(())
}

pub fn default_family_handle(_env: Env, db: Ref<Database>) -> jlong {
    *db.0
        .default
        .get_or_init(|| create(db.db.default_family().clone()))
}

pub fn family_name(env: Env, family: Ref<Family>) -> Outcome<ByteArray> {
    env.byte_array(family.name().as_bytes())
}

pub fn family_id(_env: Env, family: Ref<Family>) -> jint {
    family.id().cast_signed()
}

pub fn family_descriptor(env: Env, family: Ref<Family>) -> Outcome<Object> {
    let all = AllOptions {
        family: (*family.options()).clone(),
        ..AllOptions::default()
    };
    let options = env.create(
        "org/rocksdb/ColumnFamilyOptions",
        "(J)V",
        &[jvalue { j: create(all) }],
    )?;
    let name = env.byte_array(family.name().as_bytes())?;
    env.create(
        "org/rocksdb/ColumnFamilyDescriptor",
        "([BLorg/rocksdb/ColumnFamilyOptions;)V",
        &[jvalue { l: name.0 }, jvalue { l: options.0 }],
    )
}

pub fn destroy_family(env: Env, handle: jlong) -> Outcome<()> {
    crate::listener::family_handle_closing(of::<Family>(handle)?, handle);
    crate::handle::destroy::<Family>(env, handle)
}

pub fn snapshot(_env: Env, db: Ref<Database>) -> New<Arc<Snapshot>> {
    New(Arc::new(db.db.snapshot()))
}

pub fn release_snapshot(_env: Env, _db: Ref<Database>, snapshot: jlong) -> Outcome<()> {
    take::<Arc<Snapshot>>(snapshot).map(drop)
}

pub fn snapshot_number(_env: Env, snapshot: Ref<Arc<Snapshot>>) -> jlong {
    snapshot.sequence().0 as jlong
}

/// The family of an optional handle.
pub fn family_or_default(db: &Database, family: jlong) -> Outcome<&Family> {
    match family {
        0 => Ok(db.db.default_family()),
        handle => of::<Family>(handle),
    }
}

/// The family of an optional handle, for a change.
///
/// # Errors
///
/// `InvalidArgument` if it is a family of another database.
#[inline]
pub fn own_family(db: &Database, family: jlong) -> Outcome<&Family> {
    let family = family_or_default(db, family)?;
    db.db.check_families([family])?;
    Ok(family)
}

pub fn iterator(
    _env: Env,
    db: Ref<Database>,
    family: jlong,
    options: Ref<ReadOptions>,
) -> Outcome<New<crate::iterator::Cursor>> {
    Ok(crate::iterator::family(
        family_or_default(db.0, family)?.iter_with(&options.current()),
    ))
}

pub fn iterators(
    env: Env,
    db: Ref<Database>,
    families: LongArray,
    options: Ref<ReadOptions>,
) -> Outcome<LongArray> {
    let mut chosen = Vec::new();
    for family in env.longs(families)? {
        chosen.push(of::<Family>(family)?);
    }
    let iterators = db.db.iterators(&chosen, &options.current())?;
    let handles: Vec<jlong> = iterators
        .into_iter()
        .map(|iter| create(crate::iterator::family(iter).0))
        .collect();
    env.long_array(&handles)
}

pub fn property(
    env: Env,
    db: Ref<Database>,
    family: jlong,
    name: JString,
    _len: jint,
) -> Outcome<JString> {
    let value = family_or_default(db.0, family)?.property(&env.text(name)?);
    env.string(&value.ok_or_else(|| Error::not_found(""))?)
}

pub fn number_property(
    env: Env,
    db: Ref<Database>,
    family: jlong,
    name: JString,
    _len: jint,
) -> Outcome<jlong> {
    let value = family_or_default(db.0, family)?.property_number(&env.text(name)?);
    Ok(value.ok_or_else(|| Error::not_found(""))? as jlong)
}

pub fn aggregated_property(
    env: Env,
    db: Ref<Database>,
    name: JString,
    _len: jint,
) -> Outcome<jlong> {
    let sum = db.db.aggregated_property_number(&env.text(name)?);
    Ok(sum.ok_or_else(|| Error::not_found(""))? as jlong)
}

pub fn sizes(
    env: Env,
    db: Ref<Database>,
    family: jlong,
    slices: LongArray,
    flags: i8,
) -> Outcome<LongArray> {
    let slices = env.longs(slices)?;
    let mut ranges = Vec::new();
    for pair in slices.chunks_exact(2) {
        ranges.push(Range {
            begin: of::<Slice>(pair[0])?.bytes(),
            end: of::<Slice>(pair[1])?.bytes(),
        });
    }
    let options = SizeApproximationOptions {
        include_memtables: flags & 1 != 0,
        include_files: flags & 2 != 0,
        ..SizeApproximationOptions::default()
    };
    let sizes = family_or_default(db.0, family)?.approximate_sizes(&ranges, &options)?;
    let sizes: Vec<jlong> = sizes.into_iter().map(|size| size as jlong).collect();
    env.long_array(&sizes)
}

pub fn memtable_stats(
    env: Env,
    db: Ref<Database>,
    family: jlong,
    start: Ref<Slice>,
    limit: Ref<Slice>,
) -> Outcome<LongArray> {
    let range = Range {
        begin: start.bytes(),
        end: limit.bytes(),
    };
    let (count, size) = family_or_default(db.0, family)?.approximate_memtable_stats(&range);
    env.long_array(&[count as jlong, size as jlong])
}

pub fn compact_range(
    env: Env,
    db: Ref<Database>,
    begin: ByteArray,
    begin_len: jint,
    end: ByteArray,
    end_len: jint,
    options: Option<Ref<crate::CompactRangeOptions>>,
    family: jlong,
) -> Outcome<()> {
    let bound = |array: ByteArray, len| match array.is_null() || len < 0 {
        true => Ok(None),
        false => env.bytes(array, 0, len).map(Some),
    };
    let (begin, end) = (bound(begin, begin_len)?, bound(end, end_len)?);
    let default = crate::CompactRangeOptions::default();
    let options = options.map_or(&default, |options| options.0);
    Ok(own_family(db.0, family)?.compact_range(begin.as_deref(), end.as_deref(), options)?)
}

pub fn set_options(
    env: Env,
    db: Ref<Database>,
    family: jlong,
    names: ObjectArray,
    values: ObjectArray,
) -> Outcome<()> {
    let (names, values) = (env.texts(names)?, env.texts(values)?);
    let changes: Vec<(&str, &str)> = names
        .iter()
        .map(String::as_str)
        .zip(values.iter().map(String::as_str))
        .collect();
    Ok(own_family(db.0, family)?.set_options(&changes)?)
}

pub fn set_db_options(
    env: Env,
    db: Ref<Database>,
    names: ObjectArray,
    values: ObjectArray,
) -> Outcome<()> {
    let (names, values) = (env.texts(names)?, env.texts(values)?);
    let changes: Vec<(&str, &str)> = names
        .iter()
        .map(String::as_str)
        .zip(values.iter().map(String::as_str))
        .collect();
    Ok(db.db.set_db_options(&changes)?)
}

pub fn get_options(env: Env, db: Ref<Database>, family: jlong) -> Outcome<JString> {
    env.string(&family_or_default(db.0, family)?.options().to_text())
}

pub fn get_db_options(env: Env, db: Ref<Database>) -> Outcome<JString> {
    env.string(&without_empty(&db.db.options().to_text()))
}

/// An option text without options that have no value, which RocksDB omits and Java cannot parse.
fn without_empty(text: &str) -> String {
    let mut depth = 0usize;
    let pieces = text.split_inclusive(|c| {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ';' && depth == 0
    });
    pieces
        .filter(|piece| !piece.trim_end_matches(';').ends_with('='))
        .collect()
}

pub fn flush(
    env: Env,
    db: Ref<Database>,
    options: Ref<FlushOptions>,
    families: LongArray,
) -> Outcome<()> {
    let mut chosen = Vec::new();
    if families.is_null() {
        chosen.push(db.0.db.default_family());
    } else {
        for family in env.longs(families)? {
            chosen.push(of::<Family>(family)?);
        }
    }
    Ok(db.db.flush_families_with(&chosen, &options)?)
}

pub fn flush_wal(_env: Env, db: Ref<Database>, sync: bool) -> Outcome<()> {
    Ok(db.db.flush_wal(sync)?)
}

pub fn sync_wal(_env: Env, db: Ref<Database>) -> Outcome<()> {
    Ok(db.db.sync_wal()?)
}

pub fn latest_sequence(_env: Env, db: Ref<Database>) -> jlong {
    db.db.latest_sequence().0 as jlong
}

pub fn cancel_background(_env: Env, db: Ref<Database>, wait: bool) -> Outcome<()> {
    Ok(db.db.cancel_all_background_work(wait)?)
}

pub fn pause_background(_env: Env, db: Ref<Database>) {
    db.db.pause_background_work();
}

pub fn continue_background(_env: Env, db: Ref<Database>) -> Outcome<()> {
    Ok(db.db.continue_background_work()?)
}

pub fn abort_compactions(_env: Env, db: Ref<Database>) {
    db.db.abort_all_compactions();
}

pub fn resume_compactions(_env: Env, db: Ref<Database>) {
    db.db.resume_all_compactions();
}

pub fn enable_auto_compaction(env: Env, db: Ref<Database>, families: LongArray) -> Outcome<()> {
    for family in env.longs(families)? {
        own_family(db.0, family)?.set_options(&[("disable_auto_compactions", "false")])?;
    }
    Ok(())
}

pub fn number_levels(_env: Env, db: Ref<Database>, family: jlong) -> Outcome<jint> {
    Ok(family_or_default(db.0, family)?.options().num_levels)
}

pub fn max_mem_compaction_level(_env: Env, _db: Ref<Database>, _family: jlong) -> jint {
    0
}

pub fn level0_stop_trigger(_env: Env, db: Ref<Database>, family: jlong) -> Outcome<jint> {
    Ok(family_or_default(db.0, family)?
        .options()
        .level0_stop_writes_trigger)
}

pub fn name(env: Env, db: Ref<Database>) -> Outcome<JString> {
    env.string_of_path(db.db.path())
}

/// Marks tables for compaction. As in RocksJava, the range consists of two empty keys, which Java owns.
pub fn suggest_compact_range(env: Env, db: Ref<Database>, family: jlong) -> Outcome<LongArray> {
    own_family(db.0, family)?.suggest_compact_range(Some(b""), Some(b""))?;
    let empty = || create(Slice::owned(Vec::new()));
    env.long_array(&[empty(), empty()])
}

/// The handle of the environment, which belongs to its Java object.
pub fn environment(_env: Env, db: Ref<Database>) -> jlong {
    match db.env_handle {
        0 => crate::objects::default_env(_env),
        handle => handle,
    }
}

pub fn disable_deletions(_env: Env, db: Ref<Database>) -> Outcome<()> {
    Ok(db.db.disable_file_deletions()?)
}

pub fn enable_deletions(_env: Env, db: Ref<Database>) -> Outcome<()> {
    Ok(db.db.enable_file_deletions()?)
}

/// The overload of release 8.10, whose flag RocksDB has removed.
pub fn enable_deletions_8(_env: Env, db: Ref<Database>, _force: bool) -> Outcome<()> {
    Ok(db.db.enable_file_deletions()?)
}

pub fn live_files(env: Env, db: Ref<Database>, flush: bool) -> Outcome<ObjectArray> {
    let (mut files, manifest_size) = db.db.live_files(flush)?;
    // In RocksDB's order: tables and blob files, CURRENT, the MANIFEST, the OPTIONS file.
    files.sort_by_key(|name| match name {
        name if name == "/CURRENT" => 1,
        name if name.starts_with("/MANIFEST-") => 2,
        name if name.starts_with("/OPTIONS-") => 3,
        _ => 0,
    });
    // RocksJava passes the size of the MANIFEST as the last string.
    files.push(manifest_size.to_string());
    env.strings(&files)
}

pub fn ingest(
    env: Env,
    db: Ref<Database>,
    family: jlong,
    files: ObjectArray,
    _len: jint,
    options: Ref<IngestExternalFileOptions>,
) -> Outcome<()> {
    let files = env.paths(files)?;
    Ok(own_family(db.0, family)?.ingest_external_file(&files, &options)?)
}

pub fn verify_checksum(_env: Env, db: Ref<Database>) -> Outcome<()> {
    Ok(db
        .db
        .verify_checksum(&cairn_options::ReadOptions::default())?)
}

pub fn clip(
    env: Env,
    db: Ref<Database>,
    family: Ref<Family>,
    begin: ByteArray,
    begin_offset: jint,
    begin_len: jint,
    end: ByteArray,
    end_offset: jint,
    end_len: jint,
) -> Outcome<()> {
    let begin = env.bytes(begin, begin_offset, begin_len)?;
    let end = env.bytes(end, end_offset, end_len)?;
    db.db.check_families([family.0])?;
    Ok(family.clip(&begin, &end)?)
}

pub fn reset_stats(_env: Env, db: Ref<Database>) {
    if let Some(statistics) = db.db.statistics() {
        statistics.reset();
    }
}

pub fn delete_files_in_ranges(
    env: Env,
    db: Ref<Database>,
    family: jlong,
    keys: ObjectArray,
    include_end: bool,
) -> Outcome<()> {
    let mut bounds = Vec::new();
    for at in 0..usize::try_from(env.len(Object(keys.0))?).unwrap_or(0) {
        let key = env.element(keys, at)?;
        bounds.push(match key.is_null() {
            true => None,
            false => Some(env.all_bytes(ByteArray(key.0))?),
        });
        env.forget(key);
    }
    let ranges: Vec<_> = bounds
        .chunks_exact(2)
        .map(|pair| (pair[0].as_deref(), pair[1].as_deref()))
        .collect();
    Ok(own_family(db.0, family)?.delete_files_in_ranges(&ranges, include_end)?)
}

pub fn map_property(
    env: Env,
    db: Ref<Database>,
    family: jlong,
    name: JString,
    _len: jint,
) -> Outcome<Object> {
    let map = family_or_default(db.0, family)?.property_map(&env.text(name)?);
    let map = map.ok_or_else(|| Error::not_found(""))?;
    env.map(
        map.iter()
            .map(|(name, value)| Ok((Object(env.string(name)?.0), Object(env.string(value)?.0)))),
    )
}

/// Memory use by type.
pub fn memory_usage(env: Env, dbs: LongArray, caches: LongArray) -> Outcome<Object> {
    let mut databases = Vec::new();
    for handle in env.longs(dbs)? {
        databases.push(&of::<Database>(handle)?.db);
    }
    let mut all = Vec::new();
    for handle in env.longs(caches)? {
        all.push(of::<Arc<cairn_memory::BlockCache>>(handle)?.clone());
    }
    let usage = cairn_db::approximate_memory_usage(&databases, &all);
    // As in RocksDB, without a database or cache there is no number.
    let (has_db, has_cache) = (!databases.is_empty(), !all.is_empty());
    let values = [
        (has_db, usage.mem_table_total),
        (has_db, usage.mem_table_unflushed),
        (has_db, usage.table_readers_total),
        (has_cache, usage.cache_total),
    ];
    let known = values.into_iter().enumerate().filter(|(_, (has, _))| *has);
    env.map(known.map(|(at, (_, value))| {
        let kind = env.create("java/lang/Byte", "(B)V", &[jvalue { b: at as i8 }])?;
        Ok((kind, env.boxed_long(value as jlong)?))
    }))
}

/// A checkpoint refers to the database by its handle.
pub struct Checkpoint(Db);

pub fn new_checkpoint(_env: Env, db: Ref<Database>) -> New<Checkpoint> {
    New(Checkpoint(db.db.clone()))
}

pub fn create_checkpoint(env: Env, checkpoint: Ref<Checkpoint>, path: JString) -> Outcome<()> {
    let dir = env.path(path)?;
    let db = &checkpoint.0.0;
    db.create_checkpoint(&dir, 0)?;
    Ok(remove_empty_logs(db.world(), &dir)?)
}

/// Removes the logs without a record from a checkpoint, as Flink requires: it cannot upload an empty file, and RocksDB's
/// library for it copies no such log.
fn remove_empty_logs(world: &World, dir: &Path) -> cairn_types::Result<()> {
    let fs = &world.fs;
    for name in fs.list(dir)? {
        let path = dir.join(&name);
        if name.ends_with(".log") && fs.status(&path)?.len == 0 {
            fs.remove(&path)?;
        }
    }
    fs.sync_dir(dir)
}

pub fn destroy_checkpoint(env: Env, handle: jlong) -> Outcome<()> {
    crate::handle::destroy::<Checkpoint>(env, handle)
}
