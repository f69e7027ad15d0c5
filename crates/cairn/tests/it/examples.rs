//! Runs the examples of the crate, which fail if one of their assertions does not hold.

use std::process::Command;

#[test]
fn every_example_runs() {
    let names = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/examples")).unwrap();
    let mut count = 0;
    for name in names {
        let name = name.unwrap().path();
        let name = name.file_stem().unwrap();
        // Cargo builds the examples with the tests, into a sibling directory.
        let tests = std::env::current_exe().unwrap();
        let programs = tests.ancestors().nth(2).unwrap().join("examples");
        let done = Command::new(programs.join(name)).output();
        let done =
            done.expect("`cargo test -p cairn` without target selection builds the examples");
        let told = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{}: {told}", name.display());
        count += 1;
    }
    assert_eq!(count, 15, "each capability has an example");
}
