//! Wide-column entities, timed puts, and unmerged operands.
//!
//! A wide-column entity is a value that consists of named columns. A plain get returns its default
//! column, whose name is empty; a plain value reads as an entity with only that column.
//!
//! ```
//! # let dir = tempfile::tempdir().unwrap();
//! # let db = cairn::Db::open(dir.path().join("db"), &cairn::Options::default().create_if_missing(true))?;
//! db.put_entity(b"granite", &[(b"", b"a rock"), (b"kind", b"igneous"), (b"mohs", b"7")])?;
//!
//! let columns = db.get_entity(b"granite")?.expect("it was put");
//! assert_eq!(columns.get(b"kind"), Some(&b"igneous"[..]));
//! assert_eq!(db.get(b"granite")?.as_deref(), Some(&b"a rock"[..]));
//!
//! let mut iter = db.iter();
//! iter.seek_to_first();
//! let names: Vec<_> = iter.columns().unwrap().iter().map(|(name, _)| name.to_vec()).collect();
//! assert_eq!(names, [&b""[..], b"kind", b"mohs"]);
//! # Ok::<(), cairn::Error>(())
//! ```

use cairn_db::{Column, Columns, GetMergeOperandsOptions, Operands};
use cairn_options::{ReadOptions, WriteOptions};
use cairn_types::Result;

use crate::db::Db;
use crate::family::Family;
use crate::snapshot::Snapshot;

