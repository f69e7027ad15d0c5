//! Cairn for Python: the native half of the package `cairn`, which re-exports and documents it.

mod backup;
mod batch;
mod bytes;
mod cursor;
mod db;
mod errors;
mod handle;
mod merge;
mod options;
mod pinned;
mod scan;
mod snapshot;
mod space;
mod sst;
mod tasks;
mod transaction;

use pyo3::prelude::*;

#[pymodule]
mod _cairn {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::backup::BackupEngine;
    #[pymodule_export]
    use crate::batch::WriteBatch;
    #[pymodule_export]
    use crate::cursor::Cursor;
    #[pymodule_export]
    use crate::db::{Db, destroy, list_families, repair};
    #[pymodule_export]
    use crate::merge::MergeOperator;
    #[pymodule_export]
    use crate::options::{MemoryBudget, option_names};
    #[pymodule_export]
    use crate::pinned::Pinned;
    #[pymodule_export]
    use crate::scan::Scan;
    #[pymodule_export]
    use crate::snapshot::Snapshot;
    #[pymodule_export]
    use crate::space::{Family, Space};
    #[pymodule_export]
    use crate::sst::{SstFileReader, SstFileWriter};
    #[pymodule_export]
    use crate::tasks::{AsyncScan, Bridge};
    #[pymodule_export]
    use crate::transaction::{OptimisticTransactionDb, Transaction, TransactionDb};

    /// Called in a forked child: its parent's databases raise `Forked` there.
    #[pyfunction]
    fn _forked() {
        crate::handle::count_fork();
    }

    /// Closes the databases that are still open. Called at the exit of the interpreter.
    #[pyfunction]
    fn _close_all(py: Python<'_>) -> PyResult<()> {
        crate::handle::close_all(py)
    }
}
