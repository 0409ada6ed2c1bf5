use std::collections::BTreeMap;

use super::Finding;
use crate::{Handler, handlers};

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

pub(super) fn examine(findings: &mut Vec<Finding>) {
    handlers_that_share(handlers(), findings);
}
