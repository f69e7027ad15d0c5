//! Followers on another file system than their leader's: tables are copied, not linked.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cairn_format::names::FileName;
use cairn_platform::{FileSystem, World};
use cairn_sim::{Call, Fault, FaultPlan, FaultRule, SimWorld, Trigger};
use cairn_types::Result;

use crate::watched::{Hook, Watched};
use crate::{SECONDARY, Saved, content, open_follower, open_primary, process, write_and_close};

/// A failure of the `count`th `call` on files with this end of their names, and of all later ones.
fn failing(call: Call, name_end: &str, count: usize) -> FaultRule {
    FaultRule {
        trigger: Trigger::Class {
            call,
            name_end: name_end.to_owned(),
            count,
        },
        fault: Fault::InputOutput,
        lasts: usize::MAX,
    }
}

/// Sets a plan by which no file can be linked, with further rules.
fn forbid_links(sim: &SimWorld, rules: &[FaultRule]) {
    let mut all = vec![failing(Call::Link, "", 0)];
    all.extend_from_slice(rules);
    sim.fs.set_plan(FaultPlan::new(all));
}

/// Returns the names of the temporary files of the follower.
fn temporaries(sim: &SimWorld) -> Vec<String> {
    let mut names = sim.fs.list(SECONDARY.as_ref()).unwrap();
    names.retain(|name| name.ends_with(".dbtmp"));
    names
}

fn leader(sim: &SimWorld) -> Result<cairn_db::Db> {
    let leader = open_primary(&sim.world, "")?;
    for key in [b"a", b"b"] {
        leader.put(key, &[7; 1000])?;
        leader.flush()?;
    }
    Ok(leader)
}

#[test]
fn a_follower_opens_after_one_that_was_killed_while_it_copied_a_table() {
    for call in [Call::Append, Call::Sync, Call::Close, Call::Rename] {
        for is_removed in [true, false] {
            let sim = SimWorld::new(1);
            let leader = leader(&sim).unwrap();
            // A process that is killed removes nothing.
            let mut rules = vec![failing(call, ".dbtmp", 0)];
            if !is_removed {
                rules.push(failing(Call::Remove, ".dbtmp", 1));
            }
            forbid_links(&sim, &rules);
            let world = process(&sim, 2);
            open_follower(&world, "").err().unwrap();
            assert_eq!(temporaries(&sim).is_empty(), is_removed, "{call:?}");
            forbid_links(&sim, &[]);
            let db = open_follower(&process(&sim, 3), "").unwrap();
            assert_eq!(content(&db).unwrap(), content(&leader).unwrap());
            assert!(temporaries(&sim).is_empty());
        }
    }
}

/// Regression: a copy that was shorter than the table got its name.
#[test]
fn a_table_that_becomes_shorter_while_it_is_copied_is_not_kept() {
    let sim = SimWorld::new(1);
    let leader = leader(&sim).unwrap();
    let short_reads = FaultRule {
        fault: Fault::ShortRead,
        ..failing(Call::Read, ".sst", 0)
    };
    forbid_links(&sim, &[short_reads]);
    let failed = open_follower(&process(&sim, 2), "").and_then(|db| content(&db));
    failed.unwrap_err();
    forbid_links(&sim, &[]);
    let db = open_follower(&process(&sim, 3), "").unwrap();
    assert_eq!(content(&db).unwrap(), content(&leader).unwrap());
}

#[test]
fn a_table_is_copied_again_after_a_failure() {
    let sim = SimWorld::new(1);
    let leader = leader(&sim).unwrap();
    forbid_links(&sim, &[]);
    let db = open_follower(&process(&sim, 2), "").unwrap();
    leader.put(b"c", b"3").unwrap();
    leader.flush().unwrap();
    let rules = [
        failing(Call::Append, ".dbtmp", 0),
        failing(Call::Remove, ".dbtmp", 1),
    ];
    forbid_links(&sim, &rules);
    db.try_catch_up_with_primary().unwrap_err();
    assert_eq!(temporaries(&sim).len(), 1);
    forbid_links(&sim, &[]);
    db.try_catch_up_with_primary().unwrap();
    assert_eq!(content(&db).unwrap(), content(&leader).unwrap());
}

