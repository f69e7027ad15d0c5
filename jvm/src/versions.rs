//! The versions of the Java classes that the library serves.
//!
//! The classes have no version number of their own. The constructor of a table format takes one argument per option of
//! tables, so that its descriptor differs between releases.

use crate::env::{Env, Fail, JString, Object, Outcome};

/// A native method with its descriptor in each release that the library serves.
const CLASS: &str = "org/rocksdb/BlockBasedTableConfig";
const METHOD: &str = "newTableFactoryHandle";
const DESCRIPTORS: [&str; 2] = [
    "(ZZZZBBDBZJJJIIIJZZZJZZIIZDZZJJBBJI)J",
    "(ZZZZBBDBZJJJIIIJZZZJZZIIZZBJI)J",
];

/// Checks that the classes of the loading class loader are those of a release that the library serves.
///
/// # Errors
///
/// An `IllegalStateException` that names the jar. It ends the search for libraries, which would find that of the jar.
pub fn check(env: Env) -> Outcome<()> {
    let Ok(class) = env.class(CLASS) else {
        // A program may leave out classes that it does not use.
        env.take_exception();
        return Ok(());
    };
    if DESCRIPTORS
        .iter()
        .any(|descriptor| env.has_method(class, METHOD, descriptor))
    {
        return Ok(());
    }
    let origin = origin(env, Object(class)).unwrap_or_else(|_| {
        env.take_exception();
        "an unknown jar".to_owned()
    });
    Err(Fail::Java(
        "java/lang/IllegalStateException",
        format!(
            "the classes of RocksJava in {origin} do not fit this library (Cairn), which is for \
             org.rocksdb:rocksdbjni:11.1.1 and 10.1.3, and com.ververica:frocksdbjni:8.10.0-ververica-1.0"
        ),
    ))
}

/// The location of the jar of a class.
fn origin(env: Env, class: Object) -> Outcome<String> {
    let get = |object: Object, name: &str, descriptor: &str| {
        let method = env.method_of(object, name, descriptor)?;
        env.call_object(object, method, &[])
    };
    let domain = get(
        class,
        "getProtectionDomain",
        "()Ljava/security/ProtectionDomain;",
    )?;
    let source = get(domain, "getCodeSource", "()Ljava/security/CodeSource;")?;
    if source.is_null() {
        return Ok("an unknown jar".to_owned());
    }
    let location = get(source, "getLocation", "()Ljava/net/URL;")?;
    let text = get(location, "toString", "()Ljava/lang/String;")?;
    env.text(JString(text.0))
}
