//! OPTIONS files: all options of a database, as RocksDB writes and reads them.
//!
//! The file is not part of the data: a database opens without it. Tools read the newest one to open a
//! database with its last options. Sections have a fixed order: version, database, then each family
//! with its table options, the default family first.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use cairn_format::options_text::{Section, print_section, sections};
use cairn_types::{Error, Result};

use crate::db::DbOptions;
use crate::enums::TableKind;
use crate::family::FamilyOptions;
use crate::rows::{Options, is_retired};
use crate::ttl;

/// The RocksDB release whose options these are, as recorded in files.
pub const ROCKSDB_VERSION: &str = "11.12.0";
/// The version of the file's syntax.
const FILE_VERSION: &str = "1.1";
const DEFAULT_FAMILY: &str = "default";
/// Objects of the writing program that mean nothing to another program: its listeners.
const OBJECTS: [&str; 1] = ["listeners"];
/// Objects that the program may have to set itself: those of its own code, and filter policies that were set through
/// RocksDB's C API, which records them without their parameters.
const CODE: [&str; 8] = [
    "comparator",
    "filter_policy",
    "memtable_factory",
    "memtable_insert_with_hint_prefix_extractor",
    "merge_operator",
    "prefix_extractor",
    "table_factory",
    "table_properties_collectors",
];

/// The content of an OPTIONS file.
#[derive(Clone, Debug, Default)]
pub struct OptionsFile {
    /// Database options.
    pub db: DbOptions,
    /// Names and options of the column families, the default one first.
    pub families: Vec<(String, FamilyOptions)>,
    /// Objects named in the file that are not registered; their options are left at their defaults.
    pub unknown: Vec<UnknownCode>,
    /// Options of a newer release that were ignored.
    pub passed_over: Vec<NewerOption>,
}

/// An object named in an OPTIONS file that is not registered: as with RocksDB, the program sets it
/// itself or runs without it. A database does not open with a comparator other than its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownCode {
    /// Column family; empty for a database option.
    pub family: String,
    /// Option name.
    pub option: String,
    /// Option value in the file.
    pub text: String,
}

/// An option of a newer release of RocksDB in an OPTIONS file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewerOption {
    /// The section title with its argument, for example `CFOptions "default"`.
    pub section: String,
    /// The option name; that of a struct member is prefixed with the struct's. Empty for a whole
    /// section.
    pub option: String,
}

impl fmt::Display for NewerOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.option.as_str() {
            "" => write!(f, "section [{}]", self.section),
            option => write!(f, "option {option} in section [{}]", self.section),
        }
    }
}