/// With few open files, tables are opened, and copied, when they are first read.
#[test]
fn readers_that_open_a_table_at_the_same_time_share_its_copy() {
    for links in [false, true] {
        let sim = SimWorld::new(1);
        let leader = leader(&sim).unwrap();
        if !links {
            forbid_links(&sim, &[]);
        }
        let slow: Hook = Arc::new(|| {
            World::posix().clock.sleep(Duration::from_millis(10));
            Ok(())
        });
        let world = process(&sim, 2);
        let world = World {
            fs: Arc::new(Watched {
                inner: world.fs.clone(),
                hook: slow,
                reads: false,
            }),
            ..world
        };
        let db = open_follower(&world, "max_open_files=20;max_file_opening_threads=1").unwrap();
        let expected = content(&leader).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| assert_eq!(content(&db).unwrap(), expected));
            }
        });
        assert!(temporaries(&sim).is_empty());
    }
}

/// Regression: a table that a restored leader wrote under the number of another one is copied, also by a follower that
/// is opened afterwards.
#[test]
fn a_table_is_copied_again_after_its_leader_was_restored() {
    for (reopens, len) in [(false, 1000), (true, 1000), (false, 3000), (true, 3000)] {
        // Its files have times.
        let world = World::in_memory();
        let open = || open_primary(&world, "disable_auto_compactions=true").unwrap();
        write_and_close(open(), &[1; 1000]);
        let saved = Saved::of_primary(&*world.fs);
        write_and_close(open(), &[2; 1000]);
        let follower = || open_follower(&world, "follower_refresh_catchup_period_ms=1000000");
        let mut db = follower().unwrap();
        let value = |db: &cairn_db::Db| db.get(b"a").unwrap().unwrap()[0];
        assert_eq!(value(&db), 2);
        if reopens {
            db.close().unwrap();
        }
        saved.restore(&*world.fs);
        let leader = open();
        leader.put(b"a", &vec![3; len]).unwrap();
        leader.flush().unwrap();
        leader.put(b"b", &vec![3; len]).unwrap();
        leader.flush().unwrap();
        match reopens {
            true => db = follower().unwrap(),
            false => db.try_catch_up_with_primary().unwrap(),
        }
        assert_eq!(value(&db), 3);
        assert_eq!(content(&db).unwrap(), content(&leader).unwrap());
        db.close().unwrap();
    }
}

/// Regression: the copy of a live table was deleted with the last reader of an earlier table of the same number.
#[test]
fn a_copy_is_kept_when_the_reader_of_an_earlier_table_of_its_number_ends() {
    // Its files have times.
    let world = World::in_memory();
    let open = || open_primary(&world, "disable_auto_compactions=true").unwrap();
    write_and_close(open(), &[1; 1000]);
    let saved = Saved::of_primary(&*world.fs);
    write_and_close(open(), &[2; 1000]);
    let db = open_follower(&world, "follower_refresh_catchup_period_ms=1000000").unwrap();
    let earlier = db.live_file_numbers();
    let mut iterator = db.iter();
    iterator.seek_to_first();
    saved.restore(&*world.fs);
    let leader = open();
    // The tables of the iterator become obsolete before others have their numbers.
    db.try_catch_up_with_primary().unwrap();
    for key in [b"a", b"b"] {
        leader.put(key, &[3; 3000]).unwrap();
        leader.flush().unwrap();
    }
    db.try_catch_up_with_primary().unwrap();
    assert_eq!(
        db.live_file_numbers(),
        earlier,
        "the numbers are used again"
    );
    assert_eq!(iterator.value(), [2; 1000]);
    drop(iterator);
    db.try_catch_up_with_primary().unwrap();
    for number in db.live_file_numbers() {
        let copy = Path::new(SECONDARY).join(FileName::Table(number).to_string());
        assert!(world.fs.exists(&copy).unwrap(), "{}", copy.display());
    }
    assert_eq!(content(&db).unwrap(), content(&leader).unwrap());
    db.close().unwrap();
    leader.close().unwrap();
}
