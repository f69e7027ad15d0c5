//! The files of the packages, below one prefix.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Build, copy, failed, write};
use crate::commands::{fresh, printed, read};
use crate::install::{self, Place};

/// The gathered files.
pub struct Tree {
    /// `bin`, `include`, `lib` and `share`, as in the tarball.
    pub prefix: PathBuf,
}

/// Files of the root that the packages contain.
const DOCUMENTS: [&str; 4] = ["README.md", "CHANGELOG.md", "LICENSE-MIT", "LICENSE-APACHE"];

/// Installs libraries, headers, the tool, its manual pages and its completions below a prefix.
pub fn gather(build: &Build) -> Result<Tree, String> {
    let staging = build.work.join("tree");
    fresh(&staging)?;
    let place = Place {
        prefix: PathBuf::from("/prefix"),
        libdir: "lib".to_owned(),
        staging: Some(staging.clone().into_os_string()),
        debug: false,
    };
    install::install_from(&build.root, &place, &build.built())?;
    // The path of the staging directory is longer than that of the root, which the join keeps.
    let prefix = staging.join("prefix");
    relocatable(&prefix.join("lib/pkgconfig/rocksdb.pc"))?;

    let tool = prefix.join("bin/cairn");
    copy(&build.built().join("cairn"), &tool)?;
    printed(Command::new("strip").arg(&tool))?;
    let generated = build.work.join("generated");
    fresh(&generated)?;
    printed(Command::new(&tool).arg("generate").arg(&generated))?;
    let share = prefix.join("share");
    for entry in fs::read_dir(generated.join("man1"))
        .map_err(failed(&generated))?
        .flatten()
    {
        let page = share.join("man/man1").join(entry.file_name());
        copy(&entry.path(), &page)?;
        printed(Command::new("gzip").arg("-9nf").arg(&page))?;
    }
    for (from, to) in [
        ("cairn.bash", "bash-completion/completions/cairn"),
        ("_cairn", "zsh/vendor-completions/_cairn"),
        ("cairn.fish", "fish/vendor_completions.d/cairn.fish"),
    ] {
        copy(&generated.join("completions").join(from), &share.join(to))?;
    }
    for document in DOCUMENTS {
        copy(
            &build.root.join(document),
            &share.join("doc/cairn").join(document),
        )?;
    }
    Ok(Tree { prefix })
}

/// Makes the prefix of a pkg-config file the directory that it lies in.
fn relocatable(file: &Path) -> Result<(), String> {
    let text = read(file)?;
    let (_, rest) = text.split_once('\n').ok_or("rocksdb.pc has lines")?;
    write(file, &format!("prefix=${{pcfiledir}}/../..\n{rest}"))
}
