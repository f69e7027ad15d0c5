//! `ConcurrentTaskLimiterImpl`.

use std::sync::Arc;

use cairn_platform::ConcurrentTaskLimiter;
use jni_sys::{jint, jlong};

use crate::env::{Env, JString, Outcome};
use crate::handle::{New, Ref};

pub fn create(env: Env, name: JString, max: jint) -> Outcome<New<Arc<ConcurrentTaskLimiter>>> {
    let name = env.text(name)?;
    Ok(New(Arc::new(ConcurrentTaskLimiter::new(&name, max))))
}

pub fn destroy(env: Env, handle: jlong) -> Outcome<()> {
    crate::handle::destroy::<Arc<ConcurrentTaskLimiter>>(env, handle)
}

pub fn name(env: Env, limiter: Ref<Arc<ConcurrentTaskLimiter>>) -> Outcome<JString> {
    env.string(limiter.name())
}

pub fn set_max(_env: Env, limiter: Ref<Arc<ConcurrentTaskLimiter>>, max: jint) {
    limiter.set_max_outstanding_tasks(max);
}

pub fn reset_max(_env: Env, limiter: Ref<Arc<ConcurrentTaskLimiter>>) {
    limiter.set_max_outstanding_tasks(-1);
}

pub fn outstanding(_env: Env, limiter: Ref<Arc<ConcurrentTaskLimiter>>) -> jint {
    jint::try_from(limiter.outstanding_tasks()).unwrap_or(jint::MAX)
}
