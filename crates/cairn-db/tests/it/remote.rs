//! Remote compactions by a worker in the same process, and by workers that misbehave.

#![expect(clippy::unwrap_used, reason = "an absent value fails the test")]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use cairn_db::{
    CompactionServiceOptionsOverride, Db, OpenAndCompactOptions, Snapshot, open_and_compact,
};
use cairn_format::compaction_service::{Reply, Request};
use cairn_observe::listener::{CompactionJobInfo, EventListener, TableFileCreationInfo};
use cairn_observe::statistics::{Statistics, StatsLevel, Ticker};
use cairn_options::{
    BottommostLevelCompaction, Canceled, CompactRangeOptions, CompactionOptions, CompactionService,
    CompactionServiceJobInfo, CompactionServiceJobStatus as Status,
    CompactionServiceScheduleResponse, DbOptions, FamilyOptions, ReadOptions, Temperature,
    WaitForCompactOptions,
};
use cairn_platform::fs::FileMode;
use cairn_platform::sync::{Condvar, Mutex};
use cairn_platform::{FileSystem, World};
use cairn_sim::images::MODELS;
use cairn_sim::trace::Call;
use cairn_sim::{Fault, FaultPlan, FaultRule, SimWorld, Trigger};
use cairn_types::{Code, Error, Subcode};

use crate::basic::{db_options, open_with, small};
use crate::controls::files;
use crate::errors::failing;

type Entries = Vec<(Vec<u8>, Vec<u8>)>;
type Change = Box<dyn Fn(&mut Reply) + Send + Sync>;
type Work = dyn Fn(&Service, &[u8], &str) -> (Status, Vec<u8>) + Send + Sync;

/// A service whose worker is a function.
struct Service {
    world: World,
    overrides: CompactionServiceOptionsOverride,
    work: Box<Work>,
    inputs: Mutex<BTreeMap<String, Vec<u8>>>,
    installed: Mutex<Vec<Status>>,
    cancels: AtomicUsize,
    changed: Condvar,
}

impl Service {
    fn new(
        world: &World,
        family: &FamilyOptions,
        work: impl Fn(&Service, &[u8], &str) -> (Status, Vec<u8>) + Send + Sync + 'static,
    ) -> Arc<Service> {
        Arc::new(Service {
            world: world.clone(),
            overrides: CompactionServiceOptionsOverride::new(&DbOptions::default(), family),
            work: Box::new(work),
            inputs: Mutex::default(),
            installed: Mutex::default(),
            cancels: AtomicUsize::new(0),
            changed: Condvar::new(),
        })
    }

    /// Runs the job of `input` in the output directory `job`.
    fn run(&self, input: &[u8], job: &str) -> Result<Vec<u8>, Error> {
        let options = OpenAndCompactOptions::default();
        open_and_compact(
            &options,
            Path::new("/db"),
            job,
            input,
            &self.overrides,
            &self.world,
        )
    }

    fn honest(&self, input: &[u8], job: &str) -> (Status, Vec<u8>) {
        match self.run(input, job) {
            Ok(result) => (Status::Success, result),
            Err(error) => panic!("the worker failed: {error}"),
        }
    }

    /// True if each job was installed or rejected once, with `status`.
    fn all_ended_with(&self, status: Status) -> bool {
        let installed = self.installed.lock();
        installed.len() == self.jobs() && installed.iter().all(|it| *it == status)
    }

    fn jobs(&self) -> usize {
        self.inputs.lock().len()
    }
}

impl CompactionService for Service {
    fn name(&self) -> &str {
        "test"
    }

    fn schedule(
        &self,
        info: &CompactionServiceJobInfo,
        input: &[u8],
    ) -> CompactionServiceScheduleResponse {
        assert_eq!((&*info.db_name, &*info.family_name), ("/db", "default"));
        let mut inputs = self.inputs.lock();
        let id = format!("job{}", inputs.len());
        inputs.insert(id.clone(), input.to_vec());
        CompactionServiceScheduleResponse {
            scheduled_job_id: id,
            status: Status::Success,
        }
    }

    fn wait(&self, id: &str) -> (Status, Vec<u8>) {
        let input = self.inputs.lock()[id].clone();
        (self.work)(self, &input, id)
    }

    fn cancel_awaiting_jobs(&self) {
        self.cancels.fetch_add(1, Ordering::Relaxed);
        let _inputs = self.inputs.lock();
        self.changed.notify_all();
    }

