//! Licences, sources, duplicate versions and advisories of all dependencies.
//!
//! `deny.toml` holds the policy, in the format of cargo-deny. Every run of the tests applies the tables `licenses` and
//! `bans` by its own code, and requires that all crates are from crates.io: compiling cargo-deny takes as long as
//! compiling the engine. cargo-deny itself applies the whole policy in [`advisories`], and checks the advisory database,
//! which not every machine that runs the tests can reach.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use spdx::{Expression, ParseMode};

use crate::commands::{announce, cargo, printed, read};
use crate::packages::{self, Part, Probe, Source};

/// The version of cargo-deny.
const VERSION: &str = "0.20.2";

/// The source of crates that are published on crates.io.
const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Checks licences, sources and versions.
///
/// # Errors
///
/// Lists every violation.
pub fn run(root: &Path) -> Result<(), String> {
    announce("check of licences, sources and versions of dependencies");
    let metadata = ["metadata", "--locked", "--format-version", "1"];
    let metadata = printed(Command::new("cargo").args(metadata).current_dir(root))?;
    let policy = Policy::parse(&read(&root.join("deny.toml"))?)?;
    let metadata = serde_json::from_str(&metadata)
        .map_err(|error| format!("the output of cargo metadata is not JSON: {error}"))?;
    let violations = policy.violations(&metadata);
    match violations.is_empty() {
        true => Ok(()),
        false => Err(format!("deny.toml rejects:\n{}", violations.join("\n"))),
    }
}

/// Applies the whole policy with cargo-deny, advisories included. Installs cargo-deny if it is missing.
///
/// # Errors
///
/// cargo-deny cannot be installed, or reports a violation.
pub fn advisories(root: &Path) -> Result<(), String> {
    let part = Part {
        probe: Probe::Succeeds(&["cargo", "deny", "--version"]),
        source: Source::Crate("cargo-deny", VERSION),
    };
    let missing = packages::missing([&part]);
    if let Some(why) = packages::install(&missing).into_iter().next() {
        return Err(why);
    }
    cargo(root, &["deny", "--locked", "check"])
}

/// What `deny.toml` permits.
#[derive(Debug)]
struct Policy {
    /// The permitted licences.
    licenses: BTreeSet<String>,
    /// Further licences of a crate.
    exceptions: BTreeMap<String, BTreeSet<String>>,
    /// Versions that may exist beside others, as `name@prefix of the version`.
    skip: BTreeSet<String>,
}

impl Policy {
    fn parse(text: &str) -> Result<Policy, String> {
        let invalid = |what: &str| format!("deny.toml: {what}");
        let file: toml::Table = text.parse().map_err(|error| invalid(&format!("{error}")))?;
        let list = |table: &str, key: &str| -> Result<Vec<toml::Value>, String> {
            let value = file.get(table).and_then(|table| table.get(key));
            let list = value.and_then(toml::Value::as_array).cloned();
            list.ok_or_else(|| invalid(&format!("no list `{key}` in the table `{table}`")))
        };
        let name = |value: &toml::Value| -> Result<String, String> {
            let name = value.get("crate").and_then(toml::Value::as_str);
            let name = name.ok_or_else(|| invalid(&format!("no `crate` in {value:?}")))?;
            Ok(name.to_owned())
        };
        let mut exceptions = BTreeMap::new();
        for exception in list("licenses", "exceptions")? {
            let allow = exception.get("allow").and_then(toml::Value::as_array);
            let allow = allow.ok_or_else(|| invalid(&format!("no `allow` in {exception:?}")))?;
            exceptions.insert(name(&exception)?, strings(allow));
        }
        Ok(Policy {
            licenses: strings(&list("licenses", "allow")?),
            exceptions,
            skip: list("bans", "skip")?
                .iter()
                .map(name)
                .collect::<Result<_, _>>()?,
        })
    }

