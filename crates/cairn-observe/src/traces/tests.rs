//! Tests of the recorders: which lookups and operations are recorded, and failures of the writer.

use std::path::Path;

use cairn_format::trace::block_cache::{Access, CacheCaller, NO_LEVEL, TracedBlock, WriterVersion};
use cairn_format::trace::io::IoOperation;
use cairn_format::trace::{METADATA_LEN, Metadata};
use cairn_platform::sync::{Arc, Mutex};
use cairn_platform::{Clock, World};
use cairn_types::{Code, Error, Result};

use super::{BlockCacheTracer, IoTracer, SampledTraceOptions, TraceWriter, is_in_writer};
use crate::files::counted;
use crate::logger::Logger;

const VERSION: WriterVersion = WriterVersion {
    major: 11,
    minor: 12,
};

/// The calls that a [`Probe`] received.
#[derive(Default)]
struct Probed {
    bytes: Vec<u8>,
    closed: bool,
}

/// Fails, or panics, at the write with this number, from 0.
#[derive(Default)]
struct Probe {
    seen: Arc<Mutex<Probed>>,
    writes: usize,
    fails_at: Option<usize>,
    panics_at: Option<usize>,
    fails_close: bool,
}

impl TraceWriter for Probe {
    fn write(&mut self, record: &[u8]) -> Result<()> {
        assert!(is_in_writer());
        let number = self.writes;
        self.writes += 1;
        assert_ne!(self.panics_at, Some(number), "planned");
        if self.fails_at == Some(number) {
            return Err(Error::io_text("planned"));
        }
        self.seen.lock().bytes.extend_from_slice(record);
        Ok(())
    }
    fn file_size(&self) -> u64 {
        self.seen.lock().bytes.len() as u64
    }
    fn close(&mut self) -> Result<()> {
        self.seen.lock().closed = true;
        match self.fails_close {
            false => Ok(()),
            true => Err(Error::io_text("planned at close")),
        }
    }
}

fn clock() -> Arc<dyn Clock> {
    World::in_memory().clock
}

fn info() -> Arc<Logger> {
    Arc::new(Logger::silent())
}

/// A recorder with a trace that was started with `probe`.
fn started(options: &SampledTraceOptions, probe: Probe) -> BlockCacheTracer {
    let tracer = BlockCacheTracer::new(clock());
    let start = tracer.start(&info(), VERSION, options, || Ok(Box::new(probe)));
    start.expect("it starts");
    tracer
}

fn access(block_key: &[u8]) -> Access<'_> {
    Access {
        block_key,
        block: TracedBlock::Data,
        block_size: 1,
        family: 0,
        family_name: b"default",
        level: NO_LEVEL,
        file: 7,
        caller: CacheCaller::Iterator,
        is_hit: false,
        no_insert: false,
        get: None,
    }
}

/// Calls `each` with the kind and payload of each record after the header.
fn each_record(bytes: &[u8], mut each: impl FnMut(u8, &[u8])) {
    let mut rest = bytes;
    let mut is_first = true;
    while !rest.is_empty() {
        let metadata = Metadata::decode(rest).expect("complete");
        let (payload, after) = rest[METADATA_LEN..].split_at(metadata.payload_len as usize);
        match is_first {
            true => assert_eq!(WriterVersion::decode(payload), Ok(VERSION)),
            false => each(metadata.kind, payload),
        }
        (is_first, rest) = (false, after);
    }
}

/// The keys of the blocks in a trace.
fn block_keys(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut keys = Vec::new();
    each_record(bytes, |kind, payload| {
        let access = Access::decode(kind, payload).expect("a lookup");
        keys.push(access.block_key.to_vec());
    });
    keys
}

/// The operations in a trace, with their files and statuses.
fn operations(bytes: &[u8]) -> Vec<(String, String, String)> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut all = Vec::new();
    each_record(bytes, |kind, payload| {
        let one = IoOperation::decode(kind, payload).expect("an operation");
        all.push((text(one.operation), text(one.file), text(one.status)));
    });
    all
}

