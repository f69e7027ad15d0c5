//! Transactions.

use std::path::PathBuf;
use std::sync::Arc;

use cairn::transactions::{
    OptimisticTransactionDbOptions, OptimisticTransactionOptions, TransactionDbOptions,
    TransactionOptions, TransactionState, WriteCounts,
};
use cairn::{Error, Family as RustFamily, ReadOptions, Result, Transaction as RustTransaction};
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};
use self_cell::self_cell;

use crate::bytes::Bytes;
use crate::db::{Db, Opening, space_of};
use crate::errors::{invalid, raise};
use crate::handle::{Engine, Exclusive, Shared};
use crate::options;
use crate::scan::{Chunk, Part, Scan, Source};
use crate::snapshot::SnapshotCell;
use crate::space::{FamilyCell, Space};

self_cell!(
    /// A transaction and its database.
    pub struct TransactionCell {
        owner: Arc<Engine>,
        #[not_covariant]
        dependent: RustTransaction,
    }
);

/// A database whose transactions lock the keys that they write, or read with `get_for_update`.
///
/// Keywords are those of `Db` and RocksDB's `TransactionDBOptions`; timeouts are in milliseconds.
#[pyclass(extends = Db, frozen, module = "cairn")]
pub struct TransactionDb;

/// A database whose transactions take no locks: a commit fails with `Busy` if one of its keys was written by others.
#[pyclass(extends = Db, frozen, module = "cairn")]
pub struct OptimisticTransactionDb;

/// Reads and writes that take effect together or not at all. At the end of its `with` it is committed, or rolled back if
/// an exception ends it. `family=` names the family of an operation.
#[pyclass(frozen, module = "cairn")]
pub struct Transaction {
    inner: Arc<Exclusive<TransactionCell>>,
    shared: Arc<Shared>,
    db: Py<Space>,
}

fn db_of(slf: &Bound<'_, Db>) -> Py<Space> {
    slf.as_super().clone().unbind()
}

/// Begins a transaction.
fn begin(
    db: &Bound<'_, Db>,
    begin: impl FnOnce(&Engine) -> Result<RustTransaction<'_>> + Send,
) -> PyResult<Transaction> {
    let shared = db.as_super().get().shared.clone();
    let inner = shared.depend(db.py(), |engine| {
        TransactionCell::try_new(engine.clone(), |engine| begin(engine)).map(Exclusive::new)
    })?;
    Ok(Transaction {
        inner,
        shared,
        db: db_of(db),
    })
}

/// Calls `function` with a transaction and commits it, again after a conflict.
fn transact<'py>(
    py: Python<'py>,
    function: &Bound<'py, PyAny>,
    attempts: usize,
    begin: impl Fn() -> PyResult<Transaction>,
) -> PyResult<Bound<'py, PyAny>> {
    let conflicts = py.import("cairn._errors")?.getattr("CONFLICTS")?;
    for attempt in 1..=attempts {
        let transaction = Bound::new(py, begin()?)?;
        let done = function.call1((&transaction,)).and_then(|returned| {
            transaction.get().commit(py)?;
            Ok(returned)
        });
        match done {
            Err(error) if attempt < attempts && error.matches(py, &conflicts)? => {
                transaction.get().rollback(py)?;
            }
            Err(error) => {
                // The error of the work, not one that follows from it.
                let _ = transaction.get().rollback(py);
                return Err(error);
            }
            done => return done,
        }
    }
    Err(invalid("attempts: expected at least 1"))
}

#[pymethods]
impl TransactionDb {
    #[new]
    #[pyo3(signature = (path, *, families=None, max_num_locks=None, num_stripes=None, transaction_lock_timeout=None, default_lock_timeout=None, **options))]
    #[allow(clippy::too_many_arguments, reason = "the keywords of Python")]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        families: Option<&Bound<'_, PyDict>>,
        max_num_locks: Option<i64>,
        num_stripes: Option<usize>,
        transaction_lock_timeout: Option<i64>,
        default_lock_timeout: Option<i64>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<PyClassInitializer<TransactionDb>> {
        let opening = Opening::new(path, families, options)?;
        let d = TransactionDbOptions::default();
        let locking = TransactionDbOptions {
            max_num_locks: max_num_locks.unwrap_or(d.max_num_locks),
            num_stripes: num_stripes.unwrap_or(d.num_stripes),
            transaction_lock_timeout: transaction_lock_timeout
                .unwrap_or(d.transaction_lock_timeout),
            default_lock_timeout: default_lock_timeout.unwrap_or(d.default_lock_timeout),
            ..d
        };
        let space = space_of(py, || {
            opening
                .builder
                .open_transactional(&locking)
                .map(Engine::Locking)
        })?;
        Ok(PyClassInitializer::from(space)
            .add_subclass(Db)
            .add_subclass(TransactionDb))
    }

