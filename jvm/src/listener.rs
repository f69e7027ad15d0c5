//! `AbstractEventListener`: events of the engine for Java.
//!
//! A Java listener is a part of the options of any number of databases. Each open of a database creates a
//! [`Bound`] listener for it, which passes the handle of that database to the methods that have a database as
//! argument. An exception in a listener is written to the standard error stream.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use cairn_db::{Db, Family};
use cairn_format::table::Properties;
use cairn_observe::listener::{
    BackgroundErrorRecoveryInfo, CompactionJobInfo, ExternalFileIngestionInfo,
    FileCreationBriefInfo, FileDeletionInfo, FileOperationInfo, FlushJobInfo, MemTableInfo,
    TableFileCreationInfo, WriteStallInfo,
};
use cairn_observe::{BackgroundErrorReason, EventListener, FlushReason, Listeners};
use cairn_options::DbOptions;
use cairn_platform::sync::Mutex;
use cairn_types::{Error, TableFileCreationReason};
use jni_sys::{jint, jlong, jvalue};

use crate::callee::Callee;
use crate::db::{Database, Kind};
use crate::env::{Env, LongArray, Method, Object, ObjectArray, Outcome};
use crate::files::table_properties;
use crate::handle::{Mut, New, Ref, create, of, take};
use crate::options::AllOptions;
use crate::versions;

const CLASS: &str = "org/rocksdb/AbstractEventListener";

/// The methods of a listener, by the numbers of `EnabledEventCallback`.
const METHODS: [(&str, &str); 22] = [
    ("onFlushCompletedProxy", "(JLorg/rocksdb/FlushJobInfo;)V"),
    ("onFlushBeginProxy", "(JLorg/rocksdb/FlushJobInfo;)V"),
    (
        "onTableFileDeleted",
        "(Lorg/rocksdb/TableFileDeletionInfo;)V",
    ),
    (
        "onCompactionBeginProxy",
        "(JLorg/rocksdb/CompactionJobInfo;)V",
    ),
    (
        "onCompactionCompletedProxy",
        "(JLorg/rocksdb/CompactionJobInfo;)V",
    ),
    (
        "onTableFileCreated",
        "(Lorg/rocksdb/TableFileCreationInfo;)V",
    ),
    (
        "onTableFileCreationStarted",
        "(Lorg/rocksdb/TableFileCreationBriefInfo;)V",
    ),
    ("onMemTableSealed", "(Lorg/rocksdb/MemTableInfo;)V"),
    (
        "onColumnFamilyHandleDeletionStarted",
        "(Lorg/rocksdb/ColumnFamilyHandle;)V",
    ),
    (
        "onExternalFileIngestedProxy",
        "(JLorg/rocksdb/ExternalFileIngestionInfo;)V",
    ),
    ("onBackgroundErrorProxy", "(BLorg/rocksdb/Status;)V"),
    (
        "onStallConditionsChanged",
        "(Lorg/rocksdb/WriteStallInfo;)V",
    ),
    ("onFileReadFinish", "(Lorg/rocksdb/FileOperationInfo;)V"),
    ("onFileWriteFinish", "(Lorg/rocksdb/FileOperationInfo;)V"),
    ("onFileFlushFinish", "(Lorg/rocksdb/FileOperationInfo;)V"),
    ("onFileSyncFinish", "(Lorg/rocksdb/FileOperationInfo;)V"),
    (
        "onFileRangeSyncFinish",
        "(Lorg/rocksdb/FileOperationInfo;)V",
    ),
    ("onFileTruncateFinish", "(Lorg/rocksdb/FileOperationInfo;)V"),
    ("onFileCloseFinish", "(Lorg/rocksdb/FileOperationInfo;)V"),
    ("shouldBeNotifiedOnFileIO", "()Z"),
    ("onErrorRecoveryBeginProxy", "(BLorg/rocksdb/Status;)Z"),
    ("onErrorRecoveryCompleted", "(Lorg/rocksdb/Status;)V"),
];

