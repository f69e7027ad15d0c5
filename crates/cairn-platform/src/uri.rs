//! Worlds by URI: where files lie, as a text that a configuration can hold.
//!
//! What stands before `://` is a scheme, and the scheme says who makes the world out of what stands behind
//! it. Two are there from the beginning: `posix://`, the machine, and `mem://`, files in new memory; neither
//! takes anything behind it. A program, or a crate that brings other storage, [registers](register) its own.

use std::collections::BTreeMap;
use std::sync::Arc;

use cairn_types::{Error, Result};

use crate::sync::Mutex;
use crate::world::World;

type Maker = Arc<dyn Fn(&str) -> Result<World> + Send + Sync>;

/// The schemes of the process, but for those that are there from the beginning.
static REGISTERED: Mutex<BTreeMap<String, Maker>> = Mutex::new(BTreeMap::new());

/// Lets [`World::by_uri`] ask `make` for the worlds of `scheme`, from now on and in all of the process; `make`
/// is given what stands behind `://`.
///
/// # Errors
///
/// `InvalidArgument` if the scheme is taken, or is no scheme: a small letter, and then small letters, digits,
/// `+`, `-` and `.` (RFC 3986, section 3.1).
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
            "{scheme:?} is no scheme of a URI: small letters, digits, +, - and . behind a small letter"
        )));
    }
    let mut registered = REGISTERED.lock();
    if built_in(scheme).is_some() || registered.contains_key(scheme) {
        return Err(Error::invalid_argument(format!(
            "the scheme {scheme:?} of environments is taken"
        )));
    }
    registered.insert(scheme.to_owned(), Arc::new(make));
    Ok(())
}

/// Who makes the worlds of a scheme that is there from the beginning.
fn built_in(scheme: &str) -> Option<fn() -> World> {
    match scheme {
        "posix" => Some(World::posix),
        "mem" => Some(World::in_memory),
        _ => None,
    }
}

impl World {
    /// The world that `uri` names: `posix://`, `mem://`, or one of a [registered](register) scheme.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if the text is no URI, nobody has registered its scheme, or something stands behind a
    /// scheme that takes nothing; those of who makes the world.
    pub fn by_uri(uri: &str) -> Result<World> {
        let Some((scheme, rest)) = uri.split_once("://") else {
            return Err(Error::invalid_argument(format!(
                "{uri:?} names no environment: SCHEME:// is expected, such as posix://"
            )));
        };
        match built_in(scheme) {
            Some(make) if rest.is_empty() => return Ok(make()),
            Some(_) => {
                return Err(Error::invalid_argument(format!(
                    "the environment {scheme}:// takes nothing behind it, but {rest:?} was given"
                )));
            }
            None => {}
        }
        // Whoever makes worlds may register schemes, and takes as long as it takes.
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
    fn a_world_is_found_by_its_scheme() {
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

        // Each memory is one of its own.
        let [one, other] = ["mem://"; 2].map(|uri| World::by_uri(uri).unwrap());
        one.fs.create_dir_all(Path::new("/here")).unwrap();
        assert!(!other.fs.exists(Path::new("/here")).unwrap());
        assert!(World::by_uri("posix://").is_ok());
    }

    #[test]
    fn what_names_no_world_is_refused() {
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
        assert!(error.contains("taken"), "{error}");
    }
}
