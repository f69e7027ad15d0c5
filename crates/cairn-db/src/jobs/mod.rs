//! Background jobs: flushes, compactions, purges and periodic tasks, from the decision to start one to its end.
//!
//! ```text
//! [due]    flush, compaction    picked and reserved under the lock of the tree; counts has the holds
//! [runs]   flush_job, compaction, remote    functions of `cairn-jobs` over immutable inputs, without a lock
//! [ends]   catalog::install, background     the edit becomes durable and visible; inputs are released, waiters woken
//! ```
//!
//! | module | owns |
//! |---|---|
//! | `scheduler`, `counts` | the selection, execution and completion of jobs; their counts and the holds on them |
//! | `background` | the scheduler's view of the database: which jobs are due, and the consequences of their end |
//! | `flush`, `forced_flush`, `flush_job` | the start of flushes and waiting for them; their execution |
//! | `compaction`, `manual`, `remote` | automatic and manual compactions, and those in other processes |
//! | `job_context`, `watch` | the inputs that all jobs have in common; their reports |
//! | `control`, `idle_workers` | pausing and cancelling jobs; threads that help them |
//! | `purge` | deletions of obsolete files and logs |
//! | `timers`, `periodic`, `seqno_times` | periodic tasks, and the samples of sequence numbers that one of them takes |
//!
//! The invariants are J1 to J3 ([`counts`]) and S1 to S3 ([`scheduler`]).

pub(crate) mod background;
pub(crate) mod compaction;
pub(crate) mod control;
pub(crate) mod counts;
pub(crate) mod flush;
pub(crate) mod flush_job;
pub(crate) mod forced_flush;
pub(crate) mod idle_workers;
pub(crate) mod job_context;
pub(crate) mod manual;
pub(crate) mod periodic;
pub(crate) mod purge;
pub(crate) mod remote;
pub(crate) mod scheduler;
pub(crate) mod seqno_times;
pub(crate) mod timers;
pub(crate) mod watch;
