//! Sources of published crates, fetched by cargo.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::commands::{fresh, output};

/// The directory with the sources of the crate `name` at the exact `version`. `patch` is appended to a
/// manifest in `scratch`, outside of the workspace, that depends on the crate.
pub fn source(scratch: &Path, name: &str, version: &str, patch: &str) -> Result<PathBuf, String> {
    fresh(&scratch.join("src"))?;
    let manifest = format!(
        "[package]\nname = \"probe\"\nversion = \"0.0.0\"\nedition = \"2021\"\n\n\
         [dependencies]\n{name} = \"={version}\"\n\n{patch}\n[workspace]\n"
    );
    std::fs::write(scratch.join("Cargo.toml"), manifest).map_err(|error| error.to_string())?;
    std::fs::write(scratch.join("src/lib.rs"), "").map_err(|error| error.to_string())?;
    let found = output(
        Command::new("cargo")
            .args(["metadata", "--format-version", "1"])
            .current_dir(scratch),
    )?;
    let failed = || {
        let words = String::from_utf8_lossy(&found.stderr).into_owned();
        format!("the crate {name} {version} cannot be fetched: {words}")
    };
    let metadata: serde_json::Value =
        serde_json::from_slice(&found.stdout).map_err(|_| failed())?;
    let packages = metadata["packages"].as_array();
    let package = packages.and_then(|all| all.iter().find(|package| package["name"] == name));
    let manifest = package.and_then(|package| package["manifest_path"].as_str());
    let folder = manifest.and_then(|path| Path::new(path).parent());
    folder.map(Path::to_owned).ok_or_else(failed)
}