    fn on_installation(&self, id: &str, status: Status) {
        assert!(self.inputs.lock().contains_key(id));
        self.installed.lock().push(status);
    }
}

fn open_remote(world: &World, family: &FamilyOptions, service: &Arc<Service>) -> Db {
    let options = DbOptions {
        compaction_service: Some(service.clone()),
        statistics: Arc::new(Statistics::new(StatsLevel::All)).into(),
        ..db_options()
    };
    open_at(world, family, &options).unwrap()
}

fn open_at(world: &World, family: &FamilyOptions, options: &DbOptions) -> Result<Db, Error> {
    open_with(world, options, family)
}

/// Writes three overlapping tables with deletions, range deletions and a snapshot between them, and compacts them.
fn load(db: &Db) {
    let _snapshots = write(db);
    compact(db).unwrap();
}

fn write(db: &Db) -> Vec<Snapshot> {
    let mut snapshots = Vec::new();
    for round in 0..3_u32 {
        for n in 0..600_u32 {
            let key = format!("key{:05}", n * 7919 % 600);
            match (n + round) % 11 {
                0 => db.delete(key.as_bytes()).unwrap(),
                _ => db
                    .put(key.as_bytes(), format!("value {round} {n}").as_bytes())
                    .unwrap(),
            }
        }
        let begin = format!("key{:05}", round * 100 + 20);
        let end = format!("key{:05}", round * 100 + 60);
        db.delete_range(begin.as_bytes(), end.as_bytes()).unwrap();
        db.flush().unwrap();
        if round == 1 {
            snapshots.push(db.snapshot());
        }
    }
    snapshots
}

fn compact(db: &Db) -> Result<(), Error> {
    let options = CompactRangeOptions {
        bottommost_level_compaction: BottommostLevelCompaction::Force,
        ..CompactRangeOptions::default()
    };
    db.compact_range(None, None, &options)
}

fn contents(db: &Db) -> Entries {
    let mut iter = db.iter();
    iter.seek_to_first();
    let mut all = Vec::new();
    while iter.valid() {
        all.push((iter.key().to_vec(), iter.value().to_vec()));
        iter.next();
    }
    iter.status().unwrap();
    all
}

fn manual() -> FamilyOptions {
    FamilyOptions {
        disable_auto_compactions: true,
        ..small()
    }
}

/// The contents after the same writes with local compactions.
fn expected(family: &FamilyOptions) -> (Entries, Vec<u64>) {
    let world = World::in_memory();
    let db = open_at(&world, family, &db_options()).unwrap();
    load(&db);
    let found = (contents(&db), files(&db, 7));
    db.close().unwrap();
    found
}

fn ticker(db: &Db, ticker: Ticker) -> u64 {
    db.statistics().expect("statistics").ticker(ticker)
}

#[test]
fn a_worker_compacts_like_the_database() {
    let (world, family) = (World::in_memory(), manual());
    let service = Service::new(&world, &family, Service::honest);
    let db = open_remote(&world, &family, &service);
    load(&db);
    assert!((contents(&db), files(&db, 7)) == expected(&family));
    assert!(service.jobs() > 0 && service.all_ended_with(Status::Success));
    assert!(ticker(&db, Ticker::RemoteCompactReadBytes) > 0);
    assert!(ticker(&db, Ticker::RemoteCompactWriteBytes) > 0);
    assert_eq!(
        db.property_number("rocksdb.num-running-remote-compactions"),
        Some(0)
    );
    assert!(world.fs.list(Path::new("/db/job0")).unwrap().is_empty());
    db.verify_checksum(&ReadOptions::default()).unwrap();
    db.close().unwrap();
    let db = open_at(&world, &family, &db_options()).unwrap();
    assert!(contents(&db) == expected(&family).0);
    db.close().unwrap();
}

/// The worker does not know the temperature that was asked for.
#[test]
fn a_compaction_of_files_by_a_worker_has_the_temperature_asked_for() {
    let (world, family) = (World::in_memory(), manual());
    let service = Service::new(&world, &family, Service::honest);
    let db = open_remote(&world, &family, &service);
    drop(write(&db));
    let (jobs, before) = (service.jobs(), contents(&db));
    let names = |db: &Db| -> Vec<String> {
        let tables = db.live_files_metadata().into_iter();
        tables.map(|table| table.relative_filename).collect()
    };
    let inputs = names(&db);
    let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
    let options = CompactionOptions {
        output_temperature_override: Temperature::Cold,
        ..CompactionOptions::default()
    };
    db.compact_files(&options, &inputs, 6, None).unwrap();
    assert!(service.jobs() > jobs && service.all_ended_with(Status::Success));
    let tables = db.live_files_metadata();
    assert!(!tables.is_empty());
    for table in &tables {
        assert_eq!(table.temperature, Temperature::Cold.number());
    }
    assert!(contents(&db) == before);
    db.close().unwrap();
}

