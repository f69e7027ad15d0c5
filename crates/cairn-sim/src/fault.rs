//! Fault injection: which operations fail, how, and how often.
//!
//! `EINTR` is not among the faults: a file system retries interrupted calls, so its callers never see it. The
//! retries are tested in `cairn-platform`.

use std::fmt;
use std::io;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use cairn_types::{Error, Result};

use crate::trace::{Call, file_name};

/// A fault injected into an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// `EIO`. A sync that fails this way leaves its pages clean: reads still return the data, but it is never
    /// written.
    InputOutput,
    /// `EIO` from a sync that immediately reverts the data it could not write.
    SyncReverted,
    /// `ENOSPC`.
    NoSpace,
    /// `EDQUOT`.
    OverQuota,
    /// `EMFILE`: the process has no free descriptor.
    NoDescriptor,
    /// `EACCES`.
    Denied,
    /// `EROFS`: the file system has become read-only.
    ReadOnly,
    /// Half of the bytes are read, as if the file ended there.
    ShortRead,
    /// Half of the bytes are written, then `ENOSPC`.
    ShortWrite,
    /// One bit of the data read is flipped.
    FlippedBit,
    /// One bit of the data written is flipped. This fault and the ones below are not reported.
    FlippedWrite,
    /// The write has no effect: the old content remains, or zeros.
    LostWrite,
    /// The write goes to the middle of the preceding content, and the target range keeps its old
    /// content, or zeros. At the start of a file, it goes to the range after the target, truncated
    /// to the end of the file.
    MisplacedWrite,
}

/// The operations that a rule applies to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// The operation with this number, counted from 0.
    Operation(usize),
    /// The `count`th operation (from 0) of one kind of call on files whose names have a suffix.
    Class {
        /// The call.
        call: Call,
        /// The suffix of the file name; empty for any file.
        name_end: String,
        /// The number of matching operations to skip.
        count: usize,
    },
    /// The `count`th operation (from 0) whose call site contains this text. Requires
    /// [`crate::SimFs::record_sites`].
    Site {
        /// A substring of the call site, such as `writer.rs:31`.
        site: String,
        /// The number of matching operations to skip.
        count: usize,
    },
}

/// A fault, its trigger, and its duration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultRule {
    /// The first operation to fail.
    pub trigger: Trigger,
    /// The fault.
    pub fault: Fault,
    /// The number of matching operations that fail: 1 for once, `usize::MAX` for forever. With
    /// [`Trigger::Operation`], all later operations match.
    pub lasts: usize,
}

/// A set of rules and their progress.
#[derive(Clone, Debug, Default)]
pub struct FaultPlan {
    rules: Vec<(FaultRule, usize)>,
    injected: usize,
    first: Option<usize>,
}

impl FaultPlan {
    /// Creates a plan of `rules`. The first matching rule decides.
    #[must_use]
    pub fn new(rules: Vec<FaultRule>) -> FaultPlan {
        FaultPlan {
            rules: rules.into_iter().map(|rule| (rule, 0)).collect(),
            injected: 0,
            first: None,
        }
    }

    /// The number of injected faults.
    #[must_use]
    pub fn injected(&self) -> usize {
        self.injected
    }

    /// The number of the first operation that failed.
    #[must_use]
    pub fn first_injected(&self) -> Option<usize> {
        self.first
    }

    /// The fault of operation `number`, if any.
    pub(crate) fn decide(
        &mut self,
        number: usize,
        call: Call,
        path: &Path,
        site: Option<&str>,
    ) -> Option<Fault> {
        let mut decided = None;
        for (rule, seen) in &mut self.rules {
            let (matches, first) = match &rule.trigger {
                Trigger::Operation(wanted) => (number >= *wanted, 0),
                Trigger::Class {
                    call: wanted,
                    name_end,
                    count,
                } => (
                    *wanted == call && file_name(path).ends_with(name_end.as_str()),
                    *count,
                ),
                Trigger::Site {
                    site: wanted,
                    count,
                } => (
                    site.is_some_and(|site| site.contains(wanted.as_str())),
                    *count,
                ),
            };
            if !matches {
                continue;
            }
            let hit = *seen >= first && *seen - first < rule.lasts;
            *seen += 1;
            if hit && rule.fault.applies_to(call) && decided.is_none() {
                decided = Some(rule.fault);
            }
        }
        if decided.is_some() {
            self.injected += 1;
            self.first.get_or_insert(number);
        }
        decided
    }
}

/// All faults and their names.
pub const FAULTS: [(Fault, &str); 13] = [
    (Fault::InputOutput, "eio"),
    (Fault::SyncReverted, "reverted"),
    (Fault::NoSpace, "enospc"),
    (Fault::OverQuota, "edquot"),
    (Fault::NoDescriptor, "emfile"),
    (Fault::Denied, "eacces"),
    (Fault::ReadOnly, "erofs"),
    (Fault::ShortRead, "short-read"),
    (Fault::ShortWrite, "short-write"),
    (Fault::FlippedBit, "flip"),
    (Fault::FlippedWrite, "flip-write"),
    (Fault::LostWrite, "lose-write"),
    (Fault::MisplacedWrite, "misplace-write"),
];

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = FAULTS.iter().find(|(fault, _)| fault == self);
        f.write_str(named.expect("every fault has a name").1)
    }
}

