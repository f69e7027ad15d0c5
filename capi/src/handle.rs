//! Handles: the pointers that C programs hold to objects.
//!
//! A handle points to a *shell*, which contains a state word and the object. The address of a shell is reused, oldest first, for
//! objects of the same type only. A program that uses a destroyed handle therefore reads a valid state word and is
//! aborted with a message before it corrupts memory (unless the shell already has a new object). Pages of shells
//! without an object are returned to the kernel (`slabs`), except for a few shells that each thread and each pool
//! keep. A thread takes from its own queue first, so handles that live for one call take no lock.
//!
//! An object that belongs to a database can be *detached* when the database is closed ([`detach`]): another object
//! replaces it behind the handle. A call that uses the object marks its shell ([`enter`]) with plain stores. `detach`
//! checks the marks after a process-wide memory barrier (membarrier) and skips objects in use.

use std::cell::{Cell, UnsafeCell};
use std::marker::PhantomData;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::compiler_fence;
use std::thread::LocalKey;

use cairn_db::GetScratch;
use cairn_platform::sync::Mutex;

use crate::slabs::{Link, OWN, Pool, Queue, REST};

/// State word of a shell with a live object. Unlikely to occur in memory that is not a shell.
const LIVE: u32 = 0x6c_69_76_ec;
/// State word of a shell with a live object whose next results are cached ([`set_ready`]).
const READY: u32 = LIVE + 1;
/// State word of a shell whose object is being detached, a transient state.
const HELD: u32 = LIVE + 2;
/// State word of a shell whose object has been destroyed.
const DEAD: u32 = 0x64_65_61_ec;

/// The target of a handle: a queue link while it is free, and the object while it is live.
#[repr(C)]
pub struct Shell<T> {
    link: Link,
    object: UnsafeCell<MaybeUninit<T>>,
}

/// The shells of one type that are not in a thread's queue.
pub struct Shells {
    pool: Mutex<Pool>,
}

impl Shells {
    /// An empty set of shells of a type whose shells are `stride` bytes apart.
    pub const fn new(stride: usize) -> Shells {
        Shells {
            pool: Mutex::new(Pool::new(stride)),
        }
    }
}

/// The thread-local state of a handle type: the shells of destroyed objects, and associated data.
pub struct Own<B: Beside> {
    shells: Queue,
    /// Cleared by [`Leaving`] when the thread ends, because thread-locals with a destructor are slower
    /// to access.
    beside: ManuallyDrop<B>,
    /// True if [`Leaving`] is registered for this thread.
    looked_after: Cell<bool>,
}

impl<B: Beside> Own<B> {
    /// The initial state.
    pub const fn new() -> Own<B> {
        Own {
            shells: Queue::new(),
            beside: ManuallyDrop::new(B::NEW),
            looked_after: Cell::new(false),
        }
    }

    /// The data beside the shells.
    #[inline]
    pub fn beside(&self) -> &B {
        &self.beside
    }

    /// Takes a shell for a new object. It is leaked if it is not filled.
    #[inline]
    pub fn vacant<H: Handle>(&self) -> Vacant<H> {
        let own = self.shells.pop();
        Vacant(own.unwrap_or_else(other_shell::<H>).cast())
    }

    /// Releases everything.
    #[cold]
    #[inline(never)]
    fn leave<H: Handle>(&self) {
        H::shells().pool.lock().receive(&self.shells, usize::MAX);
        self.beside.clear();
    }
}

/// Thread-local data that is kept with the shells of a type.
pub trait Beside: 'static {
    /// A value without memory.
    const NEW: Self;
    /// Frees the memory. The value can be used again.
    fn clear(&self);
}

impl Beside for () {
    const NEW: () = ();
    fn clear(&self) {}
}

impl Beside for GetScratch {
    const NEW: GetScratch = GetScratch::new();
    fn clear(&self) {
        GetScratch::clear(self);
    }
}

/// Releases the thread-local state when the thread ends. Separate from that state, because
/// thread-locals with a destructor are slower to access.
pub struct Leaving<H: Handle>(PhantomData<fn() -> H>);

impl<H: Handle> Leaving<H> {
    /// Creates the value for the calling thread.
    pub const fn new() -> Leaving<H> {
        Leaving(PhantomData)
    }
}

