//! A module in which the usual names mean something else.

use sqlx::{PgConnection, SqliteConnection};

struct Result;
struct Option;
struct Some;
struct None;
struct Ok;
struct Err;
struct Box;
struct Send;
struct Future;
struct From;
struct Into;
struct Outcome;
struct Source;
struct Handler;
struct Retain;
struct Time;
mod core {}
mod std {}
mod alloc {}
mod idem {}
mod inventory {}
mod sqlx {
    pub(super) use ::sqlx::*;
}

struct Event {
    key: u32,
    slot: u32,
    delivery: u32,
}

macro_rules! matches {
    () => {};
}
macro_rules! panic {
    () => {};
}
macro_rules! register {
    () => {};
}
macro_rules! submit {
    () => {};
}
macro_rules! line {
    () => {};
}
macro_rules! file {
    () => {};
}
macro_rules! module_path {
    () => {};
}

/// Its parameters are called as the expansion's own variables are.
#[::idem::idempotent(key = "(key, slot, delivery)", consumer = "shadowed")]
async fn shadowed(
    source: &mut SqliteConnection,
    Event {
        key,
        slot,
        delivery,
    }: Event,
    span: u32,
    result: u32,
    outcome: u32,
) -> ::core::result::Result<u32, sqlx::Error> {
    sqlx::query("INSERT INTO effects VALUES (1)")
        .execute(source)
        .await?;
    ::core::result::Result::Ok(key + slot + delivery + span + result + outcome)
}

#[::idem::idempotent(
    key = "(key, slot, delivery)",
    consumer = "shadowed_again",
    replay,
    retries = 1,
    fingerprint = "(codec, message)",
    in_flight = "fail",
    pool = "pool",
    isolation = "serializable"
)]
async fn again(
    source: &mut SqliteConnection,
    pool: &::sqlx::SqlitePool,
    Event {
        key,
        slot,
        delivery,
    }: &Event,
    codec: u32,
    message: u32,
    retries: u32,
) -> ::core::result::Result<u32, sqlx::Error> {
    sqlx::query("INSERT INTO effects VALUES (1)")
        .execute(source)
        .await?;
    let _ = pool.size();
    ::core::result::Result::Ok(key + slot + delivery + codec + message + retries)
}

#[::idem::idempotent(
    key = "(failed.key, failed.slot)",
    consumer = "shadowed_each",
    each = "failed in messages",
    fingerprint = "failed.delivery",
    in_flight = "wait"
)]
async fn each(
    source: &mut SqliteConnection,
    messages: Vec<Event>,
    span: u32,
    delivery: u32,
) -> ::core::result::Result<usize, sqlx::Error> {
    sqlx::query("INSERT INTO effects VALUES (?)")
        .bind(span + delivery)
        .execute(source)
        .await?;
    ::core::result::Result::Ok(messages.len())
}

#[::idem::idempotent(
    key = "(private, handler)",
    consumer = "shadowed_time",
    business_key = "(register, submit)",
    time = "time",
    from_plain,
    retain = "7d",
    redelivery = "4d",
    business_retain = "forever"
)]
async fn by_day(
    source: &mut PgConnection,
    private: u32,
    handler: u32,
    register: &str,
    submit: &str,
    time: ::std::time::SystemTime,
) -> ::core::result::Result<u32, sqlx::Error> {
    sqlx::query("INSERT INTO effects VALUES (1)")
        .execute(source)
        .await?;
    let _ = (register, submit, time);
    ::core::result::Result::Ok(private + handler)
}

#[tokio::test]
async fn shadowed_names_do_not_matter() {
    let _ = (
        Result, Option, Some, None, Ok, Err, Box, Send, Future, From, Into, Outcome, Source,
        Handler, Retain, Time,
    );
    matches!();
    panic!();
    register!();
    submit!();
    line!();
    file!();
    module_path!();
    let pool = super::handlers::pool().await;
    let event = Event {
        key: 1,
        slot: 2,
        delivery: 3,
    };
    let outcome = shadowed(&pool, event, 4, 5, 6).await.expect("no fault");
    assert_eq!(outcome, ::idem::Outcome::Processed(21));
    let event = Event {
        key: 1,
        slot: 2,
        delivery: 3,
    };
    let outcome = again(&pool, &event, 4, 5, 6).await.expect("no fault");
    assert_eq!(outcome, ::idem::Outcome::Processed(21));
    let outcome = each(&pool, vec![event], 4, 5).await.expect("no fault");
    assert_eq!(outcome.fresh, [0]);
    let listed = ::idem::handlers().find(|handler| handler.consumer == "shadowed_time");
    let listed = listed.expect("it is listed");
    assert_eq!((listed.name, listed.key), ("by_day", "(private, handler)"));
}
