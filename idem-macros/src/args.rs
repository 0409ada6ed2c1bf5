use proc_macro2::{Span, TokenStream, TokenTree};
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::{Expr, Ident, LitStr, Path, Token};

use crate::errors::{Errors, nearest};

mod consumer;
mod each;
mod in_flight;
mod isolation;
mod numbers;
mod reader;
mod window;
mod written;

pub(crate) use each::Each;
pub(crate) use in_flight::InFlight;
pub(crate) use numbers::Retries;
use reader::{Reader, next_argument};
pub(crate) use window::{CENTURY, Window};
pub(crate) use written::Written;

/// One row per argument: its name, how it is written, and what reads it.
const ARGUMENTS: [Row; 19] = [
    row("key", "key = \"event.id\"", |args, it| {
        args.key = it.written();
    }),
    row("consumer", "consumer = \"billing\"", |args, it| {
        args.consumer = consumer::read(it);
    }),
    row(
        "business_key",
        "business_key = \"event.order_id\"",
        |args, it| {
            args.business_key = it.expression();
        },
    ),
    row("replay", "replay", |_, it| {
        it.flag(" to have a duplicate return what the first delivery returned");
    }),
    row(
        "fingerprint",
        "fingerprint = \"event.amount\"",
        |args, it| {
            args.fingerprint = it.expression();
        },
    ),
    row("version", "version = \"event.version\"", |args, it| {
        args.version = it.expression();
    }),
    row("gapless", "gapless = 1", |args, it| {
        args.gapless = numbers::gapless(it);
    }),
    row("in_flight", "in_flight = \"fail\"", |args, it| {
        args.in_flight = in_flight::read(it);
    }),
    row("isolation", "isolation = \"serializable\"", |args, it| {
        args.isolation = isolation::read(it);
    }),
    row("retries", "retries = 3", |args, it| {
        args.retries = numbers::retries(it);
    }),
    row("each", "each = \"event in events\"", |args, it| {
        args.each = each::read(it);
    }),
    row("retain", "retain = \"7d\"", |args, it| {
        args.retain = window::retain(it);
    }),
    row("redelivery", "redelivery = \"4d\"", |args, it| {
        args.redelivery = window::redelivery(it);
    }),
    row(
        "business_retain",
        "business_retain = \"365d\"",
        |args, it| {
            args.business_retain = window::retain(it);
        },
    ),
    row("time", "time = \"event.time\"", |args, it| {
        args.time = it.written();
    }),
    row("from_plain", "from_plain", |_, it| {
        it.flag(" while claims move from the plain table to the one by days");
    }),
    row("pool", "pool = \"self.pool\"", |args, it| {
        args.pool = it.expression();
    }),
    row("allow_pool", "allow_pool", |_, it| {
        it.flag(" to permit a pool among the parameters");
    }),
    row("crate", "crate = \"my_crate::idem\"", |args, it| {
        args.root = it.value("the path of the library", Path::parse_mod_style);
    }),
];

/// What other libraries call them, too far from ours to be a slip.
const SYNONYMS: [(&str, &str); 15] = [
    ("retry", "retries"),
    ("timeout", "in_flight"),
    ("batch", "each"),
    ("ttl", "retain"),
    ("expire", "retain"),
    ("expires", "retain"),
    ("expiry", "retain"),
    ("retention", "retain"),
    ("keep", "retain"),
    ("keep_for", "retain"),
    ("window", "retain"),
    ("timestamp", "time"),
    ("occurred_at", "time"),
    ("created_at", "time"),
    ("event_time", "time"),
];

struct Row {
    name: &'static str,
    form: &'static str,
    read: Read,
}

type Read = fn(&mut Args, &mut Reader<'_, '_>);

const fn row(name: &'static str, form: &'static str, read: Read) -> Row {
    Row { name, form, read }
}

/// The arguments as they were written. An argument that is there but wrong has no value, was reported, and counts as written: it is not
/// missed on top.
#[derive(Default)]
pub(crate) struct Args {
    pub(crate) key: Option<Written>,
    pub(crate) consumer: Option<LitStr>,
    pub(crate) business_key: Option<Expr>,
    pub(crate) fingerprint: Option<Expr>,
    pub(crate) version: Option<Expr>,
    /// The first version.
    pub(crate) gapless: Option<Expr>,
    pub(crate) in_flight: Option<InFlight>,
    /// By its name in the runtime.
    pub(crate) isolation: Option<Ident>,
    pub(crate) retries: Option<Retries>,
    pub(crate) each: Option<Each>,
    pub(crate) retain: Option<Window>,
    pub(crate) redelivery: Option<Window>,
    pub(crate) business_retain: Option<Window>,
    pub(crate) time: Option<Written>,
    pub(crate) pool: Option<Expr>,
    /// The path under which the library is found.
    pub(crate) root: Option<Path>,
    /// What is written, or meant by a misspelt name, in this order.
    written: Vec<(&'static str, Ident)>,
    /// The first value that stands without a name.
    positional: Option<TokenTree>,
}

pub(crate) fn parse(tokens: TokenStream, errors: &mut Errors) -> Args {
    let mut args = Args::default();
    let parser = |input: ParseStream<'_>| {
        while !input.is_empty() {
            if let Err(error) = args.parse_one(input, errors) {
                errors.push(error);
            }
            skip_to_comma(input)?;
        }
        Ok(())
    };
    if let Err(error) = parser.parse2(tokens) {
        errors.push(error);
    }
    args
}

