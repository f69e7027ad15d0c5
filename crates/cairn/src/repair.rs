//! Databases that are damaged, and the way back.
//!
//! A damaged table does not keep the rest of a database from being read: reads that need it fail
//! and name it. [`Db::quarantine`] takes such tables out, so that the database is whole again, and
//! says which keys may be lost. [`Db::repair`] does the same, and makes a new MANIFEST where the
//! old one is lost. Both keep every file that they take out in the directory `lost`.

use std::path::Path;

use cairn_db::FamilyDescriptor;
pub use cairn_db::{LostTable, Quarantine, RepairReport};
use cairn_platform::World;
use cairn_types::Result;

use crate::db::Db;
use crate::open::Options;

impl Db {
    /// Makes the database in `path` whole as far as its files allow; it must not be open. Where its
    /// MANIFEST is whole, damaged and missing tables are taken out of it. Where it is lost, a new
    /// one is made: families from the properties of their tables, the age of entries from their
    /// sequence numbers. Logs are replayed as far as they can be read.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("db");
    /// use cairn::{Db, Options};
    ///
    /// let options = Options::default().create_if_missing(true);
    /// let db = Db::open(&path, &options)?;
    /// db.put(b"k", b"v")?;
    /// db.flush()?;
    /// db.close()?;
    /// std::fs::remove_file(path.join("CURRENT")).unwrap(); // an accident
    /// let report = Db::repair(&path, &options, &[])?;
    /// assert!(report.rebuilt && report.lost.is_empty());
    /// assert!(Db::open(&path, &options)?.get(b"k")?.is_some());
    /// # Ok::<(), cairn::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `IoError` if the database is open; `InvalidArgument` if there is none, or a comparator is
    /// needed that was not given.
    pub fn repair(
        path: impl AsRef<Path>,
        options: &Options,
        families: &[FamilyDescriptor],
    ) -> Result<RepairReport> {
        Db::repair_in(&World::posix(), path.as_ref(), options, families)
    }

    /// [`Db::repair`] in a world of the caller's choice.
    ///
    /// # Errors
    ///
    /// Those of [`Db::repair`].
    pub fn repair_in(
        world: &World,
        path: &Path,
        options: &Options,
        families: &[FamilyDescriptor],
    ) -> Result<RepairReport> {
        cairn_db::repair(world, path, &options.db, families, &options.family)
    }

    /// Takes tables out of the database in `path`, which must not be open and whose MANIFEST must
    /// be whole. Logs stay as they are.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("db");
    /// # let options = cairn::Options::default().create_if_missing(true);
    /// # cairn::Db::open(&path, &options)?.close()?;
    /// use cairn::{Db, repair::Quarantine};
    ///
    /// let report = Db::quarantine(&path, &options, &[], &Quarantine::AllDamaged)?;
    /// for table in &report.lost {
    ///     println!("{}: {}", table.path.display(), table.reason);
    /// }
    /// # assert!(report.lost.is_empty());
    /// # Ok::<(), cairn::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `IoError` if the database is open; `Corruption` of the MANIFEST; `InvalidArgument` if a
    /// table that is named is none of the database.
    pub fn quarantine(
        path: impl AsRef<Path>,
        options: &Options,
        families: &[FamilyDescriptor],
        which: &Quarantine,
    ) -> Result<RepairReport> {
        Db::quarantine_in(&World::posix(), path.as_ref(), options, families, which)
    }

    /// [`Db::quarantine`] in a world of the caller's choice.
    ///
    /// # Errors
    ///
    /// Those of [`Db::quarantine`].
    pub fn quarantine_in(
        world: &World,
        path: &Path,
        options: &Options,
        families: &[FamilyDescriptor],
        which: &Quarantine,
    ) -> Result<RepairReport> {
        cairn_db::quarantine(world, path, &options.db, families, &options.family, which)
    }
}
