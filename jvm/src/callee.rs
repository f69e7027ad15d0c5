//! Objects of Java that the engine calls.

use std::cell::Cell;

use cairn_types::Error;

use crate::env::{Env, Global, Method, Object, Outcome, attached};

thread_local! {
    /// The class loader of the running callback.
    static LOADER: Cell<Option<Loader>> = const { Cell::new(None) };
}

/// A class loader as the threads of the engine, which have none, use it: a global reference, and the method `loadClass`.
#[derive(Clone, Copy)]
pub struct Loader {
    pub object: Object,
    pub load: Method,
}

/// The class loader of the running callback of this thread.
pub fn loader() -> Option<Loader> {
    LOADER.get()
}

/// An object that the engine calls, with the class loader of RocksJava's classes.
pub struct Callee {
    object: Global,
    loader: Option<(Global, Method)>,
}

/// Restores the class loader of an outer callback.
struct Restore(Option<Loader>);

impl Drop for Restore {
    fn drop(&mut self) {
        LOADER.set(self.0);
    }
}

impl Callee {
    /// The callee `object`.
    pub fn new(env: Env, object: Object) -> Outcome<Callee> {
        let class = Object(env.class("org/rocksdb/RocksObject")?);
        let get = env.method_of(class, "getClassLoader", "()Ljava/lang/ClassLoader;")?;
        let loader = env.call_object(class, get, &[])?;
        let loader = match loader.is_null() {
            true => None,
            false => {
                let load = "(Ljava/lang/String;)Ljava/lang/Class;";
                Some((
                    env.global(loader),
                    env.method_of(loader, "loadClass", load)?,
                ))
            }
        };
        Ok(Callee {
            object: env.global(object),
            loader,
        })
    }

    /// The object.
    pub fn object(&self) -> Object {
        self.object.object()
    }

    fn run<T>(&self, work: impl FnOnce(Env) -> Outcome<T>, fail: impl FnOnce(Env)) -> Option<T> {
        let loader = self.loader.as_ref().map(|(object, load)| Loader {
            object: object.object(),
            load: *load,
        });
        let _restore = Restore(LOADER.replace(loader));
        attached(|env| {
            let done = env.frame(|| work(env));
            // A thread of the engine never returns to Java, which would release what `fail` leaves.
            done.inspect_err(|_| env.frame_of_exception(|| fail(env)))
                .ok()
        })
        .flatten()
    }

    /// Calls Java. An exception is written to the standard error stream, and the result is then `None`.
    pub fn notify<T>(&self, name: &str, work: impl FnOnce(Env) -> Outcome<T>) -> Option<T> {
        self.run(work, |env| {
            eprintln!("librocksdbjni (Cairn): {name}: {}", env.take_exception());
        })
    }

    /// Calls Java. An exception becomes a panic with an [`Error`]: the engine fails the job or operation with it, and
    /// a native method on the stack of this thread throws the exception itself ([`call`]).
    pub fn call<T>(&self, name: &str, work: impl FnOnce(Env) -> Outcome<T>) -> T {
        let mut text = None;
        let result = self.run(work, |env| text = Some(env.keep_exception(name)));
        result.unwrap_or_else(|| {
            let text = text.unwrap_or_else(|| format!("{name}: no virtual machine"));
            std::panic::resume_unwind(Box::new(Error::aborted(text)))
        })
    }
}
