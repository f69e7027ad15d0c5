//! Reads from a batch, alone or on top of a database.

use cairn_db::{Below, Columns, Family, Found, Merged, Value};
use cairn_options::ReadOptions;
use cairn_types::{Code, Error, Result, Subcode};

use crate::batch::IndexedBatch;
use crate::index::{Indexed, WriteKind};

/// The effect of a batch on a key.
pub(crate) enum BatchEffect {
    /// None.
    Nothing,
    /// The final value.
    Found(Found),
    /// Operands, oldest first, on this base, or on the database's value.
    Operands(Vec<Vec<u8>>, Option<Found>),
}

/// Computes the effect of the records of `key`.
pub(crate) fn resolve(indexed: &Indexed, family: u32, key: &[u8]) -> Result<BatchEffect> {
    let mut operands = Vec::new();
    let mut below = None;
    let records = indexed
        .family(family)
        .map_or(&[][..], |index| index.records(key));
    for &at in records.iter().rev() {
        let (kind, value) = indexed.record(at)?;
        below = Some(match kind {
            WriteKind::Merge => {
                operands.push(value.to_vec());
                continue;
            }
            WriteKind::Put => Found::Value(value.to_vec().into()),
            WriteKind::PutEntity => Found::Entity(value.to_vec().into()),
            WriteKind::Delete | WriteKind::SingleDelete => Found::Missing,
        });
        break;
    }
    Ok(match (operands.is_empty(), below) {
        (true, None) => BatchEffect::Nothing,
        (true, Some(found)) => BatchEffect::Found(found),
        (false, below) => {
            operands.reverse();
            BatchEffect::Operands(operands, below)
        }
    })
}

/// Merges `operands` (oldest first) with `below`.
pub(crate) fn merged(
    family: &Family,
    key: &[u8],
    below: &Found,
    operands: &[Vec<u8>],
) -> Result<Found> {
    let below = match below {
        Found::Missing => Below::Nothing,
        Found::Value(value) => Below::Value(value),
        Found::Entity(entity) => Below::Entity(entity),
    };
    let operands: Vec<&[u8]> = operands.iter().map(Vec::as_slice).collect();
    Ok(match family.merge_operands(key, below, &operands)? {
        Merged::Value(value) => Found::Value(value.into()),
        Merged::Entity(entity) => Found::Entity(entity.into()),
    })
}

fn lacks_base() -> Error {
    Error::new(
        Code::MergeInProgress,
        Subcode::None,
        "the batch has merge operands of the key but not their base value",
    )
}

/// Checks that a read of `family` with `options` has a timestamp if keys have one, also if the batch alone answers it.
fn check_timestamp(family: &Family, options: &ReadOptions) -> Result<()> {
    match family.timestamp_size() > 0 && options.timestamp.is_none() {
        true => Err(Error::invalid_argument("Must specify timestamp")),
        false => Ok(()),
    }
}

impl IndexedBatch {
    fn batch_effect(&self, family: u32, key: &[u8]) -> Result<BatchEffect> {
        resolve(&self.shared.lock(), family, key)
    }