impl<H: Handle> Drop for Leaving<H> {
    fn drop(&mut self) {
        H::own().with(|own| {
            own.looked_after.set(false);
            own.leave::<H>();
        });
    }
}

/// A type of handle.
///
/// # Safety
///
/// Pointers to the type point to a `Shell<Self::Object>`.
pub unsafe trait Handle: Sized + 'static {
    /// The type of the object.
    type Object: 'static;
    /// The C type.
    const NAME: &'static str;
    /// True if objects can be [`ready`]. Otherwise, the state word has one value while they live.
    const NOTES: bool = false;
    /// True if objects have owners and can be detached from them.
    const OWNED: bool = false;
    /// Thread-local data beside the shells.
    type Beside: Beside;
    /// The shells of this type.
    fn shells() -> &'static Shells;
    /// The thread-local state.
    fn own() -> &'static LocalKey<Own<Self::Beside>>;
    /// The destructor of the thread-local state.
    fn leaving() -> &'static LocalKey<Leaving<Self>>;
}

/// Declares handle types: `name = object;`, optionally followed by `NOTES`, `OWNED` or both, or `name =
/// object where beside = B;` for a [`Beside`].
macro_rules! handles {
    ($($(#[$doc:meta])* $name:ident = $object:ty $(where beside = $beside:ty)? $(, $word:ident)*;)+) => {$(
        $(#[$doc])*
        pub struct $name(());

        // SAFETY: pointers to the type are only made by `create`, from shells of the object.
        unsafe impl $crate::handle::Handle for $name {
            type Object = $object;
            type Beside = beside!($($beside)?);
            const NAME: &'static str = stringify!($name);
            $(const $word: bool = true;)*
            fn shells() -> &'static $crate::handle::Shells {
                static SHELLS: $crate::handle::Shells = $crate::handle::Shells::new(
                    $crate::slabs::stride::<$crate::handle::Shell<$object>>(),
                );
                &SHELLS
            }
            fn own() -> &'static std::thread::LocalKey<$crate::handle::Own<Self::Beside>> {
                thread_local! {
                    static OWN: $crate::handle::Own<beside!($($beside)?)> =
                        const { $crate::handle::Own::new() };
                }
                &OWN
            }
            fn leaving() -> &'static std::thread::LocalKey<$crate::handle::Leaving<$name>> {
                thread_local! {
                    static LEAVING: $crate::handle::Leaving<$name> =
                        const { $crate::handle::Leaving::new() };
                }
                &LEAVING
            }
        }
    )+};
}

/// The thread-local data of a type: none, or that of its declaration.
macro_rules! beside {
    () => {
        ()
    };
    ($beside:ty) => {
        $beside
    };
}

/// Aborts the process: the program has misused the interface in a way that cannot be reported as an
/// error.
#[cold]
pub fn misuse(what: &str) -> ! {
    eprintln!("librocksdb (Cairn): {what}");
    std::process::abort()
}

/// Aborts the process because of a handle that is null or whose state word is `word`.
// `extern "C"` functions do not unwind, so functions that only read a handle need no unwinding frame.
#[cold]
#[inline(never)]
extern "C" fn not_alive<H: Handle>(handle: *const H, word: u32) -> ! {
    misuse(&complaint(handle, word))
}

/// The message for a handle that is null or whose state word is `word`.
fn complaint<H: Handle>(handle: *const H, word: u32) -> String {
    let name = H::NAME;
    if handle.is_null() {
        return format!("null was passed instead of a {name}");
    }
    // Pages that were returned to the kernel read as zeros.
    let returned = || word == 0 && H::shells().pool.lock().has(handle.addr());
    match word == DEAD || returned() {
        true => format!("the {name} at {handle:p} is used after it was destroyed"),
        false => format!("the pointer {handle:p} is not a {name}"),
    }
}

/// A shell without an object, owned by the caller.
pub struct Vacant<H: Handle>(*mut Shell<H::Object>);

