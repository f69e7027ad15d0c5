//! The progress of a remote compaction: a file in the output directory that lists the complete tables, so that another
//! worker can continue after an interruption.
//!
//! ```text
//! offset  size  field
//!      0     4  CRC-32C of the rest
//!      4     8  length of the request, little-endian
//!     12     n  the request, without the position of the MANIFEST
//!   12+n        the result so far
//! ```
//!
//! The file is replaced after each table. A file that is damaged, belongs to another request, or lists a table that
//! is missing is ignored: the compaction starts afresh. So does it with a file written by RocksDB, which ignores
//! this one in turn.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cairn_format::checksum::crc32c_extend;
use cairn_format::compaction_service::{OutputFile, Reply, Request};
use cairn_format::key::InternalKey;
use cairn_format::names::FileName;
use cairn_format::table::properties::Properties;
use cairn_jobs::{JobEvents, JobStats, KeyRange};
use cairn_platform::FileSystem;
use cairn_platform::sync::Mutex;
use cairn_types::{Error, FileNumber, KeyOrder, Result};
use cairn_version::{BlobFileMeta, FileMeta, bounds};

use super::worker::output_file;
use crate::catalog::options_file::replace;
use crate::jobs::watch::Watch;
use crate::open::read_small;

/// The prefix of RocksDB's names of such files, which end with a number.
const PREFIX: &str = "COMPACTION_PROGRESS-";

/// The file of this release.
const NAME: &str = "COMPACTION_PROGRESS-1";

/// The progress of a compaction.
pub(super) struct Progress {
    fs: Arc<dyn FileSystem>,
    dir: PathBuf,
    request: Vec<u8>,
    resumed: Vec<OutputFile>,
}

impl Progress {
    /// Reads the progress of `request` in `dir`, if `resumes`, and deletes the tables in it that are not part of it.
    pub(super) fn open(
        fs: Arc<dyn FileSystem>,
        dir: &Path,
        request: &Request,
        resumes: bool,
        properties: &dyn Fn(&FileMeta) -> Result<Properties>,
    ) -> Result<Progress> {
        let request = Request {
            options_file_number: 0,
            min_manifest_file_number: 0,
            min_manifest_file_size: 0,
            ..request.clone()
        };
        let request = request.encode();
        let content = read_small(&*fs, &dir.join(NAME)).unwrap_or_default();
        let listed = content.and_then(|content| decode(&content, &request));
        let complete = listed.filter(|_| resumes).and_then(|mut files| {
            let found = files.iter_mut().all(|file| {
                // A table that cannot be opened is written again.
                meta(file).is_some_and(|meta| match properties(&meta) {
                    Ok(found) => {
                        file.table_properties = found;
                        true
                    }
                    Err(_) => false,
                })
            });
            found.then_some(files)
        });
        let resumed = complete.unwrap_or_default();
        for name in fs.list(dir)? {
            let is_kept = name == NAME && !resumed.is_empty()
                || resumed.iter().any(|file| file.file_name == name.as_bytes());
            let is_output = matches!(FileName::parse(&name), Some(FileName::Table(_)));
            if !is_kept && (is_output || name.starts_with(PREFIX)) {
                fs.remove(&dir.join(name))?;
            }
        }
        Ok(Progress {
            fs,
            dir: dir.to_owned(),
            request,
            resumed,
        })
    }

    /// Returns the largest file number of the tables.
    pub(super) fn largest_number(&self) -> Option<FileNumber> {
        self.resumed.iter().filter_map(number_of).max()
    }

    /// Takes the tables of the interrupted compaction, in key order.
    pub(super) fn take_resumed(&mut self) -> Vec<OutputFile> {
        std::mem::take(&mut self.resumed)
    }

    /// Returns a receiver of events that records further tables after `resumed`, and passes the events to `watch`.
    pub(super) fn recorded(self, watch: Arc<Watch>, resumed: Vec<OutputFile>) -> Recorder {
        Recorder {
            progress: self,
            watch,
            files: Mutex::new(resumed),
        }
    }

