//! The memory of idle column families, as measured by the kernel for this process, which does nothing else.
#![cfg(target_os = "linux")]
#![expect(
    clippy::disallowed_methods,
    reason = "the memory of the process is read from the kernel"
)]

use cairn_db::{FamilyDescriptor, OpenRequest, open};
use cairn_options::{DbOptions, FamilyOptions};
use cairn_platform::World;

/// The resident anonymous memory in bytes.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("the kernel reports it");
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
    let kib: usize = kib.expect("it is in KiB").parse().expect("it is a number");
    kib * 1024
}

/// P08: a family without writes takes little memory, and little more with one entry.
#[test]
fn a_thousand_idle_families_take_less_than_16_mib() {
    const FAMILIES: usize = 1000;
    let dir = tempfile::tempdir().expect("there is a directory");
    let options = DbOptions {
        create_if_missing: true,
        ..DbOptions::default()
    };
    let db = open(&OpenRequest {
        path: dir.path(),
        options: &options,
        families: &[],
        others: Some(&FamilyOptions::default()),
        read_only: false,
        world: World::posix(),
    })
    .expect("it opens");
    let new: Vec<FamilyDescriptor> = (0..FAMILIES)
        .map(|n| FamilyDescriptor::new(format!("family{n}"), FamilyOptions::default()))
        .collect();
    let before = resident();
    let families = db.create_families(&new).expect("they are created");
    let bytes = resident().saturating_sub(before);
    assert!(bytes < 16 << 20, "{} bytes each", bytes / FAMILIES);
    for family in &families {
        family.put(b"key", b"value").expect("it is written");
    }
    let more = resident().saturating_sub(before);
    assert!(more < 16 << 20, "{} bytes each", more / FAMILIES);
    drop((db, families));
}
