//! Checks of the entries of a skiplist against damage to their memory.
//!
//! A list with checksums has one after the value of each entry ([`Node::create`]). Every entry that is returned to a reader
//! is verified. A damaged key may mislead a search to another entry, or to none; [`Checks::on_seek`] and
//! [`Checks::order`] therefore extend the checks to the entries that a search passes. They walk the list once more, so
//! that a search without them costs nothing.

use std::cmp::Ordering as Order;

use cairn_format::key;
use cairn_format::protection::{EntryChecksum, MAX_CHECKSUM_LEN, is_checksum_len};
use cairn_types::{Error, Result};

use super::atomic::Ordering;
use super::node::{Node, Target};
use super::{Entry, SkipList};

/// The checks of a memtable's entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checks {
    /// Bytes of checksum for each entry: 0, 1, 2, 4 or 8. Entries that are read are verified.
    pub checksum_len: u8,
    /// True if the checksums of entries that a search passes are verified as well.
    pub on_seek: bool,
    /// True if a search and a step of an iterator verify the order of the keys.
    pub order: bool,
}

impl Checks {
    /// True if there is a check.
    #[inline]
    #[must_use]
    pub fn any(&self) -> bool {
        self.checksum_len > 0 || self.order
    }

    /// True if searches are checked.
    fn of_searches(&self) -> bool {
        self.order || self.on_seek && self.checksum_len > 0
    }
}

/// The checksum of an entry, of which the list stores the first bytes.
#[cold]
pub(super) fn checksum_of(target: &Target<'_>, value: &[u8]) -> [u8; MAX_CHECKSUM_LEN] {
    let sum = EntryChecksum::new(target.user, value);
    sum.with_packed(target.packed).bytes()
}

fn out_of_order() -> Error {
    Error::corruption("the keys of a memtable are out of order: memory is damaged")
}

impl Entry<'_> {
    /// Verifies the checksum of the entry, if it has one.
    ///
    /// # Errors
    ///
    /// `Corruption` if it does not match.
    pub fn verify(&self) -> Result<()> {
        let len = usize::from(self.list().checks.checksum_len);
        // SAFETY: the list, and so the arena, lives as long as the entry (N1), and its nodes have checksums of this
        // length.
        let stored = unsafe { Node::checksum(self.node, len) };
        let (user, packed) = (self.user_key(), key::packed(self.key()));
        let sum = EntryChecksum::new(user, self.value()).with_packed(packed);
        match sum.bytes()[..len] == *stored {
            true => Ok(()),
            false => Err(Error::corruption(format!(
                "an entry of a memtable does not match its checksum of {len} bytes: memory is damaged (sequence number {}, \
                 kind {:#04x})",
                packed >> 8,
                packed & 0xff
            ))),
        }
    }

    /// Verifies that the key of the entry is less than that of `next`.
    pub(crate) fn verify_before(&self, next: &Entry<'_>) -> Result<()> {
        match key::compare(self.list().order(), self.key(), next.key()) {
            Order::Less => Ok(()),
            _ => Err(out_of_order()),
        }
    }
}

impl SkipList {
    /// Sets the checks, before the first insertion.
    ///
    /// # Panics
    ///
    /// If checksums cannot have the length.
    pub(crate) fn checked(mut self, checks: Checks) -> SkipList {
        assert!(
            is_checksum_len(checks.checksum_len.into()),
            "checksums have 0, 1, 2, 4 or 8 bytes"
        );
        debug_assert_eq!(self.entries(), 0, "set before the first insertion");
        self.checks = checks;
        self
    }

    /// The checks.
    #[inline]
    pub(crate) fn checks(&self) -> Checks {
        self.checks
    }

    /// Verifies the entries that a search for an internal key passes, as far as the list has checks of searches.
    pub(crate) fn verify_search(&self, user: &[u8], packed: u64) -> Result<()> {
        if !self.checks.of_searches() {
            return Ok(());
        }
        self.link_pending();
        let target = Target::new(&self.order, user, packed);
        let mut node = self.head;
        for level in (0..self.height.load(Ordering::Relaxed)).rev() {
            // SAFETY: `node` is the head or was reached on this level or a higher one (N4).
            while let Some(next) = unsafe { Node::next(node, level) } {
                let passed = self.entry(Some(next)).expect("there is a node");
                if self.checks.on_seek {
                    passed.verify()?;
                }
                // SAFETY: both nodes belong to this list (N1).
                let order = unsafe {
                    if self.checks.order
                        && node != self.head
                        && Node::compare(next, &self.order, &self.target_of(node)) != Order::Greater
                    {
                        return Err(out_of_order());
                    }
                    Node::compare(next, &self.order, &target)
                };
                if order != Order::Less {
                    break;
                }
                node = next;
            }
        }
        Ok(())
    }
}

