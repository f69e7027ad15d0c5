//! Values in blob files that the result of a lookup needs: a plain value, or the values of columns of an entity.

use cairn_platform::{Buffer, ReadRequest};
use cairn_types::Result;

use super::{OnOperand, PointGet};
use crate::blob::{BlobReadOptions, Located, PendingBlob};
use crate::columns::{PendingColumn, PendingEntity, blob_indexes};
use crate::value::Value;
use crate::versions::Newest;

/// The values in blob files that a lookup waits for.
pub(crate) struct BlobReads {
    /// The entity that they are columns of; `None` for a plain value.
    entity: Option<PendingEntity>,
    /// The column and the blob of each request, in the order of the requests.
    places: Vec<(usize, PendingBlob)>,
}

impl BlobReads {
    /// The number of requests to be executed.
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// The numbers of the files of the requests.
    pub(crate) fn files(&self) -> impl Iterator<Item = usize> {
        self.places.iter().map(|(_, place)| place.file_number())
    }
}

impl<H: OnOperand> PointGet<'_, H> {
    /// Adds the reads of values that are stored in blob files and not cached to `requests`. Returns `None` if there are
    /// none.
    pub(crate) fn blob_reads(
        &mut self,
        requests: &mut Vec<ReadRequest>,
    ) -> Result<Option<BlobReads>> {
        let options = self.blob_options();
        let reading = &self.view.family;
        let (entity, reads) = match &self.versions.newest {
            Newest::Missing | Newest::Value(_) => return Ok(None),
            Newest::Blob(index) => match reading.blobs.locate(index, self.base_key(), options)? {
                Located::Cached(value) => {
                    self.versions.newest = Newest::Value(value);
                    return Ok(None);
                }
                Located::InFile(place, request) => (None, vec![(0, place, request)]),
            },
            Newest::Entity(entity) => {
                let locate = |index: &[u8]| reading.blobs.locate(index, self.base_key(), options);
                match PendingEntity::locate(entity, locate)? {
                    None => return Ok(None),
                    Some((entity, reads)) => (Some(entity), reads),
                }
            }
        };
        let mut blobs = BlobReads {
            entity,
            places: Vec::with_capacity(reads.len()),
        };
        for read in reads {
            blobs.add(read, requests);
        }
        match blobs.places.is_empty() {
            // All columns are cached.
            true => self.take_entity(&mut blobs).map(|()| None),
            false => Ok(Some(blobs)),
        }
    }

    /// Supplies the results of the requests of `blobs`. Adds further reads to `requests`: of values that a tier of the
    /// cache has lost.
    pub(crate) fn supply_blobs(
        &mut self,
        blobs: &mut BlobReads,
        results: impl Iterator<Item = Result<Buffer>>,
        requests: &mut Vec<ReadRequest>,
    ) -> Result<()> {
        let source = &self.view.family.blobs;
        let places = std::mem::take(&mut blobs.places);
        let mut plain: Option<Value> = None;
        for ((column, place), read) in places.into_iter().zip(results) {
            match (
                source.complete(place, self.base_key(), read)?,
                &mut blobs.entity,
            ) {
                (Located::InFile(place, request), _) => {
                    blobs.add((column, place, request), requests);
                }
                (Located::Cached(value), Some(entity)) => entity.supply(column, value),
                (Located::Cached(value), None) => plain = Some(value),
            }
        }
        if let Some(value) = plain {
            self.versions.newest = Newest::Value(value);
        }
        match blobs.places.is_empty() {
            true => self.take_entity(blobs),
            false => Ok(()),
        }
    }

    /// Takes the entity whose columns have been read.
    fn take_entity(&mut self, blobs: &mut BlobReads) -> Result<()> {
        if let Some(entity) = blobs.entity.take() {
            self.versions.newest = Newest::Entity(entity.finish()?);
        }
        Ok(())
    }

    /// Adds the encoded blob indexes of the result to `indexes`.
    pub(crate) fn add_blob_indexes<'s>(&'s self, indexes: &mut Vec<&'s [u8]>) {
        match &self.versions.newest {
            Newest::Missing | Newest::Value(_) => {}
            Newest::Blob(index) => indexes.push(index),
            Newest::Entity(entity) => indexes.extend(blob_indexes(entity)),
        }
    }

    fn blob_options(&self) -> BlobReadOptions {
        BlobReadOptions {
            fill_cache: self.options.fill_cache,
            cache_only: self.is_cache_only(),
        }
    }
}

impl BlobReads {
    fn add(&mut self, (column, place, request): PendingColumn, requests: &mut Vec<ReadRequest>) {
        self.places.push((column, place));
        requests.push(request);
    }
}
