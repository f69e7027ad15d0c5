//! Ingestions and checkpoints over a catalog on a simulated disk: logs without content, memtables that are
//! never flushed, and only those jobs that a test registers.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cairn_format::key::InternalKey;
use cairn_format::names::{self, FileName};
use cairn_jobs::pick::InProgress;
use cairn_observe::BackgroundErrorReason;
use cairn_observe::FlushReason;
use cairn_options::{DbOptions, FamilyOptions, IngestExternalFileOptions};
use cairn_platform::FileSystem;
use cairn_platform::sync::{AtomicBool, AtomicUsize, Mutex, Ordering};
use cairn_sim::images::MODELS;
use cairn_sim::trace::Call;
use cairn_sim::{Fault, FaultPlan, FaultRule, SimWorld, Trigger};
use cairn_types::{Code, Error, FileNumber, KeyOrder, Result, SequenceNumber, ValueKind};
use cairn_version::manifest::{self, WriteFailed};

use super::capture::Capture;
use super::host::{Components, Host, JobHost, LogEnd, WriteHost};
use super::ingest::{Input, ingest};
use super::sst_writer::SstFileWriter;
use super::{checkpoint, kept};
use crate::catalog::create::NewFamily;
use crate::catalog::env::{CatalogEnv, Installed, LogState};
use crate::catalog::family::FamilyState;
use crate::catalog::tests::{DIR, Fixture, change, logged, viewed};
use crate::locks::Rank;
use crate::write::commit::{CommitPipeline, Lead};

/// A database without write path and jobs, which counts the calls of both.
struct FakeHost {
    it: Fixture,
    commits: CommitPipeline,
    busy: Mutex<BTreeMap<u32, InProgress>>,
    flushed: Mutex<Vec<String>>,
    log_syncs: AtomicUsize,
    scheduled: AtomicUsize,
    purges: AtomicUsize,
    in_doubt: AtomicBool,
}

impl FakeHost {
    fn new() -> Arc<FakeHost> {
        let it = Fixture::new(DbOptions::default());
        it.sim.fs.create_dir_all(Path::new("/out")).unwrap();
        it.sim.fs.sync_dir(Path::new("/")).unwrap();
        Arc::new(FakeHost {
            commits: CommitPipeline::new(Some(it.context.locks)),
            busy: Mutex::new(BTreeMap::from([(0, InProgress::default())])),
            flushed: Mutex::default(),
            log_syncs: AtomicUsize::new(0),
            scheduled: AtomicUsize::new(0),
            purges: AtomicUsize::new(0),
            in_doubt: AtomicBool::new(false),
            it,
        })
    }

    /// Creates a table outside of the database with these keys.
    fn external(&self, name: &str, keys: &[&[u8]]) -> PathBuf {
        let path = Path::new("/out").join(name);
        let (db, family) = (DbOptions::default(), FamilyOptions::default());
        let mut writer = SstFileWriter::new(&self.it.sim.world, &db, &family);
        writer.open(&path).unwrap();
        for key in keys {
            writer.put(key, b"value").unwrap();
        }
        writer.finish().unwrap();
        self.it.sim.fs.sync_dir(Path::new("/out")).unwrap();
        path
    }

    /// Ingests `files` into the default family.
    fn ingest(self: &Arc<Self>, files: &[PathBuf]) -> Result<()> {
        let options = IngestExternalFileOptions::default();
        let input = Input {
            family: self.it.default(),
            files: files.to_vec(),
            options,
            checksums: Vec::new(),
            checksum_functions: Vec::new(),
            replace: None,
            file_infos: Vec::new(),
        };
        ingest(self, vec![input])
    }

    /// Returns the names of the tables in the directory.
    fn tables(&self) -> Vec<String> {
        let mut names = self.it.sim.fs.list(Path::new(DIR)).unwrap();
        names.retain(|name| name.ends_with(".sst"));
        names
    }

    /// Makes the next call of this kind fail on files whose names end with this text.
    fn fail(&self, call: Call, name_end: &str) {
        self.it.sim.fs.set_plan(FaultPlan::new(vec![FaultRule {
            trigger: Trigger::Class {
                call,
                name_end: name_end.to_owned(),
                count: 0,
            },
            fault: Fault::InputOutput,
            lasts: 1,
        }]));
    }

    /// True if a write of the MANIFEST has failed.
    fn is_in_doubt(&self) -> bool {
        self.in_doubt.load(Ordering::Relaxed)
    }

    fn leads(&self) -> bool {
        !cfg!(debug_assertions) || self.it.context.locks.is_held(Rank::Lead)
    }
}

impl CatalogEnv for FakeHost {
    fn sync_logs_before(&self, log: FileNumber) -> Result<()> {
        self.it.logs.sync_logs_before(log)
    }

    fn log_state(&self) -> LogState {
        self.it.logs.log_state()
    }