impl FromStr for Fault {
    type Err = Error;

    fn from_str(text: &str) -> Result<Fault> {
        let named = FAULTS.iter().find(|(_, name)| *name == text);
        named
            .map(|(fault, _)| *fault)
            .ok_or_else(|| Error::invalid_argument(format!("unknown fault {text:?}")))
    }
}

impl Fault {
    /// True if operations of this kind can fail with this fault.
    #[must_use]
    pub fn applies_to(self, call: Call) -> bool {
        match self {
            Fault::InputOutput => call != Call::Store,
            // Copy-on-write file systems need space for every change, and some allocate it only when the data
            // is synced or the file closed.
            Fault::NoSpace => call.changes() || call == Call::Close,
            Fault::OverQuota => matches!(
                call,
                Call::Create
                    | Call::CreateDirectory
                    | Call::Rename
                    | Call::Link
                    | Call::Append
                    | Call::Sync
                    | Call::Allocate
                    | Call::Close
            ),
            Fault::SyncReverted => call == Call::Sync,
            Fault::NoDescriptor => call.opens(),
            Fault::Denied => {
                call.opens()
                    || matches!(
                        call,
                        Call::Status
                            | Call::Remove
                            | Call::RemoveDirectory
                            | Call::Rename
                            | Call::Link
                            | Call::CreateDirectory
                    )
            }
            Fault::ReadOnly => {
                call.changes()
                    || matches!(call, Call::OpenAppend | Call::OpenOverwrite | Call::Lock)
            }
            Fault::ShortRead | Fault::FlippedBit => call == Call::Read,
            Fault::ShortWrite => call == Call::Append,
            fault => fault.is_silent() && call == Call::Append,
        }
    }

    /// True if the operation reports success although it had no effect, or a wrong one.
    #[must_use]
    pub fn is_silent(self) -> bool {
        matches!(
            self,
            Fault::FlippedWrite | Fault::LostWrite | Fault::MisplacedWrite
        )
    }

    /// True if wrong data is read or written without an error.
    #[must_use]
    pub fn falsifies(self) -> bool {
        self == Fault::FlippedBit || self.is_silent()
    }

    /// The data written by operation `number` in place of `data` at `offset` of a file of `old` bytes, and
    /// its offset.
    pub(crate) fn damage(
        self,
        number: usize,
        old: &[u8],
        offset: usize,
        data: &[u8],
    ) -> (usize, Arc<[u8]>) {
        let unwritten = || {
            let mut there = old.get(offset..).unwrap_or(&[]).to_vec();
            there.resize(data.len(), 0);
            there
        };
        let (at, written) = match self {
            Fault::FlippedWrite => {
                let mut data = data.to_vec();
                let len = data.len().max(1);
                if let Some(byte) = data.get_mut(number.wrapping_mul(7919) % len) {
                    *byte ^= 1 << (number % 8);
                }
                (offset, data)
            }
            Fault::LostWrite => (offset, unwritten()),
            Fault::MisplacedWrite if offset == 0 => {
                let mut all = unwritten();
                let late = data.len().div_ceil(2);
                all[late..].copy_from_slice(&data[..data.len() - late]);
                (0, all)
            }
            Fault::MisplacedWrite => {
                let from = offset / 2;
                let mut all = old.get(from..offset.min(old.len())).unwrap_or(&[]).to_vec();
                all.resize(offset - from, 0);
                all.extend(unwritten());
                all[..data.len()].copy_from_slice(data);
                (from, all)
            }
            _ => (offset, data.to_vec()),
        };
        (at, written.into())
    }

    /// The error returned to the caller of the operation.
    #[must_use]
    pub(crate) fn error(self, call: Call, path: &Path) -> Error {
        let code = match self {
            Fault::NoSpace | Fault::ShortWrite => 28,
            Fault::OverQuota => 122,
            Fault::ReadOnly => 30,
            Fault::NoDescriptor => 24,
            Fault::Denied => 13,
            _ => 5,
        };
        // Linux error numbers, so that messages read as on Linux.
        Error::io(verb(call), path, io::Error::from_raw_os_error(code))
    }
}

/// The description of a call in error messages.
pub(crate) fn verb(call: Call) -> &'static str {
    match call {
        Call::Open | Call::OpenAppend | Call::OpenOverwrite => "open",
        Call::Create => "create",
        Call::Status => "look at",
        Call::List => "list",
        Call::CreateDirectory => "create directory",
        Call::RemoveDirectory => "remove directory",
        Call::Remove => "remove",
        Call::Rename => "rename",
        Call::Link => "link",
        Call::SyncDirectory => "sync directory",
        Call::Lock => "lock",
        Call::Read => "read",
        Call::Append => "write",
        Call::Store => "store into",
        Call::Sync => "sync",
        Call::Truncate => "truncate",
        Call::Allocate => "reserve space for",
        Call::Close => "close",
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(verb(*self))
    }
}
