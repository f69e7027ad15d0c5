//! Texts that name options of a database and of its families side by side, as RocksDB's
//! `GetOptionsFromString` takes them.

use cairn_types::Result;

use crate::db::DbOptions;
use crate::family::FamilyOptions;
use crate::row::unknown;
use crate::rows::{Options, split};

/// Changes `db` and `family` by `text`, each option where it belongs.
///
/// # Errors
///
/// `InvalidArgument` names what neither knows or cannot have its value; nothing is changed then.
pub fn apply_mixed(db: &mut DbOptions, family: &mut FamilyOptions, text: &str) -> Result<()> {
    let (mut new_db, mut new_family) = (db.clone(), family.clone());
    for (name, value) in split(text)? {
        if new_db.knows(name) && !new_family.knows(name) {
            new_db.set(name, value)?;
        } else if new_family.knows(name) {
            new_family.set(name, value)?;
        } else {
            return Err(unknown("DBOptions or ColumnFamilyOptions", name));
        }
    }
    (*db, *family) = (new_db, new_family);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_find_their_place_or_nothing_changes() {
        let (mut db, mut family) = (DbOptions::default(), FamilyOptions::default());
        let text = "write_buffer_size=1M;max_open_files=7;soft_rate_limit=0";
        apply_mixed(&mut db, &mut family, text).unwrap();
        assert_eq!((db.max_open_files, family.write_buffer_size), (7, 1 << 20));
        assert!(apply_mixed(&mut db, &mut family, "max_open_files=8;nosuch=1").is_err());
        assert_eq!(db.max_open_files, 7);
    }
}