/// Counts the begins and ends of compactions.
#[derive(Default)]
struct Reported {
    begun: AtomicUsize,
    ended: AtomicUsize,
}

impl EventListener for Reported {
    fn on_compaction_begin(&self, _: &CompactionJobInfo) {
        self.begun.fetch_add(1, Ordering::Relaxed);
    }

    fn on_compaction_completed(&self, _: &CompactionJobInfo) {
        self.ended.fetch_add(1, Ordering::Relaxed);
    }
}

/// Regression: listeners were notified of the begin of a compaction for which no request could be made, and not of
/// its end.
#[test]
fn a_compaction_without_a_request_is_not_reported_to_begin() {
    let sim = SimWorld::new(1);
    let service = Service::new(&sim.world, &manual(), Service::honest);
    let reported = Arc::new(Reported::default());
    let mut options = DbOptions {
        compaction_service: Some(service),
        ..db_options()
    };
    options.listeners.push(reported.clone());
    let db = open_at(&sim.world, &manual(), &options).unwrap();
    drop(write(&db));
    // The directory is listed to find the OPTIONS file.
    sim.fs
        .set_plan(failing(Call::List, "db", Fault::InputOutput, 1));
    compact(&db).unwrap_err();
    assert_eq!(sim.fs.injected(), 1);
    let counts = || [&reported.begun, &reported.ended].map(|count| count.load(Ordering::Relaxed));
    assert_eq!(counts(), [0, 0]);
    compact(&db).unwrap();
    let [begun, ended] = counts();
    assert!(begun > 0 && begun == ended);
}

/// Regression: files whose entries keep their sequence numbers were passed to the service again and again.
#[test]
fn a_worker_does_not_compact_files_that_cannot_change() {
    let world = World::in_memory();
    let family = FamilyOptions {
        preserve_internal_time_seconds: 1 << 20,
        level0_file_num_compaction_trigger: 100,
        ..small()
    };
    let service = Service::new(&world, &family, Service::honest);
    let db = open_remote(&world, &family, &service);
    drop(write(&db));
    compact(&db).unwrap();
    let jobs = service.jobs();
    assert!(jobs > 0);
    for _ in 0..3 {
        let snapshot = db.snapshot();
        db.put(b"other", b"value").unwrap();
        drop(snapshot);
        db.wait_for_compact(&WaitForCompactOptions::default())
            .unwrap();
    }
    assert_eq!(service.jobs(), jobs);
    db.close().unwrap();
}

#[test]
fn automatic_compactions_and_subcompactions_are_remote() {
    let family = small();
    let world = World::in_memory();
    let service = Service::new(&world, &family, Service::honest);
    let options = DbOptions {
        compaction_service: Some(service.clone()),
        max_subcompactions: 4,
        ..db_options()
    };
    let db = open_at(&world, &family, &options).unwrap();
    for n in 0..20_000_u32 {
        let key = format!("key{:05}", n * 7919 % 5000);
        let value = format!("{n} {}", "x".repeat((n % 50) as usize));
        db.put(key.as_bytes(), value.as_bytes()).unwrap();
    }
    db.flush().unwrap();
    db.wait_for_compact(&WaitForCompactOptions::default())
        .unwrap();
    compact(&db).unwrap();
    let ranges = service
        .inputs
        .lock()
        .values()
        .filter(|input| {
            let request = Request::decode(input).unwrap();
            request.has_begin || request.has_end
        })
        .count();
    assert!(
        service.jobs() > 4 && ranges > 1,
        "{} {ranges}",
        service.jobs()
    );
    assert!(service.all_ended_with(Status::Success));
    assert_eq!(contents(&db).len(), 5000);
    db.verify_checksum(&ReadOptions::default()).unwrap();
    db.close().unwrap();
}

