//! Remote compactions: services implemented by the program, and the worker's side.

use std::ffi::{CString, c_char, c_int, c_uchar, c_void};
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cairn_db::{CompactionServiceOptionsOverride, OpenAndCompactOptions, open_and_compact};
use cairn_options::{
    CompactionService, CompactionServiceJobInfo, CompactionServiceJobStatus as Status,
    CompactionServiceScheduleResponse, Plugin,
};
use cairn_platform::World;
use cairn_types::{Error, Result};

use super::compaction_filter::{rocksdb_compactionfilter_t, rocksdb_compactionfilterfactory_t};
use super::comparator::rocksdb_comparator_t;
use super::listener::rocksdb_eventlistener_t;
use super::logger::rocksdb_logger_t;
use super::merge::rocksdb_mergeoperator_t;
use super::tables::{
    rocksdb_sst_partitioner_factory_t, rocksdb_table_properties_collector_factory_t,
};
use super::transform::rocksdb_slicetransform_t;
use super::{Destructor, State, c_bytes};
use crate::env::rocksdb_env_t;
use crate::error::{bytes, malloc_bytes, report_ptr, store, terminated, text};
use crate::flat_tables::rocksdb_cuckoo_table_options_t;
use crate::handle::{create, destroy, maybe, of, of_mut, take};
use crate::options::objects::rocksdb_file_checksum_gen_factory_t;
use crate::options::{rocksdb_block_based_table_options_t, rocksdb_options_t};
use crate::table_properties::words;

/// The objects of a worker.
pub struct Overrides {
    options: CompactionServiceOptionsOverride,
    world: World,
    /// The error of table options that could not be set.
    refused: Option<Error>,
}

handles! {
    /// A service that runs compactions in other processes.
    rocksdb_compactionservice_t = Arc<dyn CompactionService>;
    /// A job of a service.
    rocksdb_compactionservice_jobinfo_t = CompactionServiceJobInfo;
    /// The answer of a service to a request to schedule a job.
    rocksdb_compactionservice_scheduleresponse_t = CompactionServiceScheduleResponse;
    /// The options of a worker that are not in the OPTIONS file.
    rocksdb_compaction_service_options_override_t = Overrides;
    /// Options of a worker.
    rocksdb_open_and_compact_options_t = OpenAndCompactOptions;
}

c_destructors! {
    /// Frees an answer that was not returned to the database.
    rocksdb_compactionservice_scheduleresponse_t_destroy(rocksdb_compactionservice_scheduleresponse_t);
    /// Frees the options of a worker.
    rocksdb_compaction_service_options_override_destroy(rocksdb_compaction_service_options_override_t);
    /// Frees options.
    rocksdb_open_and_compact_options_destroy(rocksdb_open_and_compact_options_t);
}

/// Schedules a job; null is a failure.
pub type rocksdb_compaction_service_schedule_cb = Option<
    unsafe extern "C" fn(
        *mut c_void,
        *const rocksdb_compactionservice_jobinfo_t,
        *const c_char,
        usize,
    ) -> *mut rocksdb_compactionservice_scheduleresponse_t,
>;
/// Waits for a job, and stores its result in memory from `malloc`. Returns its status.
pub type rocksdb_compaction_service_wait_cb =
    Option<unsafe extern "C" fn(*mut c_void, *const c_char, *mut *mut c_char, *mut usize) -> c_int>;
/// Makes waiting calls return.
pub type rocksdb_compaction_service_cancel_awaiting_jobs_cb =
    Option<unsafe extern "C" fn(*mut c_void)>;
/// Reports the installation of a result.
pub type rocksdb_compaction_service_on_installation_cb =
    Option<unsafe extern "C" fn(*mut c_void, *const c_char, c_int)>;

/// The numbers of the statuses in C are their indexes.
const STATUSES: [Status; 4] = [
    Status::Success,
    Status::Failure,
    Status::Aborted,
    Status::UseLocal,
];

fn status(number: c_int) -> Option<Status> {
    let number = usize::try_from(number).ok()?;
    STATUSES.get(number).copied()
}

