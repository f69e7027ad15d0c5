//! Deterministic simulation of the environment: files that crash, virtual time, and background jobs that run
//! on request.
//!
//! A [`SimWorld`] replaces the operating system. Its file system records every operation in a
//! [`Trace`]. The disk images that a crash at any operation could leave are derived from the trace
//! alone, without another run ([`Replay::images`]), and each can be the start of another
//! simulation. All randomness derives from one seed, nothing sleeps, and no thread is started:
//! equal seeds give equal traces.
//!
//! ```
//! use cairn_platform::FileSystem;
//! use cairn_sim::{CrashModel, SimWorld};
//!
//! let sim = SimWorld::new(7);
//! let file = sim.fs.create("/f".as_ref(), Default::default())?;
//! file.append(b"never synced")?;
//! let trace = sim.fs.trace();
//! let after_power_failure = trace.images(trace.len(), CrashModel::Synced, 0).next();
//! assert_eq!(after_power_failure.expect("one image").files().count(), 0);
//! # Ok::<(), cairn_types::Error>(())
//! ```
//!
//! [`disk`] has file trees, [`images`] the crash models, [`fs`] the simulated file system, and [`fault`] the
//! fault injection.

mod cipher;
mod comparator;
pub mod disk;
pub mod fault;
pub mod fs;
pub mod images;
pub mod rng;
pub mod trace;
pub mod world;

pub use cipher::SampleCipher;
pub use comparator::PanickingComparator;
pub use disk::DiskImage;
pub use fault::{FAULTS, Fault, FaultPlan, FaultRule, Trigger};
pub use fs::SimFs;
pub use images::CrashModel;
pub use rng::Rng;
pub use trace::{Call, Replay, Trace};
pub use world::{SimClock, SimExecutor, SimWorld};
