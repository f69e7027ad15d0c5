//! Reads and writes of one column family.

use std::sync::{Arc, LazyLock};

use cairn::{Code, Family as RustFamily, KeyOrder, Range, ReadOptions, Value, WriteBatch};
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};
use self_cell::self_cell;

use crate::bytes::Bytes;
use crate::cursor::Cursor;
use crate::errors::{invalid, raise};
use crate::handle::{Engine, Reading, Shared, Slot};
use crate::options;
use crate::pinned::Pinned;
use crate::scan::{Part, Scan, bounds};
use crate::snapshot::Snapshot;
use crate::tasks;

self_cell!(
    /// A family and its database.
    pub struct FamilyCell {
        owner: Arc<Engine>,
        #[covariant]
        dependent: RustFamily,
    }
);

/// The slot of a family, which its iterators share.
pub type FamilySlot = Slot<Arc<FamilyCell>>;

/// Options of a read that fails with `Incomplete` instead of waiting for a file.
static CACHED: LazyLock<ReadOptions> = LazyLock::new(|| ReadOptions {
    read_tier: cairn::options::enums::ReadTier::BlockCache,
    ..ReadOptions::default()
});

/// A column family as a mapping of bytes to bytes, ordered by key: the part that `Db` and `Family` have in common.
///
/// `snapshot=` reads the state of a `Snapshot`. Further keywords are RocksDB's read or write options, such as
/// `fill_cache=False` or `disable_wal=True`.
#[pyclass(subclass, frozen, module = "cairn")]
pub struct Space {
    pub shared: Arc<Shared>,
    pub family: Arc<FamilySlot>,
}

/// A column family of a database.
#[pyclass(extends = Space, frozen, module = "cairn")]
pub struct Family;

impl Space {
    pub fn new(
        py: Python<'_>,
        shared: &Arc<Shared>,
        find: impl FnOnce(&Engine) -> cairn::Result<RustFamily<'_>> + Send,
    ) -> PyResult<Space> {
        let family = shared.depend(py, |engine| {
            let cell = FamilyCell::try_new(engine.clone(), |engine| find(engine))?;
            Ok(Slot::new(Arc::new(cell)))
        })?;
        Ok(Space {
            shared: shared.clone(),
            family,
        })
    }

