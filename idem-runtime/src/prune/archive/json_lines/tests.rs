#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use super::*;

fn claims(from: usize, count: usize) -> Vec<Removed> {
    (from..from + count)
        .map(|number| Removed {
            consumer: "billing".to_owned(),
            message_id: format!("evt \"{number}\"\n"),
            day: (number % 2 == 0).then(|| "2026-11-30".to_owned()),
            processed_at: "2026-11-30T08:46:20.000000Z".to_owned(),
            fingerprint: (number % 3 == 0).then(|| vec![0, 171]),
            result: (number % 5 == 0).then(|| "{\"a\":1}".to_owned()),
        })
        .collect()
}

/// A folder of this test's own.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("idem-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

fn numbers(bytes: &[u8], is_compressed: bool) -> Vec<String> {
    let mut text = String::new();
    if is_compressed {
        MultiGzDecoder::new(bytes)
            .read_to_string(&mut text)
            .unwrap();
    } else {
        text = String::from_utf8(bytes.to_vec()).unwrap();
    }
    let id = |line| {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(line["consumer"], "billing");
        line["message_id"].as_str().unwrap().to_owned()
    };
    text.lines().map(id).collect()
}

fn ids(count: usize) -> Vec<String> {
    claims(0, count)
        .into_iter()
        .map(|claim| claim.message_id)
        .collect()
}

#[test]
fn every_field_is_written_where_it_is() {
    let folder = Folder::new("fields");
    let path = folder.0.join("claims.jsonl");
    JsonLines::new(path.clone(), false)
        .append(&claims(0, 2))
        .unwrap();
    assert_eq!(
        std::fs::read_to_string(path).unwrap(),
        concat!(
            r#"{"consumer":"billing","message_id":"evt \"0\"\n","day":"2026-11-30","processed_at":"2026-11-30T08:46:20.000000Z","fingerprint":"00ab","result":"{\"a\":1}"}"#,
            "\n",
            r#"{"consumer":"billing","message_id":"evt \"1\"\n","processed_at":"2026-11-30T08:46:20.000000Z"}"#,
            "\n"
        )
    );
}

/// The file is cut off at every byte of the second chunk, as when the process dies there.
#[test]
fn what_was_cut_off_is_removed_and_written_again() {
    for is_compressed in [false, true] {
        let folder = Folder::new(if is_compressed { "cut-gz" } else { "cut" });
        let path = folder.0.join("claims");
        let open = || JsonLines::new(path.clone(), is_compressed);
        open().append(&claims(0, 30)).unwrap();
        let first = std::fs::metadata(&path).unwrap().len();
        open().append(&claims(30, 3)).unwrap();
        let whole = std::fs::read(&path).unwrap();
        assert_eq!(numbers(&whole, is_compressed), ids(33));
        for length in usize::try_from(first).unwrap()..whole.len() {
            std::fs::write(&path, &whole[..length]).unwrap();
            // Whole lines of a chunk that was cut off stay: its claims are written twice, and none is lost.
            open().append(&claims(30, 3)).unwrap();
            let mut written = numbers(&std::fs::read(&path).unwrap(), is_compressed);
            written.dedup();
            let twice = written.len() - 33;
            assert!(twice == 0 || !is_compressed, "a member is whole or gone");
            written.drain(30..30 + twice);
            assert_eq!(written, ids(33), "cut at {length}");
        }
    }
}

#[test]
fn the_first_chunk_may_be_cut_off_too() {
    for is_compressed in [false, true] {
        let folder = Folder::new(if is_compressed { "first-gz" } else { "first" });
        let path = folder.0.join("claims");
        let open = || JsonLines::new(path.clone(), is_compressed);
        open().append(&claims(0, 1)).unwrap();
        let whole = std::fs::read(&path).unwrap();
        for length in 0..whole.len() {
            std::fs::write(&path, &whole[..length]).unwrap();
            open().append(&claims(0, 1)).unwrap();
            // Where only the line's end was missing, the claim is written twice.
            let mut written = numbers(&std::fs::read(&path).unwrap(), is_compressed);
            written.dedup();
            assert_eq!(written, ids(1), "cut at {length}");
        }
    }
}

#[test]
fn a_file_of_somebody_elses_is_left_alone() {
    let folder = Folder::new("foreign");
    let path = folder.0.join("claims");
    let other = b"{\"consumer\":\"a\"}\nnot a claim\n";
    for content in [
        &[7; 1000][..],
        b"my only copy",
        b"line\n",
        b"a\nb",
        b"{\"con",
        other,
    ] {
        for is_compressed in [false, true] {
            let ours = LINE.starts_with(content) && !is_compressed;
            std::fs::write(&path, content).unwrap();
            let appended = JsonLines::new(path.clone(), is_compressed).append(&claims(0, 1));
            let after = std::fs::read(&path).unwrap();
            if ours {
                assert_eq!(numbers(&after, false), ids(1));
                continue;
            }
            assert_eq!(appended.unwrap_err().kind(), io::ErrorKind::InvalidData);
            assert_eq!(after, content);
        }
    }
}

#[test]
fn what_others_have_appended_stays() {
    let folder = Folder::new("appended");
    let path = folder.0.join("claims");
    // An editor that took the last line break away.
    let plain = JsonLines::new(path.clone(), false);
    plain.append(&claims(0, 3)).unwrap();
    let whole = std::fs::read(&path).unwrap();
    std::fs::write(&path, whole.trim_ascii_end()).unwrap();
    plain.append(&claims(3, 1)).unwrap();
    assert_eq!(numbers(&std::fs::read(&path).unwrap(), false), ids(4));
    // Another gzip, behind ours.
    let path = folder.0.join("claims.gz");
    let compressed = JsonLines::new(path.clone(), true);
    compressed.append(&claims(0, 2)).unwrap();
    let mut theirs = flate2::write::GzEncoder::new(Vec::new(), Compression::fast());
    let mut line = Vec::new();
    write_line(&claims(2, 1)[0], &mut line).unwrap();
    theirs.write_all(&line).unwrap();
    theirs.write_all(b"\n").unwrap();
    let mut file = File::options().append(true).open(&path).unwrap();
    file.write_all(&theirs.finish().unwrap()).unwrap();
    compressed.append(&claims(3, 1)).unwrap();
    assert_eq!(numbers(&std::fs::read(&path).unwrap(), true), ids(4));
}

/// Log files are moved away while somebody writes to them.
#[test]
fn a_file_that_was_moved_away_is_made_anew() {
    let folder = Folder::new("moved");
    let (path, moved) = (folder.0.join("claims"), folder.0.join("claims.1"));
    let lines = JsonLines::new(path.clone(), false);
    lines.append(&claims(0, 2)).unwrap();
    std::fs::rename(&path, &moved).unwrap();
    lines.append(&claims(2, 1)).unwrap();
    assert_eq!(numbers(&std::fs::read(&moved).unwrap(), false), ids(2));
    assert_eq!(numbers(&std::fs::read(&path).unwrap(), false), ids(3)[2..]);
}

#[test]
fn one_writes_at_a_time() {
    let folder = Folder::new("locked");
    let path = folder.0.join("claims");
    let lines = JsonLines::new(path, false);
    let writing = lines.open().unwrap();
    let error = lines.append(&claims(0, 1)).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    drop(writing);
    lines.append(&claims(0, 1)).unwrap();
}
