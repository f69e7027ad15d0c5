//! Option strings that mix database and column family options, as accepted by RocksDB's
//! `GetOptionsFromString`.

use cairn_types::Result;

use crate::db::DbOptions;
use crate::family::FamilyOptions;
use crate::row::unknown;
use crate::rows::{Options, split};

/// Sets the options in `text` in `db` or `family`. Returns their names and values as the text has them, in its order.
///
/// # Errors
///
/// `InvalidArgument` for an unknown option or an invalid value; nothing is then changed.
pub fn apply_mixed<'t>(
    db: &mut DbOptions,
    family: &mut FamilyOptions,
    text: &'t str,
) -> Result<Vec<(&'t str, &'t str)>> {
    let (mut new_db, mut new_family) = (db.clone(), family.clone());
    let assignments = split(text)?;
    for (name, value) in &assignments {
        if new_db.knows(name) && !new_family.knows(name) {
            new_db.set(name, value)?;
        } else if new_family.knows(name) {
            new_family.set(name, value)?;
        } else {
            return Err(unknown("DBOptions or ColumnFamilyOptions", name));
        }
    }
    (*db, *family) = (new_db, new_family);
    Ok(assignments)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_assigned_or_nothing_changes() {
        let (mut db, mut family) = (DbOptions::default(), FamilyOptions::default());
        let text = "write_buffer_size=1M;max_open_files=7;soft_rate_limit=0";
        apply_mixed(&mut db, &mut family, text).unwrap();
        assert_eq!((db.max_open_files, family.write_buffer_size), (7, 1 << 20));
        let set = apply_mixed(&mut db, &mut family, " {max_open_files={9}; num_levels=3} ");
        assert_eq!(
            set.unwrap(),
            [("max_open_files", "{9}"), ("num_levels", "3")]
        );
        assert_eq!((db.max_open_files, family.num_levels), (9, 3));
        apply_mixed(&mut db, &mut family, "max_open_files=7").unwrap();
        assert!(apply_mixed(&mut db, &mut family, "max_open_files=8;nosuch=1").is_err());
        assert_eq!(db.max_open_files, 7);
    }

    #[test]
    fn retired_members_of_structs_are_ignored() {
        let (mut db, mut family) = (DbOptions::default(), FamilyOptions::default());
        let text =
            "compaction_options_fifo={ttl=3600;max_table_files_size=9};ttl=5;use_direct_writes=1";
        apply_mixed(&mut db, &mut family, text).unwrap();
        assert_eq!(family.compaction_options_fifo.max_table_files_size, 9);
        assert_eq!(family.ttl, 5);
        assert!(apply_mixed(&mut db, &mut family, "compaction_options_universal={ttl=1}").is_err());
    }
}