#[test]
fn a_trace_starts_once_and_its_end_is_repeatable() {
    let tracer = BlockCacheTracer::new(clock());
    tracer.end().expect("nothing to do");
    assert!(!tracer.is_on() && tracer.next_get().is_none());
    let probe = Probe::default();
    let seen = probe.seen.clone();
    let options = SampledTraceOptions::default();
    tracer
        .start(&info(), VERSION, &options, || Ok(Box::new(probe)))
        .unwrap();
    let first = tracer.next_get().expect("it is on");
    assert!(first.get == 1 && tracer.is_current(first));
    let second = tracer.start(&info(), VERSION, &options, || {
        panic!("a second writer is created")
    });
    assert_eq!(second.unwrap_err().code(), Code::Busy);
    tracer.record(&access(b"recorded"));
    tracer.end().unwrap();
    assert!(seen.lock().closed);
    tracer.record(&access(b"too late"));
    tracer.end().unwrap();
    assert_eq!(block_keys(&seen.lock().bytes), [b"recorded"]);

    let next = Probe::default();
    tracer
        .start(&info(), VERSION, &options, || Ok(Box::new(next)))
        .unwrap();
    assert!(!tracer.is_current(first), "a get of an earlier trace");
    assert_eq!(tracer.next_get().unwrap().get, 1);
}

#[test]
fn the_creation_of_a_writer_may_not_start_a_trace() {
    let tracer = BlockCacheTracer::new(clock());
    let options = SampledTraceOptions::default();
    let start = tracer.start(&info(), VERSION, &options, || {
        let inner = tracer.start(&info(), VERSION, &options, || {
            Ok(Box::new(Probe::default()))
        });
        assert_eq!(inner.unwrap_err().code(), Code::Busy);
        tracer.end().map(|()| Box::new(Probe::default()) as _)
    });
    assert_eq!(start.unwrap_err().code(), Code::Busy);
    assert!(!is_in_writer());
}

#[test]
fn a_writer_that_cannot_be_created_or_written_starts_no_trace() {
    let tracer = BlockCacheTracer::new(clock());
    let options = SampledTraceOptions::default();
    let none = tracer.start(&info(), VERSION, &options, || {
        Err(Error::io_text("no space"))
    });
    assert!(none.unwrap_err().to_string().contains("no space"));
    for probe in [
        Probe {
            fails_at: Some(0),
            ..Probe::default()
        },
        Probe {
            panics_at: Some(0),
            ..Probe::default()
        },
    ] {
        let failed = tracer.start(&info(), VERSION, &options, || Ok(Box::new(probe)));
        failed.unwrap_err();
        assert!(!tracer.is_on());
    }
    let probe = Probe::default();
    tracer
        .start(&info(), VERSION, &options, || Ok(Box::new(probe)))
        .unwrap();
    assert!(tracer.is_on());
}

#[test]
fn after_an_error_or_panic_there_are_no_records_and_the_end_fails() {
    let planned = [
        (Some(2), None, false, "planned"),
        (None, Some(2), false, "panicked"),
        (None, None, true, "planned at close"),
    ];
    for (fails_at, panics_at, fails_close, expected) in planned {
        let probe = Probe {
            fails_at,
            panics_at,
            fails_close,
            ..Probe::default()
        };
        let seen = probe.seen.clone();
        let tracer = started(&SampledTraceOptions::default(), probe);
        for key in [b"1", b"2", b"3"] {
            tracer.record(&access(key));
        }
        assert_eq!(tracer.is_on(), fails_close);
        let error = tracer.end().unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
        assert!(seen.lock().closed);
        let kept = if fails_close { 3 } else { 1 };
        assert_eq!(block_keys(&seen.lock().bytes).len(), kept);
        assert!(!is_in_writer());
    }
}

