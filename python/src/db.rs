//! Databases: opening, families, batches, maintenance, closing.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use cairn::backup::CreateBackupOptions;
use cairn::compaction::WaitForCompactOptions;
use cairn::observe::{Histogram, Ticker};
use cairn::{Db as RustDb, DbBuilder, FamilyDescriptor};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::batch::WriteBatch;
use crate::errors::{invalid, raise};
use crate::handle::{Engine, Shared};
use crate::options;
use crate::snapshot::Snapshot;
use crate::space::{Family, Space};
use crate::tasks;

/// A database: a directory that maps bytes to bytes, ordered by key.
///
///     with cairn.Db("stones", create_if_missing=True) as db:
///         db[b"granite"] = b"igneous"
///
/// Keywords are RocksDB's options of databases, families and tables. `families` is a dict from the name of a family to
/// a dict of its options; all families that exist are opened, whether named or not.
///
/// `read_only` changes no file. `secondary_path` opens a secondary instance, which reads a database that another process
/// writes, and keeps its own files there; `follower_path` opens a follower.
///
/// Reads and writes of the database are those of its default family.
#[pyclass(extends = Space, subclass, frozen, module = "cairn")]
pub struct Db;

/// The ways to open a database.
pub struct Opening {
    pub builder: DbBuilder,
    mode: Mode,
}

enum Mode {
    ReadWrite,
    Secondary(PathBuf),
    Follower(PathBuf),
}

impl Opening {
    /// Collects the arguments of a constructor.
    pub fn new(
        path: PathBuf,
        families: Option<&Bound<'_, PyDict>>,
        given: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Opening> {
        let options = options::open_options(given)?;
        let mut builder = RustDb::builder(path);
        for (name, given) in families.iter().flat_map(|families| families.iter()) {
            let given: Option<Bound<'_, PyDict>> = given.extract()?;
            let of_family = options::family_options(given.as_ref(), options.family.clone())?;
            builder = builder.family(name.extract::<String>()?, of_family);
        }
        Ok(Opening {
            builder: builder.options(options),
            mode: Mode::ReadWrite,
        })
    }
}

/// The object of an open database.
pub fn space_of(
    py: Python<'_>,
    open: impl FnOnce() -> cairn::Result<Engine> + Send,
) -> PyResult<Space> {
    let engine = py.detach(open).map_err(|error| raise(py, error))?;
    let shared = Shared::new(engine);
    Space::new(py, &shared, |engine| Ok(engine.db().default_family()))
}

/// Calls `work` with the engine, detached.
pub fn with_engine<T: Send>(
    py: Python<'_>,
    shared: &Shared,
    work: impl FnOnce(&Engine) -> cairn::Result<T> + Send,
) -> PyResult<T> {
    let engine = shared.engine()?;
    let engine: &Engine = &engine;
    let done = py.detach(|| work(engine));
    done.map_err(|error| raise(py, error))
}

fn shared(slf: &Bound<'_, Db>) -> Arc<Shared> {
    slf.as_super().get().shared.clone()
}

/// Calls `work` with the database, detached.
fn with<T: Send>(
    slf: &Bound<'_, Db>,
    work: impl FnOnce(&RustDb) -> cairn::Result<T> + Send,
) -> PyResult<T> {
    with_engine(slf.py(), &slf.as_super().get().shared, |engine| {
        work(engine.db())
    })
}

pub fn family_object(py: Python<'_>, space: Space) -> PyResult<Py<Family>> {
    Py::new(py, PyClassInitializer::from(space).add_subclass(Family))
}

#[pymethods]
impl Db {
    #[new]
    #[pyo3(signature = (path, *, families=None, read_only=false, secondary_path=None, follower_path=None, **options))]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        families: Option<&Bound<'_, PyDict>>,
        read_only: bool,
        secondary_path: Option<PathBuf>,
        follower_path: Option<PathBuf>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<PyClassInitializer<Db>> {
        let mut opening = Opening::new(path, families, options)?;
        opening.mode = match (secondary_path, follower_path) {
            (None, None) => Mode::ReadWrite,
            (Some(path), None) => Mode::Secondary(path),
            (None, Some(path)) => Mode::Follower(path),
            _ => {
                return Err(invalid(
                    "secondary_path and follower_path exclude each other",
                ));
            }
        };
        if read_only && !matches!(opening.mode, Mode::ReadWrite) {
            return Err(invalid(
                "read_only: secondaries and followers are always read-only",
            ));
        }
        let space = space_of(py, move || {
            let db = match opening.mode {
                Mode::ReadWrite => opening.builder.read_only(read_only).open(),
                Mode::Secondary(path) => opening.builder.open_as_secondary(path),
                Mode::Follower(path) => opening.builder.open_as_follower(path),
            };
            db.map(Engine::Plain)
        })?;
        Ok(PyClassInitializer::from(space).add_subclass(Db))
    }

    /// The directory.
    #[getter]
    fn path(slf: &Bound<'_, Self>) -> PathBuf {
        shared(slf).path.clone()
    }