impl<H: Handle> Vacant<H> {
    /// Moves `object` into the shell and returns its handle.
    #[inline]
    pub fn fill(self, object: H::Object) -> *mut H {
        let shell = self.0;
        // SAFETY: the shell was taken from the pool of its type and is in no queue. No other thread uses it before the
        // state word is stored.
        unsafe {
            (*(*shell).object.get()).write(object);
            (*shell).link.word.store(LIVE, Release);
        }
        shell.cast()
    }
}

/// Creates a handle of `object`, which belongs to `owner`; 0 for none.
pub fn create_owned<H: Handle>(object: H::Object, owner: usize) -> *mut H {
    let shell = H::own().with(Own::vacant::<H>);
    // SAFETY: as in `fill`. The state word that is stored afterwards publishes the owner.
    unsafe { (*shell.0).link.owner.store(owner, Relaxed) };
    shell.fill(object)
}

/// Creates a handle of `object` in memory from `malloc`, which the program frees with `rocksdb_free`. The object is
/// never dropped, so it must own nothing.
pub fn create_freeable<H: Handle>(object: H::Object) -> *mut H {
    const {
        assert!(
            align_of::<Shell<H::Object>>() <= 16,
            "the alignment of malloc"
        )
    };
    // SAFETY: the memory is large enough and aligned; zeros are a valid header, and the object is written before the
    // state word.
    unsafe {
        let shell = libc::calloc(1, size_of::<Shell<H::Object>>()).cast::<Shell<H::Object>>();
        if shell.is_null() {
            misuse("out of memory");
        }
        (*(*shell).object.get()).write(object);
        (*shell).link.word.store(LIVE, Release);
        shell.cast()
    }
}

/// Creates a handle of `object`.
#[inline]
pub fn create<H: Handle>(object: H::Object) -> *mut H {
    H::own().with(Own::vacant::<H>).fill(object)
}

/// Runs `work` with the thread-local state of the handle type.
// `work` is called in a single place, so that it is inlined.
#[inline]
pub fn with_own<H: Handle, T>(work: impl FnOnce(&Own<H::Beside>) -> T) -> T {
    H::own().with(|own| {
        if !own.looked_after.get() {
            look_after::<H>(own);
        }
        let done = work(own);
        if !own.looked_after.get() {
            // A thread that is exiting keeps nothing.
            own.leave::<H>();
        }
        done
    })
}

/// Registers the destructor of the thread-local state, unless the thread is ending.
#[cold]
#[inline(never)]
fn look_after<H: Handle>(own: &Own<H::Beside>) {
    let looked_after = H::leaving().try_with(|_| ()).is_ok();
    own.looked_after.set(looked_after);
}

/// Takes a shell from the pool if the thread's queue has none that may be reused.
#[cold]
#[inline(never)]
fn other_shell<H: Handle>() -> *mut Link {
    H::shells().pool.lock().take()
}

/// Queues a shell for reuse.
#[inline]
fn rest<H: Handle>(shell: *mut Link) {
    H::own().with(|own| {
        let len = own.shells.len();
        if len == 0 || len >= OWN {
            return rest_elsewhere::<H>(&own.shells, shell);
        }
        own.shells.push(shell, shell, 1);
    });
}

/// The slow path of [`rest`]: the thread has no shells yet, or too many.
#[cold]
#[inline(never)]
fn rest_elsewhere<H: Handle>(own: &Queue, shell: *mut Link) {
    // A thread that is ending keeps no shells.
    if H::leaving().try_with(|_| ()).is_err() {
        return H::shells().pool.lock().receive_one(shell);
    }
    own.push(shell, shell, 1);
    if own.len() > OWN {
        // A thread that mostly destroys gives shells to threads that create.
        H::shells().pool.lock().receive(own, OWN - REST);
    }
}

/// The shell behind `handle`, whose object lives.
///
/// # Safety
///
/// `handle` is null or came from [`create`].
#[inline]
unsafe fn living<'a, H: Handle>(handle: *const H) -> &'a Shell<H::Object> {
    if handle.is_null() {
        not_alive(handle, DEAD);
    }
    // SAFETY: the pointer came from `create`, whose shells stay readable forever.
    let shell = unsafe { &*handle.cast::<Shell<H::Object>>() };
    let word = shell.link.word.load(Acquire);
    if word != LIVE {
        match H::NOTES {
            true => must_be_ready(handle, word),
            false => not_alive(handle, word),
        }
    }
    shell
}

