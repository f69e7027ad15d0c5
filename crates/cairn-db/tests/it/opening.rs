//! Opening over reads that come back short and logs of which nobody knows what is on the disk.

use cairn_options::{DbOptions, FamilyOptions};
use cairn_sim::trace::Call;
use cairn_sim::{DiskImage, Fault, FaultPlan, FaultRule, SimWorld, Trigger};
use cairn_types::{Code, Result};

use super::basic::{db_options, small};
use super::errors::{after_power_cut, failing, get, open_on, synced};

/// A database with three families, whose content lies in the log.
fn three_families() -> Result<(DiskImage, DbOptions)> {
    let options = DbOptions {
        avoid_flush_during_shutdown: true,
        ..db_options()
    };
    let sim = SimWorld::new(3);
    let db = open_on(&sim, &options, &small())?;
    for name in ["stones", "trees"] {
        let family = db.create_family(name, &FamilyOptions::default())?;
        family.put(b"k", name.as_bytes())?;
    }
    db.put_with(b"k", b"default", &synced())?;
    drop(db);
    Ok((sim.fs.image(), options))
}

/// The `number`th read is short, and `lasts` reads from it on.
fn short_reads(number: usize, lasts: usize) -> FaultPlan {
    FaultPlan::new(vec![FaultRule {
        trigger: Trigger::Class {
            call: Call::Read,
            name_end: String::new(),
            count: number,
        },
        fault: Fault::ShortRead,
        lasts,
    }])
}

#[test]
fn a_read_that_comes_back_short_is_read_on() {
    let (image, options) = three_families().unwrap();
    let mut reads = 0;
    loop {
        let sim = SimWorld::on(image.clone(), 4);
        sim.fs.set_plan(short_reads(reads, 1));
        let db = open_on(&sim, &options, &small()).unwrap();
        if sim.fs.injected() == 0 {
            break;
        }
        reads += 1;
        sim.fs.set_plan(FaultPlan::default());
        for name in ["default", "stones", "trees"] {
            let family = db.family(name).expect("every family is there");
            let found = family.get(b"k").unwrap().expect("the log was read whole");
            assert_eq!(&*found, name.as_bytes(), "short read {reads}");
        }
    }
    // CURRENT, the MANIFEST, a log, and IDENTITY at least.
    assert!(reads >= 4, "{reads} reads");
}

#[test]
fn a_file_that_cannot_be_read_to_its_end_is_an_error_and_not_its_end() {
    let (image, options) = three_families().unwrap();
    let mut refused = 0;
    for number in 0.. {
        let sim = SimWorld::on(image.clone(), 5);
        sim.fs.set_plan(short_reads(number, usize::MAX));
        let opened = open_on(&sim, &options, &small());
        if sim.fs.injected() == 0 {
            break;
        }
        let error = opened.err().expect("something was not read");
        assert_eq!(error.code(), Code::IoError, "{error}");
        refused += 1;
        // The disk is as it was.
        sim.fs.set_plan(FaultPlan::default());
        let db = open_on(&sim, &options, &small()).unwrap();
        assert_eq!(db.families().len(), 3);
        assert_eq!(get(&db, b"k"), Some(b"default".to_vec()));
    }
    assert!(refused >= 4, "{refused} openings were refused");
}

/// What a failed sync could not write stays readable and is lost in the power cut, however often
/// the log is synced again.
#[test]
fn logs_that_an_opening_keeps_are_written_anew() {
    for fault in [Fault::InputOutput, Fault::SyncReverted] {
        let options = DbOptions {
            avoid_flush_during_recovery: true,
            avoid_flush_during_shutdown: true,
            track_and_verify_wals_in_manifest: true,
            ..db_options()
        };
        let sim = SimWorld::new(6);
        let db = open_on(&sim, &options, &small()).unwrap();
        db.put_with(b"a", b"1", &synced()).unwrap();
        sim.fs.set_plan(failing(Call::Sync, ".log", fault, 1));
        db.put_with(b"b", b"2", &synced()).unwrap_err();
        sim.fs.set_plan(FaultPlan::default());
        // Closing and opening does not bring back whether the sync went well.
        drop(db);
        let db = open_on(&sim, &options, &small()).unwrap();
        let doubtful = get(&db, b"b");
        db.put_with(b"c", b"3", &synced()).unwrap();
        drop(db);
        let db = open_on(&after_power_cut(&sim), &options, &small()).unwrap();
        assert_eq!(get(&db, b"a"), Some(b"1".to_vec()));
        assert_eq!(get(&db, b"b"), doubtful, "{fault}");
        assert_eq!(get(&db, b"c"), Some(b"3".to_vec()));
    }
}
