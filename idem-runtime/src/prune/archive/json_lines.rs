use std::fmt;
use std::fs::{File, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;

use flate2::bufread::{GzDecoder, MultiGzDecoder};
use flate2::{Compression, GzBuilder};

use crate::key::hex;
use crate::prune::chunks::Removed;

/// Stands in the header of every member, so that the last one can be found from the end of the file.
const MARK: &str = "idem: pruned claims";

/// The fixed part of the header of a member with [`MARK`] as its comment: magic number, deflate, FCOMMENT, no time, and after it the
/// comment. <https://www.rfc-editor.org/rfc/rfc1952#page-5>
const HEADER: [u8; 8] = [0x1f, 0x8b, 8, 0x10, 0, 0, 0, 0];

/// What every line begins with.
const LINE: &[u8] = br#"{"consumer":"#;

/// A file of claims, to which each chunk is appended and synced. It is opened anew each time, since somebody may move it away meanwhile.
#[derive(Clone)]
pub(in crate::prune) struct JsonLines {
    path: PathBuf,
    is_compressed: bool,
}

impl JsonLines {
    pub(in crate::prune) fn new(path: PathBuf, is_compressed: bool) -> Self {
        Self {
            path,
            is_compressed,
        }
    }

    pub(in crate::prune) fn append(&self, claims: &[Removed]) -> io::Result<()> {
        let mut lines = Vec::new();
        for claim in claims {
            write_line(claim, &mut lines)?;
            lines.push(b'\n');
        }
        let bytes = if self.is_compressed {
            compress(&lines)?
        } else {
            lines
        };
        // What fails half-way is cut off when the file is opened for the next chunk. The lock ends with the file.
        let mut file = self.open()?;
        file.write_all(&bytes)?;
        file.sync_data()
    }

    /// Opens the file, and cuts off what a process that died has left half-written: its claims are still in the table. What is not ours is
    /// left as it is.
    fn open(&self) -> io::Result<File> {
        let is_new = !self.path.exists();
        let mut file = File::options()
            .read(true)
            .append(true)
            .create(true)
            .open(&self.path)?;
        file.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => io::Error::new(
                io::ErrorKind::WouldBlock,
                "another pruner is writing to the file; give each a file of its own",
            ),
            TryLockError::Error(error) => error,
        })?;
        let length = file.metadata()?.len();
        let end = if self.is_compressed {
            end_of_members(&mut file, length)?
        } else {
            end_of_lines(&mut file, length)?
        };
        match end {
            End::Whole => {}
            End::At(whole) => file.set_len(whole)?,
            End::LacksLineBreak => file.write_all(b"\n")?,
        }
        if let (true, Some(folder)) = (is_new, self.path.parent()) {
            // The file's name is durable when its folder is. Not every system can sync a folder.
            let folder = if folder.as_os_str().is_empty() {
                ".".as_ref()
            } else {
                folder
            };
            File::open(folder).and_then(|folder| folder.sync_all()).ok();
        }
        Ok(file)
    }
}

impl fmt::Debug for JsonLines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.display())
    }
}

/// One JSON object, with the fields that the claim has.
fn write_line(claim: &Removed, lines: &mut Vec<u8>) -> io::Result<()> {
    let fingerprint = claim.fingerprint.as_ref().map(|bytes| hex(bytes));
    let fields = [
        ("consumer", Some(&claim.consumer)),
        ("message_id", Some(&claim.message_id)),
        ("day", claim.day.as_ref()),
        ("processed_at", Some(&claim.processed_at)),
        ("fingerprint", fingerprint.as_ref()),
        ("result", claim.result.as_ref()),
    ];
    let mut before = '{';
    for (name, value) in fields {
        if let Some(value) = value {
            write!(lines, "{before}\"{name}\":")?;
            serde_json::to_writer(&mut *lines, value)?;
            before = ',';
        }
    }
    lines.push(b'}');
    Ok(())
}

