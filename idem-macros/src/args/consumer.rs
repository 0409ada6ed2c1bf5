use syn::LitStr;

use super::reader::Reader;

/// The longest name of a consumer, as in `idem_runtime::MAX_CONSUMER_BYTES`; a test compares the two.
const MAX_CONSUMER_BYTES: usize = 255;

pub(super) fn read(it: &mut Reader<'_, '_>) -> Option<LitStr> {
    let name = it.string(
        "the consumer is a name in quotes, since claims are found by it after every restart",
        |_| "consumer = \"billing\"".to_owned(),
    )?;
    let text = name.value();
    let fault = if text.is_empty() {
        "the consumer's name is empty, and handlers that share a name share their claims; give it one of its own, as in `consumer = \"billing\"`".to_owned()
    } else if text.len() > MAX_CONSUMER_BYTES {
        format!(
            "the consumer's name has {} bytes and may have {MAX_CONSUMER_BYTES}, since it stands in every claim; choose a shorter one, as in `consumer = \"billing\"`",
            text.len()
        )
    } else if let Some(found) = text.chars().find(|c| c.is_whitespace() || c.is_control()) {
        format!(
            "the consumer's name holds {found:?}, which is easily mistyped in a second place; use no blanks and no control characters: write `consumer = {:?}`",
            text.split(|c: char| c.is_whitespace() || c.is_control())
                .map(|word| word.trim_matches([',', ';', ':', '.']))
                .filter(|word| !word.is_empty())
                .collect::<Vec<_>>()
                .join(".")
        )
    } else {
        return Some(name);
    };
    it.fault(name, fault);
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_the_runtimes() {
        let runtime = include_str!("../../../idem-runtime/src/consumer.rs");
        assert!(runtime.contains(&format!(
            "pub const MAX_CONSUMER_BYTES: usize = {MAX_CONSUMER_BYTES};"
        )));
    }
}