/// Loads a database whose worker does `work`, and compares it with one without a worker. All results must be
/// installed or rejected with `status`.
fn compare(
    status: Status,
    work: impl Fn(&Service, &[u8], &str) -> (Status, Vec<u8>) + Send + Sync + 'static,
) {
    let (world, family) = (World::in_memory(), manual());
    let service = Service::new(&world, &family, work);
    let db = open_remote(&world, &family, &service);
    load(&db);
    assert!((contents(&db), files(&db, 7)) == expected(&family));
    assert!(db.background_error().is_none());
    db.verify_checksum(&ReadOptions::default()).unwrap();
    db.close().unwrap();
    let db = open_at(&world, &family, &db_options()).unwrap();
    assert!(contents(&db) == expected(&family).0);
    db.close().unwrap();
    assert!(service.jobs() > 0 && service.all_ended_with(status));
}

/// Changes a correct result.
fn with_changed(status: Status, change: impl Fn(&mut Reply) + Send + Sync + 'static) {
    compare(status, move |service, input, job| {
        let (status, result) = service.honest(input, job);
        let mut reply = Reply::decode(&result).unwrap();
        change(&mut reply);
        (status, reply.encode())
    });
}

#[test]
fn invalid_results_are_replaced_by_local_compactions() {
    let changes: Vec<Change> = vec![
        Box::new(|reply| reply.output_level = 3),
        Box::new(|reply| reply.output_files.clear()),
        Box::new(|reply| reply.output_files[0].file_size += 1),
        Box::new(|reply| reply.output_files[0].file_name = b"../000009.sst".to_vec()),
        Box::new(|reply| reply.output_files[0].file_name = b"CURRENT".to_vec()),
        Box::new(|reply| reply.output_files[0].smallest = b"short".to_vec()),
        Box::new(|reply| reply.output_files[0].smallest = b"a\x01\0\0\0\0\0\0\0".to_vec()),
        Box::new(|reply| reply.output_files[0].largest = b"z\x01\0\0\0\0\0\0\0".to_vec()),
        Box::new(|reply| {
            let largest = reply.output_files[0].largest.clone();
            reply.output_files[0].smallest = largest;
        }),
        Box::new(|reply| reply.output_files[0].largest_seqno = 1 << 40),
        Box::new(|reply| reply.output_files[0].smallest_seqno = 1 << 40),
        Box::new(|reply| reply.output_files[0].unique_id = [1, 2]),
        Box::new(|reply| reply.output_files[0].is_proximal_level_output = true),
        Box::new(|reply| {
            let file = reply.output_files[0].clone();
            reply.output_files.push(file);
        }),
        Box::new(|reply| reply.output_path = b"/db".to_vec()),
        Box::new(|reply| reply.output_path = b"/db/job0/../".to_vec()),
        Box::new(|reply| reply.output_path = vec![0xff]),
        Box::new(|reply| reply.stats.num_input_records -= 1),
    ];
    for change in changes {
        with_changed(Status::UseLocal, change);
    }
    with_changed(Status::Success, |_| {});
}

#[test]
fn damaged_results_and_tables_are_replaced_by_local_compactions() {
    compare(Status::UseLocal, |_, _, _| (Status::Success, Vec::new()));
    compare(Status::UseLocal, |_, _, _| {
        (Status::Success, b"\x01\0\0\0status={".to_vec())
    });
    compare(Status::UseLocal, |service, input, job| {
        let (status, mut result) = service.honest(input, job);
        result.truncate(result.len() / 2);
        (status, result)
    });
    // A table that was truncated or damaged after it was described.
    for cut in [false, true] {
        compare(Status::UseLocal, move |service, input, job| {
            let (status, result) = service.honest(input, job);
            let reply = Reply::decode(&result).unwrap();
            let name = String::from_utf8(reply.output_files[0].file_name.clone()).unwrap();
            let path = Path::new("/db").join(job).join(name);
            let fs = &service.world.fs;
            let mut content = read(fs, &path);
            match cut {
                true => content.truncate(content.len() - 1),
                false => {
                    let last = content.len() - 10;
                    content[last] ^= 0xff;
                }
            }
            fs.remove(&path).unwrap();
            let file = fs.create(&path, FileMode::default()).unwrap();
            file.append(&content).unwrap();
            file.close().unwrap();
            (status, result)
        });
    }
}

fn read(fs: &Arc<dyn FileSystem>, path: &Path) -> Vec<u8> {
    let file = fs.open(path, FileMode::default()).unwrap();
    let mut content = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
    let len = file.read_up_to_end(0, &mut content).unwrap();
    content.truncate(len);
    content
}

