//! The files of the flash cache: one per segment, named by its number.
//!
//! A file is overwritten in place, from its start, with the next segment. It is opened for reading when it is
//! complete, and readers cannot find it while it is being written. A reader that found it earlier may read a
//! mixture, which fails the checksum of the record.

use std::collections::BTreeMap;
use std::path::PathBuf;

use cairn_format::cache_segment::{FinishedSegment, HEADER_LEN, SegmentHeader, SegmentRow};
use cairn_platform::FileSystem;
use cairn_platform::fs::{FileLock, FileMode, RandomAccessFile};
use cairn_platform::sync::{Arc, RwLock};
use cairn_types::Result;

const PREFIX: &str = "segment-";
const LOCK: &str = "LOCK";

/// The maximum size of one write.
const WRITE_LEN: usize = 1 << 20;

/// Generations above this number occur only in forged files, and are not continued.
const MAX_GENERATION: u64 = u64::MAX / 2;

/// A segment open for reading.
#[derive(Clone)]
pub(super) struct Segment {
    pub(super) file: Arc<dyn RandomAccessFile>,
    pub(super) generation: u64,
}

/// A segment found at a restart.
pub(super) struct FoundSegment {
    pub(super) number: u32,
    pub(super) generation: u64,
    pub(super) rows: Vec<SegmentRow>,
}

/// The directory of a flash cache.
pub(super) struct SegmentFiles {
    fs: Arc<dyn FileSystem>,
    dir: PathBuf,
    mode: FileMode,
    identity: [u8; 16],
    segment_size: usize,
    /// Segments open for reading, by number. The numbers of files that the cache did not write may be any.
    open: RwLock<BTreeMap<u32, Segment>>,
}

impl SegmentFiles {
    /// Opens the directory, which is created if it is missing, and locks it.
    ///
    /// # Errors
    ///
    /// Those of the file system; `IoError` if another cache has the directory open.
    pub(super) fn open(
        fs: Arc<dyn FileSystem>,
        dir: PathBuf,
        direct: bool,
        identity: [u8; 16],
        segment_size: usize,
    ) -> Result<(SegmentFiles, Box<dyn FileLock>)> {
        fs.create_dir_all(&dir)?;
        let lock = fs.lock(&dir.join(LOCK))?;
        let mode = FileMode {
            direct,
            owner_only: true,
            ..FileMode::default()
        };
        let files = SegmentFiles {
            fs,
            dir,
            mode,
            identity,
            segment_size,
            open: RwLock::new(BTreeMap::new()),
        };
        Ok((files, lock))
    }

    fn path(&self, number: u32) -> PathBuf {
        self.dir.join(format!("{PREFIX}{number:06}"))
    }

    /// The numbers of all segment files, in ascending order.
    ///
    /// # Errors
    ///
    /// Those of the file system.
    pub(super) fn list(&self) -> Result<Vec<u32>> {
        let names = self.fs.list(&self.dir)?;
        let number = |name: &String| {
            let number = name.strip_prefix(PREFIX)?.parse().ok()?;
            // Only names that `path` returns belong to the cache.
            (*name == format!("{PREFIX}{number:06}")).then_some(number)
        };
        let mut numbers: Vec<u32> = names.iter().filter_map(number).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// Reads the table of segment `number`, and opens it for reading. Returns `None` if there is no valid
    /// segment of this cache.
    pub(super) fn restore(&self, number: u32) -> Option<FoundSegment> {
        let file = self.fs.open(&self.path(number), self.mode).ok()?;
        let len = file.len().ok()?;
        let mut header = [0; HEADER_LEN];
        if file.read_at(0, &mut header).ok()? != HEADER_LEN {
            return None;
        }
        let header = SegmentHeader::decode(&header, len).ok()?;
        let fits = usize::try_from(header.end).is_ok_and(|end| end <= self.segment_size);
        if header.identity != self.identity || header.generation > MAX_GENERATION || !fits {
            return None;
        }
        // At most the size of a segment.
        let mut table = vec![0; header.table_len()];
        if file.read_at(HEADER_LEN as u64, &mut table).ok()? != table.len() {
            return None;
        }
        let rows = header.decode_table(&table).ok()?;
        let generation = header.generation;
        self.publish(number, Segment { file, generation });
        Some(FoundSegment {
            number,
            generation,
            rows,
        })
    }

    /// Segment `number`, if it is open for reading.
    pub(super) fn segment(&self, number: u32) -> Option<Segment> {
        self.open.read().get(&number).cloned()
    }

    /// Hides segment `number` from readers.
    pub(super) fn hide(&self, number: u32) {
        self.open.write().remove(&number);
    }

    fn publish(&self, number: u32, segment: Segment) {
        self.open.write().insert(number, segment);
    }

    /// Writes segment `number`, which must be hidden from readers, and opens it for reading. `exists` is true
    /// if there is a file to overwrite.
    ///
    /// # Errors
    ///
    /// Those of the file system. The content of the file is then undefined.
    pub(super) fn write(
        &self,
        number: u32,
        exists: bool,
        generation: u64,
        segment: &FinishedSegment,
    ) -> Result<()> {
        let path = self.path(number);
        let file = match exists {
            true => self.fs.open_overwrite(&path, self.mode)?,
            false => self.fs.create(&path, self.mode)?,
        };
        file.allocate(self.segment_size as u64)?;
        file.append(&segment.head)?;
        for piece in segment.records.chunks(WRITE_LEN) {
            file.append(piece)?;
        }
        file.close()?;
        let file = self.fs.open(&path, self.mode)?;
        self.publish(number, Segment { file, generation });
        Ok(())
    }

    /// Deletes segment `number`.
    ///
    /// # Errors
    ///
    /// Those of the file system.
    pub(super) fn remove(&self, number: u32) -> Result<()> {
        self.hide(number);
        self.fs.remove(&self.path(number))
    }

    /// Closes all segments.
    pub(super) fn close(&self) {
        self.open.write().clear();
    }
}
