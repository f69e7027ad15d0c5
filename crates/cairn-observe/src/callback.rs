//! Calls from the engine into a program's own code, and what that code may not do meanwhile.
//!
//! A callback may use the database that calls it wherever nothing is held that the use needs: a listener of a sealed
//! memtable writes, a compaction filter reads. Where the use would wait for its own caller, it is an error that names
//! the rule. Which call a thread is within is kept per thread, with the database that makes it: other databases may
//! be used everywhere. Cost outside of such calls: one load of a variable of the thread.

use std::cell::{Cell, RefCell};

use cairn_types::{Error, Result};

use crate::logger::Logger;

/// A kind of call during which something is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Within {
    /// The insertion of a write, which is not visible yet: comparators, prefix extractors, merges as writes come in.
    Insertion,
    /// A line of the info log, told with locks held.
    LogLine,
    /// A listener that is told with locks held: of a call of a file, of a background error.
    Locked,
    /// A flush, compaction or deletion of files, which others wait for.
    Job,
    /// The closing of the database: whoever is told of what it does cannot close it once more.
    Closing,
}

impl Within {
    /// Who is called, and what it may not do.
    fn rule(self) -> &'static str {
        match self {
            Within::Insertion => {
                "a comparator, prefix extractor or merge operator that is called for a write may not write to the \
                 database or wait for it"
            }
            Within::LogLine => "an info log may not change the database whose lines it is given",
            Within::Locked => {
                "a listener of file operations or background errors may not change the database"
            }
            Within::Job => {
                "a callback of background work may not wait for flushes, compactions or the closing of the \
                 database"
            }
            Within::Closing => {
                "a listener that is told of the closing may not close the database once more"
            }
        }
    }
}

thread_local! {
    /// How many calls the thread is within.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
    /// These calls, with their databases.
    static CALLS: RefCell<Vec<(usize, Within)>> = const { RefCell::new(Vec::new()) };
}

/// Ends a call, also when it panics.
struct Ends;

impl Drop for Ends {
    fn drop(&mut self) {
        CALLS.with_borrow_mut(Vec::pop);
        DEPTH.set(DEPTH.get() - 1);
    }
}

/// The name of a database: the place of its info log.
fn name_of(database: &Logger) -> usize {
    std::ptr::from_ref(database).addr()
}

/// Runs `call`, which `database` makes into a program's code.
pub fn within<T>(database: &Logger, what: Within, call: impl FnOnce() -> T) -> T {
    CALLS.with_borrow_mut(|calls| calls.push((name_of(database), what)));
    DEPTH.set(DEPTH.get() + 1);
    let _ends = Ends;
    call()
}

/// True if the thread is within any call.
#[inline]
#[must_use]
pub fn is_within() -> bool {
    DEPTH.get() > 0
}

/// True if the thread may write to `database`: take its lead, change its options.
///
/// # Errors
///
/// `Busy` with the rule in a callback that may not.
#[inline]
pub fn may_write(database: &Logger) -> Result<()> {
    match DEPTH.get() {
        0 => Ok(()),
        _ => refuse(database, |what| {
            !matches!(what, Within::Job | Within::Closing)
        }),
    }
}

/// True if the thread may wait for jobs of `database`.
///
/// # Errors
///
/// `Busy` with the rule in a callback that may not.
#[inline]
pub fn may_wait(database: &Logger) -> Result<()> {
    match DEPTH.get() {
        0 => Ok(()),
        _ => refuse(database, |what| what != Within::Closing),
    }
}

/// True if the thread may close `database`, which other threads may be closing already.
///
/// # Errors
///
/// `Busy` with the rule in a callback that may not.
pub fn may_close(database: &Logger) -> Result<()> {
    refuse(database, |_| true)
}

#[cold]
fn refuse(database: &Logger, refused: impl Fn(Within) -> bool) -> Result<()> {
    let name = name_of(database);
    let broken = CALLS.with_borrow(|calls| {
        let mut mine = calls.iter().rev().filter(|(of, _)| *of == name);
        mine.find(|(_, what)| refused(*what)).map(|(_, what)| *what)
    });
    broken.map_or(Ok(()), |what| Err(Error::busy(what.rule())))
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    #[test]
    fn a_rule_holds_within_its_call_and_for_its_database_only() {
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
    fn a_call_that_panics_is_over() {
        let database = Box::new(Logger::silent());
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            within(&database, Within::LogLine, || panic!("on purpose"));
        }));
        assert!(panicked.is_err());
        may_write(&database).unwrap();
    }
}