/// A service that fails makes compactions fail, and loses nothing.
#[test]
fn failures_are_reported_and_lose_nothing() {
    let missing = |service: &Service, input: &[u8], job: &str| {
        let (status, result) = service.honest(input, job);
        let reply = Reply::decode(&result).unwrap();
        let name = String::from_utf8(reply.output_files[0].file_name.clone()).unwrap();
        let path = Path::new("/db").join(job).join(name);
        service.world.fs.remove(&path).unwrap();
        (status, result)
    };
    let reported = |service: &Service, input: &[u8], job: &str| {
        let (_, result) = service.honest(input, job);
        let mut reply = Reply::decode(&result).unwrap();
        (reply.status.code, reply.status.message) = (11, b"too busy".to_vec());
        (Status::Failure, reply.encode())
    };
    let cases: Vec<(Box<Work>, Code)> = vec![
        (
            Box::new(|_, _, _| (Status::Failure, Vec::new())),
            Code::Incomplete,
        ),
        (
            Box::new(|_, _, _| (Status::Aborted, Vec::new())),
            Code::Aborted,
        ),
        (Box::new(missing), Code::IoError),
        (Box::new(reported), Code::Busy),
    ];
    for (work, code) in cases {
        let (world, family) = (World::in_memory(), manual());
        let service = Service::new(&world, &family, work);
        let db = open_remote(&world, &family, &service);
        write(&db);
        let error = compact(&db).unwrap_err();
        assert_eq!(error.code(), code, "{error}");
        assert!(contents(&db) == expected(&family).0);
        // The error may have stopped writes; closing reports nothing new.
        db.close().ok();
        let db = open_at(&world, &family, &db_options()).unwrap();
        assert!(contents(&db) == expected(&family).0);
        compact(&db).unwrap();
        db.close().unwrap();
    }
}

/// Regression: the database became read-only, as after a panic.
#[test]
fn an_aborted_job_stops_no_writes_without_paranoid_checks() {
    let (world, family) = (World::in_memory(), manual());
    let service = Service::new(&world, &family, |_, _, _| (Status::Aborted, Vec::new()));
    let options = DbOptions {
        compaction_service: Some(service),
        paranoid_checks: false,
        ..db_options()
    };
    let db = open_at(&world, &family, &options).unwrap();
    drop(write(&db));
    assert_eq!(compact(&db).unwrap_err().code(), Code::Aborted);
    assert_eq!(db.background_error_state(), None);
    db.put(b"still", b"writable").unwrap();
    db.close().unwrap();
}

#[test]
fn a_job_can_be_done_twice_and_its_result_be_used_once() {
    // The first result is used again for the next job: its files are gone, or are not those of the job.
    let first: Mutex<Option<Vec<u8>>> = Mutex::default();
    let (world, family) = (World::in_memory(), manual());
    let service = Service::new(&world, &family, move |service, input, job| {
        let mut first = first.lock();
        if let Some(result) = &*first {
            return (Status::Success, result.clone());
        }
        service.run(input, "discarded").unwrap();
        let (status, result) = service.honest(input, job);
        *first = Some(result.clone());
        (status, result)
    });
    let db = open_remote(&world, &family, &service);
    write(&db);
    let before = contents(&db);
    let _ = compact(&db);
    db.put(b"key00000", b"new").ok();
    let _ = compact(&db);
    db.close().ok();
    let db = open_at(&world, &family, &db_options()).unwrap();
    let mut after = contents(&db);
    after.retain(|(key, _)| key != b"key00000");
    let mut before = before;
    before.retain(|(key, _)| key != b"key00000");
    assert!(after == before);
    db.close().unwrap();
}

#[test]
fn a_closing_database_cancels_its_jobs() {
    let (world, family) = (World::in_memory(), manual());
    let service = Service::new(&world, &family, |service, _, _| {
        let mut inputs = service.inputs.lock();
        while service.cancels.load(Ordering::Relaxed) == 0 {
            service.changed.wait(&mut inputs);
        }
        (Status::Aborted, Vec::new())
    });
    let db = open_remote(&world, &family, &service);
    write(&db);
    std::thread::scope(|scope| {
        let compacting = scope.spawn(|| compact(&db));
        while db.property_number("rocksdb.num-running-remote-compactions") != Some(1) {
            std::thread::yield_now();
        }
        db.close().unwrap();
        assert!(compacting.join().unwrap().is_err());
    });
    assert!(service.installed.lock().is_empty());
    let db = open_at(&world, &family, &db_options()).unwrap();
    assert!(contents(&db) == expected(&family).0);
    db.close().unwrap();
}

