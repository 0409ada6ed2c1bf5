use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{AttrStyle, Expr, ItemFn, ReturnType, Type};

use crate::args::{Args, Retries};
use crate::batch::Batch;
use crate::handler::Transaction;
use crate::types;

mod body;
mod door;
mod message;
mod register;
mod signature;

use door::Door;

/// What the arguments say, as the expansion passes it on.
pub(crate) struct Plan {
    door: Door,
    /// Lists the handler among those of the program.
    register: Option<TokenStream>,
    /// The statements that make the message, or those of a batch.
    message: TokenStream,
    /// Where `replay` is written.
    replay: Option<Span>,
    /// Where `time` is written.
    time: Option<Span>,
    retries: Option<Retries>,
    is_batch: bool,
    batch: Option<Batch>,
    has_pool: bool,
    pool: Option<Expr>,
}

impl Plan {
    /// Arguments that were reported as wrong are left out, as far as callers do not see them.
    pub(crate) fn new(args: Args, name: &Ident, batch: Option<Batch>, is_right: bool) -> Self {
        let door = Door::new(args.root.clone());
        let key = args.key.as_ref();
        let message = match (key.map(|key| &key.expression), &batch) {
            (Some(key), Some(batch)) if is_right => message::batch(&args, key, batch, &door),
            (Some(key), None) if is_right => message::one(&args, key, &door),
            _ => message::unknown(args.has("each"), &door),
        };
        Self {
            register: key
                .filter(|_| is_right)
                .map(|key| register::call(&args, name, key, &door)),
            message,
            door,
            replay: args.written("replay").filter(|_| is_right).map(Ident::span),
            time: args.written("time").filter(|_| is_right).map(Ident::span),
            is_batch: args.has("each"),
            batch,
            has_pool: args.has("pool"),
            retries: args.retries.filter(|_| is_right),
            pool: args.pool.filter(|_| is_right),
        }
    }
}

/// A name of the macro's own: it neither sees nor hides the user's.
fn own(name: &str) -> Ident {
    Ident::new(name, Span::mixed_site())
}

/// `async fn f(tx: &mut C, ..) -> Result<T, E> { body }` becomes `async fn f(tx: impl Source<..>, ..) -> Result<Outcome<T>, E>` around the
/// body, as `expansion.md` shows.
pub(crate) fn handler(item: &ItemFn, transaction: &Transaction, plan: &Plan) -> TokenStream {
    let attrs = item.attrs.iter().map(|attribute| {
        // An inner attribute cannot stay where it is printed.
        let mut attribute = attribute.clone();
        attribute.style = AttrStyle::Outer;
        attribute
    });
    let unit = Type::Verbatim(quote!(()));
    let result = match &item.sig.output {
        ReturnType::Type(_, result) => result,
        ReturnType::Default => &unit,
    };
    let (vis, outer) = (&item.vis, signature::outer(&item.sig, transaction, plan));
    let [failed, slot] = ["failed", "slot"].map(own);
    let (private, message) = (plan.door.path(), &plan.message);
    let convert = body::about_error("failed", &TokenStream::new(), result, &plan.door);
    let codec = plan.replay.map(|span| codec(span, result, &plan.door));
    let register = &plan.register;
    let by_day = plan
        .time
        .and_then(|span| by_day(span, &transaction.ty, &plan.door));
    let delivery = Delivery {
        item,
        transaction,
        result,
        plan,
    };
    let deliver = match &plan.retries {
        Some(retries) => delivery.again(retries),
        None => delivery.once(),
    };
    quote! {
        #(#attrs)* #vis #outer {
            #register
            let #failed = #convert;
            #codec
            #by_day
            #message
            let mut #slot = #private::Slot::new();
            #deliver
        }
    }
}

