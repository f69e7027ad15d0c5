//! Handles: the `long` values that Java objects hold.
//!
//! A handle is the address of a [`Cell`], which begins with the type of its object. Java passes back what it was
//! given (H1); a null handle, or one of another type, throws instead of being used.

use std::any::{Any, TypeId, type_name};
use std::ops::{Deref, DerefMut};

use cairn_types::Error;
use jni_sys::jlong;

use crate::arguments::{Argument, IntoOutcome};
use crate::env::{Env, Fail, Outcome};

#[repr(C)]
struct Cell<T> {
    /// The type of the object; `None` after it was destroyed.
    kind: Option<TypeId>,
    /// Destroys a cell of this type.
    destroy: fn(jlong) -> Outcome<()>,
    /// State that other threads may use while one thread changes the object.
    shared: Option<Shared>,
    object: T,
}

/// See [`create_with`].
type Shared = Box<dyn Any + Send + Sync>;

/// Creates a handle.
pub fn create<T: 'static>(object: T) -> jlong {
    cell_of(object, None)
}

/// Creates a handle of `object` and of `shared`, which other threads may use while one thread changes the object.
pub fn create_with<T: 'static, S: Any + Send + Sync>(object: T, shared: S) -> jlong {
    cell_of(object, Some(Box::new(shared)))
}

fn cell_of<T: 'static>(object: T, shared: Option<Shared>) -> jlong {
    Box::into_raw(Box::new(Cell {
        kind: Some(TypeId::of::<T>()),
        destroy: |handle| take::<T>(handle).map(drop),
        shared,
        object,
    })) as jlong
}

/// The cell behind a handle.
#[inline]
fn cell<T: 'static>(handle: jlong) -> Outcome<*mut Cell<T>> {
    let cell = handle as *mut Cell<T>;
    // SAFETY: not null, so it came from `create` (H1), whose cells begin with a type whatever that is.
    if handle == 0 || unsafe { (*cell.cast::<Option<TypeId>>()) != Some(TypeId::of::<T>()) } {
        return Err(not_alive::<T>(handle));
    }
    Ok(cell)
}

#[cold]
fn not_alive<T>(handle: jlong) -> Fail {
    let name = java_class(type_name::<T>());
    let what = if handle == 0 {
        "null"
    } else {
        "closed, or of another type"
    };
    Error::invalid_argument(format!("the handle of the {name} is {what}")).into()
}

/// The class of Java whose objects have handles of the type with this name.
fn java_class(name: &str) -> &str {
    let name = name.rsplit("::").next().unwrap_or_default();
    match name.trim_end_matches('>') {
        "AllOptions" => "Options",
        "Batch" => "WriteBatch",
        "BlockCache" => "Cache",
        "ComparatorHandle" => "AbstractComparator",
        "Cursor" => "RocksIterator",
        "Database" => "RocksDB",
        "Family" => "ColumnFamilyHandle",
        "FilterPolicy" => "Filter",
        "Indexed" => "WriteBatchWithIndex",
        "Txn" => "Transaction",
        name => name,
    }
}

/// The object behind a handle. Valid while the Java object is open, which the running method requires.
#[inline]
pub fn of<'a, T: 'static>(handle: jlong) -> Outcome<&'a T> {
    // SAFETY: the cell is live (H1).
    cell(handle).map(|cell| unsafe { &(*cell).object })
}

/// The object behind a handle of a class that is not thread-safe.
#[inline]
pub fn of_mut<'a, T: 'static>(handle: jlong) -> Outcome<&'a mut T> {
    // SAFETY: the cell is live (H1), and RocksJava requires that a single thread uses objects of the class.
    cell(handle).map(|cell| unsafe { &mut (*cell).object })
}

/// The `shared` that was passed to [`create_with`], also while another thread changes the object; `None` if the handle
/// has none of type `S`.
pub fn shared_of<'a, T: 'static, S: 'static>(handle: jlong) -> Outcome<Option<&'a S>> {
    let cell = cell::<T>(handle)?;
    // SAFETY: the cell is live (H1), and this part is never changed. No reference to the object is made.
    let shared = unsafe { &(*cell).shared };
    Ok(shared.as_ref().and_then(|shared| shared.downcast_ref()))
}

/// Takes the object out of a handle, which becomes invalid.
pub fn take<T: 'static>(handle: jlong) -> Outcome<T> {
    let cell = cell::<T>(handle)?;
    // SAFETY: the cell came from `create`, and no other reference to it remains.
    let mut owned = unsafe { Box::from_raw(cell) };
    owned.kind = None;
    Ok(owned.object)
}

/// Destroys the object of a handle.
pub fn destroy<T: 'static>(_env: Env, handle: jlong) -> Outcome<()> {
    take::<T>(handle).map(drop)
}

/// Destroys the object of a handle of any type.
pub fn destroy_any(handle: jlong) -> Outcome<()> {
    let cell = handle as *const Cell<()>;
    if handle == 0 {
        return Err(not_alive::<()>(handle));
    }
    // SAFETY: not null, so it came from `create` (H1); the fields before the object are the same for all types.
    let (kind, destroy) = unsafe { ((*cell).kind, (*cell).destroy) };
    match kind {
        Some(_) => destroy(handle),
        None => Err(not_alive::<()>(handle)),
    }
}

/// A shared object as an argument.
pub struct Ref<T: 'static>(pub &'static T);

/// An object of a class that is not thread-safe as an argument.
pub struct Mut<T: 'static>(pub &'static mut T);

/// An object as an argument that the method takes over: Java keeps no handle of it.
pub struct Own<T>(pub T);

impl<T: 'static> Argument<jlong> for Own<T> {
    fn from_java(handle: jlong) -> Outcome<Own<T>> {
        take(handle).map(Own)
    }
}

impl<T> Deref for Ref<T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        self.0
    }
}

impl<T> Deref for Mut<T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        self.0
    }
}

impl<T> DerefMut for Mut<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        self.0
    }
}

impl<T: 'static> Argument<jlong> for Ref<T> {
    #[inline]
    fn from_java(handle: jlong) -> Outcome<Ref<T>> {
        of(handle).map(Ref)
    }
}

impl<T: 'static> Argument<jlong> for Mut<T> {
    #[inline]
    fn from_java(handle: jlong) -> Outcome<Mut<T>> {
        of_mut(handle).map(Mut)
    }
}

impl<T: 'static> Argument<jlong> for Option<Ref<T>> {
    #[inline]
    fn from_java(handle: jlong) -> Outcome<Option<Ref<T>>> {
        match handle {
            0 => Ok(None),
            handle => of(handle).map(|object| Some(Ref(object))),
        }
    }
}

impl<T: 'static> Argument<jlong> for Option<Mut<T>> {
    #[inline]
    fn from_java(handle: jlong) -> Outcome<Option<Mut<T>>> {
        match handle {
            0 => Ok(None),
            handle => of_mut(handle).map(|object| Some(Mut(object))),
        }
    }
}

/// The result of a constructor.
pub struct New<T>(pub T);

impl<T: 'static> IntoOutcome<jlong> for New<T> {
    fn outcome(self) -> Outcome<jlong> {
        Ok(create(self.0))
    }
}

impl<T: 'static> IntoOutcome<jlong> for Outcome<New<T>> {
    fn outcome(self) -> Outcome<jlong> {
        self.map(|New(object)| create(object))
    }
}
