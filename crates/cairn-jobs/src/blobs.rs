//! Blob files of a job: separating values, writing them, and reading those that are relocated.
//!
//! Each subcompaction writes its own blob files, one at a time; a file is closed when it reaches the
//! target size. Blob files are finished and synced before their subcompaction ends. Their directory
//! entries are synced together with those of the tables, before any version edit refers to them.

use std::collections::HashMap;

use cairn_blob::{BlobBuilder, BlobFile, BlobParams, BlobValue};
use cairn_format::blob::{BlobIndex, FOOTER_LEN};
use cairn_observe::files::measured_writes;
use cairn_observe::statistics::{Histogram, Ticker};
use cairn_options::Temperature;
use cairn_platform::WritableFile;
use cairn_platform::sync::Arc;
use cairn_platform::{Buffer, ReadRequest};
use cairn_types::{FileNumber, Result};
use cairn_version::BlobFileMeta;

use crate::context::JobContext;
use crate::output_params::OutputParams;
use crate::stats::BlobsRead;

/// Writer of the blob files of one subcompaction.
pub(crate) struct BlobWriter<'a> {
    params: &'a OutputParams,
    open: Option<(Arc<dyn WritableFile>, BlobBuilder)>,
    files: Vec<Arc<BlobFileMeta>>,
    /// Bytes of the finished files.
    written: u64,
}

impl<'a> BlobWriter<'a> {
    pub(crate) fn new(params: &'a OutputParams) -> BlobWriter<'a> {
        BlobWriter {
            params,
            open: None,
            files: Vec::new(),
            written: 0,
        }
    }

    /// Writes `value` of `user_key` to a blob file if it reaches the minimum blob size.
    #[inline]
    pub(crate) fn add(&mut self, user_key: &[u8], value: &[u8]) -> Result<Option<BlobIndex>> {
        let min = self.params.blobs.min_bytes;
        match min.is_none_or(|min| (value.len() as u64) < min) {
            true => Ok(None),
            false => self.add_large(user_key, value),
        }
    }

    /// [`BlobWriter::add`] for a value of at least the minimum blob size.
    fn add_large(&mut self, user_key: &[u8], value: &[u8]) -> Result<Option<BlobIndex>> {
        let plan = &self.params.blobs;
        // All values of a blob file have its codec. A value that is too long for it stays in the table, whose blocks may
        // be uncompressed.
        if !cairn_blob::fits(plan.compression, user_key.len(), value.len()) {
            return Ok(None);
        }
        if self.open.is_none() {
            self.open = Some(self.create()?);
        }
        let Some((_, builder)) = &mut self.open else {
            unreachable!("the blob file was just created");
        };
        let index = builder.add(user_key, value)?;
        if plan.prepopulate {
            self.params
                .context
                .family
                .blobs
                .warm(&index, user_key, value);
        }
        if builder.file_size() >= plan.file_bytes {
            self.end()?;
        }
        Ok(Some(index))
    }

    /// Closes the last file and returns all files and their total size in bytes.
    pub(crate) fn finish(mut self) -> Result<(Vec<Arc<BlobFileMeta>>, u64)> {
        self.end()?;
        Ok((self.files, self.written))
    }

    fn create(&self) -> Result<(Arc<dyn WritableFile>, BlobBuilder)> {
        let context = &self.params.context;
        let number = (context.new_number)();
        let path = context.family.blobs.path(number);
        if let Some(events) = &context.events {
            events.blob_started(number, &path);
        }
        // The MANIFEST has no temperatures of blob files.
        let file = context.create(&path, Temperature::Unknown)?;
        let histogram = Histogram::BlobDbBlobFileWriteMicros;
        let file = measured_writes(file, &context.meter, histogram);
        self.params.created.lock().push(path);
        let params = BlobParams {
            number,
            family: context.family.id,
            compression: self.params.blobs.compression,
            codec: self.params.blobs.codec,
            bytes_per_sync: context.database.options.bytes_per_sync,
            file_checksum: context.database.options.file_checksum_gen_factory.clone(),
            meter: context.meter.clone(),
        };
        Ok((file.clone(), BlobBuilder::create(file, params)?))
    }

    fn end(&mut self) -> Result<()> {
        let Some((file, builder)) = self.open.take() else {
            return Ok(());
        };
        let finished = builder.finish()?;
        assert!(finished.count > 0, "a blob file is created for a value");
        assert!(
            finished.bytes <= finished.file_size,
            "records are part of the file"
        );
        let meter = &self.params.context.meter;
        let began = meter.began();
        file.sync(self.params.context.database.options.use_fsync)?;
        meter.add(Ticker::BlobDbBlobFileSynced, 1);
        meter.time_since(began, Histogram::BlobDbBlobFileSyncMicros);
        file.close()?;
        self.written += finished.file_size;
        let (checksum_value, checksum_method) = finished.file_checksum.unwrap_or_default();
        let file = Arc::new(BlobFileMeta {
            number: finished.number,
            total_count: finished.count,
            total_bytes: finished.bytes,
            checksum_method,
            checksum_value,
            garbage_count: 0,
            garbage_bytes: 0,
        });
        if let Some(events) = &self.params.context.events {
            let path = self.params.context.family.blobs.path(file.number);
            events.blob_created(&path, &file);
        }
        assert!(
            self.files
                .last()
                .is_none_or(|last| last.number < file.number),
            "file numbers ascend"
        );
        self.files.push(file);
        Ok(())
    }
}

/// Reader of blobs for one subcompaction. The blobs of a file are read in key order, and thus
/// mostly in offset order. Reads bypass the blob cache.
pub(crate) struct BlobReader {
    context: Arc<JobContext>,
    readahead: u64,
    /// Readahead buffer of each file, with the offset of its first byte.
    ahead: HashMap<FileNumber, (u64, Buffer)>,
    /// Statistics of the blobs read.
    pub(crate) read: BlobsRead,
}

impl BlobReader {
    pub(crate) fn new(context: Arc<JobContext>, readahead: u64) -> BlobReader {
        BlobReader {
            context,
            readahead,
            ahead: HashMap::new(),
            read: BlobsRead::default(),
        }
    }

