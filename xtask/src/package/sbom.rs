//! The software bill of materials: the crates that the packages are built of, in CycloneDX's format.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::Build;
use crate::commands::printed;

/// The packages of the workspace that are shipped.
const SHIPPED: [&str; 4] = [
    "cairn-librocksdb",
    "cairn-cli",
    "cairn-rocksdbjni",
    "cairn-python",
];

/// The document.
pub fn text(build: &Build) -> Result<String, String> {
    let mut components = BTreeMap::new();
    let mut dependencies = BTreeMap::new();
    collect(&build.root, &mut components, &mut dependencies)?;
    let timestamp = printed(Command::new("date").args([
        "-u",
        "-d",
        &format!("@{}", build.epoch.trim()),
        "+%Y-%m-%dT%H:%M:%SZ",
    ]))?;
    let components: Vec<Value> = components.into_values().collect();
    let dependencies: Vec<Value> = dependencies
        .into_iter()
        .map(|(of, on): (String, BTreeSet<String>)| json!({"ref": of, "dependsOn": on}))
        .collect();
    let document = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": timestamp,
            "component": {
                "type": "library",
                "bom-ref": "cairn",
                "name": "cairn",
                "version": build.versions.cairn,
                "licenses": [{"expression": "MIT OR Apache-2.0"}],
            },
        },
        "components": components,
        "dependencies": dependencies,
    });
    let text = serde_json::to_string_pretty(&document).map_err(|error| error.to_string())?;
    Ok(text + "\n")
}

/// The checksums in a lock file, by name and version.
fn checksums(folder: &Path) -> Result<HashMap<(String, String), String>, String> {
    let lock = crate::commands::read(&folder.join("Cargo.lock"))?;
    let mut found = HashMap::new();
    for package in lock.split("[[package]]").skip(1) {
        let field = |name: &str| {
            let line = package
                .lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(" = "));
            line.map(|value| value.trim_matches('"').to_owned())
        };
        if let (Some(name), Some(version), Some(sum)) =
            (field("name"), field("version"), field("checksum"))
        {
            found.insert((name, version), sum);
        }
    }
    Ok(found)
}

/// Adds the crates that are shipped and those that they are linked with.
fn collect(
    folder: &Path,
    components: &mut BTreeMap<String, Value>,
    dependencies: &mut BTreeMap<String, BTreeSet<String>>,
) -> Result<(), String> {
    let checksums = checksums(folder)?;
    let host = printed(Command::new("rustc").arg("-vV"))?;
    let host = host
        .lines()
        .find_map(|line| line.strip_prefix("host: "))
        .unwrap_or_default();
    let metadata = printed(
        Command::new("cargo")
            .args([
                "metadata",
                "--format-version",
                "1",
                "--locked",
                "--filter-platform",
                host,
            ])
            .current_dir(folder),
    )?;
    let metadata: Value = serde_json::from_str(&metadata).map_err(|error| error.to_string())?;
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let string = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let packages: HashMap<String, Value> = list(&metadata["packages"])
        .into_iter()
        .map(|package| (string(&package["id"]), package))
        .collect();
    let nodes: HashMap<String, Value> = list(&metadata["resolve"]["nodes"])
        .into_iter()
        .map(|node| (string(&node["id"]), node))
        .collect();
    let reference = |id: &String| {
        let package = &packages[id];
        format!(
            "pkg:cargo/{}@{}",
            string(&package["name"]),
            string(&package["version"])
        )
    };
    let mut open: Vec<String> = packages
        .iter()
        .filter(|(_, package)| SHIPPED.contains(&string(&package["name"]).as_str()))
        .map(|(id, _)| id.clone())
        .collect();
    if open.len() != SHIPPED.len() {
        return Err(format!("not all of {SHIPPED:?} are in the workspace"));
    }
    let mut seen = BTreeSet::new();
    while let Some(id) = open.pop() {
        if !seen.insert(id.clone()) {
            continue;
        }
        let on = dependencies.entry(reference(&id)).or_default();
        for dependency in list(&nodes[&id]["deps"]) {
            let linked = list(&dependency["dep_kinds"])
                .iter()
                .any(|kind| kind["kind"].is_null());
            if linked {
                let id = string(&dependency["pkg"]);
                on.insert(reference(&id));
                open.push(id);
            }
        }
        components.insert(
            reference(&id),
            component(&packages[&id], &reference(&id), &checksums),
        );
    }
    Ok(())
}

fn component(
    package: &Value,
    reference: &str,
    checksums: &HashMap<(String, String), String>,
) -> Value {
    let field = |name: &str| package[name].as_str().unwrap_or_default().to_owned();
    let mut component = json!({
        "type": "library",
        "bom-ref": reference,
        "purl": reference,
        "name": field("name"),
        "version": field("version"),
        // Older crates separate alternatives by a slash.
        "licenses": [{"expression": field("license").replace('/', " OR ")}],
    });
    if let Some(sum) = checksums.get(&(field("name"), field("version"))) {
        component["hashes"] = json!([{"alg": "SHA-256", "content": sum}]);
    }
    component
}
