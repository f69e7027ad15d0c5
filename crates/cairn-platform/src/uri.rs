//! Environments by URI, for configuration files.
//!
//! The scheme before `://` selects a factory, which receives the rest of the URI. Two schemes are built in:
//! `posix://`, the operating system, and `mem://`, a new in-memory file system; neither accepts anything
//! after `://`. Applications and storage crates [register] further ones.

use std::collections::BTreeMap;
use std::sync::Arc;

use cairn_types::{Error, Result};

use crate::sync::Mutex;
use crate::world::World;

type Maker = Arc<dyn Fn(&str) -> Result<World> + Send + Sync>;

/// The registered schemes of the process, without the built-in ones.
static REGISTERED: Mutex<BTreeMap<String, Maker>> = Mutex::new(BTreeMap::new());

/// Registers `make` as the factory of environments with `scheme` for [`World::by_uri`], in the whole process.
/// `make` receives the text after `://`.
///
/// # Errors
///
/// `InvalidArgument` if the scheme is registered already, or invalid. A scheme is a lower-case letter
/// followed by lower-case letters, digits, `+`, `-` and `.` (RFC 3986, section 3.1).
pub fn register(
    scheme: &str,
    make: impl Fn(&str) -> Result<World> + Send + Sync + 'static,
) -> Result<()> {
    let is_scheme = scheme.starts_with(|first: char| first.is_ascii_lowercase())
        && scheme.bytes().all(|byte| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"+-.".contains(&byte)
        });
    if !is_scheme {
        return Err(Error::invalid_argument(format!(
            "{scheme:?} is not a URI scheme: expected a lower-case letter followed by lower-case letters, digits, +, - and ."
        )));
    }
    let mut registered = REGISTERED.lock();
    if built_in(scheme).is_some() || registered.contains_key(scheme) {
        return Err(Error::invalid_argument(format!(
            "the environment scheme {scheme:?} is already registered"
        )));
    }
    registered.insert(scheme.to_owned(), Arc::new(make));
    Ok(())
}

/// The factory of a built-in scheme.
fn built_in(scheme: &str) -> Option<fn() -> World> {
    match scheme {
        "posix" => Some(World::posix),
        "mem" => Some(World::in_memory),
        _ => None,
    }
}

impl World {
    /// The environment of `uri`: `posix://`, `mem://`, or one with a [registered](register) scheme.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if the text is not a URI, if its scheme is unknown, or if a built-in scheme is
    /// followed by more text; and those of the factory.
    pub fn by_uri(uri: &str) -> Result<World> {
        let Some((scheme, rest)) = uri.split_once("://") else {
            return Err(Error::invalid_argument(format!(
                "{uri:?} is not an environment URI: expected SCHEME://, such as posix://"
            )));
        };
        match built_in(scheme) {
            Some(make) if rest.is_empty() => return Ok(make()),
            Some(_) => {
                return Err(Error::invalid_argument(format!(
                    "the environment {scheme}:// must not be followed by {rest:?}"
                )));
            }
            None => {}
        }
        // Called without the lock: a factory may take long, and may register schemes.
        let make = REGISTERED.lock().get(scheme).cloned();
        match make {
            Some(make) => make(rest),
            None => Err(Error::invalid_argument(format!(
                "no environment has the scheme {scheme:?}: there are posix, mem and those that the \
                 program has registered"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::fs::FileMode;
    use crate::{FileSystem, MemFileSystem};

    #[test]
    fn environments_are_found_by_scheme() {
        let files = MemFileSystem::new();
        let made = files.clone();
        register("shelf+2", move |rest| {
            let made = made.clone();
            made.create_dir_all(&Path::new("/").join(rest))?;
            Ok(World {
                fs: Arc::new(made),
                ..World::posix()
            })
        })
        .unwrap();
        let world = World::by_uri("shelf+2://books/old").unwrap();
        assert!(files.exists(Path::new("/books/old")).unwrap());
        let path = Path::new("/books/old/one");
        let file = world.fs.create(path, FileMode::default()).unwrap();
        file.append(b"page").unwrap();
        file.close().unwrap();
        assert!(files.exists(path).unwrap());

        // Each in-memory file system is separate.
        let [one, other] = ["mem://"; 2].map(|uri| World::by_uri(uri).unwrap());
        one.fs.create_dir_all(Path::new("/here")).unwrap();
        assert!(!other.fs.exists(Path::new("/here")).unwrap());
        assert!(World::by_uri("posix://").is_ok());
    }

    #[test]
    fn invalid_environment_uris_are_rejected() {
        let refused = |uri| World::by_uri(uri).err().unwrap().to_string();
        assert!(refused("/a/path").contains("SCHEME://"));
        assert!(refused("nowhere://x").contains("\"nowhere\""));
        assert!(refused("mem://x").contains("\"x\""));

        let make = |_: &str| Ok(World::in_memory());
        for scheme in ["", "A", "1a", "a b", "a:"] {
            assert!(register(scheme, make).is_err(), "{scheme:?}");
        }
        assert!(register("posix", make).is_err());
        register("once", make).unwrap();
        let error = register("once", make).unwrap_err().to_string();
        assert!(error.contains("already registered"), "{error}");
    }
}
