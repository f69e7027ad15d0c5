//! `AbstractTraceWriter`: a Java object that receives a query trace.

use std::sync::Arc;

use cairn_db::{TraceOptions, TraceWriter};
use cairn_types::{Error, Result};
use jni_sys::{jlong, jvalue};

use crate::callee::Callee;
use crate::db::Database;
use crate::env::{Env, Method, Object, Outcome};
use crate::handle::{New, Ref, create, of, take};
use crate::slice::Slice;

/// A Java object that receives a trace.
pub struct JavaTraceWriter {
    java: Callee,
    write: Method,
    close: Method,
    file_size: Method,
}

/// The writer of one trace.
struct Writer(Arc<JavaTraceWriter>);

pub fn new(env: Env, this: Object) -> Outcome<New<Arc<JavaTraceWriter>>> {
    let class = env.class("org/rocksdb/AbstractTraceWriter")?;
    Ok(New(Arc::new(JavaTraceWriter {
        write: env.method(class, "writeProxy", "(J)S")?,
        close: env.method(class, "closeWriterProxy", "()S")?,
        file_size: env.method_of(this, "getFileSize", "()J")?,
        java: Callee::new(env, this)?,
    })))
}

pub fn start(
    _env: Env,
    db: Ref<Database>,
    max_trace_file_size: jlong,
    writer: jlong,
) -> Outcome<()> {
    let options = TraceOptions {
        max_trace_file_size: max_trace_file_size.cast_unsigned(),
        ..TraceOptions::default()
    };
    let shared = of::<Arc<JavaTraceWriter>>(writer)?.clone();
    db.db
        .start_trace(&options, || Ok(Box::new(Writer(shared))))?;
    // Java owns the handle until a trace has begun.
    take::<Arc<JavaTraceWriter>>(writer).map(drop)
}

pub fn end(_env: Env, db: Ref<Database>) -> Outcome<()> {
    Ok(db.db.end_trace()?)
}

impl Writer {
    /// Calls a method that returns a status: its code in the high byte and its subcode in the low one. An exception,
    /// which the traced operation must not throw, is written to the standard error stream.
    fn call(&self, call: impl FnOnce(Env, Object) -> Outcome<i16>) -> Result<()> {
        let java = &self.0.java;
        match java.notify("trace writer", |env| call(env, java.object())) {
            Some(0) => Ok(()),
            Some(status) => {
                let [subcode, code] = status.to_le_bytes();
                Err(Error::io_text(format!(
                    "the trace writer failed with status code {code} and subcode {subcode}"
                )))
            }
            None => Err(Error::aborted("the trace writer threw an exception")),
        }
    }
}

impl TraceWriter for Writer {
    fn write(&mut self, record: &[u8]) -> Result<()> {
        let write = self.0.write;
        self.call(|env, object| {
            // Valid until the method returns.
            let slice = create(Slice::owned(record.to_vec()));
            let status = env.call_short(object, write, &[jvalue { j: slice }]);
            drop(take::<Slice>(slice)?);
            status
        })
    }

    fn file_size(&self) -> u64 {
        let (java, size) = (&self.0.java, self.0.file_size);
        let size = java.notify("trace writer", |env| {
            env.call_long(java.object(), size, &[])
        });
        // The next record reports the failure.
        size.map_or(0, i64::cast_unsigned)
    }

    fn close(&mut self) -> Result<()> {
        let close = self.0.close;
        self.call(|env, object| env.call_short(object, close, &[]))
    }
}