#[test]
fn a_late_result_is_not_installed_in_a_closing_database() {
    let (world, family) = (World::in_memory(), manual());
    let service = Service::new(&world, &family, |service, input, job| {
        let done = service.honest(input, job);
        let mut inputs = service.inputs.lock();
        while service.cancels.load(Ordering::Relaxed) == 0 {
            service.changed.wait(&mut inputs);
        }
        done
    });
    let db = open_remote(&world, &family, &service);
    write(&db);
    std::thread::scope(|scope| {
        let compacting = scope.spawn(|| compact(&db));
        while db.property_number("rocksdb.num-running-remote-compactions") != Some(1) {
            std::thread::yield_now();
        }
        db.close().unwrap();
        assert!(compacting.join().unwrap().is_err());
    });
    assert_eq!(*service.installed.lock(), [Status::Failure]);
    let db = open_at(&world, &family, &db_options()).unwrap();
    assert!(contents(&db) == expected(&family).0);
    db.close().unwrap();
}

#[test]
fn a_service_may_use_the_database() {
    let (world, family) = (World::in_memory(), manual());
    let slot: Arc<Mutex<Option<std::sync::Weak<Db>>>> = Arc::default();
    let used = slot.clone();
    let service = Service::new(&world, &family, move |service, input, job| {
        let db = used
            .lock()
            .as_ref()
            .and_then(std::sync::Weak::upgrade)
            .unwrap();
        db.put(b"key00000", b"from the service").unwrap();
        assert!(db.get(b"key00000").unwrap().is_some());
        assert_eq!(db.close().unwrap_err().code(), Code::Busy);
        service.honest(input, job)
    });
    let db = Arc::new(open_remote(&world, &family, &service));
    *slot.lock() = Some(Arc::downgrade(&db));
    write(&db);
    compact(&db).unwrap();
    assert!(service.all_ended_with(Status::Success));
    assert_eq!(&*db.get(b"key00000").unwrap().unwrap(), b"from the service");
    db.close().unwrap();
}

/// Requests that a worker refuses, without changing the database.
#[test]
fn a_worker_refuses_requests_that_it_cannot_serve() {
    type Case = (fn(&mut Request), Code);
    let requests: Vec<Case> = vec![
        (
            |request| request.min_manifest_file_size += 1 << 20,
            Code::Incomplete,
        ),
        (
            |request| request.min_manifest_file_number += 1,
            Code::Incomplete,
        ),
        (|request| request.options_file_number = 999, Code::NotFound),
        (
            |request| request.family = b"other".to_vec(),
            Code::InvalidArgument,
        ),
        (|request| request.input_files.clear(), Code::InvalidArgument),
        (
            |request| request.input_files.push(b"000999.sst".to_vec()),
            Code::InvalidArgument,
        ),
        (
            |request| request.input_files.push(b"../CURRENT".to_vec()),
            Code::InvalidArgument,
        ),
        (|request| request.output_level = -1, Code::InvalidArgument),
        (|request| request.output_level = 99, Code::InvalidArgument),
        (
            |request| {
                (request.has_begin, request.has_end) = (true, true);
                (request.begin, request.end) = (b"z".to_vec(), b"a".to_vec());
            },
            Code::InvalidArgument,
        ),
    ];
    compare(Status::Success, move |service, input, job| {
        for (change, code) in &requests {
            let mut request = Request::decode(input).unwrap();
            change(&mut request);
            let error = service.run(&request.encode(), job).unwrap_err();
            assert_eq!(error.code(), *code, "{error}");
        }
        for len in 0..input.len() {
            // A truncated request may still be valid, with fewer members.
            let _ = service.run(&input[..len], "truncated");
        }
        for dir in ["", ".", "/db/"] {
            let error = service.run(input, dir).unwrap_err();
            assert_eq!(error.code(), Code::InvalidArgument, "{error}");
        }
        let canceled = Canceled::new();
        canceled.cancel();
        let options = OpenAndCompactOptions {
            canceled,
            ..OpenAndCompactOptions::default()
        };
        let error = open_and_compact(
            &options,
            Path::new("/db"),
            job,
            input,
            &service.overrides,
            &service.world,
        )
        .unwrap_err();
        assert_eq!(error.subcode(), Subcode::ManualCompactionPaused);
        service.honest(input, job)
    });
}

