//! Time to live in OPTIONS files.
//!
//! RocksDB wraps the compaction filter and the merge operator of each family in its own objects,
//! and its files record those wrappers, with the program's objects inside:
//!
//! ```text
//! compaction_filter_factory={id=TtlCompactionFilterFactory;user_filter_factory=nullptr;ttl=60;}
//! compaction_filter={id=TtlCompactionFilter;ttl=60;user_filter=theirs;}
//! merge_operator={id=TtlMergeOperator;user_operator=UInt64AddOperator;}
//! ```
//!
//! Cairn keeps the program's objects in their options and stores the time to live in `value_ttl`. Files are
//! written and read in RocksDB's form.

use cairn_format::options_text::Section;

use crate::family::FamilyOptions;
use crate::text::{NULL, Refusal, Text, object};

/// RocksDB's name of the wrapping operator in files and tables.
pub const MERGE_OPERATOR: &str = "TtlMergeOperator";

/// RocksDB's name of a wrapping object in files.
struct Wrapper {
    /// The wrapped option.
    option: &'static str,
    name: &'static str,
    /// The property that holds the program's object.
    inner: &'static str,
    /// True if it has the property `ttl`.
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
    /// Returns the text of the wrapper around `inner`.
    fn around(&self, inner: &str, ttl: i32) -> String {
        let ttl = match self.has_ttl {
            true => format!("ttl={ttl};"),
            false => String::new(),
        };
        format!("{{id={};{}={inner};{ttl}}}", self.name, self.inner)
    }

    /// Returns the wrapped text and the time to live, if `text` is a text of this wrapper.
    fn within(&self, text: &str) -> Result<Option<(String, Option<i32>)>, Refusal> {
        // Other texts are left to the parser of their option.
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

/// Rewrites the section of a family of `options` in RocksDB's form.
pub(crate) fn record(section: &mut Section, options: &FamilyOptions) {
    let Some(ttl) = options.value_ttl else {
        return;
    };
    // RocksDB wraps the filter if there is one, and otherwise the factory, or none.
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

/// Returns the section of a family with wrappers replaced by the program's objects, and the time to
/// live.
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
    fn files_have_the_form_of_rocksdb() {
        let text = file_of("value_ttl=5;merge_operator=uint64add").to_text();
        // As written by RocksDB 11.1.1.
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
    fn files_with_ttl_round_trip() {
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
    fn a_malformed_ttl_is_rejected() {
        let text = file_of("value_ttl=5")
            .to_text()
            .replace("ttl=5;", "ttl=soon;");
        let error = OptionsFile::from_text(&text, false).unwrap_err();
        assert_eq!(error.code(), Code::InvalidArgument, "{error}");
    }
}