/// Checks the state word of an object that is not simply live.
#[cold]
#[inline(never)]
extern "C" fn must_be_ready<H: Handle>(handle: *const H, mut word: u32) {
    if word == HELD {
        // SAFETY: the state word was read from the shell of the handle.
        word = unsafe { settled(&(*handle.cast::<Shell<H::Object>>()).link) };
    }
    if word != READY && word != LIVE {
        not_alive(handle, word);
    }
}

/// The state word after a detach in progress, if there is one.
#[cold]
#[inline(never)]
fn settled(link: &Link) -> u32 {
    loop {
        let word = link.word.load(Acquire);
        if word != HELD {
            return word;
        }
        std::thread::yield_now();
    }
}

/// Marks a shell as in use, which prevents its object from being detached.
pub struct InUse<'a>(&'a Link);

impl<'a> InUse<'a> {
    #[inline]
    fn mark(link: &'a Link) -> InUse<'a> {
        link.in_use.store(1, Relaxed);
        // `detach` issues the matching hardware barrier (membarrier).
        compiler_fence(SeqCst);
        InUse(link)
    }
}

impl Drop for InUse<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.in_use.store(0, Release);
    }
}

/// The object behind `handle`, which has owners, for as long as the mark exists.
///
/// # Safety
///
/// Those of [`of_mut`].
#[inline]
pub unsafe fn enter<'a, H: Handle>(handle: *mut H) -> (&'a mut H::Object, InUse<'a>) {
    loop {
        if handle.is_null() {
            not_alive(handle.cast_const(), DEAD);
        }
        // SAFETY: the pointer came from `create`, whose shells stay readable forever.
        let shell = unsafe { &*handle.cast::<Shell<H::Object>>() };
        let mark = InUse::mark(&shell.link);
        let word = shell.link.word.load(Acquire);
        if word == LIVE || word == READY {
            // SAFETY: the object is live and marked, and the caller guarantees exclusive use.
            return unsafe { ((*shell.object.get()).assume_init_mut(), mark) };
        }
        drop(mark);
        must_be_ready(handle.cast_const(), word);
    }
}

/// Runs `work` with the object behind `handle` if it is ready. The object is marked as in use while
/// it runs.
///
/// # Safety
///
/// Those of [`of_mut`].
#[inline]
pub unsafe fn enter_ready<H: Handle, T>(
    handle: *mut H,
    work: impl FnOnce(&mut H::Object) -> T,
) -> Option<T> {
    if handle.is_null() {
        return None;
    }
    // SAFETY: the pointer came from `create`, whose shells stay readable forever.
    let shell = unsafe { &*handle.cast::<Shell<H::Object>>() };
    let mark = InUse::mark(&shell.link);
    let done = (shell.link.word.load(Acquire) == READY).then(|| {
        // SAFETY: as in `enter`.
        work(unsafe { (*shell.object.get()).assume_init_mut() })
    });
    drop(mark);
    done
}

/// Issues a memory barrier on all threads of the process. Returns false if the system has no such call.
fn barrier_everywhere() -> bool {
    #[cfg(target_os = "linux")]
    {
        static REGISTERED: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
        // SAFETY: the call takes integers and accesses no memory of the program.
        let call = |command: libc::c_int| unsafe {
            libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0
        };
        *REGISTERED.get_or_init(|| call(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED))
            && call(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED)
    }
    #[cfg(not(target_os = "linux"))]
    false
}

