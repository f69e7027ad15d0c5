//! The gate of the catch-ups of one database: one at a time, and none after the end.

use std::thread::{self, ThreadId};

use cairn_platform::sync::{Condvar, Mutex};
use cairn_types::{Error, Result};

/// The gate. Not a lock, because a callback within a catch-up may call back.
#[derive(Default)]
pub(crate) struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    running: Option<ThreadId>,
    has_ended: bool,
}

/// Reopens the gate when it is dropped.
struct Pass<'a>(&'a Gate);

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        self.0.state.lock().running = None;
        self.0.changed.notify_all();
    }
}

impl Gate {
    /// Runs `catch_up` when no other one is running.
    ///
    /// # Errors
    ///
    /// `Busy` within a catch-up of the same thread; `ShutdownInProgress` after the end; those of `catch_up`.
    pub(crate) fn pass(&self, catch_up: impl FnOnce() -> Result<()>) -> Result<()> {
        let this = thread::current().id();
        let mut state = self.state.lock();
        loop {
            if state.has_ended {
                return Err(Error::shutdown("the database is being closed"));
            }
            match state.running {
                None => break,
                Some(running) if running == this => {
                    return Err(Error::busy("a catch-up within a catch-up"));
                }
                Some(_) => self.changed.wait(&mut state),
            }
        }
        state.running = Some(this);
        drop(state);
        let _pass = Pass(self);
        catch_up()
    }

    /// True after the end.
    pub(crate) fn has_ended(&self) -> bool {
        self.state.lock().has_ended
    }

    /// Ends: a running catch-up is awaited, unless it is on this thread, and later ones fail.
    pub(crate) fn end(&self) {
        let this = thread::current().id();
        let mut state = self.state.lock();
        state.has_ended = true;
        while state.running.is_some_and(|running| running != this) {
            self.changed.wait(&mut state);
        }
    }
}
