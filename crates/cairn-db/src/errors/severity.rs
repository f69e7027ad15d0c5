//! The severity of a background error: a pure function with RocksDB's mapping.
//!
//! Every I/O error counts as one of a single file, which is never written again: its content is still in
//! memory or in other files, and is written to a new file. Retrying is therefore worthwhile for all of them,
//! except errors that fence the database off.

use cairn_observe::BackgroundErrorReason as Reason;
use cairn_types::{Code, Error, Severity, Subcode};

/// The consequences of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Assessment {
    /// The severity, which determines the work that stops.
    pub(crate) severity: Severity,
    /// True if the database may try to resume automatically.
    pub(crate) is_retryable: bool,
}

/// Classifies `error`, which occurred during `reason`. Without `paranoid` checks a failed job stops nothing
/// and is retried.
pub(crate) fn judge(reason: Reason, error: &Error, paranoid: bool) -> Assessment {
    let severity = match error.code() {
        // The state is then unknown.
        _ if error.is_panic() => Severity::Fatal,
        Code::IoError => of_io(reason, error.subcode(), paranoid),
        Code::Corruption => of_corruption(reason, paranoid),
        _ => of_anything(reason, paranoid),
    };
    Assessment {
        severity,
        is_retryable: error.code() == Code::IoError && severity <= Severity::Hard,
    }
}

fn of_io(reason: Reason, subcode: Subcode, paranoid: bool) -> Severity {
    let is_job = matches!(
        reason,
        Reason::Compaction | Reason::Flush | Reason::FlushNoWal | Reason::AsyncFileOpen
    );
    match (subcode, reason) {
        (Subcode::IoFenced, _) => Severity::Fatal,
        (Subcode::NoSpace | Subcode::SpaceLimit, _) if is_job && !paranoid => Severity::NoError,
        (Subcode::NoSpace, Reason::Compaction) => Severity::Soft,
        (Subcode::NoSpace | Subcode::SpaceLimit, _) => Severity::Hard,
        (_, Reason::Compaction | Reason::AsyncFileOpen) => Severity::NoError,
        (_, Reason::FlushNoWal | Reason::ManifestWriteNoWal) => Severity::Soft,
        _ => Severity::Hard,
    }
}

fn of_corruption(reason: Reason, paranoid: bool) -> Severity {
    match reason {
        Reason::ManifestWrite | Reason::ManifestWriteNoWal | Reason::MemTable => Severity::Fatal,
        // The content of the log is then unknown, regardless of the checks.
        Reason::WriteCallback => Severity::Unrecoverable,
        _ if paranoid => Severity::Unrecoverable,
        _ => Severity::NoError,
    }
}

fn of_anything(reason: Reason, paranoid: bool) -> Severity {
    match reason {
        Reason::Compaction | Reason::Flush | Reason::AsyncFileOpen if !paranoid => {
            Severity::NoError
        }
        Reason::AsyncFileOpen => Severity::Soft,
        _ => Severity::Fatal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn severity(reason: Reason, error: &Error, paranoid: bool) -> Severity {
        judge(reason, error, paranoid).severity
    }

    #[test]
    fn the_mapping_is_that_of_rocksdb() {
        let full = Error::new(Code::IoError, Subcode::NoSpace, "full");
        let limit = Error::new(Code::IoError, Subcode::SpaceLimit, "limit");
        let fenced = Error::new(Code::IoError, Subcode::IoFenced, "fenced");
        let broken = Error::io_text("broken");
        let damaged = Error::corruption("damaged");
        use Severity::{Fatal, Hard, NoError, Soft, Unrecoverable};
        for (reason, expected) in [
            (
                Reason::Compaction,
                [Soft, Hard, Fatal, NoError, Unrecoverable],
            ),
            (Reason::Flush, [Hard, Hard, Fatal, Hard, Unrecoverable]),
            (Reason::FlushNoWal, [Hard, Hard, Fatal, Soft, Unrecoverable]),
            (
                Reason::WriteCallback,
                [Hard, Hard, Fatal, Hard, Unrecoverable],
            ),
            (Reason::ManifestWrite, [Hard, Hard, Fatal, Hard, Fatal]),
        ] {
            let errors = [&full, &limit, &fenced, &broken, &damaged];
            let found = errors.map(|error| severity(reason, error, true));
            assert_eq!(found, expected, "{}", reason.text());
        }
    }

    #[test]
    fn without_paranoid_checks_failed_jobs_stop_nothing_but_failed_logs_do() {
        let full = Error::new(Code::IoError, Subcode::NoSpace, "full");
        for reason in [Reason::Compaction, Reason::Flush, Reason::FlushNoWal] {
            assert_eq!(severity(reason, &full, false), Severity::NoError);
            let damaged = Error::corruption("damaged");
            assert_eq!(severity(reason, &damaged, false), Severity::NoError);
        }
        assert_eq!(
            severity(Reason::WriteCallback, &full, false),
            Severity::Hard
        );
        let panicked = Error::panicked("a flush panicked");
        assert_eq!(severity(Reason::Flush, &panicked, false), Severity::Fatal);
        assert!(!judge(Reason::Flush, &panicked, false).is_retryable);
        // Regression: a job that a service aborted made the database read-only.
        let aborted = Error::aborted("the service is closing");
        for (paranoid, expected) in [(false, Severity::NoError), (true, Severity::Fatal)] {
            let found = severity(Reason::Compaction, &aborted, paranoid);
            assert_eq!(found, expected);
        }
        let of_log = severity(Reason::WriteCallback, &aborted, false);
        assert_eq!(of_log, Severity::Fatal);
    }
}
