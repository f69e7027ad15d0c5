//! Handles: what C programs hold instead of objects.
//!
//! A handle points to a *shell*: a word that says whether the object lives, and the object. A shell
//! is never given back to the allocator, only used again, oldest first, for an object of the same
//! type; so a program that uses a handle after it was destroyed reads a word that says so, and
//! ends with a message instead of with corrupted memory (unless the shell has a new object by
//! then). The shells of a type cost the memory of the most objects that ever lived at once, and of
//! some that rest in each thread: a thread uses its own first, so that handles that live for one
//! call take no lock.

use std::cell::{RefCell, UnsafeCell};
use std::collections::VecDeque;
use std::mem::MaybeUninit;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use std::thread::LocalKey;

use cairn_platform::sync::Mutex;

/// The word of a shell whose object lives. Unlikely in memory that is no shell.
const LIVE: u64 = 0x6361_6972_6e6c_6976;
/// The word of a shell whose object is gone.
const DEAD: u64 = 0x6361_6972_6e64_6561;

/// What a handle points to.
pub struct Shell<T> {
    word: AtomicU64,
    object: UnsafeCell<MaybeUninit<T>>,
}

/// The shells of one type that wait for a new object, as addresses.
pub struct Shells {
    free: Mutex<VecDeque<usize>>,
}

/// Freed shells that rest at least this long, counted in later destructions, before they are used
/// again.
const REST: usize = 64;

/// Shells that rest in one thread before they are given to all.
const OWN: usize = 4 * REST;

impl Shells {
    /// No shells yet.
    pub const fn new() -> Shells {
        Shells {
            free: Mutex::new(VecDeque::new()),
        }
    }

    fn pop(&self) -> Option<usize> {
        let mut free = self.free.lock();
        (free.len() > REST).then(|| free.pop_front()).flatten()
    }
}

/// The shells of one type that objects of this thread have left, oldest first.
pub struct OwnShells {
    own: RefCell<VecDeque<usize>>,
    all: &'static Shells,
}

impl OwnShells {
    /// None yet; `all` are those of the type.
    pub const fn new(all: &'static Shells) -> OwnShells {
        OwnShells {
            own: RefCell::new(VecDeque::new()),
            all,
        }
    }

    fn pop(&self) -> Option<usize> {
        let mut own = self.own.borrow_mut();
        (own.len() > REST).then(|| own.pop_front()).flatten()
    }

    fn push(&self, shell: usize) {
        let mut own = self.own.borrow_mut();
        own.push_back(shell);
        if own.len() > OWN {
            // A thread that destroys what others create keeps none from them.
            self.all.free.lock().extend(own.drain(..OWN - REST));
        }
    }
}

impl Drop for OwnShells {
    fn drop(&mut self) {
        self.all.free.lock().extend(self.own.get_mut().drain(..));
    }
}

/// A type of handle.
///
/// # Safety
///
/// Pointers to the type point to a `Shell<Self::Object>`.
pub unsafe trait Handle: Sized {
    /// What stands behind the handle.
    type Object: 'static;
    /// The C type.
    const NAME: &'static str;
    /// The shells of this type.
    fn shells() -> &'static Shells;
    /// Those of them that rest in this thread.
    fn own_shells() -> &'static LocalKey<OwnShells>;
}

/// Declares types of handles: `name = object;`.
macro_rules! handles {
    ($($(#[$doc:meta])* $name:ident = $object:ty;)+) => {$(
        $(#[$doc])*
        pub struct $name(());

        // SAFETY: pointers to the type are only made by `create`, from shells of the object.
        unsafe impl $crate::handle::Handle for $name {
            type Object = $object;
            const NAME: &'static str = stringify!($name);
            fn shells() -> &'static $crate::handle::Shells {
                static SHELLS: $crate::handle::Shells = $crate::handle::Shells::new();
                &SHELLS
            }
            fn own_shells() -> &'static std::thread::LocalKey<$crate::handle::OwnShells> {
                thread_local! {
                    static OWN: $crate::handle::OwnShells =
                        $crate::handle::OwnShells::new($name::shells());
                }
                &OWN
            }
        }
    )+};
}

/// Ends the process: the program misused the interface in a way that has no other answer.
#[cold]
pub fn misuse(what: &str) -> ! {
    eprintln!("librocksdb (Cairn): {what}");
    std::process::abort()
}

#[cold]
fn not_alive<H: Handle>(handle: *const H, word: Option<u64>) -> ! {
    misuse(&match word {
        None => format!("a null {} was passed where one is needed", H::NAME),
        Some(DEAD) => format!(
            "the {} at {handle:p} is used after it was destroyed",
            H::NAME
        ),
        Some(_) => format!("the pointer {handle:p} is not a {}", H::NAME),
    })
}

