//! Files: table writers and readers, backups, exports, live files, write-ahead logs, table properties.

use std::collections::BTreeMap;

use cairn_backup::{BackupEngine, BackupEngineOptions, CreateBackupOptions, RestoreOptions};
use cairn_db::{
    ColumnFamilyMetaDataOptions, ExportImportFilesMetaData, Family, LiveFileMetaData,
    SstFileReader, SstFileWriter, WalFileType, WalIterator,
};
use cairn_format::table::Properties;
use cairn_observe::listener::CompactionJobInfo;
use cairn_options::{CompactionOptions, DbOptions, FamilyOptions, ImportColumnFamilyOptions};
use cairn_platform::{RateLimiter, World};
use cairn_types::{Error, SequenceNumber};
use jni_sys::{jint, jlong, jvalue};
use std::sync::Arc;

use crate::batch::Batch;
use crate::callbacks::{ComparatorHandle, LoggerHandle};
use crate::db::{Checkpoint, Database, family_or_default, name_of, own_family};
use crate::env::{
    ByteArray, ByteBuffer, Env, IntArray, JString, LongArray, Object, ObjectArray, Outcome,
};
use crate::handle::{Mut, New, Ref, create, of};
use crate::iterator::Cursor;
use crate::options::{AllOptions, ReadOptions};
use crate::slice::Slice;

/// The object of `EnvOptions`, which only table writers use. Cairn's table writers have no other settings for files than
/// `bytes_per_sync` and `set_fd_cloexec`: the others change how RocksDB writes a file, but not the file.
#[derive(Clone)]
pub struct EnvOptions {
    pub use_mmap_reads: bool,
    pub use_mmap_writes: bool,
    pub use_direct_reads: bool,
    pub use_direct_writes: bool,
    pub allow_fallocate: bool,
    pub set_fd_cloexec: bool,
    pub bytes_per_sync: u64,
    pub fallocate_with_keep_size: bool,
    pub compaction_readahead_size: u64,
    pub random_access_max_buffer_size: u64,
    pub writable_file_max_buffer_size: u64,
}

impl EnvOptions {
    /// The options for the files of a database.
    fn of(db: &DbOptions) -> EnvOptions {
        EnvOptions {
            use_mmap_reads: db.allow_mmap_reads,
            use_mmap_writes: db.allow_mmap_writes,
            use_direct_reads: db.use_direct_reads,
            use_direct_writes: false,
            allow_fallocate: db.allow_fallocate,
            set_fd_cloexec: db.is_fd_close_on_exec,
            bytes_per_sync: db.bytes_per_sync,
            fallocate_with_keep_size: true,
            compaction_readahead_size: db.compaction_readahead_size,
            random_access_max_buffer_size: 0,
            writable_file_max_buffer_size: db.writable_file_max_buffer_size,
        }
    }
}

pub fn new_env_options(_env: Env) -> New<EnvOptions> {
    New(EnvOptions::of(&DbOptions::default()))
}

pub fn new_env_options_of(_env: Env, all: Ref<AllOptions>) -> New<EnvOptions> {
    New(EnvOptions::of(&all.db))
}

pub fn set_env_rate_limiter(_env: Env, _options: Ref<EnvOptions>, _limiter: Ref<Arc<RateLimiter>>) {
}

macro_rules! destructors {
    ($($name:ident: $type:ty;)+) => {$(
        pub fn $name(env: Env, handle: jlong) -> Outcome<()> {
            crate::handle::destroy::<$type>(env, handle)
        }
    )+};
}

destructors! {
    destroy_env_options: EnvOptions;
    destroy_writer: SstFileWriter;
    destroy_reader: Reader;
    destroy_backup_options: BackupEngineOptions;
    destroy_backup: Backups;
    destroy_restore: Restore;
    destroy_export: ExportImportFilesMetaData;
    destroy_import: ImportColumnFamilyOptions;
    destroy_wal: WalIterator;
    destroy_compaction_options: CompactionOptions;
}

fn writer(env: &EnvOptions, all: &AllOptions, family: &FamilyOptions) -> New<SstFileWriter> {
    let db = DbOptions {
        bytes_per_sync: env.bytes_per_sync,
        is_fd_close_on_exec: env.set_fd_cloexec,
        ..all.db.clone()
    };
    New(SstFileWriter::new(&all.world(), &db, family))
}

pub fn new_writer(
    _env: Env,
    options: Ref<EnvOptions>,
    all: Ref<AllOptions>,
) -> Outcome<New<SstFileWriter>> {
    Ok(writer(&options, &all, all.family()?))
}