impl OptionsFile {
    /// Returns the text of the file, whose bytes are those of [`options_text::to_bytes`]: a path need not be UTF-8.
    ///
    /// [`options_text::to_bytes`]: cairn_format::options_text::to_bytes
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut version = Section::new("Version", None);
        version.push("rocksdb_version", ROCKSDB_VERSION);
        version.push("options_file_version", FILE_VERSION);
        let mut text = String::new();
        print_section(&mut text, &version);
        print_section(&mut text, &section_of("DBOptions", None, &self.db));
        // One section at a time: those of a thousand families take ten megabytes.
        for (name, family) in &self.families {
            let mut section = section_of("CFOptions", Some(name), family);
            ttl::record(&mut section, family);
            print_section(&mut text, &section);
            print_section(&mut text, &table_section(name, family));
        }
        text
    }

    /// Parses the text of a file ([`options_text::from_bytes`]). Unknown options are an error, unless `ignore_unknown` is set and a newer release
    /// of RocksDB wrote the file: they are then ignored, including struct members, and listed in
    /// [`OptionsFile::passed_over`].
    ///
    /// [`options_text::from_bytes`]: cairn_format::options_text::from_bytes
    ///
    /// # Errors
    ///
    /// `Corruption` for a malformed file or missing sections, `InvalidArgument` for options.
    pub fn from_text(text: &str, ignore_unknown: bool) -> Result<OptionsFile> {
        let mut sections = sections(text)
            .map(|section| section.map_err(|error| error.in_file("the OPTIONS file", 0)));
        let first = sections.next().transpose()?;
        let version = version_of(first.as_ref())?;
        let mut reader = Reader {
            file: OptionsFile::default(),
            lenient: ignore_unknown && version > parse_version(ROCKSDB_VERSION)?,
            seen: HashSet::new(),
        };
        for section in first.map(Ok).into_iter().chain(sections) {
            reader.take(&section?)?;
        }
        reader.finish()
    }

    /// Resets options with unregistered objects, as RocksDB does, and lists them in
    /// [`OptionsFile::unknown`]. Without this, a database with missing filters or partitioners
    /// rejects writes.
    pub fn forget_unknown_code(&mut self) {
        let filter = self.db.wal_filter.forget();
        self.unknown.extend(filter.map(|text| UnknownCode {
            family: String::new(),
            option: "wal_filter".to_owned(),
            text,
        }));
        for (family, options) in &mut self.families {
            let forgotten = [
                ("compaction_filter", options.compaction_filter.forget()),
                (
                    "compaction_filter_factory",
                    options.compaction_filter_factory.forget(),
                ),
                (
                    "sst_partitioner_factory",
                    options.sst_partitioner_factory.forget(),
                ),
            ];
            for (option, text) in forgotten {
                self.unknown.extend(text.map(|text| UnknownCode {
                    family: family.clone(),
                    option: option.to_owned(),
                    text,
                }));
            }
        }
    }

    /// Returns the options of family `name`.
    #[must_use]
    pub fn family(&self, name: &str) -> Option<&FamilyOptions> {
        let found = self.families.iter().find(|(other, _)| other == name);
        found.map(|(_, options)| options)
    }
}

/// Returns a section with the options that OPTIONS files record.
fn section_of<S: Options>(title: &str, argument: Option<&str>, options: &S) -> Section {
    let mut section = Section::new(title, argument);
    for row in options.rows_to_say().filter(|row| row.written) {
        section.push(row.name, (row.get_line)(options));
    }
    section
}

/// Returns the release that wrote a file.
fn version_of(first: Option<&Section>) -> Result<[u32; 3]> {
    let wrong = || Error::corruption("an OPTIONS file must begin with the section Version");
    let version = first
        .filter(|first| first.title == "Version")
        .ok_or_else(wrong)?;
    let file_version = version.value("options_file_version").ok_or_else(wrong)?;
    if !file_version
        .split('.')
        .next()
        .is_some_and(|major| major.parse().is_ok_and(|m: u32| m >= 1))
    {
        return Err(Error::corruption(format!(
            "options_file_version: expected 1 or greater, found {file_version}"
        )));
    }
    parse_version(version.value("rocksdb_version").ok_or_else(wrong)?)
}

fn parse_version(text: &str) -> Result<[u32; 3]> {
    let wrong = || Error::corruption(format!("rocksdb_version: expected M.m.p, found {text}"));
    let mut parts = [0; 3];
    for (at, part) in text.split('.').enumerate() {
        let place = parts.get_mut(at).ok_or_else(wrong)?;
        *place = part.parse().map_err(|_| wrong())?;
    }
    Ok(parts)
}

/// Parser state.
struct Reader {
    file: OptionsFile,
    /// True if unknown options are ignored.
    lenient: bool,
    seen: HashSet<(String, Option<String>)>,
}