    /// What `metadata`, the output of `cargo metadata`, contains against this policy, a line each.
    fn violations(&self, metadata: &Value) -> Vec<String> {
        let mut violations = Vec::new();
        let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        let linked = linked(metadata);
        for package in items(&metadata["packages"]) {
            let (name, version) = (text(&package["name"]), text(&package["version"]));
            if let Err(why) = self.licence(name, package["license"].as_str()) {
                violations.push(format!("{name} {version}: {why}"));
            }
            match package["source"].as_str() {
                Some(source) if source != CRATES_IO => {
                    violations.push(format!("{name} {version}: from {source}, not crates.io"));
                }
                Some(_) => {}
                None => violations.extend(wildcards(name, package)),
            }
            if linked.contains(text(&package["id"])) {
                versions.entry(name).or_default().insert(version);
            }
        }
        for (name, versions) in versions {
            let counted = versions.iter().filter(|version| !self.skips(name, version));
            if counted.count() > 1 {
                let versions: Vec<_> = versions.into_iter().collect();
                violations.push(format!("{name}: several versions, {}", versions.join(", ")));
            }
        }
        violations
    }

    /// Checks that the expression `license` of the crate `name` can be met with permitted licences.
    fn licence(&self, name: &str, license: Option<&str>) -> Result<(), String> {
        let license = license.ok_or("no licence")?;
        // Older crates separate alternatives with a slash.
        let expression = Expression::parse_mode(license, ParseMode::LAX)
            .map_err(|error| format!("the licence `{license}` cannot be read: {}", error.reason))?;
        let more = self.exceptions.get(name);
        let permitted = expression.evaluate(|licence| {
            let licence = licence.to_string();
            self.licenses.contains(&licence) || more.is_some_and(|more| more.contains(&licence))
        });
        match permitted {
            true => Ok(()),
            false => Err(format!("the licence `{license}` is not permitted")),
        }
    }

    fn skips(&self, name: &str, version: &str) -> bool {
        self.skip.iter().any(|skip| match skip.split_once('@') {
            Some((skipped, prefix)) => {
                skipped == name
                    && version
                        .strip_prefix(prefix)
                        .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            }
            None => skip == name,
        })
    }
}

/// Dependencies of the workspace's package `name` that any version meets. Paths have no version.
fn wildcards(name: &str, package: &Value) -> Vec<String> {
    let dependencies = items(&package["dependencies"]);
    let any = dependencies
        .filter(|dependency| text(&dependency["req"]) == "*" && dependency["path"].is_null());
    any.map(|dependency| format!("{name}: any version of {}", text(&dependency["name"])))
        .collect()
}

