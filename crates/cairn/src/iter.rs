//! Iterators.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use crate::db::Db;

/// A walk over the keys of one family, in order, both ways. It shows the state of the moment when
/// it was made (or of a snapshot), whatever is written meanwhile.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = cairn::Db::open(dir.path().join("db"), &cairn::Options::default().create_if_missing(true))?;
/// # for key in [b"a", b"b", b"c"] { db.put(key, b"1")?; }
/// let mut iter = db.iter();
/// iter.seek(b"b");
/// while iter.valid() {
///     println!("{:?}", iter.key());
///     iter.next();
/// }
/// iter.status()?; // an error ends the walk too: ask
/// # Ok::<(), cairn::Error>(())
/// ```
pub struct Iter<'db> {
    pub(crate) inner: cairn_db::Iter,
    db: PhantomData<&'db Db>,
}

impl Iter<'_> {
    pub(crate) fn new<'db>(inner: cairn_db::Iter) -> Iter<'db> {
        Iter {
            inner,
            db: PhantomData,
        }
    }
}

impl Deref for Iter<'_> {
    type Target = cairn_db::Iter;
    #[inline]
    fn deref(&self) -> &cairn_db::Iter {
        &self.inner
    }
}

impl DerefMut for Iter<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut cairn_db::Iter {
        &mut self.inner
    }
}

/// A walk over the keys of several families, each key once: what the families hold of it is seen
/// coalesced ([`columns`](cairn_db::CoalescingIter::columns)) or apart
/// ([`attribute_groups`](cairn_db::CoalescingIter::attribute_groups)). [`Db::coalescing_iterator`]
/// makes one.
pub struct CoalescingIter<'db> {
    inner: cairn_db::CoalescingIter,
    db: PhantomData<&'db Db>,
}

impl CoalescingIter<'_> {
    pub(crate) fn new<'db>(inner: cairn_db::CoalescingIter) -> CoalescingIter<'db> {
        CoalescingIter {
            inner,
            db: PhantomData,
        }
    }
}

impl Deref for CoalescingIter<'_> {
    type Target = cairn_db::CoalescingIter;
    fn deref(&self) -> &cairn_db::CoalescingIter {
        &self.inner
    }
}

impl DerefMut for CoalescingIter<'_> {
    fn deref_mut(&mut self) -> &mut cairn_db::CoalescingIter {
        &mut self.inner
    }
}