const FLUSH_COMPLETED: usize = 0;
const FLUSH_BEGIN: usize = 1;
const TABLE_FILE_DELETED: usize = 2;
const COMPACTION_BEGIN: usize = 3;
const COMPACTION_COMPLETED: usize = 4;
const TABLE_FILE_CREATED: usize = 5;
const TABLE_FILE_CREATION_STARTED: usize = 6;
const MEMTABLE_SEALED: usize = 7;
const FAMILY_HANDLE_DELETION_STARTED: usize = 8;
const EXTERNAL_FILE_INGESTED: usize = 9;
const BACKGROUND_ERROR: usize = 10;
const STALL_CONDITIONS_CHANGED: usize = 11;
const FILE_READ_FINISH: usize = 12;
const FILE_WRITE_FINISH: usize = 13;
const FILE_FLUSH_FINISH: usize = 14;
const FILE_SYNC_FINISH: usize = 15;
const FILE_RANGE_SYNC_FINISH: usize = 16;
const FILE_TRUNCATE_FINISH: usize = 17;
const FILE_CLOSE_FINISH: usize = 18;
const SHOULD_BE_NOTIFIED_ON_FILE_IO: usize = 19;
const ERROR_RECOVERY_BEGIN: usize = 20;
const ERROR_RECOVERY_COMPLETED: usize = 21;

/// The object of a listener.
pub struct JavaListener {
    java: Callee,
    /// The methods that the listener enables, by number.
    methods: Vec<Option<Method>>,
}

/// A handle of a listener.
pub type ListenerHandle = Arc<JavaListener>;

pub fn new(env: Env, this: Object, enabled: jlong) -> Outcome<New<ListenerHandle>> {
    let class = env.class(CLASS)?;
    let mut methods = Vec::new();
    for (number, (name, descriptor)) in METHODS.iter().enumerate() {
        methods.push(match enabled >> number & 1 {
            0 => None,
            _ => Some(env.method(class, name, descriptor)?),
        });
    }
    Ok(New(Arc::new(JavaListener {
        java: Callee::new(env, this)?,
        methods,
    })))
}

pub fn destroy(env: Env, handle: jlong) -> Outcome<()> {
    crate::handle::destroy::<ListenerHandle>(env, handle)
}

pub fn set(env: Env, mut options: Mut<AllOptions>, listeners: LongArray) -> Outcome<()> {
    let mut all = Vec::new();
    for listener in env.longs(listeners)? {
        all.push(of::<ListenerHandle>(listener)?.clone());
    }
    options.listeners = all;
    Ok(())
}

/// The Java objects of the listeners.
pub fn get(env: Env, options: Ref<AllOptions>) -> Outcome<ObjectArray> {
    let array = env.object_array(CLASS, options.listeners.len())?;
    for (at, listener) in options.listeners.iter().enumerate() {
        let object = env.local(listener.java.object());
        env.set_element(array, at, object)?;
    }
    Ok(array)
}

impl JavaListener {
    /// Calls the method with this number, if the listener enables it.
    fn notify(&self, number: usize, arguments: impl FnOnce(Env) -> Outcome<Vec<jvalue>>) {
        if let Some(method) = self.methods[number] {
            self.java.notify(METHODS[number].0, |env| {
                let arguments = arguments(env)?;
                env.call_void(self.java.object(), method, &arguments)
            });
        }
    }

    /// The same for a method that returns a boolean; `None` if it is not enabled or throws.
    fn ask(
        &self,
        number: usize,
        arguments: impl FnOnce(Env) -> Outcome<Vec<jvalue>>,
    ) -> Option<bool> {
        let method = self.methods[number]?;
        self.java.notify(METHODS[number].0, |env| {
            let arguments = arguments(env)?;
            env.call_bool(self.java.object(), method, &arguments)
        })
    }
}

/// The handle that the listeners of a database pass to Java: a database without transactions, which belongs to the
/// object of the database. 0 while the database is being opened.
#[derive(Default)]
pub struct Slot(Arc<AtomicI64>);

/// The listeners of open databases, for the release of handles of column families.
static OPEN: Mutex<Vec<Open>> = Mutex::new(Vec::new());

/// A listener of an open database.
struct Open {
    /// The address of the handle in the slot of the database.
    slot: usize,
    path: PathBuf,
    listener: ListenerHandle,
}

impl Slot {
    /// The options of a database that is opened with `all`: its listeners are bound to the database.
    pub fn bind(&self, all: &AllOptions) -> DbOptions {
        let bound = all.listeners.iter().map(|listener| {
            Arc::new(Bound {
                listener: listener.clone(),
                db: self.0.clone(),
            }) as Arc<dyn EventListener>
        });
        DbOptions {
            listeners: Listeners::new(bound.collect()),
            ..all.db.clone()
        }
    }

