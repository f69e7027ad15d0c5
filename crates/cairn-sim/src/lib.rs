//! The simulated world: files that crash, a clock that is told the time, jobs that run when asked.
//!
//! A [`SimWorld`] is handed to the engine in place of the machine. Its file system records every
//! operation in a [`Trace`]; from the trace alone, without running again, come the disks that a
//! crash at any operation could leave ([`Replay::images`]), each of which another world can be
//! started on. Everything random comes from the one seed of the world, nothing sleeps, and no
//! thread is started: same seed, same trace.
//!
//! ```
//! use cairn_platform::FileSystem;
//! use cairn_sim::{CrashModel, SimWorld};
//!
//! let sim = SimWorld::new(7);
//! let file = sim.fs.create("/f".as_ref(), Default::default())?;
//! file.append(b"never synced")?;
//! let trace = sim.fs.trace();
//! let after_power_cut = trace.images(trace.len(), CrashModel::Synced, 0).next();
//! assert_eq!(after_power_cut.expect("one image").files().count(), 0);
//! # Ok::<(), cairn_types::Error>(())
//! ```
//!
//! [`disk`] has trees of files and what a crash may do to them, [`images`] the crash models,
//! [`fs`] the file system that the engine sees, [`fault`] the plan of what fails.

mod cipher;
pub mod disk;
pub mod fault;
pub mod fs;
pub mod images;
pub mod rng;
pub mod trace;
pub mod world;

pub use cipher::SampleCipher;
pub use disk::DiskImage;
pub use fault::{FAULTS, Fault, FaultPlan, FaultRule, Trigger};
pub use fs::SimFs;
pub use images::CrashModel;
pub use rng::Rng;
pub use trace::{Call, Replay, Trace};
pub use world::{SimClock, SimExecutor, SimWorld};
