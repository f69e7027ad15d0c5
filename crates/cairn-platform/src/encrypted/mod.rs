//! Files that are encrypted where they lie: a file system over another one.
//!
//! ```text
//! file:  prefix (of the provider's length) | the bytes of the file, encrypted
//! ```
//!
//! Every file but the lock begins with a prefix of its own, in which an [`EncryptionProvider`] keeps what
//! it needs to encrypt and decrypt the rest. Names, lengths and times of files stay plain to see. Nothing is
//! authenticated: who can write the files can change what is read, noticed only by the checksums of the
//! format, which are no protection against somebody who means it. The layout is that of RocksDB's
//! `EncryptedFileSystem`, so that with the same provider and cipher each reads the other's files.
//!
//! What lies in a file is decided by its offset. So a file that is written over gets a new prefix and is
//! empty at first; and what is cut off and appended anew is encrypted like what was there before, which
//! tells somebody who saw both how they differ.
//!
//! A disk that lost what nobody synced leaves zeros in a file. They are handed out as zeros, and not as
//! what they decrypt to, because those who read logs tell by them what was lost from what was damaged:
//! eight zeros or more at the end of a sector of ciphertext are a hole. Chance makes one in 2^64 sectors.

mod ctr;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use cairn_types::{Error, Result, Veil};

pub use self::ctr::{BlockCipher, CtrProvider};
use crate::fs::{
    Access, FileMode, FileSystem, PathKind, RandomAccessFile, ReadAt, Status, WritableFile,
    read_up_to_end, status_of_each,
};
use crate::wrapper;

/// Says how files are encrypted; the keys are its own affair.
pub trait EncryptionProvider: Send + Sync {
    /// Bytes of the prefix of every file; the same as long as there are files. A multiple of 4096, so
    /// that direct I/O stays aligned, and pieces that a disk writes at once begin where they did.
    fn prefix_len(&self) -> usize;
    /// The prefix of a new file, of [`EncryptionProvider::prefix_len`] bytes, as it will lie in the file.
    /// Files get other names later, so that it may not depend on the path.
    ///
    /// # Errors
    ///
    /// Whatever keeps it from encrypting; the file is not created.
    fn new_prefix(&self, path: &Path) -> Result<Vec<u8>>;
    /// What encrypts and decrypts the file that begins with `prefix`, which has the right length and
    /// may hold anything.
    ///
    /// # Errors
    ///
    /// What is wrong with the prefix, or keeps it from decrypting; the file is not opened.
    fn stream(&self, path: &Path, prefix: &[u8]) -> Result<Box<dyn CipherStream>>;
}

/// Encrypts and decrypts the bytes of one file, any of them at any time. Offsets are those in the
/// file, so that they begin at the length of the prefix. The length of what is encrypted stays the same.
pub trait CipherStream: Send + Sync {
    /// Encrypts `data`, which will lie at `offset`.
    ///
    /// # Errors
    ///
    /// Whatever keeps it from encrypting; nothing is written.
    fn encrypt(&self, offset: u64, data: &mut [u8]) -> Result<()>;
    /// Decrypts `data`, which lies at `offset`.
    ///
    /// # Errors
    ///
    /// Whatever keeps it from decrypting.
    fn decrypt(&self, offset: u64, data: &mut [u8]) -> Result<()>;
}

/// A file system whose files are encrypted. They are not mapped: logs are written by calls, and
/// `allow_mmap_reads` is refused.
#[derive(Clone)]
pub struct EncryptedFileSystem {
    base: Arc<dyn FileSystem>,
    provider: Arc<dyn EncryptionProvider>,
}

impl std::fmt::Debug for EncryptedFileSystem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EncryptedFileSystem")
            .finish_non_exhaustive()
    }
}

impl EncryptedFileSystem {
    /// The files of `base`, encrypted as `provider` says. All of them are taken to be so.
    #[must_use]
    pub fn new(
        base: Arc<dyn FileSystem>,
        provider: Arc<dyn EncryptionProvider>,
    ) -> EncryptedFileSystem {
        EncryptedFileSystem { base, provider }
    }

    fn prefix_len(&self) -> u64 {
        self.provider.prefix_len() as u64
    }

