use syn::Ident;

use super::reader::Reader;
use crate::errors::nearest;
use crate::types::text;

/// As SQL calls them, and as the runtime does.
const LEVELS: [(&str, &str); 4] = [
    ("read uncommitted", "ReadUncommitted"),
    ("read committed", "ReadCommitted"),
    ("repeatable read", "RepeatableRead"),
    ("serializable", "Serializable"),
];

pub(super) fn read(it: &mut Reader<'_, '_>) -> Option<Ident> {
    let level = it.string("the value of `isolation` stands in quotes", |value| {
        let name = text(value).to_lowercase();
        let name = name.rsplit("::").next().unwrap_or_default();
        let meant = nearest(name, LEVELS.map(|(sql, _)| sql));
        format!("isolation = \"{}\"", meant.unwrap_or("serializable"))
    })?;
    let written = level.value();
    // SQL's keywords are often written in capitals.
    let name = written.to_lowercase().replace('_', " ");
    if let Some((_, level_name)) = LEVELS.iter().find(|(sql, _)| name == *sql) {
        return Some(Ident::new(level_name, level.span()));
    }
    let name = name.replace('-', " ");
    let advice = match nearest(&name, LEVELS.map(|(sql, _)| sql)) {
        Some(meant) => format!("write `isolation = \"{meant}\"`"),
        None => format!("there are `{}`", LEVELS.map(|(sql, _)| sql).join("`, `")),
    };
    it.fault(
        level,
        format!("there is no isolation level `{written}`; {advice}"),
    );
    None
}