    #[inline]
    pub fn cell(&self) -> PyResult<Reading<'_, Arc<FamilyCell>>> {
        self.family.read()
    }

    /// The value of `key`. With default options, a value in memory is found without detaching.
    #[inline]
    fn lookup(
        &self,
        py: Python<'_>,
        key: &[u8],
        options: Option<&ReadOptions>,
    ) -> PyResult<Option<Value>> {
        let cell = self.cell()?;
        let family = cell.borrow_dependent();
        let found = match options {
            None => match family.get_with(key, &CACHED) {
                Err(error) if error.code() == Code::Incomplete => py.detach(|| family.get(key)),
                found => found,
            },
            Some(options) => py.detach(|| family.get_with(key, options)),
        };
        found.map_err(|error| raise(py, error))
    }

    /// Applies a batch that `fill` makes for the family.
    fn write(
        &self,
        py: Python<'_>,
        sync: bool,
        given: Option<&Bound<'_, PyDict>>,
        fill: impl FnOnce(&mut WriteBatch, &RustFamily<'_>) + Send,
    ) -> PyResult<()> {
        let options = options::write_options(sync, given)?;
        let cell = self.cell()?;
        let cell: &FamilyCell = &cell;
        let written = py.detach(|| {
            let mut batch = WriteBatch::new();
            fill(&mut batch, cell.borrow_dependent());
            cell.borrow_owner().write(&batch, &options)
        });
        written.map_err(|error| raise(py, error))
    }

    /// Calls `work` with the family, detached.
    fn detached<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&RustFamily<'_>) -> cairn::Result<T> + Send,
    ) -> PyResult<T> {
        let cell = self.cell()?;
        let cell: &FamilyCell = &cell;
        let done = py.detach(|| work(cell.borrow_dependent()));
        done.map_err(|error| raise(py, error))
    }

    fn scan(
        &self,
        py: Python<'_>,
        part: Part,
        range: (Option<Bytes<'_>>, Option<Bytes<'_>>, Option<Bytes<'_>>),
        reverse: bool,
        snapshot: Option<&Bound<'_, Snapshot>>,
        given: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Scan> {
        let options = self.range_options(range, snapshot, given)?;
        let cell = self.cell()?;
        Scan::over(py, &self.shared, &cell, options, part, reverse)
    }

    /// The options of a read.
    fn read_options(
        &self,
        snapshot: Option<&Bound<'_, Snapshot>>,
        given: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Option<ReadOptions>> {
        let sequence = snapshot.map(|snapshot| snapshot.get().sequence_of(&self.shared));
        options::read_options(sequence.transpose()?, given)
    }

    /// The options of a scan.
    pub fn range_options(
        &self,
        (start, stop, prefix): (Option<Bytes<'_>>, Option<Bytes<'_>>, Option<Bytes<'_>>),
        snapshot: Option<&Bound<'_, Snapshot>>,
        given: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<ReadOptions> {
        let mut options = self.read_options(snapshot, given)?.unwrap_or_default();
        if !options::chooses_prefix_mode(given)? {
            options.auto_prefix_mode = true;
        }
        if prefix.is_some() {
            let cell = self.cell()?;
            check_prefix_order(&cell.borrow_dependent().options().comparator)?;
        }
        bounds(&mut options, start, stop, prefix);
        Ok(options)
    }
}

/// Rejects a prefix in a key order where the keys with a prefix are not a range.
pub fn check_prefix_order(order: &KeyOrder) -> PyResult<()> {
    match order {
        KeyOrder::Bytewise => Ok(()),
        other => Err(invalid(&format!(
            "prefix: the keys are ordered by {}, so those with a prefix are not a range",
            other.name()
        ))),
    }
}

/// Values as a list, each bytes or None.
pub fn values_list<'py>(
    py: Python<'py>,
    found: Vec<cairn::Result<Option<Value>>>,
) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    for value in found {
        match value.map_err(|error| raise(py, error))? {
            Some(value) => list.append(PyBytes::new(py, &value))?,
            None => list.append(py.None())?,
        }
    }
    Ok(list)
}

/// The items of an iterable, which keep their bytes alive.
pub fn items<'py>(keys: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    keys.try_iter()?.collect()
}

pub fn as_bytes<'a>(items: &'a [Bound<'_, PyAny>]) -> PyResult<Vec<Bytes<'a>>> {
    items
        .iter()
        .map(|item| item.extract::<Bytes<'a>>())
        .collect()
}

#[pymethods]
impl Space {
    /// The name of the family.
    #[getter]
    fn name(&self) -> PyResult<String> {
        Ok(self.cell()?.borrow_dependent().name().to_owned())
    }

    /// The number of the family.
    #[getter]
    fn id(&self) -> PyResult<u32> {
        Ok(self.cell()?.borrow_dependent().id())
    }

    fn __getitem__<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        match self.lookup(py, &key.extract::<Bytes<'_>>()?, None)? {
            Some(value) => Ok(PyBytes::new(py, &value)),
            None => Err(PyKeyError::new_err(key.clone().unbind())),
        }
    }

    fn __setitem__(&self, py: Python<'_>, key: Bytes<'_>, value: Bytes<'_>) -> PyResult<()> {
        self.put(py, key, value, false, None)
    }

    fn __delitem__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<()> {
        let bytes: Bytes<'_> = key.extract()?;
        if self.lookup(py, &bytes, None)?.is_none() {
            return Err(PyKeyError::new_err(key.clone().unbind()));
        }
        self.write(py, false, None, |batch, family| {
            batch.delete_in(family, &bytes)
        })
    }

    fn __contains__(&self, py: Python<'_>, key: Bytes<'_>) -> PyResult<bool> {
        Ok(self.lookup(py, &key, None)?.is_some())
    }

    fn __iter__(&self, py: Python<'_>) -> PyResult<Scan> {
        self.scan(py, Part::Keys, (None, None, None), false, None, None)
    }

    /// The value of `key`, or `default`.
    #[pyo3(signature = (key, default=None, *, snapshot=None, **options))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: Bytes<'_>,
        default: Option<Bound<'py, PyAny>>,
        snapshot: Option<&Bound<'py, Snapshot>>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let options = self.read_options(snapshot, options)?;
        Ok(match self.lookup(py, &key, options.as_ref())? {
            Some(value) => Some(PyBytes::new(py, &value).into_any()),
            None => default,
        })
    }

    /// The value of `key` in place, or None: an object with the buffer protocol.
    #[pyo3(signature = (key, *, snapshot=None, **options))]
    fn get_pinned(
        &self,
        py: Python<'_>,
        key: Bytes<'_>,
        snapshot: Option<&Bound<'_, Snapshot>>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Option<Pinned>> {
        let options = self.read_options(snapshot, options)?;
        Ok(self.lookup(py, &key, options.as_ref())?.map(Pinned))
    }

    /// The values of `keys`, each bytes or None, read together.
    #[pyo3(signature = (keys, *, snapshot=None, **options))]
    fn multi_get<'py>(
        &self,
        py: Python<'py>,
        keys: &Bound<'py, PyAny>,
        snapshot: Option<&Bound<'py, Snapshot>>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyList>> {
        let options = self.read_options(snapshot, options)?.unwrap_or_default();
        let items = items(keys)?;
        let keys = as_bytes(&items)?;
        let found = self.detached(py, |family| Ok(family.multi_get(&keys, &options)))?;
        values_list(py, found)
    }

    /// The columns of the entity `key` as a dict, or None. A plain value is the column b"".
    #[pyo3(signature = (key, *, snapshot=None, **options))]
    fn get_entity<'py>(
        &self,
        py: Python<'py>,
        key: Bytes<'_>,
        snapshot: Option<&Bound<'py, Snapshot>>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Option<Bound<'py, PyDict>>> {
        let options = self.read_options(snapshot, options)?.unwrap_or_default();
        let found = self.detached(py, |family| family.get_entity_with(&key, &options))?;
        let Some(columns) = found else {
            return Ok(None);
        };
        let dict = PyDict::new(py);
        for column in columns.iter() {
            dict.set_item(PyBytes::new(py, column.0), PyBytes::new(py, column.1))?;
        }
        Ok(Some(dict))
    }

    /// Sets `key` to `value`.
    #[pyo3(signature = (key, value, *, sync=false, **options))]
    fn put(
        &self,
        py: Python<'_>,
        key: Bytes<'_>,
        value: Bytes<'_>,
        sync: bool,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<()> {
        // No guard is held while the options are read, which may call Python and close the database.
        let special = match (sync, options) {
            (false, None) => None,
            _ => Some(options::write_options(sync, options)?),
        };
        let cell = self.cell()?;
        let cell: &FamilyCell = &cell;
        let family = cell.borrow_dependent();
        let (key, value): (&[u8], &[u8]) = (&key, &value);
        let written = py.detach(|| match (&**cell.borrow_owner(), special) {
            (Engine::Plain(_), None) => family.put(key, value),
            (Engine::Plain(_), Some(options)) => family.put_with(key, value, &options),
            (Engine::Locking(db), options) => {
                db.put_in(family, key, value, &options.unwrap_or_default())
            }
            (Engine::Optimistic(db), options) => {
                let mut batch = WriteBatch::new();
                batch.put_in(family, key, value);
                db.write(&batch, &options.unwrap_or_default())
            }
        });
        written.map_err(|error| raise(py, error))
    }

    /// Sets `key` to an entity: a dict of columns.
    #[pyo3(signature = (key, columns, *, sync=false, **options))]
    fn put_entity(
        &self,
        py: Python<'_>,
        key: Bytes<'_>,
        columns: &Bound<'_, PyDict>,
        sync: bool,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<()> {
        let columns = crate::batch::columns(columns)?;
        let columns: Vec<_> = columns
            .iter()
            .map(|(name, value)| (&**name, &**value))
            .collect();
        self.write(py, sync, options, |batch, family| {
            batch.put_entity_in(family, &key, &columns)
        })
    }

    /// Writes all pairs of a mapping, or of an iterable of pairs, atomically.
    #[pyo3(signature = (pairs, *, sync=false, **options))]
    fn update(
        &self,
        py: Python<'_>,
        pairs: &Bound<'_, PyAny>,
        sync: bool,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<()> {
        let pairs = match pairs.cast::<PyDict>() {
            Ok(dict) => dict.items().into_any(),
            Err(_) => pairs.clone(),
        };
        let options = options::write_options(sync, options)?;
        let mut batch = WriteBatch::new();
        for pair in pairs.try_iter()? {
            let (key, value): (Bound<'_, PyAny>, Bound<'_, PyAny>) = pair?.extract()?;
            let (key, value): (Bytes<'_>, Bytes<'_>) = (key.extract()?, value.extract()?);
            // No guard is held while the iterator runs, which may close the database.
            batch.put_in(self.cell()?.borrow_dependent(), &key, &value);
        }
        let cell = self.cell()?;
        let engine: &Engine = cell.borrow_owner();
        let written = py.detach(|| engine.write(&batch, &options));
        written.map_err(|error| raise(py, error))
    }

    /// Deletes `key`. Deleting a missing key is not an error.
    #[pyo3(signature = (key, *, sync=false, **options))]
    fn delete(
        &self,
        py: Python<'_>,
        key: Bytes<'_>,
        sync: bool,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<()> {
        self.write(py, sync, options, |batch, family| {
            batch.delete_in(family, &key)
        })
    }

    /// Deletes `key`, which was put once since it was last deleted. Cheaper than `delete`.
    #[pyo3(signature = (key, *, sync=false, **options))]
    fn single_delete(
        &self,
        py: Python<'_>,
        key: Bytes<'_>,
        sync: bool,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<()> {
        self.write(py, sync, options, |batch, family| {
            batch.single_delete_in(family, &key)
        })
    }

    /// Deletes the keys from `start` up to, but excluding, `stop`.
    #[pyo3(signature = (start, stop, *, sync=false, **options))]
    fn delete_range(
        &self,
        py: Python<'_>,
        start: Bytes<'_>,
        stop: Bytes<'_>,
        sync: bool,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<()> {
        self.write(py, sync, options, |batch, family| {
            batch.delete_range_in(family, &start, &stop)
        })
    }

    /// Adds a merge operand to `key`. The family needs a merge operator.
    #[pyo3(signature = (key, operand, *, sync=false, **options))]
    fn merge(
        &self,
        py: Python<'_>,
        key: Bytes<'_>,
        operand: Bytes<'_>,
        sync: bool,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<()> {
        self.write(py, sync, options, |batch, family| {
            batch.merge_in(family, &key, &operand)
        })
    }

    /// An iterator over (key, value) from `start` up to, but excluding, `stop`, or of the keys with `prefix`.
    #[pyo3(signature = (start=None, stop=None, *, prefix=None, reverse=false, snapshot=None, **options))]
    #[allow(clippy::too_many_arguments, reason = "the keywords of Python")]
    fn items(
        &self,
        py: Python<'_>,
        start: Option<Bytes<'_>>,
        stop: Option<Bytes<'_>>,
        prefix: Option<Bytes<'_>>,
        reverse: bool,
        snapshot: Option<&Bound<'_, Snapshot>>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Scan> {
        self.scan(
            py,
            Part::Items,
            (start, stop, prefix),
            reverse,
            snapshot,
            options,
        )
    }

    /// `items`, but the keys alone.
    #[pyo3(signature = (start=None, stop=None, *, prefix=None, reverse=false, snapshot=None, **options))]
    #[allow(clippy::too_many_arguments, reason = "the keywords of Python")]
    fn keys(
        &self,
        py: Python<'_>,
        start: Option<Bytes<'_>>,
        stop: Option<Bytes<'_>>,
        prefix: Option<Bytes<'_>>,
        reverse: bool,
        snapshot: Option<&Bound<'_, Snapshot>>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Scan> {
        self.scan(
            py,
            Part::Keys,
            (start, stop, prefix),
            reverse,
            snapshot,
            options,
        )
    }

    /// `items`, but the values alone.
    #[pyo3(signature = (start=None, stop=None, *, prefix=None, reverse=false, snapshot=None, **options))]
    #[allow(clippy::too_many_arguments, reason = "the keywords of Python")]
    fn values(
        &self,
        py: Python<'_>,
        start: Option<Bytes<'_>>,
        stop: Option<Bytes<'_>>,
        prefix: Option<Bytes<'_>>,
        reverse: bool,
        snapshot: Option<&Bound<'_, Snapshot>>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Scan> {
        self.scan(
            py,
            Part::Values,
            (start, stop, prefix),
            reverse,
            snapshot,
            options,
        )
    }

    /// A cursor that is moved explicitly, not yet positioned.
    #[pyo3(signature = (start=None, stop=None, *, prefix=None, snapshot=None, **options))]
    fn cursor(
        &self,
        py: Python<'_>,
        start: Option<Bytes<'_>>,
        stop: Option<Bytes<'_>>,
        prefix: Option<Bytes<'_>>,
        snapshot: Option<&Bound<'_, Snapshot>>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Cursor> {
        let options = self.range_options((start, stop, prefix), snapshot, options)?;
        Cursor::new(py, &self.shared, &*self.cell()?, options)
    }

    /// `get` as a coroutine. A value in memory is returned without a switch of tasks.
    #[pyo3(signature = (key, default=None, *, snapshot=None, **options))]
    fn get_async<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
        snapshot: Option<&Bound<'py, Snapshot>>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let options = self.read_options(snapshot, options)?;
        let bytes: Bytes<'_> = key.extract()?;
        let cell = self.cell()?;
        if options.is_none() {
            match cell.borrow_dependent().get_with(&bytes, &CACHED) {
                Err(error) if error.code() == Code::Incomplete => {}
                found => {
                    let found = found.map_err(|error| raise(py, error))?;
                    let value = found.map(|value| PyBytes::new(py, &value).into_any());
                    return tasks::ready(py, value.or(default));
                }
            }
        }
        let (cell, key, default) = (cell.clone(), bytes.to_vec(), default.map(Bound::unbind));
        let options = options.unwrap_or_default();
        tasks::start(py, &self.shared, async move {
            let found = cell.borrow_dependent().get_with_async(&key, &options).await;
            Ok(tasks::Outcome::Value(found?, default))
        })
    }

    /// `multi_get` as a coroutine.
    #[pyo3(signature = (keys, *, snapshot=None, **options))]
    fn multi_get_async<'py>(
        &self,
        py: Python<'py>,
        keys: &Bound<'py, PyAny>,
        snapshot: Option<&Bound<'py, Snapshot>>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let options = self.read_options(snapshot, options)?.unwrap_or_default();
        let items = items(keys)?;
        let keys: Vec<Vec<u8>> = as_bytes(&items)?.iter().map(|key| key.to_vec()).collect();
        let cell = self.cell()?.clone();
        tasks::start(py, &self.shared, async move {
            let family = cell.borrow_dependent();
            let keys: Vec<_> = keys.iter().map(|key| (family, &**key)).collect();
            let db = cell.borrow_owner().db();
            Ok(tasks::Outcome::Values(
                db.multi_get_in_async(&keys, &options, false).await,
            ))
        })
    }

    /// `items` as an asynchronous iterator, in ascending order: `async for key, value in db.items_async()`.
    #[pyo3(signature = (start=None, stop=None, *, prefix=None, snapshot=None, **options))]
    fn items_async<'py>(
        &self,
        py: Python<'py>,
        start: Option<Bytes<'_>>,
        stop: Option<Bytes<'_>>,
        prefix: Option<Bytes<'_>>,
        snapshot: Option<&Bound<'py, Snapshot>>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let options = self.range_options((start, stop, prefix), snapshot, options)?;
        tasks::scan(py, &self.shared, &*self.cell()?, options)
    }

    /// Writes the memtables to a table and waits for it.
    #[pyo3(signature = (**options))]
    fn flush(&self, py: Python<'_>, options: Option<&Bound<'_, PyDict>>) -> PyResult<()> {
        let options = options::flush_options(options)?;
        self.detached(py, |family| family.flush_with(&options))
    }

    /// Compacts the keys from `start` to `stop`, both included; without them, all.
    #[pyo3(signature = (start=None, stop=None, **options))]
    fn compact_range(
        &self,
        py: Python<'_>,
        start: Option<Bytes<'_>>,
        stop: Option<Bytes<'_>>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<()> {
        let options = options::compact_options(options)?;
        self.detached(py, |family| {
            family.compact_range(start.as_deref(), stop.as_deref(), &options)
        })
    }

    /// Adds tables that `SstFileWriter` wrote, atomically.
    #[pyo3(signature = (files, **options))]
    fn ingest(
        &self,
        py: Python<'_>,
        files: Vec<std::path::PathBuf>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<()> {
        let options = options::ingest_options(options)?;
        self.detached(py, |family| family.ingest_external_file(files, &options))
    }

    /// Changes options of the family while the database is open.
    #[pyo3(signature = (**options))]
    fn set_options(&self, py: Python<'_>, options: Option<&Bound<'_, PyDict>>) -> PyResult<()> {
        let changes = options
            .map(options::changes)
            .transpose()?
            .unwrap_or_default();
        let changes: Vec<_> = changes
            .iter()
            .map(|(name, value)| (&**name, &**value))
            .collect();
        self.detached(py, |family| family.set_options(&changes))
    }

    /// The options of the family as text, by name.
    fn options<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        use cairn::options::Options as _;
        let options = self.cell()?.borrow_dependent().options();
        let dict = PyDict::new(py);
        for row in cairn::FamilyOptions::rows() {
            let value = options.get(row.name).map_err(|error| raise(py, error))?;
            dict.set_item(row.name, value)?;
        }
        Ok(dict)
    }

    /// A property, such as "rocksdb.estimate-num-keys", as str; None if there is none of that name.
    fn property(&self, py: Python<'_>, name: &str) -> PyResult<Option<String>> {
        self.detached(py, |family| Ok(family.property(name)))
    }

    /// A property that is a map, such as "rocksdb.cfstats", as dict.
    fn property_map(
        &self,
        py: Python<'_>,
        name: &str,
    ) -> PyResult<Option<std::collections::BTreeMap<String, String>>> {
        self.detached(py, |family| Ok(family.property_map(name)))
    }

    /// The approximate bytes of the tables with the keys from `start` up to `stop`.
    fn approximate_size(&self, py: Python<'_>, start: Bytes<'_>, stop: Bytes<'_>) -> PyResult<u64> {
        let sizes = self.detached(py, |family| {
            let range = Range {
                begin: &start,
                end: &stop,
            };
            family.approximate_sizes(&[range], &Default::default())
        })?;
        Ok(sizes.first().copied().unwrap_or(0))
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        let class = slf.get_type().name()?;
        let path = slf.get().shared.path.display().to_string();
        Ok(match slf.get().name() {
            Ok(name) => format!("<{class} {name:?} of {path:?}>"),
            Err(_) => format!("<{class} of {path:?}, closed>"),
        })
    }
}