    /// What decrypts `file`; `None` where it is too short to have a prefix. Such a file never held
    /// anything: a crash came while it was made.
    fn stream_of(&self, file: &dyn RandomAccessFile) -> Result<Option<Box<dyn CipherStream>>> {
        let mut prefix = vec![0; self.provider.prefix_len()];
        if file.read_up_to_end(0, &mut prefix)? < prefix.len() {
            return Ok(None);
        }
        self.provider.stream(file.path(), &prefix).map(Some)
    }

    /// Gives `file`, which is empty, a prefix.
    fn begin(&self, file: Arc<dyn WritableFile>) -> Result<Arc<dyn WritableFile>> {
        let prefix = self.provider.new_prefix(file.path())?;
        if prefix.len() as u64 != self.prefix_len() {
            return Err(Error::invalid_argument(format!(
                "an encryption provider made a prefix of {} bytes where it says {}",
                prefix.len(),
                self.prefix_len()
            )));
        }
        let stream = self.provider.stream(file.path(), &prefix)?;
        file.append(&prefix)?;
        Ok(self.writer(file, stream))
    }

    fn writer(
        &self,
        file: Arc<dyn WritableFile>,
        stream: Box<dyn CipherStream>,
    ) -> Arc<dyn WritableFile> {
        Arc::new(EncryptedWriter {
            file,
            stream,
            prefix: self.prefix_len(),
        })
    }
}

/// `mode` without mappings.
fn by_calls(mode: FileMode) -> FileMode {
    FileMode {
        mapped: false,
        ..mode
    }
}

impl wrapper::FileSystemWrapper for EncryptedFileSystem {
    fn target(&self) -> &dyn FileSystem {
        &*self.base
    }

    fn open(&self, path: &Path, mode: FileMode) -> Result<Arc<dyn RandomAccessFile>> {
        if mode.mapped {
            return Err(Error::invalid_argument(format!(
                "allow_mmap_reads: {} is encrypted, and cannot be read through a mapping",
                path.display()
            )));
        }
        let file = self.base.open(path, mode)?;
        let stream = self.stream_of(&*file)?;
        Ok(Arc::new(EncryptedReader {
            file,
            stream,
            prefix: self.prefix_len(),
        }))
    }

    fn create(&self, path: &Path, mode: FileMode) -> Result<Arc<dyn WritableFile>> {
        let file = self.base.create(path, by_calls(mode))?;
        self.begin(file).inspect_err(|_| {
            // What could not be begun was not created. Should it stay, it is an empty file.
            let _ = self.base.remove(path);
        })
    }

    fn open_append(&self, path: &Path, mode: FileMode) -> Result<Arc<dyn WritableFile>> {
        let file = self.base.open_append(path, by_calls(mode))?;
        let stream = self.stream_of(&*self.base.open(path, FileMode::default())?)?;
        match stream {
            Some(stream) => Ok(self.writer(file, stream)),
            None => {
                file.truncate(0)?;
                self.begin(file)
            }
        }
    }

    fn open_overwrite(&self, path: &Path, mode: FileMode) -> Result<Arc<dyn WritableFile>> {
        let file = self.base.open_append(path, by_calls(mode))?;
        file.truncate(0)?;
        self.begin(file)
    }

    fn status(&self, path: &Path) -> Result<Status> {
        let mut status = self.base.status(path)?;
        if status.kind == PathKind::File {
            status.len = status.len.saturating_sub(self.prefix_len());
        }
        Ok(status)
    }

    fn status_each(&self, dir: &Path, names: &[String]) -> Vec<Result<Status>> {
        status_of_each(self, dir, names)
    }
}

/// What a disk writes at once.
const SECTOR: usize = 512;

/// So many zeros at the end of a sector are a hole. Of fewer nobody can tell; who knows already that
/// something is wrong there asks [`RandomAccessFile::is_blank`].
const SHORTEST_HOLE: usize = 8;

struct EncryptedReader {
    file: Arc<dyn RandomAccessFile>,
    /// `None` of a file that never held anything.
    stream: Option<Box<dyn CipherStream>>,
    prefix: u64,
}

impl EncryptedReader {
    /// Decrypts `data`, which lies at `at` in the file of the base.
    fn decrypt(&self, stream: &dyn CipherStream, at: u64, data: &mut [u8]) -> Result<()> {
        let holes = self.holes(at, data)?;
        stream.decrypt(at, data)?;
        for hole in holes {
            data[hole].fill(0);
        }
        Ok(())
    }

