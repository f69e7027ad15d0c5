//! Futures of Rust as coroutines of asyncio.
//!
//! A call polls its future once. If that completes it, the coroutine has the result, and the loop is not involved.
//! Otherwise the future becomes a task of the loop's bridge: a wake puts it into the bridge's queue, without the
//! interpreter's lock, and writes to a socket that the loop watches. The loop then polls the tasks in the queue.

use std::future::{Future, poll_fn};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Wake, Waker, ready};

use cairn::futures::EntryStream;
use cairn::{Error, ReadOptions, Result, Value};
use futures_core::Stream;
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyBytes;
use self_cell::self_cell;

use crate::errors::raise;
use crate::handle::{Dependent, Exclusive, Shared};
use crate::scan::{Chunk, Part};
use crate::space::{FamilyCell, values_list};

/// The result of a future.
pub enum Outcome {
    None,
    /// A value, and the object to return without one.
    Value(Option<Value>, Option<Py<PyAny>>),
    Values(Vec<Result<Option<Value>>>),
    Entries(Chunk),
}

impl Outcome {
    fn into_object(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        Ok(match self {
            Outcome::None => py.None().into_bound(py),
            Outcome::Value(Some(value), _) => PyBytes::new(py, &value).into_any(),
            Outcome::Value(None, default) => default.unwrap_or_else(|| py.None()).into_bound(py),
            Outcome::Values(values) => values_list(py, values)?.into_any(),
            Outcome::Entries(chunk) => chunk.into_list(py)?.into_any(),
        })
    }
}

type Running = Pin<Box<dyn Future<Output = Result<Outcome>> + Send>>;

/// A future that a loop waits for.
struct Task {
    running: Arc<Exclusive<Running>>,
    /// The future of asyncio, once the first poll has not completed the task.
    promise: OnceLock<Py<PyAny>>,
    queue: Arc<Queue>,
}

/// The tasks that can go on.
struct Queue {
    ready: Mutex<Vec<Arc<Task>>>,
    writer: UnixStream,
}

impl Queue {
    fn push(&self, task: Arc<Task>) {
        let mut ready = self.ready.lock();
        ready.push(task);
        if ready.len() == 1 {
            // A full socket wakes the loop, too, and a closed one has no loop.
            let _ = (&self.writer).write(&[0]);
        }
    }
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.queue.clone().push(self);
    }
}

impl Dependent for Task {
    fn try_release(self: Arc<Self>) -> bool {
        let released = self.running.clone().try_release();
        if released {
            self.wake();
        }
        released
    }
}

impl Task {
    /// Polls the future. An empty slot is one of a closed database.
    fn poll(self: &Arc<Self>, py: Python<'_>) -> PyResult<Poll<Result<Outcome>>> {
        let mut running = self.running.lock(py)?;
        let waker = Waker::from(self.clone());
        Ok(running.as_mut().poll(&mut Context::from_waker(&waker)))
    }

    /// Polls the future on its loop, and completes the promise.
    fn go_on(self: &Arc<Self>, py: Python<'_>) -> PyResult<()> {
        let Some(promise) = self.promise.get().map(|promise| promise.bind(py)) else {
            return Ok(());
        };
        if promise.call_method0("done")?.is_truthy()? {
            return self.running.clear(py);
        }
        let done = match self.poll(py) {
            Ok(Poll::Pending) => return Ok(()),
            Ok(Poll::Ready(done)) => done.map_err(|error| raise(py, error)),
            Err(error) => Err(error),
        };
        self.running.clear(py)?;
        match done.and_then(|outcome| outcome.into_object(py)) {
            Ok(object) => promise.call_method1("set_result", (object,))?,
            Err(error) => promise.call_method1("set_exception", (error.into_value(py),))?,
        };
        Ok(())
    }
}

/// The connection between an event loop and the threads that read.
#[pyclass(frozen, module = "cairn._cairn")]
pub struct Bridge {
    queue: Arc<Queue>,
    reader: UnixStream,
}

#[pymethods]
impl Bridge {
    #[new]
    fn new() -> PyResult<Bridge> {
        let (reader, writer) = UnixStream::pair()?;
        reader.set_nonblocking(true)?;
        writer.set_nonblocking(true)?;
        Ok(Bridge {
            queue: Arc::new(Queue {
                ready: Mutex::default(),
                writer,
            }),
            reader,
        })
    }

    /// The descriptor that is readable when tasks can go on.
    fn fileno(&self) -> i32 {
        self.reader.as_raw_fd()
    }

    /// Polls the tasks that can go on.
    fn run(&self, py: Python<'_>) -> PyResult<()> {
        let mut bytes = [0; 64];
        while matches!((&self.reader).read(&mut bytes), Ok(64)) {}
        let ready = std::mem::take(&mut *self.queue.ready.lock());
        let mut outcome = Ok(());
        for task in ready {
            // After an error the remaining tasks still run, because they are no longer in the queue.
            let done = task.go_on(py);
            outcome = outcome.and(done);
        }
        outcome
    }
}