impl Db {
    /// Sets `key` to a wide-column entity with `columns`, which are pairs of name and value in any
    /// order.
    ///
    /// # Errors
    ///
    /// `Corruption` if a name is repeated; see also [`Db::write_with`].
    pub fn put_entity(&self, key: &[u8], columns: &[Column<'_>]) -> Result<()> {
        self.inner.put_entity(key, columns)
    }

    /// [`Db::put_entity`] with options.
    ///
    /// # Errors
    ///
    /// Those of [`Db::put_entity`].
    pub fn put_entity_with(
        &self,
        key: &[u8],
        columns: &[Column<'_>],
        options: &WriteOptions,
    ) -> Result<()> {
        self.inner.put_entity_with(key, columns, options)
    }

    /// The columns of `key`, sorted by name, or `None` if the key does not exist.
    ///
    /// # Errors
    ///
    /// Those of [`Db::get`].
    pub fn get_entity(&self, key: &[u8]) -> Result<Option<Columns>> {
        self.get_entity_with(key, &ReadOptions::default())
    }

    /// [`Db::get_entity`] with options.
    ///
    /// # Errors
    ///
    /// Those of [`Db::get_with`].
    pub fn get_entity_with(&self, key: &[u8], options: &ReadOptions) -> Result<Option<Columns>> {
        self.inner.get_entity(key, options)
    }

    /// Sets `key` to a wide-column entity in each of several families, atomically, so that columns
    /// that are read together are stored together.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = cairn::Db::open(dir.path().join("db"), &cairn::Options::default().create_if_missing(true))?;
    /// # use cairn::{FamilyOptions, ReadOptions, WriteOptions};
    /// let (looks, origin) = (
    ///     db.create_family("looks", &FamilyOptions::default())?,
    ///     db.create_family("origin", &FamilyOptions::default())?,
    /// );
    /// db.put_attribute_groups(
    ///     b"slate",
    ///     &[(&looks, &[(b"colour", b"grey")]), (&origin, &[(b"from", b"shale")])],
    ///     &WriteOptions::default(),
    /// )?;
    /// let groups = db.get_attribute_groups(b"slate", &[&looks, &origin], &ReadOptions::default());
    /// let origin = groups[1].as_ref().unwrap().as_ref().unwrap();
    /// assert_eq!(origin.get(b"from"), Some(&b"shale"[..]));
    /// # Ok::<(), cairn::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if there are no groups, or if a family belongs to another database; those of
    /// [`Db::put_entity`].
    pub fn put_attribute_groups(
        &self,
        key: &[u8],
        groups: &[(&Family<'_>, &[Column<'_>])],
        options: &WriteOptions,
    ) -> Result<()> {
        let groups: Vec<(&cairn_db::Family, &[Column<'_>])> = groups
            .iter()
            .map(|(family, columns)| (&family.inner, *columns))
            .collect();
        let families = groups.iter().map(|(family, _)| *family);
        self.inner.check_families(families)?;
        self.inner.put_attribute_groups(key, &groups, options)
    }

    /// The columns of `key` in each of `families`, or the error, all as of the same point in time.
    pub fn get_attribute_groups(
        &self,
        key: &[u8],
        families: &[&Family<'_>],
        options: &ReadOptions,
    ) -> Vec<Result<Option<Columns>>> {
        let families = Family::inner_of(families);
        self.inner.get_attribute_groups(key, &families, options)
    }

    /// Sets `key` to `value` with the write time `unix_seconds`. The time only determines where
    /// RocksDB's tiered compaction places the value.
    ///
    /// # Errors
    ///
    /// See [`Db::write_with`].
    pub fn timed_put(&self, key: &[u8], value: &[u8], unix_seconds: u64) -> Result<()> {
        self.inner.timed_put(key, value, unix_seconds)
    }

    /// The base value of `key`, if any, and its merge operands, oldest first; empty if the key does
    /// not exist. The merge operator is not called.
    ///
    /// The operands are pinned where they are stored, without a copy. They share one allocation
    /// and stay readable until the last of them is dropped, even after the database is.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # use cairn::{Db, Options, ReadOptions};
    /// let options = Options::default().create_if_missing(true).text("merge_operator=stringappend")?;
    /// let db = Db::open(dir.path().join("db"), &options)?;
    /// db.put(b"layers", b"clay")?;
    /// db.merge(b"layers", b"sand")?;
    /// db.merge(b"layers", b"chalk")?;
    /// let operands = db.get_merge_operands(b"layers", 10, &ReadOptions::default())?;
    /// assert_eq!(operands.iter().collect::<Vec<_>>(), [&b"clay"[..], b"sand", b"chalk"]);
    /// let newest = operands.get(2).expect("the third of three operands");
    /// drop(operands);
    /// assert_eq!(&newest[..], b"chalk");
    /// # Ok::<(), cairn::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `Incomplete` (`MergeOperandsInsufficientCapacity`) if there are more than `expected_max`,
    /// with their number in the message; those of [`Db::get_with`].
    pub fn get_merge_operands(
        &self,
        key: &[u8],
        expected_max: usize,
        options: &ReadOptions,
    ) -> Result<Operands> {
        self.inner.get_merge_operands(key, expected_max, options)
    }

    /// [`Db::get_merge_operands`] with a function that may end the read early, at an operand that
    /// makes older ones unnecessary. `request` then has the number of operands found.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # use cairn::{Db, GetMergeOperandsOptions, Options, ReadOptions};
    /// let options = Options::default().create_if_missing(true).text("merge_operator=stringappend")?;
    /// let db = Db::open(dir.path().join("db"), &options)?;
    /// for operand in ["+1", "+2", "=7", "+3"] {
    ///     db.merge(b"count", operand.as_bytes())?;
    /// }
    /// let mut request = GetMergeOperandsOptions {
    ///     continue_cb: Some(&mut |operand| !operand.starts_with(b"=")),
    ///     ..GetMergeOperandsOptions::default()
    /// };
    /// let operands = db.get_merge_operands_with(b"count", &mut request, &ReadOptions::default())?;
    /// assert_eq!(operands.iter().collect::<Vec<_>>(), [b"=7", b"+3"]);
    /// # Ok::<(), cairn::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Db::get_merge_operands`].
    pub fn get_merge_operands_with(
        &self,
        key: &[u8],
        request: &mut GetMergeOperandsOptions<'_>,
        options: &ReadOptions,
    ) -> Result<Operands> {
        self.inner.get_merge_operands_with(key, request, options)
    }
}

impl Snapshot<'_> {
    /// The columns of `key` at the time of the snapshot.
    ///
    /// # Errors
    ///
    /// Those of [`Db::get`].
    pub fn get_entity(&self, key: &[u8]) -> Result<Option<Columns>> {
        let options = self.options(&ReadOptions::default());
        self.database().get_entity_with(key, &options)
    }

    /// The columns of `key` in `family` at the time of the snapshot.
    ///
    /// # Errors
    ///
    /// Those of [`Db::get`]; `InvalidArgument` if `family` belongs to another database.
    pub fn get_entity_in(&self, family: &Family<'_>, key: &[u8]) -> Result<Option<Columns>> {
        self.check(family)?;
        family.get_entity_with(key, &self.options(&ReadOptions::default()))
    }
}
