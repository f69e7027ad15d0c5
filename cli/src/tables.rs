//! Opens a table outside of a database.

use std::cmp::Ordering;
use std::path::Path;
use std::sync::Arc;

use cairn_format::names::FileName;
use cairn_platform::fs::FileMode;
use cairn_platform::{FileSystem, Io, PosixFileSystem};
use cairn_table::{OpenParams, Table};
use cairn_types::{Comparator, KeyOrder, Result};

/// Stands for a key order that only a program has. It has the name that files record, and compares bytes: enough to read a
/// file from start to end, but not to search it.
struct Unknown(String);

impl Comparator for Unknown {
    fn name(&self) -> &str {
        &self.0
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        a.cmp(b)
    }
}

/// The key order that files call `name`, or one that stands for it.
pub fn order_named(name: &str) -> KeyOrder {
    KeyOrder::from_name(name)
        .unwrap_or_else(|| KeyOrder::Custom(Arc::new(Unknown(name.to_owned()))))
}

/// Opens the table at `path` with the key order that it records.
///
/// # Errors
///
/// Those of [`Table::open`].
pub fn open(path: &Path, io: &Io) -> Result<Arc<Table>> {
    let name = path
        .file_name()
        .map(|name| name.to_string_lossy().into_owned());
    let name = name.as_deref().and_then(FileName::parse);
    let number = name.and_then(FileName::number).unwrap_or_default();
    let file = PosixFileSystem.open(path, FileMode::default())?;
    let len = file.len()?;
    let properties = Table::read_properties(&file, len, io)?;
    let order = match &properties.comparator[..] {
        "" => KeyOrder::default(),
        name => order_named(name),
    };
    let params = OpenParams {
        number,
        order,
        ..OpenParams::default()
    };
    Table::open(file, len, params, io)
}
