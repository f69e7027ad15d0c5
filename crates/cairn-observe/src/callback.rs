//! Calls from the engine into user code, and restrictions on such code.
//!
//! A callback may use the database that calls it unless the engine holds a resource that the use
//! needs: a listener may write when a memtable is sealed, and a compaction filter may read. A use
//! that would deadlock fails with an error that states the rule. The calls that a thread is in are
//! tracked per database, so other databases may be used freely. Outside of callbacks the cost is
//! one load of a thread-local variable. The calls of an exiting thread, whose list is gone, are not tracked.

use std::cell::{Cell, RefCell};

use cairn_types::{Error, Result};

use crate::logger::Logger;

/// A kind of call into user code during which a resource is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Within {
    /// Insertion of a write that is not yet visible: comparators, prefix extractors, and in-place merges.
    Insertion,
    /// The choice of a compaction, or of the places of ingested files, with locks held: comparators.
    Picking,
    /// A callback of a write that is queued or logged, and not yet visible.
    Write,
    /// Output of an info log line, possibly with locks held.
    LogLine,
    /// A listener notified with locks held, of a file operation or a background error.
    Locked,
    /// A flush, compaction or file deletion, for which other threads may be waiting.
    Job,
    /// Closing of the database.
    Closing,
    /// Output of a record of a trace, with its lock held.
    Trace,
}

impl Within {
    /// The error message for a violation.
    fn rule(self) -> &'static str {
        match self {
            Within::Insertion => {
                "a comparator, prefix extractor or merge operator that is called for a write may not write to the \
                 database or wait for it"
            }
            Within::Picking => {
                "a comparator that is called for the choice of a compaction or for an ingestion may not change the database \
                 or wait for it"
            }
            Within::Write => "a write callback may not write to the database or wait for it",
            Within::LogLine => "an info log may not change the database that it logs for",
            Within::Locked => {
                "a listener of file operations or background errors may not change the database"
            }
            Within::Job => {
                "a callback of background work may not wait for flushes, compactions or the closing of the \
                 database"
            }
            Within::Trace => "a trace writer may not change the database that it traces",
            Within::Closing => "a shutdown listener may not close the database again",
        }
    }
}

thread_local! {
    /// The number of calls that the thread is in.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
    /// These calls, with their databases.
    static CALLS: RefCell<Vec<(usize, Within)>> = const { RefCell::new(Vec::new()) };
}

/// Ends a call when dropped.
struct EndCall;

impl Drop for EndCall {
    fn drop(&mut self) {
        let _call = CALLS.try_with(|calls| calls.borrow_mut().pop());
        DEPTH.set(DEPTH.get() - 1);
    }
}

/// The identity of a database: the address of its info log.
fn name_of(database: &Logger) -> usize {
    std::ptr::from_ref(database).addr()
}

/// Runs `call`, a call into user code made by `database`.
pub fn within<T>(database: &Logger, what: Within, call: impl FnOnce() -> T) -> T {
    let call_of = (name_of(database), what);
    let _tracked = CALLS.try_with(|calls| calls.borrow_mut().push(call_of));
    DEPTH.set(DEPTH.get() + 1);
    let _ends = EndCall;
    call()
}

/// True if the thread is in a call into user code.
#[inline]
#[must_use]
pub fn is_within() -> bool {
    DEPTH.get() > 0
}

/// Checks that the thread may write to `database` or change its options.
///
/// # Errors
///
/// `Busy`, with the rule, in a callback that must not.
#[inline]
pub fn may_write(database: &Logger) -> Result<()> {
    match DEPTH.get() {
        0 => Ok(()),
        _ => refuse(database, |what| {
            !matches!(what, Within::Job | Within::Closing)
        }),
    }
}

/// Checks that the thread may wait for jobs of `database`.
///
/// # Errors
///
/// `Busy`, with the rule, in a callback that must not.
#[inline]
pub fn may_wait(database: &Logger) -> Result<()> {
    match DEPTH.get() {
        0 => Ok(()),
        _ => refuse(database, |what| what != Within::Closing),
    }
}

/// Checks that the thread may close `database`, or wait for another thread that closes it.
///
/// # Errors
///
/// `Busy`, with the rule, in a callback that must not.
pub fn may_close(database: &Logger) -> Result<()> {
    refuse(database, |_| true)
}

#[cold]
fn refuse(database: &Logger, refused: impl Fn(Within) -> bool) -> Result<()> {
    let name = name_of(database);
    let broken = CALLS.try_with(|calls| {
        let calls = calls.borrow();
        let mut mine = calls.iter().rev().filter(|(of, _)| *of == name);
        mine.find(|(_, what)| refused(*what)).map(|(_, what)| *what)
    });
    match broken {
        Ok(Some(what)) => Err(Error::busy(what.rule())),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    #[test]
    fn rules_apply_within_a_call_and_to_its_database() {
        let (a, b) = (Box::new(Logger::silent()), Box::new(Logger::silent()));
        within(&a, Within::Job, || {
            may_write(&a).unwrap();
            let refused = may_wait(&a).unwrap_err();
            assert!(refused.text().contains("may not wait"), "{refused}");
            within(&b, Within::Insertion, || {
                may_write(&a).unwrap();
                may_write(&b).unwrap_err();
                may_wait(&a).unwrap_err();
            });
            may_wait(&b).unwrap();
            within(&b, Within::Closing, || {
                may_wait(&b).unwrap();
                may_close(&b).unwrap_err();
                may_close(&a).unwrap_err();
            });
            may_close(&b).unwrap();
        });
        may_wait(&a).unwrap();
    }

    #[test]
    fn a_panic_ends_a_call() {
        let database = Box::new(Logger::silent());
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            within(&database, Within::LogLine, || panic!("on purpose"));
        }));
        assert!(panicked.is_err());
        may_write(&database).unwrap();
    }
}
