//! The bytes of a file's parts: each is read and hashed while the one before it is sent.
//!
//! Two parts are in memory, however long the file is. Knows nothing of the record and of what a part is sent with.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::thread;

use crate::sdk::upload::PartBytes;

/// Offset and length of a part in its file, bytes.
pub type Slice = (u64, u64);

/// Offset and length in bytes of part `number` (from 1) of `size` bytes; the last one has the rest.
pub fn slice(size: u64, part_size: u64, number: u32) -> Slice {
    let offset = u64::from(number.saturating_sub(1)).saturating_mul(part_size).min(size);
    (offset, part_size.min(size - offset))
}

/// Reads `slices` of `copy` and hands each with its place in the list to `send`, which ends the reading by an error.
///
/// # Errors
/// What `send` answered; `unreadable` when the copy is shorter or cannot be read.
pub fn each<E>(
    copy: File,
    slices: &[Slice],
    unreadable: impl Fn() -> E,
    mut send: impl FnMut(usize, &PartBytes) -> Result<(), E>,
) -> Result<(), E> {
    // No part waits for the next one while it is handed over, so one is sent, one is ready, and no third is made.
    let (ready, parts) = sync_channel(0);
    let (sent, spare) = channel();
    thread::scope(|scope| {
        let reader = thread::Builder::new().name("read-parts".into());
        let reader = reader.spawn_scoped(scope, move || read_all(copy, slices, &ready, &spare));
        reader.map_err(|_| unreadable())?;
        for at in 0..slices.len() {
            let part = next(&parts).map_err(|_| unreadable())?;
            send(at, &part)?;
            // A reader that is done wants no buffer back.
            let _ = sent.send(part.into_bytes());
        }
        // Dropped here, not behind the scope: a reader that still has a part must not wait for its taker.
        drop(parts);
        Ok(())
    })
}

fn next(parts: &Receiver<io::Result<PartBytes>>) -> io::Result<PartBytes> {
    parts.recv().unwrap_or_else(|_| Err(io::ErrorKind::UnexpectedEof.into()))
}

fn read_all(
    mut copy: File,
    slices: &[Slice],
    ready: &SyncSender<io::Result<PartBytes>>,
    spare: &Receiver<Vec<u8>>,
) {
    for slice in slices {
        let part = read(&mut copy, *slice, spare.try_recv().ok());
        // Nobody takes it after a part that failed.
        if ready.send(part).is_err() {
            return;
        }
    }
}

fn read(copy: &mut File, slice: Slice, used: Option<Vec<u8>>) -> io::Result<PartBytes> {
    let (offset, length) = slice;
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    let mut buffer = used.unwrap_or_else(|| vec![0; length]);
    buffer.resize(length, 0);
    copy.seek(SeekFrom::Start(offset))?;
    copy.read_exact(&mut buffer)?;
    Ok(PartBytes::new(buffer))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::private::{TempDir, create_file};
    use std::io::Write;

    #[test]
    fn part_slices() {
        let rows = [
            ("a multiple", 12, 4, vec![(0, 4), (4, 4), (8, 4)]),
            ("one below", 11, 4, vec![(0, 4), (4, 4), (8, 3)]),
            ("one above", 13, 4, vec![(0, 4), (4, 4), (8, 4), (12, 1)]),
            ("smaller than a part", 3, 4, vec![(0, 3)]),
            ("exactly a part", 4, 4, vec![(0, 4)]),
        ];
        for (what, size, part_size, expected) in rows {
            let count = u32::try_from(expected.len()).unwrap();
            let slices: Vec<_> = (1..=count).map(|number| slice(size, part_size, number)).collect();
            assert_eq!(slices, expected, "{what}");
            assert_eq!(slices.iter().map(|(_, length)| length).sum::<u64>(), size, "{what}");
        }
        assert_eq!(slice(3, u64::MAX, u32::MAX), (3, 0));
    }

    /// What was handed over of "0123456789", and how it ended; `send` fails at place `fails_at`.
    fn handed(slices: &[Slice], fails_at: usize) -> (Vec<String>, Result<(), &'static str>) {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("copy");
        create_file(&path).unwrap().write_all(b"0123456789").unwrap();
        let mut parts = Vec::new();
        let end = each(
            File::open(&path).unwrap(),
            slices,
            || "unreadable",
            |at, part| {
                parts.push(format!("{at}:{}", std::str::from_utf8(part.bytes()).unwrap()));
                if at == fails_at { Err("refused") } else { Ok(()) }
            },
        );
        (parts, end)
    }

    #[test]
    fn parts_come_in_order_until_one_fails() {
        type Row = (&'static str, Vec<Slice>, usize, Vec<&'static str>, Result<(), &'static str>);
        let rows: Vec<Row> = vec![
            ("none", vec![], 9, vec![], Ok(())),
            ("one", vec![(0, 10)], 9, vec!["0:0123456789"], Ok(())),
            ("some are there already", vec![(4, 4), (8, 2)], 9, vec!["0:4567", "1:89"], Ok(())),
            ("a longer after a shorter", vec![(8, 2), (0, 4)], 9, vec!["0:89", "1:0123"], Ok(())),
            ("the first fails", vec![(0, 4), (4, 4), (8, 2)], 0, vec!["0:0123"], Err("refused")),
            ("the last fails", vec![(0, 4), (8, 2)], 1, vec!["0:0123", "1:89"], Err("refused")),
            ("a short copy", vec![(0, 4), (8, 3)], 9, vec!["0:0123"], Err("unreadable")),
        ];
        for (what, slices, fails_at, parts, end) in rows {
            let (handed, ended) = handed(&slices, fails_at);
            assert_eq!((handed, ended), (parts.into_iter().map(str::to_owned).collect(), end), "{what}");
        }
    }
}
