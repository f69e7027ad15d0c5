//! The table of C functions of unsupported features: `capi/src/unsupported.rs`, parsed as text.
//!
//! The kind of a function determines how it fails: `err` and `errs` return an error, `at` sets an option that
//! a later call rejects, and `no` cannot be reached, because it creates or takes an object of the feature,
//! whose creation returns null. [`check`] reports functions of the kind `no` that act on objects of other
//! features, [`lines`] returns the list of features in docs/compatibility.md, and [`calls`] returns a C
//! program that calls every function of the kind `at` and every setter of an unsupported option.

use std::path::Path;

use crate::{compat, sources};

const TABLE: &str = "capi/src/unsupported.rs";

/// Types that other features also use, of functions of the kind `no`: the functions that would return
/// such objects return null.
const OF_NO_OBJECT: [(&str, &str); 2] = [
    (
        "rocksdb_transactiondb_close_base_db",
        "rocksdb_transactiondb_get_base_db",
    ),
    (
        "rocksdb_optimistictransactiondb_close_base_db",
        "rocksdb_optimistictransactiondb_get_base_db",
    ),
];

/// A feature and its functions.
struct Feature {
    name: String,
    functions: Vec<Function>,
}

struct Function {
    kind: String,
    name: String,
    /// The types of the parameters.
    takes: Vec<String>,
    gives: Option<String>,
}

/// The features of the table.
fn features(text: &str) -> Vec<Feature> {
    let blocks = text.split("\nc_unbuilt! { \"").skip(1);
    let feature = |block: &str| {
        let (name, rest) = block.split_once("\":\n")?;
        let functions = rest.split("\n}").next()?.lines().filter_map(function);
        Some(Feature {
            name: name.to_owned(),
            functions: functions.collect(),
        })
    };
    blocks.filter_map(feature).collect()
}

/// `kind(places) fn name(parameter: type, ...) -> type;`
fn function(line: &str) -> Option<Function> {
    let (kind, rest) = line.trim().split_once('(')?;
    let (_, rest) = rest.split_once(") fn ")?;
    let (name, rest) = rest.split_once('(')?;
    let (parameters, gives) = match rest.rsplit_once(") -> ") {
        Some((parameters, gives)) if !gives.contains(')') => {
            (parameters, Some(gives.trim_end_matches(';').to_owned()))
        }
        _ => (rest.trim_end_matches(");"), None),
    };
    let types = parameters
        .split(", ")
        .filter_map(|parameter| parameter.split_once(": "));
    Some(Function {
        kind: kind.to_owned(),
        name: name.to_owned(),
        takes: types.map(|(_, of)| of.to_owned()).collect(),
        gives,
    })
}

impl Function {
    /// True if it creates an object of an unsupported type, or takes one as its first parameter.
    fn is_of_objects(&self, text: &str) -> bool {
        let unbuilt = |of: &String| {
            let object = of.rsplit(' ').next().unwrap_or("");
            text.contains(&format!("pub struct {object}(());"))
        };
        self.takes.first().is_some_and(unbuilt)
            || self.gives.as_ref().is_some_and(unbuilt)
            || OF_NO_OBJECT
                .iter()
                .any(|(name, maker)| self.name == *name || self.name == *maker)
    }
}

/// Reports functions that do nothing without an error.
pub fn check(root: &Path, complaints: &mut Vec<String>) {
    let text = sources::read(root, &root.join(TABLE)).text;
    let rows = features(&text);
    let count: usize = rows.iter().map(|feature| feature.functions.len()).sum();
    if count != text.matches(") fn ").count() {
        complaints.push(format!("{TABLE}: only {count} functions could be parsed"));
    }
    for function in rows.iter().flat_map(|feature| &feature.functions) {
        let name = &function.name;
        let is_refused = match function.kind.as_str() {
            "no" => function.is_of_objects(&text),
            "at" => function
                .takes
                .first()
                .is_some_and(|of| of == "*mut rocksdb_options_t"),
            _ => true,
        };
        if !is_refused {
            complaints.push(format!(
                "{TABLE}: {name} is of the kind {:?} and acts on an object that exists, so that no call \
                 would return an error",
                function.kind
            ));
        }
    }
}

