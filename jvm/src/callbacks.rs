//! Java objects that the engine calls: comparators, compaction filters, table filters, loggers.
//!
//! A callback runs on any thread, which is attached to the virtual machine on its first call. An exception in a
//! callback is cleared and written to the standard error stream; the entry or table is then kept, and keys are
//! compared bytewise.

use std::cmp::Ordering;
use std::sync::Arc;
use std::sync::atomic::{AtomicI8, AtomicI64, AtomicU64, Ordering::Relaxed};

use cairn_observe::Level;
use cairn_observe::LogSink;
use cairn_options::{Plugin, TableFilter};
use cairn_platform::sync::Mutex;
use cairn_types::{
    CompactionFilter, CompactionFilterFactory, Comparator, FilterContext, FilterDecision,
    FilterValue, KeyOrder,
};
use jni_sys::{jint, jlong, jvalue};

use crate::env::{Env, Global, JString, Method, Object, Outcome, attached};
use crate::handle::{Mut, New, Ref, take};
use crate::options::{AllOptions, ReadOptions};

/// Calls Java; returns `None` without a virtual machine or after an exception.
fn java<T>(name: &str, work: impl FnOnce(Env) -> Outcome<T>) -> Option<T> {
    attached(|env| {
        env.frame(|| work(env))
            .inspect_err(|_| report(env, name))
            .ok()
    })
    .flatten()
}

#[cold]
fn report(env: Env, name: &str) {
    eprintln!("librocksdbjni (Cairn): {name}: {}", env.take_exception());
}

/// The options of a Java comparator. Buffers are not reused, so the options that size them have no effect.
#[derive(Clone)]
pub struct ComparatorOptions {
    /// The number of `ReusedSynchronisationType`.
    pub reused_synchronisation: i8,
    /// True if keys are passed as direct buffers.
    pub use_direct_buffer: bool,
    /// The maximum size of reused buffers.
    pub max_reused_buffer_size: i32,
}

pub fn new_comparator_options(_env: Env) -> New<ComparatorOptions> {
    New(ComparatorOptions {
        reused_synchronisation: 1,
        use_direct_buffer: true,
        max_reused_buffer_size: 64,
    })
}

pub fn destroy_comparator_options(env: Env, handle: jlong) -> Outcome<()> {
    crate::handle::destroy::<ComparatorOptions>(env, handle)
}

struct JavaComparator {
    object: Global,
    name: String,
    bridge: Global,
    compare: Method,
    separator: Method,
    successor: Method,
    wrap: Option<(Global, Method)>,
}

impl JavaComparator {
    fn buffer(&self, env: Env, key: &[u8]) -> Outcome<Object> {
        match &self.wrap {
            None => env.direct_buffer(key.as_ptr().cast_mut(), key.len()),
            Some((class, wrap)) => {
                let array = env.byte_array(key)?;
                env.call_static_object(class.object(), *wrap, &[jvalue { l: array.0 }])
            }
        }
    }
}

impl Comparator for JavaComparator {
    fn name(&self) -> &str {
        &self.name
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        let order = java(&self.name, |env| {
            let (a, b) = (self.buffer(env, a)?, self.buffer(env, b)?);
            env.call_static_int(
                self.bridge.object(),
                self.compare,
                &[
                    jvalue {
                        l: self.object.object().0,
                    },
                    jvalue { l: a.0 },
                    jvalue { i: -1 },
                    jvalue { l: b.0 },
                    jvalue { i: -1 },
                ],
            )
        });
        order.map_or_else(|| a.cmp(b), |order| order.cmp(&0))
    }

    fn shorten_separator(&self, start: &mut Vec<u8>, limit: &[u8]) {
        let mut copy = start.clone();
        let len = java(&self.name, |env| {
            // A direct buffer, because Java writes to it.
            let from = env.direct_buffer(copy.as_mut_ptr(), copy.len())?;
            let limit = self.buffer(env, limit)?;
            env.call_static_int(
                self.bridge.object(),
                self.separator,
                &[
                    jvalue {
                        l: self.object.object().0,
                    },
                    jvalue { l: from.0 },
                    jvalue { i: -1 },
                    jvalue { l: limit.0 },
                    jvalue { i: -1 },
                ],
            )
        });
        self.take_shorter(start, copy, len, limit);
    }

