//! File operations, faults, and the outcomes of each crash model.

use std::collections::BTreeSet;

use cairn_types::{Code, Subcode};

use super::*;
use crate::fault::{FaultRule, Trigger};
use crate::images::{CrashModel, MODELS};

fn create(fs: &SimFs, path: &str) -> Arc<dyn WritableFile> {
    fs.create(Path::new(path), FileMode::default()).unwrap()
}

/// The content of the file at `path` on all disk images that a crash now may leave; `-` if it does not exist.
fn found(fs: &SimFs, model: CrashModel, path: &str) -> BTreeSet<String> {
    let trace = fs.trace();
    trace
        .images(trace.len(), model, 1)
        .map(|image| match image.file(Path::new(path)) {
            Some(bytes) => String::from_utf8_lossy(bytes).replace('\0', "0"),
            None => "-".to_owned(),
        })
        .collect()
}

fn set(texts: &[&str]) -> BTreeSet<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

#[test]
fn operations_follow_the_contract() {
    let fs = SimFs::new();
    let mode = FileMode::default();
    let path = |text: &'static str| Path::new(text);
    fs.create_dir_all(path("/db/sub")).unwrap();
    fs.create_dir_all(path("/db/sub")).unwrap();
    assert_eq!(
        fs.open(path("/db/a"), mode).err().unwrap().subcode(),
        Subcode::PathNotFound
    );
    let a = create(&fs, "/db/a");
    assert!(fs.create(path("/db/a"), mode).is_err());
    a.append(b"hello").unwrap();
    a.allocate(100).unwrap();
    a.sync(false).unwrap();
    assert_eq!((a.len(), fs.status(path("/db/a")).unwrap().len), (5, 5));
    a.truncate(2).unwrap();
    a.close().unwrap();
    assert!(a.append(b"x").is_err());
    let again = fs.open_append(path("/db/a"), mode).unwrap();
    again.append(b"y").unwrap();
    let reader = fs.open(path("db/sub/../a"), mode).unwrap();
    let mut buf = [0; 10];
    assert_eq!(reader.read_at(1, &mut buf).unwrap(), 2);
    assert_eq!(&buf[..2], b"ey");
    fs.link(path("/db/a"), path("/db/b")).unwrap();
    fs.rename(path("/db/a"), path("/db/c")).unwrap();
    assert_eq!(fs.list(path("/db")).unwrap().len(), 3);
    assert!(fs.remove_dir(path("/db")).is_err());
    fs.rename(path("/db/sub"), path("/moved")).unwrap();
    fs.remove_dir(path("/moved")).unwrap();
    fs.remove(path("/db/b")).unwrap();
    fs.remove(path("/db/c")).unwrap();
    assert_eq!(
        reader.read_at(0, &mut buf).unwrap(),
        3,
        "an unlinked file exists while it is open"
    );
    assert_eq!(fs.leaks().len(), 2);
    drop((again, reader));
    assert!(fs.leaks().is_empty());
    assert_eq!(fs.state.lock().live.nodes.len(), 2, "the root and /db");
}

#[test]
fn locks_are_exclusive() {
    let fs = SimFs::new();
    let held = fs.lock(Path::new("/LOCK")).unwrap();
    assert!(fs.lock(Path::new("/./LOCK")).is_err());
    assert!(fs.open(Path::new("/LOCK"), FileMode::default()).is_err());
    drop(held);
    fs.lock(Path::new("/LOCK")).unwrap();
}

#[test]
fn syncs_make_content_but_not_names_durable() {
    let fs = SimFs::new();
    let file = create(&fs, "/f");
    file.append(b"abc").unwrap();
    assert_eq!(found(&fs, CrashModel::Kill, "/f"), set(&["abc"]));
    assert_eq!(found(&fs, CrashModel::All, "/f"), set(&["abc"]));
    assert_eq!(found(&fs, CrashModel::Synced, "/f"), set(&["-"]));
    file.sync(false).unwrap();
    assert_eq!(found(&fs, CrashModel::Synced, "/f"), set(&["-"]));
    fs.sync_dir(Path::new("/")).unwrap();
    assert_eq!(found(&fs, CrashModel::Synced, "/f"), set(&["abc"]));
    file.append(b"def").unwrap();
    assert_eq!(found(&fs, CrashModel::Synced, "/f"), set(&["abc"]));
    for model in MODELS {
        for text in found(&fs, model, "/f") {
            assert!(text.starts_with("abc"), "{model} lost synced bytes: {text}");
        }
    }
}