    /// Sets the handle, if there are listeners.
    pub fn fill(&self, db: &Db, all: &AllOptions) {
        if all.listeners.is_empty() {
            return;
        }
        let plain = Database::new(
            db.clone(),
            Kind::Plain,
            &AllOptions::default(),
            Slot::default(),
        );
        self.0.store(create(plain), Ordering::Release);
        let listeners = all.listeners.iter().map(|listener| Open {
            slot: self.id(),
            path: db.path().to_owned(),
            listener: listener.clone(),
        });
        OPEN.lock().extend(listeners);
    }

    fn id(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let handle = self.0.swap(0, Ordering::AcqRel);
        if handle != 0 {
            let id = self.id();
            OPEN.lock().retain(|open| open.slot != id);
            // Created by `fill`. The database is closed, so that no listener runs.
            drop(take::<Database>(handle));
        }
    }
}

/// Notifies the listeners of a database that a handle of `family` is about to be released.
pub fn family_handle_closing(family: &Family, handle: jlong) {
    let path = family.db_path();
    let open = OPEN.lock();
    let mine = open.iter().filter(|open| open.path == path);
    let listeners: Vec<ListenerHandle> = mine.map(|open| open.listener.clone()).collect();
    // A listener may open or close a database.
    drop(open);
    for listener in listeners {
        handle_closing(&listener, handle);
    }
}

/// Notifies a listener that a handle of a family is about to be released.
pub fn handle_closing(listener: &JavaListener, handle: jlong) {
    listener.notify(FAMILY_HANDLE_DELETION_STARTED, |env| {
        let arguments = [jvalue { j: handle }];
        let object = env.create("org/rocksdb/ColumnFamilyHandle", "(J)V", &arguments)?;
        Ok(vec![jvalue { l: object.0 }])
    });
}

/// A listener that belongs to no database.
pub fn unbound(listener: &ListenerHandle) -> impl EventListener {
    Bound {
        listener: listener.clone(),
        db: Arc::default(),
    }
}

/// A listener of one database.
struct Bound {
    listener: ListenerHandle,
    db: Arc<AtomicI64>,
}

impl Bound {
    /// The handle of the database as an argument.
    fn db(&self) -> jvalue {
        jvalue {
            j: self.db.load(Ordering::Acquire),
        }
    }

    fn flush(&self, number: usize, info: &FlushJobInfo) {
        self.listener.notify(number, |env| {
            let info = flush_job_info(env, info)?;
            Ok(vec![self.db(), jvalue { l: info.0 }])
        });
    }

    fn compaction(&self, number: usize, info: &CompactionJobInfo) {
        if self.listener.methods[number].is_none() {
            return;
        }
        // Valid until the method returns.
        let handle = create(info.clone());
        self.listener.notify(number, |env| {
            let arguments = [jvalue { j: handle }];
            let info = env.create("org/rocksdb/CompactionJobInfo", "(J)V", &arguments)?;
            Ok(vec![self.db(), jvalue { l: info.0 }])
        });
        drop(take::<CompactionJobInfo>(handle));
    }

    fn file(&self, number: usize, info: &FileOperationInfo<'_>) {
        self.listener.notify(number, |env| {
            let path = env.string_of_path(info.path)?;
            let status = env.status(info.error)?;
            let info = env.create(
                "org/rocksdb/FileOperationInfo",
                "(Ljava/lang/String;JJJJLorg/rocksdb/Status;)V",
                &[
                    jvalue { l: path.0 },
                    jvalue {
                        j: info.offset as jlong,
                    },
                    jvalue {
                        j: info.length as jlong,
                    },
                    jvalue {
                        j: info.start_micros.saturating_mul(1_000) as jlong,
                    },
                    jvalue {
                        j: info.duration.as_nanos() as jlong,
                    },
                    jvalue { l: status.0 },
                ],
            )?;
            Ok(vec![jvalue { l: info.0 }])
        });
    }
}