/// Damages entries, for the tests of this crate and of those that depend on it: in builds with assertions only.
#[cfg(any(test, debug_assertions))]
impl Entry<'_> {
    /// Inverts a bit of the value, or of the user key if the value is empty.
    ///
    /// # Panics
    ///
    /// If both are empty.
    pub fn damage_value(&self) {
        match self.value() {
            [] => self.damage_key(),
            value => self.invert(value.as_ptr().addr()),
        }
    }

    /// Inverts a bit of the last byte of the user key.
    ///
    /// # Panics
    ///
    /// If it is empty.
    pub fn damage_key(&self) {
        let last = self.user_key().last().expect("the key is not empty");
        self.invert(std::ptr::from_ref(last).addr());
    }

    fn invert(&self, at: usize) {
        let base = self.node.cast::<u8>();
        // SAFETY: the byte belongs to the node (N1), whose memory the arena allocated as writable; the tests that call
        // this hold no reference to it and have no other thread that reads it.
        unsafe {
            let byte = base.add(at - base.addr().get());
            byte.write(byte.read() ^ 0x10);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::iter::successors;

    use cairn_types::KeyOrder;

    use super::super::InsertHint;
    use super::*;

    const LENS: [u8; 5] = [0, 1, 2, 4, 8];

    fn list(checks: Checks) -> SkipList {
        let list = SkipList::new(KeyOrder::Bytewise, 4096).checked(checks);
        for nth in 0..200_u64 {
            let key = format!("key{:04}", nth * 7 % 200 * 2);
            let value = vec![b'v'; nth as usize % 40];
            list.insert(
                key.as_bytes(),
                nth << 8 | 1,
                &value,
                &mut InsertHint::default(),
            );
        }
        list
    }

    #[test]
    fn entries_with_checksums_read_as_written() {
        for checksum_len in LENS {
            let (on_seek, order) = (true, true);
            let list = list(Checks {
                checksum_len,
                on_seek,
                order,
            });
            let entries: Vec<_> = successors(list.first(), Entry::next).collect();
            assert_eq!(entries.len(), 200);
            for entry in entries {
                entry.verify().unwrap();
                let packed = key::packed(entry.key());
                list.verify_search(entry.user_key(), packed).unwrap();
                let seq = packed >> 8;
                assert_eq!(entry.value().len() as u64, seq % 40);
                assert_eq!(
                    entry.user_key(),
                    format!("key{:04}", seq * 7 % 200 * 2).as_bytes()
                );
            }
        }
    }

    /// A checksum of one byte misses one of 256 kinds of damage.
    #[test]
    fn every_damaged_entry_fails_its_check() {
        for checksum_len in &LENS[2..] {
            let list = list(Checks {
                checksum_len: *checksum_len,
                ..Checks::default()
            });
            for (nth, entry) in successors(list.first(), Entry::next).enumerate() {
                match nth % 2 {
                    0 => entry.damage_value(),
                    _ => entry.damage_key(),
                }
                let error = entry.verify().unwrap_err();
                assert_eq!(error.code(), cairn_types::Code::Corruption);
            }
        }
    }

    /// An inverted bit of the last digit moves a key before its predecessor, unless that has another tens digit. The check
    /// of the order misses the damage if a search comes to the entry from one further back.
    #[test]
    fn a_search_notices_damaged_keys_on_its_way() {
        let on_way = Checks {
            checksum_len: 8,
            on_seek: true,
            order: false,
        };
        let order = Checks {
            checksum_len: 0,
            on_seek: false,
            order: true,
        };
        let entry_only = Checks {
            checksum_len: 8,
            on_seek: false,
            order: false,
        };
        for (checks, expected) in [(on_way, 199..=199), (order, 80..=198), (entry_only, 0..=0)] {
            let mut noticed = 0;
            for nth in 1..200 {
                let list = list(checks);
                let damaged = successors(list.first(), Entry::next)
                    .nth(nth)
                    .expect("there are 200");
                let key = damaged.user_key().to_vec();
                damaged.damage_key();
                noticed += usize::from(list.verify_search(&key, 0).is_err());
            }
            assert!(expected.contains(&noticed), "{checks:?}: {noticed}");
        }
    }
}