    fn shorten_successor(&self, key: &mut Vec<u8>) {
        let mut copy = key.clone();
        let len = java(&self.name, |env| {
            let from = env.direct_buffer(copy.as_mut_ptr(), copy.len())?;
            env.call_static_int(
                self.bridge.object(),
                self.successor,
                &[
                    jvalue {
                        l: self.object.object().0,
                    },
                    jvalue { l: from.0 },
                    jvalue { i: -1 },
                ],
            )
        });
        if let Some(len) = len
            .and_then(|len| usize::try_from(len).ok())
            .filter(|len| *len <= copy.len())
        {
            copy.truncate(len);
            // Only a key at or after the old one is a successor.
            if self.compare(&copy, key) != Ordering::Less {
                *key = copy;
            }
        }
    }
}

impl JavaComparator {
    /// Takes over a shorter separator if it is in `[start, limit)`.
    fn take_shorter(
        &self,
        start: &mut Vec<u8>,
        mut copy: Vec<u8>,
        len: Option<jint>,
        limit: &[u8],
    ) {
        let len = len.and_then(|len| usize::try_from(len).ok());
        let Some(len) = len.filter(|len| *len <= copy.len()) else {
            return;
        };
        copy.truncate(len);
        let in_range = self.compare(&copy, start) != Ordering::Less
            && self.compare(&copy, limit) == Ordering::Less;
        if in_range {
            *start = copy;
        }
    }
}

pub fn new_comparator(
    env: Env,
    this: Object,
    options: Ref<ComparatorOptions>,
) -> Outcome<New<KeyOrder>> {
    let name = env.method_of(this, "name", "()Ljava/lang/String;")?;
    let name = env.text(JString(env.call_object(this, name, &[])?.0))?;
    let bridge = Object(env.class("org/rocksdb/AbstractComparatorJniBridge")?);
    let buffer = "Ljava/nio/ByteBuffer;I";
    let method = |name, arguments: &str| {
        env.static_method(
            bridge.0,
            name,
            &format!("(Lorg/rocksdb/AbstractComparator;{arguments})I"),
        )
    };
    let two = format!("{buffer}{buffer}");
    let wrap = match options.use_direct_buffer {
        true => None,
        false => {
            let class = Object(env.class("java/nio/ByteBuffer")?);
            let wrap = env.static_method(class.0, "wrap", "([B)Ljava/nio/ByteBuffer;")?;
            Some((env.global(class), wrap))
        }
    };
    Ok(New(KeyOrder::Custom(Arc::new(JavaComparator {
        object: env.global(this),
        name,
        compare: method("compareInternal", &two)?,
        separator: method("findShortestSeparatorInternal", &two)?,
        successor: method("findShortSuccessorInternal", buffer)?,
        bridge: env.global(bridge),
        wrap,
    }))))
}

pub fn uses_direct_buffers(_env: Env, order: Ref<KeyOrder>) -> bool {
    // A comparator with heap buffers says so in its options, which the Java class no longer has.
    !matches!(&*order, KeyOrder::Custom(comparator) if comparator.name().is_empty())
}

/// A handle of a compaction filter: Java, or the factory that created it, owns it.
pub type FilterHandle = Arc<dyn CompactionFilter>;

struct RemoveEmptyValues;

impl CompactionFilter for RemoveEmptyValues {
    fn name(&self) -> &str {
        "RemoveEmptyValueCompactionFilter"
    }

    fn filter(&self, _level: usize, _key: &[u8], value: FilterValue<'_>) -> FilterDecision {
        match value {
            FilterValue::Value([]) => FilterDecision::Remove,
            _ => FilterDecision::Keep,
        }
    }
}

pub fn remove_empty_values(_env: Env) -> New<FilterHandle> {
    New(Arc::new(RemoveEmptyValues))
}

pub fn set_filter(_env: Env, mut options: Mut<AllOptions>, filter: Ref<FilterHandle>) {
    options.family.compaction_filter = Plugin::Object(filter.clone());
}