impl EventListener for Bound {
    fn name(&self) -> &str {
        "AbstractEventListener"
    }
    fn on_flush_begin(&self, info: &FlushJobInfo) {
        self.flush(FLUSH_BEGIN, info);
    }
    fn on_flush_completed(&self, info: &FlushJobInfo) {
        self.flush(FLUSH_COMPLETED, info);
    }
    fn on_compaction_begin(&self, info: &CompactionJobInfo) {
        self.compaction(COMPACTION_BEGIN, info);
    }
    fn on_compaction_completed(&self, info: &CompactionJobInfo) {
        self.compaction(COMPACTION_COMPLETED, info);
    }
    fn on_table_file_creation_started(&self, info: &FileCreationBriefInfo) {
        self.listener.notify(TABLE_FILE_CREATION_STARTED, |env| {
            let created = env.create(
                "org/rocksdb/TableFileCreationBriefInfo",
                "(Ljava/lang/String;Ljava/lang/String;Ljava/lang/String;IB)V",
                &brief(env, info)?,
            )?;
            Ok(vec![jvalue { l: created.0 }])
        });
    }
    fn on_table_file_created(&self, info: &TableFileCreationInfo) {
        self.listener.notify(TABLE_FILE_CREATED, |env| {
            let mut arguments = vec![
                jvalue {
                    j: info.file_size as jlong,
                },
                jvalue {
                    l: table_properties(env, &info.table_properties)?.0,
                },
                jvalue {
                    l: env.status(info.status.as_ref())?.0,
                },
            ];
            arguments.extend(brief(env, &info.brief)?);
            let created = env.create(
                "org/rocksdb/TableFileCreationInfo",
                "(JLorg/rocksdb/TableProperties;Lorg/rocksdb/Status;Ljava/lang/String;Ljava/lang/String;\
                 Ljava/lang/String;IB)V",
                &arguments,
            )?;
            Ok(vec![jvalue { l: created.0 }])
        });
    }
    fn on_table_file_deleted(&self, info: &FileDeletionInfo) {
        self.listener.notify(TABLE_FILE_DELETED, |env| {
            let created = env.create(
                "org/rocksdb/TableFileDeletionInfo",
                "(Ljava/lang/String;Ljava/lang/String;ILorg/rocksdb/Status;)V",
                &[
                    text(env, &info.db_name)?,
                    text(env, &info.file_path)?,
                    jvalue {
                        i: info.job_id as jint,
                    },
                    jvalue {
                        l: env.status(info.status.as_ref())?.0,
                    },
                ],
            )?;
            Ok(vec![jvalue { l: created.0 }])
        });
    }
    fn on_memtable_sealed(&self, info: &MemTableInfo) {
        self.listener.notify(MEMTABLE_SEALED, |env| {
            let numbers = [
                info.first_seqno.0,
                info.earliest_seqno.0,
                info.num_entries,
                info.num_deletes,
            ];
            let mut arguments = vec![text(env, &info.family_name)?];
            arguments.extend(numbers.map(|number| jvalue { j: number as jlong }));
            let created = env.create(
                "org/rocksdb/MemTableInfo",
                "(Ljava/lang/String;JJJJ)V",
                &arguments,
            )?;
            Ok(vec![jvalue { l: created.0 }])
        });
    }
    fn on_external_file_ingested(&self, info: &ExternalFileIngestionInfo) {
        self.listener.notify(EXTERNAL_FILE_INGESTED, |env| {
            let created = env.create(
                "org/rocksdb/ExternalFileIngestionInfo",
                "(Ljava/lang/String;Ljava/lang/String;Ljava/lang/String;JLorg/rocksdb/TableProperties;)V",
                &[
                    text(env, &info.family_name)?,
                    text(env, &info.external_file_path)?,
                    text(env, &info.internal_file_path)?,
                    jvalue {
                        j: info.global_seqno.0 as jlong,
                    },
                    jvalue {
                        l: table_properties(env, &info.table_properties)?.0,
                    },
                ],
            )?;
            Ok(vec![self.db(), jvalue { l: created.0 }])
        });
    }
    fn on_background_error(&self, reason: BackgroundErrorReason, error: &mut Option<Error>) {
        // As in RocksJava, a listener cannot suppress the error.
        let error = error.clone();
        self.listener.notify(BACKGROUND_ERROR, |env| {
            let status = env.status(error.as_ref())?;
            Ok(vec![error_reason(reason), jvalue { l: status.0 }])
        });
    }
    fn on_error_recovery_begin(
        &self,
        reason: BackgroundErrorReason,
        error: &Error,
        auto_recovery: &mut bool,
    ) {
        let answer = self.listener.ask(ERROR_RECOVERY_BEGIN, |env| {
            let status = env.status(Some(error))?;
            Ok(vec![error_reason(reason), jvalue { l: status.0 }])
        });
        *auto_recovery &= answer.unwrap_or(true);
    }
    fn on_error_recovery_end(&self, info: &BackgroundErrorRecoveryInfo) {
        if info.new_error.is_some() {
            return;
        }
        self.listener.notify(ERROR_RECOVERY_COMPLETED, |env| {
            let status = env.status(info.old_error.as_ref())?;
            Ok(vec![jvalue { l: status.0 }])
        });
    }
    fn on_stall_conditions_changed(&self, info: &WriteStallInfo) {
        self.listener.notify(STALL_CONDITIONS_CHANGED, |env| {
            let created = env.create(
                "org/rocksdb/WriteStallInfo",
                "(Ljava/lang/String;BB)V",
                &[
                    text(env, &info.family_name)?,
                    jvalue {
                        b: versions::stall_number(info.current),
                    },
                    jvalue {
                        b: versions::stall_number(info.previous),
                    },
                ],
            )?;
            Ok(vec![jvalue { l: created.0 }])
        });
    }
    fn should_be_notified_on_file_io(&self) -> bool {
        let answer = self
            .listener
            .ask(SHOULD_BE_NOTIFIED_ON_FILE_IO, |_| Ok(Vec::new()));
        answer.unwrap_or(false)
    }
    fn on_file_read_finish(&self, info: &FileOperationInfo<'_>) {
        self.file(FILE_READ_FINISH, info);
    }
    fn on_file_write_finish(&self, info: &FileOperationInfo<'_>) {
        self.file(FILE_WRITE_FINISH, info);
    }
    fn on_file_flush_finish(&self, info: &FileOperationInfo<'_>) {
        self.file(FILE_FLUSH_FINISH, info);
    }
    fn on_file_sync_finish(&self, info: &FileOperationInfo<'_>) {
        self.file(FILE_SYNC_FINISH, info);
    }
    fn on_file_range_sync_finish(&self, info: &FileOperationInfo<'_>) {
        self.file(FILE_RANGE_SYNC_FINISH, info);
    }
    fn on_file_truncate_finish(&self, info: &FileOperationInfo<'_>) {
        self.file(FILE_TRUNCATE_FINISH, info);
    }
    fn on_file_close_finish(&self, info: &FileOperationInfo<'_>) {
        self.file(FILE_CLOSE_FINISH, info);
    }
}