/// Detaches the objects of `owner` from their handles: `replace` replaces each by one without an
/// owner. Objects in use are not changed; nor are any objects if the system has no process-wide
/// barrier. Returns the number of detached objects.
pub fn detach<H: Handle>(owner: usize, replace: impl Fn(&mut H::Object)) -> usize {
    let mut held: Vec<(&Shell<H::Object>, u32)> = Vec::new();
    H::shells().pool.lock().for_each(|shell| {
        // SAFETY: shells stay readable forever.
        let shell = unsafe { &*shell.cast::<Shell<H::Object>>() };
        let link = &shell.link;
        let word = link.word.load(Acquire);
        let is_its = || link.owner.load(Relaxed) == owner;
        if (word != LIVE && word != READY) || !is_its() {
            return;
        }
        if link
            .word
            .compare_exchange(word, HELD, AcqRel, Acquire)
            .is_ok()
        {
            match is_its() {
                true => held.push((shell, word)),
                // The shell has another object by now.
                false => link.word.store(word, Release),
            }
        }
    });
    let seen = !held.is_empty() && barrier_everywhere();
    let mut count = 0;
    for (shell, word) in held {
        if !seen || shell.link.in_use.load(Acquire) != 0 {
            shell.link.word.store(word, Release);
            continue;
        }
        // SAFETY: the object was live when the state word became `HELD`. Later users see the word and
        // wait; earlier ones are seen by their mark after the barrier.
        replace(unsafe { (*shell.object.get()).assume_init_mut() });
        shell.link.owner.store(0, Relaxed);
        shell.link.word.store(LIVE, Release);
        count += 1;
    }
    count
}

/// The object behind `handle` if it is ready; otherwise `None`, and the caller then checks the
/// handle with [`of`].
///
/// # Safety
///
/// Those of [`of`].
#[inline]
pub unsafe fn ready<'a, H: Handle>(handle: *const H) -> Option<&'a H::Object> {
    // SAFETY: guaranteed by the caller.
    unsafe { ready_cell(handle).map(|object| (*object.get()).assume_init_ref()) }
}

/// The cell of an object that is ready.
///
/// # Safety
///
/// `handle` is null or came from [`create`].
#[inline]
unsafe fn ready_cell<'a, H: Handle>(
    handle: *const H,
) -> Option<&'a UnsafeCell<MaybeUninit<H::Object>>> {
    if handle.is_null() {
        return None;
    }
    // SAFETY: the pointer came from `create`, whose shells stay readable forever.
    let shell = unsafe { &*handle.cast::<Shell<H::Object>>() };
    (shell.link.word.load(Acquire) == READY).then_some(&shell.object)
}

/// Marks the live object behind `handle` as ready or not. An object that can be detached must be in
/// use.
///
/// # Safety
///
/// Those of [`of_mut`].
#[inline]
pub unsafe fn set_ready<H: Handle>(handle: *mut H, is_ready: bool) {
    let word = if is_ready { READY } else { LIVE };
    // SAFETY: the pointer came from `create`, whose shells stay readable forever.
    let link = unsafe { &(*handle.cast::<Shell<H::Object>>()).link };
    let mut now = link.word.load(Relaxed);
    while now != word {
        if now == HELD {
            now = settled(link);
            continue;
        }
        match link.word.compare_exchange(now, word, Release, Relaxed) {
            Ok(_) => return,
            Err(other) => now = other,
        }
    }
}

/// The object behind `handle`.
///
/// # Safety
///
/// `handle` is null or came from [`create`], and the object is neither destroyed nor modified
/// during the borrow.
#[inline]
pub unsafe fn of<'a, H: Handle>(handle: *const H) -> &'a H::Object {
    // SAFETY: the object is live (checked), and the caller guarantees that it is not written to.
    unsafe { (*living(handle).object.get()).assume_init_ref() }
}

/// The object behind `handle`, mutably.
///
/// # Safety
///
/// Those of [`of`], and the handle is not used elsewhere during the borrow.
#[inline]
pub unsafe fn of_mut<'a, H: Handle>(handle: *mut H) -> &'a mut H::Object {
    // SAFETY: the object is live (checked), and the caller guarantees exclusive use.
    unsafe { (*living(handle.cast_const()).object.get()).assume_init_mut() }
}

/// The object behind `handle`, or `None` for null.
///
/// # Safety
///
/// Those of [`of`].
#[inline]
pub unsafe fn maybe<'a, H: Handle>(handle: *const H) -> Option<&'a H::Object> {
    // SAFETY: guaranteed by the caller.
    (!handle.is_null()).then(|| unsafe { of(handle) })
}