fn number(status: Status) -> c_int {
    let at = STATUSES.iter().position(|other| *other == status);
    at.map_or(1, |at| at as c_int)
}

/// A service implemented by the program.
struct Service {
    state: State,
    name: String,
    schedule: rocksdb_compaction_service_schedule_cb,
    wait: rocksdb_compaction_service_wait_cb,
    cancel_awaiting_jobs: rocksdb_compaction_service_cancel_awaiting_jobs_cb,
    on_installation: rocksdb_compaction_service_on_installation_cb,
}

fn response(id: String, status: Status) -> CompactionServiceScheduleResponse {
    CompactionServiceScheduleResponse {
        scheduled_job_id: id,
        status,
    }
}

impl CompactionService for Service {
    fn name(&self) -> &str {
        &self.name
    }

    fn schedule(
        &self,
        info: &CompactionServiceJobInfo,
        input: &[u8],
    ) -> CompactionServiceScheduleResponse {
        let Some(schedule) = self.schedule else {
            return response(String::new(), Status::UseLocal);
        };
        let info = create::<rocksdb_compactionservice_jobinfo_t>(info.clone());
        // SAFETY: the program's function reads its arguments and returns null or an answer, whose ownership
        // passes to the engine.
        unsafe {
            let answer = schedule(
                self.state.pointer(),
                info.cast_const(),
                c_bytes(input),
                input.len(),
            );
            destroy(info);
            match answer.is_null() {
                true => response(String::new(), Status::Failure),
                false => take(answer),
            }
        }
    }

    fn wait(&self, scheduled_job_id: &str) -> (Status, Vec<u8>) {
        let Some(wait) = self.wait else {
            return (Status::UseLocal, Vec::new());
        };
        let id = terminated(scheduled_job_id);
        let (mut result, mut len) = (null_mut(), 0);
        // SAFETY: the program's function reads the null-terminated id, and may store memory from `malloc` with
        // its length, whose ownership passes to the engine.
        unsafe {
            let found = wait(
                self.state.pointer(),
                id.as_ptr(),
                &raw mut result,
                &raw mut len,
            );
            let mut copy = Vec::new();
            if !result.is_null() {
                copy.extend_from_slice(bytes(result, len));
                libc::free(result.cast());
            }
            // An unknown number is a failure.
            (status(found).unwrap_or(Status::Failure), copy)
        }
    }

    fn cancel_awaiting_jobs(&self) {
        if let Some(cancel) = self.cancel_awaiting_jobs {
            // SAFETY: the program's function takes its state.
            unsafe { cancel(self.state.pointer()) };
        }
    }

    fn on_installation(&self, scheduled_job_id: &str, status: Status) {
        if let Some(report) = self.on_installation {
            let id: CString = terminated(scheduled_job_id);
            // SAFETY: the program's function reads the null-terminated id.
            unsafe { report(self.state.pointer(), id.as_ptr(), number(status)) };
        }
    }
}

/// The priority of compactions in RocksDB's numbers of thread pools.
const LOW_PRIORITY: c_int = 1;