pub fn new_writer_ordered(
    _env: Env,
    options: Ref<EnvOptions>,
    all: Ref<AllOptions>,
    order: Ref<ComparatorHandle>,
    _kind: i8,
) -> Outcome<New<SstFileWriter>> {
    let mut family = all.family()?.clone();
    family.comparator = order.clone();
    Ok(writer(&options, &all, &family))
}

pub fn open_writer(env: Env, mut writer: Mut<SstFileWriter>, path: JString) -> Outcome<()> {
    Ok(writer.open(&env.path(path)?)?)
}

pub fn writer_put(
    _env: Env,
    mut writer: Mut<SstFileWriter>,
    key: Ref<Slice>,
    value: Ref<Slice>,
) -> Outcome<()> {
    Ok(writer.put(key.bytes(), value.bytes())?)
}

pub fn writer_put_array(
    env: Env,
    mut writer: Mut<SstFileWriter>,
    key: ByteArray,
    value: ByteArray,
) -> Outcome<()> {
    Ok(writer.put(&env.all_bytes(key)?, &env.all_bytes(value)?)?)
}

pub fn writer_put_direct(
    env: Env,
    mut writer: Mut<SstFileWriter>,
    key: ByteBuffer,
    key_at: jint,
    key_len: jint,
    value: ByteBuffer,
    at: jint,
    len: jint,
) -> Outcome<()> {
    let key = env.direct(key, key_at, key_len, "key")?;
    Ok(writer.put(key, env.direct(value, at, len, "value")?)?)
}

pub fn writer_merge(
    _env: Env,
    mut writer: Mut<SstFileWriter>,
    key: Ref<Slice>,
    value: Ref<Slice>,
) -> Outcome<()> {
    Ok(writer.merge(key.bytes(), value.bytes())?)
}

pub fn writer_merge_array(
    env: Env,
    mut writer: Mut<SstFileWriter>,
    key: ByteArray,
    value: ByteArray,
) -> Outcome<()> {
    Ok(writer.merge(&env.all_bytes(key)?, &env.all_bytes(value)?)?)
}

pub fn writer_delete(_env: Env, mut writer: Mut<SstFileWriter>, key: Ref<Slice>) -> Outcome<()> {
    Ok(writer.delete(key.bytes())?)
}

pub fn writer_delete_array(
    env: Env,
    mut writer: Mut<SstFileWriter>,
    key: ByteArray,
) -> Outcome<()> {
    Ok(writer.delete(&env.all_bytes(key)?)?)
}

pub fn writer_size(_env: Env, writer: Ref<SstFileWriter>) -> jlong {
    writer.file_size() as jlong
}

pub fn writer_finish(_env: Env, mut writer: Mut<SstFileWriter>) -> Outcome<()> {
    writer.finish()?;
    Ok(())
}

/// The object of `SstFileReader`.
pub struct Reader {
    options: AllOptions,
    reader: Option<SstFileReader>,
}

impl Reader {
    fn open(&self) -> Outcome<&SstFileReader> {
        self.reader
            .as_ref()
            .ok_or_else(|| Error::invalid_argument("the reader has no open file").into())
    }
}

pub fn new_reader(_env: Env, all: Ref<AllOptions>) -> New<Reader> {
    New(Reader {
        options: all.clone(),
        reader: None,
    })
}

pub fn open_reader(env: Env, mut reader: Mut<Reader>, path: JString) -> Outcome<()> {
    let path = env.path(path)?;
    reader.reader = Some(SstFileReader::open(
        &reader.options.world(),
        &path,
        &reader.options.family,
    )?);
    Ok(())
}

pub fn reader_iterator(
    _env: Env,
    reader: Ref<Reader>,
    options: Ref<ReadOptions>,
) -> Outcome<New<Cursor>> {
    Ok(New(Cursor::Table(Box::new(
        reader.open()?.iter(&options.current()),
    ))))
}

pub fn reader_verify(_env: Env, reader: Ref<Reader>) -> Outcome<()> {
    Ok(reader.open()?.verify_checksum()?)
}

pub fn reader_properties(env: Env, reader: Ref<Reader>) -> Outcome<Object> {
    properties_of_file(env, reader.open()?.properties())
}

/// A `TableProperties` object of a table that was read.
pub fn properties_of_file(env: Env, p: &Properties) -> Outcome<Object> {
    create_properties(env, p, &p.user_collected())
}

