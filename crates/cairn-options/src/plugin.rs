//! Objects of the user's own as options: an OPTIONS file knows their name, code brings the object.

use std::sync::Arc;

use cairn_types::{CompactionFilter, CompactionFilterFactory};

use crate::text::{NULL, Refusal, Text};

/// What can be plugged in has a name.
pub trait Plug: Send + Sync {
    /// The name that files record.
    fn plug_name(&self) -> &str;
}

impl Plug for dyn CompactionFilter {
    fn plug_name(&self) -> &str {
        self.name()
    }
}

impl Plug for dyn CompactionFilterFactory {
    fn plug_name(&self) -> &str {
        self.name()
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

    /// Whether there is an object.
    #[must_use]
    pub fn is_some(&self) -> bool {
        self.get().is_some()
    }

    /// Whether a text names an object that is not there.
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

impl<T: ?Sized> From<Arc<T>> for Plugin<T> {
    fn from(object: Arc<T>) -> Plugin<T> {
        Plugin::Object(object)
    }
}

impl<T: Plug + ?Sized> Text for Plugin<T> {
    fn parse(text: &str) -> Result<Plugin<T>, Refusal> {
        match text {
            NULL | "" => Ok(Plugin::None),
            name => String::parse(name).map(Plugin::Named),
        }
    }

    fn print(&self) -> String {
        match self {
            Plugin::None => NULL.to_owned(),
            Plugin::Named(name) => name.print(),
            Plugin::Object(object) => object.plug_name().to_owned().print(),
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