/// The lines of the list of features.
pub fn lines(root: &Path) -> Vec<String> {
    let text = sources::read(root, &root.join(TABLE)).text;
    let line = |feature: Feature| {
        let of = |kind: &str| {
            let named = feature.functions.iter().filter(|one| one.kind == kind);
            named
                .map(|one| format!("`{}`", one.name))
                .collect::<Vec<_>>()
        };
        let mut parts = Vec::new();
        match of("err").len() + of("errs").len() {
            0 => {}
            1 => parts.push("1 function returns an error".to_owned()),
            count => parts.push(format!("{count} functions return an error")),
        }
        if !of("at").is_empty() {
            let names = of("at").join(", ");
            parts.push(format!("the options are rejected after {names}"));
        }
        match of("no").len() {
            0 => {}
            1 => parts.push("1 function takes an object that cannot be created".to_owned()),
            count => parts.push(format!(
                "{count} functions take an object that cannot be created"
            )),
        }
        format!("- {}: {}.", feature.name, parts.join("; "))
    };
    features(&text).into_iter().map(line).collect()
}

/// A C program that sets each unsupported option to another value than its default and expects the open
/// to fail with its name; and the number of calls in it.
pub fn calls(root: &Path) -> (String, usize) {
    let text = sources::read(root, &root.join(TABLE)).text;
    let functions = features(&text);
    let functions = functions.iter().flat_map(|feature| &feature.functions);
    let mut body = String::new();
    let mut count = 0;
    for function in functions.filter(|function| function.kind == "at") {
        let name = &function.name;
        let zeros = ", 0".repeat(function.takes.len() - 1);
        body.push_str(&format!("  OPENING(\"{name}\", {name}(options{zeros}));\n"));
        count += 1;
    }
    for setter in setters(root) {
        let (name, option) = (&setter.name, &setter.option);
        let getter = name.replacen("_set_", "_get_", 1);
        let case = match setter.of.as_str() {
            "rocksdb_options_t" => {
                format!("  OPENING(\"{option}\", {name}(options, !{getter}(options)));\n")
            }
            "rocksdb_block_based_table_options_t" => {
                format!("  TABLES(\"{option}\", {name}(table, {}));\n", setter.other)
            }
            "rocksdb_writeoptions_t" => {
                format!("  WRITING(\"{option}\", {name}(options, 1));\n")
            }
            _ => continue,
        };
        body.push_str(&case);
        count += 1;
    }
    (PROGRAM.replace("@CALLS@", &body), count)
}

/// The setter of an unsupported option.
struct Setter {
    of: String,
    name: String,
    option: String,
    /// A value other than the default.
    other: &'static str,
}

/// The setters of the options with the keyword `missing` in the option tables.
fn setters(root: &Path) -> Vec<Setter> {
    let missing = compat::names(root, "missing");
    let mut files = Vec::new();
    sources::below(&root.join("capi/src/options"), &mut files);
    files.sort();
    let mut found = Vec::new();
    for file in files {
        let text = sources::read(root, &file).text;
        for block in text.split("c_setters! { ").skip(1) {
            let Some((of, rows)) = block.split_once(":\n") else {
                continue;
            };
            for row in rows.split("\n}").next().unwrap_or("").lines() {
                let Some((head, path)) = row.trim().trim_end_matches(';').split_once(" => ") else {
                    continue;
                };
                let option = path.rsplit('.').next().unwrap_or("");
                if missing.iter().any(|name| name == option) {
                    found.push(Setter {
                        of: of.to_owned(),
                        name: head.split('(').next().unwrap_or("").to_owned(),
                        option: option.to_owned(),
                        other: "1",
                    });
                }
            }
        }
    }
    found
}

