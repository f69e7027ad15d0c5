//! Callbacks of one write: the program is called when the place of the write in the order of writes is fixed, and when
//! it is in the log.
//!
//! ```text
//! batch -> queue -> [on_write_enqueued] -> group is logged -> [on_wal_write_finish] -> insertion -> visible
//! ```
//!
//! Both calls are made by the thread that writes. In a group, it is called after the append of the group while it
//! inserts its batch, or, if the leader does so on its behalf, afterwards: no callback delays the append of another
//! write, except that of a leader, which delays the groups after it.
//!
//! A panic must not leave the queue without a leader, or a group without the report of a member. It is caught,
//! and continues when the write has ended.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use cairn_memory::CacheCharge;
use cairn_observe::callback::{self, Within};
use cairn_options::WriteOptions;
use cairn_types::{Error, Result, SequenceNumber};

use super::commit::{CommitEnv, Company, LoggedGroup};
use super::queue::Batch;
use super::write_callback::WriteCallback;
use super::{Check, DbEnv, mode_of, protected};
use crate::shared::Shared;
use crate::write::batch::WriteBatch;

/// The calls of a callback.
struct Calls<'a> {
    shared: &'a Shared,
    callback: &'a dyn WriteCallback,
    /// True until the write is known to be logged, unless it skips the log.
    awaits_log: Cell<bool>,
    /// The first panic.
    panic: RefCell<Option<Box<dyn Any + Send>>>,
}

impl Calls<'_> {
    fn enqueued(&self) {
        self.call(|| self.callback.on_write_enqueued());
    }

    fn logged(&self) {
        if self.awaits_log.replace(false) {
            self.call(|| self.callback.on_wal_write_finish());
        }
    }

    fn call(&self, method: impl FnOnce()) {
        let called = catch_unwind(AssertUnwindSafe(|| {
            callback::within(&self.shared.context.info, Within::Write, method);
        }));
        if let Err(panic) = called {
            self.panic.borrow_mut().get_or_insert(panic);
        }
    }
}

impl Shared {
    /// Writes `batch`, calling `callback`.
    pub(crate) fn write_with_callback(
        self: &Arc<Self>,
        batch: &WriteBatch,
        options: &WriteOptions,
        callback: &dyn WriteCallback,
    ) -> Result<()> {
        let calls = Calls {
            shared: self,
            callback,
            awaits_log: Cell::new(!options.disable_wal),
            panic: RefCell::default(),
        };
        let written = self.with_stored(batch, |batch| {
            self.check_write(batch, options)?;
            cairn_wal::check_record(batch.data().len() as u64)?;
            let write = |check: Option<Check<'_>>| {
                let began = self.telemetry.began();
                let written = self.write_calling(batch, options, &calls, check);
                self.record_write(batch, began);
                written
            };
            match self.trace.is_on() {
                false => write(None),
                true => self.trace_write(batch.data(), None, write),
            }
        });
        if let Some(panic) = calls.panic.into_inner() {
            resume_unwind(panic);
        }
        written
    }

    /// Writes `batch`, in its stored form, which has passed the checks.
    fn write_calling(
        self: &Arc<Self>,
        batch: &WriteBatch,
        options: &WriteOptions,
        calls: &Calls<'_>,
        check: Option<Check<'_>>,
    ) -> Result<()> {
        self.delay_write(batch, options.no_slowdown)?;
        self.may_write()?;
        let own = batch.protection();
        let parts = Batch {
            protection: own.as_ref(),
            ..Batch::whole(batch.data())
        };
        let mut protection = None;
        let parts = protected(parts, options, &mut protection)?;
        let env = CallingEnv {
            env: DbEnv::new(self),
            calls,
        };
        let (commits, mode) = (&self.writes.commits, mode_of(options));
        let committed = match check {
            None => commits.commit_after(&env, parts, mode, || calls.enqueued()),
            Some(check) => commits.commit_if(&env, parts, mode, || {
                check()?;
                calls.enqueued();
                Ok(())
            }),
        };
        if committed.is_ok() {
            // Unless its own thread has inserted it.
            calls.logged();
        }
        if env.env.notifies.get() {
            self.telemetry.deliver();
        }
        committed
    }
}

/// The environment of the commit pipeline for a write with a callback.
struct CallingEnv<'a> {
    env: DbEnv<'a>,
    calls: &'a Calls<'a>,
}

impl CommitEnv for CallingEnv<'_> {
    fn charge_batch(&self, bytes: usize) -> Option<CacheCharge> {
        self.env.charge_batch(bytes)
    }

    fn may_wait(&self) -> Result<()> {
        self.env.may_wait()
    }

    fn prepare(&self, no_slowdown: bool) -> Result<()> {
        self.env.prepare(no_slowdown)
    }

    fn group_limit(&self, bytes: usize) -> usize {
        self.env.group_limit(bytes)
    }

    fn log(&self, group: &LoggedGroup<'_>) -> Result<()> {
        self.env.log(group)
    }

    fn inserts_in_turn(&self) -> bool {
        self.env.inserts_in_turn()
    }

    /// A thread inserts its own batch first, after its group was logged.
    fn insert(&self, batch: Batch<'_>, first: SequenceNumber, company: Company) -> Result<()> {
        self.calls.logged();
        self.env.insert(batch, first, company)
    }

    fn insertion_failed(&self, error: &Error) {
        self.env.insertion_failed(error);
    }
}