    /// True after `close`.
    #[getter]
    fn closed(slf: &Bound<'_, Self>) -> bool {
        !shared(slf).is_open()
    }

    /// Closes the database: waits for calls in progress, makes all writes durable, and ends its iterators, snapshots
    /// and transactions. Closing it again has no effect.
    fn close(slf: &Bound<'_, Self>) -> PyResult<()> {
        shared(slf).close(slf.py())
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_raised))]
    fn __exit__(slf: &Bound<'_, Self>, _raised: &Bound<'_, PyTuple>) -> PyResult<()> {
        shared(slf).close(slf.py())
    }

    /// The families, by name, in order of creation.
    fn families<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyDict>> {
        let py = slf.py();
        let names = with(slf, |db| {
            Ok(db
                .families()
                .iter()
                .map(|family| family.name().to_owned())
                .collect::<Vec<_>>())
        })?;
        let dict = PyDict::new(py);
        for name in names {
            dict.set_item(&name, Db::family(slf, &name)?)?;
        }
        Ok(dict)
    }

    /// The family `name`. Raises `InvalidArgument` if there is none.
    fn family(slf: &Bound<'_, Self>, name: &str) -> PyResult<Py<Family>> {
        let py = slf.py();
        let space = Space::new(py, &shared(slf), |engine| {
            engine
                .db()
                .family(name)
                .ok_or_else(|| cairn::Error::invalid_argument(format!("no column family {name:?}")))
        })?;
        family_object(py, space)
    }

    /// Creates a family with RocksDB's options.
    #[pyo3(signature = (name, **options))]
    fn create_family(
        slf: &Bound<'_, Self>,
        name: &str,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Py<Family>> {
        let py = slf.py();
        let options = options::family_options(options, cairn::FamilyOptions::default())?;
        let space = Space::new(py, &shared(slf), |engine| match engine {
            Engine::Plain(db) => db.create_family(name, &options),
            Engine::Locking(db) => db.create_family(name, &options),
            Engine::Optimistic(db) => db.create_family(name, &options),
        })?;
        family_object(py, space)
    }

    /// Drops a family and its data. Objects of it can still read it.
    fn drop_family(slf: &Bound<'_, Self>, family: &Bound<'_, Family>) -> PyResult<()> {
        let cell = family.as_super().get().cell()?;
        let cell: &crate::space::FamilyCell = &cell;
        with(slf, |db| db.drop_family(cell.borrow_dependent()))
    }

    /// Writes a batch atomically.
    #[pyo3(signature = (batch, *, sync=false, **options))]
    fn write(
        slf: &Bound<'_, Self>,
        batch: &Bound<'_, WriteBatch>,
        sync: bool,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<()> {
        let options = options::write_options(sync, options)?;
        batch.get().write(slf.py(), slf.as_super().get(), &options)
    }

    /// `write` as a coroutine. Writes that wait for a sync share it. The batch can be reused at once.
    #[pyo3(signature = (batch, *, sync=false, **options))]
    fn write_async<'py>(
        slf: &Bound<'py, Self>,
        batch: &Bound<'py, WriteBatch>,
        sync: bool,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let options = options::write_options(sync, options)?;
        let copied = cairn::WriteBatch::from_data(batch.get().lock(py)?.data());
        let batch = copied.map_err(|error| raise(py, error))?;
        let cell = slf.as_super().get().cell()?.clone();
        if !matches!(**cell.borrow_owner(), Engine::Plain(_)) {
            return Err(invalid(
                "write_async: a database with transactions writes with `write`",
            ));
        }
        tasks::start(py, &shared(slf), async move {
            let db = cell.borrow_owner().db();
            db.write_async(batch, &options).await?;
            Ok(tasks::Outcome::None)
        })
    }

    /// A batch that is written at the end of its `with`, or emptied if an exception ends it.
    #[pyo3(signature = (*, sync=false, **options))]
    fn batch(
        slf: &Bound<'_, Self>,
        sync: bool,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<WriteBatch> {
        Ok(WriteBatch::to_write(
            slf.as_super(),
            options::write_options(sync, options)?,
        ))
    }

    /// The current state, to be read with `snapshot=`.
    fn snapshot(slf: &Bound<'_, Self>) -> PyResult<Snapshot> {
        Snapshot::new(slf.py(), &shared(slf))
    }

    /// The sequence number of the last write.
    #[getter]
    fn latest_sequence(slf: &Bound<'_, Self>) -> PyResult<u64> {
        with(slf, |db| Ok(db.latest_sequence().0))
    }

    /// Makes all writes durable.
    fn sync_wal(slf: &Bound<'_, Self>) -> PyResult<()> {
        with(slf, RustDb::sync_wal)
    }

    /// Waits until no flush and no compaction is running or due.
    fn wait_for_compact(slf: &Bound<'_, Self>) -> PyResult<()> {
        with(slf, |db| {
            db.wait_for_compact(&WaitForCompactOptions::default())
        })
    }

    /// Changes database options while the database is open.
    #[pyo3(signature = (**options))]
    fn set_db_options(slf: &Bound<'_, Self>, options: Option<&Bound<'_, PyDict>>) -> PyResult<()> {
        let changes = options
            .map(options::changes)
            .transpose()?
            .unwrap_or_default();
        let changes: Vec<_> = changes
            .iter()
            .map(|(name, value)| (&**name, &**value))
            .collect();
        with(slf, |db| db.set_db_options(&changes))
    }

    /// Every ticker of the statistics, by name. Empty if statistics are disabled.
    fn statistics(slf: &Bound<'_, Self>) -> PyResult<BTreeMap<&'static str, u64>> {
        with(slf, |db| {
            let mut counts = BTreeMap::new();
            if let Some(statistics) = db.statistics() {
                for ticker in (0..).map_while(Ticker::from_number) {
                    counts.insert(ticker.name(), statistics.ticker(ticker));
                }
            }
            Ok(counts)
        })
    }

    /// A histogram of the statistics, by its name in RocksDB: count, sum, average, median, percentiles, max.
    fn histogram(
        slf: &Bound<'_, Self>,
        name: &str,
    ) -> PyResult<Option<BTreeMap<&'static str, f64>>> {
        let Some(histogram) = Histogram::named(name) else {
            return Err(invalid(&format!("no histogram {name:?}")));
        };
        with(slf, |db| {
            Ok(db.statistics().map(|statistics| {
                let data = statistics.histogram(histogram).data();
                BTreeMap::from([
                    ("count", data.count as f64),
                    ("sum", data.sum as f64),
                    ("average", data.average),
                    ("standard_deviation", data.standard_deviation),
                    ("median", data.median),
                    ("percentile95", data.percentile95),
                    ("percentile99", data.percentile99),
                    ("max", data.max),
                ])
            }))
        })
    }

    /// Creates a copy of the database in `path`, a new directory. Tables are linked where possible.
    #[pyo3(signature = (path, log_size_for_flush=0))]
    fn checkpoint(slf: &Bound<'_, Self>, path: PathBuf, log_size_for_flush: u64) -> PyResult<u64> {
        with(slf, |db| {
            Ok(db.create_checkpoint(path, log_size_for_flush)?.0)
        })
    }

    /// Of a secondary instance or follower: reads what the primary has written since.
    fn catch_up(slf: &Bound<'_, Self>) -> PyResult<()> {
        with(slf, RustDb::try_catch_up_with_primary)
    }

    /// Reads every block of every file and verifies its checksum.
    fn verify_checksum(slf: &Bound<'_, Self>) -> PyResult<()> {
        with(slf, |db| db.verify_checksum(&Default::default()))
    }

    /// Resumes writes after a background error whose cause was removed.
    fn resume(slf: &Bound<'_, Self>) -> PyResult<()> {
        with(slf, RustDb::resume)
    }

    /// The error that stopped writes, or None.
    #[getter]
    fn background_error(slf: &Bound<'_, Self>) -> PyResult<Option<String>> {
        with(slf, |db| {
            Ok(db.background_error().map(|error| error.to_string()))
        })
    }
}

/// Creates a backup of an open database; see `BackupEngine.create`.
pub fn back_up(
    db: &Bound<'_, Db>,
    engine: &cairn::BackupEngine,
    options: &CreateBackupOptions,
) -> PyResult<u32> {
    with(db, |db| engine.create(db, options))
}

/// The names of the families of the database in `path`. No file is changed.
#[pyfunction]
pub fn list_families(py: Python<'_>, path: PathBuf) -> PyResult<Vec<String>> {
    let names = py.detach(|| RustDb::list_families(path));
    names.map_err(|error| raise(py, error))
}

/// Deletes the database in `path`, which no process has open.
#[pyfunction]
#[pyo3(signature = (path, **options))]
pub fn destroy(py: Python<'_>, path: PathBuf, options: Option<&Bound<'_, PyDict>>) -> PyResult<()> {
    let options = options::open_options(options)?;
    let done = py.detach(|| RustDb::destroy(path, &options));
    done.map_err(|error| raise(py, error))
}

/// Restores what can be read of a damaged database, which no process has open. Returns the number of tables kept and
/// those lost, each as (path, reason).
#[pyfunction]
#[pyo3(signature = (path, *, families=None, **options))]
pub fn repair(
    py: Python<'_>,
    path: PathBuf,
    families: Option<&Bound<'_, PyDict>>,
    options: Option<&Bound<'_, PyDict>>,
) -> PyResult<(usize, Vec<(PathBuf, String)>)> {
    let options = options::open_options(options)?;
    let mut descriptors = Vec::new();
    for (name, given) in families.iter().flat_map(|families| families.iter()) {
        let given: Option<Bound<'_, PyDict>> = given.extract()?;
        let of_family = options::family_options(given.as_ref(), options.family.clone())?;
        descriptors.push(FamilyDescriptor::new(name.extract::<String>()?, of_family));
    }
    let done = py.detach(|| RustDb::repair(path, &options, &descriptors));
    let report = done.map_err(|error| raise(py, error))?;
    let lost = report
        .lost
        .into_iter()
        .map(|table| (table.path, table.reason))
        .collect();
    Ok((report.kept, lost))
}
