//! Snapshots of a directory: every file with its contents, to detect changes.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The files below a directory: contents and modification time.
pub type Folder = BTreeMap<PathBuf, (Vec<u8>, SystemTime)>;

/// Reads all files below `root`.
///
/// # Panics
///
/// If a file cannot be read.
#[must_use]
pub fn read(root: &Path) -> Folder {
    let mut files = Folder::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("the folder can be listed") {
            let path = entry.expect("the folder can be listed").path();
            let about = fs::symlink_metadata(&path).expect("the file is there");
            if about.is_dir() {
                folders.push(path);
                continue;
            }
            let bytes = fs::read(&path).expect("the file can be read");
            let name = path.strip_prefix(root).expect("it lies below").to_owned();
            files.insert(name, (bytes, about.modified().expect("files have times")));
        }
    }
    files
}

/// Copies `from` to `to`, which is created.
///
/// # Panics
///
/// If a file cannot be copied.
pub fn copy(from: &Path, to: &Path) {
    for (name, (bytes, _)) in read(from) {
        let target = to.join(name);
        fs::create_dir_all(target.parent().expect("it has a parent")).expect("the folder is made");
        fs::write(target, bytes).expect("the file is written");
    }
}

/// Descriptions of the differences between two snapshots.
#[must_use]
pub fn changes(before: &Folder, after: &Folder) -> Vec<String> {
    let mut changes = Vec::new();
    for (name, (bytes, time)) in before {
        match after.get(name) {
            None => changes.push(format!("{} is gone", name.display())),
            Some((now, _)) if now != bytes => changes.push(format!("{} differs", name.display())),
            Some((_, now)) if now != time => {
                changes.push(format!("{} was touched", name.display()))
            }
            Some(_) => {}
        }
    }
    for name in after.keys().filter(|name| !before.contains_key(*name)) {
        changes.push(format!("{} is new", name.display()));
    }
    changes
}
