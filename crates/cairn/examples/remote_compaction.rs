//! Remote compactions: a database sends its compactions to a worker process over a Unix socket.
//!
//! `cargo run -p cairn --example remote_compaction`
//!
//! The database is the parent process, the worker is a child. Both access the same directory; a message is a
//! length and bytes.

#![expect(clippy::disallowed_types, reason = "a program has its own locks")]

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use cairn::compaction::{
    CompactionService, CompactionServiceJobInfo, CompactionServiceJobStatus as Status,
    CompactionServiceOptionsOverride, CompactionServiceScheduleResponse, OpenAndCompactOptions,
    open_and_compact,
};
use cairn::{CompactRangeOptions, Db, Options};

type Failure = Box<dyn std::error::Error>;
type Entries = Vec<(Vec<u8>, Vec<u8>)>;

fn send(stream: &mut UnixStream, bytes: &[u8]) -> std::io::Result<()> {
    stream.write_all(&(bytes.len() as u64).to_le_bytes())?;
    stream.write_all(bytes)
}

fn receive(stream: &mut UnixStream) -> std::io::Result<Vec<u8>> {
    let mut len = [0; 8];
    stream.read_exact(&mut len)?;
    let mut bytes = Vec::new();
    stream
        .take(u64::from_le_bytes(len))
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Sends each job on a connection of its own, and reads the result from it.
struct ToWorker {
    socket: PathBuf,
    next: AtomicU64,
    jobs: Mutex<HashMap<String, UnixStream>>,
}

impl ToWorker {
    fn start(
        &self,
        info: &CompactionServiceJobInfo,
        id: &str,
        input: &[u8],
    ) -> std::io::Result<()> {
        let mut stream = UnixStream::connect(&self.socket)?;
        for part in [info.db_name.as_bytes(), id.as_bytes(), input] {
            send(&mut stream, part)?;
        }
        self.jobs
            .lock()
            .expect("no holder has panicked")
            .insert(id.to_owned(), stream);
        Ok(())
    }
}

impl CompactionService for ToWorker {
    fn name(&self) -> &str {
        "example.ToWorker"
    }

    fn schedule(
        &self,
        info: &CompactionServiceJobInfo,
        input: &[u8],
    ) -> CompactionServiceScheduleResponse {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let id = format!("job-{}-{number}", info.db_session_id);
        let status = match self.start(info, &id, input) {
            Ok(()) => Status::Success,
            // Without a worker, the database compacts by itself.
            Err(_) => Status::UseLocal,
        };
        CompactionServiceScheduleResponse {
            scheduled_job_id: id,
            status,
        }
    }

    fn wait(&self, id: &str) -> (Status, Vec<u8>) {
        let stream = match self.jobs.lock().expect("no holder has panicked").get(id) {
            Some(stream) => stream.try_clone(),
            None => return (Status::UseLocal, Vec::new()),
        };
        match stream.and_then(|mut stream| receive(&mut stream)) {
            Ok(result) if !result.is_empty() => (Status::Success, result),
            // The worker failed or died.
            _ => (Status::UseLocal, Vec::new()),
        }
    }

    fn cancel_awaiting_jobs(&self) {
        for stream in self.jobs.lock().expect("no holder has panicked").values() {
            stream.shutdown(std::net::Shutdown::Both).ok();
        }
    }

    fn on_installation(&self, id: &str, _status: Status) {
        self.jobs.lock().expect("no holder has panicked").remove(id);
    }
}

/// Serves jobs until the process is killed.
fn work(socket: &Path) -> Result<(), Failure> {
    let listener = UnixListener::bind(socket)?;
    println!("ready");
    for stream in listener.incoming() {
        let mut stream = stream?;
        let path = String::from_utf8(receive(&mut stream)?)?;
        let id = String::from_utf8(receive(&mut stream)?)?;
        let input = receive(&mut stream)?;
        let overrides = CompactionServiceOptionsOverride::default();
        let options = OpenAndCompactOptions::default();
        let result = open_and_compact(&options, &path, &id, &input, &overrides);
        if let Err(error) = &result {
            eprintln!("worker: {error}");
        }
        send(&mut stream, &result.unwrap_or_default())?;
    }
    Ok(())
}

fn fill(db: &Db) -> Result<(), Failure> {
    for round in 0..4 {
        for number in 0..5_000 {
            let key = format!("key{:05}", number * 7 % 5_000);
            db.put(key.as_bytes(), format!("{round} {number}").as_bytes())?;
        }
        db.flush()?;
    }
    Ok(db.compact_range(None, None, &CompactRangeOptions::default())?)
}

fn contents(db: &Db) -> Result<Entries, Failure> {
    let mut all = Vec::new();
    for entry in db.range(..) {
        let (key, value) = entry?;
        all.push((key.to_vec(), value.to_vec()));
    }
    Ok(all)
}

fn main() -> Result<(), Failure> {
    if let Some(socket) = std::env::args().nth(1) {
        return work(Path::new(&socket));
    }
    let dir = tempfile::tempdir()?;
    let socket = dir.path().join("socket");
    let mut worker = Command::new(std::env::current_exe()?)
        .arg(&socket)
        .stdout(Stdio::piped())
        .spawn()?;
    // It prints a line when it listens.
    let stdout = worker.stdout.take().ok_or("the worker has no output")?;
    BufReader::new(stdout).read_line(&mut String::new())?;

    let service = Arc::new(ToWorker {
        socket,
        next: AtomicU64::new(0),
        jobs: Mutex::default(),
    });
    let mut options = Options::default().create_if_missing(true);
    options.db.compaction_service = Some(service.clone());
    let db = Db::open(dir.path().join("remote"), &options)?;
    fill(&db)?;

    options.db.compaction_service = None;
    let local = Db::open(dir.path().join("local"), &options)?;
    fill(&local)?;

    let jobs = service.next.load(Ordering::Relaxed);
    assert!(jobs > 0, "the worker compacted");
    assert!(contents(&db)? == contents(&local)?, "the outputs are equal");
    println!("{jobs} compactions by process {}", worker.id());
    db.close()?;
    local.close()?;
    worker.kill()?;
    worker.wait()?;
    Ok(())
}