#[test]
fn sampling_records_all_lookups_of_a_block_or_none() {
    let keys: Vec<_> = (0..4000_u32).map(u32::to_le_bytes).collect();
    for frequency in [0, 1, 5] {
        let probe = Probe::default();
        let seen = probe.seen.clone();
        let options = SampledTraceOptions {
            sampling_frequency: frequency,
            ..SampledTraceOptions::default()
        };
        let tracer = started(&options, probe);
        for key in keys.iter().chain(&keys) {
            tracer.record(&access(key));
        }
        tracer.end().unwrap();
        let recorded = block_keys(&seen.lock().bytes);
        let (once, twice) = recorded.split_at(recorded.len() / 2);
        assert_eq!(once, twice, "the same blocks in both rounds");
        match frequency {
            5 => assert!((700..900).contains(&once.len()), "{}", once.len()),
            _ => assert_eq!(once.len(), keys.len()),
        }
    }
}

#[test]
fn the_record_that_exceeds_the_limit_is_the_last_one() {
    let probe = Probe::default();
    let seen = probe.seen.clone();
    let options = SampledTraceOptions {
        max_trace_file_size: 300,
        ..SampledTraceOptions::default()
    };
    let tracer = started(&options, probe);
    (0..100).for_each(|_| tracer.record(&access(b"key")));
    assert!(!tracer.is_on());
    tracer.end().expect("the limit is no error");
    let bytes = &seen.lock().bytes;
    let count = block_keys(bytes).len();
    let each = (bytes.len() - 38) / count;
    assert!(
        bytes.len() > 300 && bytes.len() - each <= 300,
        "{}",
        bytes.len()
    );
}

#[test]
fn four_threads_record_while_the_trace_starts_and_ends() {
    let tracer = BlockCacheTracer::new(clock());
    let probes = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for thread in 0..4_u32 {
            let tracer = &tracer;
            scope.spawn(move || {
                for i in 0..2000_u32 {
                    tracer.record(&access(&(thread << 16 | i).to_le_bytes()));
                }
            });
        }
        for _ in 0..50 {
            let probe = Probe::default();
            probes.lock().push(probe.seen.clone());
            let options = SampledTraceOptions::default();
            tracer
                .start(&info(), VERSION, &options, || Ok(Box::new(probe)))
                .unwrap();
            std::thread::yield_now();
            tracer.end().unwrap();
        }
    });
    for seen in &*probes.lock() {
        let seen = seen.lock();
        assert!(seen.closed);
        // Complete records: a torn one does not decode.
        let keys = block_keys(&seen.bytes);
        let numbers = keys.iter().map(|key| key[..].try_into().unwrap());
        let mut numbers: Vec<_> = numbers.map(u32::from_le_bytes).collect();
        let count = numbers.len();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), count, "a lookup is recorded once");
    }
}

#[test]
fn operations_on_files_are_recorded_with_their_errors() {
    let world = World::in_memory();
    let tracer = Arc::new(IoTracer::new(world.clock.clone()));
    let fs = counted(world.fs, world.clock, tracer.clone());
    let before = fs
        .create(Path::new("/000001.log"), Default::default())
        .unwrap();
    let probe = Probe::default();
    let seen = probe.seen.clone();
    let options = SampledTraceOptions::default();
    tracer
        .start(&info(), VERSION, &options, || Ok(Box::new(probe)))
        .unwrap();
    // A file that was open before the trace.
    before.append(b"12345").unwrap();
    before.sync(true).unwrap();
    before.close().unwrap();
    let file = fs
        .open(Path::new("/000001.log"), Default::default())
        .unwrap();
    file.read_at(1, &mut [0; 3]).unwrap();
    assert_eq!(fs.status(Path::new("/000001.log")).unwrap().len, 5);
    fs.open(Path::new("/missing"), Default::default())
        .err()
        .expect("it is missing");
    fs.remove(Path::new("/000001.log")).unwrap();
    tracer.end().unwrap();
    fs.list(Path::new("/")).unwrap();
    let seen = seen.lock();
    let all = operations(&seen.bytes);
    let names: Vec<_> = all.iter().map(|one| (&*one.0, &*one.1)).collect();
    let log = "000001.log";
    assert_eq!(
        names,
        [
            ("Append", log),
            ("Fsync", log),
            ("Close", log),
            ("NewRandomAccessFile", log),
            ("Read", log),
            ("GetFileSize", log),
            ("NewRandomAccessFile", "missing"),
            ("DeleteFile", log),
        ]
    );
    for (at, (.., status)) in all.iter().enumerate() {
        assert_eq!(status == "OK", at != 6, "{status}");
    }
    assert!(all[6].2.starts_with("IO error: "), "{}", all[6].2);
    let mut numbers = Vec::new();
    each_record(&seen.bytes, |kind, payload| {
        let one = IoOperation::decode(kind, payload).unwrap();
        numbers.push((one.file_len, one.len, one.offset));
    });
    assert_eq!(numbers[0], (None, Some(5), None));
    assert_eq!(numbers[4], (None, Some(3), Some(1)));
    assert_eq!(numbers[5], (Some(5), None, None));
}

