//! A directory under construction: filled under a temporary name, then renamed.
//!
//! A crash leaves `NAME.tmp` or the whole directory. An error leaves nothing.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use cairn_observe::logger::Logger;
use cairn_platform::FileSystem;
use cairn_platform::fs::{parent, sync_name, unsynced_name};
use cairn_platform::sync::Mutex;
use cairn_types::{Code, Error, Result, Subcode};

/// The directories under construction in this process, each with the address of its file system.
static IN_PROGRESS: Mutex<BTreeSet<(usize, PathBuf)>> = Mutex::new(BTreeSet::new());

/// The exclusive use of a directory under construction, until it is dropped.
struct Reservation((usize, PathBuf));

impl Reservation {
    /// # Errors
    ///
    /// `Busy` if another thread is using the directory `name` in `above`.
    fn new(fs: &dyn FileSystem, above: &Path, name: &OsStr) -> Result<Reservation> {
        let dir = fs.canonical(above)?.join(name);
        let place = (std::ptr::from_ref(fs).addr(), dir);
        match IN_PROGRESS.lock().insert(place.clone()) {
            true => Ok(Reservation(place)),
            false => Err(Error::busy(format!(
                "{} is under construction",
                place.1.display()
            ))),
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        IN_PROGRESS.lock().remove(&self.0);
    }
}

/// A directory that does not have its final name yet. Dropping it before [`Staging::publish`] removes its
/// files.
pub(crate) struct Staging<'a> {
    fs: &'a dyn FileSystem,
    target: PathBuf,
    dir: PathBuf,
    published: bool,
    _reservation: Reservation,
}

impl<'a> Staging<'a> {
    /// Creates an empty directory that is to become `target`, which must not exist.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if `target` exists or has no name of its own; `IoError`, with the subcode `PathNotFound` if the
    /// directory above it does not exist; `Busy` if it is under construction in another thread.
    pub(crate) fn create(fs: &'a dyn FileSystem, target: &Path) -> Result<Staging<'a>> {
        let above = parent(target);
        if !fs.exists(above)? {
            return Err(Error::new(
                Code::IoError,
                Subcode::PathNotFound,
                format!(
                    "{}: the directory {} does not exist",
                    target.display(),
                    above.display()
                ),
            ));
        }
        let name = target.file_name().ok_or_else(|| {
            Error::invalid_argument(format!(
                "{} is not the name of a directory",
                target.display()
            ))
        })?;
        let mut temporary = name.to_owned();
        temporary.push(".tmp");
        let reservation = Reservation::new(fs, above, &temporary)?;
        if fs.exists(target)? {
            return Err(Error::invalid_argument(format!(
                "{} exists",
                target.display()
            )));
        }
        let dir = target.with_file_name(temporary);
        remove_all(fs, &dir)?;
        fs.create_dir_all(&dir)?;
        Ok(Staging {
            fs,
            target: target.to_owned(),
            dir,
            published: false,
            _reservation: reservation,
        })
    }

    /// The path of the file `name` in the directory.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Renames the directory, durably; its files are already synced. Warns if its name cannot be synced.
    pub(crate) fn publish(mut self, info: &Logger) -> Result<()> {
        self.fs.sync_dir(&self.dir)?;
        self.fs.rename(&self.dir, &self.target)?;
        self.published = true;
        if !sync_name(self.fs, &self.target)? {
            info.warn(format_args!("{}", unsynced_name(&self.target)));
        }
        Ok(())
    }
}

impl Drop for Staging<'_> {
    fn drop(&mut self) {
        if !self.published {
            // The error that caused this is reported.
            let _ = remove_all(self.fs, &self.dir);
        }
    }
}

/// Removes a directory of files that an earlier attempt may have left. If a file cannot be removed, all others are.
///
/// # Errors
///
/// The first `IoError`.
fn remove_all(fs: &dyn FileSystem, dir: &Path) -> Result<()> {
    let names = match fs.list(dir) {
        Err(error) if error.subcode() == Subcode::PathNotFound => return Ok(()),
        names => names?,
    };
    let mut removed = Ok(());
    for name in names {
        removed = removed.and(fs.remove(&dir.join(name)));
    }
    removed.and_then(|()| fs.remove_dir(dir))
}

#[cfg(test)]
mod tests {
    use cairn_platform::World;
    use cairn_platform::fs::FileMode;
    use cairn_sim::trace::Call;
    use cairn_sim::{Fault, FaultPlan, FaultRule, SimWorld, Trigger};

    use super::*;

    #[test]
    fn one_thread_at_a_time_constructs_a_directory() {
        let world = World::in_memory();
        let fs = &*world.fs;
        let target = Path::new("/copy");
        let first = Staging::create(fs, target).unwrap();
        let file = fs.create(&first.path("a"), FileMode::default()).unwrap();
        file.close().unwrap();
        let busy = Staging::create(fs, Path::new("/./copy")).err().unwrap();
        assert_eq!(busy.code(), Code::Busy);
        let other = World::in_memory();
        drop(Staging::create(&*other.fs, target).unwrap());
        first.publish(&Logger::silent()).unwrap();
        assert!(fs.exists(Path::new("/copy/a")).unwrap());
        let exists = Staging::create(fs, target).err().unwrap();
        assert_eq!(exists.code(), Code::InvalidArgument);
    }

    /// Regression: the removal of a directory ended at the first file that could not be removed, and the links in it kept
    /// the space of all other files in use.
    #[test]
    fn a_file_that_cannot_be_removed_does_not_keep_the_others() {
        let sim = SimWorld::new(1);
        let (fs, target) = (&*sim.world.fs, Path::new("/copy"));
        let staging = Staging::create(fs, target).unwrap();
        for name in ["a", "b", "c"] {
            let file = fs.create(&staging.path(name), FileMode::default());
            file.unwrap().close().unwrap();
        }
        let left = || fs.list(Path::new("/copy.tmp")).unwrap();
        sim.fs.set_plan(FaultPlan::new(vec![FaultRule {
            trigger: Trigger::Class {
                call: Call::Remove,
                name_end: "a".to_owned(),
                count: 0,
            },
            fault: Fault::Denied,
            lasts: 2,
        }]));
        drop(staging);
        assert_eq!(left(), ["a"]);
        let error = Staging::create(fs, target).err().unwrap();
        assert_eq!(error.code(), Code::IoError, "{error}");
        drop(Staging::create(fs, target).unwrap());
        assert!(!fs.exists(Path::new("/copy.tmp")).unwrap());
    }
}