    /// Begins a transaction. Keywords are RocksDB's `TransactionOptions`, and `sync` for its commit.
    #[pyo3(signature = (*, sync=false, set_snapshot=false, deadlock_detect=false, lock_timeout=-1, expiration=-1, max_write_batch_size=0))]
    fn begin(
        slf: &Bound<'_, Self>,
        sync: bool,
        set_snapshot: bool,
        deadlock_detect: bool,
        lock_timeout: i64,
        expiration: i64,
        max_write_batch_size: usize,
    ) -> PyResult<Transaction> {
        let write_options = options::write_options(sync, None)?;
        let options = TransactionOptions {
            set_snapshot,
            deadlock_detect,
            lock_timeout,
            expiration,
            max_write_batch_size,
            ..TransactionOptions::default()
        };
        begin(slf.as_super(), |engine| match engine {
            Engine::Locking(db) => Ok(db.begin_with(&write_options, &options)),
            Engine::Plain(_) | Engine::Optimistic(_) => Err(no_transactions()),
        })
    }

    /// Calls `function` with a transaction that detects deadlocks, commits it, and returns the result; again after a
    /// conflict, a timeout or a deadlock, at most `attempts` times.
    #[pyo3(signature = (function, *, attempts=100))]
    fn transact<'py>(
        slf: &Bound<'py, Self>,
        function: &Bound<'py, PyAny>,
        attempts: usize,
    ) -> PyResult<Bound<'py, PyAny>> {
        transact(slf.py(), function, attempts, || {
            let deadlock_detect = true;
            TransactionDb::begin(slf, false, false, deadlock_detect, -1, -1, 0)
        })
    }

    /// The transactions that were prepared but neither committed nor rolled back, also by an earlier process.
    fn prepared_transactions(slf: &Bound<'_, Self>) -> PyResult<Vec<Transaction>> {
        let py = slf.py();
        let names =
            crate::db::with_engine(py, &slf.as_super().as_super().get().shared, |engine| {
                match engine {
                    Engine::Locking(db) => {
                        let prepared = db.prepared_transactions();
                        Ok(prepared
                            .iter()
                            .map(|txn| txn.name().to_vec())
                            .collect::<Vec<_>>())
                    }
                    Engine::Plain(_) | Engine::Optimistic(_) => Err(no_transactions()),
                }
            })?;
        let found = names.into_iter().map(|name| {
            begin(slf.as_super(), |engine| match engine {
                Engine::Locking(db) => db.transaction_by_name(&name).ok_or_else(no_transactions),
                Engine::Plain(_) | Engine::Optimistic(_) => Err(no_transactions()),
            })
        });
        found.collect()
    }
}

fn no_transactions() -> Error {
    Error::invalid_argument("no such transaction")
}

#[pymethods]
impl OptimisticTransactionDb {
    #[new]
    #[pyo3(signature = (path, *, families=None, **options))]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        families: Option<&Bound<'_, PyDict>>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<PyClassInitializer<OptimisticTransactionDb>> {
        let opening = Opening::new(path, families, options)?;
        let space = space_of(py, || {
            let db = opening
                .builder
                .open_optimistic(&OptimisticTransactionDbOptions::default());
            db.map(Engine::Optimistic)
        })?;
        Ok(PyClassInitializer::from(space)
            .add_subclass(Db)
            .add_subclass(OptimisticTransactionDb))
    }

    /// Begins a transaction; `sync` is for its commit.
    #[pyo3(signature = (*, sync=false, set_snapshot=false))]
    fn begin(slf: &Bound<'_, Self>, sync: bool, set_snapshot: bool) -> PyResult<Transaction> {
        let write_options = options::write_options(sync, None)?;
        let options = OptimisticTransactionOptions { set_snapshot };
        begin(slf.as_super(), |engine| match engine {
            Engine::Optimistic(db) => Ok(db.begin_with(&write_options, &options)),
            Engine::Plain(_) | Engine::Locking(_) => Err(no_transactions()),
        })
    }

    /// Calls `function` with a transaction, commits it, and returns the result; again after a conflict, at most
    /// `attempts` times.
    #[pyo3(signature = (function, *, attempts=100))]
    fn transact<'py>(
        slf: &Bound<'py, Self>,
        function: &Bound<'py, PyAny>,
        attempts: usize,
    ) -> PyResult<Bound<'py, PyAny>> {
        transact(slf.py(), function, attempts, || {
            OptimisticTransactionDb::begin(slf, false, false)
        })
    }
}