    /// The parts of `data`, ciphertext at `at`, that are holes.
    fn holes(&self, at: u64, data: &[u8]) -> Result<Vec<Range<usize>>> {
        let mut holes = Vec::new();
        let mut from = 0;
        while from < data.len() {
            let in_sector = ((at + from as u64) % SECTOR as u64) as usize;
            let to = data.len().min(from + SECTOR - in_sector);
            if data[to - 1] == 0 {
                let begin = if to - from == SECTOR {
                    hole_in(&data[from..to])
                } else {
                    self.hole_in_sector(at + from as u64 - in_sector as u64)?
                };
                // Where it begins in the part of the sector that was read.
                let begin = begin.map(|begin| from + begin.saturating_sub(in_sector));
                holes.extend(begin.filter(|begin| *begin < to).map(|begin| begin..to));
            }
            from = to;
        }
        Ok(holes)
    }

    /// Where in the sector at `at` of the file its hole begins.
    fn hole_in_sector(&self, at: u64) -> Result<Option<usize>> {
        let mut sector = [0; SECTOR];
        let got = self.file.read_at(at, &mut sector)?;
        Ok(hole_in(&sector[..got]))
    }
}

/// Where the zeros at the end of `sector` begin, if they are a hole.
fn hole_in(sector: &[u8]) -> Option<usize> {
    let zeros = sector.iter().rev().take_while(|byte| **byte == 0).count();
    (zeros >= SHORTEST_HOLE).then(|| sector.len() - zeros)
}

impl RandomAccessFile for EncryptedReader {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let Some(stream) = &self.stream else {
            return Ok(0);
        };
        let at = offset.saturating_add(self.prefix);
        let got = self.file.read_at(at, buf)?;
        self.decrypt(&**stream, at, &mut buf[..got])?;
        Ok(got)
    }

    fn read_up_to_end(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        read_up_to_end(self, offset, buf)
    }

    fn read_many(&self, reads: &mut [ReadAt<'_>]) {
        let Some(stream) = &self.stream else {
            return;
        };
        for read in reads.iter_mut() {
            read.offset = read.offset.saturating_add(self.prefix);
        }
        self.file.read_many(reads);
        for read in reads {
            if let Ok(got) = read.got {
                let decrypted = self.decrypt(&**stream, read.offset, &mut read.buf[..got]);
                read.got = decrypted.map(|()| got);
            }
            read.offset -= self.prefix;
        }
    }

    fn is_blank(&self, offset: u64, len: usize) -> Result<bool> {
        self.file.is_blank(offset.saturating_add(self.prefix), len)
    }

    fn len(&self) -> Result<u64> {
        Ok(self.file.len()?.saturating_sub(self.prefix))
    }

    fn path(&self) -> &Path {
        self.file.path()
    }

    fn prefetch(&self, offset: u64, len: usize) -> bool {
        let at = offset.saturating_add(self.prefix);
        self.file.prefetch(at, len)
    }

    fn advise(&self, access: Access) {
        self.file.advise(access);
    }

    fn drop_cached(&self) {
        self.file.drop_cached();
    }
}

struct EncryptedWriter {
    file: Arc<dyn WritableFile>,
    stream: Box<dyn CipherStream>,
    prefix: u64,
}

impl WritableFile for EncryptedWriter {
    fn append_veiled(&self, data: &[u8], _veils: &[Veil]) -> Result<()> {
        let mut encrypted = data.to_vec();
        self.stream.encrypt(self.file.len(), &mut encrypted)?;
        self.file.append(&encrypted)
    }

    fn flush(&self) -> Result<()> {
        self.file.flush()
    }

    fn sync(&self, full: bool) -> Result<()> {
        self.file.sync(full)
    }

    fn start_writeback(&self, offset: u64, len: u64) -> Result<()> {
        self.file
            .start_writeback(offset.saturating_add(self.prefix), len)
    }

    fn allocate(&self, len: u64) -> Result<()> {
        self.file.allocate(len.saturating_add(self.prefix))
    }

    fn truncate(&self, len: u64) -> Result<()> {
        self.file.truncate(len.saturating_add(self.prefix))
    }

    fn len(&self) -> u64 {
        self.file.len().saturating_sub(self.prefix)
    }

    fn path(&self) -> &Path {
        self.file.path()
    }

    crate::not_mapped!();

    fn close(&self) -> Result<()> {
        self.file.close()
    }
}
