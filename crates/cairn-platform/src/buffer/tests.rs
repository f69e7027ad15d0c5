//! Tests of buffers, alone and as entries of a cache.

use super::*;

const KEY: [u64; 2] = [3, 4];

/// The two kinds of memory.
const KINDS: [MemoryKind; 2] = MemoryKind::ALL;

fn with_room(bytes: &[u8], room: usize) -> Buffer {
    Buffer::copy_of(bytes, Allocation::with_room(room))
}

fn published(buffer: Buffer) -> u32 {
    buffer.publish(KEY, EntryNote::default()).expect("new")
}

#[test]
fn a_buffer_shows_its_bytes() {
    for len in [0, 1, 100, 5000] {
        let bytes: Vec<u8> = (0..len).map(|n| n as u8).collect();
        let buffer = Buffer::from(bytes.clone());
        assert_eq!((&*buffer, buffer.tail()), (&*bytes, &[][..]));
        assert_eq!(*with_room(&bytes, 30), *bytes);
        let tailed = buffer.with_tail(&[7; 9]);
        assert_eq!((&*tailed, tailed.tail()), (&*bytes, &[7; 9][..]));
        let copy = buffer.clone();
        drop(buffer);
        assert_eq!(*copy, *bytes);
        assert_eq!(copy.cut(len / 2)[..], bytes[..len - len / 2]);
    }
}

#[test]
#[should_panic(expected = "a buffer of 3 bytes is cut by 4")]
fn a_cut_is_within_the_buffer() {
    let _ = Buffer::from(vec![1, 2, 3]).cut(4);
}

#[test]
fn memory_is_reused_unless_it_is_shared() {
    let at = |buffer: &Buffer| buffer.as_ptr().addr();
    let spent = Buffer::from(vec![1; 3000]);
    let before = at(&spent);
    let filled = |spent| {
        let filled = Buffer::refilled(spent, 3000, Allocation::default(), |bytes| {
            bytes.fill(2);
            Ok::<(), ()>(())
        });
        filled.expect("filled")
    };
    let second = filled(Some(spent));
    assert_eq!(at(&second), before);
    let held = second.clone();
    let third = filled(Some(second));
    assert_ne!(at(&third), before);
    assert_eq!(*held, [2; 3000]);
    let refused = Buffer::filled(10, Allocation::default(), |_| Err("no"));
    assert_eq!(refused.expect_err("refused"), "no");
    third.recycle();
    held.clone().recycle();
    assert_eq!((*held)[0], 2);
}

#[test]
fn an_entry_is_found_while_it_is_published() {
    let buffer = Buffer::from(vec![1; 100]).with_tail(&[2; 10]);
    let number = published(buffer.clone());
    let found = Buffer::pin(number, KEY).expect("published");
    assert!(found.is_same(&buffer));
    assert_eq!((&*found, found.tail()), (&[1; 100][..], &[2; 10][..]));
    assert!(Buffer::pin(number, [3, 5]).is_none());
    assert_eq!(buffer.holders(), 3);
    let entry = Buffer::entry(number).expect("published");
    assert_eq!((entry.len, entry.hits, entry.is_held), (100, 1, true));
    let taken = Buffer::unpublish(number).expect("published");
    assert!(taken.is_same(&buffer));
    assert!(Buffer::pin(number, KEY).is_none());
    drop((buffer, taken));
    assert_eq!(*found, [1; 100]);
    drop(found);
    assert!(Buffer::pin(number, KEY).is_none());
}

#[test]
fn a_buffer_is_published_once() {
    let buffer = Buffer::from(vec![1; 10]);
    let number = published(buffer.clone());
    let refused = buffer.clone().publish(KEY, EntryNote::default());
    assert!(refused.is_err());
    drop(Buffer::unpublish(number));
    assert!(buffer.publish([8, 9], EntryNote::default()).is_err());
}

#[test]
fn a_tail_is_added_in_place_if_the_cache_alone_has_the_buffer() {
    let number = published(with_room(&[1; 100], 20));
    let pinned = || Buffer::pin(number, KEY).expect("published");
    let before = pinned();
    let refused = pinned().publish_tail(number, &[2; 20]).expect_err("shared");
    assert!(refused.tail().is_empty());
    drop((before, refused));
    let too_long = pinned().publish_tail(number, &[2; 29]);
    assert!(too_long.is_err());
    drop(too_long);
    let tailed = pinned().publish_tail(number, &[2; 20]).expect("room");
    assert_eq!((&*tailed, tailed.tail()), (&[1; 100][..], &[2; 20][..]));
    assert_eq!(pinned().tail(), [2; 20]);
    let again = tailed
        .publish_tail(number, &[3; 2])
        .expect_err("it has one");
    assert_eq!(again.tail(), [2; 20]);
    let other = with_room(&[1; 100], 20);
    assert!(other.publish_tail(number, &[3; 2]).is_err());
    drop((again, Buffer::unpublish(number)));
}

