//! Wrappers of files and file systems, which implement only the methods they change.
//!
//! A wrapper implements one of the traits below, and thereby the trait of its target. Most methods are
//! forwarded to the target by default. Methods that open files or read data have no default: a wrapper that
//! changes one way of reading has to change the others, and has to wrap the files it opens.
//!
//! The file traits have no default methods for anything that a file may implement in its own way. A method
//! added to one of them therefore does not compile until it is added to its wrapper here.
//!
//! The traits are implemented by path, `impl wrapper::WritableFileWrapper for ...`: with both traits of a
//! file in scope, calls on the wrapper itself would be ambiguous.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cairn_types::{Result, Veil};

use crate::fs::{Access, FileLock, FileMode, FileSystem, RandomAccessFile, Status, WritableFile};
use crate::read_queue::{FileReads, ReadQueue};

/// Declares a wrapper trait: the methods that are forwarded by default, and those that every wrapper
/// implements.
macro_rules! wrapper {
    (
        $(#[$doc:meta])*
        $wrapper:ident of $target:ident

        passes on {
            $(fn $passed:ident(&self $(, $arg:ident: $type:ty)*) $(-> $result:ty)?;)*
        }
        states {
            $(fn $stated:ident(&self $(, $own_arg:ident: $own_type:ty)*) $(-> $own_result:ty)?;)*
        }
        lacks {
            $(fn $lacking:ident(&$this:ident $(, $its_arg:ident: $its_type:ty)*) -> $its_result:ty $instead:block)*
        }
    ) => {
        $(#[$doc])*
        pub trait $wrapper: Send + Sync {
            #[doc = concat!("The [`", stringify!($target), "`] that is wrapped.")]
            fn target(&self) -> &dyn $target;

            $(
                #[doc = concat!(
                    "[`", stringify!($target), "::", stringify!($stated), "`] of the wrapper."
                )]
                fn $stated(&self $(, $own_arg: $own_type)*) $(-> $own_result)?;
            )*

            $(
                #[doc = concat!(
                    "[`", stringify!($target), "::", stringify!($passed), "`] of the wrapper: \
                     that of the target, unless the wrapper changes it."
                )]
                #[inline]
                fn $passed(&self $(, $arg: $type)*) $(-> $result)? {
                    self.target().$passed($($arg),*)
                }
            )*

            $(
                #[doc = concat!(
                    "[`", stringify!($target), "::", stringify!($lacking), "`] of the wrapper. By default, it does not have \
                     what the target may have."
                )]
                #[inline]
                fn $lacking(&$this $(, $its_arg: $its_type)*) -> $its_result $instead
            )*
        }

        impl<W: $wrapper> $target for W {
            $(
                #[inline]
                fn $stated(&self $(, $own_arg: $own_type)*) $(-> $own_result)? {
                    $wrapper::$stated(self $(, $own_arg)*)
                }
            )*

            $(
                #[inline]
                fn $passed(&self $(, $arg: $type)*) $(-> $result)? {
                    $wrapper::$passed(self $(, $arg)*)
                }
            )*

            $(
                #[inline]
                fn $lacking(&self $(, $its_arg: $its_type)*) -> $its_result {
                    $wrapper::$lacking(self $(, $its_arg)*)
                }
            )*
        }
    };
}

wrapper! {
    /// A file system that forwards calls to another one.
    FileSystemWrapper of FileSystem

    passes on {
        fn list(&self, dir: &Path) -> Result<Vec<String>>;
        fn create_dir_all(&self, dir: &Path) -> Result<()>;
        fn remove_dir(&self, dir: &Path) -> Result<()>;
        fn remove(&self, path: &Path) -> Result<()>;
        fn rename(&self, from: &Path, to: &Path) -> Result<()>;
        fn link(&self, from: &Path, to: &Path) -> Result<()>;
        fn sync_dir(&self, dir: &Path) -> Result<()>;
        fn canonical(&self, path: &Path) -> Result<PathBuf>;
        fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>>;
        fn free_space(&self, path: &Path) -> Result<u64>;
    }
    states {
        fn open(&self, path: &Path, mode: FileMode) -> Result<Arc<dyn RandomAccessFile>>;
        fn create(&self, path: &Path, mode: FileMode) -> Result<Arc<dyn WritableFile>>;
        fn open_append(&self, path: &Path, mode: FileMode) -> Result<Arc<dyn WritableFile>>;
        fn open_overwrite(&self, path: &Path, mode: FileMode) -> Result<Arc<dyn WritableFile>>;
        fn status(&self, path: &Path) -> Result<Status>;
        fn status_each(&self, dir: &Path, names: &[String]) -> Vec<Result<Status>>;
    }
    lacks {
        fn verifies_appends(&self) -> bool { false }
    }
}

wrapper! {
    /// A file that forwards reads to another one.
    RandomAccessFileWrapper of RandomAccessFile

    passes on {
        fn is_blank(&self, offset: u64, len: usize) -> Result<bool>;
        fn len(&self) -> Result<u64>;
        fn path(&self) -> &Path;
        fn prefetch(&self, offset: u64, len: usize) -> bool;
        fn advise(&self, access: Access);
        fn drop_cached(&self);
    }
    states {
        fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize>;
        fn read_up_to_end(&self, offset: u64, buf: &mut [u8]) -> Result<usize>;
        fn start_reads(&self, reads: &mut FileReads, queue: &mut ReadQueue);
        fn finish_reads(&self, reads: &mut FileReads, queue: &mut ReadQueue);
    }
    lacks {}
}

wrapper! {
    /// A file that forwards writes to another one. [`WritableFile::append`] calls `append_veiled` of the
    /// wrapper without veils.
    WritableFileWrapper of WritableFile

    passes on {
        fn append_veiled(&self, data: &[u8], veils: &[Veil]) -> Result<()>;
        fn flush(&self) -> Result<()>;
        fn sync(&self, full: bool) -> Result<()>;
        fn start_writeback(&self, offset: u64, len: u64) -> Result<()>;
        fn allocate(&self, len: u64) -> Result<()>;
        fn truncate(&self, len: u64) -> Result<()>;
        fn len(&self) -> u64;
        fn path(&self) -> &Path;
        fn is_mapped(&self) -> bool;
        fn mapped_bytes(&self) -> usize;
        fn slow_append(&self) -> Option<(u64, u64)>;
        fn close(&self) -> Result<()>;
    }
    states {
        fn successor(&self, path: &Path, mode: FileMode) -> Result<Option<Arc<dyn WritableFile>>>;
    }
    lacks {
        fn append_with_crc32c(&self, data: &[u8], crc32c: u32) -> Result<()> {
            let _ = crc32c;
            self.append_veiled(data, &[])
        }
    }
}
