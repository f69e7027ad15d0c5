//! Temperatures of tables, recorded in the MANIFEST.

use cairn_db::Db;
use cairn_options::{CompactRangeOptions, FamilyOptions, Options};
use cairn_sim::SimWorld;

use crate::basic::db_options;
use crate::errors::open_on;

const COOL: &str = "10";
const COLD: &str = "12";

fn open(sim: &SimWorld, text: &str) -> Db {
    let family = FamilyOptions::from_text(text).expect("valid options");
    open_on(sim, &db_options(), &family).expect("the database opens")
}

fn has_files_at(db: &Db, temperature: &str) -> bool {
    let name = format!("rocksdb.live-sst-files-size-at-temperature{temperature}");
    db.property(&name).expect("a property") != "0"
}

#[test]
fn new_tables_get_the_temperature_of_their_level() {
    let sim = SimWorld::new(1);
    let text = "num_levels=3;default_write_temperature=kCool;last_level_temperature=kCold";
    let db = open(&sim, text);
    db.put(b"a", b"1").unwrap();
    db.flush().unwrap();
    assert!(has_files_at(&db, COOL) && !has_files_at(&db, COLD));
    // Rewritten, because the tables overlap.
    db.put(b"a", b"2").unwrap();
    db.flush().unwrap();
    db.compact_range(None, None, &CompactRangeOptions::default())
        .unwrap();
    assert!(!has_files_at(&db, COOL) && has_files_at(&db, COLD));
    drop(db);
    // The temperature is that in the MANIFEST, and not of the present options.
    let db = open(&sim, "num_levels=3");
    assert!(!has_files_at(&db, "0") && has_files_at(&db, COLD));
    db.set_options(&[("default_write_temperature", "kCool")])
        .unwrap();
    db.put(b"b", b"1").unwrap();
    db.flush().unwrap();
    assert!(has_files_at(&db, COOL) && has_files_at(&db, COLD));
}
