//! Java objects that the engine calls: comparators, compaction filters, table filters, loggers.
//!
//! A callback runs on any thread, which is attached to the virtual machine on its first call. An exception in a
//! callback fails the operation or job ([`Callee::call`]); one in a logger is written to the standard error stream.

use std::cmp::Ordering;
use std::ops::Deref;
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

use crate::callee::Callee;
use crate::env::{ByteArray, Env, Global, JString, Method, Object, Outcome};
use crate::handle::{Mut, New, Ref, take};
use crate::options::{AllOptions, ReadOptions};

/// The options of a Java comparator.
#[derive(Clone)]
pub struct ComparatorOptions {
    /// The number of `ReusedSynchronisationType`. Every type has the same effect: concurrent comparisons use
    /// different buffers.
    pub reused_synchronisation: i8,
    /// True if keys are passed as direct buffers.
    pub use_direct_buffer: bool,
    /// The length of the longest key that is passed in a reused buffer; negative for none.
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

/// A buffer that is reused, and the array of a heap buffer.
struct Reused {
    buffer: Global,
    memory: Memory,
}

/// The memory of a reused buffer.
enum Memory {
    /// That of a direct buffer.
    Direct(Box<[u8]>),
    /// The array of a heap buffer.
    Heap(Global),
}

/// The object of a comparator.
pub struct ComparatorHandle {
    pub order: KeyOrder,
    /// True if keys are passed to it as direct buffers.
    pub uses_direct_buffers: bool,
}

impl Deref for ComparatorHandle {
    type Target = KeyOrder;

    fn deref(&self) -> &KeyOrder {
        &self.order
    }
}

struct JavaComparator {
    java: Callee,
    name: String,
    bridge: Global,
    compare: Method,
    separator: Method,
    successor: Method,
    /// The class and method that wrap arrays as buffers, for heap buffers.
    wrap: Option<(Global, Method)>,
    /// The length of the longest key in a reused buffer.
    longest: Option<usize>,
    /// Pairs of buffers that no comparison uses: at most as many as comparisons that ran at the same time.
    pairs: Mutex<Vec<[Reused; 2]>>,
}

impl JavaComparator {
    fn wrapped(&self, env: Env, array: ByteArray) -> Outcome<Object> {
        let (class, wrap) = self.wrap.as_ref().expect("the buffers are on the heap");
        env.call_static_object(class.object(), *wrap, &[jvalue { l: array.0 }])
    }

    fn buffer(&self, env: Env, key: &[u8]) -> Outcome<Object> {
        match &self.wrap {
            None => env.direct_buffer(key.as_ptr().cast_mut(), key.len()),
            Some(_) => self.wrapped(env, env.byte_array(key)?),
        }
    }

    fn new_reused(&self, env: Env, len: usize) -> Outcome<Reused> {
        let mut memory = vec![0; len].into_boxed_slice();
        Ok(match &self.wrap {
            None => Reused {
                buffer: env.global(env.direct_buffer(memory.as_mut_ptr(), len)?),
                memory: Memory::Direct(memory),
            },
            Some(_) => {
                let array = env.byte_array(&memory)?;
                Reused {
                    buffer: env.global(self.wrapped(env, array)?),
                    memory: Memory::Heap(env.global(Object(array.0))),
                }
            }
        })
    }

    /// A pair of buffers for keys `a` and `b`, if they fit.
    fn pair(&self, env: Env, a: &[u8], b: &[u8]) -> Outcome<Option<[Reused; 2]>> {
        let Some(longest) = self
            .longest
            .filter(|longest| a.len().max(b.len()) <= *longest)
        else {
            return Ok(None);
        };
        let free = self.pairs.lock().pop();
        let mut pair = match free {
            Some(pair) => pair,
            None => [
                self.new_reused(env, longest)?,
                self.new_reused(env, longest)?,
            ],
        };
        for (reused, key) in pair.iter_mut().zip([a, b]) {
            match &mut reused.memory {
                Memory::Direct(memory) => memory[..key.len()].copy_from_slice(key),
                Memory::Heap(array) => {
                    let len = crate::env::size(key.len())?;
                    env.fill_array(ByteArray(array.object().0), 0, len, key)?;
                }
            }
        }
        Ok(Some(pair))
    }

    fn order(&self, env: Env, a: (Object, jint), b: (Object, jint)) -> Outcome<jint> {
        env.call_static_int(
            self.bridge.object(),
            self.compare,
            &[
                jvalue {
                    l: self.java.object().0,
                },
                jvalue { l: a.0.0 },
                jvalue { i: a.1 },
                jvalue { l: b.0.0 },
                jvalue { i: b.1 },
            ],
        )
    }
}

impl Comparator for JavaComparator {
    fn name(&self) -> &str {
        &self.name
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        let order = self.java.call(&self.name, |env| {
            let Some(pair) = self.pair(env, a, b)? else {
                // A length of -1 says that the limit of the buffer is the length.
                let (a, b) = (self.buffer(env, a)?, self.buffer(env, b)?);
                return self.order(env, (a, -1), (b, -1));
            };
            // The lengths fit into those of the buffers.
            let lens = (a.len() as jint, b.len() as jint);
            let buffers = (pair[0].buffer.object(), pair[1].buffer.object());
            // The buffers of a comparison that throws have an unknown state and are not used again.
            let order = self.order(env, (buffers.0, lens.0), (buffers.1, lens.1))?;
            self.pairs.lock().push(pair);
            Ok(order)
        });
        order.cmp(&0)
    }