    /// Returns the value of `key` of the default family from the batch alone; `None` if it is deleted
    /// or absent.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if the key has merge operands, which require a family to be merged; `MergeInProgress` if the batch
    /// does not have their base.
    pub fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        match self.batch_effect(0, key)? {
            BatchEffect::Nothing => Ok(None),
            BatchEffect::Found(found) => found.into_value(),
            BatchEffect::Operands(_, Some(_)) => Err(Error::invalid_argument(
                "the key has merge operands in the batch: name its column family to merge them",
            )),
            BatchEffect::Operands(_, None) => Err(lacks_base()),
        }
    }

    /// Returns the value of `key` of `family` from the batch alone.
    ///
    /// # Errors
    ///
    /// `MergeInProgress` if the batch has merge operands but not their base; errors of a merge.
    pub fn get_in(&self, family: &Family, key: &[u8]) -> Result<Option<Value>> {
        self.find_in(family, key)?.into_value()
    }

    /// [`IndexedBatch::get_in`] for wide-column entities.
    ///
    /// # Errors
    ///
    /// Those of [`IndexedBatch::get_in`].
    pub fn get_entity_in(&self, family: &Family, key: &[u8]) -> Result<Option<Columns>> {
        self.find_in(family, key)?.into_columns()
    }

    fn find_in(&self, family: &Family, key: &[u8]) -> Result<Found> {
        match self.batch_effect(family.id(), key)? {
            BatchEffect::Nothing => Ok(Found::Missing),
            BatchEffect::Found(found) => Ok(found),
            BatchEffect::Operands(operands, Some(below)) => merged(family, key, &below, &operands),
            BatchEffect::Operands(_, None) => Err(lacks_base()),
        }
    }

    /// Returns the value of `key` of `family` once the batch is written. A snapshot in `options`
    /// applies to the database only.
    ///
    /// # Errors
    ///
    /// Errors of a get or a merge.
    pub fn get_over(
        &self,
        family: &Family,
        key: &[u8],
        options: &ReadOptions,
    ) -> Result<Option<Value>> {
        self.find_over(family, key, options)?.into_value()
    }

    /// [`IndexedBatch::get_over`] for wide-column entities.
    ///
    /// # Errors
    ///
    /// Those of [`IndexedBatch::get_over`].
    pub fn get_entity_over(
        &self,
        family: &Family,
        key: &[u8],
        options: &ReadOptions,
    ) -> Result<Option<Columns>> {
        self.find_over(family, key, options)?.into_columns()
    }

    fn find_over(&self, family: &Family, key: &[u8], options: &ReadOptions) -> Result<Found> {
        check_timestamp(family, options)?;
        match self.batch_effect(family.id(), key)? {
            BatchEffect::Nothing => family.find(key, options),
            BatchEffect::Found(found) => Ok(found),
            BatchEffect::Operands(operands, Some(below)) => merged(family, key, &below, &operands),
            BatchEffect::Operands(operands, None) => {
                let below = family.find(key, options)?;
                merged(family, key, &below, &operands)
            }
        }
    }

    /// [`IndexedBatch::get_over`] for many keys, which are read from the database as one batch.
    /// `sorted` states that they are in key order.
    #[must_use]
    pub fn multi_get_over<K: AsRef<[u8]>>(
        &self,
        family: &Family,
        keys: &[K],
        options: &ReadOptions,
        sorted: bool,
    ) -> Vec<Result<Option<Value>>> {
        let found = self.multi_find_over(family, keys, options, sorted);
        found
            .into_iter()
            .map(|found| found.and_then(Found::into_value))
            .collect()
    }

    /// [`IndexedBatch::multi_get_over`] for wide-column entities.
    #[must_use]
    pub fn multi_get_entity_over<K: AsRef<[u8]>>(
        &self,
        family: &Family,
        keys: &[K],
        options: &ReadOptions,
        sorted: bool,
    ) -> Vec<Result<Option<Columns>>> {
        let found = self.multi_find_over(family, keys, options, sorted);
        found
            .into_iter()
            .map(|found| found.and_then(Found::into_columns))
            .collect()
    }

    fn multi_find_over<K: AsRef<[u8]>>(
        &self,
        family: &Family,
        keys: &[K],
        options: &ReadOptions,
        sorted: bool,
    ) -> Vec<Result<Found>> {
        if let Err(error) = check_timestamp(family, options) {
            return keys.iter().map(|_| Err(error.clone())).collect();
        }
        let said: Vec<Result<BatchEffect>> = {
            let indexed = self.shared.lock();
            let said = |key: &K| resolve(&indexed, family.id(), key.as_ref());
            keys.iter().map(said).collect()
        };
        let asks = |said: &Result<BatchEffect>| {
            matches!(
                said,
                Ok(BatchEffect::Nothing | BatchEffect::Operands(_, None))
            )
        };
        let asked: Vec<&[u8]> = keys
            .iter()
            .zip(&said)
            .filter(|(_, said)| asks(said))
            .map(|(key, _)| key.as_ref())
            .collect();
        let mut below = family.multi_find(&asked, options, sorted).into_iter();
        let mut below = || {
            let lost = || Err(Error::aborted("a key of a batch was not looked up"));
            below.next().unwrap_or_else(lost)
        };
        keys.iter()
            .zip(said)
            .map(|(key, said)| match said? {
                BatchEffect::Nothing => below(),
                BatchEffect::Found(found) => Ok(found),
                BatchEffect::Operands(operands, Some(found)) => {
                    merged(family, key.as_ref(), &found, &operands)
                }
                BatchEffect::Operands(operands, None) => {
                    merged(family, key.as_ref(), &below()?, &operands)
                }
            })
            .collect()
    }
}
