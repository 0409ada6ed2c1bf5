use sqlx::PgConnection;

use super::{exists, table};
use crate::postgres::days;
use crate::{Day, Finding, Retain, Windows, handlers};

const CREATE: &str = "let an `idem::Pruner` run, which creates days ahead, or call `idem::Days::new(&pool).create()`, or `idem partitions create`";

const OTHER_PARTITIONS: &str = "SELECT string_agg(relname, ', ') FROM pg_inherits JOIN pg_class ON pg_class.oid = inhrelid \
    WHERE inhparent = 'processed_messages_by_day'::regclass AND (relname !~ $1 OR pg_get_expr(relpartbound, pg_class.oid) = 'DEFAULT')";

/// What is wrong with the table by days.
pub(super) async fn examine(
    conn: &mut PgConnection,
    today: Day,
    windows: &Windows,
    findings: &mut Vec<Finding>,
) -> Result<(), sqlx::Error> {
    let needs_it: Vec<&str> = handlers()
        .filter(|handler| handler.time.is_some())
        .map(|handler| handler.consumer)
        .collect();
    if !exists(conn, "processed_messages_by_day").await? {
        if let Some(consumer) = needs_it.first() {
            findings.push(Finding::error(
                "days",
                format!("there is no table `processed_messages_by_day`, and the consumer `{consumer}` has a `time`"),
                CREATE,
            ));
        }
        return Ok(());
    }
    table(
        conn,
        "processed_messages_by_day",
        &["consumer", "message_id", "day"],
        findings,
    )
    .await?;
    let others: Option<String> = sqlx::query_scalar(OTHER_PARTITIONS)
        .persistent(false)
        .bind(days::NAMES)
        .fetch_one(&mut *conn)
        .await?;
    if let Some(others) = others {
        findings.push(Finding::error(
            "days",
            format!("`processed_messages_by_day` has partitions that are no days of its own: {others}; a default one takes messages that should be refused, and keeps days from being dropped"),
            "detach them, and let `idem::Days` make the days",
        ));
    }
    let may_create: bool = sqlx::query_scalar(
        "SELECT pg_has_role(relowner, 'USAGE') AND has_schema_privilege(relnamespace, 'CREATE') FROM pg_class WHERE oid = 'processed_messages_by_day'::regclass",
    )
    .persistent(false)
    .fetch_one(&mut *conn)
    .await?;
    if !may_create {
        findings.push(Finding::note(
            "rights",
            "the user may not create or drop days of `processed_messages_by_day`, which takes its owner",
            "let the pruner connect as the owner",
        ));
    }
    let days = days::list(conn).await?;
    order(&days, today, findings);
    age(&days, windows, findings);
    if let Some(day) = days.iter().find(|day| !day.public.is_attached) {
        findings.push(Finding::note(
            "days",
            format!("the day {} is detached and not yet dropped", day.public.day),
            "the next run of the pruner goes on with it",
        ));
    }
    Ok(())
}

/// Days that are missing, above all those of today and tomorrow.
fn order(days: &[days::Table], today: Day, findings: &mut Vec<Finding>) {
    let mut attached: Vec<i32> = days
        .iter()
        .filter(|day| day.public.is_attached)
        .map(|day| day.public.day.number())
        .collect();
    attached.sort_unstable();
    let shown =
        |number: i32| Day::of_number(number).map_or_else(String::new, |day| day.to_string());
    match (attached.first(), attached.last()) {
        (Some(first), Some(last)) => {
            let has = |day: &i32| attached.binary_search(day).is_ok();
            let missing: Vec<i32> = (*first..*last).filter(|day| !has(day)).collect();
            if let (Some(one), Some(other)) = (missing.first(), missing.last()) {
                findings.push(Finding::warning(
                    "days",
                    format!(
                        "{} days are missing among those of `processed_messages_by_day`, from {} to {}; their messages are refused",
                        missing.len(),
                        shown(*one),
                        shown(*other)
                    ),
                    "if they were taken out by mistake, attach them again; a partition that lies far ahead does no good, and is best dropped",
                ));
            }
            let what = format!(
                "`processed_messages_by_day` has the days from {} to {}, and today is {today}: ",
                shown(*first),
                shown(*last)
            );
            let (today, ahead) = (today.number(), today.number() + 2);
            if *first > today {
                findings.push(Finding::error(
                    "days",
                    format!("{what}the days up to today are gone, with their claims, as after a run with a clock that was ahead; messages of today fail"),
                    "attach a partition for today by hand if you know that messages of today that were processed already do not come again; later days are there",
                ));
            } else if !has(&today) {
                findings.push(Finding::error("days", format!("{what}there is none for today, whose messages fail"), CREATE));
            } else if (today..=ahead).any(|day| !has(&day)) {
                findings.push(Finding::warning("days", format!("{what}messages of the next days will fail"), CREATE));
            }
        }
        _ => findings.push(Finding::error(
            "days",
            "the table `processed_messages_by_day` has no days, so that nothing can be claimed in it",
            CREATE,
        )),
    }
}

/// Days that should be gone, or never go.
fn age(days: &[days::Table], windows: &Windows, findings: &mut Vec<Finding>) {
    match windows.retain_of_days() {
        None | Some(Retain::Forever) => findings.push(Finding::warning(
            "growth",
            "the days of `processed_messages_by_day` have no window, so that they are kept for ever and the table grows",
            "give the handlers with `time` a `retain` and a `redelivery`, or the pruner a default window",
        )),
        Some(Retain::For(retain)) => {
            let late = retain.as_secs_f64() + 2.0 * 24.0 * 60.0 * 60.0;
            if let Some(day) = days.first().filter(|day| day.age > late) {
                findings.push(Finding::warning(
                    "prune-lag",
                    format!("the day {} is past its window and still there: no pruner drops days, or a consumer with claims in it keeps it", day.public.day),
                    "run an `idem::Pruner` and look at its `without_window` and its errors; `idem partitions` lists the days",
                ));
            }
        }
    }
}