/// A `TableProperties` object of a table that a job has written.
pub fn table_properties(env: Env, p: &Properties) -> Outcome<Object> {
    create_properties(env, p, &p.collected())
}

/// A `TableProperties` object with the user-collected properties `collected`.
fn create_properties(
    env: Env,
    p: &Properties,
    collected: &BTreeMap<Vec<u8>, Vec<u8>>,
) -> Outcome<Object> {
    let numbers = [
        p.data_size,
        p.index_size,
        p.index_partitions,
        p.top_level_index_size,
        p.index_key_is_user_key,
        p.index_value_is_delta_encoded,
        p.filter_size,
        p.raw_key_size,
        p.raw_value_size,
        p.num_data_blocks,
        p.num_entries,
        p.num_deletions,
        p.num_merge_operands,
        p.num_range_deletions,
        p.format_version,
        p.fixed_key_len,
        p.column_family_id,
        p.creation_time,
        p.oldest_key_time,
        p.slow_compression_estimate,
        p.fast_compression_estimate,
        p.global_seqno_at,
    ];
    let mut arguments: Vec<jvalue> = numbers
        .iter()
        .map(|number| jvalue {
            j: *number as jlong,
        })
        .collect();
    arguments.push(jvalue {
        l: env.byte_array(p.column_family_name.as_bytes())?.0,
    });
    let texts = [
        &p.filter_policy,
        &p.comparator,
        &p.merge_operator,
        &p.prefix_extractor,
        &p.property_collectors,
        &p.compression,
    ];
    for text in texts {
        let text = match text.is_empty() {
            true => std::ptr::null_mut(),
            false => env.string(text)?.0,
        };
        arguments.push(jvalue { l: text });
    }
    // As in RocksJava, a binary value ends at its first zero.
    let text = |bytes: &[u8]| {
        let bytes = bytes.split(|byte| *byte == 0).next().unwrap_or(bytes);
        env.string(&String::from_utf8_lossy(bytes))
            .map(|text| Object(text.0))
    };
    for user in [collected, &p.others] {
        let user = user
            .iter()
            .map(|(name, value)| Ok((text(name)?, text(value)?)));
        arguments.push(jvalue {
            l: env.map(user)?.0,
        });
    }
    let class = "org/rocksdb/TableProperties";
    // Release 6.20 lacks the last number, and has the offsets of properties in the file, which stay empty.
    const OLD: &str = "(JJJJJJJJJJJJJJJJJJJJJ[BLjava/lang/String;Ljava/lang/String;Ljava/lang/String;\
                       Ljava/lang/String;Ljava/lang/String;Ljava/lang/String;Ljava/util/Map;Ljava/util/Map;\
                       Ljava/util/Map;)V";
    if env.has_method(env.class(class)?, "<init>", OLD) {
        arguments.remove(numbers.len() - 1);
        let offsets = env.map(std::iter::empty())?;
        arguments.push(jvalue { l: offsets.0 });
        return env.create(class, OLD, &arguments);
    }
    env.create(
        class,
        "(JJJJJJJJJJJJJJJJJJJJJJ[BLjava/lang/String;Ljava/lang/String;Ljava/lang/String;Ljava/lang/String;\
         Ljava/lang/String;Ljava/lang/String;Ljava/util/Map;Ljava/util/Map;)V",
        &arguments,
    )
}

fn collection(env: Env, found: cairn_db::TablePropertiesCollection) -> Outcome<Object> {
    env.map(found.iter().map(|(path, properties)| {
        Ok((
            Object(env.string(path)?.0),
            properties_of_file(env, properties)?,
        ))
    }))
}

pub fn properties_of_all(env: Env, db: Ref<Database>, family: jlong) -> Outcome<Object> {
    collection(
        env,
        family_or_default(db.0, family)?.properties_of_all_tables()?,
    )
}

pub fn properties_in_range(
    env: Env,
    db: Ref<Database>,
    family: jlong,
    slices: LongArray,
) -> Outcome<Object> {
    let slices = env.longs(slices)?;
    let mut ranges = Vec::new();
    for pair in slices.chunks_exact(2) {
        ranges.push((of::<Slice>(pair[0])?.bytes(), of::<Slice>(pair[1])?.bytes()));
    }
    collection(
        env,
        family_or_default(db.0, family)?.properties_of_tables_in_range(&ranges)?,
    )
}

