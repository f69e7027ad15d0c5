//! The prepared transactions in a trace of RocksDB, which records their batches as it logs them.
//!
//! ```text
//! write policy  prepare                commit                                     rollback
//! committed     begin, writes, end     [other writes,] commit [, the section]     rollback
//! prepared      begin, writes, end     [other writes,] commit                     reverting writes, rollback
//! unprepared    as above, in several sections
//! ```
//!
//! With the first policy, writes take effect when they are committed. The commit repeats the section, unless the
//! transaction bypasses the memtable. With the other policies, they take effect at once.
//!
//! RocksDB's replay ignores the markers: it also applies what was rolled back, and applies twice what was committed.

use std::collections::BTreeMap;

use cairn_format::batch::{BatchRef, PreparePolicy, Record, WriteBatch as Encoded};
use cairn_types::{Malformed, Result};

use crate::write::two_phase::plain_writes;

/// The sections of a trace that have no effect yet, by the names of their transactions. Batches must be passed in their
/// order in the trace.
#[derive(Default)]
pub(super) struct PreparedSections(BTreeMap<Vec<u8>, Encoded>);

/// The markers of a batch.
#[derive(Default)]
struct Markers<'a> {
    /// The policy of the section.
    begins: Option<PreparePolicy>,
    /// The transaction of the section.
    ends: Option<&'a [u8]>,
    commits: Option<&'a [u8]>,
    rolls_back: Option<&'a [u8]>,
}

impl<'a> Markers<'a> {
    /// The markers of `batch`; `None` if it has none.
    fn of(batch: &BatchRef<'a>) -> std::result::Result<Option<Markers<'a>>, Malformed> {
        let mut markers = Markers::default();
        let mut any = false;
        for record in batch.records() {
            match record? {
                Record::BeginPrepare(policy) => markers.begins = Some(policy),
                Record::EndPrepare { name } => markers.ends = Some(name),
                Record::Commit { name } | Record::CommitWithTimestamp { name, .. } => {
                    markers.commits = Some(name);
                }
                Record::Rollback { name } => markers.rolls_back = Some(name),
                _ => continue,
            }
            any = true;
        }
        Ok(any.then_some(markers))
    }
}

impl PreparedSections {
    /// Returns the writes that take effect with `batch`, the next one of the trace; `None` if it has no markers, and all
    /// of it does.
    ///
    /// # Errors
    ///
    /// `Corruption` if it is malformed.
    pub(super) fn effect(&mut self, batch: &[u8]) -> Result<Option<Encoded>> {
        let name = "a write batch of the trace";
        let malformed = |malformed: Malformed| malformed.in_file(name, 0);
        let batch = BatchRef::parse(batch).map_err(malformed)?;
        let Some(markers) = Markers::of(&batch).map_err(malformed)? else {
            return Ok(None);
        };
        let mut writes = plain_writes(&batch, name)?;
        if let Some(name) = markers.rolls_back {
            self.0.remove(name);
        }
        if let Some(name) = markers.commits {
            let section = self.0.remove(name).filter(|_| markers.begins.is_none());
            if let Some(section) = section {
                writes.append(&section.view())?;
            }
        } else if let Some(PreparePolicy::WriteCommitted) = markers.begins
            && let Some(name) = markers.ends
        {
            self.0.insert(name.to_vec(), writes);
            return Ok(Some(Encoded::new()));
        }
        Ok(Some(writes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A put of `key`.
    fn put(key: &[u8]) -> Encoded {
        let mut batch = Encoded::new();
        batch.put(0, key, b"v").unwrap();
        batch
    }

    /// The batch with which a transaction `name` that puts `key` is prepared.
    fn prepare(key: &[u8], name: &[u8]) -> Encoded {
        Encoded::prepared_section(&put(key).view(), name).unwrap()
    }

    #[test]
    fn a_section_takes_effect_once_and_only_if_it_is_committed() {
        let mut sections = PreparedSections::default();
        let mut effect = |batch: &Encoded| sections.effect(batch.as_bytes()).unwrap();
        assert!(effect(&put(b"plain")).is_none());
        for name in [&b"repeated"[..], b"bypassing", b"dropped"] {
            assert!(effect(&prepare(name, name)).unwrap().is_empty());
        }
        // The commit-time batch, the marker and the section.
        let mut commit = put(b"other");
        commit.mark_commit(b"repeated").unwrap();
        commit
            .append(&prepare(b"repeated", b"repeated").view())
            .unwrap();
        let mut expected = put(b"other");
        expected.put(0, b"repeated", b"v").unwrap();
        assert_eq!(effect(&commit).unwrap().as_bytes(), expected.as_bytes());
        let mut rollback = Encoded::new();
        rollback.mark_rollback(b"dropped").unwrap();
        assert!(effect(&rollback).unwrap().is_empty());
        for (name, committed) in [(&b"bypassing"[..], true), (b"dropped", false)] {
            let mut commit = Encoded::new();
            commit.mark_commit(name).unwrap();
            let expected = match committed {
                true => put(name),
                false => Encoded::new(),
            };
            assert_eq!(effect(&commit).unwrap().as_bytes(), expected.as_bytes());
        }
        assert!(sections.0.is_empty());
    }

    #[test]
    fn a_section_of_another_policy_takes_effect_at_once() {
        let mut sections = PreparedSections::default();
        for policy in [PreparePolicy::WritePrepared, PreparePolicy::WriteUnprepared] {
            let mut section = prepare(b"k", b"one");
            section.set_prepare_policy(policy);
            let effect = sections.effect(section.as_bytes()).unwrap().unwrap();
            assert_eq!(effect.as_bytes(), put(b"k").as_bytes());
        }
        assert!(sections.0.is_empty());
    }
}