#[test]
fn a_synced_name_without_synced_content_is_an_empty_file() {
    let fs = SimFs::new();
    let file = create(&fs, "/f");
    file.append(b"abc").unwrap();
    fs.sync_dir(Path::new("/")).unwrap();
    assert_eq!(found(&fs, CrashModel::Synced, "/f"), set(&[""]));
    assert_eq!(found(&fs, CrashModel::NamesFirst, "/f"), set(&["", "000"]));
    assert_eq!(
        found(&fs, CrashModel::Blocks, "/f"),
        set(&["", "000", "abc"])
    );
    assert_eq!(
        found(&fs, CrashModel::Prefix, "/f"),
        set(&["", "a", "ab", "abc"])
    );
}

#[test]
fn prefixes_are_in_program_order_across_files() {
    let fs = SimFs::new();
    let (a, b) = (create(&fs, "/a"), create(&fs, "/b"));
    fs.sync_dir(Path::new("/")).unwrap();
    a.append(b"1").unwrap();
    b.append(b"2").unwrap();
    a.append(b"3").unwrap();
    let trace = fs.trace();
    let text = |image: &DiskImage, path: &str| {
        String::from_utf8(image.file(Path::new(path)).unwrap().to_vec()).unwrap()
    };
    let pairs = |model| -> BTreeSet<(String, String)> {
        trace
            .images(trace.len(), model, 0)
            .map(|image| (text(&image, "/a"), text(&image, "/b")))
            .collect()
    };
    let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
    let in_order = BTreeSet::from([pair("", ""), pair("1", ""), pair("1", "2"), pair("13", "2")]);
    assert_eq!(pairs(CrashModel::Prefix), in_order);
    assert!(pairs(CrashModel::Blocks).contains(&pair("", "2")));
}

#[test]
fn renames_are_atomic() {
    let fs = SimFs::new();
    let old = create(&fs, "/CURRENT");
    old.append(b"old").unwrap();
    old.sync(false).unwrap();
    fs.sync_dir(Path::new("/")).unwrap();
    let new = create(&fs, "/tmp");
    new.append(b"new").unwrap();
    new.sync(false).unwrap();
    fs.rename(Path::new("/tmp"), Path::new("/CURRENT")).unwrap();
    for model in MODELS {
        let texts = found(&fs, model, "/CURRENT");
        assert!(texts.is_subset(&set(&["old", "new"])), "{model}: {texts:?}");
    }
    assert_eq!(
        found(&fs, CrashModel::Blocks, "/CURRENT"),
        set(&["old", "new"])
    );
    fs.sync_dir(Path::new("/")).unwrap();
    for model in MODELS {
        assert_eq!(found(&fs, model, "/CURRENT"), set(&["new"]), "{model}");
        assert_eq!(found(&fs, model, "/tmp"), set(&["-"]), "{model}");
    }
}

#[test]
fn syncing_one_directory_of_a_rename_covers_both() {
    let fs = SimFs::new();
    fs.create_dir_all(Path::new("/x")).unwrap();
    fs.sync_dir(Path::new("/")).unwrap();
    create(&fs, "/f").sync(false).unwrap();
    fs.rename(Path::new("/f"), Path::new("/x/f")).unwrap();
    fs.sync_dir(Path::new("/x")).unwrap();
    assert_eq!(found(&fs, CrashModel::Synced, "/x/f"), set(&[""]));
    assert_eq!(found(&fs, CrashModel::Synced, "/f"), set(&["-"]));
}

#[test]
fn changes_of_unrelated_names_are_independent() {
    let fs = SimFs::new();
    create(&fs, "/old").sync(false).unwrap();
    fs.sync_dir(Path::new("/")).unwrap();
    create(&fs, "/new");
    fs.remove(Path::new("/old")).unwrap();
    let trace = fs.trace();
    let sets: BTreeSet<usize> = trace
        .images(trace.len(), CrashModel::Blocks, 0)
        .map(|image| image.files().count())
        .collect();
    assert_eq!(sets, BTreeSet::from([0, 1, 2]));
}

