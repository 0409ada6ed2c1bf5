//! How things read for people.

mod table;

pub(crate) use table::{Align, Table};

/// Text from the database, without what would move the cursor of a terminal.
pub(crate) fn shown(text: &str) -> String {
    text.chars()
        .flat_map(|c| {
            let escaped = c.is_control().then(|| c.escape_default());
            let plain = escaped.is_none().then_some(c);
            escaped.into_iter().flatten().chain(plain)
        })
        .collect()
}

/// `1,234,567`
pub(crate) fn number(number: impl TryInto<u64>) -> String {
    let digits = number.try_into().unwrap_or_default().to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 claim`, `2 claims`
pub(crate) fn count(n: u64, one: &str, many: &str) -> String {
    format!("{} {}", number(n), if n == 1 { one } else { many })
}

/// `12.3 MiB`
pub(crate) fn bytes(bytes: u64) -> String {
    let mut unit = "B";
    // Tenths, so that no float is needed.
    let mut tenths = bytes.saturating_mul(10);
    for larger in ["KiB", "MiB", "GiB", "TiB"] {
        if tenths < 10_240 {
            break;
        }
        tenths /= 1024;
        unit = larger;
    }
    if unit == "B" {
        return format!("{bytes} B");
    }
    format!("{}.{} {unit}", tenths / 10, tenths % 10)
}

/// The two largest units of an age, which is all that matters at a glance: `3d 4h`.
pub(crate) fn age(seconds: i64) -> String {
    let Ok(seconds) = u64::try_from(seconds) else {
        return "in the future".to_owned();
    };
    let units = [("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)];
    let first = units.iter().position(|(_, length)| seconds >= *length);
    let mut rest = seconds;
    let mut parts = Vec::new();
    for (unit, length) in units.iter().skip(first.unwrap_or(units.len() - 1)).take(2) {
        if rest >= *length || parts.is_empty() {
            parts.push(format!("{}{unit}", rest / length));
        }
        rest %= length;
    }
    parts.join(" ")
}

/// A time as the store gives it (RFC 3339, UTC), to the second.
pub(crate) fn time(time: &str) -> String {
    let seconds = time.get(..19).unwrap_or(time);
    format!("{} UTC", seconds.replacen('T', " ", 1))
}

/// Names as a sentence lists them, a few at most.
pub(crate) fn list(names: &[String]) -> String {
    const FEW: usize = 8;
    let mut shown: Vec<String> = names
        .iter()
        .take(FEW)
        .map(|name| format!("`{}`", self::shown(name)))
        .collect();
    if names.len() > FEW {
        shown.push(format!("and {} more", names.len() - FEW));
    }
    shown.join(", ")
}

/// The name that was most likely meant.
pub(crate) fn nearest<'n>(wrong: &str, names: &'n [String]) -> Option<&'n String> {
    let distance = |name: &str| distance(wrong, name);
    names
        .iter()
        .min_by_key(|name| distance(name))
        .filter(|name| distance(name) <= wrong.chars().count().div_ceil(3))
}

/// How many characters have to change (Levenshtein).
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.to_lowercase().chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.to_lowercase().chars().enumerate() {
        let mut diagonal = i;
        row[0] = i + 1;
        for (j, b) in other.iter().enumerate() {
            let changed = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_sizes_and_ages_read_well() {
        assert_eq!(number(0_u64), "0");
        assert_eq!(number(999_u64), "999");
        assert_eq!(number(1_000_u64), "1,000");
        assert_eq!(number(12_345_678_u64), "12,345,678");
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(1024), "1.0 KiB");
        assert_eq!(bytes(1_600_000), "1.5 MiB");
        assert_eq!(age(0), "0s");
        assert_eq!(age(59), "59s");
        assert_eq!(age(3_600), "1h");
        assert_eq!(age(90_061), "1d 1h");
        assert_eq!(age(86_401), "1d");
        assert_eq!(age(-5), "in the future");
        assert_eq!(
            time("2026-11-30T09:00:01.123456Z"),
            "2026-11-30 09:00:01 UTC"
        );
    }

    #[test]
    fn text_from_the_database_cannot_move_the_cursor() {
        assert_eq!(shown("a\u{1b}[2Jb\n|á"), "a\\u{1b}[2Jb\\n|á");
    }

    #[test]
    fn a_typing_error_finds_its_name() {
        let names = ["billing".to_owned(), "email".to_owned()];
        assert_eq!(nearest("biling", &names), Some(&names[0]));
        assert_eq!(nearest("Email", &names), Some(&names[1]));
        let mail = ["mail".to_owned()];
        assert_eq!(nearest("mial", &mail), Some(&mail[0]));
        assert_eq!(nearest("projection", &names), None);
    }
}