    fn installed(&self, edit: &Installed<'_>, publish: impl FnOnce()) {
        self.it.logs.installed(edit, publish);
    }

    fn manifest_failed(&self, reason: BackgroundErrorReason, error: &Error) {
        self.in_doubt.store(true, Ordering::Relaxed);
        self.it.logs.manifest_failed(reason, error);
    }
}

impl WriteHost for FakeHost {
    fn check_writable(&self) -> Result<()> {
        Ok(())
    }

    fn lead_alone(&self) -> Result<Lead<'_>> {
        self.commits.lead_alone(|| Ok(()))
    }

    fn wait_for_log(&self) -> Result<()> {
        Ok(())
    }

    fn flush_wal(&self, sync: bool) -> Result<()> {
        assert!(self.leads(), "the end of the log is synced under the lead");
        self.log_syncs
            .fetch_add(usize::from(sync), Ordering::Relaxed);
        Ok(())
    }

    fn log_end(&self) -> LogEnd {
        assert!(self.leads(), "logs end only while no write is in progress");
        LogEnd {
            last: self.it.logs.log_state().last_sequence,
            needed: Vec::new(),
            reach: None,
        }
    }

    fn create_families_led(
        self: &Arc<Self>,
        _: Vec<NewFamily>,
    ) -> Result<Vec<Arc<FamilyState>>, WriteFailed> {
        let error = Error::not_supported("the test has one family");
        Err(WriteFailed::before(error))
    }

    fn record_families(&self, _: &[Arc<FamilyState>]) -> Result<()> {
        Err(Error::not_supported("the test has one family"))
    }
}

impl JobHost for FakeHost {
    fn flush(self: &Arc<Self>, families: &[Arc<FamilyState>]) -> Result<()> {
        let names = families.iter().map(|family| family.name().to_owned());
        self.flushed.lock().extend(names);
        Ok(())
    }

    fn flush_led(self: &Arc<Self>, families: &[Arc<FamilyState>], _: FlushReason) -> Result<()> {
        assert!(self.leads());
        self.flush(families)
    }

    fn flush_for_copy(self: &Arc<Self>, _: u64, _: bool) -> Result<()> {
        self.flush(&[self.it.default()])
    }

    fn with_inputs<T>(
        &self,
        family: &FamilyState,
        change: impl FnOnce(&mut InProgress) -> T,
    ) -> Option<T> {
        self.busy.lock().get_mut(&family.id()).map(change)
    }

    fn schedule_due(self: &Arc<Self>) {
        self.scheduled.fetch_add(1, Ordering::Relaxed);
    }

    fn purge(&self) {
        self.purges.fetch_add(1, Ordering::Relaxed);
        self.it.catalog.purge();
    }
}

impl Host for FakeHost {
    fn components(&self) -> Components<'_> {
        Components {
            context: &self.it.context,
            telemetry: &self.it.telemetry,
            settings: &self.it.settings,
            catalog: &self.it.catalog,
        }
    }

    fn while_open<T>(&self, work: impl FnOnce() -> T) -> Option<T> {
        Some(work())
    }

    fn opened_files(&self) -> Result<Capture> {
        Err(Error::not_supported(
            "the test database is open for writing",
        ))
    }
}

fn internal(key: &[u8]) -> InternalKey {
    InternalKey::new(key, SequenceNumber(1), ValueKind::Value)
}

/// After a crash at any operation, the tree has both tables or none.
#[test]
fn an_ingestion_is_atomic_across_crashes() {
    let host = FakeHost::new();
    let files = [
        host.external("a", &[b"a", b"c"]),
        host.external("b", &[b"d"]),
    ];
    let before = host.it.sim.fs.trace().len();
    host.ingest(&files).unwrap();
    assert_eq!(viewed(&host.it.default()).len(), 2);
    assert_eq!(host.log_syncs.load(Ordering::Relaxed), 1);
    let trace = host.it.sim.fs.trace();
    let mut states = [0, 0];
    for at in before..=trace.len() {
        for model in MODELS {
            for image in trace.images(at, model, 11) {
                let sim = SimWorld::on(image.clone(), 1);
                let tables = logged(image).remove("default").unwrap();
                assert!(tables.is_empty() || tables.len() == 2, "{model:?} at {at}");
                states[tables.len() / 2] += 1;
                for number in tables {
                    let path = Path::new(DIR).join(names::table(number));
                    assert!(sim.fs.status(&path).unwrap().len > 0, "{model:?} at {at}");
                }
            }
        }
    }
    assert!(states[0] > 0 && states[1] > 0, "{states:?}");
}