/// How values are kept. Without the library's feature the complaint is shown on `replay`, and about the type on the type.
fn codec(span: Span, result: &Type, door: &Door) -> TokenStream {
    let (codec, private, value) = (own("codec"), door.at(span), body::value_type(result, door));
    let call = quote_spanned!(span=> #private::replay::<#value>());
    quote!(let #codec = #call;)
}

/// Only PostgreSQL has the table by days, and any other type has to prove that it is of PostgreSQL. The complaint is shown on `time`.
fn by_day(span: Span, transaction: &Type, door: &Door) -> Option<TokenStream> {
    if types::database(transaction) == Some("Postgres") {
        return None;
    }
    let database = signature::database_at(span, transaction, door);
    let private = door.at(span);
    Some(quote_spanned!(span=> #private::by_day::<#database>();))
}

/// What is known of the delivery where it is printed.
struct Delivery<'a> {
    item: &'a ItemFn,
    transaction: &'a Transaction,
    result: &'a Type,
    plan: &'a Plan,
}

impl Delivery<'_> {
    /// Begin, run the body, finish.
    fn once(&self) -> TokenStream {
        let private = self.plan.door.path();
        let [slot, failed, delivery, outcome] = ["slot", "failed", "delivery", "outcome"].map(own);
        let (begin, finish) = (self.function("begin"), self.function("finish"));
        let message = own(if self.plan.is_batch {
            "messages"
        } else {
            "message"
        });
        let (source, codec, fresh) = (self.source(), self.codec(), self.fresh());
        let (run, returned) = (self.run(), self.returned());
        quote! {
            let mut #delivery = match #private::#begin(&mut #slot, #source, &#message, #failed #codec).await {
                #private::Begun::Fresh(#delivery) => #delivery,
                #private::Begun::Ended(#outcome) => return #outcome,
            };
            #fresh
            #run
            #delivery.#finish(#returned, #failed #codec).await
        }
    }

    /// The same in a loop. It stands where `retries` does, so that a parameter which the body uses up is complained about there.
    fn again(&self, retries: &Retries) -> TokenStream {
        let private = self.plan.door.path();
        let [slot, failed, delivery, outcome] = ["slot", "failed", "delivery", "outcome"].map(own);
        let [message, pool, source, again] = ["message", "pool", "source", "retries"].map(own);
        let (begin, finish) = (self.function("begin"), self.function("finish"));
        let (codec, run, returned) = (self.codec(), self.run(), self.returned());
        let conflicts = body::about_error("conflicts", &quote!(, _), self.result, &self.plan.door);
        let number = &retries.number;
        // What the pool is taken from outlives the first run.
        let (keep, first) = if self.plan.has_pool {
            let borrowed = self.pool();
            (
                quote!(let #pool = #borrowed;),
                self.of_pool(&pool.into_token_stream()),
            )
        } else {
            (quote!(), self.source())
        };
        let mut run_again = Group::new(
            Delimiter::Brace,
            quote! {
                let mut #delivery = match #private::#begin(&mut #slot, &mut #source, &#message, #failed #codec, &mut #again).await {
                    #private::Attempt::Fresh(#delivery) => #delivery,
                    #private::Attempt::Ended(#outcome) => return #outcome,
                    #private::Attempt::Again => continue,
                };
                #run
                match #delivery.#finish(#returned, #failed #codec, &mut #again).await {
                    #private::Finished::Ended(#outcome) => return #outcome,
                    #private::Finished::Again => {}
                }
            },
        );
        let [start, end] = retries.spans;
        run_again.set_span(end);
        let repeat = quote_spanned!(start=> loop);
        quote! {
            let mut #again = #private::Retries::new(#number, #conflicts);
            #keep
            let mut #source = #private::Option::Some(#first);
            #repeat #run_again
        }
    }

    /// The name of a function of the runtime, for this kind of delivery.
    fn function(&self, name: &str) -> Ident {
        let Plan {
            is_batch,
            replay,
            retries,
            ..
        } = self.plan;
        let batch = if *is_batch { "_batch" } else { "" };
        let replay = if replay.is_some() { "_replay" } else { "" };
        let again = if retries.is_some() { "_again" } else { "" };
        format_ident!("{name}{batch}{replay}{again}")
    }

    /// Where the transaction comes from.
    fn source(&self) -> TokenStream {
        if self.plan.has_pool {
            return self.of_pool(&self.pool());
        }
        signature::source_name(self.transaction).into_token_stream()
    }

    fn of_pool(&self, borrowed: &TokenStream) -> TokenStream {
        let span = self
            .plan
            .pool
            .as_ref()
            .map_or_else(Span::call_site, Spanned::span);
        let private = self.plan.door.at(span);
        let database = signature::database(&self.transaction.ty, &self.plan.door);
        quote_spanned!(span=> #private::pool::<#database>(#borrowed))
    }

    fn pool(&self) -> TokenStream {
        let private = self.plan.door.path();
        let pool = self.plan.pool.as_ref();
        pool.map_or_else(|| quote!(#private::returns()), message::borrow)
    }

    /// What replays a value, as a last argument.
    fn codec(&self) -> Option<TokenStream> {
        let codec = own("codec");
        self.plan.replay.map(|_| quote!(, #codec))
    }

    /// The fresh ones of the messages, under the parameter's own pattern.
    fn fresh(&self) -> Option<TokenStream> {
        let batch = self.plan.batch.as_ref()?;
        let (delivery, pattern) = (own("delivery"), &batch.messages);
        let messages = message::located(&pattern.ident, batch);
        Some(quote!(let #pattern = #delivery.fresh(#messages);))
    }

    /// Runs the body in the transaction.
    fn run(&self) -> TokenStream {
        let [delivery, span, value] = ["delivery", "span", "result"].map(own);
        let Self {
            item,
            transaction,
            result,
            plan,
        } = self;
        let (pattern, ty) = (&transaction.pattern, signature::elided(&transaction.ty));
        let body = body::body(&item.block, result, plan.retries.is_some(), &plan.door);
        quote! {
            let #span = #delivery.span();
            let #pattern: &mut #ty = #delivery.transaction();
            let #value = #span.within(#body).await;
        }
    }

    fn returned(&self) -> TokenStream {
        body::as_result(&own("result"), self.result, &self.plan.door)
    }
}
