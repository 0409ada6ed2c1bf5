use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use flate2::bufread::GzDecoder;
use flate2::{Compression, GzBuilder};

use crate::key::hex;
use crate::prune::chunks::Removed;

/// Stands in the header of every member, so that the last one can be found from the end of the file.
const MARK: &str = "idem: pruned claims";

/// The fixed part of the header of a member with [`MARK`] as its comment: magic number, deflate, FCOMMENT, no time, and after it the
/// comment. <https://www.rfc-editor.org/rfc/rfc1952#page-5>
const HEADER: [u8; 8] = [0x1f, 0x8b, 8, 0x10, 0, 0, 0, 0];

/// A file of claims, to which each chunk is appended and synced.
#[derive(Clone)]
pub(in crate::prune) struct JsonLines {
    path: PathBuf,
    is_compressed: bool,
    /// Open once its end was looked at.
    file: Arc<Mutex<Option<File>>>,
}

impl JsonLines {
    pub(in crate::prune) fn new(path: PathBuf, is_compressed: bool) -> Self {
        Self {
            path,
            is_compressed,
            file: Arc::default(),
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
        let mut open = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let mut file = match open.take() {
            Some(file) => file,
            None => self.open()?,
        };
        // What fails half-way is looked at, and cut off, before the next chunk is written.
        file.write_all(&bytes)?;
        file.sync_data()?;
        *open = Some(file);
        Ok(())
    }

    /// Opens the file, and cuts off what a process that died has left half-written: its claims are still in the table.
    fn open(&self) -> io::Result<File> {
        let is_new = !self.path.exists();
        let mut file = File::options()
            .read(true)
            .append(true)
            .create(true)
            .open(&self.path)?;
        let length = file.metadata()?.len();
        let whole = if self.is_compressed {
            end_of_members(&mut file, length)?
        } else {
            end_of_lines(&mut file, length)?
        };
        if whole < length {
            file.set_len(whole)?;
        }
        file.sync_all()?;
        if let (true, Some(folder)) = (is_new, self.path.parent()) {
            // The file's name is durable when its folder is. Not every system can sync a folder.
            File::open(if folder.as_os_str().is_empty() {
                ".".as_ref()
            } else {
                folder
            })
            .and_then(|folder| folder.sync_all())
            .ok();
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

/// The length of the file up to its last line break.
fn end_of_lines(file: &mut File, length: u64) -> io::Result<u64> {
    let tail = tail(file, length, |tail| tail.contains(&b'\n'))?;
    let line = tail.iter().rposition(|byte| *byte == b'\n');
    let rest = line.map_or(tail.len(), |line| tail.len() - line - 1);
    Ok(length - rest as u64)
}

/// The length of the file up to its last whole member.
fn end_of_members(file: &mut File, length: u64) -> io::Result<u64> {
    if length == 0 {
        return Ok(0);
    }
    let tail = tail(file, length, |tail| last_member(tail).is_some())?;
    let Some(start) = last_member(&tail) else {
        if length > 64 && !tail.starts_with(&HEADER) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the file is there and is none of this archive's; name another",
            ));
        }
        // The first member was cut off within its header.
        return Ok(0);
    };
    let member = &tail[start..];
    let mut decoder = GzDecoder::new(member);
    let is_whole = io::copy(&mut decoder, &mut io::sink()).is_ok();
    let rest = decoder.into_inner().len();
    let cut = if is_whole { rest } else { member.len() };
    Ok(length - cut as u64)
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
