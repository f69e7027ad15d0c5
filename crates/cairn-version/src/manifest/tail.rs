//! Follows the MANIFEST of a database that another process writes.
//!
//! A [`Tail`] reads the edits that were appended since it was last advanced. An incomplete record at the end and an
//! incomplete atomic group are held back until their rest is there. When CURRENT names another MANIFEST, the new one is
//! read from its beginning: it starts with a snapshot of the whole state. Files that are in both keep their metadata,
//! and with it their open tables.
//!
//! A backup that is restored in the place of the database brings back an older MANIFEST, and the database may then grow
//! another one of the same number. The last bytes that were read are therefore read again before reading continues
//! after them: they belong to records, which do not change. If they are others, the MANIFEST counts as another one.
//!
//! The record of a clean end is read again each time, because an opening that continues the MANIFEST replaces it.

use std::path::{Path, PathBuf};

use cairn_format::names::FileName;
use cairn_platform::fs::FileMode;
use cairn_platform::sync::Arc;
use cairn_platform::{FileSystem, RandomAccessFile};
use cairn_types::{FileNumber, KeyOrder, Result, Subcode};

use super::replay::{CleanEnd, Recovered, Replay, read_from};
use super::{current, damaged, no_database};

/// The number of attempts to open the MANIFEST that CURRENT names.
const TRIES: u32 = 10;

/// The number of bytes before the position that identify the MANIFEST or a log: enough for the records of several flushes,
/// which contain the unique ids of their tables.
const IDENTIFYING: u64 = 4096;

/// The position in the MANIFEST of another process, and the state up to it.
pub struct Tail {
    fs: Arc<dyn FileSystem>,
    dir: PathBuf,
    replay: Replay,
    number: FileNumber,
    /// The offset at which reading continues.
    at: u64,
    /// The last bytes before `at`, at most [`IDENTIFYING`].
    before: Vec<u8>,
}

/// The news of one [`Tail::advance`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// No edit was appended.
    None,
    /// Edits were appended.
    Edits,
    /// CURRENT names another MANIFEST: the database was opened again, or the MANIFEST became too large.
    Replaced,
}

impl Tail {
    /// Reads the MANIFEST of the database in `dir`.
    ///
    /// # Errors
    ///
    /// [`no_database`]; `Corruption` with file and offset; `IoError`.
    pub fn open(fs: Arc<dyn FileSystem>, dir: &Path) -> Result<Tail> {
        let mut tail = Tail {
            fs,
            dir: dir.to_owned(),
            replay: Replay::new(FileNumber(0)),
            number: FileNumber(0),
            at: 0,
            before: Vec::new(),
        };
        tail.advance()?;
        Ok(tail)
    }

    /// Reads what was appended since the last call.
    ///
    /// # Errors
    ///
    /// Those of [`Tail::open`]. The next call then reads the MANIFEST from its beginning.
    pub fn advance(&mut self) -> Result<News> {
        let mut tries = 0;
        loop {
            let Some(number) = current(&*self.fs, &self.dir)? else {
                return Err(no_database(&self.dir));
            };
            tries += 1;
            match self.read(number) {
                // Replaced after CURRENT was read.
                Err(error) if error.subcode() == Subcode::PathNotFound && tries < TRIES => {}
                news => return news,
            }
        }
    }

    /// Reads MANIFEST `number`, which CURRENT names.
    fn read(&mut self, number: FileNumber) -> Result<News> {
        let path = self.dir.join(FileName::Manifest(number).to_string());
        // Opened first: after an error the position is unchanged.
        let file = self.fs.open(&path, FileMode::default())?;
        let is_new = number != self.number || bytes_before(&*file, self.at)? != self.before;
        if is_new {
            self.begin(number);
        }
        let begun = self.at;
        let replay = &mut self.replay;
        let read = read_from(&*file, &path, begun, &mut |edit, offset| {
            replay.ending = CleanEnd::of(&edit, offset);
            match replay.ending {
                Some(_) => Ok(()),
                None => replay.take(edit),
            }
        });
        let read = read.and_then(|end| {
            let at = replay.ending.map_or(end, |clean| clean.offset);
            if at != begun {
                self.before = bytes_before(&*file, at)?;
            }
            Ok(at)
        });
        // Some edits may have been applied.
        self.at = read.inspect_err(|_| self.begin(FileNumber(0)))?;
        self.replay.known.clear();
        Ok(match (is_new, self.at == begun) {
            (true, _) => News::Replaced,
            (false, true) => News::None,
            (false, false) => News::Edits,
        })
    }

    /// Returns the state up to the last whole edit. `order` returns the key order of a family by the names of the
    /// family and of its comparator; families without one are left out.
    ///
    /// # Errors
    ///
    /// `Corruption` of contradictory edits; errors of `order`. The next [`Tail::advance`] then reads
    /// the MANIFEST from its beginning.
    pub fn state(
        &mut self,
        order: &dyn Fn(&str, &str) -> Result<Option<KeyOrder>>,
    ) -> Result<Recovered> {
        let path = self.dir.join(FileName::Manifest(self.number).to_string());
        let at = self.at;
        let state = self.replay.state(order, at);
        state.map_err(|error| {
            self.begin(FileNumber(0));
            match error.is_corruption() {
                true => damaged(&path, at, error.text()),
                false => error,
            }
        })
    }

    /// Moves to the beginning of MANIFEST `number`; with 0, the next [`Tail::advance`] begins the current one.
    fn begin(&mut self, number: FileNumber) {
        let before = std::mem::replace(&mut self.replay, Replay::new(number));
        self.replay.known = before.known.clone();
        self.replay.known.extend(before.into_files());
        (self.number, self.at) = (number, 0);
        self.before.clear();
    }

    /// The first log that recovery needs.
    #[must_use]
    pub fn first_log(&self) -> FileNumber {
        self.replay.first_log()
    }

    /// The number of the MANIFEST, and the offset up to which it was read.
    #[must_use]
    pub fn position(&self) -> (FileNumber, u64) {
        (self.number, self.at)
    }
}

/// Returns the last bytes of `file` before `at`, at most 4 KiB, which identify a file that is only appended to; fewer if
/// the file ends before.
///
/// # Errors
///
/// Those of the file.
pub fn bytes_before(file: &dyn RandomAccessFile, at: u64) -> Result<Vec<u8>> {
    let len = at.min(IDENTIFYING);
    let mut bytes = vec![0; len as usize];
    let got = file.read_up_to_end(at - len, &mut bytes)?;
    bytes.truncate(got);
    Ok(bytes)
}