/// A handle of a factory of compaction filters.
pub type FactoryHandle = Arc<dyn CompactionFilterFactory>;

struct JavaFactory {
    object: Global,
    name: String,
    create: Method,
}

impl CompactionFilterFactory for JavaFactory {
    fn name(&self) -> &str {
        &self.name
    }

    fn create(&self, context: &FilterContext) -> Option<FilterHandle> {
        let arguments = [
            jvalue {
                z: context.is_full_compaction,
            },
            jvalue {
                z: context.is_manual_compaction,
            },
        ];
        let handle = java(&self.name, |env| {
            env.call_long(self.object.object(), self.create, &arguments)
        })?;
        // The Java object has given the handle up.
        take::<FilterHandle>(handle).ok()
    }
}

pub fn new_factory(env: Env, this: Object) -> Outcome<New<FactoryHandle>> {
    let name = env.method_of(this, "name", "()Ljava/lang/String;")?;
    let name = env.text(JString(env.call_object(this, name, &[])?.0))?;
    Ok(New(Arc::new(JavaFactory {
        name,
        create: env.method_of(this, "createCompactionFilter", "(ZZ)J")?,
        object: env.global(this),
    })))
}

pub fn set_factory(_env: Env, mut options: Mut<AllOptions>, factory: Ref<FactoryHandle>) {
    options.family.compaction_filter_factory = Plugin::Object(factory.clone());
}

pub fn destroy_factory(env: Env, handle: jlong) -> Outcome<()> {
    crate::handle::destroy::<FactoryHandle>(env, handle)
}

struct JavaTableFilter {
    object: Global,
    filter: Method,
}

pub fn new_table_filter(env: Env, this: Object) -> Outcome<New<TableFilter>> {
    let filter = JavaTableFilter {
        filter: env.method_of(this, "filter", "(Lorg/rocksdb/TableProperties;)Z")?,
        object: env.global(this),
    };
    Ok(New(TableFilter::new(move |properties| {
        let chosen = java("TableFilter", |env| {
            let properties = crate::files::table_properties(env, properties)?;
            env.call_bool(
                filter.object.object(),
                filter.filter,
                &[jvalue { l: properties.0 }],
            )
        });
        chosen.unwrap_or(true)
    })))
}

pub fn set_table_filter(_env: Env, mut options: Mut<ReadOptions>, filter: Ref<TableFilter>) {
    options.options.table_filter = filter.clone();
}

/// The object of a logger.
pub struct Logger {
    level: AtomicI8,
    java: Option<(Global, Method)>,
    prefix: String,
}

/// A handle of a logger.
pub type LoggerHandle = Arc<Logger>;

fn level_of(number: i8) -> Level {
    match number {
        0 => Level::Debug,
        1 => Level::Info,
        2 => Level::Warn,
        3 => Level::Error,
        4 => Level::Fatal,
        _ => Level::Header,
    }
}

impl LogSink for Logger {
    fn log(&self, level: Level, message: &str) {
        // RocksJava passes no headers on. The level may have changed since the engine compared it.
        if level == Level::Header || (level as i8) < self.level.load(Relaxed) {
            return;
        }
        let Some((object, log)) = &self.java else {
            eprintln!("{}{message}", self.prefix);
            return;
        };
        let name = match level {
            Level::Debug => "DEBUG_LEVEL",
            Level::Info => "INFO_LEVEL",
            Level::Warn => "WARN_LEVEL",
            Level::Error => "ERROR_LEVEL",
            _ => "FATAL_LEVEL",
        };
        java("Logger", |env| {
            let level = env.constant(
                "org/rocksdb/InfoLogLevel",
                name,
                "Lorg/rocksdb/InfoLogLevel;",
            )?;
            let message = env.string(message)?;
            env.call_void(
                object.object(),
                *log,
                &[jvalue { l: level.0 }, jvalue { l: message.0 }],
            )
        });
    }

    fn level(&self) -> Level {
        level_of(self.level.load(Relaxed))
    }
}