    pub(crate) fn of(params: &OutputParams) -> BlobReader {
        BlobReader::new(params.context.clone(), params.blobs.readahead)
    }

    /// Returns the value of `user_key` that the encoded blob index refers to.
    pub(crate) fn read_encoded(&mut self, index: &[u8], user_key: &[u8]) -> Result<BlobValue> {
        let index = BlobIndex::decode(index).map_err(|e| e.in_file("a blob index", 0))?;
        self.read(&index, user_key)
    }

    /// Returns the value of `user_key` at `index`.
    pub(crate) fn read(&mut self, index: &BlobIndex, user_key: &[u8]) -> Result<BlobValue> {
        let file = self.context.family.blobs.file(index.file)?;
        let request = file.request(index, user_key)?;
        let record = match self.readahead {
            _ if !file.is_sealed() => self.context.io.read_now(&request)?,
            0 => self.context.io.read_now(&request)?,
            _ => self.read_ahead(&file, &request)?,
        };
        debug_assert_eq!(record.len(), request.len, "the whole record is read");
        self.read.count(request.len as u64);
        file.complete(index, user_key, record)
    }

    fn read_ahead(&mut self, file: &BlobFile, request: &ReadRequest) -> Result<Buffer> {
        if let Some((start, bytes)) = self.ahead.get(&file.number())
            && let Some(from) = request.offset.checked_sub(*start)
            && let Ok(from) = usize::try_from(from)
            && let Some(record) = bytes.get(from..from.saturating_add(request.len))
        {
            return Ok(Buffer::from(record));
        }
        let room = (file.file_size() - FOOTER_LEN as u64).saturating_sub(request.offset);
        let len = usize::try_from(self.readahead.min(room)).unwrap_or(usize::MAX);
        let len = len.min(Buffer::MAX_LEN);
        if len <= request.len {
            return self.context.io.read_now(request);
        }
        let more = ReadRequest {
            len,
            ..request.clone()
        };
        let bytes = self.context.io.read_now(&more)?;
        let record = Buffer::from(&bytes[..request.len]);
        self.ahead.insert(file.number(), (request.offset, bytes));
        Ok(record)
    }
}