const PROGRAM: &str = r#"/* Calls of unsupported functions. Generated by `cargo xtask test capi` from capi/src/unsupported.rs and the tables of options. */
#include <rocksdb/c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int wrong = 0;

/* Expects a "Not implemented" error that names `what`. */
static void expect(char* err, const char* what) {
  if (err == NULL || strncmp(err, "Not implemented: ", 17) != 0 || strstr(err, what) == NULL) {
    fprintf(stderr, "%s: expected \"Not implemented: ...\" that names it, found %s\n", what, err ? err : "no error");
    wrong = 1;
  }
  free(err);
}

static rocksdb_options_t* fresh_options(void) {
  rocksdb_options_t* options = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(options, 1);
  return options;
}

static void open_with(rocksdb_options_t* options, const char* path, const char* what) {
  char* err = NULL;
  rocksdb_t* db = rocksdb_open(options, path, &err);
  expect(err, what);
  if (db != NULL) rocksdb_close(db);
  rocksdb_options_destroy(options);
}

#define OPENING(what, call)                                        \
  do {                                                             \
    rocksdb_options_t* options = fresh_options();                  \
    call;                                                          \
    open_with(options, path, what);                                \
  } while (0)

#define TABLES(what, call)                                                            \
  do {                                                                                \
    rocksdb_block_based_table_options_t* table = rocksdb_block_based_options_create(); \
    rocksdb_options_t* options = fresh_options();                                     \
    call;                                                                             \
    rocksdb_options_set_block_based_table_factory(options, table);                    \
    open_with(options, path, what);                                                   \
    rocksdb_block_based_options_destroy(table);                                       \
  } while (0)

#define WRITING(what, call)                                        \
  do {                                                             \
    char* err = NULL;                                              \
    rocksdb_options_t* with = fresh_options();                     \
    rocksdb_t* db = rocksdb_open(with, path, &err);                \
    rocksdb_writeoptions_t* options = rocksdb_writeoptions_create(); \
    call;                                                          \
    rocksdb_put(db, options, "k", 1, "v", 1, &err);                \
    expect(err, what);                                             \
    rocksdb_close(db);                                             \
    rocksdb_writeoptions_destroy(options);                         \
    rocksdb_options_destroy(with);                                 \
  } while (0)

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  char path[4000];
  snprintf(path, sizeof path, "%s/db", argv[1]);
@CALLS@  return wrong;
}
"#;

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "\npub struct rocksdb_row_t(());\n\nc_unbuilt! { \"rows\":\n    \
        err(errptr) fn rocksdb_row_open(name: *const c_char, errptr: *mut *mut c_char) -> *mut rocksdb_row_t;\n    \
        no() fn rocksdb_row_create() -> *mut rocksdb_row_t;\n    \
        no() fn rocksdb_row_destroy(row: *mut rocksdb_row_t);\n    \
        at(opt) fn rocksdb_options_set_row(opt: *mut rocksdb_options_t, row: *mut rocksdb_row_t);\n    \
        no() fn rocksdb_options_set_rows(opt: *mut rocksdb_options_t, f: Option<unsafe extern \"C\" fn(u32) -> usize>);\n}\n";

    #[test]
    fn functions_that_silently_do_nothing_are_reported() {
        let features = features(SOURCE);
        assert_eq!(features.len(), 1);
        let functions = &features[0].functions;
        let silent: Vec<(&str, bool)> = functions
            .iter()
            .filter(|function| function.kind == "no")
            .map(|function| (function.name.as_str(), function.is_of_objects(SOURCE)))
            .collect();
        assert_eq!(functions.len(), 5);
        assert_eq!(
            silent,
            [
                ("rocksdb_row_create", true),
                ("rocksdb_row_destroy", true),
                ("rocksdb_options_set_rows", false)
            ]
        );
    }
}