/// A new handle of `object`.
pub fn create<H: Handle>(object: H::Object) -> *mut H {
    // A thread that ends has no shells of its own any more.
    let own = H::own_shells().try_with(OwnShells::pop).ok().flatten();
    let shell = match own.or_else(|| H::shells().pop()) {
        Some(address) => address as *mut Shell<H::Object>,
        None => Box::into_raw(Box::new(Shell {
            word: AtomicU64::new(DEAD),
            object: UnsafeCell::new(MaybeUninit::uninit()),
        })),
    };
    // SAFETY: the shell came from a box that is never freed, and it is in no list: nobody else has
    // it until the word says so.
    unsafe {
        (*(*shell).object.get()).write(object);
        (*shell).word.store(LIVE, Release);
    }
    shell.cast()
}

/// The shell behind `handle`, whose object lives.
///
/// # Safety
///
/// `handle` is null or came from [`create`].
#[inline]
unsafe fn living<'a, H: Handle>(handle: *const H) -> &'a Shell<H::Object> {
    if handle.is_null() {
        not_alive(handle, None);
    }
    // SAFETY: the pointer came from `create`, whose shells stay readable for ever.
    let shell = unsafe { &*handle.cast::<Shell<H::Object>>() };
    let word = shell.word.load(Acquire);
    if word != LIVE {
        not_alive(handle, Some(word));
    }
    shell
}

/// The object behind `handle`.
///
/// # Safety
///
/// `handle` is null or came from [`create`]; nobody destroys or changes the object meanwhile.
#[inline]
pub unsafe fn of<'a, H: Handle>(handle: *const H) -> &'a H::Object {
    // SAFETY: the object lives (checked), and by the caller's promise nobody writes to it.
    unsafe { (*living(handle).object.get()).assume_init_ref() }
}

/// The object behind `handle`, to be changed.
///
/// # Safety
///
/// Those of [`of`], and nobody else uses the handle meanwhile.
#[inline]
pub unsafe fn of_mut<'a, H: Handle>(handle: *mut H) -> &'a mut H::Object {
    // SAFETY: the object lives (checked), and by the caller's promise nobody else uses it.
    unsafe { (*living(handle.cast_const()).object.get()).assume_init_mut() }
}

/// The object behind `handle`, or `None` for null.
///
/// # Safety
///
/// Those of [`of`].
#[inline]
pub unsafe fn maybe<'a, H: Handle>(handle: *const H) -> Option<&'a H::Object> {
    // SAFETY: the caller's promise.
    (!handle.is_null()).then(|| unsafe { of(handle) })
}

/// Ends the handle and returns its object.
///
/// # Safety
///
/// Those of [`of_mut`].
pub unsafe fn take<H: Handle>(handle: *mut H) -> H::Object {
    // SAFETY: the caller's promise.
    let shell = unsafe { living(handle.cast_const()) };
    if let Err(word) = shell.word.compare_exchange(LIVE, DEAD, AcqRel, Acquire) {
        not_alive(handle.cast_const(), Some(word));
    }
    // SAFETY: this thread changed the word, so the object is its to take, once.
    let object = unsafe { (*shell.object.get()).assume_init_read() };
    let rests = H::own_shells().try_with(|own| own.push(handle as usize));
    if rests.is_err() {
        H::shells().free.lock().push_back(handle as usize);
    }
    object
}

/// Ends the handle and drops its object; null is passed over, as C++'s `delete` does.
///
/// # Safety
///
/// Those of [`of_mut`].
pub unsafe fn destroy<H: Handle>(handle: *mut H) {
    if !handle.is_null() {
        // SAFETY: the caller's promise.
        drop(unsafe { take(handle) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    handles! {
        /// A handle of a number.
        number_t = u64;
    }

    fn number(of: u64) -> usize {
        create::<number_t>(of) as usize
    }

    fn end(handle: usize) -> u64 {
        // SAFETY: the handle came from `number` and is ended once.
        unsafe { take(handle as *mut number_t) }
    }

    #[test]
    fn shells_rest_and_are_used_again_in_every_thread() {
        let first = number(7);
        assert_eq!(end(first), 7);
        for i in 0..REST as u64 {
            let other = number(i);
            assert_ne!(other, first, "it rests");
            assert_eq!(end(other), i);
        }
        let again = number(8);
        assert_eq!(again, first, "the oldest is used again");

        // What another thread destroys comes back, whether or not that thread goes on.
        let many: Vec<usize> = (0..3 * OWN as u64).map(number).collect();
        let known = many.clone();
        let ended = std::thread::scope(|scope| {
            let thread = scope.spawn(move || many.into_iter().map(end).sum::<u64>());
            thread.join()
        });
        let count = 3 * OWN as u64;
        assert_eq!(ended.expect("it does not panic"), count * (count - 1) / 2);
        let more: Vec<usize> = (0..2 * OWN as u64).map(number).collect();
        let used = more.iter().filter(|handle| known.contains(handle)).count();
        assert!(used > OWN, "{used} of {} were used again", more.len());
        more.into_iter().chain([again]).for_each(|handle| {
            end(handle);
        });
    }
}