#[test]
fn outputs_of_an_earlier_session_are_deleted() {
    let (world, family) = (World::in_memory(), manual());
    let service = Service::new(&world, &family, |service, input, job| {
        let (status, result) = service.honest(input, job);
        assert!(
            service
                .world
                .fs
                .exists(&Path::new("/db/session_tmp").join(job))
                .unwrap()
        );
        service.run(input, "left").unwrap();
        (status, result)
    });
    let options = DbOptions {
        compaction_service: Some(service.clone()),
        use_session_tmp_dir_for_remote_compaction: true,
        ..db_options()
    };
    let db = open_at(&world, &family, &options).unwrap();
    load(&db);
    assert!(service.all_ended_with(Status::Success));
    assert!(world.fs.exists(Path::new("/db/session_tmp/left")).unwrap());
    db.close().unwrap();
    let db = open_at(&world, &family, &options).unwrap();
    assert!(
        world
            .fs
            .list(Path::new("/db/session_tmp"))
            .unwrap()
            .is_empty()
    );
    assert!(contents(&db) == expected(&family).0);
    db.close().unwrap();
}

/// A worker on the simulated disk, and a database with its tables before they are compacted.
fn simulated(seed: u64) -> (SimWorld, Arc<Service>, Db) {
    let (sim, family) = (SimWorld::new(seed), manual());
    let service = Service::new(&sim.world, &family, |service, input, job| {
        match service.run(input, job) {
            Ok(result) => (Status::Success, result),
            Err(_) => (Status::UseLocal, Vec::new()),
        }
    });
    let db = open_remote(&sim.world, &family, &service);
    write_small(&db);
    (sim, service, db)
}

fn write_small(db: &Db) {
    for round in 0..2_u8 {
        for n in 0..20_u8 {
            // No zeros: the simulated disk may show blocks of a removed log in the MANIFEST, where a header of zeros is
            // reported as damage.
            db.put(&[b'k', n], &[round + 1; 50]).unwrap();
        }
        db.delete(&[b'k', round]).unwrap();
        db.flush().unwrap();
    }
}

fn small_contents() -> Entries {
    let world = World::in_memory();
    let db = open_at(&world, &manual(), &db_options()).unwrap();
    write_small(&db);
    contents(&db)
}

#[test]
fn a_crash_during_a_remote_compaction_loses_nothing() {
    let (sim, service, db) = simulated(21);
    let before = sim.fs.trace().len();
    compact(&db).unwrap();
    assert!(service.all_ended_with(Status::Success));
    let trace = sim.fs.trace();
    let wanted = small_contents();
    let mut replay = trace.replay();
    let mut images = 0;
    for at in before..=trace.len() {
        while replay.at() < at && replay.step() {}
        for model in MODELS {
            for image in replay.images(model, at as u64).take(2) {
                images += 1;
                let sim = SimWorld::on(image, 1);
                let db = open_at(&sim.world, &manual(), &db_options()).unwrap();
                assert!(contents(&db) == wanted, "{model:?} at {at}");
                db.verify_checksum(&ReadOptions::default()).unwrap();
                // Tables that are in no version are deleted.
                let tables = sim.world.fs.list(Path::new("/db")).unwrap();
                let tables = tables.iter().filter(|name| name.ends_with(".sst")).count() as u64;
                assert_eq!(
                    tables,
                    files(&db, 7).iter().sum::<u64>(),
                    "{model:?} at {at}"
                );
                db.close().unwrap();
            }
        }
    }
    assert!(images > 50, "{images} images");
}

#[test]
fn an_error_during_a_remote_compaction_loses_nothing() {
    let count = {
        let (sim, _, db) = simulated(22);
        let before = sim.fs.operations();
        compact(&db).unwrap();
        sim.fs.operations() - before
    };
    let wanted = small_contents();
    let (mut failures, mut local) = (0, 0);
    for number in 0..count {
        let lasts = 1 + number % 2 * 2;
        let (sim, service, db) = simulated(22);
        let rule = FaultRule {
            trigger: Trigger::Operation(sim.fs.operations() + number),
            fault: Fault::InputOutput,
            lasts,
        };
        sim.fs.set_plan(FaultPlan::new(vec![rule]));
        let done = compact(&db);
        sim.fs.set_plan(FaultPlan::default());
        failures += usize::from(done.is_err());
        local += usize::from(!service.all_ended_with(Status::Success));
        assert!(contents(&db) == wanted, "{number}: {done:?}");
        // The error may have made the database read-only.
        db.close().ok();
        let db = open_at(&sim.world, &manual(), &db_options()).unwrap();
        assert!(contents(&db) == wanted, "{number}: {done:?}");
        db.verify_checksum(&ReadOptions::default()).unwrap();
        db.close().unwrap();
    }
    assert!(
        failures > 5 && local > 5,
        "{failures} failures, {local} local"
    );
}

