//! Ids that begin with the time at which they were made, in milliseconds.

use super::{Day, InvalidTime};

/// <https://www.rfc-editor.org/rfc/rfc9562#name-uuid-version-7>: 48 bits of time, and the version in the four bits after them.
pub(super) fn of_uuid(uuid: u128) -> Result<Day, InvalidTime> {
    if (uuid >> 76) & 0xf != 7 {
        return Err(InvalidTime::NoTime);
    }
    of_millis(uuid >> 80)
}

pub(super) fn of_text(text: &str) -> Result<Day, InvalidTime> {
    match text.len() {
        26 => of_ulid(text),
        32 | 36 => {
            let digits = text.replace('-', "");
            let is_uuid = digits.len() == 32 && digits.bytes().all(|b| b.is_ascii_hexdigit());
            match u128::from_str_radix(&digits, 16) {
                Ok(uuid) if is_uuid => of_uuid(uuid),
                _ => Err(InvalidTime::NoTime),
            }
        }
        _ => Err(InvalidTime::NoTime),
    }
}

/// <https://github.com/ulid/spec>: 26 characters of five bits, of which the first ten are the time. Of the first, three bits count.
fn of_ulid(text: &str) -> Result<Day, InvalidTime> {
    const ALPHABET: &str = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
    let mut millis = 0;
    for (index, c) in text.chars().enumerate() {
        let value = ALPHABET.find(c.to_ascii_uppercase());
        let value = value.filter(|value| index > 0 || *value < 8);
        let value = value.ok_or(InvalidTime::NoTime)?;
        if index < 10 {
            millis = millis * 32 + value as u128;
        }
    }
    of_millis(millis)
}

fn of_millis(millis: u128) -> Result<Day, InvalidTime> {
    Day::of_unix(i64::try_from(millis / 1000).map_err(|_| InvalidTime::OutOfRange)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_that_hold_a_time() {
        for (id, day) in [
            // The example of RFC 9562, and the one of ULID's specification.
            ("017F22E2-79B0-7CC3-98C4-DC0C0C07398F", "2022-02-22"),
            ("017f22e279b07cc398c4dc0c0c07398f", "2022-02-22"),
            ("01ARZ3NDEKTSV4RRFFQ69G5FAV", "2016-07-30"),
            ("01arz3ndektsv4rrffq69g5fav", "2016-07-30"),
        ] {
            assert_eq!(
                of_text(id).map(|day| day.to_string()),
                Ok(day.to_owned()),
                "{id}"
            );
        }
    }

    #[test]
    fn ids_that_hold_none() {
        for id in [
            "",
            "evt-1",
            // Versions 4 and 1.
            "919108f7-52d1-4320-9bac-f847db4148a8",
            "c232ab00-9414-11ec-b3c8-9f6bdeced846",
            "017F22E2-79B0-7CC3-98C4-DC0C0C07398G",
            "+17F22E279B07CC398C4DC0C0C07398F",
            "017F22E2-79B0-7CC3-98C4-DC0C0C07-98F",
            "81ARZ3NDEKTSV4RRFFQ69G5FAV",
            "01ARZ3NDEKTSV4RRFFQ69G5FAU",
            "ééééééééééééé",
            "2026-11-30T08:46:20.000000",
        ] {
            assert_eq!(of_text(id), Err(InvalidTime::NoTime), "{id}");
        }
        assert_eq!(
            of_text("7ZZZZZZZZZZZZZZZZZZZZZZZZZ"),
            Err(InvalidTime::OutOfRange)
        );
    }
}
