"""Cairn: an embedded key-value store that reads and writes RocksDB's files.

    import cairn

    with cairn.Db("stones", create_if_missing=True) as db:
        db[b"granite"] = b"igneous"
        for key, value in db.items(prefix=b"gr"):
            print(key, value)
"""

import atexit
import os

from . import _cairn
from ._cairn import (
    BackupEngine,
    Cursor,
    Db,
    Family,
    MemoryBudget,
    MergeOperator,
    OptimisticTransactionDb,
    Pinned,
    Scan,
    Snapshot,
    Space,
    SstFileReader,
    SstFileWriter,
    Transaction,
    TransactionDb,
    WriteBatch,
    destroy,
    list_families,
    option_names,
    repair,
)
from ._errors import (
    Aborted,
    Busy,
    Closed,
    ColumnFamilyDropped,
    CompactionTooLarge,
    Corruption,
    Deadlock,
    Error,
    Expired,
    Forked,
    Incomplete,
    InvalidArgument,
    IoError,
    LockTimeout,
    MergeInProgress,
    NoSpace,
    NotFound,
    NotSupported,
    PathNotFound,
    ShutdownInProgress,
    TimedOut,
    TryAgain,
)

for _error in Error.__subclasses__() + IoError.__subclasses__() + [Error, LockTimeout, Deadlock, Forked]:
    _error.__module__ = "cairn"

#: `cairn.open(path, **options)` is `cairn.Db(path, **options)`.
open = Db

__all__ = [
    "Aborted",
    "BackupEngine",
    "Busy",
    "Closed",
    "ColumnFamilyDropped",
    "CompactionTooLarge",
    "Corruption",
    "Cursor",
    "Db",
    "Deadlock",
    "Error",
    "Expired",
    "Family",
    "Forked",
    "Incomplete",
    "InvalidArgument",
    "IoError",
    "LockTimeout",
    "MemoryBudget",
    "MergeInProgress",
    "MergeOperator",
    "NoSpace",
    "NotFound",
    "NotSupported",
    "OptimisticTransactionDb",
    "PathNotFound",
    "Pinned",
    "Scan",
    "ShutdownInProgress",
    "Snapshot",
    "Space",
    "SstFileReader",
    "SstFileWriter",
    "TimedOut",
    "Transaction",
    "TransactionDb",
    "TryAgain",
    "WriteBatch",
    "destroy",
    "list_families",
    "open",
    "option_names",
    "repair",
]

os.register_at_fork(after_in_child=_cairn._forked)
atexit.register(_cairn._close_all)