#[test]
fn a_sampled_trace_has_one_of_several_operations() {
    let world = World::in_memory();
    let tracer = Arc::new(IoTracer::new(world.clock.clone()));
    let fs = counted(world.fs, world.clock, tracer.clone());
    let probe = Probe::default();
    let seen = probe.seen.clone();
    let options = SampledTraceOptions {
        sampling_frequency: 4,
        ..SampledTraceOptions::default()
    };
    tracer
        .start(&info(), VERSION, &options, || Ok(Box::new(probe)))
        .unwrap();
    (0..40).for_each(|_| drop(fs.list(Path::new("/"))));
    tracer.end().unwrap();
    assert_eq!(operations(&seen.lock().bytes).len(), 10);
}

/// A destination in the file system whose operations are traced.
struct ToFile(Arc<dyn cairn_platform::WritableFile>);

impl TraceWriter for ToFile {
    fn write(&mut self, record: &[u8]) -> Result<()> {
        self.0.append(record)
    }
    fn file_size(&self) -> u64 {
        self.0.len()
    }
    fn close(&mut self) -> Result<()> {
        self.0.close()
    }
}

#[test]
fn a_trace_in_the_traced_file_system_does_not_record_itself() {
    let world = World::in_memory();
    let tracer = Arc::new(IoTracer::new(world.clock.clone()));
    let fs = counted(world.fs, world.clock, tracer.clone());
    let path = Path::new("/io.trace");
    let options = SampledTraceOptions::default();
    let create = || Ok(Box::new(ToFile(fs.create(path, Default::default())?)) as _);
    tracer.start(&info(), VERSION, &options, create).unwrap();
    fs.list(Path::new("/")).unwrap();
    tracer.end().unwrap();
    let file = fs.open(path, Default::default()).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_up_to_end(0, &mut bytes).unwrap();
    let all = operations(&bytes);
    assert_eq!(all.len(), 1, "{all:?}");
    assert_eq!(all[0].0, "GetChildren");
}

/// Ends the trace of its recorder when it is dropped.
struct EndsAgain {
    tracer: Arc<BlockCacheTracer>,
    fails: bool,
    ended: Arc<Mutex<Option<Result<()>>>>,
}

impl TraceWriter for EndsAgain {
    fn write(&mut self, _: &[u8]) -> Result<()> {
        match self.fails {
            false => Ok(()),
            true => Err(Error::io_text("planned")),
        }
    }
    fn file_size(&self) -> u64 {
        0
    }
    fn close(&mut self) -> Result<()> {
        Ok(())
    }
}

impl Drop for EndsAgain {
    fn drop(&mut self) {
        *self.ended.lock() = Some(self.tracer.end());
    }
}

/// Regression: the destructor of a writer can use the recorder, whose lock is not held: after the end of a trace, and after
/// a start that failed.
#[test]
fn a_writer_is_dropped_without_the_lock_of_its_trace() {
    for fails in [false, true] {
        let tracer = Arc::new(BlockCacheTracer::new(clock()));
        let ended: Arc<Mutex<Option<Result<()>>>> = Arc::default();
        let writer = EndsAgain {
            tracer: tracer.clone(),
            fails,
            ended: ended.clone(),
        };
        let options = SampledTraceOptions::default();
        let started = tracer.start(&info(), VERSION, &options, || Ok(Box::new(writer)));
        assert_eq!(started.is_err(), fails);
        tracer.end().unwrap();
        assert!(matches!(*ended.lock(), Some(Ok(()))));
    }
}