pub fn new_logger(env: Env, this: Object, level: jlong) -> Outcome<New<LoggerHandle>> {
    let log = env.method_of(
        this,
        "log",
        "(Lorg/rocksdb/InfoLogLevel;Ljava/lang/String;)V",
    )?;
    Ok(New(Arc::new(Logger {
        level: AtomicI8::new(level as i8),
        java: Some((env.global(this), log)),
        prefix: String::new(),
    })))
}

/// The constructor of release 8.10, which takes the level from options.
pub fn new_logger_of(
    env: Env,
    this: Object,
    options: Ref<AllOptions>,
) -> Outcome<New<LoggerHandle>> {
    let level: i8 = crate::scalar::get(&options.db.info_log_level)?;
    new_logger(env, this, jlong::from(level))
}

pub fn new_stderr_logger(env: Env, level: i8, prefix: JString) -> Outcome<New<LoggerHandle>> {
    let prefix = match prefix.is_null() {
        true => String::new(),
        false => env.text(prefix)?,
    };
    Ok(New(Arc::new(Logger {
        level: AtomicI8::new(level),
        java: None,
        prefix,
    })))
}

pub fn set_log_level(_env: Env, logger: Ref<LoggerHandle>, level: i8) {
    logger.level.store(level, Relaxed);
}

pub fn log_level(_env: Env, logger: Ref<LoggerHandle>) -> i8 {
    logger.level.load(Relaxed)
}

pub fn set_logger(_env: Env, mut options: Mut<AllOptions>, logger: Ref<LoggerHandle>, _kind: i8) {
    options.db.info_log = Some(logger.clone());
}

pub fn set_logger_8(env: Env, options: Mut<AllOptions>, logger: Ref<LoggerHandle>) {
    set_logger(env, options, logger, 1);
}

pub fn destroy_logger(env: Env, handle: jlong) -> Outcome<()> {
    crate::handle::destroy::<LoggerHandle>(env, handle)
}

/// The kind of Flink's state.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FlinkState {
    Value,
    List,
}

/// The configuration of Flink's filter, set once, when the type of the state is known.
struct FlinkConfig {
    state: FlinkState,
    timestamp_offset: usize,
    ttl: i64,
    query_time_after: u64,
    fixed_element_len: Option<usize>,
    elements: Option<(Global, Method)>,
}

/// The object that Flink's filters of a state share with Java.
#[derive(Default)]
pub struct FlinkHolder(Mutex<Option<Arc<FlinkConfig>>>);

/// Flink's filter of expired state: values begin with, or lists consist of elements that begin with, the time of their
/// last access in big-endian milliseconds.
struct FlinkFilter {
    holder: Arc<FlinkHolder>,
    time: Global,
    current_time: Method,
    /// Entries since the time was last queried.
    entries: AtomicU64,
    now: AtomicI64,
}

const TIMESTAMP_LEN: usize = 8;

fn is_expired(value: &[u8], at: usize, ttl: i64, now: i64) -> bool {
    let Some(bytes) = value
        .get(at..at + TIMESTAMP_LEN)
        .and_then(|bytes| bytes.try_into().ok())
    else {
        return false;
    };
    i64::from_be_bytes(bytes).saturating_add(ttl) <= now
}

impl FlinkFilter {
    fn now(&self, config: &FlinkConfig) -> i64 {
        let entries = self.entries.fetch_add(1, Relaxed);
        if entries == 0 || entries >= config.query_time_after {
            self.entries.store(1, Relaxed);
            let time = java("TimeProvider", |env| {
                env.call_long(self.time.object(), self.current_time, &[])
            });
            self.now.store(time.unwrap_or(i64::MIN), Relaxed);
        }
        self.now.load(Relaxed)
    }

    /// The offset of the first element of a list that has not expired.
    fn first_unexpired(&self, config: &FlinkConfig, list: &[u8], now: i64) -> usize {
        if let Some(len) = config.fixed_element_len {
            let starts = (0..list.len()).step_by(len.max(1));
            let mut alive = starts
                .filter(|at| !is_expired(list, at + config.timestamp_offset, config.ttl, now));
            return alive.next().unwrap_or(list.len());
        }
        let Some((factory, create)) = &config.elements else {
            return 0;
        };
        let found = java("ListElementFilter", |env| {
            let filter = env.call_object(factory.object(), *create, &[])?;
            let next = env.method_of(filter, "nextUnexpiredOffset", "([BJJ)I")?;
            let array = env.byte_array(list)?;
            env.call_int(
                filter,
                next,
                &[
                    jvalue { l: array.0 },
                    jvalue { j: config.ttl },
                    jvalue { j: now },
                ],
            )
        });
        found.and_then(|at| usize::try_from(at).ok()).unwrap_or(0)
    }
}