/// A listener that cancels a compaction when its second table is complete.
struct CancelAtSecond {
    canceled: Canceled,
    tables: AtomicUsize,
}

impl EventListener for CancelAtSecond {
    fn on_table_file_created(&self, _info: &TableFileCreationInfo) {
        if self.tables.fetch_add(1, Ordering::Relaxed) == 1 {
            self.canceled.cancel();
        }
    }
}

#[test]
fn an_interrupted_compaction_is_resumed() {
    for damage in [false, true] {
        let family = FamilyOptions {
            target_file_size_base: 8 << 10,
            ..manual()
        };
        let world = World::in_memory();
        let resumed = Arc::new(Statistics::new(StatsLevel::All));
        let statistics = resumed.clone();
        let service = Service::new(&world, &family, move |service, input, job| {
            let canceled = Canceled::new();
            let mut options = OpenAndCompactOptions {
                canceled: canceled.clone(),
                allow_resumption: true,
                ..OpenAndCompactOptions::default()
            };
            let mut overrides = service.overrides.clone();
            let listener = CancelAtSecond {
                canceled,
                tables: AtomicUsize::new(0),
            };
            overrides.listeners.push(Arc::new(listener));
            let path = Path::new("/db");
            let run = |options: &OpenAndCompactOptions, overrides| {
                open_and_compact(options, path, job, input, overrides, &service.world)
            };
            let error = run(&options, &overrides).unwrap_err();
            assert_eq!(error.subcode(), Subcode::ManualCompactionPaused);
            let dir = path.join(job);
            let fs = &service.world.fs;
            let tables = |fs: &Arc<dyn FileSystem>| {
                let names = fs.list(&dir).unwrap();
                names.iter().filter(|name| name.ends_with(".sst")).count()
            };
            assert!(tables(fs) >= 2);
            if damage {
                let names = fs.list(&dir).unwrap();
                let first = names.iter().find(|name| name.ends_with(".sst")).unwrap();
                fs.remove(&dir.join(first)).unwrap();
            }
            options.canceled = Canceled::default();
            let mut overrides = service.overrides.clone();
            overrides.statistics = statistics.clone().into();
            let result = run(&options, &overrides).unwrap();
            let reply = Reply::decode(&result).unwrap();
            assert_eq!(tables(fs), reply.output_files.len());
            assert!(reply.output_files.len() > 2);
            (Status::Success, result)
        });
        let db = open_remote(&world, &family, &service);
        // Larger values, for several outputs.
        for round in 0..3_u32 {
            for n in 0..2_000_u32 {
                let key = format!("key{n:05}");
                let seed = u64::from(n * 3 + round + 1);
                let words = (1..13_u64).map(|i| {
                    (seed * i)
                        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                        .rotate_left(29)
                });
                let value: Vec<u8> = words
                    .flat_map(|word| word.wrapping_mul(word | 1).to_le_bytes())
                    .collect();
                db.put(key.as_bytes(), &value).unwrap();
            }
            db.delete_range(b"key00050", format!("key{:05}", 1_000 + round).as_bytes())
                .unwrap();
            db.put(b"key00100", b"between").unwrap();
            db.flush().unwrap();
        }
        let before = contents(&db);
        let snapshot = db.snapshot();
        let options = CompactRangeOptions {
            bottommost_level_compaction: BottommostLevelCompaction::Skip,
            ..CompactRangeOptions::default()
        };
        db.compact_range(None, None, &options).unwrap();
        drop(snapshot);
        assert!(service.jobs() > 0 && service.all_ended_with(Status::Success));
        assert!(contents(&db) == before);
        db.verify_checksum(&ReadOptions::default()).unwrap();
        db.close().unwrap();
        assert_eq!(
            resumed.ticker(Ticker::RemoteCompactResumedBytes) > 0,
            !damage
        );
    }
}
