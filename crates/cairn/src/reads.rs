//! Batched lookups, consistent iterators over several families, and size estimates.

use cairn_db::{Columns, MayExist, Range, SizeApproximationOptions, Value};
use cairn_options::ReadOptions;
use cairn_types::Result;

use crate::db::Db;
use crate::family::Family;
use crate::iter::{CoalescingIter, Iter};
use crate::snapshot::Snapshot;

impl Db {
    /// The values of `keys` of the default family, in the same order and all as of the same point
    /// in time. Each key has its own result, so an error does not affect the others. Much cheaper
    /// than a [`Db::get`] per key: missing blocks are read in one batch.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// use cairn::{Db, Options, ReadOptions};
    ///
    /// let db = Db::open(dir.path().join("db"), &Options::default().create_if_missing(true))?;
    /// db.put(b"granite", b"igneous")?;
    /// let found = db.multi_get(&["chalk", "granite"], &ReadOptions::default());
    /// assert!(found[0].as_ref().unwrap().is_none());
    /// assert_eq!(found[1].as_ref().unwrap().as_deref(), Some(&b"igneous"[..]));
    /// # Ok::<(), cairn::Error>(())
    /// ```
    ///
    /// Keys beyond `ReadOptions::value_size_soft_limit` bytes of values fail with `Aborted`.
    #[must_use]
    pub fn multi_get<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        options: &ReadOptions,
    ) -> Vec<Result<Option<Value>>> {
        self.inner.multi_get(keys, options)
    }

    /// [`Db::multi_get`] for keys of several families, all as of the same point in time. `sorted`
    /// asserts that the keys of each family are adjacent and in ascending order.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// use cairn::{Db, FamilyOptions, Options, ReadOptions};
    ///
    /// let db = Db::open(dir.path().join("db"), &Options::default().create_if_missing(true))?;
    /// let stones = db.create_family("stones", &FamilyOptions::default())?;
    /// stones.put(b"k", b"in stones")?;
    /// let default = db.default_family();
    /// let found = db.multi_get_in(&[(&stones, b"k"), (&default, b"k")], &ReadOptions::default(), false);
    /// assert_eq!(found[0].as_ref().unwrap().as_deref(), Some(&b"in stones"[..]));
    /// assert!(found[1].as_ref().unwrap().is_none());
    /// # Ok::<(), cairn::Error>(())
    /// ```
    #[must_use]
    pub fn multi_get_in(
        &self,
        keys: &[(&Family<'_>, &[u8])],
        options: &ReadOptions,
        sorted: bool,
    ) -> Vec<Result<Option<Value>>> {
        self.inner.multi_get_in(&inner_keys(keys), options, sorted)
    }

    /// [`Db::multi_get_in`] for wide-column entities; a plain value is a single column with an
    /// empty name.
    #[must_use]
    pub fn multi_get_entity_in(
        &self,
        keys: &[(&Family<'_>, &[u8])],
        options: &ReadOptions,
        sorted: bool,
    ) -> Vec<Result<Option<Columns>>> {
        let keys = inner_keys(keys);
        self.inner.multi_get_entity_in(&keys, options, sorted)
    }

    /// An iterator over each of `families`, all as of the same point in time.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// use cairn::{Db, FamilyOptions, Options, ReadOptions};
    ///
    /// let db = Db::open(dir.path().join("db"), &Options::default().create_if_missing(true))?;
    /// let stones = db.create_family("stones", &FamilyOptions::default())?;
    /// let iters = db.iterators(&[&stones, &db.default_family()], &ReadOptions::default())?;
    /// assert_eq!(iters.len(), 2);
    /// # Ok::<(), cairn::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if a family belongs to another database.
    pub fn iterators(
        &self,
        families: &[&Family<'_>],
        options: &ReadOptions,
    ) -> Result<Vec<Iter<'_>>> {
        let families = Family::inner_of(families);
        let iters = self.inner.iterators(&families, options)?;
        Ok(iters.into_iter().map(Iter::new).collect())
    }

    /// Like [`Db::iterators`], with read options for each family: bounds, for example. All must have the
    /// same snapshot, or none, and the same value of `tailing`.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// use cairn::{Db, FamilyOptions, Options, ReadOptions};
    ///
    /// let db = Db::open(dir.path().join("db"), &Options::default().create_if_missing(true))?;
    /// let stones = db.create_family("stones", &FamilyOptions::default())?;
    /// let from_m = ReadOptions {
    ///     iterate_lower_bound: Some(b"m".to_vec()),
    ///     ..ReadOptions::default()
    /// };
    /// let all = ReadOptions::default();
    /// let iters = db.iterators_with(&[(&stones, &from_m), (&db.default_family(), &all)])?;
    /// assert_eq!(iters.len(), 2);
    /// # Ok::<(), cairn::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if they differ in these options, or if a family belongs to another database.
    pub fn iterators_with(
        &self,
        families: &[(&Family<'_>, &ReadOptions)],
    ) -> Result<Vec<Iter<'_>>> {
        let families: Vec<_> = families
            .iter()
            .map(|(family, options)| (&family.inner, *options))
            .collect();
        let iters = self.inner.iterators_with(&families)?;
        Ok(iters.into_iter().map(Iter::new).collect())
    }

    /// An iterator over the keys of `families`, all as of the same point in time, that returns each
    /// key once with its values in all families.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// use cairn::{Db, FamilyOptions, Options, ReadOptions};
    ///
    /// let db = Db::open(dir.path().join("db"), &Options::default().create_if_missing(true))?;
    /// let looks = db.create_family("looks", &FamilyOptions::default())?;
    /// db.put_entity(b"slate", &[(b"from", b"shale")])?;
    /// looks.put_entity(b"slate", &[(b"colour", b"grey")])?;
    ///
    /// let families = [&db.default_family(), &looks];
    /// let mut iter = db.coalescing_iterator(&families, &ReadOptions::default())?;
    /// iter.seek(b"s");
    /// let columns = iter.columns();
    /// let columns: Vec<_> = columns.iter().collect();
    /// assert_eq!(columns, [(&b"colour"[..], &b"grey"[..]), (b"from", b"shale")]);
    /// let groups = iter.attribute_groups();
    /// assert_eq!((groups.len(), groups[1].0.name()), (2, "looks"));
    /// # Ok::<(), cairn::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if there are no families, if their key orders differ, or if one belongs to
    /// another database.
    pub fn coalescing_iterator(
        &self,
        families: &[&Family<'_>],
        options: &ReadOptions,
    ) -> Result<CoalescingIter<'_>> {
        let families = Family::inner_of(families);
        let iter = self.inner.coalescing_iterator(&families, options)?;
        Ok(CoalescingIter::new(iter))
    }

    /// The approximate size in bytes of the data of each of `ranges` of the default family.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// use cairn::{Db, Options, Range, SizeApproximationOptions};
    ///
    /// let db = Db::open(dir.path().join("db"), &Options::default().create_if_missing(true))?;
    /// db.put(b"granite", &[7; 1000])?;
    /// let options = SizeApproximationOptions { include_memtables: true, ..Default::default() };
    /// let sizes = db.approximate_sizes(&[Range::new(b"a", b"z"), Range::new(b"x", b"z")], &options)?;
    /// assert!(sizes[0] >= 1000 && sizes[1] == 0);
    /// # Ok::<(), cairn::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if neither files nor memtables are included; those of reading indexes.
    pub fn approximate_sizes(
        &self,
        ranges: &[Range<'_>],
        options: &SizeApproximationOptions,
    ) -> Result<Vec<u64>> {
        self.inner.approximate_sizes(ranges, options)
    }

    /// Checks for the existence of `key` without reading a file, using filters and data in memory.
    /// `No` is certain; `Perhaps` is always possible.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// use cairn::{Db, MayExist, Options, ReadOptions};
    ///
    /// let db = Db::open(dir.path().join("db"), &Options::default().create_if_missing(true))?;
    /// assert!(matches!(db.key_may_exist(b"k", &ReadOptions::default()), MayExist::No));
    /// # Ok::<(), cairn::Error>(())
    /// ```
    #[must_use]
    pub fn key_may_exist(&self, key: &[u8], options: &ReadOptions) -> MayExist {
        self.inner.key_may_exist(key, options)
    }

    /// [`Db::get_with`] into the caller's `buffer`, which receives as much of the value as fits.
    /// Returns the length of the value.
    ///
    /// # Errors
    ///
    /// Those of [`Db::get_with`].
    pub fn get_into(
        &self,
        key: &[u8],
        buffer: &mut [u8],
        options: &ReadOptions,
    ) -> Result<Option<usize>> {
        self.inner.get_into(key, buffer, options)
    }

    /// Reads every block of every file, bypassing the cache, and verifies its checksum.
    ///
    /// # Errors
    ///
    /// The first damage found.
    pub fn verify_checksum(&self, options: &ReadOptions) -> Result<()> {
        self.inner.verify_checksum(options)
    }
}

impl Iter<'_> {
    /// Updates the iterator to the state of `snapshot`; it is then not positioned.
    /// [`Iter::refresh`] updates it to the current state.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// use cairn::{Db, Options};
    ///
    /// let db = Db::open(dir.path().join("db"), &Options::default().create_if_missing(true))?;
    /// let (before, mut iter) = (db.snapshot(), db.iter());
    /// db.put(b"k", b"v")?;
    /// iter.refresh()?;
    /// iter.seek_to_first();
    /// assert!(iter.valid());
    /// iter.refresh_to(&before)?;
    /// iter.seek_to_first();
    /// assert!(!iter.valid());
    /// # Ok::<(), cairn::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a tailing iterator, and for a snapshot of another database; the iterator is then unchanged.
    pub fn refresh_to(&mut self, snapshot: &Snapshot<'_>) -> Result<()> {
        self.inner.refresh_to(&snapshot.inner)?;
        self.moved = false;
        Ok(())
    }
}

fn inner_keys<'k>(keys: &'k [(&Family<'_>, &'k [u8])]) -> Vec<(&'k cairn_db::Family, &'k [u8])> {
    keys.iter()
        .map(|(family, key)| (&family.inner, *key))
        .collect()
}
