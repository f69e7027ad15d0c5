//! Repair of damaged databases.
//!
//! A damaged table does not prevent the rest of a database from being read: only reads that need it
//! fail, with an error that names it. [`Db::quarantine`] removes such tables from the database and
//! reports the keys that may be lost. [`Db::repair`] does the same, and also rebuilds a lost
//! MANIFEST. Both move the files that they remove to the directory `lost`.

use std::path::Path;

use cairn_db::FamilyDescriptor;
pub use cairn_db::{LostTable, Quarantine, RepairReport};
use cairn_platform::World;
use cairn_types::Result;

use crate::db::Db;
use crate::open::Options;

impl Db {
    /// Repairs the database in `path`, which must not be open, as far as its files allow. If the
    /// MANIFEST is intact, damaged and missing tables are removed from it. If it is lost, a new one
    /// is built: families are derived from the properties of the tables, and the order of the
    /// tables from their sequence numbers. WALs are replayed as far as they are readable.
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
    /// `IoError` if the database is open; `InvalidArgument` if it does not exist, or if it needs a
    /// comparator that was not given.
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

    /// Removes tables from the database in `path`, which must not be open and whose MANIFEST must
    /// be intact. WALs are not changed.
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
    /// named table does not belong to the database.
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
