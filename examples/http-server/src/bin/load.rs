//! A load generator: starts `http-server`, keeps one request in flight on each of many connections, and verifies every
//! value.
//!
//! ```text
//! load [CONNECTIONS [LATENCY_US [QUEUE_DEPTH [SECONDS]]]]
//! ```
//!
//! The server and the load generator each need as many file descriptors as there are connections (`ulimit -n`).

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

const RECORDS: u64 = 1_000_000;
const VALUE_LEN: usize = 100;

/// Counters shared by all connections.
#[derive(Default)]
struct Totals {
    connected: AtomicUsize,
    done: AtomicU64,
    /// Sum of the latencies in microseconds.
    micros: AtomicU64,
}

/// The server process. Ended when dropped.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Sends a request for `number` and verifies the response.
async fn request(stream: &mut TcpStream, number: u64, buffer: &mut [u8]) -> Result<()> {
    let head = format!("GET /{number:07} HTTP/1.1\r\nhost: localhost\r\n\r\n");
    stream.write_all(head.as_bytes()).await?;
    let mut len = 0;
    loop {
        let read = stream.read(&mut buffer[len..]).await?;
        if read == 0 {
            return Err("the server closed a connection".into());
        }
        len += read;
        let response = &buffer[..len];
        let Some(head) = response.windows(4).position(|part| part == b"\r\n\r\n") else {
            continue;
        };
        let body = &response[head + 4..];
        if body.len() < VALUE_LEN && response.starts_with(b"HTTP/1.1 200") {
            continue;
        }
        let expected = format!("{number:0VALUE_LEN$}");
        return match body == expected.as_bytes() {
            true => Ok(()),
            false => Err(String::from_utf8_lossy(response).into()),
        };
    }
}

/// Sends requests over one connection, one after another.
async fn connection(address: String, mut seed: u64, totals: Arc<Totals>) -> Result<()> {
    let mut stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    totals.connected.fetch_add(1, Ordering::Relaxed);
    let mut buffer = [0; 512];
    loop {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let began = Instant::now();
        request(&mut stream, (seed >> 33) % RECORDS, &mut buffer).await?;
        let micros = began.elapsed().as_micros() as u64;
        totals.micros.fetch_add(micros, Ordering::Relaxed);
        totals.done.fetch_add(1, Ordering::Relaxed);
    }
}

/// The field `name` of a process's status, in KiB or as a count.
fn status(process: u32, name: &str) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|line| line.split_whitespace().nth(1));
    Ok(number.ok_or("the status has no such field")?.parse()?)
}

async fn measure(address: String, process: u32, connections: usize, seconds: u64) -> Result<()> {
    let idle = status(process, "VmRSS")?;
    let totals = Arc::new(Totals::default());
    for number in 0..connections {
        let connection = connection(address.clone(), number as u64, totals.clone());
        tokio::spawn(async {
            if let Err(error) = connection.await {
                eprintln!("{error}");
                std::process::exit(1);
            }
        });
        if number % 100 == 0 {
            tokio::task::yield_now().await;
        }
    }
    while totals.connected.load(Ordering::Relaxed) < connections {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // One more second until all connections have a request in flight.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let counts = || {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (load(&totals.done), load(&totals.micros))
    };
    let (before, began) = (counts(), Instant::now());
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    let (after, elapsed) = (counts(), began.elapsed().as_secs_f64());
    let done = after.0 - before.0;
    let mean = (after.1 - before.1) as f64 / done.max(1) as f64 / 1000.0;
    let resident = status(process, "VmRSS")?;
    println!(
        "{connections} connections: {:.0} requests per second, mean latency {mean:.1} ms",
        done as f64 / elapsed
    );
    println!(
        "server: {} threads, {:.1} MiB resident, {:.1} before the connections, {:.2} KiB per connection",
        status(process, "Threads")?,
        resident as f64 / 1024.0,
        idle as f64 / 1024.0,
        resident.saturating_sub(idle) as f64 / connections as f64
    );
    Ok(())
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default: u64| arguments.next().map_or(Ok(default), |text| text.parse());
    let (connections, latency) = (number(10_000)? as usize, number(1000)?);
    let (depth, seconds) = (number(64)?, number(5)?);
    let directory = std::env::temp_dir().join(format!("http-server.{}", std::process::id()));
    let mut server = Command::new(std::env::current_exe()?.with_file_name("http-server"))
        .arg(&directory)
        .args(["127.0.0.1:0", &latency.to_string(), &depth.to_string()])
        .stdout(Stdio::piped())
        .spawn()
        .map(Server)?;
    let mut line = String::new();
    let output = server.0.stdout.take().ok_or("the server has no output")?;
    BufReader::new(output).read_line(&mut line)?;
    let address = line
        .trim_end()
        .strip_prefix("listening on ")
        .ok_or("the server did not start")?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let measured = runtime.block_on(measure(
        address.to_owned(),
        server.0.id(),
        connections,
        seconds,
    ));
    drop(server);
    std::fs::remove_dir_all(&directory)?;
    measured
}
