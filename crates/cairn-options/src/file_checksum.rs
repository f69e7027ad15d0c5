//! Checksums of whole files, which the MANIFEST records together with the name of their function.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use cairn_format::checksum::crc32c_extend;
use cairn_types::{Error, Result};

use crate::text::{NULL, Named, Refusal, Text};

/// The function of [`FileChecksum::Crc32c`] in the MANIFEST.
pub const CRC32C_FUNCTION: &str = "FileChecksumCrc32c";

/// The name of the factory of [`FileChecksum::Crc32c`].
const CRC32C_FACTORY: &str = "FileChecksumGenCrc32cFactory";

/// The checksum of a whole file, and the name of its function.
pub type NamedChecksum = (Vec<u8>, String);

/// The file for which a [`FileChecksumGenerator`] is created.
#[derive(Clone, Copy, Debug)]
pub struct FileChecksumContext<'a> {
    /// Its path.
    pub path: &'a Path,
    /// The function of its recorded checksum; `None` for a new file.
    pub requested_function: Option<&'a str>,
}

/// Computes the checksum of one file.
pub trait FileChecksumGenerator: Send {
    /// The name of the function, which the MANIFEST records. It must not be empty, and should change when the function
    /// does.
    fn name(&self) -> &str;

    /// Adds the next bytes of the file.
    fn update(&mut self, bytes: &[u8]);

    /// Returns the checksum of all bytes, which must not be empty.
    fn finish(self: Box<Self>) -> Vec<u8>;
}

/// Creates generators of checksums of whole files (RocksDB's `FileChecksumGenFactory`).
pub trait FileChecksumGenFactory: Send + Sync {
    /// The name of the factory.
    fn name(&self) -> &str;

    /// Creates the generator for a file. `None` if the requested function is unknown, or if a new file gets no checksum.
    fn create(&self, context: &FileChecksumContext<'_>) -> Option<Box<dyn FileChecksumGenerator>>;
}

/// Whole-file checksums in the MANIFEST.
#[derive(Clone)]
#[non_exhaustive]
pub enum FileChecksum {
    /// CRC-32C, big-endian.
    Crc32c,
    /// Checksums of the program. The factory is set in code: OPTIONS files do not have it.
    Custom(Arc<dyn FileChecksumGenFactory>),
}

impl FileChecksum {
    /// The name of the factory.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            FileChecksum::Crc32c => CRC32C_FACTORY,
            FileChecksum::Custom(factory) => factory.name(),
        }
    }

    /// Starts the checksum of the new file `path`.
    #[must_use]
    pub fn start(&self, path: &Path) -> RunningChecksum {
        match self {
            FileChecksum::Crc32c => RunningChecksum::Crc32c(0),
            FileChecksum::Custom(factory) => {
                let context = FileChecksumContext {
                    path,
                    requested_function: None,
                };
                match factory.create(&context) {
                    Some(generator) => RunningChecksum::Custom(generator),
                    None => RunningChecksum::Off,
                }
            }
        }
    }

    /// Starts the checksum of `path` by the function `requested`.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if the factory has no such function.
    pub fn start_requested(&self, path: &Path, requested: &str) -> Result<RunningChecksum> {
        let created = match self {
            FileChecksum::Crc32c => RunningChecksum::Crc32c(0),
            FileChecksum::Custom(factory) => {
                let context = FileChecksumContext {
                    path,
                    requested_function: Some(requested),
                };
                let generator = factory.create(&context);
                generator.map_or(RunningChecksum::Off, RunningChecksum::Custom)
            }
        };
        match created.function() {
            Some(function) if function == requested => Ok(created),
            found => Err(Error::invalid_argument(format!(
                "checksum function of {}: expected {requested}, found {} of {}",
                path.display(),
                found.unwrap_or("none"),
                self.name()
            ))),
        }
    }
}

/// The checksum of a file that is being read or written.
#[derive(Default)]
pub enum RunningChecksum {
    /// None is computed.
    #[default]
    Off,
    /// The CRC-32C so far.
    Crc32c(u32),
    /// A generator of the program.
    Custom(Box<dyn FileChecksumGenerator>),
}

impl RunningChecksum {
    /// The name of the function; `None` if no checksum is computed.
    #[must_use]
    pub fn function(&self) -> Option<&str> {
        match self {
            RunningChecksum::Off => None,
            RunningChecksum::Crc32c(_) => Some(CRC32C_FUNCTION),
            RunningChecksum::Custom(generator) => Some(generator.name()),
        }
    }

