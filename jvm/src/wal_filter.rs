//! `AbstractWalFilter`: a Java object that inspects the batches which recovery replays.

use std::collections::BTreeMap;
use std::sync::Arc;

use cairn_db::WriteBatch;
use cairn_options::Plugin;
use cairn_types::{FileNumber, WalDecision, WalFilter};
use jni_sys::{jlong, jvalue};

use crate::batch::Batch;
use crate::callee::Callee;
use crate::env::{Env, JString, Method, Object, Outcome};
use crate::handle::{Mut, New, Ref, create, take};
use crate::options::AllOptions;

/// A handle of a filter.
pub type WalFilterHandle = Arc<dyn WalFilter>;

struct JavaWalFilter {
    java: Callee,
    name: String,
    families: Method,
    record: Method,
}

pub fn new(env: Env, this: Object) -> Outcome<New<WalFilterHandle>> {
    let name = env.method_of(this, "name", "()Ljava/lang/String;")?;
    let name = env.text(JString(env.call_object(this, name, &[])?.0))?;
    let class = env.class("org/rocksdb/AbstractWalFilter")?;
    Ok(New(Arc::new(JavaWalFilter {
        name,
        families: env.method_of(
            this,
            "columnFamilyLogNumberMap",
            "(Ljava/util/Map;Ljava/util/Map;)V",
        )?,
        record: env.method(class, "logRecordFoundProxy", "(JLjava/lang/String;JJ)S")?,
        java: Callee::new(env, this)?,
    })))
}

pub fn set(_env: Env, mut options: Mut<AllOptions>, filter: Ref<WalFilterHandle>) {
    options.db.wal_filter = Plugin::Object(filter.clone());
}

impl WalFilter for JavaWalFilter {
    fn name(&self) -> &str {
        &self.name
    }

    fn families(&self, log_numbers: &BTreeMap<u32, FileNumber>, ids: &BTreeMap<String, u32>) {
        self.java.call(&self.name, |env| {
            let logs = env.map(log_numbers.iter().map(|(id, log)| {
                let id = env.boxed_int(id.cast_signed())?;
                Ok((id, env.boxed_long(log.0 as jlong)?))
            }))?;
            let ids = env.map(ids.iter().map(|(name, id)| {
                let name = Object(env.string(name)?.0);
                Ok((name, env.boxed_int(id.cast_signed())?))
            }))?;
            let arguments = [jvalue { l: logs.0 }, jvalue { l: ids.0 }];
            env.call_void(self.java.object(), self.families, &arguments)
        });
    }

    fn record(&self, log: FileNumber, path: &str, batch: &[u8]) -> WalDecision {
        let Ok(batch) = WriteBatch::from_data(batch) else {
            return WalDecision::Corrupted;
        };
        let answer = self.java.call(&self.name, |env| {
            // Valid until the method returns.
            let (old, new) = (
                create(Batch::new(batch)),
                create(Batch::new(WriteBatch::new())),
            );
            let arguments = env.string(path).map(|path| {
                [
                    jvalue { j: log.0 as jlong },
                    jvalue { l: path.0 },
                    jvalue { j: old },
                    jvalue { j: new },
                ]
            });
            let answer = arguments
                .and_then(|arguments| env.call_short(self.java.object(), self.record, &arguments));
            drop(take::<Batch>(old)?);
            let new = take::<Batch>(new)?;
            Ok((answer?, new.with(WriteBatch::clone)))
        });
        // The number of the option, and in the low byte 1 if the new batch replaces the old one.
        let (answer, new) = answer;
        match (answer >> 8, answer & 0xff) {
            (0, 0) => WalDecision::Continue,
            (0, _) => WalDecision::Change(new.data().to_vec()),
            (1, _) => WalDecision::Ignore,
            (2, _) => WalDecision::Stop,
            _ => WalDecision::Corrupted,
        }
    }
}
