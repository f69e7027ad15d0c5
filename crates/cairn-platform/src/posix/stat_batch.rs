//! The status of many files in one directory.
//!
//! Files are looked up by name relative to the open directory, so that the path is resolved once. If there
//! are many, a second thread does half of them. Each thread has its own descriptor, because sharing one means
//! contention on its reference count.

use std::path::Path;
use std::thread;

use cairn_types::Result;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, openat, statat};

use super::eintr::retry_on_eintr;
use super::{failed, status_of};
use crate::cores;
use crate::fs::Status;
use crate::sync::OnceLock;

/// The number of files from which a second thread pays.
const MANY: usize = 256;

/// The status of each of `names` in `dir`.
pub(super) fn status_each(dir: &Path, names: &[String]) -> Vec<Result<Status>> {
    // Determining the number of cores reads several files.
    static CORES: OnceLock<usize> = OnceLock::new();
    if names.len() < MANY || *CORES.get_or_init(cores::count) < 2 {
        return look_at(dir, names);
    }
    let (ours, theirs) = names.split_at(names.len() / 2);
    thread::scope(|scope| {
        let helper = thread::Builder::new().name("cairn-look".to_owned());
        let helper = helper.spawn_scoped(scope, || look_at(dir, theirs));
        let mut found = look_at(dir, ours);
        // If the thread could not be started or panicked, its half is done here.
        let rest = helper.ok().and_then(|helper| helper.join().ok());
        found.extend(rest.unwrap_or_else(|| look_at(dir, theirs)));
        found
    })
}

fn look_at(dir: &Path, names: &[String]) -> Vec<Result<Status>> {
    let open = || {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        openat(CWD, dir, flags, Mode::empty())
    };
    // If the directory cannot be opened, the lookups by path report the error.
    let opened: Option<OwnedFd> = retry_on_eintr(open).ok();
    let look = |name: &String| {
        let path = || dir.join(name);
        let found = retry_on_eintr(|| match &opened {
            Some(dir) => statat(dir, name.as_str(), AtFlags::empty()),
            None => statat(CWD, path(), AtFlags::empty()),
        });
        match found {
            Ok(found) => Ok(status_of(&found)),
            Err(errno) => Err(failed("look at", &path(), errno)),
        }
    };
    names.iter().map(look).collect()
}