fn text(env: Env, text: &str) -> Outcome<jvalue> {
    Ok(jvalue {
        l: env.string(text)?.0,
    })
}

/// The number of a reason in Java, which has the first four. The others concern the MANIFEST and the opening of files.
fn error_reason(reason: BackgroundErrorReason) -> jvalue {
    jvalue {
        b: match reason {
            BackgroundErrorReason::Compaction => 1,
            BackgroundErrorReason::WriteCallback => 2,
            BackgroundErrorReason::MemTable => 3,
            _ => 0,
        },
    }
}

/// The arguments of `TableFileCreationBriefInfo`.
fn brief(env: Env, info: &FileCreationBriefInfo) -> Outcome<Vec<jvalue>> {
    Ok(vec![
        text(env, &info.db_name)?,
        text(env, &info.family_name)?,
        text(env, &info.file_path)?,
        jvalue {
            i: info.job_id as jint,
        },
        jvalue {
            b: match info.reason {
                Some(TableFileCreationReason::Flush) => 0,
                Some(TableFileCreationReason::Compaction) => 1,
                Some(TableFileCreationReason::Recovery) => 2,
                _ => 3,
            },
        },
    ])
}

fn flush_job_info(env: Env, info: &FlushJobInfo) -> Outcome<Object> {
    let none = Properties::default();
    let properties = info.table_properties.as_deref().unwrap_or(&none);
    // Java has no number for a flush because of range deletions.
    let reason = match info.flush_reason {
        FlushReason::MemtableMaxRangeDeletions => FlushReason::Others,
        reason => reason,
    };
    env.create(
        "org/rocksdb/FlushJobInfo",
        "(JLjava/lang/String;Ljava/lang/String;JIZZJJLorg/rocksdb/TableProperties;B)V",
        &[
            jvalue {
                j: jlong::from(info.family_id),
            },
            text(env, &info.family_name)?,
            text(env, &info.file_path)?,
            jvalue {
                j: info.thread_id as jlong,
            },
            jvalue {
                i: info.job_id as jint,
            },
            jvalue {
                z: info.triggered_writes_slowdown,
            },
            jvalue {
                z: info.triggered_writes_stop,
            },
            jvalue {
                j: info.smallest_seqno.0 as jlong,
            },
            jvalue {
                j: info.largest_seqno.0 as jlong,
            },
            jvalue {
                l: table_properties(env, properties)?.0,
            },
            jvalue {
                b: reason.number() as i8,
            },
        ],
    )
}
