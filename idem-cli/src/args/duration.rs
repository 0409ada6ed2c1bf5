use std::time::Duration;

/// A span of time, as everywhere in the library.
pub(super) fn time(text: &str) -> Result<Duration, String> {
    idem_duration::parse(text).map_err(|fault| match fault.meant() {
        Some(meant) => format!("{fault}; write `{meant}`"),
        None => format!("{fault}; write `5s`, `90m` or `4d`"),
    })
}

/// As [`time`], and more than none.
pub(super) fn some_time(text: &str) -> Result<Duration, String> {
    match time(text)? {
        Duration::ZERO => Err("no time at all is too short; write `5s`".to_owned()),
        time => Ok(time),
    }
}
