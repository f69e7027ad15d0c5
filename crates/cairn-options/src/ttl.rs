//! How OPTIONS files tell of a database whose values have a time to live.
//!
//! RocksDB wraps the compaction filter and the merge operator of each family in objects of its own,
//! and its files name those, with the program's inside:
//!
//! ```text
//! compaction_filter_factory={id=TtlCompactionFilterFactory;user_filter_factory=nullptr;ttl=60;}
//! compaction_filter={id=TtlCompactionFilter;ttl=60;user_filter=theirs;}
//! merge_operator={id=TtlMergeOperator;user_operator=UInt64AddOperator;}
//! ```
//!
//! Here the program's objects stay where they are and `value_ttl` says the rest. Files are written
//! and read in RocksDB's words.

use cairn_format::options_text::Section;

use crate::family::FamilyOptions;
use crate::text::{NULL, Refusal, Text, object};

/// What RocksDB's files call the operator around the program's. Tables record it too.
pub const MERGE_OPERATOR: &str = "TtlMergeOperator";

/// What one of RocksDB's objects is called in files.
struct Wrapper {
    /// The option that has it.
    option: &'static str,
    name: &'static str,
    /// What the program's object is called in it.
    inner: &'static str,
    /// True if it knows the time to live.
    has_ttl: bool,
}

const FACTORY: Wrapper = Wrapper {
    option: "compaction_filter_factory",
    name: "TtlCompactionFilterFactory",
    inner: "user_filter_factory",
    has_ttl: true,
};
const FILTER: Wrapper = Wrapper {
    option: "compaction_filter",
    name: "TtlCompactionFilter",
    inner: "user_filter",
    has_ttl: true,
};
const MERGE: Wrapper = Wrapper {
    option: "merge_operator",
    name: MERGE_OPERATOR,
    inner: "user_operator",
    has_ttl: false,
};

impl Wrapper {
    /// The text with `inner` in it.
    fn around(&self, inner: &str, ttl: i32) -> String {
        let ttl = match self.has_ttl {
            true => format!("ttl={ttl};"),
            false => String::new(),
        };
        format!("{{id={};{}={inner};{ttl}}}", self.name, self.inner)
    }

    /// What `text` has inside, and its time to live, if it is of this object.
    fn within(&self, text: &str) -> Result<Option<(String, Option<i32>)>, Refusal> {
        // Other texts are judged by whom they are for.
        let Ok((name, properties)) = object(text) else {
            return Ok(None);
        };
        if name != self.name {
            return Ok(None);
        }
        let property = |wanted: &str| {
            let mut found = properties.iter().filter(|(name, _)| *name == wanted);
            found.next().map(|(_, value)| *value)
        };
        let ttl = property("ttl").map(i32::parse).transpose()?;
        let inner = property(self.inner).unwrap_or(NULL).to_owned();
        Ok(Some((inner, ttl.filter(|_| self.has_ttl))))
    }
}

/// Changes the section of a family of `options` to RocksDB's words.
pub(crate) fn record(section: &mut Section, options: &FamilyOptions) {
    let Some(ttl) = options.value_ttl else {
        return;
    };
    // RocksDB wraps the one filter if there is one, and else the factory, or none.
    let filter = match options.compaction_filter.print().as_str() {
        NULL => FACTORY,
        _ => FILTER,
    };
    for (name, value) in &mut section.statements {
        if *name == filter.option {
            *value = filter.around(value, ttl);
        } else if *name == MERGE.option && value != NULL {
            *value = MERGE.around(value, ttl);
        }
    }
}

/// The section of a family with the program's objects in the place of RocksDB's, and the time to
/// live that these had.
pub(crate) fn recorded(section: &Section) -> Result<(Section, Option<i32>), Refusal> {
    let (mut plain, mut found) = (section.clone(), None);
    for (name, value) in &mut plain.statements {
        for wrapper in [FACTORY, FILTER, MERGE] {
            if *name == wrapper.option
                && let Some((inner, ttl)) = wrapper.within(value)?
            {
                *value = inner;
                found = found.or(ttl);
            }
        }
    }
    Ok((plain, found))
}

#[cfg(test)]
mod tests {
    use cairn_types::Code;

    use crate::file::OptionsFile;
    use crate::{FamilyOptions, Options};

    fn file_of(text: &str) -> OptionsFile {
        let family = FamilyOptions::from_text(text).unwrap();
        OptionsFile {
            families: vec![("default".to_owned(), family)],
            ..OptionsFile::default()
        }
    }

    fn statement<'t>(text: &'t str, name: &str) -> &'t str {
        let mut lines = text.lines().map(str::trim);
        lines
            .find_map(|line| line.strip_prefix(name)?.strip_prefix('='))
            .unwrap()
    }

    #[test]
    fn files_say_it_in_the_words_of_rocksdb() {
        let text = file_of("value_ttl=5;merge_operator=uint64add").to_text();
        // As RocksDB 11.1.1 wrote them.
        assert_eq!(
            statement(&text, "compaction_filter_factory"),
            "{id=TtlCompactionFilterFactory;user_filter_factory=nullptr;ttl=5;}"
        );
        assert_eq!(
            statement(&text, "merge_operator"),
            "{id=TtlMergeOperator;user_operator=UInt64AddOperator;}"
        );
        assert_eq!(statement(&text, "compaction_filter"), "nullptr");
        assert!(!text.contains("value_ttl"));

        let plain = file_of("merge_operator=uint64add").to_text();
        assert_eq!(statement(&plain, "merge_operator"), "UInt64AddOperator");
        assert_eq!(statement(&plain, "compaction_filter_factory"), "nullptr");
    }

    #[test]
    fn what_was_written_is_read_back() {
        for options in [
            "value_ttl=60",
            "value_ttl=0",
            "value_ttl=-1;merge_operator={id=stringappend;delimiter=|}",
            "value_ttl=7;compaction_filter=theirs",
            "value_ttl=7;compaction_filter_factory=theirs",
            "merge_operator=max",
        ] {
            let written = file_of(options);
            let read = OptionsFile::from_text(&written.to_text(), false).unwrap();
            let (before, after) = (&written.families[0].1, &read.families[0].1);
            assert_eq!(before.to_text(), after.to_text(), "{options}");
        }
    }

    #[test]
    fn a_time_to_live_that_is_no_number_is_refused() {
        let text = file_of("value_ttl=5")
            .to_text()
            .replace("ttl=5;", "ttl=soon;");
        let error = OptionsFile::from_text(&text, false).unwrap_err();
        assert_eq!(error.code(), Code::InvalidArgument, "{error}");
    }
}
