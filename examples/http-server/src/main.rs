//! An HTTP server whose two threads serve point reads of a database: `GET /KEY` returns the value of `KEY`.
//!
//! ```text
//! http-server DIRECTORY ADDRESS [LATENCY_US [QUEUE_DEPTH]]
//! ```
//!
//! No request blocks a thread: a get that misses the cache is a read in flight, and its task is polled again
//! when the read has ended. The body of a response is the value in the block that was read, not a copy of it. With a
//! latency, the database is on simulated remote storage that delays every read and executes at most `QUEUE_DEPTH`
//! at a time. An empty directory is filled with a million records, whose keys are `0000000` to `0999999`.

use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cairn::world::RemoteSettings;
use cairn::{CompactRangeOptions, Db, Options, ReadOptions, World, WriteBatch};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

const RECORDS: u32 = 1_000_000;
const RECORDS_PER_BATCH: u32 = 1000;
const VALUE_LEN: usize = 100;
/// The number of threads that serve all connections.
const THREADS: usize = 2;

/// A response of `status` with `body`.
fn response(status: StatusCode, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response
}

/// Looks up the key in the path of `request`.
async fn answer(db: Arc<Db>, request: Request<Incoming>) -> Response<Full<Bytes>> {
    if request.method() != Method::GET {
        return response(StatusCode::METHOD_NOT_ALLOWED, "only GET is supported\n");
    }
    let key = &request.uri().path().as_bytes()[1..];
    match db.get_async(key).await {
        // The response holds the value, which pins its block until the body is sent.
        Ok(Some(value)) => response(StatusCode::OK, Bytes::from_owner(value)),
        Ok(None) => response(StatusCode::NOT_FOUND, "no such key\n"),
        Err(error) => response(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
    }
}

/// Serves the requests of one connection until the client closes it.
async fn serve(db: Arc<Db>, stream: TcpStream) {
    let service = service_fn(move |request| {
        let answer = answer(db.clone(), request);
        async move { Ok::<_, Infallible>(answer.await) }
    });
    let mut http = hyper::server::conn::http1::Builder::new();
    // The smallest size that hyper accepts.
    let connection = http
        .max_buf_size(8192)
        .serve_connection(TokioIo::new(stream), service);
    // Errors are those of the client: a reset connection, or a malformed request, which has been answered.
    let _ = connection.await;
}

async fn listen(db: Arc<Db>, address: &str) -> Result<()> {
    let listener = TcpListener::bind(address).await?;
    println!("listening on {}", listener.local_addr()?);
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                stream.set_nodelay(true)?;
                tokio::spawn(serve(db.clone(), stream));
            }
            // Too many open files, or a connection that was reset before it was accepted.
            Err(error) => {
                eprintln!("accept: {error}");
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
    }
}

fn open(directory: &Path, world: World) -> Result<Db> {
    let options = Options::default().create_if_missing(true).text(
        "compression=kNoCompression;block_based_table_factory={block_size=4096;block_cache=8M}",
    )?;
    Ok(Db::builder(directory)
        .world(world)
        .options(options)
        .open()?)
}

/// Writes the records unless they exist.
fn fill(directory: &Path) -> Result<()> {
    let db = open(directory, World::posix())?;
    if db.get(format!("{:07}", RECORDS - 1).as_bytes())?.is_some() {
        return Ok(());
    }
    for first in (0..RECORDS).step_by(RECORDS_PER_BATCH as usize) {
        let mut batch = WriteBatch::new();
        for number in first..first + RECORDS_PER_BATCH {
            let value = format!("{number:0VALUE_LEN$}");
            batch.put(format!("{number:07}").as_bytes(), value.as_bytes());
        }
        db.write(&batch)?;
    }
    db.compact_range(None, None, &CompactRangeOptions::default())?;
    Ok(db.close()?)
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [directory, address, storage @ ..] = &arguments[..] else {
        return Err("usage: http-server DIRECTORY ADDRESS [LATENCY_US [QUEUE_DEPTH]]".into());
    };
    let directory = Path::new(directory);
    fill(directory)?;
    let world = match storage {
        [] => World::posix(),
        [latency, depth @ ..] => World::posix().remote(RemoteSettings {
            latency: Duration::from_micros(latency.parse()?),
            bandwidth: 0,
            queue_depth: depth.first().map_or(Ok(64), |depth| depth.parse())?,
        }),
    };
    let db = Arc::new(open(directory, world)?);
    // Opens all tables: the first requests would otherwise wait for that.
    let keys = (0..RECORDS).step_by(RECORDS_PER_BATCH as usize);
    let keys: Vec<_> = keys.map(|number| format!("{number:07}")).collect();
    for found in db.multi_get(&keys, &ReadOptions::default()) {
        found?;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .enable_all()
        .build()?;
    runtime.block_on(listen(db, address))
}