/// The arguments of `SstFileMetaData` from the file name on.
fn file_arguments(env: Env, file: &LiveFileMetaData) -> Outcome<Vec<jvalue>> {
    Ok(vec![
        jvalue {
            l: env.string(&format!("/{}", file.relative_filename))?.0,
        },
        jvalue {
            l: env.string_of_path(&file.directory)?.0,
        },
        jvalue {
            j: file.size as jlong,
        },
        jvalue {
            j: file.smallest_seqno.0 as jlong,
        },
        jvalue {
            j: file.largest_seqno.0 as jlong,
        },
        jvalue {
            l: env.byte_array(&file.smallest_key)?.0,
        },
        jvalue {
            l: env.byte_array(&file.largest_key)?.0,
        },
        jvalue { j: 0 },
        jvalue {
            z: file.being_compacted,
        },
        jvalue {
            j: file.num_entries as jlong,
        },
        jvalue {
            j: file.num_deletions as jlong,
        },
        jvalue {
            l: env.byte_array(&file.file_checksum)?.0,
        },
    ])
}

/// Creates a description of a file. `types` are those of all arguments but the checksum, which releases before 8.10 lack.
fn described(env: Env, class: &str, types: &str, arguments: &[jvalue]) -> Outcome<Object> {
    let with_checksum = format!("({types}[B)V");
    match env.has_method(env.class(class)?, "<init>", &with_checksum) {
        true => env.create(class, &with_checksum, arguments),
        false => env.create(
            class,
            &format!("({types})V"),
            &arguments[..arguments.len() - 1],
        ),
    }
}

pub fn live_files_metadata(env: Env, db: Ref<Database>) -> Outcome<ObjectArray> {
    let files = db.db.live_files_metadata();
    let array = env.object_array("org/rocksdb/LiveFileMetaData", files.len())?;
    for (at, file) in files.iter().enumerate() {
        env.frame(|| {
            let mut arguments = vec![
                jvalue {
                    l: env.byte_array(file.column_family_name.as_bytes())?.0,
                },
                jvalue {
                    i: jint::try_from(file.level).unwrap_or(0),
                },
            ];
            arguments.extend(file_arguments(env, file)?);
            let created = described(
                env,
                "org/rocksdb/LiveFileMetaData",
                "[BILjava/lang/String;Ljava/lang/String;JJJ[B[BJZJJ",
                &arguments,
            )?;
            env.set_element(array, at, created)
        })?;
    }
    Ok(array)
}

pub fn family_metadata(env: Env, db: Ref<Database>, family: jlong) -> Outcome<Object> {
    let family = family_or_default(db.0, family)?.metadata(&ColumnFamilyMetaDataOptions::default());
    let levels = env.object_array("org/rocksdb/LevelMetaData", family.levels.len())?;
    for (at, level) in family.levels.iter().enumerate() {
        let files = env.object_array("org/rocksdb/SstFileMetaData", level.files.len())?;
        for (at, file) in level.files.iter().enumerate() {
            env.frame(|| {
                let created = described(
                    env,
                    "org/rocksdb/SstFileMetaData",
                    "Ljava/lang/String;Ljava/lang/String;JJJ[B[BJZJJ",
                    &file_arguments(env, file)?,
                )?;
                env.set_element(files, at, created)
            })?;
        }
        let created = env.create(
            "org/rocksdb/LevelMetaData",
            "(IJ[Lorg/rocksdb/SstFileMetaData;)V",
            &[
                jvalue {
                    i: jint::try_from(level.level).unwrap_or(0),
                },
                jvalue {
                    j: level.size as jlong,
                },
                jvalue { l: files.0 },
            ],
        )?;
        env.set_element(levels, at, created)?;
        env.forget(Object(files.0));
    }
    env.create(
        "org/rocksdb/ColumnFamilyMetaData",
        "(JJ[B[Lorg/rocksdb/LevelMetaData;)V",
        &[
            jvalue {
                j: family.size as jlong,
            },
            jvalue {
                j: family.file_count as jlong,
            },
            jvalue {
                l: env.byte_array(family.name.as_bytes())?.0,
            },
            jvalue { l: levels.0 },
        ],
    )
}