impl Args {
    /// The name of an argument where it is written.
    pub(crate) fn written(&self, name: &str) -> Option<&Ident> {
        self.written
            .iter()
            .find(|(written, _)| *written == name)
            .map(|(_, at)| at)
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.written(name).is_some()
    }

    /// Two arguments in the order in which they are written, if both are, and where the second one is.
    pub(crate) fn both(&self, pair: [&str; 2]) -> Option<(&'static str, &'static str, &Ident)> {
        let mut both = self.written.iter().filter(|(name, _)| pair.contains(name));
        let ((first, _), (second, at)) = (both.next()?, both.next()?);
        Some((first, second, at))
    }

    fn parse_one(&mut self, input: ParseStream<'_>, errors: &mut Errors) -> syn::Result<()> {
        if !input.peek(Ident::peek_any) {
            let value: TokenTree = input.parse()?;
            if matches!(value, TokenTree::Literal(_)) {
                self.positional.get_or_insert(value);
                return Ok(());
            }
            return Err(syn::Error::new_spanned(
                value,
                format!("expected an argument by its name: {}", names()),
            ));
        }
        let name = Ident::parse_any(input)?;
        let Some(row) = ARGUMENTS.iter().find(|row| name == row.name) else {
            self.unknown(&name, errors);
            return Ok(());
        };
        if self.has(row.name) {
            errors.at(
                &name,
                format!("`{name}` is given twice; keep the one you mean"),
            );
            return Ok(());
        }
        (row.read)(self, &mut Reader::new(&name, row.form, input, errors));
        self.written.push((row.name, name));
        Ok(())
    }

    fn unknown(&mut self, at: &Ident, errors: &mut Errors) {
        let name = at.to_string();
        let synonym = SYNONYMS.iter().find(|(other, _)| name == *other);
        let meant = synonym.map(|(_, meant)| *meant);
        match meant.or_else(|| nearest(&name, ARGUMENTS.iter().map(|row| row.name))) {
            Some(meant) => {
                errors.at(
                    at,
                    format!("there is no argument `{name}`; did you mean `{meant}`?"),
                );
                if !self.has(meant) {
                    self.written.push((meant, at.clone()));
                }
            }
            None => errors.at(
                at,
                format!("there is no argument `{name}`; there are {}", names()),
            ),
        }
    }

    /// Reports what is missing, in a form that can be pasted: `example` is an expression over a parameter of the handler, which starts at
    /// `item`.
    pub(crate) fn check_present(&self, example: &str, item: Span, errors: &mut Errors) {
        let (key, consumer) = (!self.has("key"), !self.has("consumer"));
        if let Some(value) = &self.positional {
            errors.at(value, positional(value, key, consumer, example));
            return;
        }
        let fault = match (key, consumer) {
            (true, true) => format!(
                "`#[idempotent]` has to know what identifies a message and who consumes it; write `#[idempotent(key = \"{example}\", consumer = \"billing\")]`"
            ),
            (true, false) => format!(
                "`key` is missing: what is equal in all deliveries of one message and differs between messages; add `key = \"{example}\"`"
            ),
            (false, true) => "`consumer` is missing: the name under which this handler remembers its messages, so that other handlers may process them too; add `consumer = \"billing\"`".to_owned(),
            (false, false) => return,
        };
        errors.at_attribute(item, fault);
    }
}

/// The advice for a value without a name, which is most likely meant for what is missing.
fn positional(value: &TokenTree, key: bool, consumer: bool, example: &str) -> String {
    let form = match (key, consumer) {
        (true, false) => format!("`key = {value}`"),
        (false, true) => format!("`consumer = {value}`"),
        _ => format!("`key = \"{example}\", consumer = \"billing\"`"),
    };
    format!("every argument has a name, so that key and consumer are not confused; write {form}")
}

fn names() -> String {
    let names: Vec<String> = ARGUMENTS
        .iter()
        .map(|row| format!("`{}`", row.name))
        .collect();
    names.join(", ")
}

/// After an argument, whatever is left of it was reported already. Where the comma is missing, the next argument is read all the same.
fn skip_to_comma(input: ParseStream<'_>) -> syn::Result<()> {
    while !input.is_empty() && !starts_argument(input) {
        if input.parse::<Option<Token![,]>>()?.is_some() {
            return Ok(());
        }
        input.parse::<TokenTree>()?;
    }
    Ok(())
}

fn starts_argument(input: ParseStream<'_>) -> bool {
    next_argument(input).is_some_and(|name| ARGUMENTS.iter().any(|row| name == row.name))
}
