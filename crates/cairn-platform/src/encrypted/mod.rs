//! Encryption at rest: a file system layered on another one.
//!
//! ```text
//! file:  prefix (of the provider's length) | encrypted content
//! ```
//!
//! Every file except the lock file starts with a prefix, in which an [`EncryptionProvider`] stores what it
//! needs to encrypt and decrypt the content. Names, lengths and modification times are not encrypted. There
//! is no authentication: tampering is detected by the checksums of the file formats at most, which do not
//! protect against an attacker. The format is that of RocksDB's `EncryptedFileSystem`: with the same provider
//! and cipher, each can read the files of the other.
//!
//! The encryption of a byte depends on its offset. A file opened for overwriting is therefore truncated and
//! gets a new prefix. Data appended after a truncation is encrypted like the data that was there before, so
//! an observer of both can tell their difference.
//!
//! A disk that lost unsynced data returns zeros. These are returned as zeros rather than decrypted, because
//! log readers use them to distinguish lost from damaged data. Eight or more zeros at the end of a sector of
//! ciphertext are considered a hole, which occurs by chance in one of 2^64 sectors.

mod ctr;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use cairn_types::{Error, Result, Veil};

pub use self::ctr::{BlockCipher, CtrProvider};
use crate::fs::{
    Access, FileMode, FileSystem, PathKind, RandomAccessFile, Status, WritableFile, read_up_to_end,
    status_of_each,
};
use crate::read_queue::{FileReads, ReadQueue};
use crate::wrapper;

/// Determines the encryption of files and manages the keys.
pub trait EncryptionProvider: Send + Sync {
    /// The constant length of the prefix of each file. A multiple of 4096, to preserve the alignment of
    /// direct I/O and the boundaries of atomic disk writes.
    fn prefix_len(&self) -> usize;
    /// Creates the prefix of a new file, of [`EncryptionProvider::prefix_len`] bytes, as stored in the file.
    /// Must not depend on the path, as files may be renamed.
    ///
    /// # Errors
    ///
    /// An error prevents creation of the file.
    fn new_prefix(&self, path: &Path) -> Result<Vec<u8>>;
    /// Returns the cipher of the file with this `prefix`, which has the right length but arbitrary content.
    ///
    /// # Errors
    ///
    /// An error prevents opening of the file.
    fn stream(&self, path: &Path, prefix: &[u8]) -> Result<Box<dyn CipherStream>>;
}

/// Encrypts and decrypts ranges of one file in any order. Offsets include the prefix. The ciphertext has the
/// length of the plaintext.
pub trait CipherStream: Send + Sync {
    /// Encrypts `data`, to be stored at `offset`.
    ///
    /// # Errors
    ///
    /// An error prevents the write.
    fn encrypt(&self, offset: u64, data: &mut [u8]) -> Result<()>;
    /// Decrypts `data`, stored at `offset`.
    ///
    /// # Errors
    ///
    /// An error fails the read.
    fn decrypt(&self, offset: u64, data: &mut [u8]) -> Result<()>;
}