    fn shorten_separator(&self, start: &mut Vec<u8>, limit: &[u8]) {
        let mut copy = start.clone();
        let len = self.java.call(&self.name, |env| {
            // A direct buffer, because Java writes to it.
            let from = env.direct_buffer(copy.as_mut_ptr(), copy.len())?;
            let limit = self.buffer(env, limit)?;
            env.call_static_int(
                self.bridge.object(),
                self.separator,
                &[
                    jvalue {
                        l: self.java.object().0,
                    },
                    jvalue { l: from.0 },
                    jvalue { i: -1 },
                    jvalue { l: limit.0 },
                    jvalue { i: -1 },
                ],
            )
        });
        let Some(len) = usize::try_from(len).ok().filter(|len| *len <= copy.len()) else {
            return;
        };
        copy.truncate(len);
        // Only a key in `[start, limit)` is a separator.
        let in_range = self.compare(&copy, start) != Ordering::Less
            && self.compare(&copy, limit) == Ordering::Less;
        if in_range {
            *start = copy;
        }
    }

    fn shorten_successor(&self, key: &mut Vec<u8>) {
        let mut copy = key.clone();
        let len = self.java.call(&self.name, |env| {
            let from = env.direct_buffer(copy.as_mut_ptr(), copy.len())?;
            env.call_static_int(
                self.bridge.object(),
                self.successor,
                &[
                    jvalue {
                        l: self.java.object().0,
                    },
                    jvalue { l: from.0 },
                    jvalue { i: -1 },
                ],
            )
        });
        if let Some(len) = usize::try_from(len).ok().filter(|len| *len <= copy.len()) {
            copy.truncate(len);
            // Only a key at or after the old one is a successor.
            if self.compare(&copy, key) != Ordering::Less {
                *key = copy;
            }
        }
    }
}

pub fn new_comparator(
    env: Env,
    this: Object,
    options: Ref<ComparatorOptions>,
) -> Outcome<New<ComparatorHandle>> {
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
    let order = KeyOrder::Custom(Arc::new(JavaComparator {
        java: Callee::new(env, this)?,
        name,
        compare: method("compareInternal", &two)?,
        separator: method("findShortestSeparatorInternal", &two)?,
        successor: method("findShortSuccessorInternal", buffer)?,
        bridge: env.global(bridge),
        wrap,
        longest: usize::try_from(options.max_reused_buffer_size).ok(),
        pairs: Mutex::new(Vec::new()),
    }));
    Ok(New(ComparatorHandle {
        order,
        uses_direct_buffers: options.use_direct_buffer,
    }))
}

pub fn uses_direct_buffers(_env: Env, comparator: Ref<ComparatorHandle>) -> bool {
    comparator.uses_direct_buffers
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
    java: Callee,
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
        let handle = self.java.call(&self.name, |env| {
            env.call_long(self.java.object(), self.create, &arguments)
        });
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
        java: Callee::new(env, this)?,
    })))
}

pub fn set_factory(_env: Env, mut options: Mut<AllOptions>, factory: Ref<FactoryHandle>) {
    options.family.compaction_filter_factory = Plugin::Object(factory.clone());
}

pub fn destroy_factory(env: Env, handle: jlong) -> Outcome<()> {
    crate::handle::destroy::<FactoryHandle>(env, handle)
}

struct JavaTableFilter {
    java: Callee,
    filter: Method,
}

pub fn new_table_filter(env: Env, this: Object) -> Outcome<New<TableFilter>> {
    let filter = JavaTableFilter {
        filter: env.method_of(this, "filter", "(Lorg/rocksdb/TableProperties;)Z")?,
        java: Callee::new(env, this)?,
    };
    Ok(New(TableFilter::new(move |properties| {
        filter.java.call("TableFilter", |env| {
            let properties = crate::files::properties_of_file(env, properties)?;
            env.call_bool(
                filter.java.object(),
                filter.filter,
                &[jvalue { l: properties.0 }],
            )
        })
    })))
}

pub fn set_table_filter(_env: Env, mut options: Mut<ReadOptions>, filter: Ref<TableFilter>) {
    options.options.table_filter = filter.clone();
}

/// The object of a logger.
pub struct Logger {
    level: AtomicI8,
    java: Option<(Callee, Method)>,
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
        let Some((java, log)) = &self.java else {
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
        java.notify("Logger", |env| {
            let level = env.constant(
                "org/rocksdb/InfoLogLevel",
                name,
                "Lorg/rocksdb/InfoLogLevel;",
            )?;
            let message = env.string(message)?;
            env.call_void(
                java.object(),
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
        java: Some((Callee::new(env, this)?, log)),
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
    elements: Option<(Callee, Method)>,
}

/// The object that Flink's filters of a state share with Java.
#[derive(Default)]
pub struct FlinkHolder(Mutex<Option<Arc<FlinkConfig>>>);

/// Flink's filter of expired state: values begin with, or lists consist of elements that begin with, the time of their
/// last access in big-endian milliseconds.
struct FlinkFilter {
    holder: Arc<FlinkHolder>,
    time: Callee,
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
            let time = self.time.call("TimeProvider", |env| {
                env.call_long(self.time.object(), self.current_time, &[])
            });
            self.now.store(time, Relaxed);
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
        let found = factory.call("ListElementFilter", |env| {
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
        usize::try_from(found).unwrap_or(0)
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
        time: Callee::new(env, time)?,
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
            Some((Callee::new(env, elements)?, create))
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