fn compress(lines: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = GzBuilder::new()
        .comment(MARK)
        .write(Vec::new(), Compression::default());
    encoder.write_all(lines)?;
    encoder.finish()
}

/// How the file ends.
enum End {
    Whole,
    /// After this length, something of ours was cut off.
    At(u64),
    /// In a whole line of ours, to which somebody's editor has given no end.
    LacksLineBreak,
}

fn foreign() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        "the file is there, and its end is none of an archive of claims; it is left as it is: name another file",
    )
}

fn end_of_lines(file: &mut File, length: u64) -> io::Result<End> {
    let is_enough = |tail: &[u8]| tail.split(|byte| *byte == b'\n').count() > 2;
    let tail = tail(file, length, is_enough)?;
    let (last, piece) = match tail.iter().rposition(|byte| *byte == b'\n') {
        Some(at) => {
            let before = tail[..at].iter().rposition(|byte| *byte == b'\n');
            (
                Some(&tail[before.map_or(0, |before| before + 1)..at]),
                &tail[at + 1..],
            )
        }
        None => (None, tail.as_slice()),
    };
    let is_ours = |line: &[u8]| line.starts_with(LINE) || LINE.starts_with(line);
    if last.is_some_and(|line| !line.starts_with(LINE)) || !is_ours(piece) {
        return Err(foreign());
    }
    if piece.is_empty() {
        return Ok(End::Whole);
    }
    if serde_json::from_slice::<serde_json::Value>(piece).is_ok() {
        return Ok(End::LacksLineBreak);
    }
    Ok(End::At(length - piece.len() as u64))
}

fn end_of_members(file: &mut File, length: u64) -> io::Result<End> {
    let tail = tail(file, length, |tail| last_member(tail).is_some())?;
    let header = [&HEADER[..], &[0, 0], MARK.as_bytes()].concat();
    // Of a header that was cut off, two bytes may have any value.
    let is_ours = |rest: &[u8]| {
        rest.len() < header.len() + 2
            && rest
                .iter()
                .zip(&header)
                .enumerate()
                .all(|(at, (byte, ours))| byte == ours || (8..10).contains(&at))
    };
    let Some(start) = last_member(&tail) else {
        return match tail.as_slice() {
            [] => Ok(End::Whole),
            rest if is_ours(rest) => Ok(End::At(0)),
            _ => Err(foreign()),
        };
    };
    let member = &tail[start..];
    let mut decoder = GzDecoder::new(member);
    if io::copy(&mut decoder, &mut io::sink()).is_err() {
        return Ok(End::At(length - member.len() as u64));
    }
    let rest = decoder.into_inner();
    if rest.is_empty() {
        return Ok(End::Whole);
    }
    if is_ours(rest) {
        return Ok(End::At(length - rest.len() as u64));
    }
    // Somebody has appended with a tool of theirs.
    let mut decoder = MultiGzDecoder::new(rest);
    io::copy(&mut decoder, &mut io::sink()).map_err(|_| foreign())?;
    Ok(End::Whole)
}

/// Where the last member begins.
fn last_member(bytes: &[u8]) -> Option<usize> {
    let comment = HEADER.len() + 2;
    let begins = |at: &usize| {
        let header = &bytes[*at..];
        header.starts_with(&HEADER)
            && header
                .get(comment..)
                .is_some_and(|rest| rest.starts_with(MARK.as_bytes()))
    };
    (0..bytes.len()).rev().find(begins)
}

/// The end of the file, from as far back as it takes.
fn tail(file: &mut File, length: u64, is_enough: impl Fn(&[u8]) -> bool) -> io::Result<Vec<u8>> {
    let mut size = 1 << 20;
    loop {
        let from = length.saturating_sub(size);
        let mut tail = Vec::new();
        file.seek(SeekFrom::Start(from))?;
        Read::by_ref(file)
            .take(length - from)
            .read_to_end(&mut tail)?;
        if from == 0 || is_enough(&tail) {
            return Ok(tail);
        }
        size *= 4;
    }
}

#[cfg(test)]
mod tests;