impl Transaction {
    /// Calls `work` with the transaction, detached.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut RustTransaction<'_>) -> Result<T> + Send,
    ) -> PyResult<T> {
        let mut guard = self.inner.lock(py)?;
        let cell: &mut TransactionCell = &mut guard;
        let done = py.detach(|| cell.with_dependent_mut(|_, transaction| work(transaction)));
        done.map_err(|error| raise(py, error))
    }

    /// Calls `work` with the transaction and a family, detached.
    fn with_family<T: Send>(
        &self,
        py: Python<'_>,
        family: Option<&Bound<'_, Space>>,
        work: impl FnOnce(&mut RustTransaction<'_>, &RustFamily<'_>) -> Result<T> + Send,
    ) -> PyResult<T> {
        let cell = family.unwrap_or(self.db.bind(py)).get().cell()?;
        let cell: &FamilyCell = &cell;
        self.with(py, |transaction| work(transaction, cell.borrow_dependent()))
    }
}

#[pymethods]
impl Transaction {
    fn __getitem__<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        match self.get(py, key.extract()?, None, None, None)? {
            Some(value) => Ok(value),
            None => Err(PyKeyError::new_err(key.clone().unbind())),
        }
    }

    fn __setitem__(&self, py: Python<'_>, key: Bytes<'_>, value: Bytes<'_>) -> PyResult<()> {
        self.put(py, key, value, None)
    }

    fn __delitem__(&self, py: Python<'_>, key: Bytes<'_>) -> PyResult<()> {
        self.delete(py, key, None)
    }

    fn __contains__(&self, py: Python<'_>, key: Bytes<'_>) -> PyResult<bool> {
        Ok(self.get(py, key, None, None, None)?.is_some())
    }

    /// The value of `key` as the transaction sees it, or `default`.
    #[pyo3(signature = (key, default=None, *, family=None, **options))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: Bytes<'_>,
        default: Option<Bound<'py, PyAny>>,
        family: Option<&Bound<'py, Space>>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let options = options::read_options(None, options)?.unwrap_or_default();
        let found = self.with_family(py, family, |transaction, family| {
            transaction.get_in(family, &key, &options)
        })?;
        Ok(match found {
            Some(value) => Some(PyBytes::new(py, &value).into_any()),
            None => default,
        })
    }

    /// `get`, and locks the key, or has the commit check that others have not written it.
    #[pyo3(signature = (key, default=None, *, exclusive=true, family=None, **options))]
    fn get_for_update<'py>(
        &self,
        py: Python<'py>,
        key: Bytes<'_>,
        default: Option<Bound<'py, PyAny>>,
        exclusive: bool,
        family: Option<&Bound<'py, Space>>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let options = options::read_options(None, options)?.unwrap_or_default();
        let found = self.with_family(py, family, |transaction, family| {
            transaction.get_for_update_in(family, &key, &options, exclusive, true)
        })?;
        Ok(match found {
            Some(value) => Some(PyBytes::new(py, &value).into_any()),
            None => default,
        })
    }

    /// Sets `key` to `value`.
    #[pyo3(signature = (key, value, *, family=None))]
    fn put(
        &self,
        py: Python<'_>,
        key: Bytes<'_>,
        value: Bytes<'_>,
        family: Option<&Bound<'_, Space>>,
    ) -> PyResult<()> {
        self.with_family(py, family, |transaction, family| {
            transaction.put_in(family, &key, &value)
        })
    }

    /// Deletes `key`.
    #[pyo3(signature = (key, *, family=None))]
    fn delete(
        &self,
        py: Python<'_>,
        key: Bytes<'_>,
        family: Option<&Bound<'_, Space>>,
    ) -> PyResult<()> {
        self.with_family(py, family, |transaction, family| {
            transaction.delete_in(family, &key)
        })
    }

    /// Adds a merge operand to `key`.
    #[pyo3(signature = (key, operand, *, family=None))]
    fn merge(
        &self,
        py: Python<'_>,
        key: Bytes<'_>,
        operand: Bytes<'_>,
        family: Option<&Bound<'_, Space>>,
    ) -> PyResult<()> {
        self.with_family(py, family, |transaction, family| {
            transaction.merge_in(family, &key, &operand)
        })
    }

    /// An iterator over (key, value) that includes the writes of the transaction.
    ///
    /// The state of the database is that at the call, or of the transaction's snapshot.
    #[pyo3(signature = (start=None, stop=None, *, prefix=None, reverse=false, family=None, **options))]
    #[allow(clippy::too_many_arguments, reason = "the keywords of Python")]
    fn items(
        &self,
        py: Python<'_>,
        start: Option<Bytes<'_>>,
        stop: Option<Bytes<'_>>,
        prefix: Option<Bytes<'_>>,
        reverse: bool,
        family: Option<&Bound<'_, Space>>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Scan> {
        let space = family.unwrap_or(self.db.bind(py)).get();
        // Checked here, before the scan is registered with the database of `family`.
        if !Arc::ptr_eq(&space.shared, &self.shared) {
            return Err(invalid("family: it belongs to another database"));
        }
        let mut options = space.range_options((start, stop, prefix), None, options)?;
        // Each chunk begins with a seek to the last key of the chunk before, and may continue with other prefixes.
        options.total_order_seek |= !options.prefix_same_as_start;
        let family = space.cell()?.clone();
        let of_transaction = self.with(py, |transaction| Ok(transaction.snapshot()))?;
        let transaction = self.inner.clone();
        Scan::new(py, &self.shared, Part::Items, || {
            let snapshot = SnapshotCell::new(family.borrow_owner().clone(), |engine| {
                engine.db().snapshot()
            });
            let sequence = of_transaction.unwrap_or(snapshot.borrow_dependent().sequence());
            options.snapshot = Some(sequence);
            Ok(Box::new(Paged {
                transaction,
                family,
                options,
                reverse,
                last: None,
                _snapshot: snapshot,
            }))
        })
    }

    /// Applies the writes.
    fn commit(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |transaction| transaction.commit())
    }

    /// Discards the writes and releases the locks.
    fn rollback(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |transaction| transaction.rollback())
    }

    /// Makes the writes of a named transaction durable but not visible, for `commit` or `rollback` later.
    fn prepare(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |transaction| transaction.prepare())
    }

    /// The name, by which a prepared transaction is found again.
    #[getter]
    fn name<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let name = self.with(py, |transaction| Ok(transaction.name().to_vec()))?;
        Ok(PyBytes::new(py, &name))
    }

    #[setter]
    fn set_name(&self, py: Python<'_>, name: Bytes<'_>) -> PyResult<()> {
        self.with(py, |transaction| transaction.set_name(&name))
    }

    /// Takes a snapshot: keys that others write from now on are conflicts.
    fn set_snapshot(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |transaction| {
            transaction.set_snapshot();
            Ok(())
        })
    }

    /// Marks the current state, for `rollback_to_save_point`.
    fn set_save_point(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |transaction| {
            transaction.set_save_point();
            Ok(())
        })
    }

    /// Discards the writes since the last mark, and the mark.
    fn rollback_to_save_point(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |transaction| transaction.rollback_to_save_point())
    }

    /// Removes the last mark.
    fn pop_save_point(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |transaction| transaction.pop_save_point())
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (raised, *_rest))]
    fn __exit__(
        &self,
        py: Python<'_>,
        raised: &Bound<'_, PyAny>,
        _rest: &Bound<'_, PyTuple>,
    ) -> PyResult<()> {
        if !raised.is_none() {
            // The exception is the one of the block, also if the rollback fails.
            let _ = self.rollback(py);
            return Ok(());
        }
        let is_late = self.with(py, |transaction| match transaction.state() {
            TransactionState::Started | TransactionState::Prepared => {
                transaction.commit().map(|()| false)
            }
            _ => Ok(transaction.counts() != WriteCounts::default()),
        })?;
        if is_late {
            // With its locks.
            self.inner.clear(py)?;
            return Err(invalid(
                "writes after the commit of the transaction are discarded",
            ));
        }
        Ok(())
    }
}