/// A function of `cairn._aio`.
fn helper<'py>(
    py: Python<'py>,
    cell: &'static PyOnceLock<Py<PyAny>>,
    name: &str,
) -> PyResult<Bound<'py, PyAny>> {
    let found = cell.get_or_try_init(py, || {
        Ok::<_, PyErr>(py.import("cairn._aio")?.getattr(name)?.unbind())
    })?;
    Ok(found.bind(py).clone())
}

/// A coroutine that returns `value` without waiting.
pub fn ready<'py>(
    py: Python<'py>,
    value: Option<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    static DONE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    helper(py, &DONE, "done")?.call1((value,))
}

/// Starts `future` and returns a coroutine that waits for it.
pub fn start<'py>(
    py: Python<'py>,
    shared: &Shared,
    future: impl Future<Output = Result<Outcome>> + Send + 'static,
) -> PyResult<Bound<'py, PyAny>> {
    static BRIDGE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    static WAIT: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    // Keeps the database open until the task is registered.
    let _engine = shared.engine()?;
    let (bridge, promise) = helper(py, &BRIDGE, "bridge")?
        .call0()?
        .extract::<(Bound<'py, Bridge>, Bound<'py, PyAny>)>()?;
    let task = Arc::new(Task {
        running: Arc::new(Exclusive::new(Box::pin(future) as Running)),
        promise: OnceLock::new(),
        queue: bridge.get().queue.clone(),
    });
    if let Poll::Ready(done) = task.poll(py)? {
        task.running.clear(py)?;
        let outcome = done.map_err(|error| raise(py, error))?;
        return ready(py, Some(outcome.into_object(py)?));
    }
    let _ = task.promise.set(promise.clone().unbind());
    shared.register(&task);
    // A waiting future is known to its wakers, which may forget it; the promise keeps it.
    helper(py, &WAIT, "wait")?.call1((promise, Kept(task)))
}

/// Keeps a task alive as long as its coroutine.
#[pyclass(frozen, module = "cairn._cairn")]
struct Kept(#[expect(dead_code, reason = "kept")] Arc<Task>);

self_cell!(
    /// A stream of entries and its family.
    struct StreamCell {
        owner: Arc<FamilyCell>,
        #[covariant]
        dependent: EntryStream,
    }
);

/// The state of an asynchronous scan.
struct Reading {
    stream: StreamCell,
    /// The error after the entries of the last chunk.
    failure: Option<Error>,
}

/// The chunks of an asynchronous scan.
#[pyclass(frozen, module = "cairn._cairn")]
pub struct AsyncScan {
    reading: Arc<Exclusive<Reading>>,
    shared: Arc<Shared>,
}

/// The most entries of a chunk.
const ENTRIES: usize = 256;

impl Reading {
    fn poll_chunk(&mut self, chunk: &mut Chunk, context: &mut Context<'_>) -> Poll<Result<()>> {
        if let Some(error) = self.failure.take() {
            return Poll::Ready(Err(error));
        }
        let failure = &mut self.failure;
        self.stream.with_dependent_mut(|_, stream| {
            while !chunk.is_full(ENTRIES) {
                match Pin::new(&mut *stream).poll_next(context) {
                    Poll::Ready(Some(Ok((key, value)))) => chunk.push(Part::Items, &key, &value),
                    Poll::Ready(Some(Err(error))) if chunk.is_empty() => {
                        return Poll::Ready(Err(error));
                    }
                    Poll::Ready(Some(Err(error))) => {
                        *failure = Some(error);
                        break;
                    }
                    Poll::Pending if chunk.is_empty() => return Poll::Pending,
                    Poll::Ready(None) | Poll::Pending => break,
                }
            }
            Poll::Ready(Ok(()))
        })
    }
}

#[pymethods]
impl AsyncScan {
    /// The next entries as a list, empty at the end, as a coroutine.
    fn chunk<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let reading = self.reading.clone();
        start(py, &self.shared, async move {
            let mut chunk = Chunk::default();
            poll_fn(|context| match ready!(reading.poll_lock(context)) {
                Some(mut reading) => reading.poll_chunk(&mut chunk, context),
                None => Poll::Ready(Err(Error::aborted("the scan was released"))),
            })
            .await?;
            Ok(Outcome::Entries(chunk))
        })
    }

    /// Frees what the scan holds.
    fn release(&self, py: Python<'_>) -> PyResult<()> {
        self.reading.clear(py)
    }
}

/// An asynchronous iterator over the entries that `options` bound.
pub fn scan<'py>(
    py: Python<'py>,
    shared: &Arc<Shared>,
    family: &Arc<FamilyCell>,
    options: ReadOptions,
) -> PyResult<Bound<'py, PyAny>> {
    static ENTRIES: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let reading = shared.depend(py, |_| {
        let stream = StreamCell::try_new(family.clone(), |family| {
            let iter = family.borrow_dependent().iter_async(&options)?;
            Ok::<_, Error>(iter.into_stream())
        })?;
        Ok(Exclusive::new(Reading {
            stream,
            failure: None,
        }))
    })?;
    let scan = AsyncScan {
        reading,
        shared: shared.clone(),
    };
    helper(py, &ENTRIES, "entries")?.call1((scan,))
}
