//! Ways to read besides one key and one walk.

use cairn_db::{Columns, Value};
use cairn_options::ReadOptions;
use cairn_types::Result;

use crate::db::Db;
use crate::family::Family;

impl Db {
    /// The values of `keys` of the default family, in their order, all as of one moment. Each key
    /// has a result of its own: an error of one leaves the others right. Much cheaper than a
    /// [`Db::get`] for each key: what is not in memory is read together.
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
    /// `ReadOptions::value_size_soft_limit` bounds what is read: keys beyond it fail with
    /// `Aborted`.
    #[must_use]
    pub fn multi_get<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        options: &ReadOptions,
    ) -> Vec<Result<Option<Value>>> {
        self.inner.multi_get(keys, options)
    }

    /// [`Db::multi_get`] of keys of several families, all as of one moment. `sorted` promises that
    /// the keys of one family stand together and ascend in its order.
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

    /// [`Db::multi_get_in`] of wide-column entities; a plain value is one column without a name.
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
}

fn inner_keys<'k>(keys: &'k [(&Family<'_>, &'k [u8])]) -> Vec<(&'k cairn_db::Family, &'k [u8])> {
    keys.iter()
        .map(|(family, key)| (&***family, *key))
        .collect()
}