#[test]
fn blocks_survive_independently() {
    let fs = SimFs::new();
    let file = create(&fs, "/f");
    fs.sync_dir(Path::new("/")).unwrap();
    file.append(&[b'x'; 3 * 4096]).unwrap();
    let trace = fs.trace();
    let images: Vec<DiskImage> = trace.images(trace.len(), CrashModel::Blocks, 0).collect();
    assert_eq!(images.len(), 16, "three blocks and a length");
    let holes = images.iter().any(|image| {
        let bytes = image.file(Path::new("/f")).unwrap();
        bytes.len() == 3 * 4096 && bytes[0] == 0 && bytes[5000] == b'x' && bytes[9000] == 0
    });
    assert!(holes);
    for image in trace.images(trace.len(), CrashModel::Garbage, 0) {
        let bytes = image.file(Path::new("/f")).unwrap();
        assert!(bytes.len() <= 3 * 4096);
    }
}

#[test]
fn many_pending_blocks_are_sampled() {
    let fs = SimFs::new();
    let file = create(&fs, "/f");
    fs.sync_dir(Path::new("/")).unwrap();
    file.append(&vec![b'x'; 40 * 4096]).unwrap();
    let trace = fs.trace();
    let prints = |seed| -> Vec<u64> {
        trace
            .images(trace.len(), CrashModel::Blocks, seed)
            .map(|image| image.fingerprint())
            .collect()
    };
    assert_eq!(prints(1).len(), 64);
    assert_eq!(prints(1), prints(1));
    assert_ne!(prints(1), prints(2));
}

#[test]
fn a_failed_sync_loses_its_data() {
    let fs = SimFs::new();
    let file = create(&fs, "/f.log");
    file.sync(false).unwrap();
    fs.sync_dir(Path::new("/")).unwrap();
    fs.set_plan(FaultPlan::new(vec![FaultRule {
        trigger: Trigger::Class {
            call: Call::Sync,
            name_end: ".log".to_owned(),
            count: 1,
        },
        fault: Fault::InputOutput,
        lasts: 1,
    }]));
    file.sync(false).unwrap();
    file.append(b"lost").unwrap();
    assert_eq!(file.sync(false).unwrap_err().code(), Code::IoError);
    file.append(b"kept").unwrap();
    file.sync(false).unwrap();
    assert_eq!(fs.injected(), 1);
    assert_eq!(found(&fs, CrashModel::Kill, "/f.log"), set(&["lostkept"]));
    assert_eq!(found(&fs, CrashModel::Synced, "/f.log"), set(&["0000kept"]));
}

#[test]
fn a_full_disk_takes_short_writes_and_keeps_reservations() {
    let fs = SimFs::new();
    fs.set_capacity(10);
    let (a, b) = (create(&fs, "/a"), create(&fs, "/b"));
    a.allocate(6).unwrap();
    assert_eq!(fs.free_space(Path::new("/")).unwrap(), 4);
    let full = b.append(b"12345").unwrap_err();
    assert_eq!(full.subcode(), Subcode::NoSpace);
    assert_eq!(b.len(), 4, "a short write");
    a.append(b"123456").unwrap();
    assert!(a.append(b"7").is_err());
    drop(b);
    fs.remove(Path::new("/b")).unwrap();
    a.append(b"7").unwrap();
}

#[test]
fn faults_follow_the_plan() {
    let fs = SimFs::new();
    let file = create(&fs, "/f");
    file.append(b"12345678").unwrap();
    let reader = fs.open(Path::new("/f"), FileMode::default()).unwrap();
    let plan = |number, fault| {
        fs.set_plan(FaultPlan::new(vec![FaultRule {
            trigger: Trigger::Operation(number),
            fault,
            lasts: 1,
        }]));
    };
    let mut buf = [0; 8];
    plan(fs.operations(), Fault::ShortRead);
    assert_eq!(reader.read_at(0, &mut buf).unwrap(), 4);
    assert_eq!(reader.read_at(0, &mut buf).unwrap(), 8);
    plan(fs.operations(), Fault::FlippedBit);
    reader.read_at(0, &mut buf).unwrap();
    assert_ne!(&buf, b"12345678");
    plan(fs.operations() + 1, Fault::ShortWrite);
    file.append(b"x").unwrap();
    assert_eq!(
        file.append(b"yyyy").unwrap_err().subcode(),
        Subcode::NoSpace
    );
    assert_eq!(file.len(), 8 + 1 + 2);
}