#[test]
fn an_ingestion_that_fails_before_the_manifest_leaves_nothing() {
    let host = FakeHost::new();
    let files = [host.external("a", &[b"a"]), host.external("b", &[b"d"])];
    for (call, name_end) in [
        (Call::Create, ".sst"),
        (Call::Sync, ".sst"),
        (Call::SyncDirectory, ""),
    ] {
        host.fail(call, name_end);
        let failed = host.ingest(&files).unwrap_err();
        assert_eq!(failed.code(), Code::IoError, "{call:?}");
        assert!(host.tables().is_empty(), "{call:?}: {:?}", host.tables());
        assert!(viewed(&host.it.default()).is_empty() && !host.is_in_doubt());
    }
    host.ingest(&files).unwrap();
    assert_eq!(host.tables().len(), 2);
}

/// If the MANIFEST may have the files, they stay where an opening finds them.
#[test]
fn an_ingestion_with_an_unknown_outcome_keeps_its_files() {
    let host = FakeHost::new();
    let files = [host.external("a", &[b"a"])];
    let current = manifest::current(&*host.it.sim.fs, Path::new(DIR));
    let manifest = FileName::Manifest(current.unwrap().unwrap());
    host.fail(Call::Sync, &manifest.to_string());
    assert_eq!(host.ingest(&files).unwrap_err().code(), Code::IoError);
    assert!(host.is_in_doubt() && viewed(&host.it.default()).is_empty());
    assert_eq!(host.tables().len(), 1);
}

#[test]
fn an_ingestion_flushes_only_memtables_that_its_files_overlap() {
    let host = FakeHost::new();
    let memtable = host.it.default().memtable();
    memtable.add(SequenceNumber(1), ValueKind::Value, b"m", b"1");
    host.it.logs.state.lock().last_sequence = SequenceNumber(1);
    host.ingest(&[host.external("a", &[b"a", b"c"])]).unwrap();
    assert!(host.flushed.lock().is_empty());
    host.ingest(&[host.external("b", &[b"l", b"n"])]).unwrap();
    assert_eq!(*host.flushed.lock(), ["default"]);
}

/// A file is not placed in a range of a level that a compaction is writing, and its reservation ends with the
/// ingestion.
#[test]
fn an_ingestion_avoids_the_range_of_a_running_compaction() {
    let host = FakeHost::new();
    let family = host.it.default();
    let running = host.with_inputs(&family, |busy| {
        busy.reserve(6, &internal(b"a"), &internal(b"z"))
    });
    host.ingest(&[host.external("a", &[b"c"])]).unwrap();
    let version = family.view().version.clone();
    let levels: Vec<usize> = version.files().map(|(level, _)| level).collect();
    assert!(!levels.contains(&6) && levels.len() == 1, "{levels:?}");
    assert_eq!(host.scheduled.load(Ordering::Relaxed), 1);
    host.with_inputs(&family, |busy| busy.remove(running.unwrap()));
    let (from, to) = (internal(b"a"), internal(b"z"));
    let reserved = host.with_inputs(&family, |busy| {
        let (from, to) = (from.as_bytes(), to.as_bytes());
        (0..7).any(|level| busy.writes(&KeyOrder::Bytewise, level, from, to))
    });
    assert_eq!(reserved, Some(false), "the reservation has ended");
}

#[test]
fn a_checkpoint_has_the_files_of_one_state() {
    let host = FakeHost::new();
    host.ingest(&[host.external("a", &[b"a"])]).unwrap();
    let ingested = viewed(&host.it.default());
    host.it.catalog.write_options_file().unwrap();
    let (fs, dir) = (&*host.it.sim.fs, Path::new("/copy"));
    checkpoint::create(&host, dir, 0).unwrap();
    assert_eq!(*host.flushed.lock(), ["default"]);
    assert!(!host.it.catalog.deletions.are_pinned());
    let number = manifest::current(fs, dir).unwrap().unwrap();
    let order = |_: &str, _: &str| Ok(KeyOrder::Bytewise);
    let copied = manifest::replay(fs, dir, number, &order).unwrap();
    let files = copied.families[0].version.files();
    let files: Vec<_> = files.map(|(_, file)| file.number).collect();
    assert_eq!(files, ingested);
    assert!(fs.exists(&dir.join(names::table(ingested[0]))).unwrap());
    let again = checkpoint::create(&host, dir, 0).unwrap_err();
    assert_eq!(again.code(), Code::InvalidArgument);
}

#[test]
fn files_that_become_obsolete_while_they_are_kept_are_deleted_with_the_last_pin() {
    let host = FakeHost::new();
    let (family, catalog) = (host.it.default(), &host.it.catalog);
    let number = {
        let file = host.it.table(b"a");
        let added = change(&[&file], &[]);
        catalog.install(&*host, &[(&family, &added)]).unwrap();
        file.number
    };
    let kept = (kept::keep_files(&*host), kept::keep_files(&*host));
    let removed = change(&[], &[number]);
    catalog.install(&*host, &[(&family, &removed)]).unwrap();
    kept::enable_deletions(&*host);
    drop(kept.0);
    assert!(host.it.exists(number) && host.purges.load(Ordering::Relaxed) == 0);
    drop(kept.1);
    assert!(!host.it.exists(number));
}