/// The identifiers of the packages that something other than a test needs.
fn linked(metadata: &Value) -> BTreeSet<&str> {
    let nodes: BTreeMap<&str, &Value> = items(&metadata["resolve"]["nodes"])
        .map(|node| (text(&node["id"]), node))
        .collect();
    let mut waiting: Vec<&str> = items(&metadata["workspace_members"]).map(text).collect();
    let mut linked: BTreeSet<&str> = waiting.iter().copied().collect();
    while let Some(id) = waiting.pop() {
        for dependency in nodes
            .get(id)
            .into_iter()
            .flat_map(|node| items(&node["deps"]))
        {
            let linking = items(&dependency["dep_kinds"]).any(|kind| kind["kind"] != "dev");
            let id = text(&dependency["pkg"]);
            if linking && linked.insert(id) {
                waiting.push(id);
            }
        }
    }
    linked
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn strings(values: &[toml::Value]) -> BTreeSet<String> {
    let strings = values.iter().filter_map(toml::Value::as_str);
    strings.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn policy() -> Policy {
        let text = r#"
            [licenses]
            allow = ["MIT", "Apache-2.0", "Apache-2.0 WITH LLVM-exception"]
            exceptions = [{ crate = "tool", allow = ["MPL-2.0"] }]
            [bans]
            skip = [{ crate = "syn@2", reason = "" }]
        "#;
        Policy::parse(text).unwrap()
    }

    fn package(name: &str, version: &str, license: &str, source: Option<&str>) -> Value {
        json!({
            "id": format!("{name}@{version}"), "name": name, "version": version, "license": license,
            "source": source, "dependencies": [],
        })
    }

    /// The metadata of a workspace whose package `w` links the first of `packages`, each of which links the next.
    fn metadata(packages: &[Value], kind: &Value) -> Value {
        let mut all = vec![package("w", "0.1.0", "MIT", None)];
        all.extend_from_slice(packages);
        let nodes: Vec<Value> = (0..all.len())
            .map(|at| {
                let next = all.get(at + 1).map(|next| next["id"].clone());
                let deps: Vec<Value> = next
                    .map(|id| json!({"pkg": id, "dep_kinds": [{"kind": kind}]}))
                    .into_iter()
                    .collect();
                json!({"id": all[at]["id"], "deps": deps})
            })
            .collect();
        json!({"packages": all, "workspace_members": ["w@0.1.0"], "resolve": {"nodes": nodes}})
    }

    #[test]
    fn a_licence_must_be_met_with_permitted_ones() {
        let policy = policy();
        for permitted in [
            "MIT",
            "MIT/Apache-2.0",
            "GPL-2.0-only OR MIT",
            "(MIT OR GPL-3.0) AND Apache-2.0",
            "Apache-2.0 WITH LLVM-exception",
        ] {
            assert_eq!(policy.licence("a", Some(permitted)), Ok(()), "{permitted}");
        }
        for rejected in ["GPL-2.0-only", "MIT AND MPL-2.0", "no licence", ""] {
            assert!(policy.licence("a", Some(rejected)).is_err(), "{rejected}");
        }
        assert!(policy.licence("a", None).is_err());
        assert_eq!(policy.licence("tool", Some("MIT AND MPL-2.0")), Ok(()));
    }

    #[test]
    fn versions_are_unique_among_the_crates_that_are_linked() {
        let two = |name: &str, first: &str, second: &str| {
            [
                package(name, first, "MIT", Some(CRATES_IO)),
                package(name, second, "MIT", Some(CRATES_IO)),
            ]
        };
        let found = |packages: &[Value], kind| policy().violations(&metadata(packages, &kind));
        assert_eq!(
            found(&two("a", "1.0.0", "2.0.0"), Value::Null),
            ["a: several versions, 1.0.0, 2.0.0"]
        );
        assert!(found(&two("a", "1.0.0", "2.0.0"), json!("dev")).is_empty());
        assert!(found(&two("syn", "2.0.1", "3.0.0"), Value::Null).is_empty());
        assert_eq!(found(&two("syn", "20.0.0", "3.0.0"), Value::Null).len(), 1);
    }

    #[test]
    fn crates_are_from_the_registry_and_their_versions_are_given() {
        let from = |source| {
            let packages = [package("a", "1.0.0", "MIT", Some(source))];
            policy().violations(&metadata(&packages, &Value::Null))
        };
        assert!(from(CRATES_IO).is_empty());
        assert_eq!(from("git+https://example.com/a").len(), 1);
        let mut member = package("a", "0.1.0", "MIT", None);
        member["dependencies"] = json!([
            {"name": "b", "req": "*", "path": "/b"}, {"name": "c", "req": "*"}, {"name": "d", "req": "^1"},
        ]);
        let found = policy().violations(&metadata(&[member], &Value::Null));
        assert_eq!(found, ["a: any version of c"]);
    }

    #[test]
    fn a_policy_without_its_tables_is_rejected() {
        let error = Policy::parse("[licenses]\nallow = []\nexceptions = []").unwrap_err();
        assert_eq!(error, "deny.toml: no list `skip` in the table `bans`");
        assert!(Policy::parse("[licenses").is_err());
    }
}
