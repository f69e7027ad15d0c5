//! What wrappers of files and file systems hand on unchanged, once for all of them: a call that is
//! added to a trait reaches what is wrapped by being added here.

/// The calls of a [`FileSystem`](crate::FileSystem) about names, handed on to a field: all but those
/// that open files, `status`, `status_each` and `sync_dir`.
#[macro_export]
macro_rules! forward_names {
    ($field:ident) => {
        fn list(&self, dir: &std::path::Path) -> cairn_types::Result<Vec<String>> {
            self.$field.list(dir)
        }
        fn create_dir_all(&self, dir: &std::path::Path) -> cairn_types::Result<()> {
            self.$field.create_dir_all(dir)
        }
        fn remove_dir(&self, dir: &std::path::Path) -> cairn_types::Result<()> {
            self.$field.remove_dir(dir)
        }
        fn remove(&self, path: &std::path::Path) -> cairn_types::Result<()> {
            self.$field.remove(path)
        }
        fn rename(&self, from: &std::path::Path, to: &std::path::Path) -> cairn_types::Result<()> {
            self.$field.rename(from, to)
        }
        fn link(&self, from: &std::path::Path, to: &std::path::Path) -> cairn_types::Result<()> {
            self.$field.link(from, to)
        }
        fn canonical(&self, path: &std::path::Path) -> cairn_types::Result<std::path::PathBuf> {
            self.$field.canonical(path)
        }
        fn lock(
            &self,
            path: &std::path::Path,
        ) -> cairn_types::Result<Box<dyn $crate::fs::FileLock>> {
            self.$field.lock(path)
        }
        fn free_space(&self, path: &std::path::Path) -> cairn_types::Result<u64> {
            self.$field.free_space(path)
        }
        fn exists(&self, path: &std::path::Path) -> cairn_types::Result<bool> {
            self.$field.exists(path)
        }
    };
}

/// The calls of a [`RandomAccessFile`](crate::RandomAccessFile) that read nothing for the engine, handed
/// on to a field.
#[macro_export]
macro_rules! forward_hints {
    ($field:ident) => {
        fn is_blank(&self, offset: u64, len: usize) -> cairn_types::Result<bool> {
            self.$field.is_blank(offset, len)
        }
        fn len(&self) -> cairn_types::Result<u64> {
            self.$field.len()
        }
        fn path(&self) -> &std::path::Path {
            self.$field.path()
        }
        fn prefetch(&self, offset: u64, len: usize) -> bool {
            self.$field.prefetch(offset, len)
        }
        fn advise(&self, access: $crate::fs::Access) {
            self.$field.advise(access);
        }
        fn drop_cached(&self) {
            self.$field.drop_cached();
        }
    };
}
