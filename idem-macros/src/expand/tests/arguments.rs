//! What each argument adds to the expansion. That it works is tested with a database; this is about what is printed, and where.

use super::*;

/// An expansion without blanks, in which `P` is the runtime's door.
pub(super) fn expansion(attribute: &str, handler: &str) -> String {
    let expanded = idempotent(args(attribute), &handler.parse().unwrap());
    assert_eq!(messages(expanded.clone()), [""; 0], "{attribute}");
    without_blanks(&expanded).replace("::idem::__private", "P")
}

fn without_blanks(tokens: &TokenStream) -> String {
    tokens.to_string().split_whitespace().collect()
}

pub(super) fn contains(expanded: &str, parts: &[TokenStream]) {
    let mut rest = expanded;
    for part in parts {
        let part = without_blanks(part);
        let Some(place) = rest.find(&part) else {
            panic!("not there, or not here:\n{part}\nin\n{rest}");
        };
        rest = &rest[place + part.len()..];
    }
}

pub(super) const ONE: &str =
    "async fn add(&self, tx: &mut PgConnection, event: &Event) -> Result<i64, Error> { Ok(1) }";
pub(super) const ALL: &str =
    "async fn add(tx: &mut PgConnection, mut events: Vec<Event>) -> Result<i64, Error> { Ok(1) }";

#[test]
fn what_is_said_of_the_message() {
    let expanded = expansion(
        "key = event.id, consumer = \"billing\", business_key = \"(event.order_id, \\\"charge\\\")\",
        fingerprint = (event.amount, (event.currency, event.sign as u8)), in_flight = \"1m30s\", isolation = \"serializable\"",
        ONE,
    );
    contains(
        &expanded,
        &[quote! {
            let message = P::Delivery::with_business_key(
                "billing",
                P::optional_key(&event.id),
                P::key(&(P::part(&event.order_id), P::part(&"charge"),))
            )
            .fingerprint(P::fingerprint(&(P::content(&event.amount), (P::content(&event.currency), P::content(&(event.sign as u8)),),)))
            .in_flight(P::InFlight::within_ms(90000))
            .isolation(P::Isolation::Serializable);
            let mut slot
        }],
    );
    let expanded = expansion(
        "key = event.id, consumer = \"billing\", version = event.version, gapless, in_flight = \"fail\"",
        ONE,
    );
    contains(
        &expanded,
        &[quote! {
            let message = P::Delivery::of("billing", P::key(&event.id))
                .version(P::version(&event.version))
                .gapless_from(1)
                .in_flight(P::InFlight::Fail);
        }],
    );
    let expanded = expansion(
        "key = event.id, consumer = \"billing\", version = \"event.version\", gapless = -3, in_flight = \"wait\"",
        ONE,
    );
    contains(
        &expanded,
        &[quote!(.version(P::version(&event.version)).gapless_from(-3); let mut slot)],
    );
}

#[test]
fn replay_passes_a_codec() {
    let expanded = expansion("key = event.id, consumer = \"billing\", replay", ONE);
    contains(
        &expanded,
        &[
            quote!(let failed = P::failed::<Error>(); let codec = P::replay::<i64>();),
            quote!(P::begin_replay(&mut slot, tx, &message, failed, codec).await),
            quote!(delivery.finish_replay(result, failed, codec).await),
        ],
    );
    let alias = ONE.replace("Result<i64, Error>", "Answer");
    let expanded = expansion("key = event.id, consumer = \"billing\", replay", &alias);
    contains(
        &expanded,
        &[quote!(let codec = P::replay::<P::ValueOf<Answer> >();)],
    );
}

#[test]
fn retries_are_a_loop() {
    let expanded = expansion("key = event.id, consumer = \"billing\", retries = 3", ONE);
    contains(
        &expanded,
        &[quote! {
            let mut slot = P::Slot::new();
            let mut retries = P::Retries::new(3, P::conflicts::<Error, _>());
            let mut source = P::Option::Some(tx);
            loop {
                let mut delivery = match P::begin_again(&mut slot, &mut source, &message, failed, &mut retries).await {
                    P::Attempt::Fresh(delivery) => delivery,
                    P::Attempt::Ended(outcome) => return outcome,
                    P::Attempt::Again => continue,
                };
                let span = delivery.span();
                let tx: &mut PgConnection = delivery.transaction();
                let result = span
                    .within(async {
                        if false {
                            return P::returns::<Result<i64, Error> >();
                        }
                        Ok(1)
                    })
                    .await;
                match delivery.finish_again(result, failed, &mut retries).await {
                    P::Finished::Ended(outcome) => return outcome,
                    P::Finished::Again => {}
                }
            }
        }],
    );
    let expanded = expansion(
        "key = event.id, consumer = \"billing\", retries = 3, replay, pool = self.pool",
        ONE,
    );
    contains(
        &expanded,
        &[
            quote!(let pool = &self.pool; let mut source = P::Option::Some(P::pool::<P::Postgres>(pool));),
            quote!(
                P::begin_replay_again(
                    &mut slot,
                    &mut source,
                    &message,
                    failed,
                    codec,
                    &mut retries
                )
                .await
            ),
            quote!(
                delivery
                    .finish_replay_again(result, failed, codec, &mut retries)
                    .await
            ),
        ],
    );
}

