//! What a worker tells its supervisor: a line each, whole, at once.

use std::fmt::Arguments;
use std::io::Write as _;

/// Tells it. If nobody listens any more, this process is about to end.
pub(crate) fn tell(event: Arguments<'_>) {
    let line = format!("{event}\n");
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(line.as_bytes());
    let _ = out.flush();
}
