//! Every kind of program callback of the engine: each calls the one callee of a case.

use std::cmp::Ordering as Order;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

use cairn_observe::listener::{
    BackgroundJobPressure, CompactionJobInfo, EventListener, FileCreationBriefInfo,
    FileDeletionInfo, FileOperationInfo, FlushJobInfo, ManualFlushInfo, MemTableInfo,
    SubcompactionJobInfo, TableFileCreationInfo, WriteStallInfo,
};
use cairn_observe::{BackgroundErrorReason, Level, LogSink};
use cairn_options::{DbOptions, FamilyOptions};
use cairn_platform::sync::Mutex;
use cairn_types::{
    CollectorContext, CompactionFilter, CompactionFilterFactory, Comparator, Error, FilterContext,
    FilterDecision, FilterValue, KeyOrder, MergeInput, MergeOperator, PartitionContext,
    PrefixExtractor, Result, SequenceNumber, SliceTransform, SstPartitioner, SstPartitionerFactory,
    TablePropertiesCollector, TablePropertiesCollectorFactory, ValueKind,
};

/// The behaviour of the callback in a case.
#[derive(Default)]
pub struct Callee {
    /// True to act; false to count.
    pub armed: AtomicBool,
    /// True to act only once.
    pub once: AtomicBool,
    pub calls: AtomicUsize,
    pub act: Mutex<Option<Arc<dyn Fn() + Send + Sync>>>,
}

impl Callee {
    pub fn called(&self) {
        if !self.armed.load(SeqCst) {
            return;
        }
        self.calls.fetch_add(1, SeqCst);
        if self.once.load(SeqCst) && !self.armed.swap(false, SeqCst) {
            return;
        }
        let act = self.act.lock().clone();
        if let Some(act) = act {
            act();
        }
    }
}

/// Without the output of the panic hook, which would print hundreds of panics.
pub fn panic_on_purpose() {
    std::panic::resume_unwind(Box::new("on purpose"));
}

/// Calls the callee from every callback of the engine.
struct Caller(Arc<Callee>);

impl Comparator for Caller {
    fn name(&self) -> &str {
        "caller"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> Order {
        self.0.called();
        a.cmp(b)
    }
    fn different_bytes_may_be_equal(&self) -> bool {
        false
    }
}

impl MergeOperator for Caller {
    fn name(&self) -> &str {
        "caller"
    }
    fn full_merge(&self, input: &MergeInput<'_>) -> Option<Vec<u8>> {
        self.0.called();
        let mut value = input.existing.unwrap_or_default().to_vec();
        input
            .operands
            .iter()
            .for_each(|part| value.extend_from_slice(part));
        Some(value)
    }
    fn partial_merge(&self, _: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
        self.0.called();
        Some(operands.concat())
    }
}

impl SliceTransform for Caller {
    fn name(&self) -> &str {
        "caller"
    }
    fn in_domain(&self, _: &[u8]) -> bool {
        self.0.called();
        true
    }
    fn prefix_len(&self, key: &[u8]) -> usize {
        key.len().min(3)
    }
}

impl CompactionFilter for Caller {
    fn name(&self) -> &str {
        "caller"
    }
    fn filter(&self, _: usize, _: &[u8], _: FilterValue<'_>) -> FilterDecision {
        self.0.called();
        FilterDecision::Keep
    }
}

impl CompactionFilterFactory for Caller {
    fn name(&self) -> &str {
        "caller"
    }
    fn create(&self, _: &FilterContext) -> Option<Arc<dyn CompactionFilter>> {
        self.0.called();
        None
    }
}

impl SstPartitioner for Caller {
    fn should_partition(&mut self, _: &[u8], _: &[u8], _: u64) -> bool {
        self.0.called();
        false
    }
    fn can_do_trivial_move(&mut self, _: &[u8], _: &[u8]) -> bool {
        self.0.called();
        false
    }
}

impl SstPartitionerFactory for Caller {
    fn name(&self) -> &str {
        "caller"
    }
    fn create(&self, _: &PartitionContext<'_>) -> Option<Box<dyn SstPartitioner>> {
        Some(Box::new(Caller(self.0.clone())))
    }
}

impl TablePropertiesCollector for Caller {
    fn add(&mut self, _: &[u8], _: &[u8], _: ValueKind, _: SequenceNumber, _: u64) -> Result<()> {
        self.0.called();
        Ok(())
    }
    fn finish(&mut self) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        Ok(Vec::new())
    }
}

impl TablePropertiesCollectorFactory for Caller {
    fn name(&self) -> &str {
        "caller"
    }
    fn create(&self, _: &CollectorContext) -> Option<Box<dyn TablePropertiesCollector>> {
        Some(Box::new(Caller(self.0.clone())))
    }
}

impl LogSink for Caller {
    fn log(&self, _: Level, _: &str) {
        self.0.called();
    }
}