    /// Writes the progress with `files`.
    fn write(&self, files: Vec<OutputFile>) -> Result<()> {
        let reply = Reply {
            output_files: files,
            ..Reply::default()
        };
        let mut rest = (self.request.len() as u64).to_le_bytes().to_vec();
        rest.extend_from_slice(&self.request);
        rest.extend_from_slice(&reply.encode());
        let mut content = crc32c_extend(0, &rest).to_le_bytes().to_vec();
        content.extend_from_slice(&rest);
        let temporary = self.dir.join(format!("{NAME}.dbtmp"));
        replace(&*self.fs, &temporary, &self.dir.join(NAME), &content)
    }
}

/// Returns the tables in `content`, if it is undamaged and of `request`.
fn decode(content: &[u8], request: &[u8]) -> Option<Vec<OutputFile>> {
    let (crc, rest) = content.split_first_chunk::<4>()?;
    if crc32c_extend(0, rest) != u32::from_le_bytes(*crc) {
        return None;
    }
    let (len, rest) = rest.split_first_chunk::<8>()?;
    let len = usize::try_from(u64::from_le_bytes(*len)).ok()?;
    let (found, reply) = rest.split_at_checked(len)?;
    if found != request {
        return None;
    }
    Some(Reply::decode(reply).ok()?.output_files)
}

fn number_of(file: &OutputFile) -> Option<FileNumber> {
    match FileName::parse(std::str::from_utf8(&file.file_name).ok()?)? {
        FileName::Table(number) => Some(number),
        _ => None,
    }
}

/// Returns the metadata with which the table `file` is opened.
fn meta(file: &OutputFile) -> Option<FileMeta> {
    let smallest = InternalKey::decode(&file.smallest).ok()?;
    let largest = InternalKey::decode(&file.largest).ok()?;
    let mut meta = FileMeta::new(number_of(file)?, file.file_size, smallest, largest);
    meta.unique_id = (file.unique_id != [0, 0]).then_some(file.unique_id);
    Some(meta)
}

/// Returns the part of `range` that comes after `resumed`, the tables of a bytewise ordered compaction.
///
/// Outputs cover their range without gaps, and no user key is in two of them: the rest begins with the end of a range
/// tombstone that was cut, or behind the last user key.
pub(super) fn after(range: KeyRange, resumed: &[OutputFile]) -> KeyRange {
    let last = resumed
        .last()
        .and_then(|file| InternalKey::decode(&file.largest).ok());
    let Some(last) = last else {
        return range;
    };
    let mut lower = last.user_key().to_vec();
    if !bounds::is_sentinel(last.as_bytes()) {
        lower.push(0);
    }
    KeyRange {
        lower: Some(lower),
        ..range
    }
}

/// True if `range` has no keys.
pub(super) fn is_empty(order: &KeyOrder, range: &KeyRange) -> bool {
    match (&range.lower, &range.upper) {
        (Some(lower), Some(upper)) => order.compare(lower, upper).is_ge(),
        _ => false,
    }
}

/// Records the tables of a running compaction.
pub(super) struct Recorder {
    progress: Progress,
    watch: Arc<Watch>,
    files: Mutex<Vec<OutputFile>>,
}

impl JobEvents for Recorder {
    fn within_job(&self, work: &mut dyn FnMut()) {
        self.watch.within_job(work);
    }

    fn table_started(&self, number: FileNumber, path: &Path) {
        self.watch.table_started(number, path);
    }

    fn table_created(&self, path: &Path, file: &FileMeta, properties: &Arc<Properties>) {
        self.watch.table_created(path, file, properties);
        let files = {
            let mut files = self.files.lock();
            files.push(output_file(file, Some(properties)));
            files.clone()
        };
        // Best effort: without it, the table is written again after an interruption.
        self.progress.write(files).ok();
    }

    fn blob_started(&self, number: FileNumber, path: &Path) {
        self.watch.blob_started(number, path);
    }

    fn blob_created(&self, path: &Path, file: &BlobFileMeta) {
        self.watch.blob_created(path, file);
    }

    fn subcompaction_began(&self, part: usize) {
        self.watch.subcompaction_began(part);
    }

    fn subcompaction_completed(&self, part: usize, result: std::result::Result<JobStats, &Error>) {
        self.watch.subcompaction_completed(part, result);
    }
}