impl Reader {
    fn take(&mut self, section: &Section) -> Result<()> {
        let place = (section.title.clone(), section.argument.clone());
        if !self.seen.insert(place) {
            return Err(Error::corruption(format!(
                "section {} {} appears twice in the OPTIONS file",
                section.title,
                section.argument.as_deref().unwrap_or("")
            )));
        }
        match (section.title.as_str(), section.argument.as_deref()) {
            ("Version", None) => Ok(()),
            ("DBOptions", None) => {
                let mut options = DbOptions::default();
                self.fill(&mut options, section)?;
                self.file.db = options;
                Ok(())
            }
            ("CFOptions", Some(name)) => {
                if self.file.families.is_empty() && name != DEFAULT_FAMILY {
                    return Err(Error::corruption(
                        "the first column family of an OPTIONS file must be the default one",
                    ));
                }
                let (section, ttl) = ttl::recorded(section).map_err(|refusal| {
                    Error::invalid_argument(format!("time to live of family {name}: {refusal}"))
                })?;
                let mut options = FamilyOptions {
                    value_ttl: ttl,
                    ..FamilyOptions::default()
                };
                self.fill(&mut options, &section)?;
                self.file.families.push((name.to_owned(), options));
                Ok(())
            }
            ("TableOptions/BlockBasedTable", Some(name)) => {
                let mut changed = self.family_of(name)?.table.clone();
                self.fill(&mut changed, section)?;
                self.family_of(name)?.table = changed;
                Ok(())
            }
            ("TableOptions/PlainTable", Some(name)) => {
                let mut changed = self.family_of(name)?.plain_table.clone();
                self.fill(&mut changed, section)?;
                self.family_of(name)?.plain_table = changed;
                Ok(())
            }
            ("TableOptions/CuckooTable", Some(name)) => {
                let mut changed = self.family_of(name)?.cuckoo_table.clone();
                self.fill(&mut changed, section)?;
                self.family_of(name)?.cuckoo_table = changed;
                Ok(())
            }
            (title, Some(_)) if title.starts_with("TableOptions/") => Ok(()),
            (_, _) if self.lenient => {
                self.pass_over(section, String::new());
                Ok(())
            }
            (title, _) => Err(Error::invalid_argument(format!(
                "unknown section {title} in the OPTIONS file"
            ))),
        }
    }

    fn family_of(&mut self, name: &str) -> Result<&mut FamilyOptions> {
        let found = self
            .file
            .families
            .iter_mut()
            .find(|(other, _)| other == name);
        let (_, options) = found.ok_or_else(|| {
            Error::corruption(format!(
                "the table options of {name} precede its column family options"
            ))
        })?;
        Ok(options)
    }

    /// Sets the options of a section and returns those with unregistered objects. Retired option names
    /// are ignored.
    fn fill<S: Options>(&mut self, options: &mut S, section: &Section) -> Result<()> {
        for (name, value) in &section.statements {
            if OBJECTS.contains(&name.as_str()) {
                continue;
            }
            let mut text = Cow::Borrowed(value.as_str());
            if self.lenient && !is_retired(S::WHAT, name) {
                let Some(row) = S::row(name) else {
                    self.pass_over(section, name.clone());
                    continue;
                };
                let mut parts = Vec::new();
                text = (row.known_parts)(value, &mut parts);
                for part in parts {
                    self.pass_over(section, format!("{name}.{part}"));
                }
            }
            match options.set(name, &text) {
                Err(_) if CODE.contains(&name.as_str()) => self.file.unknown.push(UnknownCode {
                    family: section.argument.clone().unwrap_or_default(),
                    option: name.clone(),
                    text: value.clone(),
                }),
                Err(_) if self.lenient && has_closed_braces(value) => {
                    self.pass_over(section, name.clone());
                }
                set => set?,
            }
        }
        Ok(())
    }

    fn pass_over(&mut self, section: &Section, option: String) {
        let section = match &section.argument {
            Some(argument) => format!("{} {argument:?}", section.title),
            None => section.title.clone(),
        };
        let option = NewerOption { section, option };
        self.file.passed_over.push(option);
    }

    fn finish(self) -> Result<OptionsFile> {
        if !self.seen.iter().any(|(title, _)| title == "DBOptions") {
            return Err(Error::corruption(
                "the OPTIONS file has no section DBOptions",
            ));
        }
        if self.file.families.is_empty() {
            return Err(Error::corruption(
                "the OPTIONS file has no default column family",
            ));
        }
        Ok(self.file)
    }
}

/// True if `text`, which may have a meaning in another release, is complete.
fn has_closed_braces(text: &str) -> bool {
    text.matches('{').count() == text.matches('}').count()
}

