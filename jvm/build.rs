//! Generates the native methods from `methods.txt`, the table of all native methods of the Java classes, and from
//! `test_methods.txt`, that of RocksJava's unit tests.
//!
//! ```text
//! [RocksDB]                                 a class of the package org.rocksdb, or of one below it
//! delete (J[BII)V = writes::delete          a function: its types must be those of the descriptor
//! allowWriteStall (J)Z = get FlushOptions allow_write_stall
//! setWaitForFlush (JZ)V = set FlushOptions wait
//! createNewHandler0 ()J = this batch::new_handler     passes the object too
//! getReadBytes (J)J = perf GetReadBytes               a counter of the calling thread
//! newPersistentCache (JLjava/lang/String;JJZ)J    not implemented: throws RocksDBException
//! ```
//!
//! Each method is exported under its long name, which contains the descriptor: the virtual machine looks for it
//! after the short one, and overloads of two releases do not collide.

#![expect(
    clippy::disallowed_methods,
    reason = "a build script, which runs outside of the engine"
)]

use std::fmt::Write;
use std::path::Path;

fn main() {
    println!("cargo::rerun-if-changed=methods.txt");
    println!("cargo::rerun-if-changed=test_methods.txt");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,librocksdbjni.so");
    // The virtual machine unloads a library with the class loader that loaded it. The threads of the engine stay.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    let [table, tests] = ["methods.txt", "test_methods.txt"]
        .map(|name| std::fs::read_to_string(name).expect("the tables are parts of the package"));
    let mut code = String::new();
    let mut class = "";
    for line in table.lines().chain(tests.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(name) = line.strip_prefix('[') {
            class = name.trim_end_matches(']');
            continue;
        }
        method(&mut code, class, line);
    }
    let out = std::env::var("OUT_DIR").expect("set by cargo");
    std::fs::write(Path::new(&out).join("natives.rs"), code).expect("the directory is writable");
}

/// The name of a symbol: RFC "Resolving Native Method Names" of the JNI specification.
fn mangled(text: &str) -> String {
    let mut name = String::new();
    for c in text.chars() {
        match c {
            '/' => name.push('_'),
            '_' => name.push_str("_1"),
            ';' => name.push_str("_2"),
            '[' => name.push_str("_3"),
            c if c.is_ascii_alphanumeric() => name.push(c),
            c => write!(name, "_0{:04x}", u32::from(c)).expect("a string grows"),
        }
    }
    name
}

/// The Rust type of a Java type at the start of `text`, and the rest.
fn java_type(text: &str) -> (&'static str, &str) {
    const TYPES: [(&str, &str); 18] = [
        ("J", "jlong"),
        ("I", "jint"),
        ("Z", "bool"),
        ("B", "jbyte"),
        ("C", "jchar"),
        ("D", "f64"),
        ("V", "()"),
        ("[[B", "ObjectArray"),
        ("[B", "ByteArray"),
        ("[I", "IntArray"),
        ("[J", "LongArray"),
        ("[Ljava/nio/ByteBuffer;", "ObjectArray"),
        ("[Ljava/lang/String;", "ObjectArray"),
        ("Ljava/lang/String;", "JString"),
        ("Ljava/nio/ByteBuffer;", "ByteBuffer"),
        ("Ljava/util/List;", "Object"),
        ("Ljava/util/Map;", "Object"),
        ("[L", ""),
    ];
    for (java, rust) in TYPES {
        if let Some(rest) = text.strip_prefix(java) {
            if java == "[L" {
                break;
            }
            return (rust, rest);
        }
    }
    let array = text.starts_with("[L");
    let end = text.find(';').expect("a class name ends with ;");
    (
        if array { "ObjectArray" } else { "Object" },
        &text[end + 1..],
    )
}

fn method(code: &mut String, class: &str, line: &str) {
    let (signature, target) = match line.split_once(" = ") {
        Some((signature, target)) => (signature, Some(target)),
        None => (line, None),
    };
    let (name, descriptor) = signature.split_once(' ').expect("name and descriptor");
    let (arguments, result) = descriptor[1..].split_once(')').expect("a descriptor");
    let mut types = Vec::new();
    let mut rest = arguments;
    while !rest.is_empty() {
        let (kind, left) = java_type(rest);
        types.push(kind);
        rest = left;
    }
    let (result, _) = java_type(result);
    let symbol = format!(
        "Java_{}_{}__{}",
        mangled(&format!("org/rocksdb/{class}")),
        mangled(name),
        mangled(arguments)
    );
    let parameters: String = types
        .iter()
        .enumerate()
        .map(|(at, kind)| format!(", a{at}: {kind}"))
        .collect();
    let body = match target
        .map(|target| target.split(' ').collect::<Vec<_>>())
        .as_deref()
    {
        None => format!("Err(crate::env::not_built(\"{class}.{name}\"))"),
        Some(["get", kind, field]) => {
            format!("crate::scalar::get(&crate::handle::of::<crate::{kind}>(a0)?.{field})")
        }
        Some(["set", kind, field]) => {
            format!(
                "crate::scalar::set(&mut crate::handle::of_mut::<crate::{kind}>(a0)?.{field}, a1, \"{class}.{name}\")"
            )
        }
        Some(["perf", metric]) => {
            format!("crate::objects::perf(cairn_observe::perf::PerfMetric::{metric}, a0)")
        }
        Some(["this", function]) => {
            let arguments: String = (0..types.len())
                .map(|at| format!(", arg(a{at})?"))
                .collect();
            format!("crate::{function}(env, this{arguments}).outcome()")
        }
        Some([function]) => {
            let arguments: String = (0..types.len())
                .map(|at| format!(", arg(a{at})?"))
                .collect();
            format!("crate::{function}(env{arguments}).outcome()")
        }
        Some(other) => panic!("{class}.{name}: {other:?}"),
    };
    let arrow = if result == "()" { "" } else { "-> " };
    let result = if result == "()" { "" } else { result };
    let unused: String = (0..types.len()).map(|at| format!("a{at}, ")).collect();
    let env = if body.contains("(env") { "env" } else { "_env" };
    let ignore = match target {
        None => format!("let _ = ({unused});"),
        Some(_) => String::new(),
    };
    writeln!(
        code,
        "#[unsafe(no_mangle)] extern \"system\" fn {symbol}(env: Env, this: Object{parameters}) {arrow}{result} \
         {{ {ignore} crate::env::call(env, this, |{env}| {body}) }}"
    )
    .expect("a string grows");
}
