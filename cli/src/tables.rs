//! Opens a table outside of a database.

use std::path::Path;
use std::sync::Arc;

use cairn_format::names::FileName;
use cairn_platform::fs::FileMode;
use cairn_platform::{FileSystem, Io, PosixFileSystem};
use cairn_table::{OpenParams, Table};
use cairn_types::{Code, KeyOrder, Result};

/// Built-in key orders to try.
const ORDERS: [KeyOrder; 4] = [
    KeyOrder::Bytewise,
    KeyOrder::ReverseBytewise,
    KeyOrder::BytewiseU64Ts,
    KeyOrder::ReverseBytewiseU64Ts,
];

/// Opens the table at `path` with its recorded key order, if that is a built-in one.
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
    let mut first_error = None;
    for order in ORDERS {
        let file = PosixFileSystem.open(path, FileMode::default())?;
        let len = file.len()?;
        let params = OpenParams {
            number,
            order,
            ..OpenParams::default()
        };
        match Table::open(file, len, params, io) {
            Ok(table) => return Ok(table),
            // A mismatched order is an invalid argument; other errors are damage.
            Err(error) if error.code() != Code::InvalidArgument => return Err(error),
            Err(error) => first_error = first_error.or(Some(error)),
        }
    }
    Err(first_error.expect("every order was rejected"))
}