    /// Adds the next bytes of the file.
    pub fn update(&mut self, bytes: &[u8]) {
        match self {
            RunningChecksum::Off => {}
            RunningChecksum::Crc32c(crc) => *crc = crc32c_extend(*crc, bytes),
            RunningChecksum::Custom(generator) => generator.update(bytes),
        }
    }

    /// Returns the checksum and the name of its function; `None` if none was computed.
    #[must_use]
    pub fn finish(self) -> Option<NamedChecksum> {
        let function = self.function()?.to_owned();
        match self {
            RunningChecksum::Off => None,
            RunningChecksum::Crc32c(crc) => Some((crc.to_be_bytes().to_vec(), function)),
            RunningChecksum::Custom(generator) => Some((generator.finish(), function)),
        }
    }
}

/// A type of files whose appends have checksums for the file system, with RocksDB's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum HandoffFileType {
    /// Write-ahead logs.
    Wal = 0,
    /// Tables.
    Table = 2,
    /// MANIFESTs.
    Manifest = 3,
    /// Blob files.
    Blob = 10,
}

/// The types of files whose appends have checksums for the file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HandoffFileTypes(u32);

impl HandoffFileTypes {
    /// Adds a type.
    #[must_use]
    pub fn with(self, file_type: HandoffFileType) -> HandoffFileTypes {
        HandoffFileTypes(self.0 | 1 << file_type as u32)
    }

    /// True if `file_type` was added.
    #[must_use]
    pub fn contains(self, file_type: HandoffFileType) -> bool {
        self.0 & 1 << file_type as u32 != 0
    }

    /// True if there are none.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl fmt::Debug for FileChecksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl PartialEq for FileChecksum {
    fn eq(&self, other: &FileChecksum) -> bool {
        match (self, other) {
            (FileChecksum::Crc32c, FileChecksum::Crc32c) => true,
            (FileChecksum::Custom(a), FileChecksum::Custom(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }
}

impl Text for FileChecksum {
    fn parse(text: &str) -> Result<FileChecksum, Refusal> {
        match text {
            CRC32C_FACTORY => Ok(FileChecksum::Crc32c),
            _ => Err(format!(
                "expected {CRC32C_FACTORY}; other factories of checksums are set in code"
            )),
        }
    }

    fn print(&self) -> String {
        match self {
            FileChecksum::Crc32c => CRC32C_FACTORY.to_owned(),
            FileChecksum::Custom(_) => NULL.to_owned(),
        }
    }
}

impl Named for FileChecksum {}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of bytes, under two names.
    struct Lengths;

    struct Length(String, u64);

    impl FileChecksumGenerator for Length {
        fn name(&self) -> &str {
            &self.0
        }

        fn update(&mut self, bytes: &[u8]) {
            self.1 += bytes.len() as u64;
        }

        fn finish(self: Box<Self>) -> Vec<u8> {
            self.1.to_le_bytes().to_vec()
        }
    }

    impl FileChecksumGenFactory for Lengths {
        fn name(&self) -> &str {
            "Lengths"
        }

        fn create(
            &self,
            context: &FileChecksumContext<'_>,
        ) -> Option<Box<dyn FileChecksumGenerator>> {
            let name = context.requested_function.unwrap_or("length 2");
            let known = ["length 1", "length 2"].contains(&name) && !context.path.ends_with("none");
            known.then(|| Box::new(Length(name.to_owned(), 0)) as Box<dyn FileChecksumGenerator>)
        }
    }

    #[test]
    fn a_factory_chooses_the_function() {
        let custom = FileChecksum::Custom(Arc::new(Lengths));
        let mut running = custom.start("a".as_ref());
        running.update(b"12");
        running.update(b"3");
        let expected = (3_u64.to_le_bytes().to_vec(), "length 2".to_owned());
        assert_eq!(running.finish(), Some(expected));
        assert_eq!(custom.start("none".as_ref()).finish(), None);
        let older = custom.start_requested("a".as_ref(), "length 1").unwrap();
        assert_eq!(older.function(), Some("length 1"));
        for checksum in [custom, FileChecksum::Crc32c] {
            let refused = checksum.start_requested("a".as_ref(), "length 3").err();
            let text = refused.unwrap().to_string();
            assert!(text.contains("expected length 3"), "{text}");
        }
        let crc = FileChecksum::Crc32c.start_requested("a".as_ref(), CRC32C_FUNCTION);
        let mut crc = crc.unwrap();
        crc.update(b"123456789");
        assert_eq!(crc.finish().unwrap().0, 0xe306_9283_u32.to_be_bytes());
    }
}
