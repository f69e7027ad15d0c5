//! User-defined objects as options: an OPTIONS file records their name, the program provides the
//! object.

use std::sync::Arc;

use cairn_types::{CompactionFilter, CompactionFilterFactory, SstPartitionerFactory, WalFilter};

use crate::sst_partitioner::FixedPrefixPartitions;
use crate::text::{NULL, Refusal, Text, object};

/// An object with a name in option texts.
pub trait Plug: Send + Sync {
    /// Returns its text form: its name, with properties if any.
    fn plug_text(&self) -> String;

    /// Returns the built-in object for `text`, if there is one.
    fn built_in(text: &str) -> Option<Arc<Self>> {
        let _ = text;
        None
    }
}

impl Plug for dyn CompactionFilter {
    fn plug_text(&self) -> String {
        self.name().to_owned().print()
    }
}

impl Plug for dyn CompactionFilterFactory {
    fn plug_text(&self) -> String {
        self.name().to_owned().print()
    }
}

impl Plug for dyn WalFilter {
    fn plug_text(&self) -> String {
        self.name().to_owned().print()
    }
}

impl Plug for dyn SstPartitionerFactory {
    fn plug_text(&self) -> String {
        self.option_text()
    }

    fn built_in(text: &str) -> Option<Arc<dyn SstPartitionerFactory>> {
        let (name, properties) = object(text).ok()?;
        let length = properties.iter().find(|(name, _)| *name == "length")?.1;
        let length = length.parse().ok()?;
        (name == FixedPrefixPartitions::NAME)
            .then(|| Arc::new(FixedPrefixPartitions::new(length)) as _)
    }
}

/// A user-defined object, the name of a missing one, or none.
pub enum Plugin<T: ?Sized> {
    /// None.
    None,
    /// The name of an object that was not provided.
    Named(String),
    /// The object.
    Object(Arc<T>),
}

impl<T: ?Sized> Plugin<T> {
    /// Returns the object, if there is one.
    #[inline]
    #[must_use]
    pub fn get(&self) -> Option<&Arc<T>> {
        match self {
            Plugin::Object(object) => Some(object),
            _ => None,
        }
    }

    /// True if there is an object.
    #[must_use]
    pub fn is_some(&self) -> bool {
        self.get().is_some()
    }

    /// Removes and returns the name of a missing object.
    pub fn forget(&mut self) -> Option<String> {
        match std::mem::replace(self, Plugin::None) {
            Plugin::Named(name) => Some(name),
            other => {
                *self = other;
                None
            }
        }
    }

    /// True if a text named a missing object.
    #[must_use]
    pub fn is_unresolved(&self) -> bool {
        matches!(self, Plugin::Named(_))
    }
}

impl<T: ?Sized> Clone for Plugin<T> {
    fn clone(&self) -> Plugin<T> {
        match self {
            Plugin::None => Plugin::None,
            Plugin::Named(name) => Plugin::Named(name.clone()),
            Plugin::Object(object) => Plugin::Object(object.clone()),
        }
    }
}

impl<T: Plug + ?Sized> std::fmt::Debug for Plugin<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.print())
    }
}

impl<T: ?Sized> From<Arc<T>> for Plugin<T> {
    fn from(object: Arc<T>) -> Plugin<T> {
        Plugin::Object(object)
    }
}

impl<T: Plug + ?Sized> Text for Plugin<T> {
    fn parse(text: &str) -> Result<Plugin<T>, Refusal> {
        match text {
            NULL | "" => Ok(Plugin::None),
            text => match T::built_in(text) {
                Some(object) => Ok(Plugin::Object(object)),
                None => String::parse(text).map(Plugin::Named),
            },
        }
    }

    fn print(&self) -> String {
        match self {
            Plugin::None => NULL.to_owned(),
            Plugin::Named(name) => name.print(),
            Plugin::Object(object) => object.plug_text(),
        }
    }

    /// Setting the same name keeps the object.
    fn update(&mut self, text: &str) -> Result<(), Refusal> {
        if self.is_some() && self.print() == text {
            return Ok(());
        }
        *self = Plugin::parse(text)?;
        Ok(())
    }
}
