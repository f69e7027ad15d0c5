//! Objects of the user's own as options: an OPTIONS file knows their name, code brings the object.

use std::sync::Arc;

use cairn_types::{CompactionFilter, CompactionFilterFactory, SstPartitionerFactory, WalFilter};

use crate::sst_partitioner::FixedPrefixPartitions;
use crate::text::{NULL, Refusal, Text, object};

/// What can be plugged in has a name.
pub trait Plug: Send + Sync {
    /// The text that files record: its name, with properties if it has some.
    fn plug_text(&self) -> String;

    /// The built-in object that `text` describes, if it does.
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

/// An object of the user's, or the name of one that a file asks for, or nothing.
pub enum Plugin<T: ?Sized> {
    /// Nothing.
    None,
    /// What a text names, and nobody has brought.
    Named(String),
    /// The object.
    Object(Arc<T>),
}

impl<T: ?Sized> Plugin<T> {
    /// The object, if there is one.
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

    /// Takes the name of an object that is not there, which is then asked for no more.
    pub fn forget(&mut self) -> Option<String> {
        match std::mem::replace(self, Plugin::None) {
            Plugin::Named(name) => Some(name),
            other => {
                *self = other;
                None
            }
        }
    }

    /// True if a text names an object that is not there.
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

    /// The same name again leaves the object in its place.
    fn update(&mut self, text: &str) -> Result<(), Refusal> {
        if self.is_some() && self.print() == text {
            return Ok(());
        }
        *self = Plugin::parse(text)?;
        Ok(())
    }
}