#[test]
fn a_batch_is_claimed_at_once() {
    let expanded = expansion(
        "key = event.id, consumer = \"billing\", each = \"event in events\"",
        ALL,
    );
    contains(
        &expanded,
        &[
            quote!(events: Vec<Event>),
            quote!(-> Result<P::BatchOutcome<i64>, Error>),
            quote! {
                let mut messages = P::Deliveries::of("billing");
                for event in &events {
                    messages.push(P::key(&event.id));
                }
                let mut slot = P::Slot::new();
                let mut delivery = match P::begin_batch(&mut slot, tx, &messages, failed).await {
                    P::Begun::Fresh(delivery) => delivery,
                    P::Begun::Ended(outcome) => return outcome,
                };
                let mut events = delivery.fresh(events);
                let span
            },
            quote!(async move),
            quote!(delivery.finish_batch(result, failed).await),
        ],
    );
    // The parameter's `mut` is the body's.
    assert_eq!(expanded.matches("mutevents").count(), 1, "{expanded}");
    let expanded = expansion(
        "key = id, consumer = \"billing\", each = Event { id, amount, .. } in events, fingerprint = amount, in_flight = \"fail\"",
        "async fn add(tx: &mut PgConnection, Json(events): Json<Vec<Event>>) -> Answer { Ok(1) }",
    );
    contains(
        &expanded,
        &[
            quote!(Json(events): Json<Vec<Event> >),
            quote!(-> P::BatchOutcomeOf<Answer>),
            quote! {
                for Event { id, amount, .. } in &events {
                    messages.push(P::key(&id)).fingerprint(P::fingerprint(&amount));
                }
                let messages = messages.in_flight(P::InFlight::Fail);
            },
            quote!(let events = delivery.fresh(events);),
        ],
    );
}

#[test]
fn with_a_pool_the_parameter_vanishes() {
    let expanded = expansion(
        "key = event.id, consumer = \"billing\", pool = \"self.pool\"",
        ONE,
    );
    contains(
        &expanded,
        &[
            quote!(async fn add(&self, event: &Event) -> Result<P::Outcome<i64>, Error>),
            quote!(
                P::begin(
                    &mut slot,
                    P::pool::<P::Postgres>(&self.pool),
                    &message,
                    failed
                )
                .await
            ),
            quote!(let tx: &mut PgConnection = delivery.transaction();),
        ],
    );
    // The pool that it comes from is no way around it, and another one is.
    let handler = "async fn add<'t>(#[tx] tx: &'t mut Alias<'t>, State(pool): State<PgPool>, event: Event) -> Result<i64, Error> { Ok(1) }";
    let attribute = "key = event.id, consumer = \"billing\", pool = pool";
    let expanded = expansion(attribute, handler);
    contains(
        &expanded,
        &[
            quote!(async fn add(State(pool): State<PgPool>, event: Event) -> Result),
            quote!(P::pool::<P::DatabaseOf<Alias<'static>>>(&pool)),
        ],
    );
    let other = handler.replace("event: Event", "event: Event, other: &PgPool");
    let faults = messages(idempotent(args(attribute), &other.parse().unwrap()));
    assert_eq!(faults.len(), 1, "{faults:?}");
}

#[test]
fn the_library_may_be_elsewhere() {
    for root in ["crate::deps::idem", "\"crate::deps::idem\""] {
        let attribute =
            format!("crate = {root}, key = event.id, consumer = \"billing\", retries = 1, replay");
        let expanded = expansion(&attribute, ONE);
        let expanded = expanded.replace("crate::depsP", "Q");
        contains(
            &expanded,
            &[
                quote!(tx: impl Q::Source<'_, Database = Q::Postgres>),
                quote!(Result<Q::Outcome<i64>, Error>),
                quote!(Q::Delivery::of("billing", Q::key(&event.id))),
                quote!(Q::begin_replay_again),
            ],
        );
        assert!(!expanded.contains("P::"), "{expanded}");
    }
}

#[test]
fn tx_is_a_transaction() {
    for (ty, database) in [
        ("Tx<'_, Postgres>", quote!(P::Postgres)),
        ("idem::Tx<'_, sqlx::MySql>", quote!(P::MySql)),
        ("Tx<'t, DB>", quote!(P::DatabaseOf<Tx<'static, DB>>)),
    ] {
        let handler = format!(
            "async fn add<'t, DB: Backend>(tx: &'t mut {ty}, event: &Event) -> Result<i64, Error> {{ Ok(1) }}"
        );
        let expanded = expansion("key = event.id, consumer = \"billing\"", &handler);
        contains(
            &expanded,
            &[quote!(tx: impl P::Source<'_, Database = #database>)],
        );
    }
}
