use sqlx::{PgConnection, Row as _};

use crate::prune::chunks::Step;

/// A BRIN index keeps for each range of pages the earliest and the latest time. Deleting does not change them, so that a range whose
/// pages are used again would seem to hold claims from the beginning of time, and after a while every range would. Forgotten, a
/// range is summarized anew by the next vacuum, which the dead rows are waiting for anyway:
/// <https://www.postgresql.org/docs/current/brin-intro.html#BRIN-OPERATION>
pub(super) async fn forget(conn: &mut PgConnection, steps: &[Step]) {
    if let Ok(Some(index)) = own_brin(&mut *conn).await {
        let mut ranges: Vec<i64> = Vec::new();
        for step in steps {
            if let Step::Pages { first, end } = step {
                let (first, last) = (first / index.pages, (end - 1) / index.pages);
                let first = ranges.last().map_or(first, |known| first.max(known + 1));
                ranges.extend(first..=last);
            }
        }
        let pages: Vec<i64> = ranges.iter().map(|range| range * index.pages).collect();
        // It takes the lock that vacuum takes: in small parts, and without waiting for one that is under way.
        for pages in pages.chunks(100) {
            let forget = "SELECT set_config('lock_timeout', '50ms', true), brin_desummarize_range($1::bigint::oid::regclass, page) FROM unnest($2::bigint[]) AS page";
            let forget = sqlx::query(forget)
                .persistent(false)
                .bind(index.oid)
                .bind(pages);
            if forget.execute(&mut *conn).await.is_err() {
                return;
            }
        }
    }
}

struct Brin {
    oid: i64,
    /// Of a range.
    pages: i64,
}

/// The index, if it is a BRIN one that the session's user may work on.
async fn own_brin(conn: &mut PgConnection) -> Result<Option<Brin>, sqlx::Error> {
    const FIND: &str = "SELECT index.oid::bigint, coalesce((SELECT option_value::bigint FROM pg_options_to_table(index.reloptions) \
           WHERE option_name = 'pages_per_range'), 128) \
         FROM pg_index JOIN pg_class AS index ON index.oid = indexrelid JOIN pg_am ON pg_am.oid = index.relam \
         WHERE indrelid = 'processed_messages'::regclass AND amname = 'brin' AND pg_has_role(index.relowner, 'USAGE') LIMIT 1";
    let row = sqlx::query(FIND)
        .persistent(false)
        .fetch_optional(conn)
        .await?;
    let Some(row) = row else {
        return Ok(None);
    };
    Ok(Some(Brin {
        oid: row.try_get(0)?,
        pages: row.try_get::<i64, _>(1)?.max(1),
    }))
}
