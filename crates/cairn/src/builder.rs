//! The builder for opening a database.

use std::path::{Path, PathBuf};

use cairn_db::{FamilyDescriptor, OpenRequest};
use cairn_options::FamilyOptions;
use cairn_platform::World;
use cairn_types::Result;

use crate::db::Db;
use crate::open::Options;

/// A builder for opening a database, created by [`Db::builder`]. [`Db::open`] and
/// [`Db::open_read_only`] are shortcuts.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("db");
/// use cairn::{Db, FamilyOptions};
///
/// let db = Db::builder(&path)
///     .create_if_missing(true)
///     .create_missing_column_families(true)
///     .family("stones", FamilyOptions::default())
///     .open()?;
/// db.family("stones").expect("created").put(b"slate", b"metamorphic")?;
/// db.close()?;
///
/// // All existing families are opened, even those that the builder does not name.
/// let db = Db::builder(&path).read_only(true).open()?;
/// let stones = db.family("stones").expect("opened");
/// assert_eq!(stones.get(b"slate")?.as_deref(), Some(&b"metamorphic"[..]));
/// # Ok::<(), cairn::Error>(())
/// ```
///
/// A database in memory exists as long as its [`World`]:
///
/// ```
/// use cairn::{Db, World};
///
/// let world = World::in_memory();
/// let db = Db::builder("/db").world(world.clone()).create_if_missing(true).open()?;
/// db.put(b"slate", b"metamorphic")?;
/// db.close()?;
///
/// let db = Db::builder("/db").world(world).open()?;
/// assert!(db.get(b"slate")?.is_some());
/// # Ok::<(), cairn::Error>(())
/// ```
#[must_use = "a builder opens nothing until `open` is called"]
#[derive(Clone, Debug)]
pub struct DbBuilder {
    path: PathBuf,
    options: Options,
    families: Vec<FamilyDescriptor>,
    world: World,
    read_only: bool,
}

impl DbBuilder {
    pub(crate) fn new(path: &Path) -> DbBuilder {
        DbBuilder {
            path: path.to_owned(),
            options: Options::default(),
            families: Vec::new(),
            world: World::posix(),
            read_only: false,
        }
    }

    /// Sets all options, replacing those set before. The family options apply to the default family
    /// and to families without options of their own.
    pub fn options(mut self, options: Options) -> DbBuilder {
        self.options = options;
        self
    }

    /// Creates the database if it does not exist. Default: false.
    pub fn create_if_missing(mut self, create: bool) -> DbBuilder {
        self.options = self.options.create_if_missing(create);
        self
    }

    /// Creates named families that do not exist. Default: false.
    pub fn create_missing_column_families(mut self, create: bool) -> DbBuilder {
        self.options = self.options.create_missing_column_families(create);
        self
    }

    /// Sets the options of the family `name`. The default family is called `default`.
    pub fn family(mut self, name: impl Into<String>, options: FamilyOptions) -> DbBuilder {
        self.families.push(FamilyDescriptor::new(name, options));
        self
    }

    /// [`DbBuilder::family`] for each of `families`.
    pub fn families(mut self, families: impl IntoIterator<Item = FamilyDescriptor>) -> DbBuilder {
        self.families.extend(families);
        self
    }

    /// Sets the file system, clock, threads and random source of the database. Default: those of
    /// the operating system, [`World::posix`].
    pub fn world(mut self, world: World) -> DbBuilder {
        self.world = world;
        self
    }

    /// Opens the database read-only: no file is changed, and other processes may open the database.
    /// Reads may fail if another process writes in the meantime. Default: false.
    pub fn read_only(mut self, read_only: bool) -> DbBuilder {
        self.read_only = read_only;
        self
    }

    /// Opens the database.
    ///
    /// # Errors
    ///
    /// Those of [`Db::open`]; `InvalidArgument` if a named family does not exist.
    pub fn open(self) -> Result<Db> {
        let inner = self.open_as(cairn_db::open)?;
        Ok(Db { inner })
    }

    /// Opens a secondary instance: a read-only database that follows the one at the path, the primary, which another
    /// process may write, with Cairn or RocksDB. [`Db::try_catch_up_with_primary`] brings it up to date. The directory
    /// `secondary` has its LOG; no file of the primary is changed.
    ///
    /// All families that exist now are opened; those that the primary creates later are ignored, and those that it
    /// drops stay readable. Reads see a prefix of the primary's writes. Snapshots and writes return `NotSupported`. Tables
    /// stay open, so that the primary may delete them, unless `max_open_files` limits their number.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let (path, secondary) = (dir.path().join("db"), dir.path().join("secondary"));
    /// use cairn::Db;
    ///
    /// let primary = Db::builder(&path).create_if_missing(true).open()?;
    /// let reader = Db::builder(&path).open_as_secondary(&secondary)?;
    /// primary.put(b"slate", b"metamorphic")?;
    /// assert!(reader.get(b"slate")?.is_none());
    /// reader.try_catch_up_with_primary()?;
    /// assert_eq!(reader.get(b"slate")?.as_deref(), Some(&b"metamorphic"[..]));
    /// # Ok::<(), cairn::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if a named family does not exist, or if `secondary` is the directory of the primary; `IoError`,
    /// also without a primary; `Corruption` with file and offset.
    pub fn open_as_secondary(self, secondary: impl AsRef<Path>) -> Result<Db> {
        let secondary = secondary.as_ref().to_owned();
        let inner = self.open_as(|request| cairn_follow::open_as_secondary(request, &secondary))?;
        Ok(Db { inner })
    }

    /// Opens a follower in the directory `own`: like a secondary instance, but with links to or copies of the tables
    /// and blob files of the database at the path, the leader, which it deletes when they are obsolete. It catches up
    /// every `follower_refresh_catchup_period_ms`, and after a failure tries `follower_catchup_retry_count` times,
    /// `follower_catchup_retry_wait_ms` apart; [`Db::try_catch_up_with_primary`] catches up at once.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let (path, own) = (dir.path().join("db"), dir.path().join("follower"));
    /// use cairn::{Db, Options};
    ///
    /// let leader = Db::builder(&path).create_if_missing(true).open()?;
    /// let options = Options::default().text("follower_refresh_catchup_period_ms=500")?;
    /// let follower = Db::builder(&path).options(options).open_as_follower(&own)?;
    /// leader.put(b"slate", b"metamorphic")?;
    /// follower.try_catch_up_with_primary()?;
    /// assert!(follower.get(b"slate")?.is_some());
    /// # Ok::<(), cairn::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`DbBuilder::open_as_secondary`].
    pub fn open_as_follower(self, own: impl AsRef<Path>) -> Result<Db> {
        let own = own.as_ref().to_owned();
        let inner = self.open_as(|request| cairn_follow::open_as_follower(request, &own))?;
        Ok(Db { inner })
    }

    /// Calls `open` with the request for the database.
    pub(crate) fn open_as<T>(self, open: impl FnOnce(&OpenRequest<'_>) -> Result<T>) -> Result<T> {
        open(&OpenRequest {
            path: &self.path,
            options: &self.options.db,
            families: &self.families,
            others: Some(&self.options.family),
            read_only: self.read_only,
            world: self.world,
        })
    }
}
