"""The exceptions of Cairn, after RocksDB's status codes."""


class Error(Exception):
    """The base of all errors of the database. `subcode` is the number of RocksDB's sub-code, 0 without one."""

    subcode: int

    def __init__(self, message: str = "", subcode: int = 0) -> None:
        super().__init__(message)
        self.subcode = subcode


class NotFound(Error):
    """A file or object does not exist. A missing key raises KeyError, or is None."""


class Corruption(Error):
    """A file is damaged; the message has its name and the offset. Or a merge operator failed."""


class NotSupported(Error):
    """A feature or option that Cairn does not support, or not in this database."""


class InvalidArgument(Error, ValueError):
    """An argument or option is invalid."""


class IoError(Error, OSError):
    """A system call failed."""

    def __init__(self, message: str = "", subcode: int = 0) -> None:
        Error.__init__(self, message, subcode)

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class NoSpace(IoError):
    """The disk, or the database's quota, is full."""


class PathNotFound(IoError):
    """A path does not exist."""


class MergeInProgress(Error):
    """A merge cannot be finished here."""


class Incomplete(Error):
    """An option forbids what the rest of the result requires, or the operation was stopped."""


class ShutdownInProgress(Error):
    """The database is being closed."""


class TimedOut(Error, TimeoutError):
    """A deadline passed."""

    def __init__(self, message: str = "", subcode: int = 0) -> None:
        Error.__init__(self, message, subcode)

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class LockTimeout(TimedOut):
    """A transaction could not lock a key in time."""


class Aborted(Error):
    """The operation was aborted."""


class Busy(Error):
    """A conflict: another transaction wrote a key, or the object is in use."""


class Deadlock(Busy):
    """Waiting for a lock would complete a cycle of waiting transactions."""


class Expired(Error):
    """The transaction has expired."""


class TryAgain(Error):
    """The operation may succeed if it is repeated."""


class CompactionTooLarge(Error):
    """A compaction was too large."""


class ColumnFamilyDropped(Error):
    """The column family was dropped."""


class Closed(Error):
    """The database, or the object, was closed or released."""


class Forked(NotSupported):
    """The database was opened by the parent of this process."""


#: The errors after which a transaction is repeated.
CONFLICTS = (Busy, TimedOut, TryAgain, Expired)