impl CompactionFilter for FlinkFilter {
    fn name(&self) -> &str {
        "FlinkCompactionFilter"
    }

    fn filter(&self, _level: usize, _key: &[u8], value: FilterValue<'_>) -> FilterDecision {
        let Some(config) = self.holder.0.lock().clone() else {
            return FilterDecision::Keep;
        };
        let (bytes, is_value) = match value {
            FilterValue::Value(bytes) => (bytes, true),
            FilterValue::MergeOperand(bytes) => (bytes, false),
            FilterValue::Entity(_) => return FilterDecision::Keep,
        };
        if bytes.len() < config.timestamp_offset + TIMESTAMP_LEN
            || (config.state == FlinkState::Value && !is_value)
        {
            return FilterDecision::Keep;
        }
        let now = self.now(&config);
        if !is_expired(bytes, config.timestamp_offset, config.ttl, now) {
            return FilterDecision::Keep;
        }
        let is_filtered_list = config.state == FlinkState::List
            && (config.fixed_element_len.is_some() || config.elements.is_some());
        if !is_filtered_list {
            return FilterDecision::Remove;
        }
        match self.first_unexpired(&config, bytes, now) {
            0 => FilterDecision::Keep,
            at if at >= bytes.len() => FilterDecision::Remove,
            at => FilterDecision::ChangeValue(bytes[at..].to_vec()),
        }
    }
}

pub fn new_flink_holder(_env: Env) -> New<Arc<FlinkHolder>> {
    New(Arc::new(FlinkHolder::default()))
}

pub fn destroy_flink_holder(env: Env, handle: jlong) -> Outcome<()> {
    crate::handle::destroy::<Arc<FlinkHolder>>(env, handle)
}

pub fn new_flink_filter(
    env: Env,
    holder: Ref<Arc<FlinkHolder>>,
    time: Object,
    _logger: jlong,
) -> Outcome<New<FilterHandle>> {
    Ok(New(Arc::new(FlinkFilter {
        holder: holder.clone(),
        current_time: env.method_of(time, "currentTimestamp", "()J")?,
        time: env.global(time),
        entries: AtomicU64::new(0),
        now: AtomicI64::new(i64::MIN),
    })))
}

/// Configures the filters of a state; returns false if they are configured already.
pub fn configure_flink(
    env: Env,
    holder: Ref<Arc<FlinkHolder>>,
    state: jint,
    timestamp_offset: jint,
    ttl: jlong,
    query_time_after: jlong,
    fixed_element_len: jint,
    elements: Object,
) -> Outcome<bool> {
    let state = match state {
        1 => FlinkState::Value,
        2 => FlinkState::List,
        // Disabled.
        _ => return Ok(holder.0.0.lock().is_none()),
    };
    let elements = match elements.is_null() {
        true => None,
        false => {
            let create = env.method_of(
                elements,
                "createListElementFilter",
                "()Lorg/rocksdb/FlinkCompactionFilter$ListElementFilter;",
            )?;
            Some((env.global(elements), create))
        }
    };
    let config = FlinkConfig {
        state,
        timestamp_offset: usize::try_from(timestamp_offset).unwrap_or(0),
        ttl,
        query_time_after: u64::try_from(query_time_after).unwrap_or(0),
        fixed_element_len: usize::try_from(fixed_element_len)
            .ok()
            .filter(|len| *len > 0),
        elements,
    };
    let mut slot = holder.0.0.lock();
    match slot.is_some() {
        true => Ok(false),
        false => {
            *slot = Some(Arc::new(config));
            Ok(true)
        }
    }
}

pub fn destroy_any(_env: Env, handle: jlong) -> Outcome<()> {
    crate::handle::destroy_any(handle)
}