/// Calls the callee for one kind of event.
struct Listener(Arc<Callee>, &'static str);

impl Listener {
    fn on(&self, event: &str) {
        if event == self.1 {
            self.0.called();
        }
    }
}

impl EventListener for Listener {
    fn on_flush_begin(&self, _: &FlushJobInfo) {
        self.on("flush begin");
    }
    fn on_flush_completed(&self, _: &FlushJobInfo) {
        self.on("flush completed");
    }
    fn on_manual_flush_scheduled(&self, _: &[ManualFlushInfo]) {
        self.on("manual flush");
    }
    fn on_compaction_begin(&self, _: &CompactionJobInfo) {
        self.on("compaction begin");
    }
    fn on_compaction_pre_commit(&self, _: &CompactionJobInfo) {
        self.on("compaction commit");
    }
    fn on_compaction_completed(&self, _: &CompactionJobInfo) {
        self.on("compaction completed");
    }
    fn on_subcompaction_begin(&self, _: &SubcompactionJobInfo) {
        self.on("part begin");
    }
    fn on_table_file_creation_started(&self, _: &FileCreationBriefInfo) {
        self.on("table started");
    }
    fn on_table_file_created(&self, _: &TableFileCreationInfo) {
        self.on("table created");
    }
    fn on_table_file_deleted(&self, _: &FileDeletionInfo) {
        self.on("table deleted");
    }
    fn on_memtable_sealed(&self, _: &MemTableInfo) {
        self.on("memtable sealed");
    }
    fn on_stall_conditions_changed(&self, _: &WriteStallInfo) {
        self.on("stall");
    }
    fn on_background_error(&self, _: BackgroundErrorReason, _: &mut Option<Error>) {
        self.on("background error");
    }
    fn on_db_shutdown_begin(&self) {
        self.on("shutdown");
    }
    fn on_background_job_pressure_changed(&self, _: &BackgroundJobPressure) {
        self.on("pressure");
    }
    fn should_be_notified_on_file_io(&self) -> bool {
        self.1.starts_with("file")
    }
    fn on_file_write_finish(&self, _: &FileOperationInfo<'_>) {
        self.on("file write");
    }
    fn on_file_sync_finish(&self, _: &FileOperationInfo<'_>) {
        self.on("file sync");
    }
    fn on_file_read_finish(&self, _: &FileOperationInfo<'_>) {
        self.on("file read");
    }
}

/// Panics when its database is compacted, which causes a background error.
struct Breaks(Arc<Callee>);

impl CompactionFilter for Breaks {
    fn name(&self) -> &str {
        "breaks"
    }
    fn filter(&self, _: usize, _: &[u8], _: FilterValue<'_>) -> FilterDecision {
        if self.0.armed.load(SeqCst) {
            panic_on_purpose();
        }
        FilterDecision::Keep
    }
}

/// The kinds of callbacks. Those of [`EVENTS`] are named after the event.
pub const CODE: [&str; 10] = [
    "comparator",
    "comparator, sorted late",
    "merge operator",
    "merge operator, early",
    "prefix extractor",
    "compaction filter",
    "compaction filter factory",
    "partitioner",
    "collector",
    "info log",
];

/// The table filter is passed to reads.
pub const TABLE_FILTER: &str = "table filter";

/// The events of listeners, and those in which a listener must not fail.
pub const EVENTS: [&str; 18] = [
    "flush begin",
    "flush completed",
    "manual flush",
    "compaction begin",
    "compaction commit",
    "compaction completed",
    "part begin",
    "table started",
    "table created",
    "table deleted",
    "memtable sealed",
    "stall",
    "background error",
    "shutdown",
    "pressure",
    "file write",
    "file sync",
    "file read",
];

/// True if a panic of `kind` ends only its own call.
pub fn only_hears(kind: &str) -> bool {
    kind == "info log" || EVENTS.contains(&kind)
}

/// Returns every kind.
pub fn all() -> impl Iterator<Item = &'static str> {
    CODE.into_iter().chain([TABLE_FILTER]).chain(EVENTS)
}

/// Sets the callback of `kind` in a database, and no other callback.
pub fn install(
    kind: &'static str,
    callee: &Arc<Callee>,
    db: &mut DbOptions,
    family: &mut FamilyOptions,
) {
    let caller = Arc::new(Caller(callee.clone()));
    // All phases use a merge operator, regardless of the kind.
    family.merge_operator = Some(Arc::new(Caller(Arc::default())));
    match kind {
        "comparator" => family.comparator = KeyOrder::Custom(caller),
        "comparator, sorted late" => {
            family.comparator = KeyOrder::Custom(caller);
            family.memtable_factory = cairn_options::MemtableFactory::Vector;
        }
        "merge operator" => family.merge_operator = Some(caller),
        "merge operator, early" => {
            family.merge_operator = Some(caller);
            family.max_successive_merges = 1;
        }
        "prefix extractor" => {
            family.prefix_extractor = Some(PrefixExtractor::Custom(caller));
            family.memtable_prefix_bloom_size_ratio = 0.1;
        }
        "compaction filter" => {
            family.compaction_filter = (caller as Arc<dyn CompactionFilter>).into()
        }
        "compaction filter factory" => {
            family.compaction_filter_factory = (caller as Arc<dyn CompactionFilterFactory>).into();
        }
        "partitioner" => {
            family.sst_partitioner_factory = (caller as Arc<dyn SstPartitionerFactory>).into();
        }
        "collector" => family.table_properties_collector_factories.push(caller),
        "info log" => db.info_log = Some(caller),
        TABLE_FILTER => {}
        event => {
            if event == "background error" {
                let breaks = Arc::new(Breaks(callee.clone()));
                family.compaction_filter = (breaks as Arc<dyn CompactionFilter>).into();
            }
            db.listeners.push(Arc::new(Listener(callee.clone(), event)));
        }
    }
}

/// Runs `act`; a panic becomes an error with its message.
pub fn caught(act: impl FnOnce() -> Result<()>) -> Result<()> {
    catch_unwind(AssertUnwindSafe(act)).unwrap_or_else(|panic| {
        let said = panic.downcast_ref::<&str>().copied();
        let said = said.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        let said = said.unwrap_or_default();
        Err(Error::aborted(format!("panicked: {said}")))
    })
}