pub fn wal_files(env: Env, db: Ref<Database>) -> Outcome<ObjectArray> {
    let files = db.db.sorted_wal_files()?;
    let array = env.object_array("org/rocksdb/LogFile", files.len())?;
    for (at, file) in files.iter().enumerate() {
        let path = env.string(&file.path_name)?;
        let created = env.create(
            "org/rocksdb/LogFile",
            "(Ljava/lang/String;JBJJ)V",
            &[
                jvalue { l: path.0 },
                jvalue {
                    j: file.log_number.0 as jlong,
                },
                jvalue {
                    b: i8::from(file.file_type == WalFileType::Alive),
                },
                jvalue {
                    j: file.start_sequence.0 as jlong,
                },
                jvalue {
                    j: file.size_file_bytes as jlong,
                },
            ],
        )?;
        env.set_element(array, at, created)?;
        env.forget(Object(path.0));
    }
    Ok(array)
}

pub fn updates_since(_env: Env, db: Ref<Database>, sequence: jlong) -> Outcome<New<WalIterator>> {
    Ok(New(db.db.updates_since(SequenceNumber(sequence as u64))?))
}

pub fn wal_valid(_env: Env, iter: Ref<WalIterator>) -> bool {
    iter.valid()
}

pub fn wal_next(_env: Env, mut iter: Mut<WalIterator>) {
    iter.next();
}

pub fn wal_status(_env: Env, iter: Ref<WalIterator>) -> Outcome<()> {
    Ok(iter.status()?)
}

pub fn wal_batch(env: Env, iter: Ref<WalIterator>) -> Outcome<Object> {
    let (sequence, batch) = iter.batch()?;
    env.create(
        "org/rocksdb/TransactionLogIterator$BatchResult",
        "(JJ)V",
        &[
            jvalue {
                j: sequence.0 as jlong,
            },
            jvalue {
                j: create(Batch::new(batch)),
            },
        ],
    )
}

pub fn export(
    env: Env,
    _checkpoint: Ref<Checkpoint>,
    family: Ref<Family>,
    path: JString,
) -> Outcome<New<ExportImportFilesMetaData>> {
    Ok(New(family.export(&env.path(path)?)?))
}

pub fn new_import(_env: Env) -> New<ImportColumnFamilyOptions> {
    New(ImportColumnFamilyOptions::default())
}

pub fn create_with_import(
    env: Env,
    db: Ref<Database>,
    name: ByteArray,
    len: jint,
    options: Ref<AllOptions>,
    import: Ref<ImportColumnFamilyOptions>,
    exports: LongArray,
) -> Outcome<New<Family>> {
    let name = env.bytes(name, 0, len)?;
    let mut all = Vec::new();
    for export in env.longs(exports)? {
        all.push(of::<ExportImportFilesMetaData>(export)?.clone());
    }
    Ok(New(db.db.create_family_with_import(
        name_of(&name)?,
        options.family()?,
        &import,
        &all,
    )?))
}

pub fn new_backup_options(env: Env, path: JString) -> Outcome<New<BackupEngineOptions>> {
    Ok(New(BackupEngineOptions::new(env.path(path)?)))
}

pub fn backup_dir(env: Env, options: Ref<BackupEngineOptions>) -> Outcome<JString> {
    env.string_of_path(&options.backup_dir)
}

pub fn set_backup_env(_env: Env, mut options: Mut<BackupEngineOptions>, world: Ref<World>) {
    options.backup_world = Some(world.clone());
}

pub fn set_backup_log(_env: Env, mut options: Mut<BackupEngineOptions>, logger: Ref<LoggerHandle>) {
    options.info_log = Some(logger.clone());
}

pub fn set_backup_limiter(
    _env: Env,
    mut options: Mut<BackupEngineOptions>,
    limiter: Ref<Arc<RateLimiter>>,
) {
    options.backup_rate_limiter = Some(limiter.clone());
}

pub fn set_restore_limiter(
    _env: Env,
    mut options: Mut<BackupEngineOptions>,
    limiter: Ref<Arc<RateLimiter>>,
) {
    options.restore_rate_limiter = Some(limiter.clone());
}

/// The object of `BackupEngine`.
pub struct Backups(BackupEngine);

pub fn open_backups(
    _env: Env,
    world: Ref<World>,
    options: Ref<BackupEngineOptions>,
) -> Outcome<New<Backups>> {
    Ok(New(Backups(BackupEngine::open(&world, &options)?)))
}

pub fn create_backup(
    _env: Env,
    engine: Ref<Backups>,
    db: Ref<Database>,
    flush: bool,
) -> Outcome<()> {
    let options = CreateBackupOptions {
        flush_before_backup: flush,
        ..CreateBackupOptions::default()
    };
    engine.0.0.create_new_backup(&db.db, &options)?;
    Ok(())
}