c_functions! {
    /// Creates a service. The program's functions may be null: without `schedule` or `wait`, compactions are
    /// local. The state is destroyed with the last options and database that use the service.
    fn rocksdb_compactionservice_create(
        state: *mut c_void,
        destructor: Option<unsafe extern "C" fn(*mut c_void)>,
        schedule: rocksdb_compaction_service_schedule_cb,
        name: *const c_char,
        wait: rocksdb_compaction_service_wait_cb,
        cancel_awaiting_jobs: rocksdb_compaction_service_cancel_awaiting_jobs_cb,
        on_installation: rocksdb_compaction_service_on_installation_cb,
    ) -> *mut rocksdb_compactionservice_t {
        let destructor: Destructor = destructor;
        create(Arc::new(Service {
            state: State::new(state, destructor),
            name: match name.is_null() {
                true => "CompactionService".to_owned(),
                false => text(name),
            },
            schedule,
            wait,
            cancel_awaiting_jobs,
            on_installation,
        }) as Arc<dyn CompactionService>)
    }
    /// Sets the service. The options take ownership; null is ignored.
    fn rocksdb_options_set_compaction_service(
        options: *mut rocksdb_options_t,
        service: *mut rocksdb_compactionservice_t,
    ) {
        if !options.is_null() && !service.is_null() {
            of_mut(options).db.compaction_service = Some(take(service));
        }
    }

    /// The directory of the database.
    fn rocksdb_compactionservice_jobinfo_t_get_db_name(info: *const rocksdb_compactionservice_jobinfo_t, len: *mut usize) -> *const c_char {
        words(of(info).db_name.as_bytes(), len)
    }
    /// The id of the database.
    fn rocksdb_compactionservice_jobinfo_t_get_db_id(info: *const rocksdb_compactionservice_jobinfo_t, len: *mut usize) -> *const c_char {
        words(of(info).db_id.as_bytes(), len)
    }
    /// The id of the session.
    fn rocksdb_compactionservice_jobinfo_t_get_db_session_id(info: *const rocksdb_compactionservice_jobinfo_t, len: *mut usize) -> *const c_char {
        words(of(info).db_session_id.as_bytes(), len)
    }
    /// The name of the family.
    fn rocksdb_compactionservice_jobinfo_t_get_cf_name(info: *const rocksdb_compactionservice_jobinfo_t, len: *mut usize) -> *const c_char {
        words(of(info).family_name.as_bytes(), len)
    }
    /// The id of the family.
    fn rocksdb_compactionservice_jobinfo_t_get_cf_id(info: *const rocksdb_compactionservice_jobinfo_t) -> u32 {
        of(info).family_id
    }
    /// The number of the job in the session.
    fn rocksdb_compactionservice_jobinfo_t_get_job_id(info: *const rocksdb_compactionservice_jobinfo_t) -> u64 {
        of(info).job_id
    }
    /// The thread pool of the compaction.
    fn rocksdb_compactionservice_jobinfo_t_get_priority(info: *const rocksdb_compactionservice_jobinfo_t) -> c_int {
        let _ = of(info);
        LOW_PRIORITY
    }
    /// The reason of the compaction.
    fn rocksdb_compactionservice_jobinfo_t_get_compaction_reason(info: *const rocksdb_compactionservice_jobinfo_t) -> c_int {
        of(info).compaction_reason.number() as c_int
    }
    /// The smallest input level.
    fn rocksdb_compactionservice_jobinfo_t_get_base_input_level(info: *const rocksdb_compactionservice_jobinfo_t) -> c_int {
        of(info).base_input_level as c_int
    }
    /// The output level.
    fn rocksdb_compactionservice_jobinfo_t_get_output_level(info: *const rocksdb_compactionservice_jobinfo_t) -> c_int {
        of(info).output_level as c_int
    }
    /// True if all files of the family are inputs.
    fn rocksdb_compactionservice_jobinfo_t_is_full_compaction(info: *const rocksdb_compactionservice_jobinfo_t) -> c_uchar {
        of(info).is_full_compaction.into()
    }
    /// True for a manual compaction.
    fn rocksdb_compactionservice_jobinfo_t_is_manual_compaction(info: *const rocksdb_compactionservice_jobinfo_t) -> c_uchar {
        of(info).is_manual_compaction.into()
    }
    /// True if no level below the output has versions of the keys.
    fn rocksdb_compactionservice_jobinfo_t_is_bottommost_level(info: *const rocksdb_compactionservice_jobinfo_t) -> c_uchar {
        of(info).bottommost_level.into()
    }

    /// Creates an answer with a job id and a status.
    fn rocksdb_compactionservice_scheduleresponse_create(
        scheduled_job_id: *const c_char,
        status: c_int,
        errptr: *mut *mut c_char,
    ) -> *mut rocksdb_compactionservice_scheduleresponse_t {
        report_ptr(errptr, || {
            let id = match scheduled_job_id.is_null() {
                true => String::new(),
                false => text(scheduled_job_id),
            };
            Ok(create(response(id, checked(status)?)))
        })
    }
    /// Creates an answer without a job id.
    fn rocksdb_compactionservice_scheduleresponse_create_with_status(
        status: c_int,
        errptr: *mut *mut c_char,
    ) -> *mut rocksdb_compactionservice_scheduleresponse_t {
        report_ptr(errptr, || Ok(create(response(String::new(), checked(status)?))))
    }
    /// The status of an answer; a failure for null.
    fn rocksdb_compactionservice_scheduleresponse_getstatus(
        response: *const rocksdb_compactionservice_scheduleresponse_t,
    ) -> c_int {
        number(maybe(response).map_or(Status::Failure, |response| response.status))
    }
    /// The job id of an answer; empty for null.
    fn rocksdb_compactionservice_scheduleresponse_get_scheduled_job_id(
        response: *const rocksdb_compactionservice_scheduleresponse_t,
        len: *mut usize,
    ) -> *const c_char {
        match maybe(response) {
            Some(response) => words(response.scheduled_job_id.as_bytes(), len),
            None => {
                store(len, 0);
                c"".as_ptr()
            }
        }
    }
}