/// Returns the section with the table options of a family.
fn table_section(name: &str, family: &FamilyOptions) -> Section {
    let name = Some(name);
    match family.table_factory {
        TableKind::BlockBased => section_of("TableOptions/BlockBasedTable", name, &family.table),
        TableKind::Plain => section_of("TableOptions/PlainTable", name, &family.plain_table),
        TableKind::Cuckoo => section_of("TableOptions/CuckooTable", name, &family.cuckoo_table),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sections of tables without blocks, as RocksDB writes them.
    #[test]
    fn tables_without_blocks_have_sections_of_their_own() {
        let family = |text| FamilyOptions::from_text(text).unwrap();
        let file = OptionsFile {
            families: vec![
                (
                    DEFAULT_FAMILY.to_owned(),
                    family(
                        "table_factory={id=PlainTable;user_key_len=9;encoding_type=kPrefix;hash_table_ratio=0}",
                    ),
                ),
                (
                    "cuckoo".to_owned(),
                    family("table_factory={id=CuckooTable;cuckoo_block_size=3}"),
                ),
            ],
            ..OptionsFile::default()
        };
        let text = file.to_text();
        for part in [
            "  table_factory=PlainTable\n",
            "[TableOptions/PlainTable \"default\"]\n  user_key_len=9\n",
            "  encoding_type=kPrefix\n",
            "  table_factory=CuckooTable\n",
            "[TableOptions/CuckooTable \"cuckoo\"]\n",
            "  cuckoo_block_size=3\n",
        ] {
            assert!(text.contains(part), "{part}");
        }
        let again = OptionsFile::from_text(&text, false).unwrap();
        assert_eq!(again.to_text(), text);
        let (plain, cuckoo) = (&again.families[0].1, &again.families[1].1);
        assert_eq!(
            plain.plain_table.encoding_type,
            crate::PlainEncodingType::Prefix
        );
        assert_eq!(cuckoo.cuckoo_table.cuckoo_block_size, 3);
    }

    fn file_of(version: &str, family: &str, table: &str) -> String {
        format!(
            "[Version]\n  rocksdb_version={version}\n  options_file_version=1.1\n[DBOptions]\n\
             [CFOptions \"default\"]\n  num_levels=9\n{family}\n\
             [TableOptions/BlockBasedTable \"default\"]\n  block_size=9000\n{table}\n"
        )
    }

    /// Regression: a filter policy without parameters, which RocksDB records if its C API has set one, made the whole file
    /// unreadable; so did objects and retired options that RocksDB ignores.
    #[test]
    fn objects_that_a_file_does_not_describe_are_listed() {
        for (option, family, table) in [
            ("filter_policy", "", "filter_policy=bloomfilter"),
            ("filter_policy", "", "filter_policy=ribbonfilter"),
            ("table_factory", "table_factory=Theirs", ""),
            ("memtable_factory", "memtable_factory=Theirs", ""),
            (
                "table_properties_collectors",
                "table_properties_collectors={{id=Theirs;a=1;}}",
                "",
            ),
        ] {
            let text = file_of(ROCKSDB_VERSION, family, table);
            let file = OptionsFile::from_text(&text, false).expect(option);
            let listed: Vec<_> = file.unknown.iter().map(|one| &one.option[..]).collect();
            assert_eq!(listed, [option]);
            let options = &file.families[0].1;
            assert_eq!((options.num_levels, options.table.block_size), (9, 9000));
            assert!(options.table.filter_policy.is_none());
        }
        let retired = file_of(
            "7.0.1",
            "bottommost_temperature=kCold\nexperimental_mempurge_policy=kAlternate",
            "reserve_table_reader_memory=true",
        );
        assert!(OptionsFile::from_text(&retired, false).is_ok());
    }

    #[test]
    fn the_built_in_collector_is_read_from_a_file() {
        // As RocksDB 11.1 writes it.
        let collector = "table_properties_collectors={{id=CompactOnDeletionCollector;min_file_size=7;\
                         deletion_ratio=0.500000;deletion_trigger=50;window_size=100;}}";
        let text = file_of("11.1.1", collector, "");
        let file = OptionsFile::from_text(&text, false).unwrap();
        let collectors = &file.families[0].1.table_properties_collector_factories;
        assert_eq!(collectors.all()[0].name(), "CompactOnDeletionCollector");
        assert_eq!((collectors.all().len(), file.unknown.len()), (1, 0));
    }

    /// Regression: an unknown value of a known option made the file of a newer release unreadable.
    #[test]
    fn unknown_values_of_newer_releases_are_passed_over() {
        let text = |version| file_of(version, "compaction_pri=kBrandNew", "checksum=kBrandNew");
        let file = OptionsFile::from_text(&text("99.1.0"), true).unwrap();
        let passed_over: Vec<_> = file.passed_over.iter().map(|one| &one.option[..]).collect();
        assert_eq!(passed_over, ["compaction_pri", "checksum"]);
        assert_eq!(file.families[0].1.num_levels, 9);
        assert!(OptionsFile::from_text(&text("99.1.0"), false).is_err());
        assert!(OptionsFile::from_text(&text(ROCKSDB_VERSION), true).is_err());
    }

    /// Regression: paths with separators were in braces, which RocksDB before 11.12 takes for a part of them.
    #[test]
    fn lines_have_the_texts_that_rocksdb_writes() {
        let with_path = |path: &str| OptionsFile {
            db: DbOptions {
                wal_dir: path.into(),
                ..DbOptions::default()
            },
            families: vec![(DEFAULT_FAMILY.to_owned(), FamilyOptions::default())],
            ..OptionsFile::default()
        };
        for (path, line) in [
            ("/a=b;c", "/a=b;c"),
            ("/a}{b", "/a}{b"),
            ("{a}/{b}", "{a}/{b}"),
            ("/a#b:c\\d", "/a\\#b\\:c\\\\d"),
            // RocksDB writes these texts without braces, and reads them as others.
            ("{a=b}", "{{a=b}}"),
            (" /a ", "{ /a }"),
        ] {
            let text = with_path(path).to_text();
            assert!(text.contains(&format!("  wal_dir={line}\n")), "{text}");
            let again = OptionsFile::from_text(&text, false).unwrap();
            assert_eq!(again.db.wal_dir, std::path::Path::new(path));
        }
    }

    fn sample() -> OptionsFile {
        let family = |text| FamilyOptions::from_text(text).unwrap();
        OptionsFile {
            db: DbOptions::from_text("max_open_files=100;WAL_ttl_seconds=7").unwrap(),
            families: vec![
                (
                    DEFAULT_FAMILY.to_owned(),
                    family("merge_operator={id=stringappend;delimiter=:}"),
                ),
                (
                    "a # \"b\"\n".to_owned(),
                    family("block_based_table_factory={block_size=16K}"),
                ),
            ],
            ..OptionsFile::default()
        }
    }

    #[test]
    fn unregistered_filters_are_reset_on_request() {
        let ours = "compaction_filter_factory=nullptr";
        let text = sample().to_text();
        let named = text.replacen(ours, "compaction_filter_factory=theirs", 1);
        let mut file = OptionsFile::from_text(&named, false).unwrap();
        assert!(file.families[0].1.check_supported().is_err());
        file.forget_unknown_code();
        assert!(file.families[0].1.check_supported().is_ok());
        assert_eq!(file.unknown[0].option, "compaction_filter_factory");
        assert_eq!(file.unknown[0].text, "theirs");
    }

    #[test]
    fn unregistered_objects_are_left_to_the_program() {
        let text = sample().to_text();
        let ours = "comparator=leveldb.BytewiseComparator";
        assert!(text.contains(ours));
        let file =
            OptionsFile::from_text(&text.replacen(ours, "comparator=foo", 1), false).unwrap();
        let unknown = UnknownCode {
            family: DEFAULT_FAMILY.to_owned(),
            option: "comparator".to_owned(),
            text: "foo".to_owned(),
        };
        assert_eq!(file.unknown, [unknown]);
        assert_eq!(file.to_text(), text);
    }

    #[test]
    fn a_file_round_trips() {
        let text = sample().to_text();
        let again = OptionsFile::from_text(&text, false).unwrap();
        assert_eq!(again.to_text(), text);
        assert_eq!(again.families[1].0, "a # \"b\"\n");
        assert_eq!(again.families[1].1.table.block_size, 16 << 10);
        assert_eq!(again.db.wal_ttl_seconds, 7);
    }

    #[test]
    fn only_files_of_newer_releases_may_have_unknown_options() {
        let old = sample()
            .to_text()
            .replace("max_open_files", "future_option");
        let new = old.replace(ROCKSDB_VERSION, "99.0.0");
        assert!(OptionsFile::from_text(&old, true).is_err());
        assert!(OptionsFile::from_text(&new, false).is_err());
        let read = OptionsFile::from_text(&new, true).unwrap();
        let option = NewerOption {
            section: "DBOptions".to_owned(),
            option: "future_option".to_owned(),
        };
        assert_eq!(read.passed_over, [option]);
    }

    /// Struct members, such as those that 11.12 added to `compression_opts`, and whole sections.
    #[test]
    fn struct_members_and_sections_of_newer_releases_are_ignored() {
        let text = sample()
            .to_text()
            .replace(ROCKSDB_VERSION, "99.0.0")
            .replacen(
                "  compression_opts={",
                "  compression_opts={a_new_part={x=1;y={z=2}};",
                1,
            )
            .replacen("max_dict_bytes=0", "max_dict_bytes=77", 1)
            .replacen(
                "  block_size=",
                "  metadata_cache_options={new=1;top_level_index_pinning=kAll}\n  block_size=",
                1,
            )
            + "\n[NewOptions \"x\"]\n  a=b\n";
        assert!(text.contains("a_new_part") && text.contains("top_level_index_pinning=kAll"));
        assert!(OptionsFile::from_text(&text, false).is_err());
        let file = OptionsFile::from_text(&text, true).unwrap();
        let said: Vec<String> = file.passed_over.iter().map(ToString::to_string).collect();
        assert_eq!(
            said,
            [
                "option compression_opts.a_new_part in section [CFOptions \"default\"]",
                "option metadata_cache_options.new in section [TableOptions/BlockBasedTable \"default\"]",
                "section [NewOptions \"x\"]",
            ]
        );
        let default = file.family(DEFAULT_FAMILY).unwrap();
        assert_eq!(default.compression_opts.max_dict_bytes, 77);
        assert_eq!(file.db.max_open_files, 100);
        // Unbalanced braces are corruption in a file of any release.
        let torn = text.replacen("a_new_part={x", "a_new_part=x}", 1);
        assert!(OptionsFile::from_text(&torn, true).is_err());
    }

    /// OPTIONS files of `db_bench` name its listeners.
    #[test]
    fn listeners_of_the_writing_program_are_ignored() {
        let text = sample()
            .to_text()
            .replace("[DBOptions]\n", "[DBOptions]\n  listeners={a:b}\n");
        assert!(text.contains("listeners"));
        assert!(OptionsFile::from_text(&text, false).is_ok());
    }

    #[test]
    fn incomplete_files_are_rejected() {
        let text = sample().to_text();
        for (from, to) in [
            ("[DBOptions]", "[CFOptions \"x\"]"),
            ("[Version]", "[Other]"),
            ("options_file_version=1.1", "options_file_version=0.9"),
            ("rocksdb_version=11.12.0", "rocksdb_version=x"),
            ("[CFOptions \"a", "[CFOptions \"default\"]\n[CFOptions \"a"),
            ("[CFOptions \"default\"]", "[CFOptions \"other\"]"),
            ("[DBOptions]", "[Strange]"),
        ] {
            assert!(
                OptionsFile::from_text(&text.replacen(from, to, 1), false).is_err(),
                "{from}"
            );
        }
    }
}
