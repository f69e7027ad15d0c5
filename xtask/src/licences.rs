//! Licences of everything we link: each is on the list of `deny.toml`.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// Tools that run and are linked into nothing we ship, with their licences: the exceptions of
/// `deny.toml`.
const TOOLS: [(&str, &str); 1] = [("cbindgen", "MPL-2.0")];

/// Checks every package of the lock file.
pub fn run(root: &Path) -> Result<(), String> {
    let allowed = allowed(root)?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let arguments = ["metadata", "--format-version", "1", "--locked"];
    let output = Command::new(cargo)
        .args(arguments)
        .current_dir(root)
        .output();
    let output = output.map_err(|error| format!("cargo metadata: {error}"))?;
    if !output.status.success() {
        return Err(format!(
            "cargo metadata: {}",
            String::from_utf8_lossy(&output.stderr)
        ));
    }
    let metadata: Value =
        serde_json::from_slice(&output.stdout).map_err(|error| format!("metadata: {error}"))?;
    let packages = metadata["packages"]
        .as_array()
        .ok_or("metadata has no packages")?;
    let mut refused = Vec::new();
    for package in packages {
        let licence = package["license"].as_str().unwrap_or("none given");
        let name = package["name"].as_str().unwrap_or("?");
        if !accepts(licence, &allowed) && !TOOLS.contains(&(name, licence)) {
            refused.push(format!("{name} ({licence})"));
        }
    }
    if refused.is_empty() {
        println!(
            "licences: {} packages, all on the list of deny.toml",
            packages.len()
        );
        return Ok(());
    }
    Err(format!(
        "licences that deny.toml does not allow: {}",
        refused.join(", ")
    ))
}

/// The strings of `allow = [...]` in `deny.toml`.
fn allowed(root: &Path) -> Result<Vec<String>, String> {
    let file = root.join("deny.toml");
    let text = std::fs::read_to_string(file).map_err(|error| format!("deny.toml: {error}"))?;
    let list = text
        .split("allow = [")
        .nth(1)
        .and_then(|rest| rest.split(']').next());
    let list = list.ok_or("deny.toml has no list of allowed licences")?;
    Ok(list
        .split('"')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect())
}

/// Whether the SPDX expression can be met with allowed licences: one side of an OR, all of an AND.
fn accepts(expression: &str, allowed: &[String]) -> bool {
    let expression = expression.replace('/', " OR ");
    let plain = expression.replace(['(', ')'], "");
    let meets_all = |part: &str| {
        part.split(" AND ")
            .all(|name| allowed.iter().any(|known| known == name.trim()))
    };
    if expression.contains('(') {
        // With brackets an AND joins groups: every group must have an allowed member.
        return expression.split(" AND ").all(|group| {
            let group = group.replace(['(', ')'], "");
            group.split(" OR ").any(&meets_all)
        });
    }
    plain.split(" OR ").any(meets_all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_side_of_a_choice_is_enough() {
        let allowed = ["MIT".to_owned(), "Unicode-3.0".to_owned()];
        assert!(accepts("MIT OR Apache-2.0", &allowed));
        assert!(accepts("MIT/Apache-2.0", &allowed));
        assert!(accepts("(MIT OR Apache-2.0) AND Unicode-3.0", &allowed));
        assert!(!accepts("(Apache-2.0) AND Unicode-3.0", &allowed));
        assert!(!accepts("GPL-3.0", &allowed));
    }
}
