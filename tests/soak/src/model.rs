//! The expected content of one worker's keys, with keys in doubt.
//!
//! Each worker writes its own keys, so that its model is exact despite concurrent writers. A failed
//! write may or may not have taken effect: its keys are in doubt until a later successful write.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A value, shared with snapshots.
pub type Bytes = Arc<[u8]>;

/// The rows of a family.
pub type Rows = BTreeMap<Vec<u8>, Bytes>;

/// One change of a batch.
#[derive(Clone, Debug)]
pub enum Change {
    /// Sets the value.
    Put(Vec<u8>, Bytes),
    /// Appends an operand after a comma.
    Merge(Vec<u8>, Vec<u8>),
    /// Deletes the row.
    Delete(Vec<u8>),
    /// Deletes a row that was put once.
    SingleDelete(Vec<u8>),
    /// Deletes the rows from the first key to the second, exclusive.
    DeleteRange(Vec<u8>, Vec<u8>),
}

/// One worker's rows in all shared families.
#[derive(Clone, Default)]
pub struct Model {
    /// The rows, by the family's index.
    pub rows: Vec<Rows>,
    /// Keys in doubt: family and key.
    pub doubt: BTreeSet<(usize, Vec<u8>)>,
}

impl Model {
    /// Creates a model of `families` empty families.
    pub fn new(families: usize) -> Model {
        Model {
            rows: vec![Rows::new(); families],
            doubt: BTreeSet::new(),
        }
    }

    /// Applies `change` to `family`.
    pub fn apply(&mut self, family: usize, change: &Change) {
        let rows = &mut self.rows[family];
        match change {
            Change::Put(key, value) => {
                rows.insert(key.clone(), Arc::clone(value));
            }
            Change::Merge(key, operand) => {
                let merged = match rows.get(key) {
                    Some(old) => [&old[..], b",", operand].concat(),
                    None => operand.clone(),
                };
                rows.insert(key.clone(), merged.into());
            }
            Change::Delete(key) | Change::SingleDelete(key) => {
                rows.remove(key);
            }
            Change::DeleteRange(begin, end) => {
                let keys: Vec<Vec<u8>> = keys_between(rows, begin, end);
                for key in keys {
                    rows.remove(&key);
                }
            }
        }
    }

    /// Marks the keys of a failed change as in doubt.
    pub fn put_in_doubt(&mut self, family: usize, change: &Change) {
        match change {
            Change::Put(key, _)
            | Change::Merge(key, _)
            | Change::Delete(key)
            | Change::SingleDelete(key) => {
                self.doubt.insert((family, key.clone()));
            }
            Change::DeleteRange(begin, end) => {
                let keys = keys_between(&self.rows[family], begin, end);
                self.doubt.extend(keys.into_iter().map(|key| (family, key)));
            }
        }
    }

    /// Returns writes that resolve all doubts: each key gets its value in the model.
    pub fn settling(&self) -> Vec<(usize, Change)> {
        let change = |(family, key): &(usize, Vec<u8>)| {
            let change = match self.rows[*family].get(key) {
                Some(value) => Change::Put(key.clone(), Arc::clone(value)),
                None => Change::Delete(key.clone()),
            };
            (*family, change)
        };
        self.doubt.iter().map(change).collect()
    }
}

fn keys_between(rows: &Rows, begin: &[u8], end: &[u8]) -> Vec<Vec<u8>> {
    let range = rows.range(begin.to_vec()..end.to_vec());
    range.map(|(key, _)| key.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(key: &str) -> Change {
        Change::Put(key.into(), Arc::from(&b"v"[..]))
    }

    #[test]
    fn a_failed_range_deletion_puts_its_rows_in_doubt() {
        let mut model = Model::new(1);
        for key in ["a", "b", "c"] {
            model.apply(0, &put(key));
        }
        let range = Change::DeleteRange(b"a".to_vec(), b"c".to_vec());
        model.put_in_doubt(0, &range);
        model.put_in_doubt(0, &put("x"));
        assert_eq!(model.rows[0].len(), 3);
        let settling = model.settling();
        assert_eq!(settling.len(), 3);
        assert!(matches!(&settling[2].1, Change::Delete(key) if key == b"x"));
        model.apply(0, &range);
        assert_eq!(model.rows[0].keys().collect::<Vec<_>>(), [b"c"]);
    }

    #[test]
    fn operands_are_joined_by_commas() {
        let mut model = Model::new(1);
        for operand in ["1", "2"] {
            model.apply(0, &Change::Merge(b"k".to_vec(), operand.into()));
        }
        assert_eq!(&model.rows[0][&b"k"[..]][..], b"1,2");
    }
}