/// Ends a handle, which must not be null, and returns its shell; the caller takes the object.
///
/// # Safety
///
/// Those of [`of_mut`].
#[inline]
unsafe fn end<'a, H: Handle>(handle: *mut H) -> &'a Shell<H::Object> {
    // SAFETY: the pointer came from `create`, whose shells stay readable forever.
    let shell = unsafe { &*handle.cast::<Shell<H::Object>>() };
    let word = &shell.link.word;
    let mut from = LIVE;
    while let Err(found) = word.compare_exchange(from, DEAD, AcqRel, Acquire) {
        from = match found {
            LIVE | READY if H::NOTES => found,
            HELD if H::OWNED => settled(&shell.link),
            _ => not_alive(handle.cast_const(), found),
        };
        if from != LIVE && from != READY {
            not_alive(handle.cast_const(), from);
        }
    }
    shell
}

/// Ends the handle and returns its object.
///
/// # Safety
///
/// Those of [`of_mut`].
pub unsafe fn take<H: Handle>(handle: *mut H) -> H::Object {
    if handle.is_null() {
        not_alive(handle.cast_const(), DEAD);
    }
    // SAFETY: this thread ended the handle, so it alone takes the object, once.
    let object = unsafe { (*end(handle).object.get()).assume_init_read() };
    rest::<H>(handle.cast());
    object
}

