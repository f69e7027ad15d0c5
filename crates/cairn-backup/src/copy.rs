//! Copies and checksums of whole files.

use std::path::Path;

use cairn_format::checksum::crc32c_extend;
use cairn_observe::logger::Logger;
use cairn_platform::fs::{
    Access, FileMode, missing_dirs, remove_if_there, sync_name, unsynced_name,
};
use cairn_platform::sync::{AtomicBool, Ordering};
use cairn_platform::{
    Clock, FileSystem, IoKind, IoPriority, RandomAccessFile, RateLimiter, WritableFile,
};
use cairn_types::{Error, Result};

use crate::callback::Reporter;

/// The number of bytes read and written at a time, unless `io_buffer_size` is set.
pub(crate) const PIECE: usize = 1 << 20;

/// The content of a file that was copied or read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Content {
    pub(crate) size: u64,
    pub(crate) crc32c: u32,
}

/// Limits of copies, and the observers of their progress.
#[derive(Clone, Copy)]
pub(crate) struct Transfer<'a> {
    pub(crate) limiter: Option<&'a RateLimiter>,
    pub(crate) clock: &'a dyn Clock,
    /// The number of bytes read and written at a time.
    pub(crate) piece: usize,
    /// Set when the transfer is to end.
    pub(crate) stopped: Option<&'a AtomicBool>,
    pub(crate) reporter: Option<&'a Reporter>,
}

impl Transfer<'_> {
    /// # Errors
    ///
    /// `Incomplete` if the transfer is to end.
    pub(crate) fn check(&self) -> Result<()> {
        // Acquire pairs with the store of the thread that stops.
        match self
            .stopped
            .is_some_and(|stopped| stopped.load(Ordering::Acquire))
        {
            true => Err(Error::incomplete("Backup stopped")),
            false => Ok(()),
        }
    }

    fn pass(&self, bytes: usize, kind: IoKind) {
        if let Some(limiter) = self.limiter {
            limiter.request(self.clock, bytes as u64, IoPriority::Low, kind);
        }
    }

    /// Passes the first `limit` bytes of `file` (all of it without a limit) to `take`.
    fn read(
        &self,
        file: &dyn RandomAccessFile,
        limit: Option<u64>,
        mut take: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<Content> {
        file.advise(Access::Sequential);
        let len = file.len()?;
        let end = limit.unwrap_or(len);
        let short = |found: u64| {
            Error::corruption(format!(
                "length of {}: expected at least {end}, found {found}",
                file.path().display()
            ))
        };
        if len < end {
            return Err(short(len));
        }
        let most = self.piece;
        let mut piece = vec![0; most.min(usize::try_from(end).unwrap_or(most)).max(1)];
        let mut content = Content { size: 0, crc32c: 0 };
        while content.size < end {
            self.check()?;
            let left = usize::try_from(end - content.size).unwrap_or(most);
            let want = left.min(piece.len());
            self.pass(want, IoKind::Read);
            let got = file.read_at(content.size, &mut piece[..want])?;
            if got == 0 {
                return Err(short(content.size));
            }
            content.crc32c = crc32c_extend(content.crc32c, &piece[..got]);
            take(&piece[..got])?;
            content.size += got as u64;
        }
        Ok(content)
    }

    /// Reads the first `limit` bytes of the file at `path` (all of it without a limit) for their checksum.
    pub(crate) fn checksum(
        &self,
        fs: &dyn FileSystem,
        path: &Path,
        limit: Option<u64>,
    ) -> Result<Content> {
        let file = fs.open(path, FileMode::default())?;
        self.read(&*file, limit, |_| Ok(()))
    }

    /// Copies the first `limit` bytes of `from` (all of it without a limit) to `to`, replacing a file that an earlier
    /// attempt left. With `sync`, the copy is durable, but its name is not. After an error there is no copy.
    pub(crate) fn copy(
        &self,
        (from_fs, from): (&dyn FileSystem, &Path),
        (to_fs, to): (&dyn FileSystem, &Path),
        limit: Option<u64>,
        sync: bool,
    ) -> Result<Content> {
        let source = from_fs.open(from, FileMode::default())?;
        create_with(to_fs, to, sync, |target| {
            self.read(&*source, limit, |piece| {
                self.pass(piece.len(), IoKind::Write);
                let at = target.len();
                target.append(piece)?;
                if sync {
                    target.start_writeback(at, piece.len() as u64)?;
                }
                let reported = self
                    .reporter
                    .map(|reporter| reporter.advance(piece.len() as u64));
                reported.unwrap_or(Ok(()))
            })
        })
    }

    /// Writes `content` to `to`; see [`Transfer::copy`].
    pub(crate) fn write(
        &self,
        (fs, to): (&dyn FileSystem, &Path),
        content: &[u8],
        sync: bool,
    ) -> Result<Content> {
        self.check()?;
        create_with(fs, to, sync, |target| {
            target.append(content)?;
            Ok(Content {
                size: content.len() as u64,
                crc32c: crc32c_extend(0, content),
            })
        })
    }
}

/// Creates `to` and fills it with `fill`. It is closed, or removed on an error.
fn create_with(
    fs: &dyn FileSystem,
    to: &Path,
    sync: bool,
    fill: impl FnOnce(&dyn WritableFile) -> Result<Content>,
) -> Result<Content> {
    remove_if_there(fs, to)?;
    let target = fs.create(to, FileMode::default())?;
    let done = fill(&*target).and_then(|content| {
        if sync {
            target.sync(false)?;
        }
        target.close()?;
        Ok(content)
    });
    if done.is_err() {
        // The error of the copy is reported; garbage collection removes the remaining file.
        let _ = fs.remove(to);
    }
    done
}

/// Creates a directory and its missing parents. With `sync`, the new names are durable, except those that `info` gets a
/// warning about.
pub(crate) fn create_dir(fs: &dyn FileSystem, dir: &Path, sync: bool, info: &Logger) -> Result<()> {
    let missing = missing_dirs(fs, dir)?;
    fs.create_dir_all(dir)?;
    if sync {
        for new in missing {
            if !sync_name(fs, new)? {
                info.warn(unsynced_name(new));
            }
        }
    }
    Ok(())
}
