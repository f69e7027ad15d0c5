//! Block handles: the location of a block in its file.
//!
//! Two varint64, offset and size. The size excludes the trailer of [`TRAILER_LEN`] bytes.

use cairn_types::{Decoded, Malformed};

use crate::coding::{Input, put_varint64};
use crate::table::TRAILER_LEN;

/// The location of a block in its file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Handle {
    /// The offset of the first byte.
    pub offset: u64,
    /// The length in bytes, without the trailer.
    pub size: u64,
}

/// The maximum length of an encoded handle.
pub const MAX_HANDLE_LEN: usize = 20;

impl Handle {
    /// The null handle.
    pub const NULL: Handle = Handle { offset: 0, size: 0 };

    /// True for the null handle.
    #[must_use]
    pub fn is_null(&self) -> bool {
        *self == Handle::NULL
    }

    /// The offset of the next block if it is adjacent: the end of the trailer. Saturates; a
    /// [checked](Handle::check) handle never does.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.offset
            .saturating_add(self.size)
            .saturating_add(TRAILER_LEN as u64)
    }

    /// Encodes the handle and appends it to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_varint64(out, self.offset);
        put_varint64(out, self.size);
    }

    /// Decodes a handle.
    ///
    /// # Errors
    ///
    /// If a number is truncated or too long.
    pub fn decode(input: &mut Input<'_>) -> Decoded<Handle> {
        Ok(Handle {
            offset: input.varint64()?,
            size: input.varint64()?,
        })
    }

    /// Checks that the block and its trailer end at or before `limit`, an offset of the file, so that nothing
    /// is allocated for an invalid handle. `at` is the offset of the handle.
    ///
    /// # Errors
    ///
    /// If they do not.
    pub fn check(&self, limit: u64, at: usize) -> Decoded<()> {
        self.check_with(TRAILER_LEN, limit, at)
    }

    /// [`Handle::check`] for a part of a file that a trailer of `trailer` bytes follows.
    pub(crate) fn check_with(&self, trailer: usize, limit: u64, at: usize) -> Decoded<()> {
        let end = self
            .offset
            .checked_add(self.size)
            .and_then(|end| end.checked_add(trailer as u64));
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
    fn handles_are_two_varints_within_the_file() {
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
