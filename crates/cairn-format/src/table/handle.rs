//! Handles: where a block lies in its file.
//!
//! Two varint64, offset and size. The size leaves out the trailer of [`TRAILER_LEN`] bytes.

use cairn_types::{Decoded, Malformed};

use crate::coding::{Input, put_varint64};
use crate::table::TRAILER_LEN;

/// The place of a block in its file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Handle {
    /// Offset of the first byte.
    pub offset: u64,
    /// Length in bytes, without the trailer.
    pub size: u64,
}

/// The longest encoding of a handle.
pub const MAX_HANDLE_LEN: usize = 20;

impl Handle {
    /// The handle that points nowhere.
    pub const NULL: Handle = Handle { offset: 0, size: 0 };

    /// True if it points nowhere.
    #[must_use]
    pub fn is_null(&self) -> bool {
        *self == Handle::NULL
    }

    /// Where the block behind it begins, if the next one follows at once: after the trailer.
    /// Saturates; a handle that was [checked](Handle::check) does not come near.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.offset
            .saturating_add(self.size)
            .saturating_add(TRAILER_LEN as u64)
    }

    /// Appends the handle to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_varint64(out, self.offset);
        put_varint64(out, self.size);
    }

    /// Reads a handle.
    ///
    /// # Errors
    ///
    /// When a number is cut short or too long.
    pub fn decode(input: &mut Input<'_>) -> Decoded<Handle> {
        Ok(Handle {
            offset: input.varint64()?,
            size: input.varint64()?,
        })
    }

    /// Checks that the block and its trailer end at or before `limit`, an offset of the file, so
    /// that nobody allocates by a handle that cannot be right. `at` is where it was found.
    ///
    /// # Errors
    ///
    /// When they do not.
    pub fn check(&self, limit: u64, at: usize) -> Decoded<()> {
        let end = self
            .offset
            .checked_add(self.size)
            .and_then(|end| end.checked_add(TRAILER_LEN as u64));
        if end.is_some_and(|end| end <= limit) {
            return Ok(());
        }
        Err(Malformed::mismatch(
            at,
            "handle of a block",
            format_args!("an end at or before {limit}"),
            format_args!("offset {} and size {}", self.offset, self.size),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_is_two_varints_and_must_lie_in_its_file() {
        let handle = Handle {
            offset: 300,
            size: 7,
        };
        let mut bytes = Vec::new();
        handle.encode(&mut bytes);
        assert_eq!(bytes, [0xac, 0x02, 7]);
        assert_eq!(Handle::decode(&mut Input::new(&bytes)).unwrap(), handle);
        assert!(handle.check(312, 0).is_ok());
        assert!(handle.check(311, 0).is_err());
        let huge = Handle {
            offset: u64::MAX - 3,
            size: 1,
        };
        assert!(huge.check(u64::MAX, 0).is_err());
    }
}
