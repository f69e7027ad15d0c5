//! Texts of table properties, which most tables of a database have in common.

use std::cell::RefCell;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// The number of texts that a thread remembers: those of tables of two databases.
const REMEMBERED: usize = 24;

/// The longest text that is remembered, in bytes.
const LONGEST: usize = 256;

thread_local! {
    /// The last texts of this thread. The oldest is replaced first.
    static RECENT: RefCell<Vec<SharedText>> = const { RefCell::new(Vec::new()) };
}

/// An immutable text that shares its memory with equal ones.
///
/// A new text is compared with the last ones of the thread. An open table would otherwise repeat half a kilobyte of names
/// and identities.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct SharedText(Option<Arc<str>>);

impl SharedText {
    /// The heap memory of the text in bytes; 0 if another text shares it.
    #[must_use]
    pub fn memory_usage(&self) -> usize {
        match &self.0 {
            // The thread remembers it, too.
            Some(text) if Arc::strong_count(text) <= 2 => text.len() + 2 * size_of::<usize>(),
            _ => 0,
        }
    }
}

impl From<&str> for SharedText {
    fn from(text: &str) -> SharedText {
        if text.is_empty() {
            return SharedText::default();
        }
        let new = || SharedText(Some(text.into()));
        if text.len() > LONGEST {
            return new();
        }
        // A thread that ends remembers nothing.
        let shared = RECENT.try_with(|recent| {
            let mut recent = recent.borrow_mut();
            if let Some(equal) = recent.iter().find(|recent| ***recent == *text) {
                return equal.clone();
            }
            if recent.len() == REMEMBERED {
                recent.remove(0);
            }
            recent.push(new());
            recent[recent.len() - 1].clone()
        });
        shared.unwrap_or_else(|_| new())
    }
}

impl From<String> for SharedText {
    fn from(text: String) -> SharedText {
        text.as_str().into()
    }
}

impl Deref for SharedText {
    type Target = str;
    fn deref(&self) -> &str {
        self.0.as_deref().unwrap_or_default()
    }
}

impl PartialEq<str> for SharedText {
    fn eq(&self, other: &str) -> bool {
        **self == *other
    }
}

impl PartialEq<&str> for SharedText {
    fn eq(&self, other: &&str) -> bool {
        **self == **other
    }
}

impl fmt::Display for SharedText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&**self, f)
    }
}

impl fmt::Debug for SharedText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_share_memory_among_the_last_ones() {
        let first = SharedText::from("leveldb.BytewiseComparator");
        let again = SharedText::from("leveldb.BytewiseComparator".to_owned());
        assert_eq!((&*first, first.as_ptr()), (&*again, again.as_ptr()));
        assert_eq!(again.memory_usage(), 0);
        drop(first);
        assert_eq!(again.memory_usage(), 26 + 16);
        for n in 0..REMEMBERED {
            let _ = SharedText::from(format!("text {n}"));
        }
        let late = SharedText::from("leveldb.BytewiseComparator");
        assert_ne!(late.as_ptr(), again.as_ptr());
        assert_eq!(late, again);
        assert_eq!(RECENT.with_borrow(Vec::len), REMEMBERED);
    }

    #[test]
    fn long_and_empty_texts_are_not_remembered() {
        let long = "x".repeat(LONGEST + 1);
        let texts = [0, 1].map(|_| SharedText::from(&*long));
        assert_ne!(texts[0].as_ptr(), texts[1].as_ptr());
        assert_eq!(
            (&*texts[1], texts[0].memory_usage()),
            (&*long, LONGEST + 17)
        );
        assert_eq!(SharedText::from(""), "");
        assert_eq!(RECENT.with_borrow(Vec::len), 0);
        assert_eq!(
            format!("{:?} {}", SharedText::from("a\n"), SharedText::from("b")),
            "\"a\\n\" b"
        );
    }
}