#[test]
fn write_damage_is_silent() {
    let written = |fault, at: usize| {
        let fs = SimFs::new();
        let file = create(&fs, "/f");
        for (number, data) in [b"01234567", b"abcdefgh"].into_iter().enumerate() {
            if number == at {
                fs.set_plan(FaultPlan::new(vec![FaultRule {
                    trigger: Trigger::Operation(fs.operations()),
                    fault,
                    lasts: 1,
                }]));
            }
            file.append(data).unwrap();
        }
        assert_eq!((fs.injected(), fs.wrong_writes()), (1, 1), "{fault}");
        assert_eq!(file.len(), 16, "{fault}");
        fs.image().file(Path::new("/f")).unwrap().to_vec()
    };
    assert_eq!(written(Fault::LostWrite, 1), b"01234567\0\0\0\0\0\0\0\0");
    assert_eq!(written(Fault::LostWrite, 0), b"\0\0\0\0\0\0\0\0abcdefgh");
    assert_eq!(written(Fault::MisplacedWrite, 1), b"0123abcdefgh\0\0\0\0");
    assert_eq!(written(Fault::MisplacedWrite, 0), b"\0\0\0\x000123abcdefgh");
    let flipped = written(Fault::FlippedWrite, 1);
    let bits = flipped.iter().zip(b"01234567abcdefgh");
    assert_eq!(bits.map(|(a, b)| (a ^ b).count_ones()).sum::<u32>(), 1);
}

#[test]
fn a_simulation_restarts_from_an_image_reproducibly() {
    let run = || {
        let fs = SimFs::new();
        let file = create(&fs, "/f");
        file.append(b"abc").unwrap();
        fs
    };
    assert_eq!(run().trace().fingerprint(), run().trace().fingerprint());
    let next = SimFs::from_image(run().image());
    let file = next
        .open_append(Path::new("/f"), FileMode::default())
        .unwrap();
    file.append(b"def").unwrap();
    assert_eq!(found(&next, CrashModel::Synced, "/f"), set(&["abc"]));
    assert_eq!(next.image().file(Path::new("/f")).unwrap(), b"abcdef");
}

#[test]
fn operations_record_their_call_sites() {
    let fs = SimFs::new();
    fs.record_sites(true);
    create(&fs, "/f");
    let trace = fs.trace();
    assert!(trace.operations()[0].to_string().starts_with("Create /f"));
}

#[test]
fn mapped_stores_survive_crashes_in_part() {
    let fs = SimFs::new();
    let mode = FileMode {
        mapped: true,
        ..FileMode::default()
    };
    let file = fs.create(Path::new("/a"), mode).unwrap();
    assert!(file.is_mapped());
    fs.sync_dir(Path::new("/")).unwrap();
    file.append(b"f").unwrap();
    file.sync(false).unwrap();
    // The first append after a sync is a write call.
    file.append(b"irst").unwrap();
    assert_eq!(fs.trace().operations().last().unwrap().call, Call::Append);
    let before = fs.operations();
    file.append(b"HEAD....rest....end").unwrap();
    assert_eq!(file.len(), 24);
    let trace = fs.trace();
    let texts = |at, model| -> Vec<Vec<u8>> {
        let images = trace.images(at, model, 1);
        images
            .map(|image| image.file(Path::new("/a")).unwrap().to_vec())
            .collect()
    };
    // While the store is in progress the head is not visible; the rest may be.
    let killed = texts(before, CrashModel::Kill);
    assert!(
        killed
            .iter()
            .all(|text| text.starts_with(b"first\0\0\0\0\0\0\0\0"))
    );
    assert!(killed.iter().any(|text| text[13..24] == *b"rest....end"));
    assert_eq!(texts(before + 1, CrashModel::Kill).len(), 1);
    assert!(texts(before + 1, CrashModel::Kill)[0].starts_with(b"firstHEAD....rest....end\0"));
    // The file has the length of its window, whatever part of the store survives.
    let cut = texts(before + 1, CrashModel::Sectors);
    assert!(
        cut.iter()
            .all(|text| text.len() == 2048 && text.starts_with(b"f"))
    );
    assert!(cut.iter().any(|text| text[5] == 0) && cut.iter().any(|text| text[5] == b'H'));

    // If a window cannot be mapped, the file is written by write calls, which report the error.
    let plan = |call, lasts| {
        FaultPlan::new(vec![FaultRule {
            trigger: Trigger::Class {
                call,
                name_end: String::new(),
                count: 0,
            },
            fault: Fault::NoSpace,
            lasts,
        }])
    };
    fs.set_plan(plan(Call::Allocate, 1));
    file.append(&[7; 3000]).unwrap();
    assert!(!file.is_mapped());
    fs.set_plan(plan(Call::Append, 1));
    file.append(b"x").unwrap_err();
    file.close().unwrap();
    let image = fs.image();
    assert_eq!(image.file(Path::new("/a")).unwrap().len(), 3024);
}