/// The entries of a transaction, each chunk by a new iterator.
struct Paged {
    transaction: Arc<Exclusive<TransactionCell>>,
    family: Arc<FamilyCell>,
    options: ReadOptions,
    reverse: bool,
    /// The last key returned.
    last: Option<Vec<u8>>,
    _snapshot: SnapshotCell,
}

impl Source for Paged {
    fn fill(&mut self, chunk: &mut Chunk, part: Part, limit: usize) -> Result<bool> {
        let Some(transaction) = self.transaction.lock_detached()? else {
            return Err(Error::invalid_argument("the transaction has ended"));
        };
        let (last, reverse) = (&mut self.last, self.reverse);
        transaction.with_dependent(|_, transaction| {
            let mut iter = transaction.iter_in(self.family.borrow_dependent(), &self.options);
            match (&*last, reverse) {
                (None, false) => iter.seek_to_first(),
                (None, true) => iter.seek_to_last(),
                (Some(last), false) => iter.seek(last),
                (Some(last), true) => iter.seek_for_prev(last),
            }
            while iter.valid() {
                let key = iter.key();
                if last.as_deref() != Some(key) {
                    chunk.push(part, key, iter.value());
                    if chunk.is_full(limit) {
                        *last = Some(key.to_vec());
                        return Ok(true);
                    }
                }
                match reverse {
                    false => iter.next(),
                    true => iter.prev(),
                }
            }
            iter.status().map(|()| false)
        })
    }
}