/// Regression: a reference that was taken while a tail was appended allowed its holder to append another one, over
/// that which readers saw.
#[test]
fn a_tail_that_readers_see_is_not_overwritten() {
    let number = published(with_room(&[1; 100], 20));
    let pinned = || Buffer::pin(number, KEY).expect("published");
    drop(pinned().publish_tail(number, &[2; 10]).expect("room"));
    // As if it had been taken after the references were counted and before the tail was published.
    let header = pinned().header;
    header.set_tail(0);
    let meanwhile = pinned();
    header.set_tail(10);
    let refused = meanwhile.publish_tail(number, &[3; 10]).expect_err("seen");
    assert!(refused.tail().is_empty());
    assert_eq!(pinned().tail(), [2; 10]);
    drop((refused, Buffer::unpublish(number)));
}

#[test]
fn headers_are_reused() {
    let rounds = if cfg!(miri) { 3 } else { 100 };
    let mut most = 0;
    for _ in 0..rounds {
        let all: Vec<Buffer> = (0..200).map(|n| Buffer::from(vec![n as u8; 8])).collect();
        let numbers = all.iter().map(|buffer| buffer.header.number());
        most = most.max(numbers.max().expect("some"));
        for (n, buffer) in all.iter().enumerate() {
            assert_eq!(buffer[0], n as u8);
        }
        drop(all);
    }
    // Other tests use headers as well.
    assert!(most < 20_000, "{most}");
}

#[test]
fn copies_and_reused_memory_are_of_one_kind() {
    let kind_of = |buffer: &Buffer| {
        let index = buffer.memory_kind().index();
        assert_eq!(KINDS[index], buffer.memory_kind());
        index
    };
    for (at, kind) in KINDS.into_iter().enumerate() {
        for len in [0, 100, 5000, 40_000, 3 << 20] {
            let filled = Buffer::filled(len, Allocation::of_kind(kind), |bytes| {
                bytes.fill(3);
                Ok::<(), ()>(())
            });
            let filled = filled.expect("filled");
            assert_eq!((kind_of(&filled), filled.len()), (at, len));
            let tailed = filled.with_tail(&[5; 70]);
            assert_eq!((kind_of(&tailed), tailed.tail()), (at, &[5; 70][..]));
            let other = KINDS[1 - at];
            let copy = tailed.copied_to(other);
            assert_eq!(kind_of(&copy), 1 - at);
            assert_eq!((&*copy, copy.tail()), (&*filled, &[5; 70][..]));
            // The memory of another kind is not reused.
            let refilled = Buffer::refilled(Some(copy), len, Allocation { kind, room: 70 }, |_| {
                Ok::<(), ()>(())
            });
            assert_eq!(kind_of(&refilled.expect("filled")), at);
        }
    }
}

/// True if core dumps leave out the mapping of `buffer`, according to the kernel.
#[cfg(not(miri))]
#[expect(
    clippy::disallowed_methods,
    reason = "the kernel's file, not one of a database"
)]
fn is_undumped(buffer: &Buffer) -> bool {
    let at = buffer.as_ptr().addr();
    let maps = std::fs::read_to_string("/proc/self/smaps").expect("the kernel has it");
    let holds = |line: &str| {
        let range = line
            .split(' ')
            .next()
            .and_then(|range| range.split_once('-'))?;
        let end = |text| usize::from_str_radix(text, 16).ok();
        Some((end(range.0)?..end(range.1)?).contains(&at))
    };
    let mut lines = maps.lines().skip_while(|line| holds(line) != Some(true));
    let flags = lines.find_map(|line| line.strip_prefix("VmFlags:"));
    let mut flags = flags.expect("the address is mapped").split_whitespace();
    flags.any(|flag| flag == "dd")
}

#[cfg(not(miri))]
#[test]
fn core_dumps_leave_out_one_kind_of_memory() {
    for kind in KINDS {
        for len in [100, 3000, 40_000, 3 << 20] {
            let buffer = Buffer::copy_of(&vec![1; len], Allocation::of_kind(kind));
            assert_eq!(is_undumped(&buffer), kind.is_undumped(), "{len} bytes");
        }
    }
}

/// Threads pin entries by stale numbers while others publish and remove them.
#[test]
fn stale_numbers_never_return_another_key() {
    use crate::sync::{AtomicBool, AtomicU32, Ordering};
    const PLACES: usize = 8;
    let places: [AtomicU32; PLACES] = Default::default();
    let done = AtomicBool::new(false);
    let rounds = if cfg!(miri) { 60 } else { 30_000 };
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    for (at, place) in places.iter().enumerate() {
                        let key = [at as u64, 77];
                        if let Some(found) = Buffer::pin(place.load(Ordering::Acquire), key) {
                            assert_eq!(*found, [at as u8; 40]);
                        }
                    }
                }
            });
        }
        for round in 0..rounds {
            let at = round * 5 % PLACES;
            let fresh = Buffer::from(vec![at as u8; 40]);
            let number = fresh
                .publish([at as u64, 77], EntryNote::default())
                .expect("new");
            places[at].store(number, Ordering::Release);
            let removed = Buffer::unpublish(number).expect("published");
            match round % 3 {
                0 => drop(removed),
                1 => removed.recycle(),
                _ => assert_eq!(removed[39], at as u8),
            }
        }
        done.store(true, Ordering::Relaxed);
    });
}