pub fn create_backup_with(
    env: Env,
    engine: Ref<Backups>,
    db: Ref<Database>,
    metadata: JString,
    flush: bool,
) -> Outcome<()> {
    let options = CreateBackupOptions {
        flush_before_backup: flush,
        app_metadata: env.modified_utf8(metadata)?,
        ..CreateBackupOptions::default()
    };
    engine.0.0.create_new_backup(&db.db, &options)?;
    Ok(())
}

pub fn backups(env: Env, engine: Ref<Backups>) -> Outcome<Object> {
    let list = env.create("java/util/ArrayList", "()V", &[])?;
    let infos = engine.0.0.backups();
    env.append(
        list,
        infos.into_iter().map(|info| {
            let metadata = match info.app_metadata.is_empty() {
                true => JString::default(),
                false => env.string_of_bytes(&info.app_metadata)?,
            };
            env.create(
                "org/rocksdb/BackupInfo",
                "(IJJILjava/lang/String;)V",
                &[
                    jvalue {
                        i: info.backup_id.cast_signed(),
                    },
                    jvalue { j: info.timestamp },
                    jvalue {
                        j: info.size as jlong,
                    },
                    jvalue {
                        i: info.number_files.cast_signed(),
                    },
                    jvalue { l: metadata.0 },
                ],
            )
        }),
    )?;
    Ok(list)
}

pub fn corrupted_backups(env: Env, engine: Ref<Backups>) -> Outcome<IntArray> {
    let ids: Vec<jint> = engine
        .0
        .0
        .corrupted_backups()
        .iter()
        .map(|(id, _)| id.cast_signed())
        .collect();
    env.int_array(&ids)
}

pub fn collect_backups(_env: Env, engine: Ref<Backups>) -> Outcome<()> {
    Ok(engine.0.0.garbage_collect()?)
}

pub fn purge_backups(_env: Env, engine: Ref<Backups>, keep: jint) -> Outcome<()> {
    // RocksDB converts to unsigned, so a negative number keeps all backups.
    Ok(engine
        .0
        .0
        .purge_old_backups(keep.cast_unsigned() as usize)?)
}

pub fn delete_backup(_env: Env, engine: Ref<Backups>, id: jint) -> Outcome<()> {
    Ok(engine.0.0.delete_backup(id.cast_unsigned())?)
}

/// The object of `RestoreOptions`.
pub struct Restore(bool);

pub fn new_restore(_env: Env, keep_log_files: bool) -> New<Restore> {
    New(Restore(keep_log_files))
}

pub fn restore(
    env: Env,
    engine: Ref<Backups>,
    id: jint,
    db_dir: JString,
    wal_dir: JString,
    options: Ref<Restore>,
) -> Outcome<()> {
    let (db_dir, wal_dir) = (env.path(db_dir)?, env.path(wal_dir)?);
    let options = RestoreOptions {
        keep_log_files: options.0.0,
        ..RestoreOptions::default()
    };
    Ok(engine
        .0
        .0
        .restore_db_from_backup(id.cast_unsigned(), &db_dir, &wal_dir, &options)?)
}

pub fn restore_latest(
    env: Env,
    engine: Ref<Backups>,
    db_dir: JString,
    wal_dir: JString,
    options: Ref<Restore>,
) -> Outcome<()> {
    let (db_dir, wal_dir) = (env.path(db_dir)?, env.path(wal_dir)?);
    let options = RestoreOptions {
        keep_log_files: options.0.0,
        ..RestoreOptions::default()
    };
    Ok(engine
        .0
        .0
        .restore_db_from_latest_backup(&db_dir, &wal_dir, &options)?)
}

pub fn new_compaction_options(_env: Env) -> New<CompactionOptions> {
    New(CompactionOptions::default())
}

pub fn compact_files(
    env: Env,
    db: Ref<Database>,
    options: Ref<CompactionOptions>,
    family: jlong,
    files: ObjectArray,
    output_level: jint,
    path_id: jint,
    info: Option<Mut<CompactionJobInfo>>,
) -> Outcome<ObjectArray> {
    let files = env.texts(files)?;
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    let level = usize::try_from(output_level)
        .map_err(|_| Error::invalid_argument("the level is negative"))?;
    let path_id = u32::try_from(path_id).ok();
    let family = own_family(db.0, family)?;
    let done = family.compact_files_reported(&options, &files, level, path_id)?;
    let made = env.strings(&done.output_paths())?;
    if let Some(info) = info {
        *info.0 = done;
    }
    Ok(made)
}