fn checked(number: c_int) -> Result<Status> {
    status(number).ok_or_else(|| Error::invalid_argument("Invalid status value. Must be 0-3."))
}

/// Defines setters of objects in the options of a worker: the second argument is passed to the body, unless an
/// argument is null.
macro_rules! overriding {
    ($($(#[$doc:meta])* $name:ident($overrides:ident, $object:ident: $handle:ty) $body:block)+) => {
        c_functions! {$(
            $(#[$doc])*
            ///
            /// Null is ignored.
            fn $name(override_options: *mut rocksdb_compaction_service_options_override_t, object: *mut $handle) {
                if !override_options.is_null() && !object.is_null() {
                    let ($overrides, $object) = (of_mut(override_options), object);
                    $body
                }
            }
        )+}
    };
}

overriding! {
    /// Adds a listener, which the options take.
    rocksdb_compaction_service_options_override_add_event_listener(overrides, listener: rocksdb_eventlistener_t) {
        overrides.options.listeners.push(Arc::new(take(listener)));
    }
    /// Adds a collector factory. The program still destroys its handle.
    rocksdb_compaction_service_options_override_add_table_properties_collector_factory(overrides, factory: rocksdb_table_properties_collector_factory_t) {
        let factory = of(factory.cast_const()).clone();
        overrides.options.table_properties_collector_factories.push(factory);
    }
    /// Sets the table format, which is copied.
    rocksdb_compaction_service_options_override_set_block_based_table_factory(overrides, table: rocksdb_block_based_table_options_t) {
        let table = of(table.cast_const());
        match table.checked() {
            Ok(table) => overrides.options.table = Some(table.clone()),
            Err(error) => overrides.refused = Some(error),
        }
    }
    /// Lets new tables be CuckooTable files with these options, which are copied.
    rocksdb_compaction_service_options_override_set_cuckoo_table_factory(overrides, table: rocksdb_cuckoo_table_options_t) {
        overrides.options.cuckoo_table = Some(of(table.cast_const()).clone());
    }
    /// Sets the filter. The program still destroys its handle.
    rocksdb_compaction_service_options_override_set_compaction_filter(overrides, filter: rocksdb_compactionfilter_t) {
        overrides.options.compaction_filter = Plugin::Object(of(filter.cast_const()).clone());
    }
    /// Sets the factory of filters, which the options take.
    rocksdb_compaction_service_options_override_set_compaction_filter_factory(overrides, factory: rocksdb_compactionfilterfactory_t) {
        overrides.options.compaction_filter_factory = Plugin::Object(take(factory));
    }
    /// Sets the comparator. The program still destroys its handle.
    rocksdb_compaction_service_options_override_set_comparator(overrides, comparator: rocksdb_comparator_t) {
        overrides.options.comparator = of(comparator.cast_const()).clone();
    }
    /// Sets the environment. The program still destroys its handle.
    rocksdb_compaction_service_options_override_set_env(overrides, env: rocksdb_env_t) {
        overrides.world = of(env.cast_const()).world.clone();
    }
    /// Sets the factory of file checksums. The program still destroys its handle.
    rocksdb_compaction_service_options_override_set_file_checksum_gen_factory(overrides, factory: rocksdb_file_checksum_gen_factory_t) {
        overrides.options.file_checksum_gen_factory = Some(of(factory.cast_const()).clone());
    }
    /// Sets the info log. The program still destroys its handle.
    rocksdb_compaction_service_options_override_set_info_log(overrides, logger: rocksdb_logger_t) {
        overrides.options.info_log = of(logger.cast_const()).clone();
    }
    /// Sets the merge operator, which the options take.
    rocksdb_compaction_service_options_override_set_merge_operator(overrides, operator: rocksdb_mergeoperator_t) {
        overrides.options.merge_operator = Some(take(operator));
    }
    /// Sets the prefix extractor, which the options take.
    rocksdb_compaction_service_options_override_set_prefix_extractor(overrides, extractor: rocksdb_slicetransform_t) {
        overrides.options.prefix_extractor = Some(take(extractor));
    }
    /// Sets the partitioner factory. The program still destroys its handle.
    rocksdb_compaction_service_options_override_set_sst_partitioner_factory(overrides, factory: rocksdb_sst_partitioner_factory_t) {
        overrides.options.sst_partitioner_factory = Plugin::Object(of(factory.cast_const()).clone());
    }
    /// Uses the statistics of other options.
    rocksdb_compaction_service_options_override_set_statistics(overrides, options: rocksdb_options_t) {
        overrides.options.statistics = of(options.cast_const()).db.statistics.clone();
    }
}

c_functions! {
    /// Creates the options of a worker without objects.
    fn rocksdb_compaction_service_options_override_create() -> *mut rocksdb_compaction_service_options_override_t {
        create(Overrides {
            options: CompactionServiceOptionsOverride::default(),
            world: World::posix(),
            refused: None,
        })
    }
    /// Creates the options of a worker with the objects of `option`; null for null.
    fn rocksdb_compaction_service_options_override_create_from_options(
        option: *mut rocksdb_options_t,
    ) -> *mut rocksdb_compaction_service_options_override_t {
        let Some(all) = maybe(option.cast_const()) else {
            return null_mut();
        };
        create(Overrides {
            options: CompactionServiceOptionsOverride::new(&all.db, &all.family),
            world: all.world(),
            refused: all.checked().err(),
        })
    }
    /// Sets an option by name. Unknown ones are ignored, invalid values are errors of the compaction.
    fn rocksdb_compaction_service_options_override_set_option(
        override_options: *mut rocksdb_compaction_service_options_override_t,
        key: *const c_char,
        value: *const c_char,
    ) {
        if !override_options.is_null() && !key.is_null() && !value.is_null() {
            of_mut(override_options).options.options.insert(text(key), text(value));
        }
    }
}

/// The flag of a pointer from `rocksdb_open_and_compact_canceled_create`.
fn flag(canceled: *mut c_uchar) -> *const AtomicBool {
    canceled.cast_const().cast()
}

c_functions! {
    /// Creates a flag that cancels compactions of a worker.
    fn rocksdb_open_and_compact_canceled_create() -> *mut c_uchar {
        Arc::into_raw(Arc::new(AtomicBool::new(false))).cast_mut().cast()
    }
    /// Frees a flag.
    fn rocksdb_open_and_compact_canceled_destroy(canceled: *mut c_uchar) {
        if !canceled.is_null() {
            drop(Arc::from_raw(flag(canceled)));
        }
    }
    /// Sets or resets a flag. Options that use it see the change.
    fn rocksdb_open_and_compact_canceled_set(canceled: *mut c_uchar, value: c_uchar) {
        if let Some(flag) = flag(canceled).as_ref() {
            flag.store(value != 0, Ordering::Release);
        }
    }

    /// Creates options of a worker.
    fn rocksdb_open_and_compact_options_create() -> *mut rocksdb_open_and_compact_options_t {
        create(OpenAndCompactOptions::default())
    }
    /// Sets the flag that cancels the compaction. Null is ignored.
    fn rocksdb_open_and_compact_options_set_canceled(options: *mut rocksdb_open_and_compact_options_t, canceled: *mut c_uchar) {
        if !options.is_null() && !canceled.is_null() {
            Arc::increment_strong_count(flag(canceled));
            of_mut(options).canceled = Arc::from_raw(flag(canceled)).into();
        }
    }
    /// Sets `allow_resumption`.
    fn rocksdb_open_and_compact_options_set_allow_resumption(options: *mut rocksdb_open_and_compact_options_t, allow_resumption: c_uchar) {
        if !options.is_null() {
            of_mut(options).allow_resumption = allow_resumption != 0;
        }
    }
    /// The value of `allow_resumption`.
    fn rocksdb_open_and_compact_options_get_allow_resumption(opt: *mut rocksdb_open_and_compact_options_t) -> c_uchar {
        of(opt.cast_const()).allow_resumption.into()
    }
    /// Sets `max_secondary_open_retries`.
    fn rocksdb_open_and_compact_options_set_max_secondary_open_retries(options: *mut rocksdb_open_and_compact_options_t, max_secondary_open_retries: u32) {
        of_mut(options).max_secondary_open_retries = max_secondary_open_retries;
    }
    /// The value of `max_secondary_open_retries`.
    fn rocksdb_open_and_compact_options_get_max_secondary_open_retries(options: *mut rocksdb_open_and_compact_options_t) -> u32 {
        of(options.cast_const()).max_secondary_open_retries
    }

    /// Runs a compaction for a database that is open in another process. Returns the result for the service of that
    /// database, in memory from `malloc`.
    fn rocksdb_open_and_compact(
        db_path: *const c_char,
        output_directory: *const c_char,
        input: *const c_char,
        input_len: usize,
        output_len: *mut usize,
        override_options: *const rocksdb_compaction_service_options_override_t,
        errptr: *mut *mut c_char,
    ) -> *mut c_char {
        report_ptr(errptr, || {
            let options = OpenAndCompactOptions::default();
            let job = Job { db_path, output_directory, input, input_len, override_options };
            job.run(&options, output_len)
        })
    }
    /// Like `rocksdb_open_and_compact`, with options.
    fn rocksdb_open_and_compact_with_options(
        options: *const rocksdb_open_and_compact_options_t,
        db_path: *const c_char,
        output_directory: *const c_char,
        input: *const c_char,
        input_len: usize,
        output_len: *mut usize,
        override_options: *const rocksdb_compaction_service_options_override_t,
        errptr: *mut *mut c_char,
    ) -> *mut c_char {
        report_ptr(errptr, || {
            let options = maybe(options).ok_or_else(invalid_arguments)?;
            let job = Job { db_path, output_directory, input, input_len, override_options };
            job.run(options, output_len)
        })
    }
}

fn invalid_arguments() -> Error {
    Error::invalid_argument("Invalid arguments")
}

/// The arguments of a compaction by a worker.
struct Job {
    db_path: *const c_char,
    output_directory: *const c_char,
    input: *const c_char,
    input_len: usize,
    override_options: *const rocksdb_compaction_service_options_override_t,
}

impl Job {
    /// Runs the compaction.
    ///
    /// # Safety
    ///
    /// The fields and `output_len` are null or valid as `c.h` requires.
    unsafe fn run(
        &self,
        options: &OpenAndCompactOptions,
        output_len: *mut usize,
    ) -> Result<*mut c_char> {
        if self.db_path.is_null() || self.output_directory.is_null() || self.input.is_null() {
            return Err(invalid_arguments());
        }
        // SAFETY: guaranteed by the caller.
        unsafe {
            let overrides = maybe(self.override_options).ok_or_else(invalid_arguments)?;
            if let Some(error) = &overrides.refused {
                return Err(error.clone());
            }
            let output = open_and_compact(
                options,
                &crate::error::path(self.db_path),
                &text(self.output_directory),
                bytes(self.input, self.input_len),
                &overrides.options,
                &overrides.world,
            )?;
            // Programs may print the result, which is text except for its version.
            let mut terminated = output;
            terminated.push(0);
            if !output_len.is_null() {
                store(output_len, terminated.len() - 1);
            }
            Ok(malloc_bytes(&terminated))
        }
    }
}