/// Ends the handle and drops its object. Does nothing for null, like C++'s `delete`.
///
/// # Safety
///
/// Those of [`of_mut`].
#[inline]
pub unsafe fn destroy<H: Handle>(handle: *mut H) {
    if !handle.is_null() {
        // SAFETY: this thread ended the handle, so it alone drops the object, once.
        unsafe { (*end(handle).object.get()).assume_init_drop() };
        rest::<H>(handle.cast());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicU32};

    use super::*;

    handles! {
        /// A handle of a number.
        number_t = u64, NOTES;
    }

    /// True if there is memory that [`Beside::clear`] would free.
    pub struct Kept(Cell<bool>);

    static CLEARED: AtomicU32 = AtomicU32::new(0);

    impl Beside for Kept {
        const NEW: Kept = Kept(Cell::new(false));
        fn clear(&self) {
            CLEARED.fetch_add(u32::from(self.0.take()), AcqRel);
        }
    }

    handles! {
        /// A handle type with data beside its shells.
        kept_t = u64 where beside = Kept;
    }

    #[test]
    fn data_beside_the_shells_is_cleared_when_its_thread_ends() {
        let seen = std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                with_own::<kept_t, _>(|own| own.beside().0.set(true));
                with_own::<kept_t, _>(|own| own.beside().0.get())
            });
            thread.join()
        });
        assert_eq!(seen.ok(), Some(true), "the data is kept between uses");
        assert_eq!(CLEARED.load(Acquire), 1);
        // A thread that creates and ends handles without using the data has nothing to clear.
        let ended = std::thread::scope(|scope| {
            // SAFETY: the handle was just made and is ended once.
            let thread = scope.spawn(|| unsafe { take(create::<kept_t>(7)) });
            thread.join()
        });
        assert_eq!(ended.ok(), Some(7));
        assert_eq!(CLEARED.load(Acquire), 1);
    }

    handles! {
        /// A handle of a heap-allocated number that has an owner.
        owned_t = Box<u64>, NOTES, OWNED;
    }

    #[test]
    fn detach_affects_only_the_objects_of_the_owner() {
        let mine = create_owned::<owned_t>(Box::new(1), 7);
        let ready_one = create_owned::<owned_t>(Box::new(2), 7);
        let used = create_owned::<owned_t>(Box::new(3), 7);
        let other = create_owned::<owned_t>(Box::new(4), 8);
        // SAFETY: the handles live, and each is ended once.
        unsafe {
            set_ready(ready_one, true);
            let (_, mark) = enter(used);
            assert_eq!(detach::<owned_t>(7, |number| **number = 0), 2);
            drop(mark);
            assert_eq!((&**of(mine), &**of(ready_one)), (&0, &0));
            assert_eq!(ready(ready_one), None, "the ready state is cleared");
            assert_eq!((&**of(used), &**of(other)), (&3, &4));
            assert_eq!(detach::<owned_t>(7, |number| **number = 0), 1);
            assert_eq!(detach::<owned_t>(7, |number| **number = 0), 0, "no more");
            for handle in [mine, ready_one, used, other] {
                destroy(handle);
            }
        }
    }

    #[test]
    fn objects_in_use_are_not_detached() {
        let handle = create_owned::<owned_t>(Box::new(1), 9) as usize;
        // SAFETY: the handle lives to the end, and one thread alone uses it.
        unsafe { set_ready(handle as *mut owned_t, true) };
        std::thread::scope(|scope| {
            let user = scope.spawn(|| {
                let mut uses = 0_u64;
                // SAFETY: as above.
                while let Some(seen) = unsafe {
                    enter_ready(handle as *mut owned_t, |number| {
                        let before = **number;
                        std::hint::black_box(&number);
                        before == 1 && **number == 1
                    })
                } {
                    assert!(seen, "the object changed while it was in use");
                    uses += 1;
                }
                uses
            });
            while detach::<owned_t>(9, |number| drop(std::mem::replace(number, Box::new(2)))) == 0 {
                std::thread::yield_now();
            }
            assert!(user.join().is_ok());
        });
        // SAFETY: the handle is ended once.
        assert_eq!(unsafe { *take(handle as *mut owned_t) }, 2);
    }

    fn number(of: u64) -> usize {
        create::<number_t>(of) as usize
    }

    fn end_number(handle: usize) -> u64 {
        // SAFETY: the handle came from `number` and is ended once.
        unsafe { take(handle as *mut number_t) }
    }

    #[test]
    fn a_destroyed_object_is_not_ready() {
        let handle = number(7) as *mut number_t;
        // SAFETY: the handle came from `number` and is ended once; a shell stays readable.
        unsafe {
            assert_eq!(ready(handle), None, "it has not been marked as ready");
            set_ready(handle, true);
            assert_eq!(ready(handle), Some(&7));
            *of_mut(handle) = 8;
            assert_eq!((of(handle), maybe(handle)), (&8, Some(&8)));
            set_ready(handle, false);
            assert_eq!((ready(handle), of(handle)), (None, &8));
            set_ready(handle, true);
            assert_eq!(take(handle), 8);
            assert_eq!(ready(handle), None, "the object has been destroyed");
            assert_eq!(ready(std::ptr::null::<number_t>()), None);
        }
    }

    #[test]
    fn shells_are_reused_oldest_first_in_every_thread() {
        let first = number(7);
        assert_eq!(end_number(first), 7);
        for i in 0..REST as u64 {
            let other = number(i);
            assert_ne!(other, first, "it rests");
            assert_eq!(end_number(other), i);
        }
        let again = number(8);
        assert_eq!(again, first, "the oldest shell is reused");

        // Shells destroyed by another thread are reused, whether or not that thread has ended.
        let many: Vec<usize> = (0..3 * OWN as u64).map(number).collect();
        let known = many.clone();
        let ended = std::thread::scope(|scope| {
            let thread = scope.spawn(move || many.into_iter().map(end_number).sum::<u64>());
            thread.join()
        });
        let count = 3 * OWN as u64;
        assert_eq!(
            ended.expect("the thread does not panic"),
            count * (count - 1) / 2
        );
        let more: Vec<usize> = (0..2 * OWN as u64).map(number).collect();
        let used = more.iter().filter(|handle| known.contains(handle)).count();
        assert!(used > OWN, "{used} of {} were reused", more.len());
        more.into_iter().chain([again]).for_each(|handle| {
            end_number(handle);
        });
    }

    handles! {
        /// A handle that is created a million times.
        mass_t = [u64; 3];
        /// A handle that one thread creates and another destroys. Its object is heap-allocated.
        traded_t = Box<u64>, NOTES, OWNED;
    }

    #[test]
    fn a_million_objects_leave_no_memory_and_are_detected_as_destroyed() {
        let resident = || mass_t::shells().pool.lock().resident();
        for round in 0..2 {
            let made: Vec<*mut mass_t> = (0..1_000_000).map(|i| create([i, i, i])).collect();
            assert!(resident() > 60 << 20, "{}", resident());
            for (i, &handle) in (0..).zip(&made) {
                // SAFETY: the handle is alive and not used afterwards.
                assert_eq!(unsafe { take(handle) }, [i, i, i]);
            }
            assert!(
                resident() < 256 << 10,
                "{} bytes remain in round {round}",
                resident()
            );
            let handle = made[0].cast_const();
            // SAFETY: shells stay readable.
            let word = unsafe { (*handle.cast::<Link>()).word.load(Acquire) };
            assert_eq!(word, 0, "the memory was returned");
            assert!(complaint(handle, word).contains("used after it was destroyed"));
            let foreign = (&raw const word).cast::<mass_t>();
            assert!(complaint(foreign, word).contains("is not a mass_t"));
        }
    }

    #[test]
    fn ended_threads_leave_no_memory() {
        let resident = || traded_t::shells().pool.lock().resident();
        // No other test uses the type at the same time.
        let _alone = TRADED.lock();
        for _ in 0..40 {
            let ended = std::thread::scope(|scope| {
                let thread = scope.spawn(|| {
                    let mut handles: Vec<_> = (0..OWN as u64)
                        .map(|i| create_owned::<traded_t>(Box::new(i), 1))
                        .collect();
                    handles.reverse();
                    // SAFETY: the handles are alive and not used afterwards.
                    handles
                        .into_iter()
                        .for_each(|handle| unsafe { destroy(handle) });
                });
                thread.join()
            });
            assert!(ended.is_ok());
        }
        assert!(resident() < 512 << 10, "{}", resident());
    }

    static TRADED: Mutex<()> = Mutex::new(());

    #[test]
    fn detach_is_safe_beside_threads_that_create_and_destroy() {
        let _alone = TRADED.lock();
        assert!(
            detached_while_traded() > 0,
            "some were detached while threads exchanged them"
        );
        let resident = traded_t::shells().pool.lock().resident();
        // Each queued shell may keep a page.
        assert!(resident < 4 << 20, "{resident}");
    }

    /// Creates, destroys and detaches objects on separate threads, and returns the number of
    /// detached objects.
    fn detached_while_traded() -> u32 {
        const EACH: u64 = 24_000;
        let done = AtomicBool::new(false);
        let detached = &AtomicU32::new(0);
        std::thread::scope(|scope| {
            let detaching = scope.spawn(|| {
                while !done.load(Acquire) {
                    // Owner 2 has the objects with odd numbers.
                    let count = detach::<traded_t>(2, |number| **number = 0);
                    detached.fetch_add(count as u32, AcqRel);
                    std::thread::yield_now();
                }
            });
            let traders: Vec<_> = (0..3)
                .map(|trader| {
                    let (give, taken) = std::sync::mpsc::sync_channel::<Vec<usize>>(2);
                    scope.spawn(move || {
                        // Enough objects for units to fill up and be returned repeatedly.
                        for first in (0..EACH).step_by(6_000) {
                            let made = (first..first + 6_000).map(|number| {
                                create_owned::<traded_t>(Box::new(number), 1 + number as usize % 2)
                                    as usize
                            });
                            let made = made.collect();
                            // The first objects are handed on once the detaching thread runs, unless it has failed.
                            let is_running = |_: &u32| {
                                std::thread::yield_now();
                                detached.load(Acquire) > 0
                            };
                            (0..10_000_000).find(is_running);
                            if give.send(made).is_err() {
                                return;
                            }
                        }
                    });
                    scope.spawn(move || {
                        let mut expected = 0;
                        for mut handles in taken {
                            if trader == 1 {
                                handles.reverse();
                                expected += 6_000;
                            }
                            for handle in handles {
                                expected -= u64::from(trader == 1);
                                // SAFETY: the handle is alive and not used afterwards.
                                let number = unsafe { *take(handle as *mut traded_t) };
                                let is_detached = number == 0 && expected % 2 == 1;
                                assert!(
                                    number == expected || is_detached,
                                    "{number}, not {expected}"
                                );
                                expected += u64::from(trader != 1);
                            }
                            expected += if trader == 1 { 6_000 } else { 0 };
                        }
                        assert_eq!(expected, EACH);
                    })
                })
                .collect();
            for trader in traders {
                assert!(trader.join().is_ok());
            }
            done.store(true, Release);
            assert!(detaching.join().is_ok());
        });
        detached.load(Acquire)
    }
}
