//! Column families.

use std::marker::PhantomData;
use std::ops::Deref;

use cairn_options::ReadOptions;

use crate::db::Db;
use crate::iter::Iter;

/// A column family of an open database: a keyspace of its own with options of its own. Writes to
/// several families in one [`crate::WriteBatch`] take effect together.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// use cairn::{Db, FamilyOptions, Options};
///
/// let db = Db::open(dir.path().join("db"), &Options::default().create_if_missing(true))?;
/// let stones = db.create_family("stones", &FamilyOptions::default())?;
/// stones.put(b"k", b"in stones")?;
/// assert!(db.get(b"k")?.is_none());
/// # Ok::<(), cairn::Error>(())
/// ```
#[derive(Clone)]
pub struct Family<'db> {
    inner: cairn_db::Family,
    db: PhantomData<&'db Db>,
}

impl<'db> Family<'db> {
    pub(crate) fn new(inner: cairn_db::Family) -> Family<'db> {
        Family {
            inner,
            db: PhantomData,
        }
    }

    /// An iterator over the family, which stands nowhere yet.
    #[must_use]
    pub fn iter(&self) -> Iter<'db> {
        Iter::new(self.inner.iter())
    }

    /// [`Family::iter`] with options: bounds, a snapshot, prefix rules.
    #[must_use]
    pub fn iter_with(&self, options: &ReadOptions) -> Iter<'db> {
        Iter::new(self.inner.iter_with(options))
    }
}

impl Deref for Family<'_> {
    type Target = cairn_db::Family;
    fn deref(&self) -> &cairn_db::Family {
        &self.inner
    }
}
