//! Gives the shared library the name under which programs find it at run time.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,librocksdb.so.11");
}