/// A file system with encrypted files. Files are not memory-mapped: WALs are written by system calls, and
/// `allow_mmap_reads` is rejected.
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
    /// Wraps `base`, all of whose files must be encrypted by `provider`.
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

    /// Writes a prefix to `file`, which is empty.
    fn begin(&self, file: Arc<dyn WritableFile>) -> Result<Arc<dyn WritableFile>> {
        let prefix = self.provider.new_prefix(file.path())?;
        if prefix.len() as u64 != self.prefix_len() {
            return Err(Error::invalid_argument(format!(
                "an encryption provider returned a prefix of {} bytes instead of {}",
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

/// The cipher of `file`; `None` if the file is too short to have a prefix because its creation was interrupted by a
/// crash.
fn stream_of(
    provider: &dyn EncryptionProvider,
    file: &dyn RandomAccessFile,
) -> Result<Option<Box<dyn CipherStream>>> {
    let mut prefix = vec![0; provider.prefix_len()];
    if file.read_up_to_end(0, &mut prefix)? < prefix.len() {
        return Ok(None);
    }
    provider.stream(file.path(), &prefix).map(Some)
}

/// Clears the mapping flags of `mode`.
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
        let stream = match stream_of(&*self.provider, &*file)? {
            Some(stream) => OnceLock::from(stream),
            None => OnceLock::new(),
        };
        Ok(Arc::new(EncryptedReader {
            file,
            stream,
            provider: self.provider.clone(),
            prefix: self.prefix_len(),
        }))
    }

    fn create(&self, path: &Path, mode: FileMode) -> Result<Arc<dyn WritableFile>> {
        let file = self.base.create(path, by_calls(mode))?;
        self.begin(file).inspect_err(|_| {
            // The file was not created. If the removal fails, an empty file remains.
            let _ = self.base.remove(path);
        })
    }

    fn open_append(&self, path: &Path, mode: FileMode) -> Result<Arc<dyn WritableFile>> {
        let file = self.base.open_append(path, by_calls(mode))?;
        let written = self.base.open(path, FileMode::default())?;
        let stream = stream_of(&*self.provider, &*written)?;
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

/// The size of an atomic disk write.
const SECTOR: usize = 512;

/// The minimum length of a hole, in zeros at the end of a sector. Shorter runs are ambiguous; see
/// [`RandomAccessFile::is_blank`].
const SHORTEST_HOLE: usize = 8;

struct EncryptedReader {
    file: Arc<dyn RandomAccessFile>,
    /// Unset while the file is empty and has no prefix, which its writer may be about to append.
    stream: OnceLock<Box<dyn CipherStream>>,
    provider: Arc<dyn EncryptionProvider>,
    prefix: u64,
}

impl EncryptedReader {
    /// The cipher, if the file has a prefix by now.
    fn stream(&self) -> Result<Option<&dyn CipherStream>> {
        if self.stream.get().is_none()
            && let Some(stream) = stream_of(&*self.provider, &*self.file)?
        {
            // Another thread may have read the same prefix.
            let _ = self.stream.set(stream);
        }
        Ok(self.stream.get().map(|stream| &**stream))
    }

    /// Decrypts `data`, located at `at` in the base file.
    fn decrypt(&self, stream: &dyn CipherStream, at: u64, data: &mut [u8]) -> Result<()> {
        let holes = self.holes(at, data)?;
        stream.decrypt(at, data)?;
        for hole in holes {
            data[hole].fill(0);
        }
        Ok(())
    }

    /// The ranges of `data`, ciphertext at `at`, that are holes.
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
                // The start of the hole within the part of the sector that was read.
                let begin = begin.map(|begin| from + begin.saturating_sub(in_sector));
                holes.extend(begin.filter(|begin| *begin < to).map(|begin| begin..to));
            }
            from = to;
        }
        Ok(holes)
    }

    /// The start of the hole in the sector at `at` of the file.
    fn hole_in_sector(&self, at: u64) -> Result<Option<usize>> {
        let mut sector = [0; SECTOR];
        let got = self.file.read_at(at, &mut sector)?;
        Ok(hole_in(&sector[..got]))
    }
}

/// The start of the zeros at the end of `sector`, if they form a hole.
fn hole_in(sector: &[u8]) -> Option<usize> {
    let zeros = sector.iter().rev().take_while(|byte| **byte == 0).count();
    (zeros >= SHORTEST_HOLE).then(|| sector.len() - zeros)
}

impl RandomAccessFile for EncryptedReader {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let Some(stream) = self.stream()? else {
            return Ok(0);
        };
        let at = offset.saturating_add(self.prefix);
        let got = self.file.read_at(at, buf)?;
        self.decrypt(stream, at, &mut buf[..got])?;
        Ok(got)
    }

    fn read_up_to_end(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        read_up_to_end(self, offset, buf)
    }

    fn start_reads(&self, reads: &mut FileReads, queue: &mut ReadQueue) {
        let has_prefix = match self.stream() {
            Ok(stream) => stream.is_some(),
            Err(error) => {
                reads.fail_all(&error);
                false
            }
        };
        if has_prefix {
            for read in &mut reads.reads {
                read.offset = read.offset.saturating_add(self.prefix);
            }
            self.file.start_reads(reads, queue);
        }
        // The prefix may be appended before the reads end.
        reads.note(u64::from(has_prefix));
    }

    fn finish_reads(&self, reads: &mut FileReads, queue: &mut ReadQueue) {
        let started = reads.take_note() != 0;
        let Some(stream) = self.stream.get().filter(|_| started) else {
            return;
        };
        self.file.finish_reads(reads, queue);
        for read in &mut reads.reads {
            let at = read.offset;
            if let Err(error) = self.decrypt(&**stream, at, read.bytes_mut()) {
                read.fail(error);
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
