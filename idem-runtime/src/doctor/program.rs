use std::collections::BTreeMap;

use super::Finding;
use crate::{Handler, Windows, handlers};

/// Handlers that share a consumer's name.
pub(super) fn handlers_that_share<'h>(
    handlers: impl Iterator<Item = &'h Handler>,
    findings: &mut Vec<Finding>,
) {
    let mut of_consumers: BTreeMap<&str, Vec<&Handler>> = BTreeMap::new();
    for handler in handlers {
        of_consumers
            .entry(handler.consumer)
            .or_default()
            .push(handler);
    }
    for (consumer, mut handlers) in of_consumers {
        if handlers.len() < 2 {
            continue;
        }
        handlers.sort_by_key(|handler| (handler.file, handler.line));
        let places: Vec<String> = handlers
            .iter()
            .map(|handler| {
                format!(
                    "`{}` ({}:{}, key `{}`)",
                    handler.name, handler.file, handler.line, handler.key
                )
            })
            .collect();
        findings.push(Finding::warning(
            "shared-consumer",
            format!(
                "the consumer `{consumer}` has {} handlers: {}; what one of them has processed is a duplicate to the others, which skip it",
                handlers.len(),
                places.join(", ")
            ),
            "give each a consumer of its own, unless they are meant to share their messages",
        ));
    }
}

/// Handlers whose claims nobody will ever remove.
fn handlers_without_window<'h>(
    handlers: impl Iterator<Item = &'h Handler>,
    windows: &Windows,
    findings: &mut Vec<Finding>,
) {
    for handler in handlers {
        if handler.has_version || windows.retain_of(handler.consumer).is_some() {
            continue;
        }
        findings.push(Finding::warning(
            "growth",
            format!(
                "the handler `{}` ({}:{}) has no window, so that the claims of its consumer `{}` are kept for ever and the table grows",
                handler.name, handler.file, handler.line, handler.consumer
            ),
            "give it `retain` and `redelivery`, or the pruner a window for its consumer; `retain = \"forever\"` says that it is meant",
        ));
    }
}

pub(super) fn examine(windows: &Windows, findings: &mut Vec<Finding>) {
    handlers_that_share(handlers(), findings);
    handlers_without_window(handlers(), windows, findings);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handler_without_a_window_is_named_before_it_has_claims() {
        let mut findings = Vec::new();
        let list = [
            Handler::new("mail", "send", "id").at("m", "src/mail.rs", 7),
            Handler::new("billing", "bill", "id"),
            Handler::new("stock", "apply", "id").version(),
        ];
        let windows = Windows::new().window("billing", crate::Retain::Forever);
        handlers_without_window(list.iter(), &windows, &mut findings);
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert!(findings[0].what.contains("`send` (src/mail.rs:7)"));
    }

    #[test]
    fn handlers_that_share_a_consumer_are_named_together() {
        let mut findings = Vec::new();
        let list = [
            Handler::new("billing", "two", "event.id").at("m", "src/b.rs", 7),
            Handler::new("billing", "one", "id").at("m", "src/a.rs", 3),
            Handler::new("mail", "send", "id"),
        ];
        handlers_that_share(list.iter(), &mut findings);
        assert_eq!(findings.len(), 1, "{findings:?}");
        let what = &findings[0].what;
        assert!(what.contains("`billing` has 2 handlers: `one` (src/a.rs:3, key `id`), `two` (src/b.rs:7, key `event.id`)"), "{what}");
    }
}
