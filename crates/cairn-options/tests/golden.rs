//! Every option string and OPTIONS file of the golden databases is accepted.

use std::path::Path;

use cairn_options::file::OptionsFile;
use cairn_options::{DbOptions, FamilyOptions, Options};

/// Returns the strings of `"key": "value"` in a JSON text without escapes.
fn strings<'a>(json: &'a str, key: &'a str) -> impl Iterator<Item = &'a str> {
    let pattern = format!("\"{key}\": \"");
    json.match_indices(&pattern)
        .map(|(at, found)| &json[at + found.len()..])
        .map(|rest| &rest[..rest.find('"').expect("a string ends")])
        .collect::<Vec<_>>()
        .into_iter()
}

#[expect(
    clippy::disallowed_methods,
    reason = "a test reads its fixtures from the disk"
)]
fn index() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden");
    std::fs::read_to_string(root.join("index.json")).expect("the golden index")
}

#[test]
fn option_strings_are_accepted() {
    let json = index();
    for key in ["db_options", "extra_db_options_when_reading"] {
        for text in strings(&json, key) {
            let options = DbOptions::from_text(text).unwrap();
            assert_eq!(
                DbOptions::from_text(&options.to_text()).unwrap().to_text(),
                options.to_text()
            );
        }
    }
    let mut seen = 0;
    for line in json.lines() {
        let Some((_, value)) = line.split_once("\": \"") else {
            continue;
        };
        let value = value.trim_end_matches(',').trim_end_matches('"');
        if !value.contains("compression=")
            || line.contains("description")
            || line.contains("features")
            || line.contains("db_options")
        {
            continue;
        }
        let options = FamilyOptions::from_text(value).unwrap();
        assert_eq!(
            FamilyOptions::from_text(&options.to_text())
                .unwrap()
                .to_text(),
            options.to_text()
        );
        seen += 1;
    }
    assert!(seen > 100, "only {seen} strings");
}

#[test]
fn options_files_of_four_releases_are_read_and_written_back() {
    for text in [
        include_str!("data/OPTIONS-7.8.3"),
        include_str!("data/OPTIONS-11.1.1"),
        include_str!("data/OPTIONS-11.9.0"),
        include_str!("data/OPTIONS-11.12.0"),
    ] {
        let file = OptionsFile::from_text(text, false).unwrap();
        assert_eq!(file.families[0].0, "default");
        assert_eq!(file.passed_over, []);
        let again = OptionsFile::from_text(&file.to_text(), false).unwrap();
        assert_eq!(again.to_text(), file.to_text());
    }
}

/// Every statement of the OPTIONS files of newer releases is reproduced.
#[test]
fn every_statement_of_11_9_and_11_12_is_reproduced() {
    for text in [
        include_str!("data/OPTIONS-11.9.0"),
        include_str!("data/OPTIONS-11.12.0"),
    ] {
        is_equivalent(text);
    }
}

fn is_equivalent(text: &str) {
    let file = OptionsFile::from_text(text, false).expect("RocksDB's file");
    for section in cairn_format::options_text::parse_file(text).expect("RocksDB's file") {
        for (name, value) in &section.statements {
            let said = match (section.title.as_str(), section.argument.as_deref()) {
                ("DBOptions", None) => file.db.get(name),
                ("CFOptions", Some(family)) => {
                    file.family(family).expect("a family of the file").get(name)
                }
                (_, Some(family)) => file
                    .family(family)
                    .expect("a family of the file")
                    .table
                    .get(name),
                _ => continue,
            };
            // Struct members may be in another order.
            assert!(
                value.contains('{') || said.is_ok_and(|said| said == *value),
                "{name}={value}"
            );
        }
    }
}

/// RocksDB 7.8.3 rejects files with options that it does not know.
#[test]
fn a_file_of_defaults_has_only_names_that_7_8_3_knows() {
    let old = include_str!("data/OPTIONS-7.8.3");
    let mut file = OptionsFile::default();
    file.families
        .push(("default".to_owned(), FamilyOptions::default()));
    for line in file.to_text().lines().filter(|line| line.contains('=')) {
        for part in line
            .split(['{', ';', '}'])
            .filter(|part| part.contains('='))
        {
            let name = part.split('=').next().unwrap().trim();
            let known = old.contains(&format!("{name}="));
            assert!(
                known || ["wal_dir", "db_log_dir", "compression_per_level"].contains(&name),
                "{name}"
            );
        }
    }
}
