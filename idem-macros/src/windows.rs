use std::time::Duration;

use crate::args::{Args, CENTURY, Window};
use crate::errors::Errors;

const FOUR_DAYS: Duration = Duration::from_hours(4 * 24);

/// Refuses windows through which a message comes a second time: claims that are gone while the broker may still redeliver it.
pub(crate) fn check(args: &Args, errors: &mut Errors) {
    // Versions have no windows, and without business keys theirs means nothing: both was reported.
    if args.has("version") {
        return;
    }
    let business_retain = args.business_retain.as_ref();
    let kept = [
        ("retain", "claims", args.retain.as_ref()),
        (
            "business_retain",
            "business keys",
            business_retain.filter(|_| args.has("business_key")),
        ),
    ];
    for (argument, noun, window) in kept {
        let Some((window, retain)) = window.and_then(bounded) else {
            continue;
        };
        if !args.has("redelivery") {
            // Once is enough.
            return errors.at(&window.value, unknown(noun, retain));
        }
        if let Some((_, redelivery)) = args.redelivery.as_ref().and_then(bounded)
            && retain <= redelivery
        {
            errors.at(&window.value, hole(argument, noun, retain, redelivery));
        }
    }
}

fn bounded(window: &Window) -> Option<(&Window, Duration)> {
    Some((window, window.length?))
}

/// Without the redelivery window.
fn unknown(noun: &str, retain: Duration) -> String {
    // One that passes.
    let example = if retain > FOUR_DAYS {
        FOUR_DAYS
    } else {
        retain / 2
    };
    format!(
        "nothing says how long the broker may redeliver, so that nobody can tell whether {noun} are kept long enough: a message that comes again after its claim is gone runs a second time; add your broker's limit, as in `redelivery = \"{}\"`",
        idem_duration::write(example)
    )
}

fn hole(argument: &str, noun: &str, retain: Duration, redelivery: Duration) -> String {
    let twice = redelivery.saturating_mul(2);
    let longer = if twice <= CENTURY {
        idem_duration::write(twice)
    } else {
        "forever".to_owned()
    };
    let [retain, redelivery] = [retain, redelivery].map(idem_duration::write);
    format!(
        "{noun} are gone after {retain}, and the broker may redeliver for {redelivery}: a message that comes again after its claim is gone runs a second time; keep them longer than the broker redelivers, as in `{argument} = \"{longer}\"`"
    )
}
