//! The hand-over of completed work to the future that waits for it.
//!
//! A [`Flight`] is shared by a future and by those that work for it: each delivers its part, and the last one
//! wakes the future. If the future is dropped, later parts are freed as they arrive. A part is thus freed once,
//! by the future or by its worker, and never while a worker uses it.

use std::task::{Context, Poll, Waker};

use crate::sync::modelled::Mutex;

/// Work in progress whose parts have the type `T`.
pub(super) struct Flight<T> {
    state: Mutex<State<T>>,
}

struct State<T> {
    landed: Vec<T>,
    /// The number of parts that have not arrived.
    left: u32,
    waker: Option<Waker>,
    /// True once the future was dropped.
    abandoned: bool,
}

impl<T> Flight<T> {
    /// A flight of `parts` parts.
    pub(super) fn new(parts: usize) -> Flight<T> {
        Flight {
            state: Mutex::new(State {
                landed: Vec::new(),
                left: u32::try_from(parts).expect("a batch has fewer than 2^32 reads"),
                waker: None,
                abandoned: false,
            }),
        }
    }

    /// Delivers a part; `None` if it was lost or is only waited for.
    pub(super) fn land(&self, part: Option<T>) {
        let mut state = self.state.lock();
        debug_assert!(state.left > 0, "a flight has as many parts as announced");
        state.left -= 1;
        // Freed after the lock is released.
        let unwanted = match (state.abandoned, part) {
            (false, Some(part)) => {
                if state.landed.is_empty() {
                    // Most flights have one part, and thousands may wait for their tasks.
                    let parts = state.left as usize + 1;
                    state.landed.reserve_exact(parts);
                }
                state.landed.push(part);
                None
            }
            (_, unwanted) => unwanted,
        };
        let waker = match state.left {
            0 => state.waker.take(),
            _ => None,
        };
        drop(state);
        drop(unwanted);
        if let Some(waker) = waker {
            wake(waker);
        }
    }

    /// Takes the parts once all have arrived.
    pub(super) fn poll(&self, context: &Context<'_>) -> Poll<Vec<T>> {
        // Wakers are cloned and dropped without the lock: that is code of the executor.
        let mut waker = Some(context.waker().clone());
        let mut state = self.state.lock();
        if state.left == 0 {
            let landed = std::mem::take(&mut state.landed);
            drop(state);
            return Poll::Ready(landed);
        }
        std::mem::swap(&mut state.waker, &mut waker);
        drop(state);
        drop(waker);
        Poll::Pending
    }

    /// Frees the parts that have arrived, and those that will.
    pub(super) fn abandon(&self) {
        let mut state = self.state.lock();
        state.abandoned = true;
        let freed = (std::mem::take(&mut state.landed), state.waker.take());
        drop(state);
        drop(freed);
    }

    /// True if the parts are not wanted any more.
    pub(super) fn is_abandoned(&self) -> bool {
        self.state.lock().abandoned
    }
}

/// Wakes a task. A panic of its executor does not end the thread that serves other tasks.
fn wake(waker: Waker) {
    let woken = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| waker.wake()));
    // The executor has reported the panic.
    drop(woken);
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// A part that counts its drops.
    struct Part(Arc<AtomicUsize>);

    impl Drop for Part {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[cfg(not(shuttle))]
    #[test]
    fn the_last_part_wakes_the_newest_waker() {
        let flight = Flight::new(2);
        let (old, new) = (Arc::new(Woken::default()), Arc::new(Woken::default()));
        let wakers = [&old, &new].map(|woken| Waker::from(woken.clone()));
        for waker in &wakers {
            assert!(flight.poll(&Context::from_waker(waker)).is_pending());
        }
        flight.land(Some(1));
        assert_eq!(new.0.load(Ordering::SeqCst), 0);
        flight.land(Some(2));
        let woken = [&old, &new].map(|woken| woken.0.load(Ordering::SeqCst));
        assert_eq!(woken, [0, 1]);
        let polled = flight.poll(&Context::from_waker(&wakers[1]));
        assert_eq!(polled, Poll::Ready(vec![1, 2]));
    }

    #[cfg(not(shuttle))]
    #[test]
    fn a_panic_of_a_waker_is_contained() {
        struct Panics;
        impl Wake for Panics {
            fn wake(self: Arc<Self>) {
                panic!("a waker of a test");
            }
        }
        let flight = Flight::new(1);
        let waker = Waker::from(Arc::new(Panics));
        assert!(flight.poll(&Context::from_waker(&waker)).is_pending());
        flight.land(Some(()));
    }

    #[cfg(not(shuttle))]
    #[test]
    fn parts_of_an_abandoned_flight_are_freed_as_they_arrive() {
        let drops = Arc::new(AtomicUsize::new(0));
        let flight = Flight::new(2);
        flight.land(Some(Part(drops.clone())));
        flight.abandon();
        assert_eq!(drops.load(Ordering::SeqCst), 1);
        flight.land(Some(Part(drops.clone())));
        assert_eq!(drops.load(Ordering::SeqCst), 2);
        assert!(flight.is_abandoned());
    }

    #[cfg(shuttle)]
    mod models {
        use shuttle::thread;

        use super::*;

        /// Two workers land a part each while a third thread polls until it is woken, or abandons the
        /// flight after `polls` polls.
        fn explore(polls: usize) {
            shuttle::check_pct(
                move || {
                    let drops = Arc::new(AtomicUsize::new(0));
                    let flight = Arc::new(Flight::new(2));
                    let workers: Vec<_> = (0..2)
                        .map(|_| {
                            let (flight, drops) = (flight.clone(), drops.clone());
                            thread::spawn(move || flight.land(Some(Part(drops))))
                        })
                        .collect();
                    let woken = Arc::new(Woken::default());
                    let waker = Waker::from(woken.clone());
                    let mut got = None;
                    for _ in 0..polls {
                        if let Poll::Ready(parts) = flight.poll(&Context::from_waker(&waker)) {
                            got = Some(parts);
                            break;
                        }
                        thread::yield_now();
                    }
                    if got.is_none() && polls < 3 {
                        flight.abandon();
                    }
                    workers
                        .into_iter()
                        .for_each(|worker| worker.join().unwrap());
                    if let Some(parts) = &got {
                        assert_eq!((parts.len(), drops.load(Ordering::SeqCst)), (2, 0));
                    } else if polls >= 3 {
                        // Pending at its last poll: woken since.
                        assert_eq!(woken.0.load(Ordering::SeqCst), 1);
                        let parts = flight.poll(&Context::from_waker(&waker));
                        assert!(matches!(parts, Poll::Ready(parts) if parts.len() == 2));
                    }
                    drop((got, flight));
                    assert_eq!(drops.load(Ordering::SeqCst), 2, "each part is freed once");
                },
                3_000,
                3,
            );
        }

        #[test]
        fn shuttle_parts_are_handed_over_or_freed() {
            for polls in 0..4 {
                explore(polls);
            }
        }
    }
}
